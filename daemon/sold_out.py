"""What had nothing to rent is left alone for a while, longer each time."""

from datetime import datetime, timedelta

from sqlmodel import Session, col, select

from config.reason import Reason
from config.settings import ChooseSettings
from daemon.models import Machine, SoldOutMemory
from runner.provider import Denied, ProviderError, QuotaExceeded

_LONGEST = timedelta(hours=1)
_DENIED_FOR = timedelta(minutes=10)


def remember(session: Session, choose: ChooseSettings, machine: Machine, error: ProviderError, now: datetime) -> Reason:
    """Note why a launch was refused, and return the sentence."""
    pool = str(machine.offer["pool"])
    if isinstance(error, QuotaExceeded):
        family = f"{machine.cloud}/{machine.region}/{machine.offer['family']}/{machine.market}"
        until = _close(session, family, "quota", choose.quota_for, now)
        return Reason("refused.quota", {"family": family, "why": str(error), "for_s": (until - now).total_seconds()})
    if isinstance(error, Denied):
        until = _close(session, machine.cloud, "denied", _DENIED_FOR, now)
        return Reason(
            "refused.denied", {"cloud": machine.cloud, "why": str(error), "for_s": (until - now).total_seconds()}
        )
    until = _close(session, pool, "sold-out", choose.sold_out_for, now)
    return Reason("refused.sold_out", {"offer": pool, "for_s": (until - now).total_seconds()})


def interrupted(session: Session, choose: ChooseSettings, pool: str, now: datetime) -> None:
    """Leave the pool that just took a machine away alone for a while."""
    _close(session, pool, "interrupted", choose.interrupted_for, now)


def closed(session: Session, now: datetime) -> dict[str, tuple[datetime, str]]:
    """Return what is left alone now: pool, family or cloud, until when and why."""
    rows = session.exec(select(SoldOutMemory).where(col(SoldOutMemory.until) > now))
    return {row.key: (row.until, row.why) for row in rows}


def _close(session: Session, key: str, why: str, first: timedelta, now: datetime) -> datetime:
    row = session.get(SoldOutMemory, key)
    # Refused again soon after it was tried again: wait twice as long. Long ago: begin anew.
    times = row.times + 1 if row and now - row.until < _LONGEST else 1
    until: datetime = now + min(first * 2 ** min(times - 1, 10), max(_LONGEST, first))
    session.merge(SoldOutMemory(key=key, until=until, times=times, why=why))
    return until

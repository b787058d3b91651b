"""The outbox: what is due, what came of it, and when to try again."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlmodel import Session, col, or_, select, update

from config.settings import AlertSettings
from daemon.alerts.senders import DIGEST_KINDS, Outcome
from daemon.models import Endpoint, Outbox

# After the first try: the example of the Standard Webhooks specification, 75 hours in all.
SCHEDULE = tuple(timedelta(seconds=s) for s in (5, 300, 1800, 7200, 18000, 36000, 50400, 72000, 86400))
_LONGEST_WAIT = timedelta(days=1)
_LONGEST_LIFE = sum(SCHEDULE, timedelta(0)) * 1.1
_MOST_JOINED = 10


@dataclass(frozen=True)
class Delivery:
    """One try: the messages that go to one endpoint now (several for a chat, joined into one)."""

    endpoint: str
    ids: tuple[int, ...]
    bodies: tuple[dict[str, Any], ...]
    tries: int


def next_batch(
    session: Session, endpoints: Mapping[str, AlertSettings], now: datetime, busy: set[str]
) -> list[Delivery]:
    """Return what is due, at most one try for each endpoint, in the order of the events. `busy` ones wait."""
    off = set(session.exec(select(Endpoint.name).where(col(Endpoint.disabled_at).is_not(None))))
    _bury(session, off, now)
    found = []
    for name, endpoint in endpoints.items():
        if name in busy or name in off:
            continue
        most = _MOST_JOINED if endpoint.kind in DIGEST_KINDS else 1
        rows = session.exec(
            select(Outbox)
            .where(Outbox.endpoint == name, col(Outbox.delivered_at).is_(None), col(Outbox.dead_at).is_(None))
            .order_by(col(Outbox.id))
            .limit(most)
        ).all()
        # The first message decides: nothing overtakes it, so that a receiver sees events in their order.
        if rows and rows[0].next_at is not None and rows[0].next_at <= now:
            found.append(Delivery(name, tuple(r.id or 0 for r in rows), tuple(r.payload for r in rows), rows[0].tries))
    return found


def apply(session: Session, delivery: Delivery, outcome: Outcome, now: datetime, rng: random.Random) -> None:
    """Write down what came of a try."""
    these = update(Outbox).where(col(Outbox.id).in_(delivery.ids))
    if outcome.delivered:
        session.execute(
            these.values(delivered_at=now, next_at=None, tries=col(Outbox.tries) + 1, last_answer=outcome.answer)
        )
        return
    if outcome.switch_off:
        session.merge(Endpoint(name=delivery.endpoint, disabled_at=now, disabled_because=outcome.answer))
        session.execute(these.values(tries=col(Outbox.tries) + 1, last_answer=outcome.answer))
        _bury(session, {delivery.endpoint}, now)
        return
    wait = wait_after(delivery.tries, outcome.retry_after, rng) or SCHEDULE[0]
    session.execute(these.values(tries=col(Outbox.tries) + 1, last_answer=outcome.answer, next_at=now + wait))
    # Each message of a chat has its own tries, and one that waited behind others for days is not waited for as long again.
    spent = or_(col(Outbox.tries) > len(SCHEDULE), col(Outbox.created_at) < now - _LONGEST_LIFE)
    session.execute(these.where(spent).values(dead_at=now, next_at=None))


def _bury(session: Session, endpoints: set[str], now: datetime) -> None:
    """Give up what waits for endpoints that are switched off; it is listed, not forgotten."""
    if endpoints:
        waiting = (
            col(Outbox.endpoint).in_(endpoints),
            col(Outbox.delivered_at).is_(None),
            col(Outbox.dead_at).is_(None),
        )
        session.execute(update(Outbox).where(*waiting).values(dead_at=now, next_at=None))


def wait_after(tries: int, retry_after: timedelta | None, rng: random.Random) -> timedelta | None:
    """Return how long to wait after the try number `tries` (from 0) failed, None to give up."""
    if tries >= len(SCHEDULE):
        return None
    wait = SCHEDULE[tries] * (1 + rng.random() * 0.1)
    # Never sooner than the schedule says: a server that always answers "in a second" would have had all tries at once.
    return max(wait, min(retry_after or wait, _LONGEST_WAIT))


def dead_letters(session: Session) -> list[Outbox]:
    """Return the messages that nobody took."""
    return list(session.exec(select(Outbox).where(col(Outbox.dead_at).is_not(None)).order_by(col(Outbox.id))))

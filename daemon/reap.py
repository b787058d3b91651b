"""The sweep alone: list what the clouds have with our tag, and end what the database does not know."""

from typing import Any

from sqlmodel import Session, col, select

from config.clock import SystemClock
from config.settings import Settings
from daemon.database import open_reader
from daemon.models import Installation, Machine
from daemon.states import MACHINE_LIVE
from daemon.wiring import build_providers
from runner.provider import Condition


def sweep(settings: Settings, *, end: bool) -> list[dict[str, Any]]:
    """Return the machines that carry our tag and that no live row knows, ended if asked. Raises ProviderError."""
    path = settings.under_state_dir("frugald.db")
    if not path.exists():
        return []
    engine = open_reader(path)
    try:
        with Session(engine) as session:
            owner = session.exec(select(Installation.install_id)).one()
            live = session.exec(select(Machine).where(col(Machine.state).in_(MACHINE_LIVE))).all()
    finally:
        engine.dispose()
    known = {m.provider_id for m in live} | {m.token for m in live}
    found = []
    for name, provider in build_providers(settings, owner, SystemClock()).items():
        for machine in provider.machines():
            if machine.condition is Condition.GONE or machine.id in known or machine.token in known:
                continue
            if end:
                provider.terminate(machine.id)
            found.append(
                {"cloud": name, "machine": machine.id, "launched_at": machine.launched_at.isoformat(), "ended": end}
            )
    return found

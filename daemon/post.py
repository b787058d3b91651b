"""Send what is in the outbox: one try for each endpoint at a time, so that a dead one blocks no other."""

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from config.settings import Settings
from daemon.alerts import Delivery, Outcome, apply, next_batch, outbox_rows, send
from daemon.alerts.senders import PACE
from daemon.models import Event, Outbox
from daemon.world import World


class Post:
    """Carries alerts out."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._endpoints = {endpoint.name: endpoint for endpoint in world.settings.alerts}
        self._busy: set[str] = set()
        self._last: dict[str, datetime] = {}

    def run_once(self, now: datetime) -> dict[str, int]:
        """Start every try that is due; return how many."""
        if not self._endpoints:
            return {"tries": 0}
        resting = {
            name for name, at in self._last.items() if now - at < PACE.get(self._endpoints[name].kind, now - now)
        }
        with self.world.database.write() as session:
            batch = next_batch(session, self._endpoints, now, self._busy | resting)
        for delivery in batch:
            self._busy.add(delivery.endpoint)
            self._last[delivery.endpoint] = now
            work = partial(send, self._endpoints[delivery.endpoint], delivery.bodies, now)
            self.world.calls.submit(f"post:{delivery.endpoint}", work, partial(self._sent, delivery))
        return {"tries": len(batch)}

    def _sent(self, delivery: Delivery, outcome: Any) -> None:  # noqa: ANN401 - an Outcome, or an exception nobody expected
        self._busy.discard(delivery.endpoint)
        if isinstance(outcome, Exception):
            outcome = Outcome(delivered=False, answer=f"{type(outcome).__name__}: {outcome}")
        now = self.world.clock.now()
        with self.world.database.write() as session:
            apply(session, delivery, outcome, now, self.world.rng)
        if outcome.delivered:
            self.run_once(now)  # the next one may follow at once


def alerting(settings: Settings, install: Callable[[], str]) -> Callable[[Event], Sequence[Outbox]]:
    """Return what turns an event into messages."""
    return lambda event: outbox_rows(event, settings.alerts, install(), settings.currency)

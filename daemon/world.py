"""Everything that comes in from outside, in one place; built by `main`, or by a test with fakes."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

from config.clock import Clock
from config.settings import Settings
from config.units import Money
from daemon.calls import Calls
from daemon.database import Database
from daemon.events import Journal
from daemon.jobfile import JobSpec
from daemon.models import Job
from pricing.bill import BillSource
from pricing.offer import PriceSource
from runner.provider import Provider
from runner.store import Store
from runner.store.grants import MachineKeys

_LETTERS = "23456789abcdefghjkmnpqrstvwxyz"  # no two that look alike


class Ids:
    """Makes names that nobody else has."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def new(self, prefix: str, letters: int = 8) -> str:
        """Return `prefix` and that many random letters and digits."""
        return prefix + "".join(self._rng.choice(_LETTERS) for _ in range(letters))


@dataclass
class World:
    """What the loops share: the ports, the settings, and what they remember between two steps."""

    settings: Settings
    clock: Clock
    rng: random.Random
    ids: Ids
    database: Database
    journal: Journal
    store: Store
    calls: Calls
    providers: Mapping[str, Provider]
    sources: tuple[PriceSource, ...]
    bills: tuple[BillSource, ...] = ()
    grants: Mapping[str, MachineKeys] = field(default_factory=dict)  # clouds that hand out credentials for machines
    bundle: tuple[str, str] = ("", "")  # the agent's key in the store and its sha256
    credentials: Path | None = None
    wake: Callable[[], None] = lambda: None  # asks for a step soon
    on_failure: Callable[[str, Exception], None] = lambda _what, _error: None
    failures: list[tuple[str, str]] = field(default_factory=list)
    specs: dict[str, JobSpec] = field(default_factory=dict)

    def spec(self, job: Job) -> JobSpec:
        """Return a job's parsed file; it never changes, so it is read once."""
        if job.id not in self.specs:
            self.specs[job.id] = JobSpec.from_json(job.spec)
        return self.specs[job.id]

    def in_currency(self, money: Money) -> Money:
        """Return an amount in the accounting currency. Raises ValueError when no rate is set for its own."""
        if money.currency == self.settings.currency:
            return money
        rate = self.settings.rates.get(money.currency)
        if rate is None:
            raise ValueError(f"no rate for {money.currency}: set `rates.{money.currency}` in the settings")
        return Money(int(money.micro * Decimal(str(rate))), self.settings.currency)

    def journal_failure(self, what: str, error: Exception) -> None:
        """Report that a call failed for no reason that we know how to handle; it is tried again."""
        self.failures.append((what, str(error)))
        del self.failures[:-100]
        self.on_failure(what, error)

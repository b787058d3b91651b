"""The daemon's loops in one room with a fake cloud, fake agents and a clock that the test moves."""

import random
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from sqlmodel import select

from config.settings import Settings
from daemon.accounts import Accounts
from daemon.calls import InlineCalls
from daemon.carry_out import CarryOut
from daemon.control import Control, Decisions
from daemon.database import Database, open_database
from daemon.events import Journal
from daemon.handover import Handover
from daemon.intake import set_budget
from daemon.jobfile import read_job
from daemon.machines import Listings
from daemon.models import Attempt, Budget, Event, Job, Ledger, Machine
from daemon.money import read_purse
from daemon.prices import Prices
from daemon.reports import Reports
from daemon.states import JobState
from daemon.world import Ids, World
from pricing.offer import Market, Offer, Pool, Quota
from runner.store.memory import MemoryStore
from tests.fakes.agents import FakeAgents
from tests.fakes.clock import FakeClock
from tests.fakes.cloud import FakeAccount, FakeCloud

GIB = 1024**3
JOB = """\
run: python train.py
resources: {gpu_memory: 12GB, use_spot: auto}
checkpoint: {interval: 1m, grace: 10s}
"""


class FakeSource:
    """Prices to set: one pool for each (zone, market)."""

    name = "fake"

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.hourly: dict[tuple[str, Market], int] = {
            ("zone-a", Market.SPOT): 400_000,
            ("zone-b", Market.SPOT): 500_000,
            ("zone-c", Market.SPOT): 600_000,
            ("zone-a", Market.ON_DEMAND): 1_500_000,
            ("zone-b", Market.ON_DEMAND): 1_600_000,
        }
        self.quota: list[Quota] = []
        self.broken: Exception | None = None

    def offers(self, now: datetime) -> Iterable[Offer]:
        if self.broken:
            raise self.broken
        ceiling = max(self.hourly.values())
        return [
            Offer(
                pool=Pool("fake", "region", zone, "gpu.small", market),
                gpu="T4",
                gpus=1,
                gpu_memory=14 * GIB,
                vcpus=4,
                memory=16 * GIB,
                hourly_micro=price,
                ceiling_micro=price if market is Market.ON_DEMAND else ceiling,
                as_of=now,
                family="gpu",
                boot=timedelta(seconds=30),
                notice=timedelta(minutes=2),
            )
            for (zone, market), price in self.hourly.items()
        ]

    def quotas(self, now: datetime) -> Sequence[Quota]:
        return self.quota


class House:
    """Everything; `run(seconds)` lets time pass in steps of one tick."""

    def __init__(
        self, folder: Path, *, tick_s: float = 5, settings: dict[str, Any] | None = None, **cloud: Any
    ) -> None:
        self.folder = folder
        self.tick_s = tick_s
        self.settings = Settings.model_validate(
            {
                "state_dir": str(folder),
                "charge_every": "10s",
                "lease": {"length": "5m", "longest": "20m", "shortest": "1m", "boot": "5m", "end": "30s"},
            }
            | (settings or {})
        )
        self.clock = FakeClock()
        self.store = MemoryStore()
        self.account = FakeAccount()
        self.cloud = FakeCloud(self.clock, "install", self.account, **cloud)
        self.source = FakeSource(self.clock)
        self.agents = FakeAgents(self.clock, self.store, self.cloud)
        self.seed = random.Random(7)
        self.start()

    def start(self) -> None:
        """Build the daemon anew, as after a restart."""
        self.database: Database = open_database(self.folder / "frugald.db", "install", self.clock.now())
        self.control = Control()
        self.faults: list[Exception] = []
        self.world = World(
            settings=self.settings,
            clock=self.clock,
            rng=self.seed,
            ids=Ids(self.seed),
            database=self.database,
            journal=Journal(),
            store=self.store,
            calls=InlineCalls(self.control.post),
            providers={"fake": self.cloud},
            sources=(self.source,),
            bundle=("agents/x.pyz", "0" * 64),
        )
        self.world.on_failure = lambda what, error: self.faults.append(error)
        self.control.on_failure = lambda name, error: self.faults.append(error)
        self.prices = Prices(self.world)
        self.carry_out = CarryOut(self.world)
        self.loops = [
            self.prices,
            Reports(self.world),
            Listings(self.world),
            Handover(self.world),
            Decisions(self.world, self.prices),
            self.carry_out,
            Accounts(self.world),
        ]
        self.carry_out.adopt(self.clock.now())

    def crash(self) -> None:
        """Let the daemon die: what was committed stays, everything else is forgotten."""
        self.database.close()

    def tick(self) -> None:
        """Let one tick pass for everybody."""
        self.clock.advance(self.tick_s)
        self.agents.step()
        for loop in self.loops:
            loop.run_once(self.clock.now())
            self.control.drain()
        if self.faults:
            raise self.faults[0]

    def run(self, seconds: float) -> None:
        for _ in range(int(seconds / self.tick_s)):
            self.tick()

    def run_until(self, job: str, *states: JobState, within_s: float = 7200) -> None:
        for _ in range(int(within_s / self.tick_s)):
            if self.job(job).state in states:
                return
            self.tick()
        raise AssertionError(f"{job} is {self.job(job).state} ({self.job(job).reason_code}), not {states}")

    def submit(
        self, name: str, text: str = JOB, *, user: str = "wei", project: str = "vision", work_s: float = 600
    ) -> str:
        """Queue one job and return its id."""
        spec = read_job(text.encode(), f"{name}.yaml")[0]
        now = self.clock.now()
        job_id = self.world.ids.new("j")
        with self.database.write() as session:
            session.add(
                Job(
                    id=job_id,
                    name=spec.name,
                    user=user,
                    project=spec.project or project,
                    state=JobState.QUEUED,
                    state_since=now,
                    spec=spec.to_json(),
                    content_key=job_id,
                    submitted_at=now,
                    priority=spec.priority,
                    not_before=spec.not_before,
                )
            )
            if spec.cap:
                set_budget(self.world, session, "job", job_id, "total", spec.cap.micro, spec.at_cap, now)
        self.agents.work_s[job_id] = work_s
        return job_id

    def budget(self, scope: str, subject: str, period: str, cap_micro: int, at_cap: str = "stop") -> None:
        with self.database.write() as session:
            set_budget(self.world, session, scope, subject, period, cap_micro, at_cap, self.clock.now())

    # ------------------------------------------------------------------ what a test looks at

    def job(self, job_id: str) -> Job:
        with self.database.write() as session:
            return session.get_one(Job, job_id)

    def all(self, table: Any) -> list[Any]:
        with self.database.write() as session:
            return list(session.exec(select(table)))

    def machines(self) -> list[Machine]:
        return sorted(self.all(Machine), key=lambda m: m.intended_at)

    def attempts(self, job_id: str) -> list[Attempt]:
        return sorted((a for a in self.all(Attempt) if a.job_id == job_id), key=lambda a: a.n)

    def events(self, prefix: str = "") -> list[Event]:
        return [e for e in self.all(Event) if e.code.startswith(prefix) and not e.code.endswith(".state")]

    def codes(self, prefix: str = "") -> list[str]:
        return [e.code for e in self.events(prefix)]

    def overdrawn(self) -> list[Any]:
        """Return the budgets whose cap is passed: always empty."""
        with self.database.write() as session:
            return read_purse(session, self.clock.now(), self.settings.zone).overdrawn()

    def check_money(self) -> None:
        """The ledger, its sums and the caps agree, at every moment."""
        with self.database.write() as session:
            assert read_purse(session, self.clock.now(), self.settings.zone).overdrawn() == []
            by_job: dict[str, int] = {}
            for row in session.exec(select(Ledger)):
                by_job[row.job_id] = by_job.get(row.job_id, 0) + row.amount_micro
            for job in session.exec(select(Job)):
                assert job.cost_micro == by_job.get(job.id, 0)

    def check_writers(self) -> None:
        """No two attempts of a job ever ran at the same time."""
        assert [w for w in self.agents.writers if len(w[2]) > 1] == []

    def caps(self) -> list[Budget]:
        return self.all(Budget)

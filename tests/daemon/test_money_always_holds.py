"""Random prices, jobs, interruptions, faults and restarts: after every step no cap is passed and nobody writes twice."""

import random
import shutil
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlmodel import select

from daemon import jobs
from daemon.answers import Answers
from daemon.commands import Cancel, Hold, Release
from daemon.models import Job, Machine
from daemon.states import JOB_TERMINAL, MachineState
from pricing.offer import Market, Pool
from runner.provider import ProviderError, SoldOut, Throttled
from tests.daemon.house import JOB, House

ZONES = ("zone-a", "zone-b", "zone-c")


class Weather:
    """Everything that may happen to a House, drawn from one random source."""

    def __init__(self, house: House, rng: random.Random) -> None:
        self.house = house
        self.rng = rng
        self.jobs: list[str] = []
        self.seen: set[str] = set()  # kinds of things that did happen

    def step(self) -> None:
        kinds = ["pass"] * 12 + [
            "submit",
            "price",
            "interrupt",
            "vanish",
            "sold_out",
            "lose",
            "crash",
            "budget",
            "cancel",
            "hold",
            "release",
            "deaf",
            "throttle",
            "sleep",
            "unlist",
        ]
        kind = self.rng.choice(kinds)
        self.seen.add(kind)
        getattr(self, f"_{kind}")()
        self._tick()

    def settle(self) -> None:
        """Let the faults stop: everything that is open must come to an end, or wait with a sentence."""
        house = self.house
        house.cloud.sold_out.clear()
        for job in self.jobs:
            house.agents.work_s[job] = 60
        self._until_ended(200)
        for row in house.all(Job):
            assert row.state in JOB_TERMINAL or row.reason_code, row
        for job in self.jobs:
            self._ask(Cancel(job))
        self._until_ended(200)
        assert {row.state for row in house.all(Job)} <= JOB_TERMINAL
        assert house.cloud.billed == []
        assert {m.state for m in house.all(Machine)} <= {MachineState.GONE}

    def _until_ended(self, ticks: int) -> None:
        """Let time pass until every job has ended and every machine is gone, or for so many ticks."""
        for _ in range(ticks):
            jobs_over = all(row.state in JOB_TERMINAL for row in self.house.all(Job))
            if jobs_over and all(row.state == MachineState.GONE for row in self.house.all(Machine)):
                return
            self._tick()

    def _tick(self) -> None:
        house = self.house
        try:
            house.tick()
        except ProviderError:
            house.faults.clear()  # a cloud's refusal is told and changes nothing
        house.check_money()
        house.check_writers()
        with house.database.write() as session:
            for job in session.exec(select(Job.id)):
                alive = jobs.alive(session, job)
                assert len([a for a in alive if a.state in jobs.WRITERS]) <= 1

    def _pass(self) -> None:
        pass

    def _sleep(self) -> None:
        """The daemon is dead for a while; machines are not."""
        self.house.crash()
        for _ in range(self.rng.randrange(1, 60)):
            self.house.clock.advance(20)
            self.house.agents.step()
        self.house.start()

    def _crash(self) -> None:
        """Die in the middle of a round of loops."""
        house = self.house
        house.clock.advance(house.tick_s)
        house.agents.step()
        for loop in house.loops[: self.rng.randrange(len(house.loops))]:
            loop.run_once(house.clock.now())
            if self.rng.random() < 0.7:
                house.control.drain()
        house.faults.clear()
        house.crash()
        house.start()

    def _submit(self) -> None:
        budget = f"budget: {self.rng.randrange(1, 60) / 100} USD\n" if self.rng.random() < 0.5 else ""
        text = JOB + budget + f"priority: {self.rng.randrange(3)}\n"
        user, project = self.rng.choice(["wei", "li"]), self.rng.choice(["vision", "speech"])
        self.jobs.append(
            self.house.submit(
                f"job{len(self.jobs)}", text, user=user, project=project, work_s=self.rng.randrange(30, 4000)
            )
        )

    def _price(self) -> None:
        for key in self.house.source.hourly:
            if key[1] is Market.SPOT:
                self.house.source.hourly[key] = self.rng.randrange(200_000, 1_490_000)

    def _interrupt(self) -> None:
        billed = self.house.cloud.billed
        if billed:
            notice = timedelta(seconds=self.rng.choice([0, 30, 120]))
            self.house.cloud.interrupt(self.rng.choice(billed).id, self.house.clock.now() + notice, notice)

    def _vanish(self) -> None:
        if self.house.cloud.billed:
            self.house.cloud.finish(self.rng.choice(self.house.cloud.billed).id)

    def _deaf(self) -> None:
        if self.house.cloud.billed:
            self.house.agents.deaf.add(self.rng.choice(self.house.cloud.billed).id)

    def _sold_out(self) -> None:
        pool = Pool("fake", "region", self.rng.choice(ZONES), "gpu.small", Market.SPOT)
        self.house.cloud.sold_out ^= {pool}

    def _lose(self) -> None:
        self.house.cloud.lose_next_answer = True

    def _throttle(self) -> None:
        call = self.rng.choice(["launch", "machines", "find", "terminate", "notices"])
        error = SoldOut("none left") if call == "launch" and self.rng.random() < 0.5 else Throttled("slow down")
        self.house.cloud.next_error[call] = error

    def _unlist(self) -> None:
        self.house.cloud.next_error["machines"] = Throttled("slow down")

    def _budget(self) -> None:
        scope, subject = self.rng.choice([("all", ""), ("user", "wei"), ("project", "vision"), ("cloud", "fake")])
        period = self.rng.choice(["hour", "day", "total"])
        spent = max((row.spent_micro for row in self.house.all(Machine)), default=0)
        # A cap below what is spent or leased already is passed before it is set; raising is what people do.
        leased = sum(row.leased_micro for row in self.house.all(Machine))
        everything = sum(row.spent_micro for row in self.house.all(Machine)) + leased
        self.house.budget(scope, subject, period, everything + spent + self.rng.randrange(0, 800_000))

    def _ask(self, command: Cancel | Hold | Release) -> None:
        Answers(self.house.world, self.house.prices, self.house.control.post).answer(command, self.house.clock.now())

    def _cancel(self) -> None:
        if self.jobs:
            self._ask(Cancel(self.rng.choice(self.jobs)))

    def _hold(self) -> None:
        if self.jobs:
            self._ask(Hold(self.rng.choice(self.jobs)))

    def _release(self) -> None:
        if self.jobs:
            self._ask(Release(self.rng.choice(self.jobs)))


@pytest.mark.slow
@settings(
    max_examples=5, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
@given(seed=st.integers(0, 2**32))
def test_whatever_happens_no_cap_is_passed(seed: int, tmp_path_factory: pytest.TempPathFactory, template: Path) -> None:
    folder = tmp_path_factory.mktemp("house")
    shutil.copy(template, folder / "frugald.db")
    house = House(folder, tick_s=15)
    try:
        weather = Weather(house, random.Random(seed))
        house.budget("all", "", "total", 3_000_000)
        for _ in range(120):
            weather.step()
        weather.settle()
    finally:
        house.crash()

"""Advice on reserved capacity, from the ledger and from what the sources say."""

import shutil
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from daemon.models import Ledger
from daemon.reserved import Reserved, answer
from pricing.commitments import ReservedOffering
from pricing.offer import SourceError
from tests.daemon.house import FakeSource, House
from tests.daemon.test_database import a_machine
from tests.fakes.clock import START

HOUR = timedelta(hours=1)


class Shop(FakeSource):
    """A source that knows what can be reserved."""

    asked = 0
    shut = False

    def reserved_offerings(self, now: datetime) -> Sequence[ReservedOffering]:
        self.asked += 1
        if self.shut:
            raise SourceError("no answer")
        return [an_offering(600_000), an_offering(900_000, term_hours=8760)]


def an_offering(hourly: int, *, term_hours: int = 26280, kind: str = "t") -> ReservedOffering:
    return ReservedOffering(kind, "r", term_hours, "All Upfront", "standard", hourly, hourly * term_hours)


@pytest.fixture
def house(tmp_path: Path, template: Path) -> Iterator[House]:
    shutil.copy(template, tmp_path / "frugald.db")
    house = House(tmp_path)
    house.source = Shop(house.clock)
    house.world.sources = (house.source,)
    yield house
    house.crash()


def ran(house: House, hours: int, *, hourly: int = 1_000_000, market: str = "spot", days_ago: float = 25) -> None:
    with house.database.write() as session:
        machine = a_machine(f"m-{market}-{days_ago}", market=market, state="gone")
        session.add(machine)
        start = START - days_ago * 24 * HOUR
        session.add_all(
            Ledger(
                machine_id=machine.id, job_id="j1", user="wei", project="vision", cloud="fake",
                from_at=start + n * HOUR, to_at=start + (n + 1) * HOUR, amount_micro=hourly,
            )
            for n in range(hours)
        )  # fmt: skip


def advised(house: House) -> dict[str, object]:
    reserved = Reserved(house.world)
    house.loops = [reserved]
    house.tick()
    with house.database.write() as session:
        return answer(session, reserved.offerings, house.clock.now())


def test_what_was_run_long_enough_would_have_paid(house: House) -> None:
    ran(house, 500)
    (used,) = advised(house)["used"]
    assert (used["cloud"], used["region"], used["type"]) == ("fake", "r", "t")
    assert (used["hours"], used["cost_micro"]) == (500, 500_000_000)
    best, other = used["offerings"]
    assert (best["effective_hourly_micro"], best["pays"]) == (600_000, True)
    assert best["hours_needed"] == pytest.approx(0.6 * 730)
    assert best["saved_micro"] == pytest.approx((500 * 730 / 720 - 0.6 * 730) * 1_000_000, abs=5)
    assert (other["pays"], other["never"]) == (False, False)


def test_capacity_that_is_owned_and_what_is_long_ago_do_not_count(house: House) -> None:
    ran(house, 10, market="reserved")
    ran(house, 10, days_ago=40)
    assert advised(house)["used"] == []


def test_without_a_source_that_knows_offerings_nothing_is_known(house: House) -> None:
    house.world.sources = (FakeSource(house.clock),)
    ran(house, 10)
    found = advised(house)
    assert found["known"] == 0
    assert found["used"][0]["offerings"] == []


def test_offerings_are_asked_for_once_a_day_and_a_failure_keeps_the_old_ones(house: House) -> None:
    reserved = Reserved(house.world)
    house.loops = [reserved]
    house.tick_s = 3600
    house.run(20 * 3600)
    assert house.source.asked == 1
    house.source.shut = True
    with pytest.raises(SourceError):
        house.run(10 * 3600)
    house.faults.clear()
    assert len(reserved.offerings["fake"]) == 2
    house.source.shut = False
    house.run(2 * 3600)
    assert house.source.asked == 3

"""Once a day the ledger is compared with the clouds' bills, and a person hears of differences."""

import shutil
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from pathlib import Path

import pytest

from config.reason import Reason
from daemon import views
from daemon.bills import Bills
from daemon.models import BillCheck, Ledger, Machine
from pricing.bill import BilledDay, BillError
from tests.daemon.house import House
from tests.daemon.test_database import a_machine
from tests.fakes.clock import START

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
FIRST = START.date()


class FakeBill:
    """A bill to write; `asked` are the spans that were paid for."""

    name = "fake"

    def __init__(self) -> None:
        self.lines: list[BilledDay] = []
        self.asked: list[tuple[date, date]] = []
        self.broken: Exception | None = None

    def days(self, since: date, until: date) -> Sequence[BilledDay]:
        self.asked.append((since, until))
        if self.broken:
            raise self.broken
        return [line for line in self.lines if since <= line.day < until]

    def has(
        self, machine: str, micro: int, day: date = FIRST, currency: str = "USD", *, estimated: bool = True
    ) -> None:
        self.lines = [line for line in self.lines if (line.day, line.machine) != (day, machine)]
        self.lines.append(BilledDay(day, machine, micro, currency, estimated))


@pytest.fixture
def bill() -> FakeBill:
    return FakeBill()


@pytest.fixture
def house(tmp_path: Path, template: Path, bill: FakeBill) -> Iterator[House]:
    shutil.copy(template, tmp_path / "frugald.db")
    house = House(tmp_path)
    house.world.bills = (bill,)
    house.loops = [Bills(house.world)]
    spent(house, "m1", 10_000_000)
    yield house
    house.crash()


def spent(house: House, machine: str, micro: int, hours: float = 1) -> None:
    """Let a machine have cost so much in the hour that begins `hours` after the start."""
    at = START + hours * HOUR
    with house.database.write() as session:
        if session.get(Machine, machine) is None:
            session.add(a_machine(machine, state="gone"))
        session.add(
            Ledger(
                machine_id=machine,
                job_id="j1",
                user="wei",
                project="vision",
                cloud="fake",
                from_at=at,
                to_at=at + HOUR,
                amount_micro=micro,
            )
        )


def days_pass(house: House, days: float) -> None:
    """Let time pass with a look at the bills every hour, as the daemon looks."""
    house.tick_s = 3600
    house.run(days * 86_400)


def test_a_day_is_compared_once_it_is_two_days_old_and_asked_for_once_a_day(house: House, bill: FakeBill) -> None:
    bill.has("m1", 10_000_000)
    days_pass(house, 1)
    assert bill.asked == []
    days_pass(house, 3)
    assert [until for _, until in bill.asked] == [FIRST + DAY, FIRST + 2 * DAY, FIRST + 3 * DAY]
    assert {since for since, _ in bill.asked} == {FIRST}
    assert set(house.codes()) == {"bill.checked"}


def test_a_restart_does_not_ask_again(house: House, bill: FakeBill) -> None:
    bill.has("m1", 10_000_000)
    days_pass(house, 2)
    house.loops = [Bills(house.world)]
    days_pass(house, 0.25)
    assert len(bill.asked) == 1


def test_a_machine_that_was_billed_more_is_told_once_with_both_amounts(house: House, bill: FakeBill) -> None:
    spent(house, "m2", 20_000_000)
    bill.has("m1", 10_400_000)
    bill.has("m2", 20_100_000)
    days_pass(house, 5)
    (told,) = house.events("bill.drift")
    sentence = str(Reason(told.code, told.values))
    assert "billed $30.50" in sentence
    assert "the ledger has $30.00" in sentence
    assert "machine m1 of job j1: $10.40 billed, $10.00 in the ledger" in sentence
    assert "frugald costs --month 2026-03 --by machine" in sentence
    assert told.values["machines"] == 1


def test_it_is_told_again_when_the_bill_moves_on(house: House, bill: FakeBill) -> None:
    bill.has("m1", 10_400_000)
    days_pass(house, 3)
    bill.has("m1", 12_000_000)
    days_pass(house, 2)
    assert [told.values["billed_micro"] for told in house.events("bill.drift")] == [10_400_000, 12_000_000]


@pytest.mark.parametrize(
    ("ledger", "billed", "told"),
    [
        (10_000_000, 10_200_000, 0),
        (10_000_000, 10_210_000, 1),
        (10_000_000, 9_700_000, 1),
        (100_000, 149_000, 0),
        (100_000, 151_000, 1),
        (10_000_000, 0, 1),
    ],
)
def test_differences_count_above_two_percent_and_five_cents(
    house: House, bill: FakeBill, ledger: int, billed: int, told: int
) -> None:
    spent(house, "m2", ledger)
    bill.has("m1", 10_000_000)
    bill.has("m2", billed)
    days_pass(house, 3)
    assert len(house.events("bill.drift")) == told


def test_what_the_bill_names_no_machine_for_is_told_as_that(house: House, bill: FakeBill) -> None:
    bill.has("m1", 10_000_000)
    bill.has("", 3_000_000)
    days_pass(house, 3)
    (told,) = house.events("bill.drift")
    assert "names no machine for: $3.00 billed, $0.00 in the ledger" in str(Reason(told.code, told.values))


def test_spending_across_midnight_is_shared_out(house: House, bill: FakeBill) -> None:
    spent(house, "m2", 4_000_000, hours=14.75)  # 23:45 to 00:45
    bill.has("m1", 10_000_000)
    bill.has("m2", 1_000_000)
    bill.has("m2", 3_000_000, FIRST + DAY)
    days_pass(house, 4)
    assert house.codes("bill.drift") == []
    rows = {(row.day, row.machine): row.ledger_micro for row in house.all(BillCheck)}
    assert rows[str(FIRST), "m2"] == 1_000_000
    assert rows[str(FIRST + DAY), "m2"] == 3_000_000


def test_tags_that_are_not_activated_are_told_once_with_how_to(house: House, bill: FakeBill) -> None:
    bill.has("", 10_000_000)
    days_pass(house, 5)
    (told,) = house.events()
    assert told.code == "bill.unchecked"
    assert "activate the cost allocation tags" in str(Reason(told.code, told.values))


def test_a_refusal_is_told_once_and_the_comparison_comes_when_it_is_gone(house: House, bill: FakeBill) -> None:
    bill.broken = BillError(Reason("billing.denied", {"why": "AccessDeniedException"}))
    days_pass(house, 4)
    bill.broken = None
    bill.has("m1", 10_000_000)
    days_pass(house, 1)
    assert house.codes() == ["bill.unchecked", "bill.checked"]
    assert "ce:GetCostAndUsage" in str(Reason("bill.unchecked", house.events()[0].values))


def test_another_currency_needs_its_rate(house: House, bill: FakeBill) -> None:
    bill.has("m1", 70_000_000, currency="CNY")
    days_pass(house, 2)
    assert "rates.CNY" in str(Reason("bill.unchecked", house.events()[0].values))
    house.world.settings = house.settings.model_copy(update={"rates": {"CNY": 1 / 7}})
    days_pass(house, 1)
    assert house.codes()[1:] == ["bill.checked"]


def test_the_last_comparison_can_be_looked_at(house: House, bill: FakeBill) -> None:
    bill.has("m1", 10_100_000)
    days_pass(house, 3)
    with house.database.write() as session:
        (shown,) = views.bills(session)
    assert (shown["cloud"], shown["since"], shown["until"]) == ("fake", str(FIRST), str(FIRST))
    assert (shown["billed_micro"], shown["ledger_micro"], shown["estimated"]) == (10_100_000, 10_000_000, True)


def test_nothing_is_asked_where_nothing_was_spent(house: House, bill: FakeBill) -> None:
    days_pass(house, 60)
    asked = len(bill.asked)
    days_pass(house, 5)
    assert len(bill.asked) == asked

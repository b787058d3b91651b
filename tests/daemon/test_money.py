"""The ledger keeps what the cloud bills in its own currency, with the rate."""

from datetime import timedelta

from sqlmodel import select

from daemon import money, views
from daemon.database import Database
from daemon.models import Ledger, Machine, Spending
from tests.daemon.test_budgets import UTC_ZONE
from tests.daemon.test_database import a_job, a_machine
from tests.fakes.clock import START


def rented(database: Database) -> None:
    native = {"native": {"currency": "CNY", "rate": "0.14"}}
    with database.write() as session:
        session.add_all([a_job(), a_machine(
            offer=native, hourly_micro=1_400_000, highest_hourly_micro=2_800_000, charged_until=START, seen_at=START + timedelta(hours=1),
            lease_until=START + timedelta(hours=2), leased_micro=5_600_000,
        )])  # fmt: skip


def test_an_hour_is_charged_once_in_both_currencies(database: Database) -> None:
    rented(database)
    for _ in range(2):
        with database.write() as session:
            money.charge_seen(session, session.get_one(Machine, "m1"), START + timedelta(hours=3), UTC_ZONE)
    with database.write() as session:
        (row,) = session.exec(select(Ledger)).all()
        machine = session.get_one(Machine, "m1")
        (cost,) = views.costs(session, START, START + timedelta(days=1), "cloud")
    assert (row.amount_micro, row.native_amount, row.native_currency, row.fx_rate) == (
        1_400_000,
        "10.000000",
        "CNY",
        "0.14",
    )
    assert (machine.spent_micro, machine.leased_micro) == (1_400_000, 2_800_000)
    assert (cost["native_amount"], cost["machines"]) == ("10.000000", ["m1"])


def test_nothing_is_charged_beyond_what_the_cloud_has_confirmed(database: Database) -> None:
    rented(database)
    with database.write() as session:
        machine = session.get_one(Machine, "m1")
        assert money.charge_seen(session, machine, START + timedelta(hours=5), UTC_ZONE) == 1_400_000
        assert money.charge(session, machine, START + timedelta(hours=1), UTC_ZONE) == 0


def test_the_sums_by_scope_and_hour_are_those_of_the_ledger(database: Database) -> None:
    rented(database)
    with database.write() as session:
        machine = session.get_one(Machine, "m1")
        money.charge(session, machine, START + timedelta(minutes=90), UTC_ZONE)
    with database.write() as session:
        sums: dict[str, int] = {}
        for row in session.exec(select(Spending)):
            sums[row.scope] = sums.get(row.scope, 0) + row.amount_micro
    assert sums == dict.fromkeys(("all", "project", "user", "cloud", "job"), 2_100_000)

"""In advise mode everything is decided and told, and nothing is rented or ended."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from daemon import views
from daemon.models import Decision, Job
from daemon.states import JobState
from pricing.offer import Market
from runner.provider import LaunchRequest
from tests.daemon.house import House


@pytest.fixture
def house(tmp_path: Path, template: Path) -> Iterator[House]:
    shutil.copy(template, tmp_path / "frugald.db")
    house = House(tmp_path, settings={"mode": "advise"})
    house.cloud.abilities = replace(house.cloud.abilities, real_money=True)  # and no monthly cap is set
    yield house
    house.crash()


def asked(house: House) -> set[str]:
    """Return the kinds of calls that the cloud has seen."""
    return {call for call, _ in house.cloud.calls}


def test_a_job_is_told_what_would_be_rented_and_nothing_is(house: House) -> None:
    job = house.submit("train")
    house.run(600)
    assert house.job(job).state == JobState.QUEUED
    assert house.machines() == house.attempts(job) == []
    assert "launch" not in asked(house)
    (told,) = house.events("job")
    assert (told.code, told.values["pool"], told.values["hourly_micro"]) == (
        "job.advised",
        "fake/zone-a/gpu.small/spot",
        400_000,
    )


def test_the_reason_and_why_show_the_offer_its_price_and_the_runners_up(house: House) -> None:
    job = house.submit("train")
    house.run(10)
    with house.database.write() as session:
        shown = views.why(session, session.get_one(Job, job))
    assert "would rent T4 spot in fake/zone-a at $0.400/h" in shown["reason"]
    assert "advise mode" in shown["reason"]
    (decision,) = shown["decisions"]
    assert decision["winner"]["zone"] == "zone-a"
    assert [other["zone"] for other in decision["runners_up"]] == ["zone-b", "zone-c", "zone-a"]


def test_it_is_told_again_only_when_the_choice_changes_or_saves_more_than_a_twentieth(house: House) -> None:
    job = house.submit("train")
    spot = ("zone-a", Market.SPOT)
    heard = []
    for price in (400_000, 390_000, 450_000, 379_000, 550_000):  # at the last, zone-b is cheaper
        house.source.hourly[spot] = price
        house.run(10)
        heard.append(len(house.events("job.advised")))
    assert heard == [1, 1, 1, 2, 3]
    assert house.events("job.advised")[-1].values["pool"] == "fake/zone-b/gpu.small/spot"
    assert house.job(job).reason_values["hourly_micro"] == 500_000
    (decision,) = house.all(Decision)
    assert decision.winner["zone"] == "zone-b"


def test_a_restart_tells_nothing_twice(house: House) -> None:
    house.submit("train")
    house.run(30)
    house.crash()
    house.start()
    house.run(30)
    assert house.codes("job") == ["job.advised"]


def test_more_jobs_than_may_be_launched_in_a_minute_are_all_advised(house: House) -> None:
    jobs = [house.submit(f"train{n}") for n in range(25)]
    house.run(5)
    assert {house.job(job).reason_code for job in jobs} == {"wait.advise"}


def test_a_budget_without_room_holds_the_job_as_it_would_when_renting(house: House) -> None:
    house.budget("all", "", "month", 1000)
    job = house.submit("train")
    house.run(30)
    assert house.codes("job.advised") == []
    assert house.job(job).reason_code == "budget.no_room"


def test_a_machine_that_nobody_knows_is_told_once_and_left_alone(house: House) -> None:
    offer = next(iter(house.source.offers(house.clock.now())))
    house.cloud.launch(
        LaunchRequest(
            "token", offer, None, 0, "", {"frugald:owner": "install", "frugald:machine": "m0"}, timedelta(days=1)
        )
    )
    house.run(3600)
    (told,) = house.events("machine")
    assert told.code == "machine.leaked"
    assert "terminate" not in asked(house)
    assert len(house.cloud.billed) == 1


def test_machines_from_before_are_neither_lengthened_nor_ended(tmp_path: Path, template: Path) -> None:
    shutil.copy(template, tmp_path / "frugald.db")
    renting = House(tmp_path)
    job = renting.submit("train", work_s=7200)
    renting.run_until(job, JobState.RUNNING)
    renting.settings = renting.settings.model_copy(update={"mode": "advise"})
    renting.crash()
    renting.start()
    renting.cloud.calls.clear()
    leased = renting.machines()[0].lease_until
    renting.run(3600)
    (machine,) = renting.machines()
    assert machine.lease_until in {None, leased}
    assert not {"launch", "terminate"} & asked(renting)
    renting.crash()

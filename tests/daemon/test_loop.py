"""The whole loop in virtual time: what happens to jobs, machines and money."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from daemon.models import Job, SoldOutMemory
from daemon.states import JobState, MachineState
from pricing.offer import Market, Pool
from runner.provider import Denied, QuotaExceeded, Throttled
from tests.daemon.house import JOB, House


@pytest.fixture
def house(tmp_path: Path, template: Path) -> Iterator[House]:
    shutil.copy(template, tmp_path / "frugald.db")
    house = House(tmp_path)
    yield house
    house.crash()


def pool(zone: str, market: Market = Market.SPOT) -> Pool:
    return Pool("fake", "region", zone, "gpu.small", market)


def test_a_job_runs_on_the_cheapest_spot_offer_and_its_machine_ends(house: House) -> None:
    job = house.submit("train")
    house.run_until(job, JobState.SUCCEEDED)
    house.run(60)
    (machine,) = house.machines()
    assert (machine.state, machine.zone, machine.market) == (MachineState.GONE, "zone-a", "spot")
    assert house.cloud.billed == []
    done = house.job(job)
    assert (done.step, done.attempts, done.interruptions, done.exit_code) == (600, 1, 0, 0)
    assert 0 < done.cost_micro == machine.spent_micro < done.on_demand_micro
    assert house.codes("job") == ["job.placed", "job.started", "job.finished"]
    house.check_money()


def test_an_interrupted_job_has_its_next_machine_before_the_first_is_gone(house: House) -> None:
    job = house.submit("train", work_s=900)
    house.run_until(job, JobState.RUNNING)
    house.run(300)
    first = house.machines()[0]
    house.cloud.interrupt(first.provider_id, house.clock.now() + timedelta(minutes=2))
    house.run_until(job, JobState.SUCCEEDED)
    house.run(60)
    first, second = house.machines()
    assert second.intended_at < first.ended_at
    assert (first.zone, second.zone) == ("zone-a", "zone-b")  # not the pool that has just taken one away
    old, new = house.attempts(job)
    assert (old.outcome, new.outcome) == ("interrupted", "succeeded")
    assert new.restored_step == old.checkpoint_step > 200
    done = house.job(job)
    assert (done.interruptions, done.failures, done.attempts) == (1, 0, 2)
    assert house.codes("job") == [
        "job.placed",
        "job.started",
        "job.interrupted",
        "job.placed",
        "job.resumed",
        "job.finished",
    ]
    house.check_money()
    house.check_writers()


def test_an_interruption_without_notice_goes_on_from_the_last_checkpoint(house: House) -> None:
    job = house.submit("train", work_s=900)
    house.run_until(job, JobState.RUNNING)
    house.run(335)
    house.cloud.interrupt(house.machines()[0].provider_id, house.clock.now(), timedelta(0))
    house.run_until(job, JobState.SUCCEEDED)
    old, new = house.attempts(job)
    assert 0 < new.restored_step == old.checkpoint_step
    assert house.job(job).lost_s > 0
    house.check_writers()


def test_a_silent_machine_is_given_up_and_its_successor_waits_for_the_lease_to_end(house: House) -> None:
    house.world.settings = house.settings.model_copy(update={"silent_after": timedelta(seconds=60)})
    job = house.submit("train", work_s=1200)
    house.run_until(job, JobState.RUNNING)
    house.run(120)
    first = house.machines()[0]
    house.agents.deaf.add(first.provider_id)
    house.run_until(job, JobState.SUCCEEDED, within_s=4 * 3600)
    house.check_writers()
    assert "job.lost" in house.codes()


def test_sold_out_offers_are_remembered_and_the_next_one_is_taken(house: House) -> None:
    house.cloud.sold_out |= {pool("zone-a"), pool("zone-b")}
    job = house.submit("train")
    house.run_until(job, JobState.SUCCEEDED)
    assert [m.zone for m in house.machines()] == ["zone-a", "zone-b", "zone-c"]
    assert {row.key for row in house.all(SoldOutMemory)} == {str(pool("zone-a")), str(pool("zone-b"))}
    assert house.job(job).failures == 0


def test_a_quota_closes_the_whole_family(house: House) -> None:
    house.cloud.next_error["launch"] = QuotaExceeded("MaxSpotInstanceCountExceeded")
    job = house.submit("train")
    house.run_until(job, JobState.SUCCEEDED)
    assert [m.market for m in house.machines()] == ["spot", "on-demand"]


def test_a_throttled_launch_is_repeated_with_the_same_token(house: House) -> None:
    house.cloud.next_error["launch"] = Throttled("slow down", timedelta(seconds=7))
    job = house.submit("train")
    house.run_until(job, JobState.SUCCEEDED)
    launches = [token for call, token in house.cloud.calls if call == "launch"]
    assert len(launches) == 2
    assert len(set(launches)) == 1


def test_a_lost_answer_is_looked_for_and_not_rented_twice(house: House) -> None:
    house.cloud.lose_next_answer = True
    job = house.submit("train")
    house.run_until(job, JobState.SUCCEEDED)
    assert len(house.account.rented) == 1
    assert "machine.unknown" in house.codes()


def test_a_refusing_cloud_is_left_alone_and_the_job_says_why(house: House) -> None:
    house.cloud.next_error["launch"] = Denied("InvalidClientTokenId")
    job = house.submit("train")
    house.run(60)
    waiting = house.job(job)
    assert waiting.state == JobState.QUEUED
    assert len(house.machines()) == 1
    assert waiting.reason_code == "nothing.closed"


def test_a_failed_listing_is_no_information(house: House) -> None:
    job = house.submit("train", work_s=2000)
    house.run_until(job, JobState.RUNNING)
    house.cloud.next_error = {"machines": Throttled("slow down")}
    with pytest.raises(Throttled):
        house.tick()
    house.faults.clear()
    assert house.job(job).state == JobState.RUNNING
    house.run_until(job, JobState.SUCCEEDED)


def test_a_failing_job_fails_and_its_machine_ends(house: House) -> None:
    job = house.submit("train", work_s=60)
    house.agents.exit_code[job] = 3
    house.run_until(job, JobState.FAILED)
    house.run(60)
    failed = house.job(job)
    assert (failed.exit_code, failed.failures, failed.interruptions) == (3, 1, 0)
    assert house.cloud.billed == []
    (event,) = house.events("job.failed")
    assert event.values["exit_code"] == 3


def test_a_job_that_may_fail_is_tried_again(house: House) -> None:
    job = house.submit("train", JOB + "job_recovery: {max_restarts_on_errors: 2}\n", work_s=60)
    house.agents.exit_code[job] = 3
    house.run_until(job, JobState.FAILED)
    assert (house.job(job).failures, house.job(job).attempts) == (3, 3)


def test_no_capacity_ends_a_job_that_does_not_want_to_wait_for_it(house: House) -> None:
    impatient = house.submit("impatient", "run: x\nresources: {gpu_memory: 80GB}\nretry: {on_events: [interruption]}\n")
    patient = house.submit(
        "patient", "run: x\nresources: {gpu_memory: 80GB}\nretry: {on_events: [no-capacity], duration: 10m}\n"
    )
    house.run(60)
    assert (house.job(impatient).state, house.job(patient).state) == (JobState.FAILED, JobState.QUEUED)
    house.run(600)
    assert house.job(patient).state == JobState.FAILED
    assert house.job(patient).reason_code == "failed.no_capacity"


def test_an_interruption_ends_a_job_that_does_not_want_to_go_on(house: House) -> None:
    job = house.submit("train", JOB + "retry: {on_events: [no-capacity]}\n", work_s=900)
    house.run_until(job, JobState.RUNNING)
    house.run(100)
    house.cloud.interrupt(
        house.machines()[0].provider_id, house.clock.now() + timedelta(minutes=1), timedelta(minutes=1)
    )
    house.run_until(job, JobState.FAILED)
    assert house.job(job).reason_code == "failed.interrupted"
    assert len(house.machines()) == 1
    assert house.job(job).checkpoint_step > 0  # saved all the same


def test_a_job_that_runs_too_long_fails_and_is_not_tried_again(house: House) -> None:
    job = house.submit("train", JOB + "job_recovery: {max_restarts_on_errors: 5}\n", work_s=900)
    house.agents.ends_because[job] = "max_duration"
    house.run_until(job, JobState.RUNNING)
    house.cloud.interrupt(
        house.machines()[0].provider_id, house.clock.now() + timedelta(minutes=1), timedelta(minutes=1)
    )
    house.run_until(job, JobState.FAILED)
    assert house.job(job).reason_code == "failed.max_duration"


def test_exit_code_75_means_start_me_again(house: House) -> None:
    job = house.submit("train", work_s=60)
    house.agents.exit_code[job] = 75
    house.run_until(job, JobState.RECOVERING)
    house.agents.exit_code[job] = 0
    house.run_until(job, JobState.SUCCEEDED)
    assert house.job(job).failures == 0


def test_a_job_stops_below_its_cap_and_goes_on_when_it_is_raised(house: House) -> None:
    job = house.submit("sweep", JOB + "budget: 0.20 USD\n", work_s=3000)
    house.run_until(job, JobState.HELD)
    house.run(120)
    held = house.job(job)
    assert held.reason_code == "hold.budget"
    assert 100_000 < held.cost_micro <= 200_000
    assert held.checkpoint_step > 0
    assert house.cloud.billed == []
    assert house.events("budget.threshold")[0].values["percent"] == 50
    assert house.codes("budget").count("budget.reached") == 1
    house.run(600)
    assert house.job(job).state == JobState.HELD  # it doesn't flap
    house.budget("job", job, "total", 2_000_000)
    house.run_until(job, JobState.SUCCEEDED)
    assert house.attempts(job)[1].restored_step == held.checkpoint_step
    house.check_money()


def test_a_daily_cap_lets_the_job_go_on_the_next_day(house: House) -> None:
    house.budget("all", "", "day", 200_000)
    job = house.submit("train", work_s=3000)
    house.run_until(job, JobState.HELD)
    house.tick_s = 120
    house.run_until(job, JobState.RUNNING, within_s=24 * 3600)
    assert house.clock.now().day == 3
    house.check_money()


def test_a_lease_lets_a_machine_end_on_its_own_when_the_daemon_is_dead(house: House) -> None:
    job = house.submit("train", work_s=100_000)
    house.run_until(job, JobState.RUNNING)
    house.run(600)
    promised = house.machines()[0].lease_until
    for _ in range(600):  # nobody but the agents is alive
        house.clock.advance(5)
        house.agents.step()
    assert house.cloud.billed == []
    house.tick()
    ended = house.machines()[0].ended_at
    assert promised is not None and ended is not None and ended <= promised
    assert house.job(job).checkpoint_step > 0


def test_after_a_restart_the_loop_goes_on_where_it_was(house: House) -> None:
    job = house.submit("train", work_s=900)
    house.run_until(job, JobState.RUNNING)
    house.run(100)
    house.crash()
    house.start()
    house.run_until(job, JobState.SUCCEEDED)
    assert len(house.account.rented) == 1
    assert house.job(job).interruptions == 0


def test_an_intent_that_was_never_asked_for_is_asked_for_after_a_restart(house: House) -> None:
    house.submit("train")
    for loop in (house.prices, house.loops[4]):  # decide and record, then die before the call
        house.clock.advance(1)
        loop.run_once(house.clock.now())
        house.control.drain()
    assert [m.state for m in house.machines()] == [MachineState.INTENDED]
    house.crash()
    house.start()
    house.run(60)
    assert len(house.account.rented) == 1


def test_nothing_is_rented_with_real_money_before_a_monthly_cap_is_set(house: House) -> None:
    object.__setattr__(house.cloud.abilities, "real_money", True)
    job = house.submit("train")
    house.run(60)
    assert house.account.rented == {}
    assert house.job(job).reason_code == "wait.no_cap"
    house.budget("all", "", "month", 50_000_000)
    house.run_until(job, JobState.SUCCEEDED)


def test_a_job_without_checkpoints_goes_to_spot_only_when_it_says_so(house: House) -> None:
    careful = house.submit("careful", "run: x\nresources: {gpu_memory: 12GB}\n")
    bold = house.submit("bold", "run: x\nresources: {gpu_memory: 12GB, use_spot: true}\n")
    house.run_until(careful, JobState.SUCCEEDED)
    house.run_until(bold, JobState.SUCCEEDED)
    markets = {m.job_id: m.market for m in house.machines()}
    assert markets == {careful: "on-demand", bold: "spot"}


def test_a_job_without_its_secret_waits_and_stops_no_other(house: House) -> None:
    (house.folder / "credentials").mkdir()
    house.world.credentials = house.folder / "credentials"
    needy = house.submit("needy", JOB + "secrets: [WANDB_API_KEY]\n")
    other = house.submit("other", work_s=60)
    house.run_until(other, JobState.SUCCEEDED)
    assert house.job(needy).reason_code == "wait.secret"
    (house.folder / "credentials" / "WANDB_API_KEY").write_text("k\n")
    house.run_until(needy, JobState.RUNNING)
    assert b"WANDB_API_KEY" in house.store.get(f"jobs/{needy}/spec.json")


def test_a_job_that_fits_nowhere_waits_with_the_nearest_miss(house: House) -> None:
    job = house.submit("large", "run: x\nresources: {gpu_memory: 80GB}\n")
    house.run(30)
    assert house.job(job).state == JobState.QUEUED
    assert house.job(job).reason_code == "nothing.gpu_memory"


def test_jobs_wait_for_those_they_come_after(house: House) -> None:
    second = house.submit("second", JOB + "after: first\n")
    first = house.submit("first")
    house.run(60)
    assert house.job(second).reason_code == "wait.after"
    house.run_until(second, JobState.SUCCEEDED)
    by_id: dict[str, Job] = {job.id: job for job in house.all(Job)}
    assert by_id[first].finished_at <= next(m for m in house.machines() if m.job_id == second).intended_at


def test_a_machine_that_nobody_knows_is_ended_after_a_grace_time(house: House) -> None:
    job = house.submit("train", work_s=60)
    house.run_until(job, JobState.SUCCEEDED)
    request = next(iter(house.account.rented.values())).request
    stray = house.cloud.launch(
        replace(request, token="stray", guard=timedelta(days=1), tags={**request.tags, "frugald:machine": "stray"})
    )
    house.run(60)
    assert [m.id for m in house.cloud.billed] == [stray.id]
    house.run(120)
    assert house.cloud.billed == []
    assert "machine.leaked" in house.codes()

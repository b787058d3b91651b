"""What the loops really emit: every alert says what was spent, what is still needed and the command that helps."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from daemon.alerts.envelope import ALERTS, LARGEST, envelope
from daemon.alerts.examples import examples
from daemon.states import JobState
from runner.store.records import attempt_key
from tests.daemon.house import JOB, House


@pytest.fixture
def house(tmp_path: Path, template: Path) -> Iterator[House]:
    shutil.copy(template, tmp_path / "frugald.db")
    house = House(tmp_path, tick_s=15)
    yield house
    house.crash()


def bodies(house: House) -> list[dict[str, Any]]:
    return [envelope(event, "install") for event in house.events() if event.code in ALERTS]


def check(house: House, *expected: str) -> None:
    found = bodies(house)
    assert {body["type"] for body in found} >= set(expected)
    for body in found:
        assert "unknown" not in body["text"].replace("still needed: unknown", ""), body["text"]
        assert "-1" not in body["text"], body["text"]
        assert len(json.dumps(body).encode()) < LARGEST
        if body["type"].startswith(("job.", "budget.")):
            assert body["data"]["spent_micro"] >= 0, body["type"]
        if body["type"].startswith(("job.", "budget.", "prices.", "machine.")) or body["type"] == "source.down":
            assert body["data"]["command"].startswith("frugald "), body["type"]
        documented = set(examples()[body["type"]]["data"])
        assert documented <= set(body["data"]) | {"needed", "why_code"}, (body["type"], documented - set(body["data"]))


def test_of_an_interrupted_job(house: House) -> None:
    job = house.submit("train", work_s=900)
    house.run_until(job, JobState.RUNNING)
    house.run(300)
    house.cloud.interrupt(house.machines()[0].provider_id, house.clock.now() + timedelta(minutes=2))
    house.run_until(job, JobState.SUCCEEDED)
    check(house, "job.placed", "job.started", "job.interrupted", "job.resumed", "job.finished")
    (interrupted,) = [body for body in bodies(house) if body["type"] == "job.interrupted"]
    assert interrupted["data"]["needed_micro"] > interrupted["data"]["spent_micro"] > 0


def test_of_an_interruption_before_the_first_step(house: House) -> None:
    job = house.submit("train", work_s=900)
    house.run_until(job, JobState.RUNNING)
    house.cloud.interrupt(house.machines()[0].provider_id, house.clock.now() + timedelta(minutes=2))
    house.run_until(job, JobState.SUCCEEDED)
    check(house)


def test_of_a_job_that_reaches_its_cap(house: House) -> None:
    job = house.submit("sweep", JOB + "budget: 0.20 USD\n", work_s=3000)
    house.run_until(job, JobState.HELD)
    check(house, "budget.threshold", "budget.reached", "job.held")
    (held,) = [body for body in bodies(house) if body["type"] == "job.held"]
    assert held["data"]["command"] == f"frugald budget set job:{job}/total AMOUNT"
    assert held["data"]["why_code"] == "hold.budget"


def test_a_failure_ends_with_the_last_20_lines_of_the_log(house: House) -> None:
    job = house.submit("train", work_s=60)
    house.agents.exit_code[job] = 3
    house.run_until(job, JobState.RUNNING)
    log = "\n".join(f"line {n}" for n in range(50)).encode()
    house.store.put(attempt_key(job, 0, "log/000000"), log)
    (agent,) = house.agents.agents.values()
    assert agent.status is not None
    agent.status = replace(agent.status, log_chunks=1)
    house.run_until(job, JobState.FAILED)
    check(house, "job.failed")
    (failed,) = [body for body in bodies(house) if body["type"] == "job.failed"]
    assert failed["data"]["log_tail"].splitlines() == [f"line {n}" for n in range(30, 50)]
    assert failed["data"]["command"] == f"frugald logs {job}"


def test_of_a_source_that_is_down_and_grows_stale(house: House) -> None:
    house.tick_s = 60
    house.run(60)
    house.source.broken = OSError()
    house.run(house.settings.prices.stale_after.total_seconds() + 60)
    house.source.broken = None
    house.run(60)
    check(house, "source.down", "prices.stale", "source.up")
    assert [body["type"] for body in bodies(house)] == ["source.down", "prices.stale", "source.up"]

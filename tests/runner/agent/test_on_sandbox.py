"""The whole way on the sandbox cloud: bootstrap, bundle, agent, job, and the machine's end."""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from hashlib import sha256
from pathlib import Path

import pytest

from config.settings import SandboxSettings
from pricing.sandbox_market import SandboxMarket
from runner.bootstrap import publish_bundle, user_data
from runner.provider import Condition, LaunchRequest, Machine
from runner.providers.sandbox import SandboxCloud
from runner.store import Store, open_store
from runner.store.records import (
    AttemptStatus,
    BootOrder,
    Command,
    JobOrder,
    Lease,
    Phase,
    attempt_key,
    job_key,
    machine_key,
)
from tests.runner.agent.site import CLOCK, JOB, PYTHON, packed, until
from tests.runner.agent.test_stop import TRAINING

CALM = SandboxSettings(
    seed=1,
    boot=timedelta(0),
    interruptions=False,
    sold_out_share=0,
    throttle_share=0,
    lost_answer_share=0,
    listing_lag=timedelta(0),
)
RUN = f"echo begin\n{PYTHON} train.py\necho after"


class Rental:
    """One job on one machine of the sandbox cloud."""

    def __init__(self, folder: Path) -> None:
        self.store: Store = open_store(f"file://{folder}/store")
        self.cloud = SandboxCloud(folder / "cloud", CALM, "me", CLOCK)

    def rent(self, guard_s: float = 60.0) -> Machine:
        bundle_key, digest = publish_bundle(self.store)
        code = packed(TRAINING)
        self.store.put(job_key(JOB, "code.tar.gz"), code)
        order = JobOrder(JOB, "digits", RUN, code_key=job_key(JOB, "code.tar.gz"), code_sha256=sha256(code).hexdigest())
        self.store.put(job_key(JOB, "spec.json"), order.to_json())
        boot = BootOrder("m-1", [[JOB, 0]], guard_s, bundle_key, digest, tail_s=2)
        self.store.put(machine_key("m-1", "boot.json"), boot.to_json())
        self.store.put(attempt_key(JOB, 0, "command.json"), Command(1, "start").to_json())
        offer = min(SandboxMarket(CALM).offers(CLOCK.now()), key=lambda offer: offer.hourly_micro)
        return self.cloud.launch(
            LaunchRequest(
                token="m-1",
                offer=offer,
                bid_micro=None,
                disk=10,
                guard=timedelta(seconds=guard_s),
                user_data=user_data(self.store.url, "m-1", bundle_key, digest),
                tags={"frugald:owner": "me", "frugald:machine": "m-1"},
            )
        )

    def status(self) -> AttemptStatus:
        key = attempt_key(JOB, 0, "status.json")
        return AttemptStatus.from_json(self.store.get(key)) if self.store.head(key) else AttemptStatus(JOB, 0, "")

    def why_ended(self) -> str:
        """Wait for the machine's end and return why it ended."""
        until(lambda: self.cloud.machines()[0].condition is Condition.GONE)
        return self.cloud.machines()[0].why_ended


@pytest.fixture
def rental(tmp_path: Path) -> Iterator[Rental]:
    found = Rental(tmp_path)
    yield found
    found.cloud.destroy_all()
    assert [path for path in Path("/proc").glob("[0-9]*") if _names(path, tmp_path)] == []


def _names(process: Path, folder: Path) -> bool:
    try:
        text = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
    except OSError:
        return False
    return str(folder).encode() in text


def test_a_machine_that_is_taken_away_saves_and_ends_by_itself(rental: Rental) -> None:
    machine = rental.rent()
    until(lambda: rental.status().step > 3)
    rental.cloud.interrupt(machine.id, timedelta(seconds=10))
    assert rental.why_ended() == "machine_end.exited"  # before the cloud had to take it
    status = rental.status()
    assert (status.phase, status.ended_because, status.checkpoint_step) == (Phase.SAVED, "notice", status.step)


def test_a_lease_keeps_the_guests_timer_away(rental: Rental) -> None:
    machine = rental.rent(guard_s=8.0)
    began = CLOCK.monotonic()
    until(lambda: rental.status().step > 3)
    rental.store.put(machine_key("m-1", "lease.json"), Lease("m-1", 1, 1, 60.0).to_json())
    until(lambda: CLOCK.monotonic() - began > 9)
    assert rental.cloud.machines()[0].condition is Condition.RUNNING
    assert rental.status().phase == Phase.RUNNING
    rental.cloud.terminate(machine.id)
    assert rental.why_ended() == "machine_end.terminated"
    assert rental.status().phase == Phase.SAVED  # in the seconds that a shutdown leaves


@pytest.mark.parametrize("which", [0, 1], ids=["keeper", "agent"])
def test_a_killed_agent_ends_the_machine(rental: Rental, tmp_path: Path, which: int) -> None:
    rental.rent()
    until(lambda: rental.status().step > 3)
    os.kill(sorted(_agents(tmp_path))[which], signal.SIGKILL)
    assert rental.why_ended() == "machine_end.crashed"


def _agents(folder: Path) -> Iterator[int]:
    """Yield the two processes of the agent on this test's machine."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            command = (process / "cmdline").read_bytes()
            if b"agent.pyz" in command and str(folder).encode() in command:
                yield int(process.name)

"""The life of one attempt, told in order: code, setup, the start word, the checkpoint, the command, the end."""

import traceback
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from runner.agent import workdir
from runner.agent.environment import Places, environment
from runner.agent.logs import Log
from runner.agent.mirror import Mirror
from runner.agent.orders import Orders
from runner.agent.outputs import Outputs
from runner.agent.patience import Patience
from runner.agent.program import Program
from runner.agent.repeated import Repeated
from runner.agent.report import Report
from runner.agent.restore import Restore
from runner.agent.shelf import Shelf
from runner.agent.site import Site
from runner.agent.stage import Stage
from runner.agent.work import Verdict, Work
from runner.store import Missing, StoreError
from runner.store.records import Command, JobOrder, Phase, attempt_key, job_key

Result = TypeVar("Result")


class Stopped(Exception):
    """The attempt was told to end before its command ran."""


class SetupFailed(Exception):
    """The job's `setup` ended with an error."""

    def __init__(self, exit_code: int) -> None:
        """Keep how it ended."""
        super().__init__(f"setup ended with exit code {exit_code}")
        self.exit_code = exit_code


class Attempt:
    """One attempt of one job on this machine; `run` is the work of one thread."""

    def __init__(self, site: Site, job: str, number: int) -> None:
        """Prepare; nothing is read before `run`."""
        self.job = job
        self.number = number
        self.orders = Orders()
        self.report = Report(job, number, site.clock)
        self.log = Log(site.store, partial(attempt_key, job, number), self._logged)
        self._site = site
        self._patience = Patience(site.clock, site.pace.retry_s, self.log.say)
        self._mirror: Mirror | None = None

    @property
    def bytes_per_s(self) -> float:
        """The measured rate to the store; 0 while unknown."""
        return self._mirror.bytes_per_s if self._mirror else 0.0

    @property
    def upload_s(self) -> float:
        """How long the last checkpoint would take to send; 0 while unknown, or while there is nothing to save."""
        return self._mirror.upload_s if self._mirror else 0.0

    def run(self) -> None:
        """Live, and end in a terminal phase, told when the log is in the store."""
        shipping = Repeated("log", self._ship, self._site.pace.log_s, self._site.clock, self.log.say)
        shipping.start()
        verdict = self._judged()
        self.log.say(f"this attempt ends: {verdict.phase} ({verdict.because})")
        if shipping.stop(self._site.last_upload_at()):
            self.try_to(partial(self.log.ship, last=True))
        self.report.change(
            phase=verdict.phase, ended_because=verdict.because, exit_code=verdict.exit_code,
            out_of_memory=verdict.out_of_memory,
        )  # fmt: skip

    def _judged(self) -> Verdict:
        try:
            return self._live()
        except Stopped:
            return Verdict(Phase.NOT_SAVED, self.orders.stop.why if self.orders.stop else "lease")
        except SetupFailed as error:
            self.log.say(str(error))
            return Verdict(Phase.FAILED, "setup", error.exit_code)
        except workdir.CodeError as error:
            self.log.say(str(error))
            return Verdict(Phase.FAILED, "setup")
        except Exception:  # noqa: BLE001 - the daemon must hear of it, whatever it is
            self.log.say(traceback.format_exc())
            return Verdict(Phase.FAILED, "failed")

    def _live(self) -> Verdict:
        order = self._patiently(lambda: JobOrder.from_json(self._site.store.get(job_key(self.job, "spec.json"))))
        places = Places.under(self._site.folder, order, self.number)
        self._set_up(order, places)
        self.report.change(phase=Phase.READY)
        command = self._start_word()
        shelf = Shelf(self._site.store, self.job, self.number, order.checkpoint_keep, self._site.clock)
        outputs = Outputs(
            self._site.store, self.job, places.work, places.outputs, order.outputs, self.report, self._site.clock
        )
        stage = Stage(places.checkpoints, places.staging)
        mirror = Mirror(places.checkpoints, stage, shelf, self.report, self._site.clock, self._site.pace)
        mirror.leave_out_present()
        mirror.begin(self._restore(places, command, shelf, outputs))
        self._check()
        self._mirror = mirror
        return Work(self._site, order, places, self, mirror, outputs).run(self.number, command)

    def _set_up(self, order: JobOrder, places: Places) -> None:
        """Fetch the code and run `setup`. Raises Stopped, SetupFailed, CodeError."""
        self.report.change(phase=Phase.SETUP)
        size = self._patiently(lambda: workdir.unpack(self._site.store, order, places.work))
        for folder in (places.outputs, places.checkpoints):
            folder.mkdir(parents=True, exist_ok=True)
        self.log.say(f"unpacked {size} bytes of code" if size else "there is no code to unpack")
        if not order.setup.strip():
            return
        self.log.say("running setup")
        found = environment(self._site.environment, order, self.number, places, self._site.sdk)
        program = Program(order.setup, places.work, found, self.log.write, self._site.clock)
        try:
            while (code := program.exit_code) is None:
                self._wait()
        finally:
            program.kill()
        if code:
            raise SetupFailed(code)

    def _start_word(self) -> Command:
        """Wait until the daemon says that no other attempt writes any more. Raises Stopped."""
        self.log.say("ready, waiting for the start word")
        while self.orders.start is None:
            self._wait()
        return self.orders.start

    def _restore(self, places: Places, command: Command, shelf: Shelf, outputs: Outputs) -> int:
        """Bring back the checkpoint that the start word names, and return its step, -1 without one. Raises Stopped."""
        self.report.change(phase=Phase.RESTORING)
        restore = Restore(self._site.store, self.job, self.report, shelf, partial(self._patiently, may_miss=True))
        manifest = restore.into(places.checkpoints, command)
        if command.previous_attempts:
            self._patiently(outputs.bring_back)
        self.log.say(f"restored the checkpoint of step {manifest.step}" if manifest else "starting from zero")
        return manifest.step if manifest else -1

    def _wait(self) -> None:
        self._check()
        self._site.clock.wait(self.orders.told, self._site.pace.poll_s)
        self.orders.told.clear()

    def _check(self) -> None:
        if self.orders.stop:
            raise Stopped

    def _patiently(self, work: Callable[[], Result], *, may_miss: bool = False) -> Result:
        """Call the store until it answers. Raises Stopped when told to, or when the machine's end comes first."""
        try:
            return self._patience.call(
                work, lambda: 0.0 if self.orders.stop else self._site.horizon.ends_at(), may_miss=may_miss
            )
        except Missing:
            if may_miss:
                raise
            raise Stopped from None
        except StoreError:
            raise Stopped from None

    def try_to(self, work: Callable[[], object]) -> None:
        """Call the store until it answers or there is no time left; then the log says so."""
        try:
            self._patience.call(work, self._site.last_upload_at)
        except (StoreError, OSError) as error:
            self.log.say(f"given up: {error}")

    def _ship(self) -> None:
        self.log.ship()
        if self.log.full and self.report.warn("agent.log_full", size_bytes=self.report.status().log_bytes):
            self.log.say("more output than is kept: from here on only the end will be")

    def _logged(self, size: int, chunks: int) -> None:
        self.report.change(log_bytes=size, log_chunks=chunks)

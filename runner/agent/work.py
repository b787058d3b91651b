"""The job's command: started, watched, stopped in time, and judged by what is in the store."""

import re
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from runner.agent.environment import Places, environment
from runner.agent.logs import Log
from runner.agent.mirror import Mirror
from runner.agent.orders import Orders, Stop
from runner.agent.outputs import Outputs
from runner.agent.program import Program
from runner.agent.repeated import Repeated
from runner.agent.report import Report
from runner.agent.site import Site
from runner.store.records import Command, JobOrder, NoticeRecord, Phase

OUT_OF_MEMORY = re.compile(
    r"torch\.(cuda\.)?OutOfMemoryError|CUDA out of memory|HIP out of memory|CUDA error: out of memory"
    r"|CUBLAS_STATUS_ALLOC_FAILED|CUDNN_STATUS_NOT_INITIALIZED|NCCL .*out of memory|jaxlib.*RESOURCE_EXHAUSTED"
)
_WHY = {"notice": "interruption", "lease": "lease"}  # in a job's words; whatever else stops it is a command
_SECOND_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Verdict:
    """How an attempt ended."""

    phase: str
    because: str
    exit_code: int | None = None
    out_of_memory: bool = False


class Teller(Protocol):
    """The attempt, as far as its command needs it."""

    report: Report
    orders: Orders
    log: Log

    def try_to(self, work: Callable[[], object]) -> None:
        """Call the store until it answers or there is no time left."""


class Work:
    """One run of the command, with its checkpoints and outputs mirrored meanwhile."""

    def __init__(
        self, site: Site, order: JobOrder, places: Places, attempt: Teller, mirror: Mirror, outputs: Outputs
    ) -> None:
        """Prepare; nothing runs before `run`."""
        self._site = site
        self._order = order
        self._places = places
        self._attempt = attempt
        self._report = attempt.report
        self._orders = attempt.orders
        self._log = attempt.log
        self._mirror = mirror
        self._signal = signal.Signals[order.checkpoint_signal]
        self._outputs = outputs

    def run(self, number: int, command: Command) -> Verdict:
        """Run the command to its end, or until it is told to stop. None of its processes is left."""
        found = environment(self._site.environment, self._order, number, self._places, self._site.sdk, command)
        program = Program(self._order.run, self._places.work, found, self._log.write, self._site.clock)
        self._report.started()
        mirrors = [
            self._repeated("checkpoints", self._mirror.round, self._site.pace.checkpoint_s),
            self._repeated("outputs", self._outputs.round, self._site.pace.outputs_s),
        ]
        killed_at, stop, stopped_ns = None, None, 0
        try:
            stop = self._watch(program)
            if stop:
                stopped_ns = self._now_ns()
                killed_at = self._stop(program, stop)
        finally:
            self._end(program, by_itself=stop is None)
        self._last_uploads(mirrors, killed_at)
        return self._verdict(program.exit_code, stop, stopped_ns)

    def _watch(self, program: Program) -> Stop | None:
        """Return why the command must stop; None when it has ended by itself."""
        while program.exit_code is None:
            self._report.read_progress(self._places.progress)
            if self._orders.stop:
                return self._orders.stop
            if self._order.max_duration_s is not None and self._report.job_ran_s() >= self._order.max_duration_s:
                return Stop("max_duration")
            if self._orders.save:
                self._orders.save = False
                self._announce("rebalance", self._site.horizon.left_s())  # the job's word for: save, and go on
            self._site.clock.wait(self._orders.told, self._site.pace.poll_s)
            self._orders.told.clear()
        return None

    def _stop(self, program: Program, stop: Stop) -> float | None:
        """Have the command save and end; return when it must be killed instead, None when it ended."""
        began = self._site.clock.monotonic()
        if self._at_once():
            self._log.say("ending the job at once, as told")
            return began
        self._report.change(phase=Phase.SAVING)
        self._announce(_WHY.get(stop.why, "command"), self._kill_at(began) - began)
        self._log.say(
            f"{stop.why}: {self._signal.name} asks the job to save within {self._kill_at(began) - began:.1f} s"
        )
        while program.ask(self._signal):
            now = self._site.clock.monotonic()
            if self._at_once() or now >= self._kill_at(began):
                self._log.say("the job has not ended in time and is killed")
                return now
            self._report.read_progress(self._places.progress)
            self._site.clock.wait(threading.Event(), self._site.pace.poll_s / 4)
        return None

    def _at_once(self) -> bool:
        return self._orders.stop is not None and not self._orders.stop.save

    def _kill_at(self, began: float) -> float:
        """Return the end of the grace: early enough to send what was saved, if that can be sent at all."""
        end = self._site.horizon.ends_at() - self._site.pace.closing_s
        sendable = end - self._mirror.upload_s
        return min(began + self._order.checkpoint_grace_s, sendable if sendable > began else end)

    def _announce(self, why: str, in_s: float) -> None:
        """Write the notice for the job; the daemon's copy goes with the next mail, so that nothing waits for the store."""
        in_s = max(0.0, in_s)
        notice = NoticeRecord(why, in_s, (self._site.clock.now() + timedelta(seconds=in_s)).isoformat())
        self._report.notice = notice
        part = self._places.notice.with_suffix(".part")
        try:
            part.write_bytes(notice.to_json())
            part.replace(self._places.notice)
        except OSError as error:  # a full disk: the signal still comes
            self._log.say(f"the notice can't be written: {error}")

    def _end(self, program: Program, *, by_itself: bool) -> None:
        left = program.kill()
        self._report.ended()
        self._report.read_progress(self._places.progress)
        if by_itself and left:
            self._log.say(f"the job has ended, {left} processes that it left behind were killed")

    def _last_uploads(self, mirrors: list[Repeated], killed_at: float | None) -> None:
        """Bring the last checkpoint and outputs into the store, the checkpoint first. A cancelled job sends nothing."""
        until = 0.0 if self._at_once() else self._site.last_upload_at()
        stopped = [mirror.stop(until) for mirror in mirrors]
        if self._at_once():
            return
        if stopped[0]:
            self._attempt.try_to(lambda: self._mirror.last_look(self._site.last_upload_at(), killed_at))
        if stopped[1]:
            finished = self._orders.stop is None
            self._attempt.try_to(lambda: self._outputs.last_round(finished=finished))

    def _verdict(self, exit_code: int | None, stop: Stop | None, stopped_ns: int) -> Verdict:
        status = self._report.status()
        done = 0 < status.total_steps <= status.step
        if exit_code == 0 and (stop is None or done):
            return Verdict(Phase.SUCCEEDED, "finished", exit_code)
        if stop is None:
            return Verdict(Phase.FAILED, "failed", exit_code, bool(OUT_OF_MEMORY.search(self._log.tail)))
        saved = not self._at_once() and self._is_saved(stopped_ns)
        return Verdict(Phase.SAVED if saved else Phase.NOT_SAVED, stop.why, exit_code)

    def _is_saved(self, stopped_ns: int) -> bool:
        """Say whether the store has a checkpoint made after the stop, or one of the newest step that the job told."""
        step, changed_ns = self._mirror.newest or (-1, 0)
        status = self._report.status()
        return changed_ns >= stopped_ns > 0 or 0 <= status.step <= max(step, status.restored_step)

    def _repeated(self, name: str, work: Callable[[], None], period_s: float) -> Repeated:
        repeated = Repeated(name, work, period_s, self._site.clock, self._log.say)
        repeated.start()
        return repeated

    def _now_ns(self) -> int:
        # The kernel dates files by a clock that may be a few milliseconds behind.
        return int((self._site.clock.now().timestamp() - 0.02) * _SECOND_NS)

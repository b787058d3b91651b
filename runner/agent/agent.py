"""The agent of one machine: it runs the attempts that the machine was rented for, and ends the machine in time."""

import os
import signal
import threading
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from config.clock import Clock
from runner.agent import gpus, workdir
from runner.agent.attempt import Attempt
from runner.agent.horizon import Horizon
from runner.agent.lease import Term
from runner.agent.mail import Mail
from runner.agent.notices import Metadata
from runner.agent.orders import Stop
from runner.agent.pace import Pace
from runner.agent.patience import Patience
from runner.agent.repeated import Repeated
from runner.agent.site import Site
from runner.store import Store, StoreError
from runner.store.records import BootOrder, machine_key

GUARD = "guard"  # in the machine's folder: moves the guest's timer
_BOOT_ORDER_S = 600.0  # how long to look for the boot order; the guest's timer runs anyway


@dataclass(frozen=True)
class Given:
    """The agent's command line."""

    machine: str
    folder: Path
    metadata: str  # address of the metadata server, empty for the cloud's own
    shutdown_s: float  # how long a process has after SIGTERM before the power goes off


class Agent:
    """The supervising loop. It makes no call that can hang: the store and the cloud are asked by threads of their own."""

    def __init__(self, given: Given, store: Store, clock: Clock, pace: Pace, booted_at: float) -> None:
        """Count the first lease from `booted_at`, in monotonic seconds."""
        self._given = given
        self._store = store
        self._clock = clock
        self._pace = pace
        self._booted_at = booted_at
        self._patience = Patience(clock, pace.retry_s, lambda _: None)
        self._signals = 0
        self._woken = threading.Event()
        self._in_danger = False

    def run(self) -> int:
        """Run every attempt to its end, and tell it; the exit code is 0 when all went in order. Raises StoreError."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._signalled)
        boot = self._boot_order()
        horizon = Horizon(Term(self._given.machine, boot.guard_s, self._booted_at), self._clock)
        mail = Mail(
            self._store, self._given.machine, horizon, self._given.folder / GUARD, gpus.reader(), self._clock,
            self._booted_at, self._pace.status_s,
        )  # fmt: skip
        attempts = [Attempt(self._site(horizon), str(job), int(number)) for job, number in boot.attempts]
        mail.attempts = attempts
        mailing, asking = self._threads(horizon, mail, attempts)
        self._supervise(horizon, attempts, boot.tail_s)
        asking.stop(0.0)
        self._last_words(horizon, mail, mailing)
        return 0

    def _supervise(self, horizon: Horizon, attempts: list[Attempt], tail_s: float) -> None:
        """Return when every attempt has ended, or the machine must."""
        threads = [threading.Thread(target=attempt.run, daemon=True) for attempt in attempts]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            now = self._clock.monotonic()
            if now >= horizon.ends_at() - self._pace.closing_s / 4:
                return  # whatever still runs is killed by the keeper
            stop = self._why_stop(horizon, tail_s, max(attempt.upload_s for attempt in attempts), now)
            if stop:
                for attempt in attempts:
                    attempt.orders.end(stop)
            self._clock.wait(self._woken, self._pace.poll_s)
            self._woken.clear()

    def _why_stop(self, horizon: Horizon, tail_s: float, upload_s: float, now: float) -> Stop | None:
        if self._signals:
            horizon.shutdown(self._given.shutdown_s)
            return Stop("agent_stopped", save=self._signals == 1)
        if horizon.noticed:
            return Stop("notice")
        if now >= horizon.term.save_at(tail_s + self._pace.closing_s, upload_s):
            return Stop("lease")
        return None

    def _boot_order(self) -> BootOrder:
        until = self._booted_at + _BOOT_ORDER_S
        key = machine_key(self._given.machine, "boot.json")
        return self._patience.call(
            lambda: BootOrder.from_json(self._store.get(key)), lambda: 0.0 if self._signals else until
        )

    def _site(self, horizon: Horizon) -> Site:
        return Site(
            self._store, self._clock, self._pace, horizon, self._given.folder, workdir.sdk(self._given.folder),
            dict(os.environ),
        )  # fmt: skip

    def _threads(self, horizon: Horizon, mail: Mail, attempts: list[Attempt]) -> tuple[Repeated, Repeated]:
        def say(sentence: str) -> None:
            for attempt in attempts:
                attempt.log.say(sentence)

        metadata = Metadata(self._given.metadata, self._clock)
        mailing = Repeated("mail", mail.round, self._pace.beat_s, self._clock, say)
        asking = Repeated(
            "notices",
            partial(self._ask, metadata, horizon, mailing, attempts),
            self._pace.notice_s,
            self._clock,
            lambda _: None,
        )
        mailing.start()
        asking.start()
        return mailing, asking

    def _ask(self, metadata: Metadata, horizon: Horizon, mailing: Repeated, attempts: list[Attempt]) -> None:
        in_s = metadata.notice_in_s()
        if in_s is not None:
            horizon.notice(in_s)
            mailing.wake()  # the daemon rents the next machine on this
            self._woken.set()
        elif not self._in_danger and metadata.in_danger():
            self._in_danger = True  # a checkpoint at once, and on with the work: the machine may well stay
            for attempt in attempts:
                attempt.orders.save = True
                attempt.orders.told.set()

    def _last_words(self, horizon: Horizon, mail: Mail, mailing: Repeated) -> None:
        """Tell how every attempt ended, again and again until the store has it or the machine must end."""
        until = horizon.ends_at() - self._pace.closing_s / 4
        if not mailing.stop(until):
            return
        with suppress(StoreError, OSError):
            self._patience.call(mail.round, lambda: until)

    def _signalled(self, *_: object) -> None:
        self._signals += 1
        self._woken.set()

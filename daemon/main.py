"""Build the daemon from its settings, run it, and stop it well."""

import os
import random
import signal
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from types import FrameType

from config.clock import Clock, SystemClock
from config.settings import Settings
from daemon.accounts import Accounts
from daemon.answers import Answers
from daemon.bills import Bills
from daemon.calls import Calls, InlineCalls, ThreadCalls
from daemon.carry_out import CarryOut
from daemon.control import Control, Decisions
from daemon.database import Fenced, open_database
from daemon.deliveries import Deliveries
from daemon.events import Journal
from daemon.grants import Grants
from daemon.handover import Handover
from daemon.inbox import Inbox
from daemon.intake import Budgets, Intake
from daemon.jobfile import Currency
from daemon.loops import Metronome
from daemon.machines import Listings
from daemon.post import Post
from daemon.prices import Prices
from daemon.reports import Reports
from daemon.reserved import Reserved
from daemon.world import Ids, World
from pricing.offer import PriceSource
from runner.bootstrap import publish_bundle
from runner.provider import Provider
from runner.store import open_store

VERSION = "0.1.0"


@dataclass
class Ports:
    """What a test may put in place of the real thing; None means the real thing."""

    clock: Clock | None = None
    rng: random.Random | None = None
    calls: Callable[[Control], Calls] | None = None
    providers: Callable[[Mapping[str, Provider]], Mapping[str, Provider]] | None = None
    sources: Callable[[tuple[PriceSource, ...]], tuple[PriceSource, ...]] | None = None


class Step:
    """One step of the heart of the daemon: hand over, decide and record, carry out."""

    def __init__(self, handover: Handover, decisions: Decisions, carry_out: CarryOut) -> None:
        self.parts = (handover, decisions, carry_out)

    def run_once(self, now: datetime) -> dict[str, int]:
        """Run the three parts in their order; return all their counts."""
        counts: dict[str, int] = {}
        for part in self.parts:
            counts |= part.run_once(now)
        return counts


class Daemon:
    """The whole daemon, built and ready; whoever holds it decides on which thread it runs."""

    version = VERSION

    def __init__(self, settings: Settings, ports: Ports | None = None) -> None:
        ports = ports or Ports()
        self.settings = settings
        self.control = Control()
        self.world = build_world(settings, self.control, ports)
        clock = self.world.clock
        self.prices = Prices(self.world)
        self.reserved = Reserved(self.world)
        self.carry_out = CarryOut(self.world)
        self.inbox = Inbox(
            settings.under_state(settings.inbox.folder),
            self.world.store,
            settings.inbox,
            clock,
            self.world.ids,
            Currency(settings.currency, settings.rates),
        )
        self.answers = Answers(self.world, self.prices, self.control.post)
        self.control.loops = {
            "reports": Reports(self.world),
            "listings": Listings(self.world),
            "step": Step(Handover(self.world), Decisions(self.world, self.prices), self.carry_out),
            "grants": Grants(self.world),
            "accounts": Accounts(self.world),
            "prices": self.prices,
            "bills": Bills(self.world),
            "reserved": self.reserved,
            "intake": Intake(self.world, self.inbox),
            "post": Post(self.world),
            "deliveries": Deliveries(self.world),
        }
        self.world.wake = partial(self.control.due, "step", clock.now)

    @property
    def every(self) -> dict[str, timedelta]:
        """Return how often each loop is due."""
        tick = self.settings.tick
        return {
            "reports": tick,
            "step": tick,
            "post": tick,
            "listings": 2 * tick,
            "grants": tick,
            "accounts": tick,
            "prices": self.settings.prices.every,
            "bills": timedelta(hours=1),
            "reserved": timedelta(minutes=10),
            "intake": self.settings.inbox.every,
            "deliveries": 2 * tick,
        }

    def start(self) -> None:
        """Take over: budgets from the settings, intents of an earlier run, and the event that says so."""
        now = self.world.clock.now()
        Budgets(self.world).settle(now)
        self.carry_out.adopt(now)
        with self.world.database.write() as session:
            self.world.journal.emit(session, now, "daemon.started", version=VERSION)

    def close(self) -> None:
        """Stop taking work and let the database go; machines go on until their leases end."""
        self.world.calls.close()
        with self.world.database.write() as session:
            self.world.journal.emit(session, self.world.clock.now(), "daemon.stopped")
        self.world.database.close()


def build_world(settings: Settings, control: Control, ports: Ports) -> World:
    """Open the database and the store, and connect the clouds. Raises AlreadyRunning, Unusable, StoreError.

    BundleError when the agent can't be packed for the store's machines, CantConnect when a cloud can't be used here.
    """
    from daemon.post import alerting
    from daemon.wiring import build_clouds

    state = settings.state_dir.absolute()
    state.mkdir(parents=True, exist_ok=True)
    clock, rng = ports.clock or SystemClock(), ports.rng or random.SystemRandom()
    ids = Ids(rng)
    store = open_store(settings.store.url or f"file://{state / 'store'}", _store_options(settings))
    database = open_database(state / "frugald.db", ids.new("f"), clock.now())
    clouds = build_clouds(settings, database.install_id, clock)
    sources = tuple(clouds.sources)
    credentials = os.environ.get("CREDENTIALS_DIRECTORY")
    return World(
        settings=settings,
        clock=clock,
        rng=rng,
        ids=ids,
        database=database,
        store=store,
        journal=Journal(alerting(settings, lambda: database.install_id)),
        calls=ports.calls(control) if ports.calls else ThreadCalls(control.post),
        providers=ports.providers(clouds.providers) if ports.providers else clouds.providers,
        sources=ports.sources(sources) if ports.sources else sources,
        bills=tuple(clouds.bills),
        grants=clouds.grants,
        bundle=publish_bundle(store),
        credentials=Path(credentials) if credentials else None,
    )


def _store_options(settings: Settings) -> dict[str, str]:
    profile = settings.store.profile or (settings.clouds.aws.profile if settings.store.url.startswith("s3://") else "")
    return {"profile": profile} if profile else {}


def inline(control: Control) -> Calls:
    """Return calls that run at once, for tests."""
    return InlineCalls(control.post)


def serve(settings: Settings, ports: Ports | None = None, ready: Callable[[Daemon], None] = lambda _: None) -> int:
    """Run the daemon until SIGTERM or SIGINT; a second signal stops at once. Returns the exit code."""
    from daemon.api import ApiServer
    from daemon.log import report_failures, set_up_logs

    set_up_logs()
    daemon = Daemon(settings, ports)
    report_failures(daemon)
    stopping = threading.Event()

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        if stopping.is_set():
            os._exit(130)
        stopping.set()
        daemon.control.stop()

    previous = {number: signal.signal(number, on_signal) for number in (signal.SIGTERM, signal.SIGINT)}
    daemon.start()
    metronome = Metronome(
        daemon.every, lambda name: daemon.control.due(name, daemon.world.clock.now), daemon.world.clock.now
    )
    api = ApiServer(settings, daemon)
    api.start()
    metronome.start()
    ready(daemon)
    code = 0
    try:
        daemon.control.serve()
    except Fenced:
        code = 1
    finally:
        metronome.stop()
        api.stop()
        if code == 0:
            daemon.close()
        for number, handler in previous.items():
            signal.signal(number, handler)
    return code

"""The API on a Unix socket: whoever may open the file may ask. Reads go to the database, commands to the control thread."""

import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any
from zoneinfo import ZoneInfo

import uvicorn
from fastapi import APIRouter, Depends, FastAPI, HTTPException, Query
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict
from sqlalchemy import Engine
from sqlmodel import Session, select

from daemon import reserved, views
from daemon.commands import Answer, Cancel, Command, Commands, DryRun, Hold, Release, SetBudget
from daemon.database import open_reader
from daemon.models import Attempt, Job
from daemon.record import offer_as_json
from daemon.reserved import Offerings
from pricing.offer import Offer
from runner.store import Missing, Store
from runner.store.records import attempt_key

if TYPE_CHECKING:
    from config.settings import Settings
    from daemon.main import Daemon

_MOST_LOG = 1024 * 1024
_STATUS = {"not_found": 404, "bad_file": 422, "no_such_budget": 422}


Json = dict[str, Any]
Number = Annotated[int, Query(ge=0, le=2**31)]


class BudgetBody(BaseModel):
    """A cap to set."""

    model_config = ConfigDict(extra="forbid")
    scope: str
    subject: str = ""
    period: str
    cap_micro: int
    at_cap: str = ""


class DryRunBody(BaseModel):
    """A job file to think about."""

    model_config = ConfigDict(extra="forbid")
    text: str
    filename: str = "job.yaml"
    user: str = ""


class Facts(BaseModel):
    """What the API knows of the daemon that is not in the database."""

    version: str
    drop_folder: str
    currency: str
    timezone: str


@dataclass(frozen=True)
class Inside:
    """What the calls share: where they read, and whom they tell."""

    reader: Engine
    commands: Commands
    store: Store
    facts: Facts
    now: Callable[[], datetime]
    offers: Callable[[], tuple[Offer, ...]]
    reserved: Callable[[], Offerings]

    @property
    def zone(self) -> ZoneInfo:
        """Return the time zone of the budget periods."""
        return ZoneInfo(self.facts.timezone)

    def session(self) -> Iterator[Session]:
        """Open a session that can only read, for one call."""
        with Session(self.reader) as opened:
            yield opened

    def found(self, opened: Session, name: str) -> Job:
        """Return the job that `name` means. Raises HTTPException 404, 409."""
        try:
            job = views.find_job(opened, name)
        except views.Ambiguous as error:
            raise _refusal(
                409, "ambiguous", f"several jobs begin with {name}: {error}", "write more of the id"
            ) from error
        if job is None:
            raise _refusal(404, "not_found", f"there is no job {name}", "`frugald jobs --all` lists them")
        return job

    def told(self, command: Command) -> Json:
        """Carry out a command and return its answer. Raises HTTPException."""
        try:
            answer: Answer = self.commands.ask(command)
        except TimeoutError as error:
            raise _refusal(503, "busy", "the daemon is too busy to answer", "try again in a moment") from error
        if not answer.ok:
            raise _refusal(_STATUS.get(answer.code, 409), answer.code, answer.message, "")
        return {"code": answer.code, "message": answer.message, **answer.data}


def build_api(inside: Inside) -> FastAPI:
    """Return the application; every answer is JSON, every refusal has a code, a sentence and a next step."""
    app = FastAPI(title="frugald", version=inside.facts.version)
    for part in (_jobs, _changes, _money, _looks):
        app.include_router(part(inside))
    return app


def _jobs(inside: Inside) -> APIRouter:
    app = APIRouter()
    Reading = Annotated[Session, Depends(inside.session)]  # noqa: N806 - a type

    @app.get("/jobs")
    def jobs(
        opened: Reading, limit: Annotated[int, Query(ge=1, le=10_000)] = 200, everything: bool = True
    ) -> list[Json]:
        return views.jobs(opened, everything=everything, limit=limit)

    @app.get("/jobs/{name}")
    def job(opened: Reading, name: str) -> Json:
        return views.job(opened, inside.found(opened, name))

    @app.get("/jobs/{name}/why")
    def why(opened: Reading, name: str) -> Json:
        return views.why(opened, inside.found(opened, name))

    @app.get("/jobs/{name}/log")
    def log(opened: Reading, name: str, attempt: Number = 0, chunk: Number = 0) -> Response:
        """Return the log from one chunk of one attempt on; the headers say where the next question begins."""
        one = inside.found(opened, name)
        data, following = _chunks(inside.store, one.id, attempt, chunk)
        ended = opened.exec(select(Attempt.ended_at).where(Attempt.job_id == one.id, Attempt.n == attempt)).first()
        headers = {
            "X-Next-Chunk": str(following),
            "X-Attempt-Over": str(ended is not None).lower(),
            "X-Job-State": one.state,
            "X-Attempts": str(one.attempts),
        }
        return Response(data, media_type="text/plain; charset=utf-8", headers=headers)

    return app


def _changes(inside: Inside) -> APIRouter:
    app = APIRouter()
    Reading = Annotated[Session, Depends(inside.session)]  # noqa: N806

    @app.post("/jobs/{name}/cancel")
    def cancel(opened: Reading, name: str) -> Json:
        return inside.told(Cancel(inside.found(opened, name).id))

    @app.post("/jobs/{name}/hold")
    def hold(opened: Reading, name: str) -> Json:
        return inside.told(Hold(inside.found(opened, name).id))

    @app.post("/jobs/{name}/release")
    def release(opened: Reading, name: str) -> Json:
        return inside.told(Release(inside.found(opened, name).id))

    @app.post("/dry-run")
    def dry_run(body: DryRunBody) -> Json:
        return inside.told(DryRun(body.text, body.filename, body.user))

    return app


def _money(inside: Inside) -> APIRouter:
    app = APIRouter()
    Reading = Annotated[Session, Depends(inside.session)]  # noqa: N806

    @app.get("/budgets")
    def budgets(opened: Reading) -> list[Json]:
        return views.budgets(opened, inside.now(), inside.zone)

    @app.post("/budgets")
    def set_budget(opened: Reading, body: BudgetBody) -> Json:
        subject = inside.found(opened, body.subject).id if body.scope == "job" else body.subject
        return inside.told(SetBudget(body.scope, subject, body.period, body.cap_micro, body.at_cap))

    @app.get("/costs")
    def costs(opened: Reading, month: str = "", by: str = "project") -> list[Json]:
        if by not in {"project", "user", "job", "machine", "cloud"}:
            raise _refusal(422, "bad_value", f"`by` can't be {by}", "use project, user, job, machine or cloud")
        start, end = _month(month, inside.now(), inside.zone)
        return views.costs(opened, start, end, by)

    @app.get("/bills")
    def bills(opened: Reading) -> list[Json]:
        return views.bills(opened)

    @app.get("/advice")
    def advice(opened: Reading) -> Json:
        return reserved.answer(opened, inside.reserved(), inside.now())

    return app


def _looks(inside: Inside) -> APIRouter:
    app = APIRouter()
    Reading = Annotated[Session, Depends(inside.session)]  # noqa: N806

    @app.get("/status")
    def status(opened: Reading) -> Json:
        return views.status(opened, inside.now(), inside.zone) | inside.facts.model_dump()

    @app.get("/offers")
    def offers(gpu: str = "", market: str = "", limit: Annotated[int, Query(ge=1, le=100_000)] = 50) -> list[Json]:
        chosen = [o for o in inside.offers() if o.gpu.lower().startswith(gpu.lower()) and market in {"", o.pool.market}]
        chosen.sort(key=lambda o: (o.hourly_micro, str(o.pool)))
        return [offer_as_json(o) | {"free": o.free} for o in chosen[:limit]]

    @app.get("/events")
    def events(
        opened: Reading, after: Number = 0, everything: bool = False, limit: Annotated[int, Query(ge=1, le=5_000)] = 500
    ) -> list[Json]:
        return views.events(opened, after=after, everything=everything, limit=limit)

    @app.get("/machines")
    def machines(opened: Reading, everything: bool = False) -> list[Json]:
        return views.machines(opened, everything=everything)

    @app.get("/alerts")
    def alerts(opened: Reading) -> Json:
        return views.alerts(opened)

    return app


def _chunks(store: Store, job: str, attempt: int, chunk: int) -> tuple[bytes, int]:
    data = b""
    while len(data) < _MOST_LOG:
        try:
            data += store.get(attempt_key(job, attempt, f"log/{chunk:06d}"))
        except Missing:
            break
        chunk += 1
    return data, chunk


class ApiServer:
    """Serves the API on a thread of its own."""

    def __init__(self, settings: "Settings", daemon: "Daemon") -> None:
        world = daemon.world
        self._socket = settings.under_state(settings.api.socket)
        self._reader = open_reader(settings.under_state_dir("frugald.db"))
        facts = Facts(
            version=daemon.version,
            drop_folder=str(daemon.inbox.folder),
            currency=settings.currency,
            timezone=settings.timezone,
        )
        inside = Inside(
            self._reader,
            daemon.answers,
            world.store,
            facts,
            world.clock.now,
            offers=lambda: daemon.prices.book.offers,
            reserved=lambda: daemon.reserved.offerings,
        )
        config = uvicorn.Config(
            build_api(inside), uds=str(self._socket), log_level="warning", lifespan="off", access_log=False
        )
        self._server = uvicorn.Server(config)
        self._server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
        self._thread = threading.Thread(target=self._run, name="api", daemon=True)

    def start(self) -> None:
        """Begin to answer."""
        self._socket.unlink(missing_ok=True)
        self._thread.start()

    def stop(self) -> None:
        """Answer no more."""
        self._server.should_exit = True
        self._thread.join(5)
        self._socket.unlink(missing_ok=True)
        self._reader.dispose()

    def _run(self) -> None:
        before = os.umask(0o117)  # the socket's mode decides who may ask: owner and group
        try:
            self._server.run()
        finally:
            os.umask(before)


def _refusal(status: int, code: str, message: str, following: str) -> HTTPException:
    return HTTPException(status, {"code": code, "message": message, "next": following})


def _month(text: str, now: datetime, zone: ZoneInfo) -> tuple[datetime, datetime]:
    local = now.astimezone(zone)
    try:
        year, month = (int(part) for part in text.split("-")) if text else (local.year, local.month)
        start = datetime(year, month, 1, tzinfo=zone)
    except ValueError as error:
        raise _refusal(422, "bad_value", f"{text!r} is not a month", "write it like 2026-12") from error
    end = datetime(year + month // 12, month % 12 + 1, 1, tzinfo=zone)
    return start.astimezone(UTC), end.astimezone(UTC)

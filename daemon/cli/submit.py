"""Hand in a job."""

import getpass
from pathlib import Path
from typing import Any

import click

from config.clock import SystemClock
from daemon.cli.errors import FAILED, JOB_FAILED, USAGE, Stop
from daemon.cli.table import money, table
from daemon.cli.talk import as_json, daemon, show
from daemon.client import Client

_WAIT_S = 30.0


@click.command()
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--dry-run", is_flag=True, help="Show the three best offers, the cost, and each budget afterwards; rent nothing."
)
@click.option("--wait", is_flag=True, help="Wait for the job's end; exit code 3 when it failed.")
@as_json
@click.pass_context
def submit(ctx: click.Context, path: Path, dry_run: bool, wait: bool, as_json: bool) -> None:
    """Put PATH (a job file, a folder or archive that holds one) into the drop folder."""
    with daemon(ctx) as client:
        if dry_run:
            answer = client.post(
                "/dry-run",
                {
                    "text": _job_file(path).read_text("utf-8"),
                    "filename": _job_file(path).name,
                    "user": getpass.getuser(),
                },
            )
            show(answer, _forecast(answer), as_json=as_json)
            return
        job = _drop(client, path)
        if wait:
            job = _end(client, job["id"])
        show(job, f"{job['name']}  {job['id']}  {job['state']}: {job['reason']}", as_json=as_json)
    if wait and job["state"] != "succeeded":
        raise Stop(
            JOB_FAILED, "job_failed", f"{job['name']} is {job['state']}: {job['reason']}", f"frugald logs {job['id']}"
        )


def _job_file(path: Path) -> Path:
    from daemon.inbox import job_file_in

    if path.is_file():
        return path
    try:
        return job_file_in(path)
    except FileNotFoundError as error:
        raise Stop(USAGE, "no_job_file", str(error), "docs/job-files.md shows one") from error


def _drop(client: Client, path: Path) -> dict[str, Any]:
    """Drop a file and wait until the daemon has taken or refused it. Raises Stop."""
    from daemon.inbox import submit_file

    folder = Path(client.get("/status")["drop_folder"])
    before = {job["id"] for job in client.get("/jobs", limit=10_000)}
    last = max((e["id"] for e in client.get("/events", limit=1)), default=0)
    try:
        dropped = submit_file(folder, path)
    except OSError as error:
        raise Stop(FAILED, "cannot_drop", f"{path} can't be put into {folder}: {error}") from error
    clock = SystemClock()
    began = clock.monotonic()
    while clock.monotonic() - began < _WAIT_S:
        new = [job for job in client.get("/jobs", limit=100) if job["id"] not in before]
        if new:
            return dict(new[0])
        refused = [
            e
            for e in client.get("/events", after=last)
            if e["code"] == "file.rejected" and e["values"]["file"] == dropped.name
        ]
        if refused:
            raise Stop(USAGE, "rejected", refused[0]["values"]["why"], "correct the file and submit it again")
        _pause(clock)
    raise Stop(
        FAILED,
        "not_taken",
        f"{dropped.name} lies in {folder} and has not been taken yet, or is the same as an open job",
        "`frugald jobs` shows open jobs",
    )


def _end(client: Client, job_id: str) -> dict[str, Any]:
    clock = SystemClock()
    while True:
        job = dict(client.get(f"/jobs/{job_id}"))
        if job["state"] in {"succeeded", "failed", "cancelled", "held"}:
            return job
        _pause(clock)


def _pause(clock: SystemClock) -> None:
    import threading

    clock.wait(threading.Event(), 0.5)


def _forecast(answer: dict[str, Any]) -> str:
    if not answer.get("offers"):
        return f"It would wait: {answer.get('why') or answer['message']}"
    rows = [
        (
            f"{o['cloud']}/{o['zone']}",
            o["type"],
            f"{o['gpus']:g} x {o['gpu']}",
            o["market"],
            f"{money(o['hourly_micro'])}/h",
            money(o["expected_micro"]),
        )
        for o in answer["offers"]
    ]
    parts = [table(("place", "type", "gpu", "market", "price", "expected"), rows, right=("price", "expected"))]
    parts.append(
        f"\nfirst lease {money(answer['first_lease_micro'])}, expected {money(answer['expected_micro'])}, at worst {money(answer['worst_micro'])}"
    )
    if answer["budgets"]:
        parts.append(
            "\n"
            + table(
                ("budget", "spent", "leased", "cap", "left with this"),
                [
                    (
                        b["id"],
                        money(b["spent_micro"]),
                        money(b["leased_micro"]),
                        money(b["cap_micro"]),
                        money(b["left_micro"]),
                    )
                    for b in answer["budgets"]
                ],
                right=("spent", "leased", "cap", "left with this"),
            )
        )
    return "\n".join([*parts, "\nNothing was rented."])

"""Commands that look."""

from typing import Any

import click

from config.clock import SystemClock
from daemon.cli.event_line import line
from daemon.cli.table import lasting, money, table, when
from daemon.cli.talk import as_json, daemon, show


@click.command()
@click.option("--all", "everything", is_flag=True, help="Also those that have ended.")
@click.option("--limit", default=50, show_default=True, help="How many at most.")
@as_json
@click.pass_context
def jobs(ctx: click.Context, everything: bool, limit: int, as_json: bool) -> None:
    """List jobs, the newest first."""
    with daemon(ctx) as client:
        found = client.get("/jobs", everything=everything, limit=limit)
    rows = [
        (
            j["id"],
            j["name"],
            j["state"],
            _progress(j),
            f"{money(j['cost_micro'])} / {money(j['budget_micro'])}",
            j["reason"],
        )
        for j in found
    ]
    show(found, table(("id", "name", "state", "step", "so far / cap", "why"), rows, right=("step",)), as_json=as_json)


@click.command()
@click.argument("name")
@as_json
@click.pass_context
def job(ctx: click.Context, name: str, as_json: bool) -> None:
    """Show one job: NAME is its id, the beginning of it, or its name."""
    with daemon(ctx) as client:
        found = client.get(f"/jobs/{name}")
    head = [
        f"{found['name']}  {found['id']}  {found['state']}: {found['reason']}",
        f"user {found['user']}, project {found['project']}, submitted {when(found['submitted_at'])}",
        f"step {_progress(found)}, checkpoint {found['checkpoint_step']}, {found['interruptions']} interruptions, {found['failures']} failures",
        f"cost {money(found['cost_micro'])}, on demand {money(found['on_demand_micro'])}, cap {money(found['budget_micro'])}",
    ]
    rows = [
        (
            str(r["attempt"]),
            r["outcome"] or r["state"],
            f"{r['machine']['gpu']} {r['machine']['market']} {r['machine']['zone']}",
            str(r["restored_step"]),
            str(r["step"]),
            lasting(r["run_s"]),
            lasting(r["lost_s"]),
            money(r["machine"]["spent_micro"]),
        )
        for r in found["runs"]
    ]
    body = table(
        ("attempt", "outcome", "machine", "from", "to", "ran", "lost", "cost"), rows, right=("from", "to", "cost")
    )
    happened = "\n".join(line(e) for e in found["events"])
    show(found, "\n".join([*head, "", body, "", happened]), as_json=as_json)


@click.command()
@click.argument("name")
@as_json
@click.pass_context
def why(ctx: click.Context, name: str, as_json: bool) -> None:
    """Say why a job is where it is, and why each of its offers won."""
    with daemon(ctx) as client:
        found = client.get(f"/jobs/{name}/why")
    parts = [f"{found['name']} is {found['state']}: {found['reason']}"]
    if found["command"]:
        parts.append(f"  next: {found['command']}")
    for decision in found["decisions"]:
        parts += ["", *_decision(decision)]
    show(found, "\n".join(parts), as_json=as_json)


def _decision(decision: dict[str, Any]) -> list[str]:
    won = decision["winner"]
    lines = [f"{when(decision['at'])}  won: {won['pool']} at {money(won['hourly_micro'])}/h", f"    {won['why']}"]
    for other in decision["runners_up"]:
        lines += [f"  then: {other['pool']} at {money(other['hourly_micro'])}/h", f"    {other['why']}"]
    return lines + [f"  {p['offers']:>5} passed over: {p['why']}" for p in decision["passed_over"]]


@click.command()
@click.option("--gpu", default="", help="Only GPUs whose name begins so, such as A100.")
@click.option("--market", type=click.Choice(["spot", "on-demand", "reserved"]), default=None, help="Only this market.")
@click.option("--limit", default=30, show_default=True, help="How many at most.")
@as_json
@click.pass_context
def offers(ctx: click.Context, gpu: str, market: str | None, limit: int, as_json: bool) -> None:
    """List what can be rented, the cheapest first."""
    from config.units import print_memory

    with daemon(ctx) as client:
        found = client.get("/offers", gpu=gpu, market=market or "", limit=limit)
    rows = [
        (
            f"{o['cloud']}/{o['zone']}",
            o["type"],
            f"{o['gpus']:g} x {o['gpu']}",
            print_memory(o["gpu_memory"]),
            o["market"],
            f"{money(o['hourly_micro'])}/h",
            "-" if o["free"] is None else str(o["free"]),
        )
        for o in found
    ]
    show(
        found,
        table(("place", "type", "gpu", "memory", "market", "price", "free"), rows, right=("memory", "price", "free")),
        as_json=as_json,
    )


@click.command()
@click.option("--all", "everything", is_flag=True, help="Also those that are gone.")
@as_json
@click.pass_context
def machines(ctx: click.Context, everything: bool, as_json: bool) -> None:
    """List machines with their leases."""
    with daemon(ctx) as client:
        found = client.get("/machines", everything=everything)
    rows = [
        (
            m["id"],
            m["state"],
            f"{m['cloud']}/{m['zone']}",
            f"{m['gpus']:g} x {m['gpu']}",
            m["market"],
            f"{money(m['hourly_micro'])}/h",
            money(m["spent_micro"]),
            money(m["leased_micro"]),
            when(m["lease_until"]),
        )
        for m in found
    ]
    head = ("id", "state", "place", "gpu", "market", "price", "spent", "leased", "until")
    show(found, table(head, rows, right=("price", "spent", "leased")), as_json=as_json)


@click.command()
@click.option("--all", "everything", is_flag=True, help="Also every change of a state.")
@click.option("-f", "--follow", is_flag=True, help="Go on as things happen.")
@click.option("--limit", default=100, show_default=True, help="How many at most.")
@as_json
@click.pass_context
def events(ctx: click.Context, everything: bool, follow: bool, limit: int, as_json: bool) -> None:
    """List what happened; with --json one event a line."""
    import json
    import sys
    import threading

    clock, last = SystemClock(), 0
    with daemon(ctx) as client:
        while True:
            for event in client.get("/events", after=last, everything=everything, limit=limit):
                last = max(last, event["id"])
                click.echo(
                    json.dumps(event, ensure_ascii=False) if as_json else line(event, colour=sys.stdout.isatty())
                )
            if not follow:
                return
            clock.wait(threading.Event(), 1.0)


@click.command()
@as_json
@click.pass_context
def status(ctx: click.Context, as_json: bool) -> None:
    """Show everything in short, and what it would cost at worst if the daemon died now."""
    with daemon(ctx) as client:
        found = client.get("/status")
    parts = [
        f"frugald {found['version']}, drop folder {found['drop_folder']}",
        "jobs: " + (", ".join(f"{n} {state}" for state, n in sorted(found["jobs"].items())) or "none"),
        f"machines: {found['machines']} at {money(found['hourly_micro'])}/h; if the daemon died now: {money(found['worst_micro'])} at worst"
        + (f", the last until {when(found['worst_until'])}" if found["machines"] else ""),
        *(
            f"source {s['name']}: {s['offers']} offers, last answer {when(s['ok_at'])}"
            + (f", failing: {s['reason']}" if s["reason"] else "")
            for s in found["sources"]
        ),
    ]
    show(found, "\n".join(parts), as_json=as_json)


@click.command()
@as_json
@click.pass_context
def alerts(ctx: click.Context, as_json: bool) -> None:
    """Show alerts that nobody took, and places that were switched off."""
    with daemon(ctx) as client:
        found = client.get("/alerts")
    rows = [
        (str(r["id"]), r["endpoint"], r["type"], str(r["tries"]), when(r["at"]), r["answer"]) for r in found["dead"]
    ]
    parts = [f"{found['delivered']} delivered, {found['waiting']} waiting"]
    parts += [f"{e['name']} is switched off since {when(e['at'])}: {e['because']}" for e in found["disabled"]]
    parts += [table(("id", "to", "event", "tries", "given up", "last answer"), rows)] if rows else []
    show(found, "\n".join(parts), as_json=as_json)


def _progress(job: dict[str, Any]) -> str:
    if job["step"] < 0:
        return "-"
    return f"{job['step']}/{job['total_steps']}" if job["total_steps"] > 0 else str(job["step"])

"""Print a job's log, across its attempts."""

import threading

import click

from config.clock import SystemClock
from daemon.cli.talk import daemon
from daemon.client import Client

_OVER = {"succeeded", "failed", "cancelled"}


@click.command()
@click.argument("name")
@click.option("-f", "--follow", is_flag=True, help="Go on until the job ends.")
@click.option("--attempt", type=int, default=None, help="Only this attempt.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for each piece of the log.")
@click.pass_context
def logs(ctx: click.Context, name: str, follow: bool, attempt: int | None, as_json: bool) -> None:
    """Print the log of NAME, all attempts one after the other."""
    with daemon(ctx) as client:
        number = attempt or 0
        while _print(client, name, number, follow=follow, as_json=as_json) and attempt is None:
            number += 1


def _print(client: Client, name: str, attempt: int, *, follow: bool, as_json: bool) -> bool:
    """Print one attempt's log; say whether there is, or may come, another attempt."""
    import json

    clock, chunk = SystemClock(), 0
    while True:
        part = client.log(name, attempt, chunk)
        chunk = int(part.headers["x-next-chunk"])
        if part.content and as_json:
            click.echo(json.dumps({"attempt": attempt, "text": part.text}, ensure_ascii=False))
        elif part.content:
            click.echo(part.content, nl=False)
        more, over = int(part.headers["x-attempts"]) > attempt + 1, part.headers["x-job-state"] in _OVER
        if (
            not part.content
            and (more or over or not follow)
            and (part.headers["x-attempt-over"] == "true" or not follow or over)
        ):
            return more
        if not part.content:
            clock.wait(threading.Event(), 1.0)

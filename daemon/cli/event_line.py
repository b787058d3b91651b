"""One event as one line for people."""

from datetime import datetime, tzinfo
from typing import Any

import click

from daemon.cli.table import clean

_COLOURS = {
    "job.interrupted": "yellow",
    "job.lost": "yellow",
    "job.held": "yellow",
    "job.resumed": "green",
    "job.finished": "green",
    "job.failed": "red",
    "budget.threshold": "yellow",
    "budget.reached": "red",
    "machine.leaked": "red",
    "file.rejected": "red",
    "source.down": "red",
    "job.placed": "cyan",
}


def line(event: dict[str, Any], zone: tzinfo | None = None, *, colour: bool = False) -> str:
    """Return `12:03:04  digits      was placed on ...`; `zone` None is the local one."""
    at = datetime.fromisoformat(event["at"]).astimezone(zone).strftime("%H:%M:%S")
    text = clean(event["text"])
    shown = f"{at}  {text}"
    return click.style(shown, fg=_COLOURS.get(event["code"])) if colour and event["code"] in _COLOURS else shown

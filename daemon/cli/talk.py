"""What the commands share: finding the daemon, asking it, and printing the answer."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from daemon.cli.errors import BAD_CONFIG, FAILED, NOT_FOUND, REFUSED, UNREACHABLE, USAGE, Stop
from daemon.client import Client, Refused, Unreachable

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
_EXIT = {404: NOT_FOUND, 422: USAGE, 409: REFUSED, 503: UNREACHABLE}


@contextmanager
def daemon(ctx: click.Context) -> Iterator[Client]:
    """Open a connection to the daemon; its refusals become exit codes. Raises Stop."""
    client = Client(find_socket(ctx))
    try:
        yield client
    except Unreachable as error:
        raise Stop(
            UNREACHABLE, "unreachable", str(error), "start it with `frugald serve`, or name its socket with --socket"
        ) from error
    except Refused as error:
        raise Stop(_EXIT.get(error.status, FAILED), error.code, str(error), error.following) from error
    finally:
        client.close()


def find_socket(ctx: click.Context) -> Path:
    """Return the daemon's socket: named, or from the settings. Raises Stop."""
    if ctx.obj["socket"]:
        return Path(ctx.obj["socket"])
    settings = load(ctx)
    return Path(settings.under_state(settings.api.socket))


def load(ctx: click.Context, **over: str) -> Any:  # noqa: ANN401 - Settings, imported late
    """Read the settings; `over` goes over the environment. Raises Stop with all that is wrong with them."""
    from config.load import BadSettings, load_settings

    try:
        return load_settings(Path(ctx.obj["config"]) if ctx.obj["config"] else None, {**os.environ, **over})
    except BadSettings as error:
        raise Stop(BAD_CONFIG, "bad_config", str(error), "correct it; `frugald check-config` checks again") from error


def show(value: Any, text: str, *, as_json: bool) -> None:  # noqa: ANN401 - any JSON
    """Print an answer for programs or for people."""
    click.echo(json.dumps(value, ensure_ascii=False, indent=2) if as_json else text)

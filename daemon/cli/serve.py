"""Commands that need no running daemon."""

import os
import sys
from pathlib import Path

import click

from daemon.cli import version as installed_version
from daemon.cli.errors import BAD_CONFIG, FAILED, Stop
from daemon.cli.talk import as_json, load, show


@click.command()
@click.pass_context
def serve(ctx: click.Context) -> None:
    """Run the daemon in the foreground until SIGTERM; a second SIGTERM stops at once."""
    settings = load(ctx)
    from daemon.database import AlreadyRunning, Unusable
    from daemon.main import serve as run
    from daemon.wiring import CantConnect
    from runner.bootstrap import BundleError
    from runner.store import StoreError

    try:
        code = run(settings)
    except (AlreadyRunning, Unusable, StoreError, BundleError, CantConnect) as error:
        raise Stop(FAILED, "cannot_start", str(error)) from error
    sys.exit(code)


@click.command()
@click.option(
    "--folder", type=click.Path(path_type=Path), default=None, help="Where to work (default: a new temporary folder)."
)
@click.option("--keep", is_flag=True, help="Keep the folder afterwards.")
def demo(folder: Path | None, keep: bool) -> None:
    """See two real training jobs run: one interrupted and resumed, one stopped below its cap and raised."""
    from daemon.demo.run import main

    sys.exit(main(folder, keep=keep))


@click.command()
@click.option("--end", is_flag=True, help="End the machines that are found, not only list them.")
@as_json
@click.pass_context
def reap(ctx: click.Context, end: bool, as_json: bool) -> None:
    """List machines that carry this installation's tag and that its database does not know; needs no daemon."""
    from daemon.reap import sweep

    found = sweep(load(ctx), end=end)
    text = (
        "\n".join(f"{m['cloud']}  {m['machine']}  {'ended' if m['ended'] else 'found'}" for m in found)
        or "no machine without an owner"
    )
    show(found, text, as_json=as_json)


@click.command("check-config")
@as_json
@click.pass_context
def check_config(ctx: click.Context, as_json: bool) -> None:
    """Check the settings file: everything that is wrong at once, with line and hint."""
    from config.load import check_config as check

    problems = [str(p) for p in check(Path(ctx.obj["config"]) if ctx.obj["config"] else None, os.environ)]
    show({"problems": problems}, "\n".join(problems) or "ok", as_json=as_json)
    if problems:
        sys.exit(BAD_CONFIG)


@click.command()
@as_json
def version(as_json: bool) -> None:
    """Say the version."""
    show({"version": installed_version()}, f"frugald {installed_version()}", as_json=as_json)

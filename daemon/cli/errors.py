"""Exit codes and errors: what was wrong, and what to do next."""

import json
import sys

import click

OK, FAILED, USAGE, JOB_FAILED, NOT_FOUND, UNREACHABLE, REFUSED, BAD_CONFIG, INTERRUPTED = 0, 1, 2, 3, 4, 5, 6, 78, 130


class Stop(Exception):
    """End with an exit code, a message and a next step."""

    def __init__(self, exit_code: int, code: str, message: str, following: str = "") -> None:
        super().__init__(message)
        self.exit_code, self.code, self.following = exit_code, code, following


def run(group: click.Group) -> int:
    """Run a command line and return its exit code; errors go to standard error, as JSON with `--json`."""
    try:
        group.main(standalone_mode=False)
    except click.exceptions.Exit as done:
        return int(done.exit_code)
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "frugald"
        return _say(Stop(USAGE, "usage", error.format_message(), f"`{command} --help` lists the options"))
    except click.exceptions.Abort:
        return INTERRUPTED
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()
        return OK
    except Stop as stop:
        return _say(stop)
    return OK


def _say(stop: Stop) -> int:
    if "--json" in sys.argv:
        click.echo(json.dumps({"error": {"code": stop.code, "message": str(stop), "next": stop.following}}), err=True)
    else:
        click.echo(f"frugald: {stop}", err=True)
        if stop.following:
            click.echo(f"  next: {stop.following}", err=True)
    return stop.exit_code

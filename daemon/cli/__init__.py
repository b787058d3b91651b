"""The command line: every command is imported only when it is used, so that `frugald --version` costs nothing."""

import importlib
import sys

import click

# Where each command lives, and its one line in the list.
COMMANDS = {
    "serve": ("daemon.cli.serve", "Run the daemon until SIGTERM"),
    "demo": ("daemon.cli.serve", "See the whole thing work on this computer in two minutes"),
    "reap": ("daemon.cli.serve", "List and end machines that nobody knows"),
    "check-config": ("daemon.cli.serve", "Check the settings and say all that is wrong"),
    "version": ("daemon.cli.serve", "Say the version"),
    "submit": ("daemon.cli.submit", "Put a job into the drop folder, or see what it would cost"),
    "jobs": ("daemon.cli.show", "List jobs"),
    "job": ("daemon.cli.show", "Show one job"),
    "why": ("daemon.cli.show", "Say why a job is where it is, and why its offers won"),
    "offers": ("daemon.cli.show", "List what can be rented, the cheapest first"),
    "machines": ("daemon.cli.show", "List machines"),
    "events": ("daemon.cli.show", "List what happened"),
    "status": ("daemon.cli.show", "Show everything in short"),
    "alerts": ("daemon.cli.show", "Show alerts that nobody took"),
    "logs": ("daemon.cli.logs", "Print a job's log"),
    "cancel": ("daemon.cli.change", "End a job for good"),
    "hold": ("daemon.cli.change", "Let a job save and wait"),
    "release": ("daemon.cli.change", "Let a held job go on"),
    "budgets": ("daemon.cli.money", "List budgets"),
    "budget": ("daemon.cli.money", "Set a budget"),
    "costs": ("daemon.cli.money", "List what a month has cost"),
    "advise": ("daemon.cli.money", "Say which reserved capacity would have paid for itself"),
    "setup": ("daemon.cli.aws", "Make what frugald needs in a cloud, shown first"),
    "doctor": ("daemon.cli.aws", "Look whether a cloud is ready, and say what to do where it is not"),
}


class Lazy(click.Group):
    """A group that knows its commands by name and imports one when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's own signature
        """Return the names in the order in which people meet them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import one command."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(COMMANDS[cmd_name][0])
        command = getattr(module, cmd_name.replace("-", "_"))
        return command if isinstance(command, click.Command) else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


def version() -> str:
    """Return the installed version."""
    from importlib.metadata import version as installed

    return installed("frugald")


def _say_version(ctx: click.Context, _option: click.Parameter, wanted: bool) -> None:
    if wanted:
        click.echo(f"frugald {version()}")
        ctx.exit()


@click.group(cls=Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, help="Say the version.", callback=_say_version
)
@click.option(
    "--socket", envvar="FRUGALD_SOCKET", default="", help="Where the daemon listens (default: from the settings)."
)
@click.option(
    "--config", envvar="FRUGALD_CONFIG", default="", help="The settings file (default: ./frugald.toml, /etc/frugald/)."
)
@click.pass_context
def main_group(ctx: click.Context, socket: str, config: str) -> None:
    """Run GPU jobs at the lowest expected cost, survive spot interruptions, never pass a budget."""
    ctx.obj = {"socket": socket, "config": config}


def main() -> None:
    """Run the command line and exit with a documented code."""
    from daemon.cli.errors import run

    sys.exit(run(main_group))


if __name__ == "__main__":
    main()

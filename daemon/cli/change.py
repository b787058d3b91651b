"""Commands that change a job."""

import click

from daemon.cli.talk import as_json, daemon, show


def _tell(ctx: click.Context, name: str, verb: str, as_json: bool) -> None:
    with daemon(ctx) as client:
        answer = client.post(f"/jobs/{name}/{verb}")
    show(answer, answer["message"], as_json=as_json)


@click.command()
@click.argument("name")
@as_json
@click.pass_context
def cancel(ctx: click.Context, name: str, as_json: bool) -> None:
    """End a job for good."""
    _tell(ctx, name, "cancel", as_json)


@click.command()
@click.argument("name")
@as_json
@click.pass_context
def hold(ctx: click.Context, name: str, as_json: bool) -> None:
    """Let a job save a checkpoint and wait until it is released."""
    _tell(ctx, name, "hold", as_json)


@click.command()
@click.argument("name")
@as_json
@click.pass_context
def release(ctx: click.Context, name: str, as_json: bool) -> None:
    """Let a held job go on from its checkpoint."""
    _tell(ctx, name, "release", as_json)

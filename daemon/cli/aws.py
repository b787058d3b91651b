"""Commands that prepare a cloud and look whether it is ready; they need no daemon."""

import json
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from config.reason import Reason
from daemon.cli.errors import BAD_CONFIG, FAILED, Stop
from daemon.cli.talk import as_json, load, show

if TYPE_CHECKING:
    from config.settings import Settings
    from daemon.doctor import Finding
    from daemon.setup.run import Outcome
    from pricing.aws.clients import Clients

_POLICIES = ("daemon", "readonly", "setup")


@click.group()
def setup() -> None:
    """Make what frugald needs in a cloud, shown first; a second time it only looks."""


@click.group()
def doctor() -> None:
    """Look whether a cloud is ready, and say what to do where it isn't."""


@setup.command("aws")
@click.option(
    "--print",
    "printed",
    is_flag=False,
    flag_value="plan",
    type=click.Choice(["plan", *_POLICIES]),
    help="Make nothing: print the plan with all policies, or one policy: --print=daemon, =readonly or =setup.",
)
@click.option("--undo", is_flag=True, help="Take away what setup made: only what carries its tag.")
@click.option("--yes", is_flag=True, help="Don't ask.")
@as_json
@click.pass_context
def setup_aws(ctx: click.Context, printed: str | None, undo: bool, yes: bool, as_json: bool) -> None:
    """Make bucket, roles, security groups and the spot role in the account of the settings."""
    # Renting needs a bucket, and it is here that it gets one.
    settings: Settings = load(ctx, FRUGALD_MODE="advise")
    clients = _clients(settings)
    if printed:
        _print(settings, clients, printed, as_json=as_json)
        return
    say: Callable[[str], None] = (lambda _text: None) if as_json else click.echo
    outcome = _set_up(settings, clients, say, _asked(yes=yes), undo=undo)
    if as_json:
        show(outcome.stored(), "", as_json=True)
    sys.exit(0 if outcome.ok else FAILED)


@doctor.command("aws")
@as_json
@click.pass_context
def doctor_aws(ctx: click.Context, as_json: bool) -> None:
    """Check credentials, clock, permissions, image, bucket, network, prices and quotas; exit code 1 if one fails."""
    settings: Settings = load(ctx)
    clients = _clients(settings)
    from config.clock import SystemClock
    from daemon.doctor import lines, worst
    from daemon.doctor.aws import examine

    found: list[Finding] = examine(settings, clients, SystemClock())
    show({"findings": [one.stored() for one in found]}, "\n".join(lines(found)), as_json=as_json)
    sys.exit(FAILED if worst(found) == "fail" else 0)


def _set_up(
    settings: "Settings", clients: "Clients", say: Callable[[str], None], agree: Callable[[], bool], *, undo: bool
) -> "Outcome":
    from daemon.setup import aws, run
    from daemon.setup.aws_names import names
    from daemon.setup.steps import Refused

    try:
        caller = aws.who(clients, settings.clouds.aws)
    except Refused as refused:
        raise Stop(FAILED, refused.reason.code, str(refused)) from refused
    found = names(settings.clouds.aws, caller["Account"], settings.store.url)
    say(f"{Reason('setup.plan', {'account': caller['Account'], 'arn': caller['Arn']})}\n")
    if undo:
        return run.undo(aws.steps(clients, found), say, agree)
    outcome = run.make(aws.steps(clients, found), say, agree)
    if outcome.ok:
        text = "\n".join(aws.settings_lines(found))
        say(f"\n{Reason('setup.settings')}\n\n{text}\n\n{Reason('setup.following')}")
    return outcome


def _print(settings: "Settings", clients: "Clients", wanted: str, *, as_json: bool) -> None:
    from daemon.setup import aws, shown
    from daemon.setup.aws_names import ANY_ACCOUNT, names
    from daemon.setup.steps import Refused, look, unseen

    try:
        caller = aws.who(clients, settings.clouds.aws)
        head = Reason("setup.plan", {"account": caller["Account"], "arn": caller["Arn"]})
    except Refused as refused:
        caller, head = {"Account": ANY_ACCOUNT}, Reason("setup.blind", {"why": str(refused)})
    found = names(settings.clouds.aws, caller["Account"], settings.store.url)
    policies = {name: policy(found) for name, policy in aws.POLICIES.items()}
    if wanted in policies:
        show(policies[wanted], json.dumps(policies[wanted], indent=2), as_json=as_json)
        return
    steps = aws.steps(clients, found)
    plan = look(steps) if "Arn" in caller else unseen(steps)
    texts = [f"{head}\n", *shown.plan(plan, documents=True), *shown.policies(policies)]
    value = {"account": caller["Account"], "plan": [line.stored() for line in plan], "policies": policies}
    show(value, "\n".join(texts), as_json=as_json)


def _asked(*, yes: bool) -> Callable[[], bool]:
    return lambda: yes or click.confirm("go on?", err=True)


def _clients(settings: Any) -> "Clients":  # noqa: ANN401
    """Find the credentials of the settings' profile. Raises Stop."""
    try:
        from botocore.exceptions import ProfileNotFound

        from pricing.aws.clients import Clients
    except ImportError as error:
        raise Stop(FAILED, "no_boto3", str(Reason("setup.without_boto3"))) from error
    try:
        return Clients(settings.clouds.aws)
    except ProfileNotFound as error:
        raise Stop(BAD_CONFIG, "no_profile", str(error), str(Reason("setup.profile"))) from error

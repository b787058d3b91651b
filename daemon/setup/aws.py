"""What frugald needs in an AWS account, in the order in which it is made."""

from config.aws_settings import AwsSettings
from daemon.setup import aws_bucket, aws_cost_tags, aws_groups, aws_notices, aws_policies, aws_roles
from daemon.setup.aws_calls import calling
from daemon.setup.aws_names import Names
from daemon.setup.steps import Step
from pricing.aws.clients import Clients

POLICIES = {
    "daemon": aws_policies.daemon_policy,
    "readonly": aws_policies.readonly_policy,
    "setup": aws_policies.setup_policy,
}
"""Those that people attach themselves; the roles of machines get theirs from the steps."""


def who(clients: Clients, settings: AwsSettings) -> dict[str, str]:
    """Return `Account` and `Arn` of the credentials. Raises Refused."""
    ask = calling(clients.get("sts", settings.regions[0]).get_caller_identity)
    answer = ask()
    return {"Account": answer["Account"], "Arn": answer["Arn"]}


def steps(clients: Clients, found: Names) -> list[Step]:
    """Return everything that frugald needs, in the order of making."""
    regions = found.settings.regions
    return [
        aws_bucket.step(clients, found),
        *aws_roles.steps(clients, found),
        *(aws_groups.step(clients, found, region) for region in regions),
        *(one for region in regions for one in aws_notices.steps(clients, found, region)),
        *(aws_cost_tags.steps(clients) if found.settings.check_bill else ()),
    ]


def settings_lines(found: Names) -> list[str]:
    """Return what to put into the settings file."""
    given, quoted = found.settings, ", ".join(f'"{region}"' for region in found.settings.regions)
    wanted = {
        "enabled": "true",
        "regions": f"[{quoted}]",
        **({"partition": f'"{given.partition}"'} if given.partition != "aws" else {}),
        **({"profile": f'"{given.profile}"'} if given.profile else {}),
        **({"name": f'"{given.name}"'} if given.name != "frugald" else {}),
        **({"queue": f'"{given.queue}"'} if given.queue else {}),
    }
    return [
        "[clouds.sandbox]",
        "enabled = false",
        "",
        "[clouds.aws]",
        *(f"{key} = {value}" for key, value in wanted.items()),
        "",
        "[store]",
        f'url = "{found.store_url}"',
    ]

"""Who may do what on AWS: one policy for each of those who act. `docs/aws.md` shows them in full."""

import json
from collections.abc import Iterable
from typing import Any

from daemon.setup.aws_names import MADE_BY, OWNER, SPOT_ROLE, SPOT_SERVICE, Names

Policy = dict[str, Any]
_AGENTS, _ALL = "agents/*", "*"
_OBJECTS = ("s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload")
# What no resource can be named for: they only read.
_EC2_READS = (
    "ec2:DescribeAvailabilityZones",
    "ec2:DescribeCapacityReservations",
    "ec2:DescribeImages",
    "ec2:DescribeInstanceTypeOfferings",
    "ec2:DescribeInstanceTypes",
    "ec2:DescribeInstances",
    "ec2:DescribeReservedInstances",
    "ec2:DescribeSecurityGroups",
    "ec2:DescribeSpotInstanceRequests",
    "ec2:DescribeSpotPriceHistory",
    "ec2:DescribeSubnets",
    "ec2:DescribeVpcs",
    "ec2:GetSpotPlacementScores",
)
_OTHER_READS = (
    "ce:GetCostAndUsage",
    "pricing:GetProducts",
    "savingsplans:DescribeSavingsPlanRates",
    "savingsplans:DescribeSavingsPlans",
    "servicequotas:ListServiceQuotas",
    "sts:GetCallerIdentity",
)


def readonly_policy(names: Names) -> Policy:
    """Return what `mode = "advise"` needs: prices, quotas and what runs; no machine, no store."""
    return _policy(_reads(), *_image(names))


def daemon_policy(names: Names) -> Policy:
    """Return what the daemon and `frugald doctor aws` need: they touch only machines that carry our tag."""
    return _policy(
        _reads(),
        *_image(names),
        *_launch(names),
        {
            **_may("EndOwnMachines", ("ec2:TerminateInstances",), names.arn("ec2", "instance/*", region="*")),
            "Condition": {"Null": {f"aws:ResourceTag/{OWNER}": "false"}},
        },
        *_roles(names),
        _may("Objects", _OBJECTS, names.objects(_ALL)),
        _list(names, "ListObjects", _ALL),
        _may("FindBucket", ("s3:GetBucketLocation",), names.bucket_arn),
        *_notices(names),
    )


def machine_policy(names: Names) -> Policy:
    """Return what a machine may do as itself: read the agent, and the grant that the daemon left for it."""
    own = names.objects("keys/${aws:userid}/*")
    return _policy(
        _may("ReadAgentAndGrant", ("s3:GetObject",), names.objects(_AGENTS), own),
        _list(names, "ListAgents", _AGENTS),
    )


def job_policy(names: Names) -> Policy:
    """Return what grants are cut from: the daemon narrows it to one machine and its jobs."""
    return _policy(_may("Objects", _OBJECTS, names.objects(_ALL)), _list(names, "ListObjects", _ALL))


def machine_trust(names: Names) -> Policy:
    """Return who may be a machine: EC2's instances."""
    return _policy({"Effect": "Allow", "Principal": {"Service": names.ec2}, "Action": "sts:AssumeRole"})


def job_trust(names: Names) -> Policy:
    """Return who may take on the job role: whom the account's own policies let, such as that of the daemon."""
    root = names.arn("iam", "root")
    return _policy({"Effect": "Allow", "Principal": {"AWS": root}, "Action": "sts:AssumeRole"})


def queue_policy(names: Names, region: str) -> Policy:
    """Return who may put notices into the queue of a region: our rule alone."""
    return _policy(
        {
            "Effect": "Allow",
            "Principal": {"Service": "events.amazonaws.com"},
            "Action": "sqs:SendMessage",
            "Resource": names.arn("sqs", names.settings.queue, region=region),
            "Condition": {
                "ArnEquals": {"aws:SourceArn": names.arn("events", f"rule/{names.settings.name}", region=region)}
            },
        }
    )


def setup_policy(names: Names) -> Policy:
    """Return what `frugald setup aws` needs, also to undo it."""
    return _policy(
        _setup_bucket(names),
        _setup_roles(names),
        {
            **_may(
                "SpotRole", ("iam:CreateServiceLinkedRole",), names.arn("iam", f"role/aws-service-role/*/{SPOT_ROLE}")
            ),
            "Condition": {"StringEquals": {"iam:AWSServiceName": SPOT_SERVICE}},
        },
        *_setup_groups(names),
        _may(
            "Account",
            (
                "ce:ListCostAllocationTags",
                "ce:UpdateCostAllocationTagsStatus",
                "ec2:DescribeSecurityGroups",
                "ec2:DescribeVpcs",
                "sts:GetCallerIdentity",
            ),
            "*",
        ),
        *_setup_notices(names),
    )


# ---------------------------------------------------------------- the daemon


def _reads() -> Policy:
    return _may("Read", sorted((*_EC2_READS, *_OTHER_READS)), "*")


def _image(names: Names) -> list[Policy]:
    """Public parameters belong to no account; an image that is named needs none."""
    image = names.settings.image
    if image.startswith("ami-"):
        return []
    account = "" if image.startswith("/aws/service/") else None
    resource = names.arn("ssm", f"parameter/{image.lstrip('/')}", region="*", account=account)
    return [_may("FindImage", ("ssm:GetParameter",), resource)]


def _launch(names: Names) -> list[Policy]:
    """A machine and its disk are made with our tag or not at all; what else a launch touches has none."""
    made = [names.arn("ec2", f"{kind}/*", region="*") for kind in ("instance", "volume")]
    used = [
        names.arn("ec2", f"{kind}/*", region="*")
        for kind in ("capacity-reservation", "network-interface", "security-group", "spot-instances-request", "subnet")
    ]
    images = [names.arn("ec2", f"{kind}/*", region="*", account="") for kind in ("image", "snapshot")]
    tagged = [
        *made,
        *(names.arn("ec2", f"{kind}/*", region="*") for kind in ("network-interface", "spot-instances-request")),
    ]
    return [
        {
            **_may("LaunchTagged", ("ec2:RunInstances",), *made),
            "Condition": {"Null": {f"aws:RequestTag/{OWNER}": "false"}},
        },
        _may("LaunchWith", ("ec2:RunInstances",), *used, *images),
        {
            **_may("TagAtLaunch", ("ec2:CreateTags",), *tagged),
            "Condition": {"StringEquals": {"ec2:CreateAction": "RunInstances"}},
        },
    ]


def _roles(names: Names) -> list[Policy]:
    machine, job = (names.arn("iam", f"role/{role}") for role in (names.machine_role, names.job_role))
    profile = names.arn("iam", f"instance-profile/{names.machine_role}")
    return [
        {
            **_may("GiveMachineRole", ("iam:PassRole",), machine),
            "Condition": {"StringEquals": {"iam:PassedToService": names.ec2}},
        },
        _may("SeeRoles", ("iam:GetInstanceProfile", "iam:GetRole"), machine, job, profile, *_spot(names)),
        _may("MakeGrants", ("sts:AssumeRole",), job),
    ]


def _notices(names: Names) -> list[Policy]:
    if not names.settings.queue:
        return []
    queue = names.arn("sqs", names.settings.queue, region="*")
    actions = ("sqs:DeleteMessage", "sqs:GetQueueUrl", "sqs:ReceiveMessage")
    return [_may("ReadNotices", actions, queue)]


# ---------------------------------------------------------------- setup


def _setup_bucket(names: Names) -> Policy:
    kinds = ("BucketPublicAccessBlock", "BucketTagging", "EncryptionConfiguration", "LifecycleConfiguration")
    both = [f"s3:{verb}{kind}" for kind in kinds for verb in ("Get", "Put")]
    return _may("Bucket", ["s3:CreateBucket", "s3:DeleteBucket", "s3:ListBucket", *both], names.bucket_arn)


def _setup_roles(names: Names) -> Policy:
    actions = [
        f"iam:{action}"
        for action in (
            "AddRoleToInstanceProfile", "CreateInstanceProfile", "CreateRole", "DeleteInstanceProfile", "DeleteRole",
            "DeleteRolePolicy", "GetInstanceProfile", "GetRole", "GetRolePolicy", "PutRolePolicy",
            "RemoveRoleFromInstanceProfile", "TagInstanceProfile", "TagRole", "UpdateAssumeRolePolicy", "UpdateRole",
        )
    ]  # fmt: skip
    made = [names.arn("iam", f"role/{role}") for role in (names.machine_role, names.job_role)]
    profile = names.arn("iam", f"instance-profile/{names.machine_role}")
    # Putting a role into an instance profile counts as passing it on.
    return _may("Roles", [*actions, "iam:PassRole"], *made, profile, *_spot(names))


def _setup_groups(names: Names) -> list[Policy]:
    groups = names.arn("ec2", "security-group/*", region="*")
    ours = {"StringEquals": {f"aws:ResourceTag/{MADE_BY}": "setup"}}
    changes = ("ec2:AuthorizeSecurityGroupIngress", "ec2:DeleteSecurityGroup", "ec2:RevokeSecurityGroupIngress")
    return [
        _may("MakeGroup", ("ec2:CreateSecurityGroup",), groups, names.arn("ec2", "vpc/*", region="*")),
        {
            **_may("TagGroup", ("ec2:CreateTags",), groups),
            "Condition": {"StringEquals": {"ec2:CreateAction": "CreateSecurityGroup"}},
        },
        {**_may("ChangeGroup", changes, groups), "Condition": ours},
    ]


def _setup_notices(names: Names) -> list[Policy]:
    if not names.settings.queue:
        return []
    queues = (
        "CreateQueue", "DeleteQueue", "GetQueueAttributes", "GetQueueUrl", "ListQueueTags", "SetQueueAttributes",
        "TagQueue",
    )  # fmt: skip
    rules = (
        "DeleteRule", "DescribeRule", "ListTagsForResource", "ListTargetsByRule", "PutRule", "PutTargets",
        "RemoveTargets", "TagResource",
    )  # fmt: skip
    return [
        _may("Queue", [f"sqs:{action}" for action in queues], names.arn("sqs", names.settings.queue, region="*")),
        _may(
            "Rule",
            [f"events:{action}" for action in rules],
            names.arn("events", f"rule/{names.settings.name}", region="*"),
        ),
    ]


# ---------------------------------------------------------------- statements


def _policy(*statements: Policy) -> Policy:
    return {"Version": "2012-10-17", "Statement": list(statements)}


def _may(sid: str, actions: Iterable[str], *resources: str) -> Policy:
    return {"Sid": sid, "Effect": "Allow", "Action": list(actions), "Resource": list(resources)}


def _spot(names: Names) -> list[str]:
    """Return EC2's role for spot: while there is none, IAM doesn't know its path."""
    return [names.arn("iam", f"role/{path}{SPOT_ROLE}") for path in ("", "aws-service-role/*/")]


def _list(names: Names, sid: str, below: str) -> Policy:
    """Without a prefix the whole bucket is ours, and nothing is left to compare."""
    statement = _may(sid, ("s3:ListBucket",), names.bucket_arn)
    pattern = names.key(below)
    return statement if pattern == "*" else {**statement, "Condition": {"StringLike": {"s3:prefix": [pattern]}}}


def text(policy: Policy) -> str:
    """Return a policy as AWS takes it; it counts the characters."""
    return json.dumps(policy, separators=(",", ":"))

"""What everything of one installation on AWS is called: names, ARNs, tags, service principals."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from config.aws_settings import AwsSettings

OWNER, MADE_BY = "frugald:owner", "frugald:made-by"
COST_TAGS = ("frugald:job", "frugald:machine", "frugald:owner", "frugald:project", "frugald:user")
SPOT_ROLE = "AWSServiceRoleForEC2Spot"
SPOT_SERVICE = "spot.amazonaws.com"
PORTS = (22, 8888, 6006)  # SSH, Jupyter, TensorBoard
ANY_ACCOUNT = "ACCOUNT"  # stands for the account's id where nobody knows it yet
PREFIX = "store"  # in a bucket that setup makes


@dataclass(frozen=True, slots=True)
class Names:
    """The names of one installation: its settings, the account, and the store as `s3://bucket/prefix`."""

    settings: AwsSettings
    account: str
    bucket: str
    prefix: str

    @property
    def own_bucket(self) -> bool:
        """Say whether the bucket has the name that setup would give it."""
        return self.bucket == bucket_name(self.settings, self.account)

    @property
    def store_url(self) -> str:
        """Return the store as the settings name it."""
        return f"s3://{self.bucket}/{self.prefix}".rstrip("/")

    @property
    def machine_role(self) -> str:
        """Return the name of the role, and instance profile, that machines have."""
        return f"{self.settings.name}-machine"

    @property
    def job_role(self) -> str:
        """Return the name of the role that the daemon takes on to give machines their credentials."""
        return f"{self.settings.name}-job"

    @property
    def tags(self) -> dict[str, str]:
        """Return what marks a thing as made by setup, for this installation's name."""
        return {OWNER: self.settings.name, MADE_BY: "setup"}

    def arn(self, service: str, resource: str, *, region: str = "", account: str | None = None) -> str:
        """Return an ARN of the settings' partition; `account` None is the installation's own."""
        owner = self.account if account is None else account
        return f"arn:{self.settings.partition}:{service}:{region}:{owner}:{resource}"

    @property
    def bucket_arn(self) -> str:
        """Return the bucket's ARN."""
        return self.arn("s3", self.bucket, account="")

    def objects(self, below: str) -> str:
        """Return the ARN of the objects that match `below`, under the store's prefix."""
        return f"{self.bucket_arn}/{self.key(below)}"

    def key(self, below: str) -> str:
        """Return a key, or a pattern of keys, as S3 sees it."""
        return f"{self.prefix}/{below}" if self.prefix else below

    @property
    def ec2(self) -> str:
        """Return EC2's service principal."""
        return "ec2.amazonaws.com.cn" if self.settings.partition == "aws-cn" else "ec2.amazonaws.com"


def bucket_name(settings: AwsSettings, account: str) -> str:
    """Return what setup calls the bucket: the account makes it unique, its region stands at the end."""
    return f"{settings.name}-{account}-{settings.regions[0]}"


def names(settings: AwsSettings, account: str, store_url: str) -> Names:
    """Return the names; a store that isn't in S3 yet is to be `PREFIX` in the bucket of setup."""
    if not store_url.startswith("s3://"):
        return Names(settings, account, bucket_name(settings, account), PREFIX)
    bucket, _, prefix = store_url.removeprefix("s3://").rstrip("/").partition("/")
    return Names(settings, account, bucket, prefix)


def tag_list(tags: Mapping[str, str]) -> list[dict[str, str]]:
    """Return tags as most services take them."""
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def is_ours(tags: Sequence[Mapping[str, str]] | Mapping[str, str], ours: Mapping[str, str]) -> bool:
    """Say whether a thing's tags, in whichever of the two shapes, hold all of ours."""
    has = tags if isinstance(tags, Mapping) else {tag["Key"]: tag["Value"] for tag in tags}
    return ours.items() <= has.items()

"""The settings of AWS: one account in one partition."""

from typing import Annotated, Literal

from pydantic import Field

from config.section import Section


class AwsSettings(Section):
    """Amazon's cloud. Credentials are found as every AWS program finds them: a profile, the environment, a role."""

    regions: Annotated[tuple[str, ...], Field(min_length=1)] = ("us-east-1",)
    partition: Literal["aws", "aws-cn", "aws-us-gov"] = "aws"
    profile: str = ""  # of ~/.aws/config; empty: whatever is found
    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,30}$")] = "frugald"  # of the account's roles and bucket

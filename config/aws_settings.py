"""The settings of AWS: one account in one partition."""

from typing import Annotated, Literal

from pydantic import Field

from config.section import Section

_DLAMI = "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-24.04/latest/ami-id"
_Off = Annotated[float, Field(ge=0, lt=1)]


class AwsSettings(Section):
    """Amazon's cloud. Credentials are found as every AWS program finds them: a profile, the environment, a role."""

    enabled: bool = False
    regions: Annotated[tuple[str, ...], Field(min_length=1)] = ("us-east-1",)
    partition: Literal["aws", "aws-cn", "aws-us-gov"] = "aws"
    profile: str = ""  # of ~/.aws/config; empty: whatever is found
    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,30}$")] = "frugald"  # of the account's roles and bucket
    image: str = _DLAMI  # an SSM parameter that holds an image, or an image itself (ami-...)
    cuda_max: str = "13.0"  # the newest CUDA that the image's driver serves
    open_to: tuple[str, ...] = ()  # CIDRs that may reach ports 22, 8888 and 6006 of a machine; nobody by default
    queue: str = ""  # an SQS queue that EventBridge puts interruption notices into, by name, in every region
    placement_scores: bool = False  # ask for them: AWS allows few questions a day
    advisor: bool = True  # read the public file of interruption rates
    check_bill: bool = True  # compare the ledger with Cost Explorer once a day; a question costs 0.01 USD
    discounts: dict[str, _Off] = {}  # noqa: RUF012 - pydantic copies it; type pattern -> share off the list price

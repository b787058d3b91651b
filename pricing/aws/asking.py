"""What AWS's refusals mean: each becomes a sentence that says what failed, in which region, and what to do next."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    NoCredentialsError,
    PartialCredentialsError,
    ProfileNotFound,
    SSOError,
)
from botocore.parsers import ResponseParserError

from pricing.offer import SourceError

Client: TypeAlias = Any
"""A boto3 client: its class is made at run time."""

_DENIED = {"AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "NotAuthorized"}
_CREDENTIALS = {
    "AuthFailure", "ExpiredToken", "ExpiredTokenException", "InvalidClientTokenId", "UnrecognizedClientException",
    "InvalidAccessKeyId", "SignatureDoesNotMatch", "MissingAuthenticationToken",
}  # fmt: skip
_CLOCK = {"RequestExpired", "RequestTimeTooSkewed"}
_THROTTLED = {
    "RequestLimitExceeded", "EC2ThrottledException", "Throttling", "ThrottlingException", "TooManyRequestsException",
    "RequestThrottled", "MaxConfigLimitExceeded",
}  # fmt: skip
_NO_CREDENTIALS = (NoCredentialsError, PartialCredentialsError, CredentialRetrievalError, ProfileNotFound, SSOError)


class Denied(SourceError):
    """The credentials are good, and may not ask this."""


class BadCredentials(SourceError):
    """There are no credentials, or AWS doesn't accept them."""


@contextmanager
def asking(what: str, permission: str, region: str) -> Iterator[None]:
    """Turn every error of a call for `what` into a SourceError; `permission` is the IAM action that it needs."""
    try:
        yield
    except ClientError as error:
        code = error.response.get("Error", {}).get("Code", "unknown error")
        raise _judged(code, str(error), what, permission, region) from error
    except _NO_CREDENTIALS as error:
        raise BadCredentials(
            f"no usable AWS credentials to ask for {what} in {region} ({error}): set `clouds.aws.profile`, the "
            "AWS_ variables of the environment, or run the daemon with a role"
        ) from error
    except (BotoCoreError, ResponseParserError) as error:
        raise SourceError(
            f"AWS gave no answer for {what} in {region} ({error}): asked again at the next poll; see that the network "
            "reaches AWS"
        ) from error


def _judged(code: str, message: str, what: str, permission: str, region: str) -> SourceError:
    if code in _DENIED:
        return Denied(f"AWS denies {what} in {region} ({code}): let the daemon's role call `{permission}`")
    if code in _CREDENTIALS:
        return BadCredentials(
            f"AWS doesn't accept the credentials for {what} in {region} ({code}): renew them; "
            "`aws sts get-caller-identity` shows whose they are"
        )
    if code in _CLOCK:
        return SourceError(
            f"AWS finds this computer's clock wrong when asked for {what} in {region} ({code}): set it by NTP"
        )
    if code in _THROTTLED:
        return SourceError(
            f"AWS was asked too often for {what} in {region} ({code}): asked again at the next poll; if it stays, "
            "lengthen `prices.every`"
        )
    if code == "OptInRequired":
        return SourceError(
            f"the account hasn't switched on {region} ({code}): do so in the console under Account, or take it out of "
            "`clouds.aws.regions`"
        )
    return SourceError(
        f"AWS gave no {what} in {region} ({message}): asked again at the next poll; `frugald doctor aws` looks closer"
    )

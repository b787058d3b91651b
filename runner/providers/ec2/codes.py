"""What AWS's refusals mean for a machine: one table from the vendor's codes to what the caller does next."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    NoCredentialsError,
    ParamValidationError,
    PartialCredentialsError,
    SSOError,
)
from botocore.parsers import ResponseParserError

from runner.provider import Denied, ProviderError, QuotaExceeded, SoldOut, Throttled, Unknown

ENDED = "IdempotentInstanceTerminated"  # the token's machine was there and is gone
NOT_FOUND = "InvalidInstanceID.NotFound"
# A request bucket of EC2 holds 5 launches and fills at 2 a second: by then it is full again.
RETRY_AFTER = timedelta(seconds=5)

# A capacity reservation that is gone was there a moment ago: it has ended, and nothing is wrong with the settings.
SOLD_OUT = frozenset({
    "InsufficientInstanceCapacity", "UnfulfillableCapacity", "InsufficientCapacity", "InsufficientHostCapacity",
    "ReservationCapacityExceeded", "SpotMaxPriceTooLow", "Unsupported", "InsufficientFreeAddressesInSubnet", ENDED,
    "InvalidCapacityReservationId.NotFound",
})  # fmt: skip
QUOTA = frozenset({
    "MaxSpotInstanceCountExceeded", "VcpuLimitExceeded", "InstanceLimitExceeded", "MaxFleetCountExceeded",
    "VolumeLimitExceeded", "PendingVerification",
})  # fmt: skip
THROTTLED = frozenset({
    "RequestLimitExceeded", "EC2ThrottledException", "RequestThrottled", "TooManyRequestsException", "SlowDown",
})  # fmt: skip
TRANSIENT = frozenset({"InternalError", "InternalFailure", "Unavailable", "ServiceUnavailable", "RequestTimeout"})

_CREDENTIALS = "renew the credentials (`aws sso login`) or correct the profile; machines that run go on"
_CLOCK = "set this computer's clock by NTP: AWS accepts no request that is 5 minutes off"
_PERMISSION = "let the daemon's role do it: docs/aws-machines.md lists the calls, `frugald doctor aws` tries them"
_SETUP = "run `frugald setup aws`, which makes what is missing; a new role can take a minute to be known everywhere"
_IMAGE = "correct `image` in [clouds.aws], or empty it for the default image"
_REQUEST = "AWS refuses this request itself: take the offer's type out of the job, and report what it says"
DENIED = {
    "UnauthorizedOperation": _PERMISSION,
    "AccessDenied": _PERMISSION,
    "AccessDeniedException": _PERMISSION,
    "AuthFailure": _CREDENTIALS,
    "ExpiredToken": _CREDENTIALS,
    "ExpiredTokenException": _CREDENTIALS,
    "InvalidClientTokenId": _CREDENTIALS,
    "UnrecognizedClientException": _CREDENTIALS,
    "AuthFailure.ServiceLinkedRoleCreationNotPermitted": _SETUP,
    "NoSuchEntity": _SETUP,
    "InvalidGroup.NotFound": _SETUP,
    "InvalidSubnetID.NotFound": _SETUP,
    "InvalidAMIID.NotFound": _IMAGE,
    "InvalidAMIID.Malformed": _IMAGE,
    "InvalidAMIID.Unavailable": _IMAGE,
    "ParameterNotFound": _IMAGE,
    "InvalidParameterValue": _SETUP,
    "InvalidParameterCombination": _REQUEST,
    "InvalidInstanceType": _REQUEST,
    "InvalidUserData.Malformed": "shorten the store's URL: a machine's first program must fit into 16 KB",
    "InvalidKeyPair.NotFound": _REQUEST,
    "OptInRequired": "switch the region on in the AWS console, or take it out of `regions` in [clouds.aws]",
    "IdempotentParameterMismatch": "this token has rented another machine: look with find(token), then take a new token",
    "RequestExpired": _CLOCK,
    "RequestTimeTooSkewed": _CLOCK,
    "SignatureDoesNotMatch": f"{_CLOCK}; if it is right, correct the secret key",
}
_QUOTA_NEXT = "ask AWS for more: `frugald doctor aws` shows what the quota allows and the command for it"
_NO_CREDENTIALS = (NoCredentialsError, PartialCredentialsError, CredentialRetrievalError, SSOError)


def code_of(error: Exception) -> str:
    """Return the vendor's code, empty where the answer had none."""
    return str(_told(error).get("Code", ""))


def judged(error: Exception, action: str, *, launching: bool = False) -> ProviderError:
    """Return what a failed call means. While launching, an answer that is no refusal leaves open what happened."""
    if isinstance(error, ClientError):
        return _refusal(error, action, launching=launching)
    if isinstance(error, _NO_CREDENTIALS):
        return Denied(f"can't {action}: there are no usable AWS credentials ({error}); {_CREDENTIALS}")
    if isinstance(error, ParamValidationError):
        return Denied(f"can't {action}: {error}; {_REQUEST}")
    return _open(f"can't {action}: no answer from AWS ({error})", launching=launching)


@contextmanager
def asking(action: str) -> Iterator[None]:
    """Turn the errors of a call that changes nothing into ProviderErrors; `action` is what it was to do."""
    try:
        yield
    except (ClientError, BotoCoreError, ResponseParserError) as error:
        raise judged(error, action) from error


def _refusal(error: ClientError, action: str, *, launching: bool) -> ProviderError:
    code = code_of(error)
    said = f"{code}: can't {action} ({_told(error).get('Message', 'no reason given')})"
    if code in SOLD_OUT:
        return SoldOut(said)
    if code in QUOTA:
        return QuotaExceeded(f"{said}; {_QUOTA_NEXT}")
    if code in THROTTLED or code.startswith("Throttling"):
        return Throttled(said, RETRY_AFTER)
    advice = DENIED.get(code) or DENIED.get(code.partition(".")[0])
    if advice:
        return Denied(f"{said}; {advice}")
    if code in TRANSIENT or _status(error) >= 500 or not launching:
        return _open(said, launching=launching)
    return Denied(f"{said}; {_REQUEST}")


def _open(said: str, *, launching: bool) -> ProviderError:
    return Unknown(f"{said}: look with find(token)") if launching else ProviderError(f"{said}; asked again soon")


def _status(error: ClientError) -> int:
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def _told(error: Exception) -> dict[str, Any]:
    return dict(error.response.get("Error", {})) if isinstance(error, ClientError) else {}

"""Every code that AWS is known to refuse machines with, and what it makes the caller do."""

import pytest
from botocore.exceptions import EndpointConnectionError, NoCredentialsError, ReadTimeoutError
from botocore.parsers import ResponseParserError

from runner.provider import Denied, ProviderError, QuotaExceeded, SoldOut, Throttled, Unknown
from runner.providers.ec2 import codes
from tests.fakes.ec2 import refusal

FATAL = [
    "UnauthorizedOperation", "AccessDenied", "AuthFailure", "AuthFailure.ServiceLinkedRoleCreationNotPermitted",
    "InvalidAMIID.NotFound", "InvalidAMIID.Malformed", "InvalidAMIID.Unavailable", "InvalidParameterValue",
    "InvalidParameterCombination", "InvalidSubnetID.NotFound", "InvalidGroup.NotFound", "InvalidKeyPair.NotFound",
    "InvalidUserData.Malformed", "OptInRequired", "InvalidInstanceType", "InvalidLaunchTemplateId.NotFound",
    "IdempotentParameterMismatch", "RequestExpired", "RequestTimeTooSkewed", "SignatureDoesNotMatch", "ExpiredToken",
    "InvalidClientTokenId",
]  # fmt: skip


@pytest.mark.parametrize(
    ("code", "status", "kind"),
    [
        ("InsufficientInstanceCapacity", 500, SoldOut),
        *((code, 400, SoldOut) for code in sorted(codes.SOLD_OUT)),
        *((code, 400, QuotaExceeded) for code in sorted(codes.QUOTA)),
        *((code, 503, Throttled) for code in [*sorted(codes.THROTTLED), "Throttling", "ThrottlingException"]),
        *((code, 400, Denied) for code in FATAL),
        ("InternalError", 500, Unknown), ("Unavailable", 503, Unknown), ("500", 500, Unknown),
        ("NeverHeardOf", 400, Denied),
    ],
)  # fmt: skip
def test_a_refused_launch_says_what_to_do_next(code: str, status: int, kind: type[ProviderError]) -> None:
    error = codes.judged(refusal(code, status), "rent it", launching=True)
    assert type(error) is kind
    assert code in str(error)


@pytest.mark.parametrize("code", [*FATAL, *sorted(codes.DENIED)])
def test_every_denial_has_a_next_step(code: str) -> None:
    said = str(codes.judged(refusal(code), "rent it", launching=True))
    assert len(said.partition("; ")[2]) > 20


def test_a_lost_answer_is_unknown_when_launching_and_no_information_else() -> None:
    for error in (
        ReadTimeoutError(endpoint_url="x"),
        EndpointConnectionError(endpoint_url="x"),
        ResponseParserError("x"),
    ):
        assert isinstance(codes.judged(error, "rent it", launching=True), Unknown)
        assert type(codes.judged(error, "list")) is ProviderError


def test_a_reading_call_that_is_refused_for_a_reason_nobody_knows_is_no_information() -> None:
    assert type(codes.judged(refusal("NeverHeardOf"), "list")) is ProviderError


def test_without_credentials_a_person_is_told() -> None:
    assert isinstance(codes.judged(NoCredentialsError(), "rent it", launching=True), Denied)


def test_no_code_means_two_things() -> None:
    kinds = [codes.SOLD_OUT, codes.QUOTA, codes.THROTTLED, codes.TRANSIENT, frozenset(codes.DENIED)]
    assert sum(map(len, kinds)) == len(frozenset().union(*kinds))

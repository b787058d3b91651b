"""What AWS's refusals mean to setup: each becomes a reason that says what to do next."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from config.reason import Reason
from daemon.setup.steps import Refused

P = ParamSpec("P")
R = TypeVar("R")
DENIED = {"AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "AuthorizationError", "403"}
CREDENTIALS = {
    "AuthFailure", "ExpiredToken", "ExpiredTokenException", "InvalidAccessKeyId", "InvalidClientTokenId",
    "SignatureDoesNotMatch", "UnrecognizedClientException",
}  # fmt: skip


def code_of(error: ClientError) -> str:
    """Return AWS's code of an error; answers without a body have their status."""
    return str(error.response.get("Error", {}).get("Code", ""))


def explain(error: ClientError) -> Reason:
    """Return what an error means and what to do next."""
    code, call = code_of(error), error.operation_name
    if code in DENIED:
        return Reason("setup.denied", {"call": call, "code": code})
    if code in CREDENTIALS:
        return Reason("setup.credentials", {"code": code})
    return Reason("setup.failed", {"call": call, "code": code, "why": error.response["Error"].get("Message", "")})


def calling(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function that calls AWS raise Refused in place of what boto3 raises."""

    @wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except ClientError as error:
            raise Refused(explain(error)) from error
        except (BotoCoreError, ResponseParserError) as error:
            raise Refused(Reason("setup.no_answer", {"why": str(error)})) from error

    return called

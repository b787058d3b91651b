"""What every check of AWS is handed, and how a refusal becomes a finding."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from config.aws_settings import AwsSettings
from config.reason import Reason
from config.settings import Settings
from daemon.doctor import Finding, Verdict
from daemon.setup.aws_calls import CREDENTIALS, DENIED, code_of
from daemon.setup.aws_names import Names
from pricing.aws.asking import Denied
from pricing.aws.clients import Clients
from pricing.offer import SourceError
from runner.provider import ProviderError

# A launch lacks the spot role, or its instance profile.
_SETUP = {"AuthFailure.ServiceLinkedRoleCreationNotPermitted", "InvalidParameterValue"}
Findings = Iterable[Finding]


@dataclass(frozen=True, slots=True)
class Site:
    """One account as its credentials see it."""

    settings: Settings
    clients: Clients
    names: Names
    caller: str  # its ARN

    @property
    def aws(self) -> AwsSettings:
        """Return the settings of AWS."""
        return self.names.settings

    @property
    def rents(self) -> bool:
        """Say whether machines are to be rented: otherwise reading is enough."""
        return self.settings.mode == "rent"


def ok(check: str, code: str, /, **values: str | float) -> Finding:
    """Return what is as it should be."""
    return Finding(check, Verdict.OK, Reason(f"doctor.{code}", values))


def bad(check: str, code: str, following: str, /, **values: str | float) -> Finding:
    """Return what keeps frugald from working, with the next step."""
    return Finding(check, Verdict.FAIL, Reason(f"doctor.{code}", values), Reason(f"doctor_next.{following}", values))


def odd(check: str, code: str, following: str, /, **values: str | float) -> Finding:
    """Return what frugald can work with, with what would be better."""
    return replace(bad(check, code, following, **values), verdict=Verdict.WARN)


def checked(check: str, look: Callable[[], Findings]) -> Iterator[Finding]:
    """Yield what a check finds; an error of AWS is a finding of its own and ends it."""
    try:
        yield from look()
    except ClientError as error:
        yield refused(check, error)
    except Denied as error:
        yield bad(check, "said", "policy", why=str(error))
    except (SourceError, ProviderError) as error:
        yield bad(check, "said", "said", why=str(error))
    except (BotoCoreError, ResponseParserError) as error:
        yield bad(check, "no_answer", "network", why=str(error))


def refused(check: str, error: ClientError, action: str = "") -> Finding:
    """Return what a refusal means; `action` is the IAM action, where it isn't that of the call."""
    code = code_of(error)
    named = {"action": action or error.operation_name, "code": code, "why": error.response["Error"].get("Message", "")}
    if code in DENIED:
        return bad(check, "denied", "policy", **named)
    if code in CREDENTIALS:
        return bad(check, "credentials_refused", "credentials", **named)
    if code == "OptInRequired":
        return bad(check, "region_off", "region_on", **named)
    return bad(check, "refused", "setup" if code in _SETUP else "refused", **named)


def at(region: str, findings: Findings) -> Iterator[Finding]:
    """Say where findings were made."""
    return (replace(one, region=region) for one in findings)

"""The bill of AWS: Cost Explorer, by day and by the tag that names the machine."""

from collections.abc import Iterator, Sequence
from datetime import date
from decimal import Decimal
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from config.reason import Reason
from config.units import MICRO
from pricing.aws.clients import Clients
from pricing.bill import BilledDay, BillError

_TAG = "frugald:machine"
_OWNER = "frugald:owner"
_DENIED = {"AccessDeniedException", "AccessDenied", "UnauthorizedOperation", "UnrecognizedClientException"}


class AwsBill:
    """BillSource over GetCostAndUsage. Every page costs 0.01 USD; its figures lag by 24 to 48 hours."""

    name = "aws"

    def __init__(self, clients: Clients, owner: str) -> None:
        """Read the bill of what carries the tag `frugald:owner` = `owner`."""
        self._clients = clients
        self._owner = owner

    def days(self, since: date, until: date) -> Sequence[BilledDay]:
        """Return what was charged from `since` until before `until`. Raises BillError."""
        try:
            return [line for day in self._by_day(since, until) for line in _lines(day)]
        except KeyError as error:
            raise BillError(Reason("billing.nowhere")) from error
        except ClientError as error:
            code = error.response.get("Error", {}).get("Code", "")
            raise BillError(Reason("billing.denied" if code in _DENIED else "billing.failed", {"why": code})) from error
        except BotoCoreError as error:
            raise BillError(Reason("billing.failed", {"why": str(error)})) from error

    def _by_day(self, since: date, until: date) -> Iterator[dict[str, Any]]:
        question: dict[str, Any] = {
            "TimePeriod": {"Start": since.isoformat(), "End": until.isoformat()},
            "Granularity": "DAILY",
            "Metrics": ["UnblendedCost"],
            "GroupBy": [{"Type": "TAG", "Key": _TAG}],
            "Filter": {"Tags": {"Key": _OWNER, "Values": [self._owner]}},
        }
        while True:
            page = self._clients.home("ce").get_cost_and_usage(**question)
            yield from page["ResultsByTime"]
            if not page.get("NextPageToken"):
                return
            question["NextPageToken"] = page["NextPageToken"]


def _lines(day: dict[str, Any]) -> Iterator[BilledDay]:
    """Yield one line for each group; `frugald:machine$` without a name is what carries no such tag."""
    for group in day.get("Groups", ()):
        cost = group["Metrics"]["UnblendedCost"]
        yield BilledDay(
            day=date.fromisoformat(day["TimePeriod"]["Start"]),
            machine=group["Keys"][0].removeprefix(f"{_TAG}$"),
            micro=int((Decimal(cost["Amount"]) * MICRO).to_integral_value()),  # AWS writes ten digits and more
            currency=cost["Unit"],
            estimated=bool(day.get("Estimated", False)),
        )

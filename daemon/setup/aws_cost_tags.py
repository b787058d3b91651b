"""The tags that Cost Explorer groups by: it knows a tag a day after its first use, and must be told to count it."""

from dataclasses import dataclass
from typing import Any

from config.reason import Reason
from daemon.setup.aws_calls import calling
from daemon.setup.aws_names import COST_TAGS
from daemon.setup.steps import Found, Refused, State, Step
from pricing.aws.clients import Clients


def steps(clients: Clients) -> list[Step]:
    """Return the step that activates our tags; none where the partition has no Cost Explorer."""
    try:
        tags = _Tags(clients.home("ce"))
    except KeyError:
        return []
    made = (calling(tags.look), calling(tags.make), _stay)
    return [Step("cost allocation tags", "frugald:*", "", Reason("setup_about.cost_tags"), *made, optional=True)]


@dataclass(frozen=True, slots=True)
class _Tags:
    ce: Any

    def look(self) -> Found:
        status = self._status()
        if "Inactive" in status.values():
            return Found(State.MISSING)
        note = None if len(status) == len(COST_TAGS) else Reason("setup.cost_tags_later")
        return Found(State.SHARED, note)

    def make(self) -> None:
        """Activate those that Cost Explorer knows."""
        wanted = [{"TagKey": tag, "Status": "Active"} for tag, status in self._status().items() if status != "Active"]
        answer = self.ce.update_cost_allocation_tags_status(CostAllocationTagsStatus=wanted)
        if answer.get("Errors"):
            raise Refused(Reason("setup.cost_tags_refused", {"why": answer["Errors"][0].get("Message", "")}))

    def _status(self) -> dict[str, str]:
        found = self.ce.list_cost_allocation_tags(TagKeys=list(COST_TAGS), MaxResults=100)["CostAllocationTags"]
        return {tag["TagKey"]: tag["Status"] for tag in found}


def _stay() -> None:
    """Others may count by these tags, too."""

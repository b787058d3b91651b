"""What EC2 says of machines, as frugald knows machines."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from runner.provider import Condition, Machine

OWNER = "frugald:owner"
RECLAIMED = frozenset({"Server.SpotInstanceTermination", "Server.SpotInstanceShutdown"})

_CONDITIONS = {"pending": Condition.PENDING, "running": Condition.RUNNING, "terminated": Condition.GONE}
_WHY = {
    **dict.fromkeys(RECLAIMED, "interrupted"),
    "Client.UserInitiatedShutdown": "terminated",
    "Client.InstanceInitiatedShutdown": "switched_off",
    "Server.InsufficientInstanceCapacity": "no_capacity",
    "Server.InternalError": "cloud_failed",
    "Server.ScheduledStop": "retired",
    "Client.InternalError": "disk_failed",
    "Client.VolumeLimitExceeded": "disk_quota",
    "Client.InvalidSnapshot.NotFound": "image_gone",
}
_TIME = re.compile(r"\((\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) (?:GMT|UTC)\)")


def tags(found: Mapping[str, Any]) -> dict[str, str]:
    """Return a resource's tags but AWS's own."""
    pairs = {tag["Key"]: tag["Value"] for tag in found.get("Tags", [])}
    return {key: value for key, value in pairs.items() if not key.startswith("aws:")}


def condition(found: Mapping[str, Any]) -> Condition:
    """Return what an instance's state means: stopped ones cost their disk and must be ended, so they are ending."""
    return _CONDITIONS.get(found["State"]["Name"], Condition.ENDING)


def why(found: Mapping[str, Any]) -> str:
    """Return the reason of an instance's end as `machine_end.<name>`, empty while it has not ended."""
    if condition(found) in {Condition.PENDING, Condition.RUNNING}:
        return ""
    return f"machine_end.{_WHY.get(reason(found), 'ended')}"


def reason(found: Mapping[str, Any]) -> str:
    """Return EC2's code for the instance's last change of state."""
    return str(found.get("StateReason", {}).get("Code", ""))


def said_end(found: Mapping[str, Any]) -> datetime | None:
    """Return when the instance's end began, where EC2 says so: it bills until then."""
    match = _TIME.search(found.get("StateTransitionReason", ""))
    return datetime.fromisoformat(match[1]).replace(tzinfo=UTC) if match else None


def machine(region: str, found: Mapping[str, Any], ended_at: datetime | None) -> Machine:
    """Return an instance as a machine; `ended_at` counts once it is gone."""
    launched = found["LaunchTime"].astimezone(UTC)
    gone = condition(found) is Condition.GONE
    return Machine(
        id=f"{region}/{found['InstanceId']}",
        token=found.get("ClientToken", ""),
        condition=condition(found),
        launched_at=launched,
        ended_at=max(ended_at, launched) if gone and ended_at else None,
        address=found.get("PublicIpAddress") or found.get("PrivateIpAddress") or "",
        why_ended=why(found),
        tags=tags(found),
    )

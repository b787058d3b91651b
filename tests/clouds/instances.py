"""The life of an instance: what it is at any moment follows from when things happened to it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

USER = "Client.UserInitiatedShutdown"
GUEST = "Client.InstanceInitiatedShutdown"
RECLAIMED = "Server.SpotInstanceTermination"
STATES = {"pending": 0, "running": 16, "shutting-down": 32, "terminated": 48, "stopping": 64, "stopped": 80}
LISTED = timedelta(hours=1)  # how long a terminated instance is still shown
LEAD = timedelta(seconds=120)  # from the status of a spot request to the end that it announces
_TOLD = {
    USER: "User initiated shutdown",
    GUEST: "Instance initiated shutdown",
    RECLAIMED: "Spot instance termination",
    "Server.SpotInstanceShutdown": "Spot instance shutdown",
    "Server.InsufficientInstanceCapacity": "Insufficient capacity to launch instance",
    "Server.InternalError": "Internal error on launch",
    "Client.VolumeLimitExceeded": "Volume limit exceeded",
}
_INITIATED = {USER: "User initiated", RECLAIMED: "Service initiated"}


@dataclass(frozen=True)
class End:
    """Why an instance leaves `running`, from when on."""

    at: datetime
    code: str

    @property
    def reason(self) -> dict[str, str]:
        """Return the StateReason."""
        return {"Code": self.code, "Message": f"{self.code}: {_TOLD.get(self.code, self.code)}"}

    @property
    def transition(self) -> str:
        """Return the StateTransitionReason; AWS writes none where the guest shut itself down."""
        said = _INITIATED.get(self.code)
        return f"{said} ({self.at:%Y-%m-%d %H:%M:%S} GMT)" if said else ""


@dataclass
class SpotRequest:
    """What asked for a spot instance; its status is the third channel of notices."""

    id: str
    max_price: str
    made: datetime
    tags: dict[str, str]
    announced: datetime | None = None  # from when on its status tells of the end
    code: str = "instance-terminated-no-capacity"


@dataclass
class Instance:
    """One instance. `asked` is RunInstances' question."""

    id: str
    region: str
    zone: str
    type: str
    market: str  # on-demand, spot, capacity-block
    asked: Mapping[str, Any]
    tags: dict[str, str]
    launched: datetime
    visible: datetime
    running: datetime
    ends_in: timedelta
    disk_gb: int
    volume: str
    volume_tags: dict[str, str]
    private_ip: str
    public_ip: str = ""
    subnet: str = ""
    vpc: str = ""
    groups: tuple[tuple[str, str], ...] = ()  # id and name
    image: Mapping[str, Any] = field(default_factory=dict)
    profile: str = ""  # ARN
    role: str = ""
    owned: str = ""  # the capacity reservation that it runs in
    reserved: bool = False  # an owned reserved instance pays for it
    vcpus: int = 0
    token: str = ""
    request: SpotRequest | None = None
    stopped: End | None = None
    end: End | None = None
    rebalance: datetime | None = None  # when IMDS recommends it
    imds_notice: datetime | None = None  # the end that IMDS tells of

    def shown(self, now: datetime) -> bool:
        """Say whether a listing has it."""
        gone = self.gone_at
        return now >= self.visible and (gone is None or now < gone + LISTED)

    @property
    def gone_at(self) -> datetime | None:
        """Return when it is terminated, as far as that is settled."""
        return self.end.at + self.ends_in if self.end else None

    def state(self, now: datetime) -> str:
        if self.end and now >= self.end.at:
            return "terminated" if now >= self.end.at + self.ends_in else "shutting-down"
        if self.stopped and now >= self.stopped.at:
            return "stopped" if now >= self.stopped.at + self.ends_in else "stopping"
        return "running" if now >= self.running else "pending"

    def alive(self, now: datetime) -> bool:
        """Say whether its guest runs."""
        return self.state(now) == "running"

    def why(self, now: datetime) -> End | None:
        """Return what ended or stopped it, None while nothing has."""
        for one in (self.end, self.stopped):
            if one and now >= one.at:
                return one
        return None

    def finish(self, at: datetime, code: str) -> None:
        """End it then, unless it ends earlier."""
        if self.end is None or at < self.end.at:
            self.end = End(at, code)

    def power_off(self, now: datetime) -> None:
        """Shut down from inside: what follows was chosen at launch; a spot instance asked for once can't be stopped."""
        stays = self.asked.get("InstanceInitiatedShutdownBehavior", "stop") == "stop" and self.market == "on-demand"
        if stays and self.stopped is None:
            self.stopped = End(now, GUEST)
        elif not stays:
            self.finish(now, GUEST)

    def status(self, now: datetime) -> tuple[str, str, datetime]:
        """Return the State of its spot request, the Status code, and since when."""
        request = self.request
        assert request is not None, f"{self.id} is no spot instance"
        ended = self.end if self.end and now >= self.end.at else None
        if ended and ended.code != RECLAIMED:
            by = "instance-terminated-by-user" if ended.code in {USER, GUEST} else "system-error"
            return "closed", by, ended.at
        if request.announced is not None and now >= request.announced and self.end:
            # The status tells of an end two minutes ahead, whatever notice the test gives.
            return "closed", request.code, self.end.at - LEAD
        if ended:
            return "closed", request.code, ended.at
        return "active", "fulfilled", request.made


def matches(value: str, pattern: str) -> bool:
    """Compare as filters and policies do: * stands for anything, ? for one character."""
    spelled = re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".")
    return re.fullmatch(spelled, value, re.DOTALL) is not None

"""EC2's instances: launched once for each token, ended over time."""

import hashlib
import json
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from config.clock import Clock
from tests.clouds import house, listings, shown
from tests.clouds.aws_prices import Catalogue
from tests.clouds.call import Answer, Call
from tests.clouds.capacity import Capacity
from tests.clouds.form import asked as read
from tests.clouds.instances import STATES, USER, Instance, SpotRequest
from tests.clouds.keys import ACCOUNT
from tests.clouds.launch import Plan, checked_tags, plan
from tests.clouds.wire import Refused, ec2_answer

_FRESH = timedelta(seconds=1)


@dataclass
class Timing:
    """How long things take."""

    boots_in: timedelta = timedelta(0)
    ends_in: timedelta = timedelta(0)
    visible_after: timedelta = timedelta(0)


@dataclass
class Ec2:
    """All instances of the account, in every region."""

    clock: Clock
    catalogue: Catalogue
    capacity: Capacity
    timing: Timing
    lock: threading.RLock = field(default_factory=threading.RLock)
    instances: dict[str, Instance] = field(default_factory=dict)
    _tokens: dict[tuple[str, str, str], tuple[str, list[str]]] = field(default_factory=dict)

    def answer(self, call: Call) -> Answer | None:
        """Answer what concerns instances, None otherwise. Raises Refused."""
        handler = _ACTIONS.get(call.action)
        if handler is None or (
            call.action == "CreateTags" and not call.params.get("ResourceId.1", "").startswith("i-")
        ):
            return None
        with self.lock:
            self.capacity.free(self.instances.values(), self.clock.now())
            return ec2_answer(call.action, handler(self, call, read(call.action, call.params)))

    # ------------------------------------------------------------ launching

    def run(self, call: Call, asked: dict[str, Any]) -> dict[str, Any]:
        now = self.clock.now()
        made = plan(call.region, asked, self.catalogue, now)
        launched = self._known(call.region, made, asked, now)
        if launched is None:
            self.capacity.check_quota(made, call.region, asked["MinCount"], self.instances.values(), now)
            owned, count = self.capacity.room(made, asked["MinCount"], asked["MaxCount"], now)
            launched = [self._launch(call.region, made, asked, owned, now) for _ in range(count)]
            self._tokens[_scope(call.region, made, asked)] = (_digest(asked), [one.id for one in launched])
        items = [_as_launched(one, now) for one in launched]
        ident = hashlib.sha256(launched[0].id.encode()).hexdigest()[:17]
        return {"ReservationId": f"r-{ident}", "OwnerId": ACCOUNT, "Groups": [], "Instances": items}

    def _known(self, region: str, made: Plan, asked: Mapping[str, Any], now: datetime) -> list[Instance] | None:
        """Return what the same token launched before."""
        found = self._tokens.get(_scope(region, made, asked))
        if found is None or not asked.get("ClientToken"):
            return None
        digest, idents = found
        if digest != _digest(asked):
            raise Refused(
                "IdempotentParameterMismatch",
                "Arguments on this idempotent request are inconsistent with arguments used in previous request(s).",
            )
        launched = [self.instances[ident] for ident in idents]
        if all(one.state(now) == "terminated" for one in launched):
            told = f"The instance that the client token {asked['ClientToken']} made is terminated"
            raise Refused("IdempotentInstanceTerminated", told)
        return launched

    def _launch(self, region: str, made: Plan, asked: dict[str, Any], owned: str, now: datetime) -> Instance:
        number, timing = len(self.instances), self.timing
        reserved = not owned and self.capacity.is_reserved(made, region, self.instances.values(), now)
        one = Instance(
            id=_ident("i"), region=region, zone=made.subnet.zone, type=made.type, market=made.market, asked=asked,
            tags=dict(made.tags.get("instance", {})), launched=now, visible=now + timing.visible_after,
            running=now + timing.boots_in, ends_in=timing.ends_in, disk_gb=made.disk_gb, image=made.image,
            volume=_ident("vol"), volume_tags=dict(made.tags.get("volume", {})), owned=owned, profile=made.profile,
            private_ip=f"172.31.{number // 250}.{number % 250 + 4}", vcpus=made.vcpus, subnet=made.subnet.id,
            public_ip=f"203.0.113.{number % 254 + 1}" if made.public else "", vpc=made.subnet.vpc, reserved=reserved,
            groups=made.groups, role=made.role.name if made.role else "", token=asked.get("ClientToken", ""),
        )  # fmt: skip
        if made.market == "spot":
            house.have_spot_role()
            tags = dict(made.tags.get("spot-instances-request", {}))
            one.request = SpotRequest(f"sir-{secrets.token_hex(4)}", made.max_price, now, tags)
        if owned:
            self.capacity.occupy(owned)
        self.instances[one.id] = one
        return one

    # ------------------------------------------------------------ ending and marking

    def terminate(self, call: Call, asked: dict[str, Any]) -> dict[str, Any]:
        now = self.clock.now()
        found = self.named(call.region, asked["InstanceIds"], now)
        before = {one.id: one.state(now) for one in found}
        for one in found:
            one.finish(now, USER)
        return {"TerminatingInstances": [_change(one, before[one.id], now) for one in found]}

    def tag(self, call: Call, asked: dict[str, Any]) -> dict[str, Any]:
        given = checked_tags(asked["Tags"])
        for one in self.named(call.region, asked["Resources"], self.clock.now()):
            one.tags |= given
        return {}

    def named(self, region: str, idents: Sequence[str], now: datetime) -> list[Instance]:
        """Return instances by id. Raises Refused when one isn't known (yet)."""
        for ident in idents:
            if not ident.startswith("i-"):
                raise Refused("InvalidInstanceID.Malformed", f'Invalid id: "{ident}"')
        known = {one.id: one for one in self.instances.values() if one.region == region and one.shown(now)}
        missing = [ident for ident in idents if ident not in known]
        if missing:
            told = "ID '{}' does" if len(missing) == 1 else "IDs '{}' do"
            raise Refused("InvalidInstanceID.NotFound", f"The instance {told.format(', '.join(missing))} not exist")
        return [known[ident] for ident in idents]


def _scope(region: str, made: Plan, asked: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return where a token counts: in its zone if one was asked for, else in the region."""
    return region, made.subnet.zone if made.zoned else "", asked.get("ClientToken", "")


def _digest(asked: Mapping[str, Any]) -> str:
    rest = {name: value for name, value in asked.items() if name not in {"ClientToken", "DryRun"}}
    return json.dumps(rest, sort_keys=True, default=str)


def _ident(kind: str) -> str:
    return f"{kind}-{secrets.token_hex(9)[:17]}"


def _as_launched(one: Instance, now: datetime) -> dict[str, Any]:
    """Show an instance as the answer of its launch does: pending, however fast it boots."""
    fresh = one.state(now) == "running" and now - one.launched < _FRESH
    return shown.instance(one, now) | ({"State": {"Code": 0, "Name": "pending"}} if fresh else {})


def _change(one: Instance, before: str, now: datetime) -> dict[str, Any]:
    after = one.state(now)
    previous = {"Name": before, "Code": STATES[before]}
    return {"InstanceId": one.id, "PreviousState": previous, "CurrentState": {"Name": after, "Code": STATES[after]}}


_ACTIONS: dict[str, Callable[[Ec2, Call, dict[str, Any]], dict[str, Any]]] = {
    "RunInstances": Ec2.run,
    "TerminateInstances": Ec2.terminate,
    "CreateTags": Ec2.tag,
    "DescribeInstances": listings.instances,
    "DescribeSpotInstanceRequests": listings.spot_requests,
    "DescribeVolumes": listings.volumes,
    "DescribeImages": listings.machine_images,
    "DescribeInstanceAttribute": listings.attribute,
}

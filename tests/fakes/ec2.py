"""An account of EC2 in this process: it remembers machines, keeps their timers, and can be made to fail.

It checks every call against botocore's model of the service. What it answers is what shared knowledge says of AWS, not
AWS itself.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count
from typing import Any

import botocore.session
from botocore import xform_name
from botocore.exceptions import ClientError, ReadTimeoutError
from botocore.validate import ParamValidator

from tests.fakes.clock import FakeClock

ROLE_ID = "AROAMACHINES"
ZONE = "us-east-1a"
BOOT = timedelta(seconds=3)
SHUTDOWN = timedelta(seconds=2)
_LATE = timedelta(seconds=10)
_SESSION = botocore.session.get_session()


def refusal(code: str, status: int = 400, message: str = "no") -> ClientError:
    told: Any = {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(told, "Call")


@dataclass
class Account:
    """What AWS knows."""

    clock: FakeClock
    instances: list[dict[str, Any]] = field(default_factory=list)
    reservations: list[dict[str, Any]] = field(default_factory=list)
    messages: list[dict[str, Any]] = field(default_factory=list)
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    broken: dict[str, Exception] = field(default_factory=dict)  # call -> what it fails with
    groups: list[dict[str, Any]] = field(default_factory=lambda: [{"GroupId": "sg-1", "GroupName": "frugald"}])
    ids: Iterator[int] = field(default_factory=lambda: count(1))

    def asked(self, name: str) -> list[dict[str, Any]]:
        return [params for call, params in self.calls if call == name]

    def settle(self) -> None:
        """Let happen what is due."""
        now = self.clock.now()
        for one in self.instances:
            state, born = one["State"]["Name"], one["LaunchTime"]
            if state == "pending" and now - born >= BOOT:
                one["State"] = {"Name": "running"}
            if one["_reclaim_at"] and now >= one["_reclaim_at"]:
                self.end(one, "Server.SpotInstanceTermination", "", one["_reclaim_at"])
            minutes = re.search(r"^shutdown -h \+(\d+)$", one["_asked"]["UserData"], re.MULTILINE)
            off = born + timedelta(minutes=int(minutes[1])) if minutes else None
            if off and now >= off:
                self.end(
                    one, "Client.InstanceInitiatedShutdown", f"Client initiated ({off:%Y-%m-%d %H:%M:%S} GMT)", off
                )
            if one["_ends_at"] and now >= one["_ends_at"] + SHUTDOWN:
                one["State"] = {"Name": "terminated"}

    def end(self, one: dict[str, Any], code: str, said: str, at: Any) -> None:
        if one["_ends_at"] is None:
            one |= {"State": {"Name": "shutting-down"}, "StateReason": {"Code": code}, "_ends_at": at}
            one["StateTransitionReason"] = said

    def interrupt(self, machine_id: str, notice: timedelta) -> None:
        """Reclaim a spot machine: at once, or with EC2's two minutes."""
        one = next(one for one in self.instances if machine_id.endswith(one["InstanceId"]))
        now = self.clock.now()
        one["_status"] = {"Code": "instance-terminated-no-capacity", "UpdateTime": now}
        one["_reclaim_at"] = now + (timedelta(minutes=2) if notice else notice)
        self.settle()


@dataclass
class FakeClients:
    """Clients of the account; `fault` is one of lossy, throttled, sold_out, small_quota, late."""

    account: Account
    fault: str = ""

    def get(self, service: str, region: str) -> "FakeClient":
        return FakeClient(self.account, service, region, self.fault)

    def launch(self, region: str) -> "FakeClient":
        return self.get("ec2", region)

    def home(self, service: str) -> "FakeClient":
        return self.get(service, "us-east-1")


@dataclass
class FakeClient:
    account: Account
    service: str
    region: str
    fault: str

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda **params: self.call(name, params)

    def get_paginator(self, name: str) -> Any:
        client = self

        class Pages:
            def paginate(self, **params: Any) -> Iterator[Any]:
                yield client.call(name, params)

        return Pages()

    def call(self, name: str, params: dict[str, Any]) -> Any:
        model = _SESSION.get_service_model(self.service)
        operation = next(found for found in model.operation_names if xform_name(found) == name)
        report = ParamValidator().validate(params, model.operation_model(operation).input_shape)
        assert not report.has_errors(), report.generate_report()
        self.account.calls.append((name, params))
        self.account.settle()
        if self.fault == "throttled":
            raise refusal("RequestLimitExceeded", 503)
        for key in (name, f"{name}@{self.region}"):
            if key in self.account.broken:
                raise self.account.broken[key]
        return getattr(self, f"_{name}")(params)

    # ---------------------------------------------------------------- ec2

    def _run_instances(self, asked: dict[str, Any]) -> Any:
        same = [one for one in self._here() if one["ClientToken"] == asked["ClientToken"]]
        if same and same[0]["_asked"] != asked:
            raise refusal("IdempotentParameterMismatch")
        if same and same[0]["State"]["Name"] == "terminated":
            raise refusal("IdempotentInstanceTerminated")
        if not same:
            self._refuse()
            self.account.instances.append(self._new(asked))
            same = self.account.instances[-1:]
        if self.fault == "lossy":
            raise ReadTimeoutError(endpoint_url="https://ec2")
        return {"Instances": same}

    def _refuse(self) -> None:
        if self.fault == "sold_out":
            raise refusal("InsufficientInstanceCapacity", 500)
        if self.fault == "small_quota":
            raise refusal("MaxSpotInstanceCountExceeded")

    def _new(self, asked: dict[str, Any]) -> dict[str, Any]:
        named = {spec["ResourceType"]: spec["Tags"] for spec in asked["TagSpecifications"]}
        return {
            "InstanceId": f"i-{next(self.account.ids):017x}", "ClientToken": asked["ClientToken"],
            "State": {"Name": "pending"}, "LaunchTime": self.account.clock.now(), "Tags": named["instance"],
            "StateTransitionReason": "", "PublicIpAddress": "203.0.113.5", "_asked": asked, "_region": self.region,
            "CapacityReservationSpecification": asked.get("CapacityReservationSpecification", {}),
            "_reclaim_at": None, "_ends_at": None, "_status": {"Code": "fulfilled"},
            "_spot": "spot" in str(asked.get("InstanceMarketOptions")),
        }  # fmt: skip

    def _here(self) -> list[dict[str, Any]]:
        return [one for one in self.account.instances if one["_region"] == self.region]

    def _describe_instances(self, asked: dict[str, Any]) -> Any:
        now = self.account.clock.now()
        shown = [one for one in self._here() if self.fault != "late" or now - one["LaunchTime"] >= _LATE]
        return {"Reservations": [{"Instances": [one]} for one in shown if _matches(one, asked)]}

    def _describe_spot_instance_requests(self, asked: dict[str, Any]) -> Any:
        requests = [
            {"InstanceId": one["InstanceId"], "Status": one["_status"]}
            for one in self._here()
            if one["_spot"] and _matches(one, asked)
        ]
        return {"SpotInstanceRequests": requests}

    def _terminate_instances(self, asked: dict[str, Any]) -> Any:
        for one in self._here():
            if one["InstanceId"] in asked["InstanceIds"]:
                now = self.account.clock.now()
                self.account.end(
                    one, "Client.UserInitiatedShutdown", f"User initiated ({now:%Y-%m-%d %H:%M:%S} GMT)", now
                )
                return {}
        raise refusal("InvalidInstanceID.NotFound")

    def _describe_subnets(self, asked: dict[str, Any]) -> Any:
        zone = asked["Filters"][1]["Values"][0]
        return {"Subnets": [{"SubnetId": f"subnet-{zone}"}] if zone.startswith(self.region) else []}

    def _describe_vpcs(self, _: dict[str, Any]) -> Any:
        return {"Vpcs": [{"VpcId": "vpc-1"}]}

    def _describe_security_groups(self, _: dict[str, Any]) -> Any:
        return {"SecurityGroups": self.account.groups}

    def _describe_images(self, asked: dict[str, Any]) -> Any:
        root = [{"DeviceName": "/dev/sda1", "Ebs": {"VolumeSize": 65}}]
        image = {"RootDeviceName": "/dev/sda1", "BlockDeviceMappings": root}
        names = asked.get("ImageIds") or ["ami-old", "ami-new"]
        dated = [{"ImageId": name, "CreationDate": f"2026-0{place + 1}-01"} for place, name in enumerate(names)]
        return {"Images": [image | one for one in dated]}

    def _describe_capacity_reservations(self, _: dict[str, Any]) -> Any:
        return {"CapacityReservations": self.account.reservations}

    # ---------------------------------------------------------------- others

    def _get_parameter(self, _: dict[str, Any]) -> Any:
        return {"Parameter": {"Value": "ami-named"}}

    def _get_role(self, _: dict[str, Any]) -> Any:
        return {"Role": {"RoleId": ROLE_ID}}

    def _get_queue_url(self, asked: dict[str, Any]) -> Any:
        return {"QueueUrl": f"https://sqs/{asked['QueueName']}"}

    def _receive_message(self, _: dict[str, Any]) -> Any:
        return {"Messages": self.account.messages[:10]} if self.region == "us-east-1" else {}

    def _delete_message(self, asked: dict[str, Any]) -> Any:
        self.account.messages = [one for one in self.account.messages if one["ReceiptHandle"] != asked["ReceiptHandle"]]
        return {}


def _matches(one: dict[str, Any], asked: dict[str, Any]) -> bool:
    tags = {f"tag:{tag['Key']}": tag["Value"] for tag in one["Tags"]}
    facts = {"client-token": one["ClientToken"], "instance-id": one["InstanceId"]} | tags
    return all(facts.get(wanted["Name"]) in wanted["Values"] for wanted in asked.get("Filters", []))

"""The stand-in's account as setup and doctor meet it: one who may do everything, one who asks, and EC2's spot role."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import boto3

from tests.clouds import house
from tests.clouds.aws import AwsCloud
from tests.clouds.call import Answer, Call
from tests.clouds.keys import Key
from tests.clouds.wire import Refused


class Account(AwsCloud):
    """An account that is empty after each `reset`."""

    def client(self, service: str, region: str = "us-east-1") -> Any:
        """Return a client of somebody who may do everything."""
        key, secret = self.key("admin")
        named = {"aws_access_key_id": key, "aws_secret_access_key": secret}
        return boto3.client(service, endpoint_url=self.url, region_name=region, **named)

    def be(self, monkeypatch: Any, policy: Mapping[str, Any] | None = None, arn: str = "") -> None:
        """Let this process call with a key of its own; `arn` is whose."""
        key, secret = self.key("ann", policy)
        if arn:
            self.keys[key] = replace(self.keys[key], arn=arn)
        self.use(monkeypatch, key, secret)

    def made(self) -> list[str]:
        """Return what was asked that changes something."""
        reads = ("Describe", "Get", "List", "Head")
        return [call.action for call in self.calls if not call.action.startswith(reads)]

    def answer(self, call: Call, key: Key) -> Answer | None:
        if call.action == "CreateServiceLinkedRole":
            _not_twice()
        return super().answer(call, key)


def _not_twice() -> None:
    """moto has an error of its own for whoever makes EC2's role again."""
    if house.role(house.SPOT_ROLE):
        taken = f"Service role name {house.SPOT_ROLE} has been taken in this account, please try a different suffix."
        raise Refused("InvalidInput", taken)

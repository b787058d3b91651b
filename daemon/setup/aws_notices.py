"""Notices of interruptions: EventBridge puts them into a queue of each region, where the daemon takes them out."""

import json
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from config.reason import Reason
from daemon.setup.aws_calls import calling, code_of
from daemon.setup.aws_names import Names, is_ours, tag_list
from daemon.setup.aws_policies import queue_policy, text
from daemon.setup.steps import Found, State, Step
from pricing.aws.clients import Clients

PATTERN = {
    "source": ["aws.ec2", "aws.health"],
    "detail-type": [
        "EC2 Spot Instance Interruption Warning",
        "EC2 Instance Rebalance Recommendation",
        "EC2 Instance State-change Notification",
        "AWS Health Event",
    ],
}
_TARGET = "queue"
_KEPT_S = 3600  # a notice that is older helps nobody


def steps(clients: Clients, names: Names, region: str) -> list[Step]:
    """Return the steps that make queue and rule of one region; none without `queue` in the settings."""
    if not names.settings.queue:
        return []
    queue = _Queue(clients.get("sqs", region), names, region)
    rule = _Rule(clients.get("events", region), names, region)
    return [
        Step(
            "queue", names.settings.queue, region, Reason("setup_about.queue"),
            calling(queue.look), calling(queue.make), calling(queue.remove), {"policy": queue.policy},
        ),
        Step(
            "rule", names.settings.name, region, Reason("setup_about.rule"),
            calling(rule.look), calling(rule.make), calling(rule.remove), {"pattern": PATTERN},
        ),
    ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Queue:
    sqs: Any
    names: Names
    region: str

    @property
    def policy(self) -> dict[str, Any]:
        return queue_policy(self.names, self.region)

    def look(self) -> Found:
        url = self._url()
        if not url:
            return Found(State.MISSING)
        if not is_ours(self.sqs.list_queue_tags(QueueUrl=url).get("Tags", {}), self.names.tags):
            return Found(State.FOREIGN, Reason("setup.foreign", {"name": url}))
        has = self.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["Policy"]).get("Attributes", {})
        right = json.loads(has.get("Policy") or "{}") == self.policy
        return Found(State.THERE) if right else Found(State.STALE, Reason("setup.queue_differs"))

    def make(self) -> None:
        """Create it, or correct its policy."""
        wanted = {"Policy": text(self.policy), "MessageRetentionPeriod": str(_KEPT_S)}
        if url := self._url():
            self.sqs.set_queue_attributes(QueueUrl=url, Attributes=wanted)
        else:
            self.sqs.create_queue(QueueName=self.names.settings.queue, Attributes=wanted, tags=self.names.tags)

    def remove(self) -> None:
        """Delete it."""
        if url := self._url():
            self.sqs.delete_queue(QueueUrl=url)

    def _url(self) -> str:
        try:
            return str(self.sqs.get_queue_url(QueueName=self.names.settings.queue)["QueueUrl"])
        except self.sqs.exceptions.QueueDoesNotExist:
            return ""


@dataclass(frozen=True, slots=True)
class _Rule:
    events: Any
    names: Names
    region: str

    def look(self) -> Found:
        rule = self._rule()
        if not rule:
            return Found(State.MISSING)
        tags = self.events.list_tags_for_resource(ResourceARN=rule["Arn"]).get("Tags", [])
        if not is_ours(tags, self.names.tags):
            return Found(State.FOREIGN, Reason("setup.foreign", {"name": rule["Arn"]}))
        right = json.loads(rule.get("EventPattern") or "{}") == PATTERN and rule.get("State") == "ENABLED"
        if right and self._queue() in self._targets().values():
            return Found(State.THERE)
        return Found(State.STALE, Reason("setup.rule_differs"))

    def make(self) -> None:
        """Create or correct it, and point it at the queue."""
        # EventBridge refuses the tags of a rule that is there.
        tags = {} if self._rule() else {"Tags": tag_list(self.names.tags)}
        name = self.names.settings.name
        self.events.put_rule(Name=name, EventPattern=json.dumps(PATTERN), State="ENABLED", **tags)
        self.events.put_targets(Rule=name, Targets=[{"Id": _TARGET, "Arn": self._queue()}])

    def remove(self) -> None:
        """Delete it with its targets."""
        if not self._rule():
            return
        if targets := self._targets():
            self.events.remove_targets(Rule=self.names.settings.name, Ids=list(targets))
        self.events.delete_rule(Name=self.names.settings.name)

    def _rule(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = self.events.describe_rule(Name=self.names.settings.name)
        except ClientError as error:
            if code_of(error) == "ResourceNotFoundException":
                return {}
            raise
        return found

    def _targets(self) -> dict[str, str]:
        found = self.events.list_targets_by_rule(Rule=self.names.settings.name).get("Targets", [])
        return {target["Id"]: target["Arn"] for target in found}

    def _queue(self) -> str:
        return self.names.arn("sqs", self.names.settings.queue, region=self.region)

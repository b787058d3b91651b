"""The two ways by which AWS tells of an interruption from outside a machine: its spot request, and a queue.

The third, instance metadata, is read by the agent on the machine. All are best effort.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

from config.clock import Clock
from pricing.aws.clients import Clients
from runner.provider import Notice, ProviderError
from runner.providers.ec2.codes import asking
from runner.providers.ec2.listing import OWNER

WARNED_FOR = timedelta(minutes=2)  # how long a machine runs on after EC2 has told
_DOOMED = frozenset({
    "instance-terminated-no-capacity", "instance-terminated-by-price", "instance-terminated-by-service",
    "marked-for-termination",
})  # fmt: skip
_INTERRUPTIONS = {
    "EC2 Spot Instance Interruption Warning",
    "EC2 Capacity Reservation Instance Interruption Warning",
}
_REBALANCE = "EC2 Instance Rebalance Recommendation"
_HEALTH = "AWS Health Event"
_SCHEDULED_SOON = timedelta(minutes=15)  # before that, planned maintenance only makes a machine less safe
_REST = timedelta(minutes=5)  # after a queue that could not be read
_BATCH = 10
_BATCHES = 20  # of one reading: 200 messages


@dataclass(frozen=True, slots=True)
class Word:
    """What one message or spot request says of one machine."""

    machine_id: str
    at: datetime
    kind: str  # `interruption`, `rebalance`, or `scheduled`

    def notice(self, now: datetime) -> Notice:
        """Return it as a notice; planned maintenance is an interruption once it is near."""
        near = self.kind == "interruption" or (self.kind == "scheduled" and self.at - now <= _SCHEDULED_SOON)
        return Notice(self.machine_id, self.at, "interruption" if near else "rebalance")


def spot_words(region: str, requests: list[dict[str, Any]]) -> Iterator[Word]:
    """Read spot requests: EC2 changes their status at once and ends the machine two minutes later."""
    for request in requests:
        status = request.get("Status", {})
        if status.get("Code") in _DOOMED and request.get("InstanceId"):
            yield Word(f"{region}/{request['InstanceId']}", ends(status), "interruption")


def ends(status: Mapping[str, Any]) -> datetime:
    """Return until when a machine runs at most, by the status of its spot request."""
    changed: datetime = status["UpdateTime"]
    return changed.astimezone(UTC) + WARNED_FOR


def event_words(region: str, text: str) -> Iterator[Word]:
    """Read one event of EventBridge; nothing of it where it is about something else. Raises ValueError."""
    event = json.loads(text)
    try:
        kind, detail, at = event["detail-type"], event["detail"], _time(event["time"])
        if kind in _INTERRUPTIONS:
            yield Word(f"{region}/{detail['instance-id']}", at + WARNED_FOR, "interruption")
        elif kind == _REBALANCE:
            yield Word(f"{region}/{detail['instance-id']}", at, "rebalance")
        elif kind == _HEALTH and (detail["service"], detail["eventTypeCategory"]) == ("EC2", "scheduledChange"):
            starts = _aware(parsedate_to_datetime(detail["startTime"])) if detail.get("startTime") else at
            for entity in detail["affectedEntities"]:
                yield Word(f"{region}/{entity['entityValue']}", starts, "scheduled")
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"an event without {error}") from error


class Channels:
    """Asks one account's spot requests and queues, and remembers each event that it has taken from a queue."""

    def __init__(self, clients: Clients, owner: str, queue: str, clock: Clock) -> None:
        """`queue` is the name of the queue in every region, empty without one."""
        self._clients = clients
        self._owner = owner
        self._queue = queue
        self._clock = clock
        self._urls: dict[str, str] = {}
        self._not_before: dict[str, datetime] = {}
        self.failed: dict[str, str] = {}  # region -> why its queue could not be read last time

    def ask(self, region: str) -> list[Word]:
        """Return what is new of a region's machines. Raises ProviderError when the spot requests can't be read."""
        return [*spot_words(region, self.requests(region)), *self._heard(region)]

    def requests(self, region: str) -> list[dict[str, Any]]:
        """Return our spot requests. Raises ProviderError."""
        with asking(f"read the spot requests of {region}"):
            pages = self._clients.get("ec2", region).get_paginator("describe_spot_instance_requests")
            filters = [{"Name": f"tag:{OWNER}", "Values": [self._owner]}]
            return [found for page in pages.paginate(Filters=filters) for found in page["SpotInstanceRequests"]]

    def _heard(self, region: str) -> list[Word]:
        """Read the queue; one that fails only costs its own words, since the other ways remain."""
        now = self._clock.now()
        if not self._queue or now < self._not_before.get(region, now):
            return []
        words: list[Word] = []
        try:
            with asking(f"read the queue {self._queue} in {region}"):
                for _ in range(_BATCHES):
                    if not self._batch(region, words):
                        break
            self.failed.pop(region, None)
        except ProviderError as error:
            self.failed[region] = str(error)
            self._not_before[region] = now + _REST
        return words

    def _batch(self, region: str, words: list[Word]) -> bool:
        """Add the words of up to ten messages and take these from the queue; say whether there may be more."""
        sqs = self._clients.get("sqs", region)
        if region not in self._urls:
            self._urls[region] = sqs.get_queue_url(QueueName=self._queue)["QueueUrl"]
        url = self._urls[region]
        asked = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=_BATCH, WaitTimeSeconds=0, VisibilityTimeout=20)
        messages: list[Mapping[str, Any]] = asked.get("Messages", [])
        for message in messages:
            try:
                words.extend(event_words(region, message["Body"]))
            except ValueError:
                pass  # nothing that we could ever read
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        return len(messages) == _BATCH


def _time(text: str) -> datetime:
    return _aware(datetime.fromisoformat(text))


def _aware(at: datetime) -> datetime:
    return at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)

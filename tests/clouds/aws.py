"""A stand-in for AWS on loopback: one account, all regions, through nothing but its wire protocols.

    with AwsCloud() as cloud:
        key, secret = cloud.key("daemon")                # or with policy={...}: enforced
        cloud.use(monkeypatch, key, secret)              # sets AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID and so on
        clients = Clients(AwsSettings())                 # boto3 and obstore now meet the stand-in

        cloud.sell_out("g5.xlarge", "us-east-1a", Market.SPOT, times=2)
        cloud.lose_answers(1)                            # of RunInstances; also fail, throttle, slow
        cloud.interrupt(instance_id, timedelta(seconds=5), {"status"})
        cloud.bill()                                     # what AWS would charge, line by line

`cloud.env(key, secret)` holds the same variables for a process of its own. `cloud.catalogue` sets prices, quotas and owned
capacity; `cloud.timing` how long booting, ending and becoming visible take; `cloud.calls` is what was asked, with the
permissions that it needed. With `guests=folder` machines run their user data as processes.

moto serves S3, IAM, SQS, EventBridge and networks; instances, images, prices, quotas, costs and STS are the stand-in's own.
moto's memory is the process's, so let one cloud run at a time, and `reset()` it between tests: it starts empty but for a
default VPC in each region. Time is the `clock`'s (signatures alone are checked against the real one, moved by `skew`), so a
FakeClock ages machines by the hour while clients sign as ever.
"""

import secrets
import threading
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Self

from moto.moto_api._internal.models import moto_api_backend
from moto.server import DomainDispatcherApplication, create_backend_app

from config.clock import Clock, SystemClock
from tests.clouds import costs, house, sts
from tests.clouds.aws_list import bulk
from tests.clouds.aws_prices import Catalogue
from tests.clouds.bill import Line, lines
from tests.clouds.call import Answer, Call
from tests.clouds.capacity import Capacity, Where
from tests.clouds.ec2 import Ec2, Timing
from tests.clouds.faults import Fault, Faults
from tests.clouds.front import Front, Made
from tests.clouds.guests import Guests
from tests.clouds.http import Server
from tests.clouds.images import parameters
from tests.clouds.imds import Imds
from tests.clouds.instances import RECLAIMED, Instance
from tests.clouds.keys import ACCOUNT, Key, Policy, lasting, passing
from tests.clouds.wire import Refused

_TENDED_EVERY_S = 0.05
_MACHINE_KEYS_LAST, _RENEWED_BEFORE = timedelta(hours=6), timedelta(hours=1)
CHANNELS = frozenset({"status", "events", "imds"})


class AwsCloud:
    """The account and its clouds. `calls` holds what was asked, in order."""

    def __init__(
        self,
        *,
        guests: Path | None = None,
        clock: Clock | None = None,
        boots_in: timedelta = timedelta(0),
        ends_in: timedelta = timedelta(0),
        visible_after: timedelta = timedelta(0),
        minute: timedelta = timedelta(minutes=1),
    ) -> None:
        self.wall = SystemClock()
        self.clock = clock or self.wall
        self._timing = (boots_in, ends_in, visible_after)
        self.guests = Guests(guests, self.clock, minute, self._guest_environment) if guests else None
        self.url = ""
        self.over = threading.Event()
        self._empty()

    def _empty(self) -> None:
        self.catalogue = Catalogue()
        self.timing = Timing(*self._timing)
        self.capacity = Capacity(self.catalogue)
        self.ec2 = Ec2(self.clock, self.catalogue, self.capacity, self.timing)
        self.faults = Faults()
        self.keys: dict[str, Key] = {}
        self.calls: list[Made] = []
        self.skew = timedelta(0)  # by how much AWS's clock differs from this computer's
        self.hidden: set[str] = set()  # SSM's public parameters that aren't there
        self.guest_env: dict[str, str] = {}  # what else the programs of guests find in their environment
        self.cost_tags: dict[str, str] = {}  # activated for Cost Explorer: key -> Active or Inactive
        self.costs_lag = timedelta(0)  # how old usage is when Cost Explorer first shows it
        self._imds: dict[str, Imds] = {}
        self._machine_keys: dict[str, Key] = {}
        self.event_queue = ""  # events go here, too, without a rule; in the region of the instance

    # ------------------------------------------------------------ running it

    def start(self) -> Self:
        moto_api_backend.reset()
        self.over.clear()
        self._server = Server(Front(self, DomainDispatcherApplication(create_backend_app)))
        self.url = self._server.url
        self._tending = threading.Thread(target=self._tend, daemon=True)
        if self.guests:
            self._tending.start()
        return self

    def stop(self) -> None:
        """End all guests, then the cloud."""
        self.over.set()
        if self.guests:
            self._tending.join()
        self._clear()
        self._server.stop()

    def _tend(self) -> None:
        while self.guests and not self.wall.wait(self.over, _TENDED_EVERY_S):
            with self.ec2.lock:
                self.guests.tend(self.ec2.instances.values())

    def _clear(self) -> None:
        with self.ec2.lock:
            if self.guests:
                self.guests.stop()
            for one in self._imds.values():
                one.stop()

    def reset(self, *, keep_keys: bool = False) -> None:
        """Be an empty account again, at the same address; clients that were made before need their keys kept."""
        self._clear()
        moto_api_backend.reset()
        keys = self.keys if keep_keys else {}
        self._empty()
        self.keys = keys

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    # ------------------------------------------------------------ who calls

    def key(self, name: str, policy: Policy | None = None, faults: Sequence[Fault] = ()) -> tuple[str, str]:
        """Make an access key; return its id and secret. The faults befall its calls only."""
        made = lasting(name, policy)
        self.keys[made.id] = made
        self.faults.add(replace(one, key=made.id) for one in faults)
        return made.id, made.secret

    def env(self, key: str, secret: str, region: str = "us-east-1") -> dict[str, str]:
        """Return the environment in which a program meets the stand-in with a key."""
        return {
            "AWS_ENDPOINT_URL": self.url, "AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": secret,
            "AWS_REGION": region, "AWS_DEFAULT_REGION": region, "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
        }  # fmt: skip

    def use(self, monkeypatch: Any, key: str, secret: str, region: str = "us-east-1") -> None:
        """Point this process at the stand-in."""
        for name in ("AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_SESSION_TOKEN"):
            monkeypatch.delenv(name, raising=False)
        for name, value in self.env(key, secret, region).items():
            monkeypatch.setenv(name, value)

    def machine_key(self, one: Instance) -> Key | None:
        """Return the short-lived keys of a machine's role, None without one."""
        now = self.clock.now()
        role = house.role(one.role) if one.role else None
        if role is None:
            return None
        known = self._machine_keys.get(one.id)
        if known is None or known.expires is None or known.expires - now < _RENEWED_BEFORE:
            known = passing(role.name, role.id, one.id, (), now + _MACHINE_KEYS_LAST)
            self._machine_keys[one.id] = known
            self._keep(known)
        return known

    def imds(self, instance_id: str) -> Imds:
        """Return the metadata server of a machine, started when it is first asked for."""
        with self.ec2.lock:
            if instance_id not in self._imds:
                self._imds[instance_id] = Imds(self.ec2.instances[instance_id], self.clock, self.machine_key)
            return self._imds[instance_id]

    def _guest_environment(self, one: Instance) -> dict[str, str]:
        metadata = self.imds(one.id).url
        # The two names by which boto3 and obstore know it; on a real machine it lies where both look by themselves.
        found = {"AWS_EC2_METADATA_SERVICE_ENDPOINT": metadata, "AWS_METADATA_ENDPOINT": metadata}
        return {"AWS_ENDPOINT_URL": self.url, "AWS_REGION": one.region, **found, **self.guest_env}

    # ------------------------------------------------------------ what goes wrong

    def fail(
        self, action: str, code: str, status: int = 400, *, times: int | None = None, key: str = "", region: str = ""
    ) -> None:
        """Refuse the next calls of an action without effect; `times` None: until reset."""
        self.faults.add([Fault(action, code, status, times, key, region)])

    def throttle(self, times: int | None = None, *, key: str = "", action: str = "") -> None:
        """Refuse the next calls as asked too often, each service in its own words."""
        self.faults.add([Fault(action, "throttled", times=times, key=key)])

    def lose_answers(self, times: int | None = 1, *, action: str = "RunInstances", key: str = "") -> None:
        """Close the connection after the effect of the next calls."""
        self.faults.add([Fault(action, times=times, key=key, lost=True)])

    def slow(self, seconds: float, *, action: str = "", times: int | None = None, region: str = "") -> None:
        """Delay answers."""
        self.faults.add([Fault(action, times=times, region=region, delay_s=seconds)])

    def sell_out(self, machine_type: str, zone: str, market: str, times: int | None = None) -> None:
        """Have no capacity for the next `times` launches in a pool, None: until `restock`."""
        self.capacity.refusals[machine_type, zone, str(market)] = times

    def restock(self, machine_type: str, zone: str, market: str, count: int | None = None) -> None:
        """Have capacity again, for `count` instances or for any number."""
        where: Where = (machine_type, zone, str(market))
        self.capacity.refusals.pop(where, None)
        self.capacity.stock.pop(where, None)
        if count is not None:
            self.capacity.stock[where] = count

    # ------------------------------------------------------------ what AWS does by itself

    def interrupt(
        self, instance_id: str, notice: timedelta = timedelta(minutes=2), channels: Iterable[str] = CHANNELS
    ) -> datetime:
        """Take a spot instance away after `notice`, told by some channels or none; return when."""
        assert set(channels) <= CHANNELS, f"channels are {set(CHANNELS)}"
        with self.ec2.lock:
            one, now = self.ec2.instances[instance_id], self.clock.now()
            assert one.request is not None, f"{instance_id} is no spot instance"
            one.finish(now + notice, RECLAIMED)
            one.request.announced = now if "status" in channels else None
            one.imds_notice = now + notice if "imds" in channels else None
        if "events" in channels:
            self._event(one, "EC2 Spot Instance Interruption Warning", {"instance-action": "terminate"})
        return now + notice

    def recommend_rebalance(self, instance_id: str, channels: Iterable[str] = ("events", "imds")) -> None:
        """Say that an instance is likelier than others to be taken away."""
        one = self.ec2.instances[instance_id]
        if "imds" in channels:
            one.rebalance = self.clock.now()
        if "events" in channels:
            self._event(one, "EC2 Instance Rebalance Recommendation", {})

    def kill(self, instance_id: str, code: str = "Server.InternalError") -> None:
        """End an instance at once, for a reason of AWS's own; also one that is pending."""
        with self.ec2.lock:
            self.ec2.instances[instance_id].finish(self.clock.now(), code)

    def _event(self, one: Instance, kind: str, detail: Mapping[str, str]) -> None:
        at, ident = self.clock.now(), secrets.token_hex(16)
        event = {
            "version": "0", "id": str(uuid.UUID(ident)), "detail-type": kind, "source": "aws.ec2", "account": ACCOUNT,
            "time": f"{at:%FT%TZ}", "region": one.region, "resources": [f"arn:aws:ec2:{one.region}:{ACCOUNT}:instance/{one.id}"],
            "detail": {"instance-id": one.id, **detail},
        }  # fmt: skip
        house.announce(one.region, event)
        if self.event_queue:
            house.send(one.region, self.event_queue, event)

    def bill(self) -> list[Line]:
        """Return what every instance has cost so far."""
        with self.ec2.lock:
            return lines(self.ec2.instances.values(), self.catalogue, self.clock.now())

    # ------------------------------------------------------------ answering

    def answer(self, call: Call, key: Key) -> Answer | None:
        """Answer what is the stand-in's own, None for moto. Raises Refused."""
        if call.service == "ec2" and (found := self.ec2.answer(call)) is not None:
            return found
        if call.service == "sts":
            return sts.answer(call, key, self._keep)
        if call.service == "ssm" and call.action == "GetParameter":
            return self._parameter(call)
        if call.service == "ce":
            with self.ec2.lock:
                return costs.answer(call, self._books())
        return self.catalogue.answer(call)

    def _books(self) -> costs.Books:
        until = self.clock.now() - self.costs_lag
        return costs.Books(list(self.ec2.instances.values()), self.catalogue, until, self.cost_tags)

    def public(self, path: str) -> Answer | None:
        """Answer what needs no signature."""
        parts = path.strip("/").split("/")
        return Answer(bulk(self.catalogue, parts[5]), content_type="application/json") if len(parts) == 7 else None

    def _keep(self, key: Key) -> None:
        self.keys[key.id] = key

    def _parameter(self, call: Call) -> Answer | None:
        name = call.params.get("Name", "")
        if name in self.hidden:
            raise Refused("ParameterNotFound", "")
        value = parameters(call.region).get(name)
        if value is None:
            return None
        arn = f"arn:aws:ssm:{call.region}::parameter{name}"
        found = {"Name": name, "Type": "String", "Value": value, "Version": 1, "ARN": arn, "DataType": "text"}
        return Answer.of_json({"Parameter": found})

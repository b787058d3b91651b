"""Machines of AWS: EC2 in one account, in the regions of the settings. docs/aws-machines.md tells what it does.

Nothing here remembers what must survive a restart: machines carry their token and their owner with them.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from config.aws_settings import AwsSettings
from config.clock import Clock
from pricing.aws.clients import Clients
from pricing.offer import Market
from runner.bootstrap import UserData
from runner.provider import (
    Abilities,
    Condition,
    Denied,
    LaunchRequest,
    Machine,
    Notice,
    ProviderError,
    QuotaExceeded,
    SoldOut,
    Throttled,
)
from runner.providers.ec2 import listing
from runner.providers.ec2.boot import user_data
from runner.providers.ec2.codes import ENDED, NOT_FOUND, RETRY_AFTER, asking, code_of, judged
from runner.providers.ec2.images import Images
from runner.providers.ec2.listing import OWNER
from runner.providers.ec2.network import Network
from runner.providers.ec2.notices import Channels, Word, ends
from runner.providers.ec2.request import Image, Reservation, chosen, parameters

T = TypeVar("T")
Found = dict[str, Any]
_LONGEST_TOKEN = 64
_REMEMBERED = 4096
_FORGET_WORDS = timedelta(hours=2)  # of machines that no listing shows
_LISTING_LAG = timedelta(minutes=2)


class AwsCloud:
    """One account. Safe to call from several threads."""

    name = "aws"

    def __init__(
        self, settings: AwsSettings, clients: Clients, owner: str, clock: Clock, instance_profile: str | None = None,
        *, listing_lag: timedelta = _LISTING_LAG, store_region: str = "",
    ) -> None:  # fmt: skip
        """Ask nothing yet. `store_region` is the bucket's, empty where its name ends with it or it is in the first region."""
        self.abilities = Abilities(notices=True, listing_lag=listing_lag)
        self._settings = settings
        self._clients = clients
        self._owner = owner
        self._clock = clock
        self._role = instance_profile or f"{settings.name}-machine"
        self._store_region = store_region
        self._images = Images(clients, settings.image, clock)
        self._network = Network(clients, settings.name, self._role)
        self._channels = Channels(clients, owner, settings.queue, clock)
        self._pool = ThreadPoolExecutor(min(8, len(settings.regions)), "aws")
        self._role_id = ""
        self._decided: dict[str, tuple[Image, Reservation | None]] = {}  # token -> what its first request named
        self._regions: dict[str, str] = {}  # token -> where it was asked for
        self._rented: dict[str, None] = {}  # ids of machines that this process has launched
        self._ends: dict[str, datetime] = {}  # machine -> when it was first seen to end
        self._words: dict[tuple[str, str], Word] = {}  # in force, by machine and kind
        self._told: set[str] = set()  # machines whose notice has been given

    def launch(self, request: LaunchRequest) -> Machine:
        """Rent one machine; see Provider.launch."""
        region = request.offer.pool.region
        asked = self._prepared(request)
        _remember(self._regions, request.token, region)
        action = f"rent {request.offer.pool}"
        try:
            answer = self._clients.launch(region).run_instances(**asked)
        except (ClientError, BotoCoreError, ResponseParserError) as error:
            if code_of(error) == ENDED:
                return self._ended(request, judged(error, action))
            raise judged(error, action, launching=True) from error
        [machine] = self._read(region, answer["Instances"])
        _remember(self._rented, machine.id, None)
        return machine

    def find(self, token: str) -> Machine | None:
        """Return the machine launched with `token`, None while no listing shows it."""
        known = self._regions.get(token)
        regions = (known,) if known else self._settings.regions
        machines = self._everywhere(partial(self._listed, token=token), regions)
        return next((machine for machine in machines if machine.token == token), None)

    def machines(self) -> Sequence[Machine]:
        """Return the owner's machines in every region; those that ended stay listed for about an hour."""
        machines = self._everywhere(self._listed, self._settings.regions)
        listed = {machine.id for machine in machines}
        self._ends = {machine_id: at for machine_id, at in self._ends.items() if machine_id in listed}
        return machines

    def terminate(self, machine_id: str) -> None:
        """Ask for a machine's end; gone already is success. Raises Denied for another owner's."""
        region, _, instance = machine_id.partition("/")
        if not instance:
            return  # no machine of this cloud
        action = f"end machine {machine_id}"
        with asking(action):
            ec2 = self._clients.get("ec2", region)
            found = _instances(ec2, {"instance-id": instance})
            if not found and machine_id not in self._rented:
                return
            if found and (owner := listing.tags(found[0]).get(OWNER)) != self._owner:
                raise Denied(f"can't {action}: its tag {OWNER} is {owner!r}, this is {self._owner!r}; ask its owner")
            if found and listing.condition(found[0]) is Condition.GONE:
                return
            try:
                ec2.terminate_instances(InstanceIds=[instance])  # one a call: a bad one would save all the others
            except ClientError as error:
                if code_of(error) != NOT_FOUND:
                    raise

    def notices(self) -> Sequence[Notice]:
        """Return the interruption notices in force, one for each machine and kind, until the machine is gone."""
        now = self._clock.now()
        for word in self._everywhere(self._channels.ask, self._settings.regions):
            self._words.setdefault((word.machine_id, word.kind), word)
        if not self._words:
            return []
        regions = sorted({machine_id.partition("/")[0] for machine_id, _ in self._words})
        there = {machine.id: machine.condition for machine in self._everywhere(self._listed, regions)}
        self._words = {key: word for key, word in self._words.items() if self._in_force(word, there, now)}
        self._told = {word.machine_id for word in self._words.values() if word.machine_id in there}
        told = {(word.machine_id, (notice := word.notice(now)).kind): notice for word in self._words.values()}
        return [notice for (machine_id, _), notice in sorted(told.items()) if machine_id in there]

    def extend(self, machine_id: str, until: datetime) -> None:
        """Do nothing: EC2 keeps no release timer; the guest timer of each machine is moved by its agent."""

    # ---------------------------------------------------------------- launching

    def _prepared(self, request: LaunchRequest) -> dict[str, Any]:
        """Return the whole request. Nothing is rented yet, so whatever gives no answer may simply be asked again."""
        try:
            self._check(request)
            pool = request.offer.pool
            script = user_data(request, self._region_of_store(request), self._machine_role_id())
            place = self._network.place(pool.region, pool.zone)
            image, reservation = self._decide(request)
            return parameters(request, image, place, reservation, script)
        except (SoldOut, QuotaExceeded, Throttled, Denied):
            raise
        except ProviderError as error:
            raise Throttled(f"nothing has been rented yet: {error}", RETRY_AFTER) from error

    def _check(self, request: LaunchRequest) -> None:
        owner = request.tags.get(OWNER)
        if owner != self._owner:
            raise Denied(f"the tag {OWNER} of the request is {owner!r}, this is {self._owner!r}: rent under your own")
        if not request.token.isascii() or len(request.token) > _LONGEST_TOKEN:
            raise Denied(f"the token {request.token!r} must have at most {_LONGEST_TOKEN} ASCII characters: shorten it")
        self._images.check(request.offer)

    def _decide(self, request: LaunchRequest) -> tuple[Image, Reservation | None]:
        """Return image and reservation, the same for a token each time: a retry must send what the first try sent."""
        decided = self._decided.get(request.token)
        if decided is None:
            decided = self._images.of(request.offer.pool.region), self._reservation(request)
            _remember(self._decided, request.token, decided)
        return decided

    def _reservation(self, request: LaunchRequest) -> Reservation | None:
        pool = request.offer.pool
        if pool.market is not Market.RESERVED:
            return None
        ec2 = self._clients.get("ec2", pool.region)
        filters = {"instance-type": pool.type, "availability-zone": pool.zone, "state": "active"}
        with asking(f"read the capacity reservations of {pool.region}"):
            for found in _instances(ec2, {"client-token": request.token}):  # a restart forgot what it had decided
                return _reservation_of(found)
            pages = ec2.get_paginator("describe_capacity_reservations").paginate(Filters=_filters(filters))
            return chosen((found for page in pages for found in page["CapacityReservations"]), pool, self._clock.now())

    def _region_of_store(self, request: LaunchRequest) -> str:
        if self._store_region:
            return self._store_region
        bucket = UserData.from_text(request.user_data).store.removeprefix("s3://").partition("/")[0]
        named = [region for region in self._settings.regions if bucket.endswith(f"-{region}")]
        return named[0] if named else self._settings.regions[0]

    def _machine_role_id(self) -> str:
        if not self._role_id:
            with asking(f"find the role {self._role} of machines"):
                role = self._clients.home("iam").get_role(RoleName=self._role)["Role"]
            self._role_id = str(role["RoleId"])
        return self._role_id

    def _ended(self, request: LaunchRequest, refusal: ProviderError) -> Machine:
        """Return the machine of a token that has ended. Raises SoldOut when it has been forgotten."""
        found = self.find(request.token)
        if found is None:
            raise refusal
        return found

    # ---------------------------------------------------------------- listing

    def _everywhere(self, ask: Callable[[str], Sequence[T]], regions: Sequence[str]) -> list[T]:
        """Ask every region at once. Raises the first ProviderError: part of an answer is none."""
        return [found for part in self._pool.map(ask, regions) for found in part]

    def _listed(self, region: str, token: str = "") -> list[Machine]:
        filters = {f"tag:{OWNER}": self._owner} | ({"client-token": token} if token else {})
        with asking(f"list the machines of {region}"):
            found = _instances(self._clients.get("ec2", region), filters)
        return self._read(region, found)

    def _read(self, region: str, found: list[Found]) -> list[Machine]:
        reclaimed = self._reclaimed(region, found)
        return [listing.machine(region, one, self._end(region, one, reclaimed)) for one in found]

    def _end(self, region: str, found: Found, reclaimed: dict[str, datetime]) -> datetime | None:
        """Return until when a machine billed: as EC2 says, else when it was first seen to end."""
        if listing.condition(found) in {Condition.PENDING, Condition.RUNNING}:
            return None
        seen = min(self._clock.now(), reclaimed.get(found["InstanceId"], self._clock.now()))
        first = self._ends.setdefault(f"{region}/{found['InstanceId']}", seen)
        return listing.said_end(found) or first

    def _reclaimed(self, region: str, found: list[Found]) -> dict[str, datetime]:
        """Return until when reclaimed spot machines can have run at most, where that isn't known yet."""
        open_ends = [
            one["InstanceId"]
            for one in found
            if listing.reason(one) in listing.RECLAIMED
            and not listing.said_end(one)
            and f"{region}/{one['InstanceId']}" not in self._ends
        ]
        if not open_ends:
            return {}
        return {
            request["InstanceId"]: ends(request["Status"])
            for request in self._channels.requests(region)
            if request.get("InstanceId") in open_ends
        }

    def _in_force(self, word: Word, there: dict[str, Condition], now: datetime) -> bool:
        """Say whether a word still tells something: a machine that ends is only told of if it was before."""
        state = there.get(word.machine_id)
        if state is None:
            return now - word.at < _FORGET_WORDS
        return state in {Condition.PENDING, Condition.RUNNING} or (
            state is Condition.ENDING and word.machine_id in self._told
        )


def _instances(ec2: Any, filters: dict[str, str]) -> list[Found]:  # noqa: ANN401
    pages = ec2.get_paginator("describe_instances").paginate(Filters=_filters(filters))
    return [found for page in pages for group in page["Reservations"] for found in group["Instances"]]


def _filters(wanted: dict[str, str]) -> list[dict[str, Any]]:
    return [{"Name": name, "Values": [value]} for name, value in wanted.items()]


def _reservation_of(found: Found) -> Reservation | None:
    target = found.get("CapacityReservationSpecification", {}).get("CapacityReservationTarget", {})
    reservation = target.get("CapacityReservationId")
    return Reservation(reservation, found.get("InstanceLifecycle") == "capacity-block") if reservation else None


def _remember(memory: dict[str, T], key: str, value: T) -> None:
    memory[key] = value
    while len(memory) > _REMEMBERED:
        memory.pop(next(iter(memory)))

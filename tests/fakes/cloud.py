"""A cloud in memory, in virtual time: nothing runs, everything that a cloud can answer can be arranged."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from config.clock import Clock
from pricing.offer import Market, Offer, Pool
from runner.provider import (
    Abilities,
    Condition,
    Denied,
    Gone,
    LaunchRequest,
    Machine,
    Notice,
    ProviderError,
    QuotaExceeded,
    SoldOut,
    Unknown,
)

OWNER = "frugald:owner"
LISTED_FOR = timedelta(hours=1)


@dataclass
class FakeAccount:
    """What the cloud's side knows; providers of several owners may share one."""

    rented: dict[str, "_Rented"] = field(default_factory=dict)  # by token


@dataclass
class _Rented:
    machine: Machine
    request: LaunchRequest
    ends_at: datetime  # the guest timer, or what is to come sooner
    why: str = "guard"
    notice: Notice | None = None
    notice_from: datetime | None = None


class FakeCloud:
    """Provider whose machines live by the clock that is passed in.

    `sold_out` and `quota` refuse launches; `next_error[call]` is raised by the next call of that name, once;
    `lose_next_answer` lets a launch happen and its answer get lost; `broken` refuses every call until it is emptied.
    """

    def __init__(
        self,
        clock: Clock,
        owner: str = "me",
        account: FakeAccount | None = None,
        *,
        name: str = "fake",
        boot: timedelta = timedelta(seconds=30),
        listing_lag: timedelta = timedelta(0),
        release_timer: timedelta | None = None,
    ) -> None:
        self.name = name
        self.abilities = Abilities(notices=True, real_money=False, listing_lag=listing_lag, release_timer=release_timer)
        self.account = account or FakeAccount()
        self.sold_out: set[Pool] = set()
        self.quota: dict[str, float] = {}  # family -> GPUs; a family that is missing has no limit
        self.next_error: dict[str, ProviderError] = {}
        self.broken: ProviderError | None = None
        self.lose_next_answer = False
        self.calls: list[tuple[str, str]] = []  # (call, token or machine id)
        self._clock = clock
        self._owner = owner
        self._boot = boot

    # -- the provider's calls

    def launch(self, request: LaunchRequest) -> Machine:
        self._called("launch", request.token)
        known = self.account.rented.get(request.token)
        if known is None:
            known = self._rent(request)
            if self.lose_next_answer:
                self.lose_next_answer = False
                raise Unknown("the answer was lost")
        if known.request != request:
            raise Denied("IdempotentParameterMismatch")
        return self._now(known)

    def find(self, token: str) -> Machine | None:
        self._called("find", token)
        known = self.account.rented.get(token)
        return self._now(known) if known and self._shows(known) else None

    def machines(self) -> Sequence[Machine]:
        self._called("machines", "")
        return [self._now(known) for known in self.account.rented.values() if self._shows(known)]

    def terminate(self, machine_id: str) -> None:
        self._called("terminate", machine_id)
        known = self._by_id(machine_id)
        if known and known.machine.tags.get(OWNER) != self._owner:
            raise Denied(f"{machine_id} belongs to somebody else")
        if known:
            self._end(known, self._clock.now(), "terminated")

    def notices(self) -> Sequence[Notice]:
        self._called("notices", "")
        now = self._clock.now()
        own = [known for known in self.account.rented.values() if self._shows(known)]
        return [k.notice for k in own if k.notice and k.notice_from and k.notice_from <= now < k.ends_at]

    def extend(self, machine_id: str, until: datetime) -> None:
        self._called("extend", machine_id)
        known = self._by_id(machine_id)
        there = known and self._now(known).condition is not Condition.GONE
        if self.abilities.release_timer and not there:
            raise Gone(machine_id)

    # -- what a test arranges

    def interrupt(self, machine_id: str, at: datetime, notice: timedelta = timedelta(minutes=2)) -> None:
        """Take a machine away at `at`, announced `notice` before (zero: not at all)."""
        known = self._machine(machine_id)
        self._end(known, at, "interrupted")
        known.notice = Notice(machine_id, at) if notice else None
        known.notice_from = at - notice

    def finish(self, machine_id: str) -> None:
        """Let the agent on a machine end, and the machine with it."""
        self._end(self._machine(machine_id), self._clock.now(), "exited")

    def set_guard(self, machine_id: str, until: datetime) -> None:
        """Move the guest timer, as an agent does when its lease is renewed."""
        known = self._machine(machine_id)
        if known.why == "guard":
            known.ends_at = until

    @property
    def billed(self) -> list[Machine]:
        """Every machine that runs up a bill now, of every owner, whether a listing shows it or not."""
        machines = [self._now(known) for known in self.account.rented.values()]
        return [machine for machine in machines if machine.condition is not Condition.GONE]

    # -- inside

    def _called(self, call: str, what: str) -> None:
        self.calls.append((call, what))
        if self.broken:
            raise self.broken
        error = self.next_error.pop(call, None)
        if error:
            raise error

    def _rent(self, request: LaunchRequest) -> _Rented:
        if request.tags.get(OWNER) != self._owner:
            raise Denied(f"the tag {OWNER} must be {self._owner!r}")
        if request.offer.pool in self.sold_out:
            raise SoldOut(str(request.offer.pool))
        family = request.offer.family
        used = sum(self._gpus(known) for known in self.account.rented.values() if known.request.offer.family == family)
        if used + request.offer.gpus > self.quota.get(family, float("inf")):
            raise QuotaExceeded(family)
        now = self._clock.now()
        machine = Machine(f"i-{len(self.account.rented):04d}", request.token, Condition.PENDING, now, tags=request.tags)
        rented = _Rented(machine, request, now + request.guard)
        self.account.rented[request.token] = rented
        return rented

    def _gpus(self, known: _Rented) -> float:
        return 0 if self._now(known).condition is Condition.GONE else known.request.offer.gpus

    def _now(self, known: _Rented) -> Machine:
        now = self._clock.now()
        if now >= known.ends_at:
            why = f"machine_end.{known.why}"
            return replace(known.machine, condition=Condition.GONE, ended_at=known.ends_at, why_ended=why)
        booted = now >= known.machine.launched_at + self._boot
        return replace(known.machine, condition=Condition.RUNNING if booted else Condition.PENDING)

    def _shows(self, known: _Rented) -> bool:
        now = self._clock.now()
        late = now < known.machine.launched_at + self.abilities.listing_lag
        return known.machine.tags.get(OWNER) == self._owner and not late and now < known.ends_at + LISTED_FOR

    def _end(self, known: _Rented, at: datetime, why: str) -> None:
        if at < known.ends_at:
            known.ends_at, known.why = at, why

    def _by_id(self, machine_id: str) -> _Rented | None:
        return next((known for known in self.account.rented.values() if known.machine.id == machine_id), None)

    def _machine(self, machine_id: str) -> _Rented:
        known = self._by_id(machine_id)
        if known is None:
            raise KeyError(machine_id)
        return known


def an_offer(clock: Clock, *, market: Market = Market.SPOT, zone: str = "zone-a", gpus: float = 1) -> Offer:
    """An offer that `FakeCloud` rents: one 16 GB GPU at 0.50 an hour."""
    return Offer(
        pool=Pool("fake", "region", zone, "gpu.small", market), gpu="T4", gpus=gpus, gpu_memory=16 * 1024**3, vcpus=4,
        memory=16 * 1024**3, hourly_micro=500_000, ceiling_micro=1_000_000, as_of=clock.now(), family="gpu",
    )  # fmt: skip

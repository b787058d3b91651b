"""The sandbox cloud: an invented market in front of real processes, with the faults of a real cloud.

Its only memory is its folder, so any process may open it again and find every machine; docs/sandbox.md tells the rest.
"""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path

from config.clock import Clock
from config.settings import SandboxSettings
from pricing.offer import Market, Pool
from pricing.sandbox_market import CLOUD, SandboxMarket
from runner.provider import Abilities, LaunchRequest, Machine, Notice, QuotaExceeded, SoldOut, Throttled, Unknown
from runner.providers.rack.account import Account, as_machine
from runner.providers.rack.rack import Rack
from runner.providers.rack.state import MachineState

_RETRY_AFTER = timedelta(seconds=1)
# Two machines fit on two cores, and neither sees a GPU that this computer may have: it was not what they rented.
_GUEST = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}


class SandboxCloud:
    """A cloud on this computer. Safe to call from several threads and processes."""

    name = CLOUD

    def __init__(
        self, folder: Path, settings: SandboxSettings, owner: str, clock: Clock, store_options: str = ""
    ) -> None:
        """Open the cloud in `folder` for the install `owner`, as in the tag `frugald:owner`.

        `store_options` is JSON that machines get as FRUGALD_STORE_OPTIONS.
        """
        self.abilities = Abilities(notices=True, real_money=False, listing_lag=settings.listing_lag)
        self._settings = settings
        self._clock = clock
        self._market = SandboxMarket(settings)
        self._rack = Rack(folder, clock)
        self._account = Account(self._rack, CLOUD, owner, clock)
        self._calls = count()
        self._guest = _GUEST | ({"FRUGALD_STORE_OPTIONS": store_options} if store_options else {})

    def launch(self, request: LaunchRequest) -> Machine:
        """Rent one machine; see Provider.launch. Returns once its host runs, before it has booted."""
        self._throttle()
        known = self._account.find(request.token)
        started = self._account.launch(request, self._accept)
        if known is None and self._market.answer_lost(request.token):
            raise Unknown(f"the answer to the launch with token {request.token} was lost: look with find(token)")
        return as_machine(started)

    def find(self, token: str) -> Machine | None:
        """Return the machine launched with `token`, None while a listing would not show it."""
        self._throttle()
        state = self._account.find(token)
        return as_machine(state) if state and self._visible(state) else None

    def machines(self) -> Sequence[Machine]:
        """Return the owner's machines; those that ended stay listed for an hour."""
        self._throttle()
        return [as_machine(state) for state in self._account.listed() if self._visible(state)]

    def terminate(self, machine_id: str) -> None:
        """Ask for a machine's end; gone already is success. Raises Denied for another owner's."""
        self._throttle()
        self._account.terminate(machine_id)

    def notices(self) -> Sequence[Notice]:
        """Return the notices of the owner's machines that are still there."""
        self._throttle()
        return self._account.notices()

    def extend(self, machine_id: str, until: datetime) -> None:
        """Do nothing: the sandbox keeps no release timer; the guest timer of each machine is moved by its agent."""

    def interrupt(self, machine_id: str, notice: timedelta) -> None:
        """Take a machine away after `notice` (zero: at once, unannounced), as the market would. Raises Gone."""
        self._rack.interrupt(machine_id, notice)

    def in_use(self, region: str, family: str, market: Market) -> float:
        """Return how many GPUs of a quota family run now, of every owner."""
        return _gpus(self._account.living(), region, family, market)

    def destroy_all(self) -> None:
        """End every machine of every owner, and return when no process is left: for the end of a demo or a test."""
        self._rack.destroy_all()

    def _accept(self, request: LaunchRequest, living: list[MachineState], now: datetime) -> MachineState:
        """Return the machine to start. Raises SoldOut, QuotaExceeded."""
        self._check_stock(request, living, now)
        self._check_quota(request, living)
        lives, why = self._fate(request, now)
        warned = why == "price" or self._market.warned(request.token)
        offer = request.offer
        return self._account.drawn_up(request, now).changed(
            place={**asdict(offer.pool), "family": offer.family, "gpus": offer.gpus}, environment=self._guest,
            boot_s=self._settings.boot.total_seconds(), lives_s=lives.total_seconds() if lives else None,
            lives_why=why, notice_s=self._settings.notice.total_seconds() if warned else 0.0,
        )  # fmt: skip

    def _check_stock(self, request: LaunchRequest, living: list[MachineState], now: datetime) -> None:
        pool = request.offer.pool
        offer = self._market.offer(pool, now)
        taken = sum(_pool(state) == pool for state in living)
        if offer is None or (offer.free is not None and taken >= offer.free):
            raise SoldOut(f"InsufficientInstanceCapacity: no {pool.type} ({pool.market}) left in {pool.zone}")
        if request.bid_micro is not None and pool.market is Market.SPOT and offer.hourly_micro > request.bid_micro:
            raise SoldOut(f"SpotMaxPriceTooLow: {pool.type} in {pool.zone} costs more than the limit of the request")

    def _check_quota(self, request: LaunchRequest, living: list[MachineState]) -> None:
        pool, family, limit = request.offer.pool, request.offer.family, self._settings.quota_gpus
        used = _gpus(living, pool.region, family, pool.market)
        if used + request.offer.gpus > limit:
            raise QuotaExceeded(
                f"MaxGpuLimitExceeded: {used:g} of {limit:g} GPUs of family {family} run in {pool.region} "
                f"({pool.market}): no room for {request.offer.gpus:g} more"
            )

    def _fate(self, request: LaunchRequest, now: datetime) -> tuple[timedelta | None, str]:
        """Return after how long the market takes the machine (None: never), and why."""
        pool = request.offer.pool
        if pool.market is not Market.SPOT or not self._settings.interruptions:
            return None, "interrupted"
        dear = self._market.passes_bid(pool, request.bid_micro, now) if request.bid_micro is not None else None
        fates = [
            (self._market.lifetime(pool, request.token), "interrupted"),
            (dear - now if dear else None, "price"),
        ]
        return min(fates, key=lambda fate: fate[0] or timedelta.max)

    def _visible(self, state: MachineState) -> bool:
        return self._clock.now() - datetime.fromisoformat(state.launched_at) >= self._settings.listing_lag

    def _throttle(self) -> None:
        if self._market.throttles(next(self._calls)):
            raise Throttled("RequestLimitExceeded: asked too often", _RETRY_AFTER)


def _pool(state: MachineState) -> Pool:
    place = state.place
    return Pool(place["cloud"], place["region"], place["zone"], place["type"], Market(place["market"]))


def _gpus(states: list[MachineState], region: str, family: str, market: Market) -> float:
    wanted = (region, family, market)
    return sum(
        float(place["gpus"])
        for place in (state.place for state in states)
        if (place["region"], place["family"], place["market"]) == wanted
    )

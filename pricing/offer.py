"""An offer: one kind of machine that can be had at one place in one market, and what its hour costs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol


class Market(StrEnum):
    """How a machine is paid for."""

    ON_DEMAND = "on-demand"
    SPOT = "spot"
    RESERVED = "reserved"  # owned capacity: already paid for, so an hour of it costs nothing more


@dataclass(frozen=True, order=True, slots=True)
class Pool:
    """Where stock, spot price and interruptions are shared: one machine type in one zone in one market."""

    cloud: str
    region: str
    zone: str
    type: str
    market: Market

    def __str__(self) -> str:
        """Return `cloud/zone/type/market`."""
        return f"{self.cloud}/{self.zone}/{self.type}/{self.market}"


@dataclass(frozen=True, slots=True)
class Offer:
    """What one machine of `pool` is and costs, as its source last said.

    Money is in micro-units of the accounting currency per hour for the whole machine. `gpu` is a key of the GPU table
    (empty for a machine without one); `gpu_memory` is the usable memory of ONE gpu, in bytes; a slice of a GPU has
    `gpus` < 1. `ceiling_micro` is the highest price the hour can reach while the machine is kept, if no bid limit is set:
    for spot the on-demand price of the same type. `free` is how many more can be had, None when the source can't say; an
    owned pool that `ends` must not be used after that.
    """

    pool: Pool
    gpu: str
    gpus: float
    gpu_memory: int
    vcpus: int
    memory: int
    hourly_micro: int
    ceiling_micro: int
    as_of: datetime
    family: str = ""  # the quota family: vCPUs or GPUs of all types in it count together
    free: int | None = None
    ends: datetime | None = None
    native_hourly: str = ""  # the source's own figure with its currency, for the ledger, such as `3.06 USD`
    fx_rate: str = "1"  # accounting units for one native unit
    disk_hourly_micro: int = 0  # per 100 GiB of disk
    minimum_billing: timedelta = timedelta(0)
    boot: timedelta = timedelta(minutes=3)  # typical time from the request to a job that can start
    notice: timedelta = timedelta(0)  # how long before an interruption the cloud warns; zero when it doesn't
    cuda_max: str = ""  # the newest CUDA that the image's driver serves, such as `13.0`; empty when unknown
    hazard_per_hour: float | None = None  # the source's own idea of the interruption rate, None when it has none

    @property
    def fits_many(self) -> bool:
        """Say whether one machine holds several whole GPUs."""
        return self.gpus > 1


@dataclass(frozen=True, slots=True)
class Quota:
    """How much of one family may run at once in one region and market, and how much of it is used."""

    cloud: str
    region: str
    family: str
    market: Market
    limit: float
    used: float
    unit: str = "gpus"  # what is counted: `gpus` or `vcpus`


class SourceError(Exception):
    """The source gave no usable answer this time: keep the last prices, show their age and this reason."""


class PriceSource(Protocol):
    """Where offers come from: one cloud, or a file."""

    name: str

    def offers(self, now: datetime) -> Iterable[Offer]:
        """Return everything that can be rented now, the sold-out left in with `free=0`; may block; SourceError."""

    def quotas(self, now: datetime) -> Sequence[Quota]:
        """Return what the account may run, or nothing when the source knows no quotas; may block; SourceError."""

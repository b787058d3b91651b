"""Makes the values of `config/gpus.toml`: what the file leaves out is worked out here."""

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

MIB = 1024**2
_REFERENCE = "V100-16"  # speeds are relative to it


@dataclass(frozen=True, slots=True)
class MigProfile:
    """A way to cut a GPU into instances, such as `1g.10gb`, and how many of them fit on one card."""

    name: str
    count: int

    @property
    def compute(self) -> int:
        """Return how many of the card's compute slices one instance takes."""
        return int(self.name.partition("g.")[0])

    @property
    def gb(self) -> int:
        """Return the memory of one instance, rounded as its name is."""
        return int(self.name.partition("g.")[2].removesuffix("gb"))


@dataclass(frozen=True, slots=True)
class Gpu:
    """One kind of GPU, or a part of one if `share` is below 1; `config/gpus.toml` explains the columns.

    Memory is in GB as on the box (`gb`) and in MiB as measured (`nvml_mib`: nvidia-smi's total, `usable_mib`: CUDA's);
    rates are dense TFLOPS and GB/s. `speed` is training speed relative to a V100, and `speed_source` says where it comes
    from: `measured`, `like <key>` for the same chip under another name, or `prior` for the formula.
    """

    key: str
    vendor: str
    host: str  # the machine's architecture: x86_64 or aarch64
    capability: str  # compute capability, such as `8.0`; AMD's gfx name otherwise
    architecture: str
    bf16: bool
    first_cuda: str | None  # the first CUDA that names it; None: no CUDA at all
    last_cuda: str | None  # the last one that still does; None: no end yet
    gb: float
    nvml_mib: int
    usable_mib: int
    usable_seen: bool  # False: reckoned from nvml_mib
    half_tflops: float | None  # None: no fast half precision
    single_tflops: float
    bandwidth_gb_s: float
    speed: float
    speed_source: str
    mig: tuple[MigProfile, ...]
    names: tuple[str, ...]
    sold: tuple[tuple[str, str], ...]  # (cloud, family) that always means this GPU
    share: Fraction = Fraction(1)

    def __str__(self) -> str:
        """Return the key."""
        return self.key

    @property
    def usable(self) -> int:
        """Return the bytes that CUDA offers: what to plan with."""
        return self.usable_mib * MIB


@cache
def facts() -> Mapping[str, Any]:
    """Return `config/gpus.toml` as it is written."""
    return tomllib.loads(Path(__file__).with_name("gpus.toml").read_text(encoding="utf-8"))


@cache
def table() -> Mapping[str, Gpu]:
    """Return every whole GPU by its key, in the file's order."""
    return {key: _gpu(key, entry) for key, entry in facts()["gpus"].items()}


def _gpu(key: str, entry: Mapping[str, Any]) -> Gpu:
    memory, rate = entry["memory"], entry["rate"]
    chip = facts()["capabilities"][entry["capability"]]
    speed, source = _speed(key)
    return Gpu(
        key=key,
        vendor=entry.get("vendor", "nvidia"),
        host=entry.get("host", "x86_64"),
        capability=entry["capability"],
        architecture=chip["name"],
        bf16=chip["bf16"],
        first_cuda=chip.get("first_cuda"),
        last_cuda=chip.get("last_cuda"),
        gb=memory["gb"],
        nvml_mib=memory["nvml"],
        usable_mib=memory.get("usable", memory["nvml"] - max(727, memory["nvml"] * 4 // 1000)),
        usable_seen="usable" in memory,
        half_tflops=rate.get("half"),
        single_tflops=rate["single"],
        bandwidth_gb_s=rate["bandwidth"],
        speed=speed,
        speed_source=source,
        mig=tuple(MigProfile(name, count) for name, count in facts()["mig"].get(entry.get("mig"), {}).items()),
        names=tuple(entry.get("names", ())),
        sold=tuple((cloud, family) for cloud, families in entry.get("sold", {}).items() for family in families),
    )


def _speed(key: str) -> tuple[float, str]:
    entry, reference = facts()["gpus"][key], facts()["gpus"][_REFERENCE]
    if "like" in entry:
        return _speed(entry["like"])[0], f"like {entry['like']}"
    if "samples" in entry:
        ratios = [mine / its for mine, its in zip(entry["samples"], reference["samples"], strict=True)]
        return math.prod(ratios) ** (1 / len(ratios)), "measured"
    return prior(entry["rate"]) / prior(reference["rate"]), "prior"


def prior(rate: Mapping[str, float]) -> float:
    """Guess speed from rates; fitted to 13 measured cards: 10 % off on average, 25 % at most. Bandwidth decides."""
    return math.pow(rate.get("half", rate["single"]), 0.25) * math.pow(rate["bandwidth"], 0.7)

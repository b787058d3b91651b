"""What frugald knows of GPUs: real memory, the software that runs on them, their speed, and what people call them."""

import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

from config.reason import Reason

MIB = 1024**2
_REFERENCE = "V100-16"  # speeds are relative to it
_SLACK = 0.07  # clouds round memory sizes by up to this share
_VENDOR_WORDS = re.compile(r"\b(nvidia|amd|tesla|geforce|quadro|instinct|radeon)\b")
_PART = re.compile(r"(?P<whole>.*\w)[\s*-]+(?P<share>\d{1,2}/[1-9]\d?)", re.ASCII)


class UnknownGpu(ValueError):  # noqa: N818 - callers read `except UnknownGpu`
    """No GPU, or more than one, is meant by a name; `reason` says which and what to write instead."""

    def __init__(self, reason: Reason) -> None:
        """Keep the reason."""
        super().__init__(str(reason))
        self.reason = reason


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


def all_gpus() -> tuple[Gpu, ...]:
    """Return every whole GPU of the table, in its order."""
    return tuple(_table().values())


def find(name: str) -> Gpu:
    """Return the GPU that `name` means: its key, or any spelling of it that means no other. Raises UnknownGpu."""
    whole, share = _parted(name)
    if share:
        return slice_of(find(whole), share)
    found = _spellings().get(_spelled(name))
    if found:
        return found
    choices = matches(name)
    if len(choices) == 1:
        return choices[0]
    raise UnknownGpu(_why_none(name, choices))


def matches(name: str) -> tuple[Gpu, ...]:
    """Return every GPU that goes by `name`, in the table's order: `A100` is three, `nonsense` none."""
    whole, share = _parted(name)
    if share:
        return tuple(slice_of(gpu, share) for gpu in matches(whole))
    return _shorthands().get(_spelled(name), ())


def identify(name: str, memory_mib: int) -> Gpu:
    """Return the GPU that a cloud calls `name` and says has `memory_mib` MiB, within 7 %. Raises UnknownGpu."""
    choices = matches(name) or (find(name),)

    def distance(gpu: Gpu) -> float:
        return min(abs(memory_mib / size - 1) for size in (gpu.gb * 1024, gpu.nvml_mib, gpu.usable_mib))

    best = min(choices, key=distance)
    if distance(best) > _SLACK:
        raise UnknownGpu(Reason("gpu.other_memory", {"name": name, "memory_bytes": memory_mib * MIB}))
    return best


def sold_as(cloud: str, family: str) -> Gpu | None:
    """Return the GPU that a cloud's family or accelerator name always means, None when it means none here."""
    return _sold().get((cloud, family.casefold()))


def slice_in(cloud: str, machine_type: str) -> Gpu | None:
    """Return the part of a GPU that a machine type holds, None for a type that isn't known to hold a part."""
    return _slices().get((cloud, machine_type.casefold()))


def slice_of(gpu: Gpu, fraction: Fraction | float | str) -> Gpu:
    """Return a part of a whole GPU: memory, rates and speed in proportion, no MIG. Raises ValueError."""
    share = Fraction(fraction).limit_denominator(64)
    if gpu.share != 1 or not 0 < share <= 1:
        raise ValueError(
            f"can't take {fraction} of {gpu}: write a fraction of a whole GPU above 0 and up to 1, like 1/4"
        )
    if share == 1:
        return gpu
    return replace(
        gpu,
        key=f"{gpu.key}-{share}",
        share=share,
        gb=float(gpu.gb * share),
        nvml_mib=int(gpu.nvml_mib * share),
        usable_mib=int(gpu.usable_mib * share),
        usable_seen=False,
        half_tflops=gpu.half_tflops and float(gpu.half_tflops * share),
        single_tflops=float(gpu.single_tflops * share),
        bandwidth_gb_s=float(gpu.bandwidth_gb_s * share),
        speed=float(gpu.speed * share),
        mig=(),
        names=(),
        sold=(),
    )


def usable_bytes(name: str) -> int:
    """Return the bytes that CUDA offers on the GPU called `name`. Raises UnknownGpu."""
    return find(name).usable


def supports_cuda(gpu: Gpu, cuda: str) -> Reason | None:
    """Say why an image with this CUDA (`12.8`) can't use the GPU, None when it can.

    A CUDA older than the first that names the GPU still works if it knows an earlier capability of the same major
    version: code for 8.0 (CUDA 11.0) runs on an 8.9.
    """
    if gpu.first_cuda is None:
        return Reason("gpu.no_cuda", {"gpu": gpu.key})
    values = {"gpu": gpu.key, "capability": gpu.capability, "cuda": cuda}
    if gpu.last_cuda and _version(cuda) > _version(gpu.last_cuda):
        return Reason("gpu.cuda_too_new", {**values, "last": gpu.last_cuda})
    first = _runs_from(gpu.capability)
    if _version(cuda) < _version(first):
        return Reason("gpu.cuda_too_old", {**values, "first": first})
    return None


def min_driver(cuda: str) -> int:
    """Return the oldest driver branch that serves this CUDA, such as 580 for `13.0`; ValueError for an unknown one."""
    drivers = _facts()["drivers"]
    major = str(_version(cuda)[0])
    if major not in drivers:
        raise ValueError(f"no driver is known for CUDA {cuda}: add its major version to `config/gpus.toml`, [drivers]")
    return int(drivers[major])


# ---------------------------------------------------------------- names


def _parted(name: str) -> tuple[str, Fraction | None]:
    """Take the share off a name: `T4-1/4` and `NVIDIA T4 * 1/4` are a quarter of a T4."""
    match = _PART.fullmatch(name.strip())
    share = Fraction(match["share"]) if match else None
    return (match["whole"], share) if match and share and share <= 1 else (name, None)


def _spelled(name: str) -> str:
    """Reduce a name to what tells GPUs apart: lower case, no vendor, no punctuation."""
    return re.sub(r"[^a-z0-9]", "", _VENDOR_WORDS.sub("", name.casefold().replace("_", " ")))


def _exact(gpu: Gpu) -> set[str]:
    """Return the spellings that mean this GPU and no other: key and names, with and without its size."""
    found = set()
    for name in (gpu.key, *gpu.names):
        spelled = _spelled(name)
        sized = re.sub(rf"[\s-]{gpu.gb:g}(gb)?$", "", name.casefold())
        found |= {spelled, f"{_spelled(sized)}{gpu.gb:g}", f"{_spelled(sized)}{gpu.gb:g}gb"}
    return found


def _shortened(gpu: Gpu) -> dict[str, str]:
    """Return the beginnings of its names that hold a number, spelled and as written: `A100` for `A100-80-PCIe`."""
    found = {}
    for name in (gpu.key, *gpu.names):
        for end in re.finditer(r"[\s-]", name):
            short = name[: end.start()]
            if re.search(r"\d", short):
                found[_spelled(short)] = found[f"{_spelled(short)}gb"] = short
    return found


@cache
def _spellings() -> Mapping[str, Gpu]:
    return {spelling: gpu for gpu in all_gpus() for spelling in _exact(gpu)}


@cache
def _shorthands() -> Mapping[str, tuple[Gpu, ...]]:
    found: dict[str, tuple[Gpu, ...]] = {}
    for gpu in all_gpus():
        for spelling in _exact(gpu) | _shortened(gpu).keys():
            found[spelling] = (*found.get(spelling, ()), gpu)
    return found


def _why_none(name: str, choices: tuple[Gpu, ...]) -> Reason:
    if choices:
        keys = [gpu.key for gpu in choices]
        return Reason("gpu.ambiguous", {"name": name, "choices": f"{', '.join(keys[:-1])} or {keys[-1]}"})
    near = get_close_matches(_spelled(name), _shorthands(), n=1, cutoff=0.7)
    if near:
        meant = _shorthands()[near[0]][0]
        return Reason("gpu.unknown_near", {"name": name, "near": _shortened(meant).get(near[0], meant.key)})
    return Reason("gpu.unknown", {"name": name})


@cache
def _sold() -> Mapping[tuple[str, str], Gpu]:
    return {(cloud, family.casefold()): gpu for gpu in all_gpus() for cloud, family in gpu.sold}


@cache
def _slices() -> Mapping[tuple[str, str], Gpu]:
    return {
        (entry["cloud"], machine_type.casefold()): slice_of(_table()[entry["gpu"]], Fraction(entry["share"]))
        for entry in _facts()["slices"]
        for machine_type in entry["types"]
    }


# ---------------------------------------------------------------- the table


@cache
def _facts() -> Mapping[str, Any]:
    return tomllib.loads(Path(__file__).with_name("gpus.toml").read_text(encoding="utf-8"))


@cache
def _table() -> Mapping[str, Gpu]:
    return {key: _gpu(key, entry) for key, entry in _facts()["gpus"].items()}


def _gpu(key: str, entry: Mapping[str, Any]) -> Gpu:
    memory, rate = entry["memory"], entry["rate"]
    chip = _facts()["capabilities"][entry["capability"]]
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
        mig=tuple(MigProfile(name, count) for name, count in _facts()["mig"].get(entry.get("mig"), {}).items()),
        names=tuple(entry.get("names", ())),
        sold=tuple((cloud, family) for cloud, families in entry.get("sold", {}).items() for family in families),
    )


def _speed(key: str) -> tuple[float, str]:
    entry, reference = _facts()["gpus"][key], _facts()["gpus"][_REFERENCE]
    if "like" in entry:
        return _speed(entry["like"])[0], f"like {entry['like']}"
    if "samples" in entry:
        ratios = [mine / its for mine, its in zip(entry["samples"], reference["samples"], strict=True)]
        return math.prod(ratios) ** (1 / len(ratios)), "measured"
    return _prior(entry["rate"]) / _prior(reference["rate"]), "prior"


def _prior(rate: Mapping[str, float]) -> float:
    """Guess speed from rates; fitted to 13 measured cards: 10 % off on average, 25 % at most. Bandwidth decides."""
    return math.pow(rate.get("half", rate["single"]), 0.25) * math.pow(rate["bandwidth"], 0.7)


@cache
def _runs_from(capability: str) -> str:
    """Return the first CUDA with code that runs on a capability: same major version, same or lower minor one."""
    mine = _version(capability)
    older = [
        facts["first_cuda"]
        for name, facts in _facts()["capabilities"].items()
        if "first_cuda" in facts and mine[0] == _version(name)[0] and _version(name) <= mine
    ]
    return str(min(older, key=_version))


def _version(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d{1,3})(?:\.(\d{1,3}))?(?:\.\d+)*", text.strip(), re.ASCII)
    if not match:
        raise ValueError(f"{text!r} is not a version: write it like `12.8`")
    return int(match[1]), int(match[2] or 0)

"""What frugald knows of GPUs: real memory, the software that runs on them, their speed, and what people call them."""

import re
from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from fractions import Fraction
from functools import cache

from config.gpu_table import MIB, Gpu, MigProfile, facts, table
from config.reason import Reason

__all__ = [
    "MIB",
    "Gpu",
    "MigProfile",
    "UnknownGpu",
    "all_gpus",
    "find",
    "identify",
    "matches",
    "min_driver",
    "slice_in",
    "slice_of",
    "sold_as",
    "supports_cuda",
    "usable_bytes",
]

_SLACK = 0.07  # clouds round memory sizes by up to this share
_VENDOR_WORDS = re.compile(r"\b(nvidia|amd|tesla|geforce|quadro|instinct|radeon)\b")
_PART = re.compile(r"(?P<whole>.*\w)[\s*-]+(?P<share>\d{1,2}/[1-9]\d?)", re.ASCII)


class UnknownGpu(ValueError):
    """No GPU, or more than one, is meant by a name; `reason` says which and what to write instead."""

    def __init__(self, reason: Reason) -> None:
        """Keep the reason."""
        super().__init__(str(reason))
        self.reason = reason


def all_gpus() -> tuple[Gpu, ...]:
    """Return every whole GPU of the table, in its order."""
    return tuple(table().values())


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
    drivers = facts()["drivers"]
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
        (entry["cloud"], machine_type.casefold()): slice_of(table()[entry["gpu"]], Fraction(entry["share"]))
        for entry in facts()["slices"]
        for machine_type in entry["types"]
    }


# ---------------------------------------------------------------- versions


@cache
def _runs_from(capability: str) -> str:
    """Return the first CUDA with code that runs on a capability: same major version, same or lower minor one."""
    mine = _version(capability)
    older = [
        facts["first_cuda"]
        for name, facts in facts()["capabilities"].items()
        if "first_cuda" in facts and mine[0] == _version(name)[0] and _version(name) <= mine
    ]
    return str(min(older, key=_version))


def _version(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d{1,3})(?:\.(\d{1,3}))?(?:\.\d+)*", text.strip(), re.ASCII)
    if not match:
        raise ValueError(f"{text!r} is not a version: write it like `12.8`")
    return int(match[1]), int(match[2] or 0)

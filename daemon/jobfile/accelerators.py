"""The spellings of `accelerators`: `A100`, `A100:8`, `{A100: 8}`, lists, and dstack's `24GB..:1` and `A100:40GB:2`."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema

from config import gpus
from config.gpus import UnknownGpu
from config.units import parse_memory
from daemon.jobfile.values import written, wrong

_MEMORY = re.compile(r"(?P<size>\d+(\.\d+)?\s*[GM]i?B?)\s*(?P<more>\+|\.\..*)?", re.IGNORECASE)
_COUNT = re.compile(r"\d+(\.\d+)?")
_MOST = 1_000
_GIB = 1024**3


@dataclass(frozen=True, slots=True)
class Accelerator:
    """One choice: the GPUs' keys (none: any), how many (None: not said), and how much usable memory each has at least."""

    names: frozenset[str]
    count: float | None
    memory: int = 0


def _spelled(value: Any) -> Any:  # noqa: ANN401 - whatever was written
    """Return every spelling as a list of texts like `A100:8`, each of them checked."""
    texts = tuple(_texts(value))
    for text in texts:
        accelerator(text)
    return texts


def _texts(value: Any) -> Iterator[str]:  # noqa: ANN401
    if isinstance(value, dict):
        for name, count in value.items():
            yield name if count is None else f"{name}:{count}"
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, str):
        *firsts, last = value.split(",")
        count = re.search(r":\s*\d+(\.\d+)?\s*$", last)  # `A100,H100:8` asks for 8 of either
        for text in firsts:
            yield text.strip() + (count[0].strip() if count and ":" not in text else "")
        yield last.strip()
    else:
        raise wrong("not_a_gpu", written=written(value))


Accelerators = Annotated[
    tuple[str, ...],
    BeforeValidator(_spelled),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string"},
                {"type": "object", "additionalProperties": {"type": ["number", "null"]}},
                {"type": "array", "items": {"type": "string"}},
            ],
            "examples": ["A100:8", ["A100", "H100"], {"A100": 8}, "24GB..:1"],
        }
    ),
]


def accelerator(text: str) -> Accelerator:
    """Read one choice. Raises an error for pydantic that names what is wrong."""
    name, *rest = [part.strip() for part in text.split(":")]
    sizes = [match for part in (name, *rest) if (match := _MEMORY.fullmatch(part))]
    counts = [part for part in rest if not _MEMORY.fullmatch(part)]
    if not name or len(sizes) > 1 or len(counts) > 1:
        raise wrong("not_a_gpu", written=written(text))
    count = _count(counts[0], text) if counts else None
    least = _memory(sizes[0], text) if sizes else 0
    if _MEMORY.fullmatch(name):
        return Accelerator(frozenset(), count, _usable(least))
    most = least if sizes and not sizes[0]["more"] else None
    return Accelerator(_keys(name, least, most), count)


def _keys(name: str, least: int, most: int | None) -> frozenset[str]:
    """Return the GPUs that go by a name, those of them that are sold with so much memory."""
    found = gpus.matches(name)
    if not found:
        try:
            found = (gpus.find(name),)
        except UnknownGpu as error:
            raise wrong("says", why=str(error)) from error
    fitting = frozenset(gpu.key for gpu in found if least <= gpu.gb * _GIB and (most is None or gpu.gb * _GIB <= most))
    if not fitting:
        raise wrong("no_such_size", name=name, sizes=" or ".join(sorted({f"{gpu.gb:g}GB" for gpu in found})))
    return fitting


def _usable(memory: int) -> int:
    """Return what programs can use on the smallest GPU that is sold with this much: a 24 GB card offers less than 24 GB."""
    return min((gpu.usable for gpu in gpus.all_gpus() if gpu.gb * _GIB >= memory), default=memory)


def _memory(match: re.Match[str], whole: str) -> int:
    if match["more"] not in {None, "+", ".."}:
        raise wrong("upper_limit", written=written(whole), lower=f"{match['size']}..")
    return parse_memory(match["size"])


def _count(text: str, whole: str) -> float:
    bare = text.removesuffix("+").removesuffix("..")
    if ".." in bare:
        raise wrong("upper_limit", written=written(whole), lower=bare.split("..")[0])
    if not _COUNT.fullmatch(bare) or not 0 < float(bare) <= _MOST:
        raise wrong("not_a_count", written=written(whole))
    return float(bare)

"""What lies in a checkpoint folder, in the forms that training scripts write.

- the SDK's: `ckpt-500.pt`, and `ckpt-500.json` with its size and hash, written last;
- a folder for each checkpoint: `checkpoint-500/`, `global_step500/`, `epoch_3/`, torch's DCP;
- files with a step or an epoch in their names: `epoch=3-step=500.ckpt`;
- one or more files that are overwritten: `checkpoint.pth`. Beside numbered ones they belong to the newest of them.
"""

import json
import os
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from runner.agent.whole import SUFFIXES

_SDK = re.compile(r"ckpt-(\d+)\.(json|pt)")
_STEP = re.compile(r"(?<![a-z])(?:(?:global_?)?step|iter|iteration|checkpoint|ckpt)s?[-_=]?(\d+)", re.IGNORECASE)
_EPOCH = re.compile(r"(?<![a-z])(?:epoch|ep)s?[-_=]?(\d+)", re.IGNORECASE)
_NEVER = re.compile(
    r"\.tmp.*|\.nfs.*|.*~|.*\.(tmp|temp|part|partial|lock|incomplete|swp|log)|events\.out\.tfevents.*|__pycache__",
    re.IGNORECASE,
)
_NEVER_ON_TOP = re.compile(r"runs?|logs?|wandb|mlruns|tensorboard|lightning_logs|lost\+found")
_BEING_WRITTEN = "checkpoint-is-incomplete.txt"  # of HF's Trainer
_HF_LAST = "trainer_state.json"  # written last, but not at once; accelerate's folders look the same and have none
_DCP_PART, _DCP_LAST = ".distcp", ".metadata"  # torch's DCP renames the last one into place
_DEEPEST = 16
_AT_ONCE, _USUAL, _LONG = 0, 1, 5  # between two files of one folder a script may compute for seconds


@dataclass(frozen=True, slots=True)
class Seen:
    """One file, as it was when looked at."""

    path: str  # relative to the checkpoint folder, with `/`
    size: int
    changed_ns: int
    inode: int


@dataclass(frozen=True, slots=True)
class Found:
    """What may be a checkpoint. Two looks that give the same files saw the same bytes, as far as the disk tells."""

    name: str
    files: tuple[Seen, ...]  # what makes it
    loose: tuple[Seen, ...] = ()  # checkpoint files without a number that belong to the newest, such as `last.ckpt`
    beside: tuple[Seen, ...] = ()  # other files, such as DeepSpeed's `latest`: taken along if nobody writes to them
    step: int | None = None  # as its name says
    quiets: int = _USUAL  # how many quiet times it must stay unchanged; 0 where its writer marks it as complete
    unfinished: bool = False  # its writer has marked it as not complete
    in_place: bool = False  # the next save may write into the same files
    sha256: str = ""  # of its first file, as its writer says

    @property
    def changed_ns(self) -> int:
        """When its newest file was changed."""
        return max((file.changed_ns for file in self.main), default=0)

    @property
    def main(self) -> tuple[Seen, ...]:
        """The files that must all be whole."""
        return self.files + self.loose


def everything(folder: Path) -> frozenset[Seen]:
    """Return every file under `folder` as it is now."""
    return frozenset(_walk(folder, ""))


def look(folder: Path, left_out: frozenset[Seen] = frozenset()) -> list[Found]:
    """Return what lies in `folder` except `left_out`, the newest first. What goes away meanwhile is left out, too."""
    entries = [entry for entry in _entries(folder) if not _NEVER_ON_TOP.fullmatch(entry.name)]
    if any(entry.name.endswith(_DCP_PART) for entry in entries):  # the folder is itself one checkpoint
        return [_group(".", [seen for seen in _walk(folder, "") if seen not in left_out], folders=True)]
    sdk, numbered, loose = _sorted_out(folder, entries, left_out)
    found = [*sdk, *(_group(name, files, folders="/" in files[0].path) for name, files in numbered.items())]
    found.sort(key=lambda one: (one.changed_ns, one.step or -1), reverse=True)
    return _with_loose(found, loose)


def look_at(folder: Path, path: str) -> Seen | None:
    """Return one file as it is now, None when it is gone."""
    try:
        stat = (folder / path).stat()
    except OSError:
        return None
    return Seen(path, stat.st_size, stat.st_mtime_ns, stat.st_ino)


def has_key(name: str) -> bool:
    """Say whether the store has a key for a file's name: one that isn't UTF-8 has none."""
    return name.encode(errors="ignore").decode() == name


def _sorted_out(
    folder: Path, entries: list[os.DirEntry[str]], left_out: frozenset[Seen]
) -> tuple[list[Found], dict[str, list[Seen]], list[Seen]]:
    """Return the SDK's pairs, the files of each numbered checkpoint by its number, and all other files."""
    sdk: list[Found] = []
    numbered: dict[str, list[Seen]] = defaultdict(list)
    loose: list[Seen] = []
    sdk_writes = any(_SDK.fullmatch(entry.name) and entry.name.endswith(".json") for entry in entries)
    for entry in entries:
        if sdk_writes and _SDK.fullmatch(entry.name):
            sdk += _sdk(folder, entry.name)
            continue
        files = [seen for seen in _files(folder, entry, entry.name) if seen not in left_out]
        match = _STEP.search(entry.name) or _EPOCH.search(entry.name)
        if files:
            (numbered[match[0]] if match else loose).extend(files)
    return sdk, numbered, loose


def _sdk(folder: Path, name: str) -> Iterator[Found]:
    """Yield the pair that a manifest names, if it is there in full."""
    if not name.endswith(".json"):
        return
    try:
        told = json.loads((folder / name).read_bytes())
        step, file, size, digest = int(told["step"]), str(told["file"]), int(told["size"]), str(told["sha256"])
    except (OSError, ValueError, KeyError, TypeError):
        return
    data, manifest = look_at(folder, Path(file).name), look_at(folder, name)
    if data and manifest and data.size == size:
        yield Found(name, (data, manifest), step=step, quiets=_AT_ONCE, sha256=digest)


def _group(name: str, files: list[Seen], *, folders: bool) -> Found:
    """Judge the files that belong to one checkpoint by the marks that their writers leave."""
    names = {file.path for file in files}
    last = {path.rpartition("/")[2] for path in names}
    parts = {path.rpartition("/")[0] for path in names if path.endswith(_DCP_PART)}
    whole = {place for place in parts if (f"{place}/{_DCP_LAST}" if place else _DCP_LAST) in names}
    # The SDK's first file stands alone until it has been read back; elsewhere the name means nothing.
    may_grow = (folders and _HF_LAST not in last) or any(_SDK.fullmatch(path) for path in names)
    quiets = _AT_ONCE if parts else _LONG if may_grow else _USUAL
    step = _STEP.search(name)
    return Found(
        name, tuple(files), step=int(step[1]) if step else None, quiets=quiets,
        unfinished=_BEING_WRITTEN in last or whole != parts,
    )  # fmt: skip


def _with_loose(found: list[Found], loose: list[Seen]) -> list[Found]:
    """Give the files without a number to the newest checkpoint, or make them one where there is no other."""
    core = tuple(file for file in loose if "/" in file.path or Path(file.path).suffix in SUFFIXES)
    beside = tuple(file for file in loose if file not in core)
    if found:
        newest = found[0]
        if newest.sha256:  # the SDK's needs nothing else
            return [replace(newest, beside=tuple(loose)), *found[1:]]
        quiets = max(newest.quiets, _USUAL) if core else newest.quiets
        return [replace(newest, loose=core, beside=beside, quiets=quiets), *found[1:]]
    files = core or beside
    if not files:
        return []
    one = _group(files[0].path, list(files), folders="/" in files[0].path)
    return [replace(one, step=None, in_place=True, beside=beside if core else ())]


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(filter(_wanted, entries), key=lambda entry: entry.name)
    except OSError:
        return []


def _wanted(entry: os.DirEntry[str]) -> bool:
    return not _NEVER.fullmatch(entry.name) and has_key(entry.name)


def _files(folder: Path, entry: os.DirEntry[str], path: str, depth: int = 0) -> Iterator[Seen]:
    """Yield the files of an entry; links to files count as files, links to folders would lead in circles."""
    if entry.is_dir(follow_symlinks=False):
        yield from _walk(folder, path, depth)
    elif entry.is_file() and (seen := look_at(folder, path)):
        yield seen


def _walk(folder: Path, path: str, depth: int = 0) -> Iterator[Seen]:
    if depth < _DEEPEST:
        for entry in _entries(folder / path):
            yield from _files(folder, entry, f"{path}/{entry.name}" if path else entry.name, depth + 1)

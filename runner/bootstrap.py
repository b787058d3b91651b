"""What a new machine runs first, and the bundle that it fetches: the agent as one file, pinned by its hash.

The user data of a machine names the store, the machine and the bundle's hash; it holds no secret, since every program on
a machine can read it. The hash comes with the launch, so nobody who can write to the store can change the agent.
"""

import argparse
import io
import json
import os
import re
import sys
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from hashlib import sha256
from importlib.metadata import distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Self

from config.clock import Clock, SystemClock
from runner.store import Store, StoreError, open_store

USER_DATA_LIMIT = 16 * 1024  # bytes; the least that any cloud allows
_TRIES = 8
_FIRST_WAIT_S = 0.5  # doubles with each try: a minute in all
_ROOMS = Path(__file__).resolve().parent.parent
_BUNDLED = ("config/__init__.py", "config/units.py", "config/clock.py", "runner/__init__.py")
_BUNDLED_FOLDERS = ("runner/agent", "runner/store")
_JOB_PACKAGE = "runner/sdk/frugald"  # where the agent looks for it, wherever it is installed here
_NATIVE = "native"  # where a bundle for S3 has the store's library; unused inside a zip, which can't be loaded from
_MAIN = f"""import os, runpy, sys
native = os.path.join(os.path.dirname(os.path.abspath(__file__)), {_NATIVE!r})
if os.path.isdir(native):
    sys.path.insert(1, native)
runpy.run_module('runner.agent', run_name='__main__', alter_sys=True)
"""
_LIBRARY = "obstore"
_FITS = re.compile(
    r"^Tag: cp3(\d+)-abi3-manylinux\S*_x86_64$", re.MULTILINE
)  # any newer Python, any Linux of that kind
_OLDEST = 11  # Python 3.x that an image must have


@dataclass(frozen=True)
class UserData:
    """What the launch hands to the machine."""

    store: str  # URL
    machine: str  # the daemon's name for it
    bundle_key: str
    bundle_sha256: str

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Read it on the machine. Raises ValueError, TypeError."""
        return cls(**json.loads(text))


def user_data(store: str, machine: str, bundle_key: str, bundle_sha256: str) -> str:
    """Return the text of a launch request that `UserData` reads. Raises ValueError when it is too long for a cloud."""
    text = json.dumps(asdict(UserData(store, machine, bundle_key, bundle_sha256)), sort_keys=True)
    if len(text.encode()) > USER_DATA_LIMIT:
        raise ValueError(f"the user data has {len(text.encode())} bytes, a cloud takes {USER_DATA_LIMIT}")
    return text


class BundleError(Exception):
    """The store's bundle is not the one that the launch named, or none can be made: don't run it."""


def build_bundle(*, native: bool = False) -> bytes:
    """Return the agent and what it needs as a zip file that Python runs; the same sources give the same bytes.

    `native` adds the library that reads S3, for machines that have none: such a bundle is unpacked before it runs.
    Raises BundleError when the library that is installed here would not run on them.
    """
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as bundle:
        _add(bundle, "__main__.py", _MAIN.encode())
        for name, path in sorted([*_sources(), *(_library() if native else ())]):
            _add(bundle, name, path.read_bytes())
    return file.getvalue()


def publish_bundle(store: Store) -> tuple[str, str]:
    """Put this version's bundle into the store unless it is there, and return its key and SHA-256.

    Raises StoreError, and BundleError for a store in S3.
    """
    bundle = build_bundle(native=store.url.startswith("s3://"))
    digest = sha256(bundle).hexdigest()
    key = f"agents/{digest}.pyz"
    if store.head(key) is None:
        store.put(key, bundle)
    return key, digest


def fetch_bundle(store: Store, wanted: UserData, folder: Path, clock: Clock) -> Path:
    """Fetch the bundle, check it, and return where it lies. Raises StoreError after a minute, BundleError at once."""
    bundle = _patiently(store, wanted.bundle_key, clock)
    digest = sha256(bundle).hexdigest()
    if digest != wanted.bundle_sha256:
        raise BundleError(f"{wanted.bundle_key} has SHA-256 {digest}, the launch named {wanted.bundle_sha256}")
    path = folder / "agent.pyz"
    path.write_bytes(bundle)
    return path


def agent_command(wanted: UserData, bundle: Path, folder: Path, metadata: str) -> list[str]:
    """Return the command line of the agent; `metadata` is empty where the cloud's own address serves."""
    command = [sys.executable, "-P", str(bundle), "--store", wanted.store, "--machine", wanted.machine]
    return [*command, "--folder", str(folder), "--metadata", metadata]


def _patiently(store: Store, key: str, clock: Clock) -> bytes:
    for attempt in range(_TRIES - 1):
        try:
            return store.get(key)
        except StoreError as error:
            _say(f"no bundle yet: {error}")
            clock.wait(threading.Event(), _FIRST_WAIT_S * 2**attempt)
    return store.get(key)


def _sources() -> Iterator[tuple[str, Path]]:
    yield from ((name, _ROOMS / name) for name in _BUNDLED)
    for folder in _BUNDLED_FOLDERS:
        for path in (_ROOMS / folder).rglob("*.py"):
            yield path.relative_to(_ROOMS).as_posix(), path
    spec = find_spec("frugald")
    for place in (spec.submodule_search_locations or ()) if spec else ():
        for path in Path(place).rglob("*.py"):
            yield f"{_JOB_PACKAGE}/{path.relative_to(place).as_posix()}", path


def _library() -> Iterator[tuple[str, Path]]:
    """Return the installed package that speaks to S3, as files of a bundle. Raises BundleError."""
    installed = distribution(_LIBRARY)
    tag = _FITS.search(installed.read_text("WHEEL") or "")
    if tag is None or int(tag[1]) > _OLDEST:
        raise BundleError(
            f"{_LIBRARY} {installed.version} as installed here doesn't run on rented machines: they are Linux on x86-64 "
            f"with Python 3.{_OLDEST} or newer; run the daemon there, with the wheel `cp311-abi3-manylinux`"
        )
    for file in installed.files or ():
        if file.parts[0] == _LIBRARY and file.suffix in {".py", ".so"}:
            yield f"{_NATIVE}/{file.as_posix()}", Path(str(installed.locate_file(file)))


def _add(bundle: zipfile.ZipFile, name: str, data: bytes) -> None:
    entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))  # the earliest that a zip file can hold
    entry.external_attr = 0o644 << 16
    entry.compress_type = zipfile.ZIP_DEFLATED
    bundle.writestr(entry, data)


def _say(text: str) -> None:
    sys.stderr.write(f"bootstrap: {text}\n")


def main(arguments: list[str]) -> None:
    """Become the agent: fetch it, check it, run it in place of this process."""
    parser = argparse.ArgumentParser(prog="runner.bootstrap", description="Start frugald's agent on a machine.")
    parser.add_argument("--user-data", type=Path, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--metadata", default="")
    parser.add_argument("--parent", type=int, default=0, help="end with this process, the machine's host")
    given = parser.parse_args(arguments)
    if given.parent:
        from runner.providers.rack.processes import die_with_parent

        die_with_parent(given.parent)
    os.chdir(given.folder)
    wanted = UserData.from_text(given.user_data.read_text())
    try:
        store = open_store(wanted.store, json.loads(os.environ.get("FRUGALD_STORE_OPTIONS", "{}")))
        bundle = fetch_bundle(store, wanted, given.folder, SystemClock())
    except (StoreError, BundleError) as error:
        sys.exit(f"bootstrap: {error}")
    command = agent_command(wanted, bundle, given.folder, given.metadata)
    os.execv(command[0], command)  # noqa: S606 - a list that we built, no shell


if __name__ == "__main__":
    main(sys.argv[1:])

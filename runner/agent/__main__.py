"""Start the agent: `python -P agent.pyz --store URL --machine ID --folder DIR --metadata URL`."""

import argparse
import ctypes
import json
import os
import sys
from pathlib import Path

from config.clock import SystemClock
from runner.agent import keeper, processes
from runner.agent.environment import STORE_OPTIONS


def main(arguments: list[str]) -> int:
    """Run the agent under its keeper; returns when no process of the job is left."""
    parser = argparse.ArgumentParser(prog="runner.agent", description="Run a job on this machine for frugald.")
    parser.add_argument("--store", required=True, help="URL of the object store")
    parser.add_argument("--machine", required=True)
    parser.add_argument("--folder", required=True, type=Path, help="this machine's own disk")
    parser.add_argument("--metadata", default="", help="address of the metadata server; empty for the cloud's own")
    parser.add_argument("--pace", type=float, default=1.0, help="multiplies all periods; small for tests")
    parser.add_argument("--shutdown-s", type=float, default=4.5, help="time between SIGTERM and the power going off")
    given = parser.parse_args(arguments)
    options = json.loads(_take_secret(STORE_OPTIONS) or "{}")
    clock = SystemClock()
    # The machine's first program becomes this one, so its age is how long ago the machine booted.
    booted_at = clock.monotonic() - processes.age_s(os.getpid())
    return keeper.keep(lambda: _agent(given, options, booted_at), clock)


def _agent(given: argparse.Namespace, options: dict[str, str], booted_at: float) -> int:
    from runner.agent.agent import Agent, Given  # here, so that the keeper stays small and without threads
    from runner.agent.pace import Pace
    from runner.store import open_store

    folder = given.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    told = Given(given.machine, folder, given.metadata, given.shutdown_s)
    return Agent(told, open_store(given.store, options), SystemClock(), Pace.times(given.pace), booted_at).run()


def _take_secret(name: str) -> str:
    """Return a variable and wipe it, also where other processes would read it: in /proc/<pid>/environ."""
    value = os.environ.get(name, "")
    if value:
        libc = ctypes.CDLL(None)
        libc.getenv.restype = ctypes.c_void_p
        ctypes.memset(libc.getenv(name.encode()), 0, len(value.encode()))
        del os.environ[name]
    return value


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

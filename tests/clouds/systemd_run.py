"""Stands for a guest's `systemd-run`: starts a command that goes on by itself, later or again where asked to."""

import os
import re
import shlex
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO

_WITH_VALUE = {
    "-p", "-E", "-u", "-M", "-H", "--unit", "--property", "--setenv", "--description", "--slice", "--uid", "--gid", "--nice",
    "--working-directory", "--on-active", "--on-boot", "--service-type", "--timer-property",
}  # fmt: skip
_LONG = {"-p": "--property", "-E": "--setenv", "-u": "--unit"}
_UNITS = {"": 1, "s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600, "hr": 3600}


def read(arguments: list[str]) -> tuple[list[tuple[str, str]], list[str]]:
    """Tell the options from the command."""
    options: list[tuple[str, str]] = []
    left = list(arguments)
    while left and left[0].startswith("-"):
        name, joined, value = left.pop(0).partition("=")
        if name == "--":
            break
        if not joined and name in _WITH_VALUE:
            value = left.pop(0)
        options.append((_LONG.get(name, name), value))
    return options, left


def seconds(text: str) -> float:
    """Read a span of time such as `5min`."""
    return sum(float(number) * _UNITS[unit] for number, unit in re.findall(r"([\d.]+)\s*([a-z]*)", text))


def wait(seconds: float) -> None:
    threading.Event().wait(seconds)


def run(options: list[tuple[str, str]], command: list[str]) -> int:
    """Run it, again and again where a unit is to be restarted; after each end what is to follow it."""
    properties = dict(value.partition("=")[::2] for name, value in options if name == "--property")
    environment = os.environ | dict(value.partition("=")[::2] for name, value in options if name == "--setenv")
    folder = dict(options).get("--working-directory") or properties.get("WorkingDirectory") or None
    again = properties.get("Restart", "no")
    while True:
        with output(properties) as out:
            code = subprocess.call(command, env=environment, cwd=folder, stdout=out, stderr=out)
        if after := properties.get("ExecStopPost"):
            subprocess.call(shlex.split(after), env=environment)
        if again == "no" or (again == "on-failure" and code == 0):
            return code
        wait(seconds(properties.get("RestartSec", "0.1")))


def output(properties: dict[str, str]) -> IO[bytes]:
    """Open where the unit's output goes: a file that it names, or what this program has."""
    kind, _, path = properties.get("StandardOutput", "").partition(":")
    return Path(path).open("ab") if kind == "append" else os.fdopen(os.dup(1), "wb")


def main() -> None:
    """Go to the background as the real one does, unless asked to wait."""
    options, command = read(sys.argv[1:])
    named = dict(options)
    if named.keys() & {"--wait", "--scope", "--pipe", "-P", "-t", "--pty"}:
        sys.exit(run(options, command))
    if os.fork():
        return
    os.setsid()
    wait(seconds(named.get("--on-active", named.get("--on-boot", "0"))))
    run(options, command)


if __name__ == "__main__":
    main()

"""The user data of a machine: its timer first, then the agent, and the end when the agent has ended. No secrets."""

import json
from dataclasses import asdict
from functools import cache
from pathlib import Path

from runner.bootstrap import USER_DATA_LIMIT, UserData
from runner.provider import Denied, LaunchRequest

_HERE = Path(__file__).parent
_END = "FRUGALD_END"
# systemd gives the agent a unit that ends before the network does, and a signal that reaches the agent alone. Without
# systemd, as in a container, both run below this script.
_SCRIPT = """#!/bin/bash
shutdown -h +{minutes}
folder="${{FRUGALD_DISK:-/var/lib/frugald}}"
umask 077
mkdir -p "$folder" && cd "$folder" || shutdown -h now
{files}
systemd-run --quiet --unit=frugald-guard -p Restart=on-failure /bin/bash "$folder/guard.sh" "$folder" {seconds} 2>/dev/null ||
  (setsid nohup /bin/bash guard.sh "$folder" {seconds} >/dev/null 2>&1 &)
systemd-run --quiet --unit=frugald-agent -p After=network-online.target -p KillMode=mixed -p TimeoutStopSec=60 \\
  -p "StandardOutput=append:$folder/console.log" -p "StandardError=append:$folder/console.log" \\
  -p "ExecStopPost=$(command -v shutdown) -h now" --setenv=HOME=/root --setenv=LANG=C.UTF-8 --setenv="PATH=$PATH" \\
  "$(command -v python3)" -P "$folder/first.py" 2>/dev/null && exit
python3 -P first.py >>console.log 2>&1
shutdown -h now
"""


def user_data(request: LaunchRequest, region: str, role_id: str) -> str:
    """Return the script that a machine runs when it boots: equal arguments give the same text.

    `region` is the store's; `role_id` is that of the machine's role (AROA...), part of the key of its grant. Raises Denied.
    """
    facts = asdict(_told(request)) | {"region": region, "role_id": role_id}
    files = {
        "facts.json": json.dumps(facts, sort_keys=True),
        "guard.sh": _text("guard.sh"),
        "first.py": _text("first.py"),
    }
    seconds = max(1, round(request.guard.total_seconds()))
    script = _SCRIPT.format(minutes=-(-seconds // 60), seconds=seconds, files="\n".join(map(_file, files.items())))
    if len(script.encode()) > USER_DATA_LIMIT:
        raise Denied(
            f"the user data of {request.token} has {len(script.encode())} bytes, EC2 takes {USER_DATA_LIMIT}: shorten the "
            "store's URL"
        )
    return script


def _told(request: LaunchRequest) -> UserData:
    try:
        told = UserData.from_text(request.user_data)
    except (ValueError, TypeError) as error:
        raise Denied(f"the user data of {request.token} is not what `frugald serve` writes: {error}") from error
    if not told.store.startswith("s3://"):
        raise Denied(f"machines of AWS can't reach the store {told.store}: set `store.url` to a bucket, s3://...")
    return told


def _file(entry: tuple[str, str]) -> str:
    name, text = entry
    return f"cat >{name} <<'{_END}'\n{text.rstrip()}\n{_END}"


@cache
def _text(name: str) -> str:
    return (_HERE / name).read_text()

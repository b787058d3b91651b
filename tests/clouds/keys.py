"""Who calls: access keys, what their policies let them do, and until when."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

ACCOUNT = "123456789012"
Policy = Mapping[str, Any]


@dataclass(frozen=True)
class Key:
    """One access key. Each of `policies` must allow a call, each being a set of documents that allow together."""

    id: str
    secret: str
    name: str
    arn: str
    userid: str  # `aws:userid`
    policies: tuple[tuple[Policy, ...], ...] = ()
    token: str = ""
    expires: datetime | None = None
    role: str = ""  # whose policies count as well, as they are at the time of the call: the keys of a session


def lasting(name: str, policy: Policy | None) -> Key:
    """Make the key of a user; without a policy it may do everything."""
    arn = f"arn:aws:iam::{ACCOUNT}:user/{name}"
    return Key(_new_id("AKIA"), secrets.token_hex(20), name, arn, _new_id("AIDA"), ((policy,),) if policy else ())


def passing(
    role: str,
    role_id: str,
    session: str,
    policies: Sequence[tuple[Policy, ...]],
    expires: datetime,
    partition: str = "aws",
) -> Key:
    """Make the key of a session of a role; `policies` narrow what the role may."""
    arn = f"arn:{partition}:sts::{ACCOUNT}:assumed-role/{role}/{session}"
    made = (_new_id("ASIA"), secrets.token_hex(20), session, arn, f"{role_id}:{session}", tuple(policies))
    return Key(*made, token=secrets.token_urlsafe(90), expires=expires, role=role)


def _new_id(kind: str) -> str:
    return kind + "".join(secrets.choice("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") for _ in range(16))

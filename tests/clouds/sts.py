"""STS: who somebody is, and the short-lived keys of roles."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from xml.sax.saxutils import escape

from tests.clouds import house
from tests.clouds.call import Answer, Call
from tests.clouds.keys import ACCOUNT, Key, Policy, passing
from tests.clouds.needs import partition
from tests.clouds.wire import Refused

_LONGEST_POLICY = 2048  # characters
_CHAINED_S = 3600  # at most, for whoever has the keys of a role already


def answer(call: Call, key: Key, keep: Callable[[Key], None]) -> Answer | None:
    """Answer what concerns identities; `keep` learns of new keys. Raises Refused."""
    if call.action == "GetCallerIdentity":
        return _xml(call.action, {"Arn": key.arn, "UserId": key.userid, "Account": ACCOUNT})
    if call.action != "AssumeRole":
        return None
    made = _assume(call, key)
    keep(made)
    assert made.expires is not None
    credentials = {
        "AccessKeyId": made.id, "SecretAccessKey": made.secret, "SessionToken": made.token,
        "Expiration": f"{made.expires:%FT%TZ}",
    }  # fmt: skip
    return _xml(
        call.action, {"Credentials": credentials, "AssumedRoleUser": {"AssumedRoleId": made.userid, "Arn": made.arn}}
    )


def _assume(call: Call, key: Key) -> Key:
    params, where = call.params, partition(call.region)
    role = house.role(params.get("RoleArn", "").rpartition("/")[2], where)
    if role is None or role.arn != params["RoleArn"] or not _trusts(role.trust, key):
        told = f"User: {key.arn} is not authorized to perform: sts:AssumeRole on resource: {params.get('RoleArn')}"
        raise Refused("AccessDenied", told, 403)
    seconds = _seconds(int(params.get("DurationSeconds", 3600)), role, key)
    session = params.get("RoleSessionName", "")
    if not 2 <= len(session) <= 64:
        raise Refused("ValidationError", "roleSessionName must have between 2 and 64 characters")
    narrowed = _narrowed(params.get("Policy", ""))
    return passing(role.name, role.id, session, narrowed, call.at + timedelta(seconds=seconds), where)


def _trusts(trust: Policy, key: Key) -> bool:
    """Say whether the role's own policy lets somebody of this account take it on."""
    statements = trust.get("Statement", ())
    named = [one.get("Principal", {}).get("AWS", ()) for one in statements if one["Effect"] == "Allow"]
    arns = [arn for one in named for arn in ([one] if isinstance(one, str) else one)]
    return any(arn in {ACCOUNT, key.arn} or arn.endswith(f":{ACCOUNT}:root") for arn in arns)


def _seconds(wanted: int, role: house.Role, key: Key) -> int:
    if wanted < 900:
        raise Refused("ValidationError", "durationSeconds must have a value greater than or equal to 900")
    if key.role and wanted > _CHAINED_S:
        raise Refused(
            "ValidationError",
            "The requested DurationSeconds exceeds the 1 hour session limit for roles assumed by role chaining.",
        )
    if wanted > role.longest_s:
        raise Refused(
            "ValidationError", "The requested DurationSeconds exceeds the MaxSessionDuration set for this role."
        )
    return wanted


def _narrowed(text: str) -> list[tuple[Policy, ...]]:
    if not text:
        return []
    if len(text) > _LONGEST_POLICY:
        raise Refused("ValidationError", f"policy must have length less than or equal to {_LONGEST_POLICY}")
    try:
        return [(json.loads(text),)]
    except ValueError:
        raise Refused("MalformedPolicyDocument", "The policy is not in the valid JSON format.") from None


def _xml(action: str, result: dict[str, Any]) -> Answer:
    space = 'xmlns="https://sts.amazonaws.com/doc/2011-06-15/"'
    inside = f"<{action}Result>{_members(result)}</{action}Result>"
    told = "<ResponseMetadata><RequestId>r-1</RequestId></ResponseMetadata>"
    return Answer.of_xml(f"<{action}Response {space}>{inside}{told}</{action}Response>")


def _members(result: dict[str, Any]) -> str:
    parts = (
        (name, _members(value) if isinstance(value, dict) else escape(str(value))) for name, value in result.items()
    )
    return "".join(f"<{name}>{text}</{name}>" for name, text in parts)

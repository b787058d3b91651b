"""How AWS's answers look on the wire: XML as botocore's model of EC2 has it, errors, pages, and the fields of a form."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from itertools import count
from typing import Any
from xml.sax.saxutils import escape

import botocore.session
from botocore.model import ListShape, ServiceModel, Shape, StructureShape

from tests.clouds.call import Answer, Call


class Refused(Exception):
    """The cloud's own error."""

    def __init__(self, code: str, message: str = "", status: int = 400) -> None:
        super().__init__(message or code)
        self.code = code
        self.status = status


@cache
def ec2_model() -> ServiceModel:
    return botocore.session.get_session().get_service_model("ec2")


def ec2_answer(action: str, result: Mapping[str, Any]) -> Answer:
    """Render what the members of an action's output hold, by the model's own names."""
    inside = _xml(ec2_model().operation_model(action).output_shape, result)
    return Answer.of_xml(f"<{action}Response><requestId>r-1</requestId>{inside}</{action}Response>")


def error(call: Call, refused: Refused) -> Answer:
    if call.service == "ec2":
        inside = f"<Code>{refused.code}</Code><Message>{escape(str(refused))}</Message>"
        text = f"<Response><Errors><Error>{inside}</Error></Errors><RequestID>r-1</RequestID></Response>"
        return Answer.of_xml(text, refused.status)
    return Answer.of_json({"__type": refused.code, "message": str(refused)}, refused.status)


def _xml(shape: Shape | None, value: Any) -> str:
    if isinstance(shape, StructureShape):
        unknown = set(value) - set(shape.members)
        assert not unknown, f"{shape.name} has no {unknown}"
        return "".join(
            f"<{tag}>{_xml(member, value[name])}</{tag}>"
            for name, member in shape.members.items()
            if value.get(name) is not None
            for tag in [member.serialization.get("name", name)]
        )
    if isinstance(shape, ListShape):
        tag = shape.member.serialization.get("name", "item")
        return "".join(f"<{tag}>{_xml(shape.member, one)}</{tag}>" for one in value)
    if isinstance(value, bool):
        return str(value).lower()
    return escape(
        value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z") if isinstance(value, datetime) else str(value)
    )


# ---------------------------------------------------------------- what was asked


def listed(params: Mapping[str, str], name: str) -> list[str]:
    """Return `name.1`, `name.2` and so on of a form."""
    found = []
    for number in count(1):
        if f"{name}.{number}" not in params:
            return found
        found.append(params[f"{name}.{number}"])
    raise AssertionError


def filters(params: Mapping[str, str], known: set[str]) -> dict[str, list[str]]:
    """Return the filters of a form by name; one that the action doesn't know is refused."""
    found = {}
    for number in count(1):
        name = params.get(f"Filter.{number}.Name")
        if name is None:
            return found
        if name not in known:
            raise Refused("InvalidParameterValue", f"The filter '{name}' is invalid")
        found[name] = listed(params, f"Filter.{number}.Value")
    raise AssertionError


def only(params: Mapping[str, Any], known: set[str]) -> None:
    """Refuse parameters that the stand-in doesn't know: a question half understood would be answered wrongly."""
    unknown = {name.partition(".")[0] for name in params} - known - {"Action", "Version", "Filter", "DryRun"}
    if unknown:
        raise Refused("UnknownParameter", f"The parameter {min(unknown)} is not recognized")


def time(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except ValueError:
        raise Refused("InvalidParameterValue", f"Invalid value '{text}' for a time") from None


def page(
    items: Sequence[Any], question: Mapping[str, Any], token_name: str, size: int, refusal: str
) -> tuple[list[Any], str]:
    """Return one page and the token of the next, empty at the end; the token only fits the same question."""
    rest = {name: value for name, value in question.items() if name != token_name}
    mark = hashlib.sha256(json.dumps(rest, sort_keys=True, default=str).encode()).hexdigest()[:12]
    start = 0
    if question.get(token_name):
        asked, _, offset = str(question[token_name]).partition("-")
        if asked != mark or not offset.isdigit():
            raise Refused(refusal, "The token is not one of this question")
        start = int(offset)
    end = start + size
    return list(items[start:end]), f"{mark}-{end}" if end < len(items) else ""

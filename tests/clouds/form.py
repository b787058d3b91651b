"""What an EC2 form asks, by the names of botocore's model: numbers as numbers, lists as lists, unknown fields refused."""

from collections.abc import Callable, Mapping
from typing import Any

from botocore.model import ListShape, Shape, StructureShape

from tests.clouds.wire import Refused, ec2_model

_READ: dict[str, Callable[[str], Any]] = {"integer": int, "long": int, "float": float, "double": float}


def asked(action: str, fields: Mapping[str, str]) -> dict[str, Any]:
    """Return the parameters of a call as boto3 was given them. Raises Refused."""
    shape = ec2_model().operation_model(action).input_shape
    left = {name for name in fields if name not in {"Action", "Version"}}
    found: dict[str, Any] = _value(shape, "", fields, left) or {}
    if left:
        raise Refused("UnknownParameter", f"The parameter {min(left)} is not recognized")
    for name in shape.required_members if shape else ():
        if name not in found:
            raise Refused("MissingParameter", f"The request must contain the parameter {name}")
    return found


def _value(shape: Shape | None, at: str, fields: Mapping[str, str], left: set[str]) -> Any:
    """Return what lies at a field's name and below it, None where there is nothing."""
    if isinstance(shape, StructureShape):
        parts = {
            name: _value(one, _below(at, _spelled(name, one)), fields, left) for name, one in shape.members.items()
        }
        return {name: part for name, part in parts.items() if part is not None} or None
    if at and not any(name == at or name.startswith(f"{at}.") for name in fields):
        return None
    if isinstance(shape, ListShape):
        return _items(shape.member, at, fields, left)
    left.discard(at)
    return _plain(shape, at, fields[at]) if at in fields else None


def _items(member: Shape, at: str, fields: Mapping[str, str], left: set[str]) -> list[Any]:
    found: list[Any] = []
    while (one := _value(member, f"{at}.{len(found) + 1}", fields, left)) is not None:
        found.append(one)
    return found


def _plain(shape: Shape | None, name: str, text: str) -> Any:
    kind = shape.type_name if shape else "string"
    if kind == "boolean":
        if text not in {"true", "false"}:
            raise Refused("InvalidParameterValue", f"Invalid value '{text}' for {name}. Expected true or false.")
        return text == "true"
    try:
        return _READ.get(kind, str)(text)
    except ValueError:
        raise Refused("InvalidParameterValue", f"Invalid value '{text}' for {name}") from None


def _below(at: str, name: str) -> str:
    return f"{at}.{name}" if at else name


def _spelled(name: str, shape: Shape) -> str:
    """Return a field's name on the wire, as botocore's serializer for EC2 writes it."""
    said = shape.serialization
    if "queryName" in said:
        return str(said["queryName"])
    spelled = str(said.get("name", name))
    return spelled[0].upper() + spelled[1:]

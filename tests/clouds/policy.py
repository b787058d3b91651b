"""What IAM's policies allow: a small evaluator, for the elements and operators that the project's policies have."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.clouds.instances import matches
from tests.clouds.keys import Key, Policy

Context = Mapping[str, Sequence[str]]
_VARIABLE = re.compile(r"\$\{([^}]+)\}")


@dataclass(frozen=True)
class Need:
    """One permission that a call needs: an action on a resource, and what conditions look at."""

    action: str  # ec2:RunInstances
    resource: str = "*"
    context: Context = field(default_factory=dict)


def allows(key: Key, need: Need) -> bool:
    """Say whether all that limits a key allows it, and nothing denies it."""
    context = {**need.context, "aws:userid": [key.userid], "aws:PrincipalArn": [key.arn]}
    return all(_decides(documents, need, context) for documents in key.policies)


def _decides(documents: Sequence[Policy], need: Need, context: Context) -> bool:
    effects = {
        statement["Effect"]
        for document in documents
        for statement in _listed(document["Statement"])
        if _applies(statement, need, context)
    }
    return effects == {"Allow"}


def _applies(statement: Mapping[str, Any], need: Need, context: Context) -> bool:
    unknown = set(statement) - {"Sid", "Effect", "Action", "Resource", "Condition"}
    assert not unknown, f"the stand-in doesn't evaluate {unknown}"
    action = any(matches(need.action.lower(), one.lower()) for one in _listed(statement["Action"]))
    resource = any(matches(need.resource, filled(one, context)) for one in _listed(statement["Resource"]))
    return action and resource and _holds(statement.get("Condition", {}), context)


def filled(text: str, context: Context) -> str:
    """Put the values of policy variables in; one that has none fits nothing."""
    return _VARIABLE.sub(lambda found: next(iter(context.get(found[1], ())), "\0"), text)


def _holds(conditions: Mapping[str, Mapping[str, Any]], context: Context) -> bool:
    return all(
        _compare(operator, context.get(key), [filled(str(one), context) for one in _listed(wanted)])
        for operator, keys in conditions.items()
        for key, wanted in keys.items()
    )


def _compare(operator: str, has: Sequence[str] | None, wanted: Sequence[str]) -> bool:
    if operator == "Null":
        return (has is None) == (wanted[0].lower() == "true")
    quantity, _, name = operator.rpartition(":")
    optional = name.endswith("IfExists")
    test = _OPERATORS[name.removesuffix("IfExists")]
    if has is None:
        return optional or quantity == "ForAllValues" or name.startswith("StringNot")
    if quantity == "ForAllValues":
        return all(test(one, wanted) for one in has)
    return any(test(one, wanted) for one in has)


def _equal(value: str, wanted: Sequence[str]) -> bool:
    return value in wanted


def _like(value: str, wanted: Sequence[str]) -> bool:
    return any(matches(value, one) for one in wanted)


_OPERATORS: dict[str, Callable[[str, Sequence[str]], bool]] = {
    "StringEquals": _equal,
    "StringNotEquals": lambda value, wanted: not _equal(value, wanted),
    "StringLike": _like,
    "StringNotLike": lambda value, wanted: not _like(value, wanted),
    "ArnEquals": _like,
    "ArnLike": _like,
    "Bool": lambda value, wanted: value.lower() == wanted[0].lower(),
}


def _listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else [value]

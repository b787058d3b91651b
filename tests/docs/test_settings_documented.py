"""docs/settings.md lists every setting with its real default."""

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic.fields import FieldInfo

from config.settings import AlertSettings, BudgetSettings, Section, Settings
from config.units import Money, exact_duration, print_memory

PAGE = (Path(__file__).parents[2] / "docs" / "settings.md").read_text(encoding="utf-8")
ROWS = dict(re.findall(r"^\| `([a-z_.]+)` \| (.+?) \| ", PAGE, flags=re.MULTILINE))
LISTS = {"budgets": BudgetSettings, "alerts": AlertSettings}


def _settings(section: type[Section] = Settings, above: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Yield every setting with its dotted name, those inside lists of tables too."""
    for name, field in section.model_fields.items():
        inner: Any = LISTS.get(name, field.annotation)
        if isinstance(inner, type) and issubclass(inner, Section):
            yield from _settings(inner, f"{above}{name}.")
        else:
            yield f"{above}{name}", field


def _written(name: str, field: FieldInfo) -> str:
    default = field.default
    if field.is_required():
        return "required"
    if default in (None, "", (), {}):
        return "none"
    if isinstance(default, timedelta):
        return f"`{exact_duration(default)}`"
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    if isinstance(default, Money):
        return f"`{default.micro // 10**6} {default.currency}`"
    if isinstance(default, tuple):
        return f"`{', '.join(map(str, default))}`"
    if "largest_" in name:
        return f"`{print_memory(default)}`"
    return f"`{default:g}`" if isinstance(default, float) else f"`{default}`"


EVERY = [(name, _written(name, field)) for name, field in _settings()]


@pytest.mark.parametrize(("setting", "default"), EVERY)
def test_the_page_lists_it_with_its_default(setting: str, default: str) -> None:
    assert ROWS.get(setting) == default


def test_the_page_lists_nothing_else() -> None:
    assert ROWS.keys() <= {setting for setting, _ in EVERY}

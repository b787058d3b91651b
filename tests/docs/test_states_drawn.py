"""The diagram in the docs is the table in the code."""

import re
from pathlib import Path

from daemon.state_diagram import diagram

ROOT = Path(__file__).parents[2]


def test_the_diagram_shows_the_moves_as_they_are() -> None:
    assert (ROOT / "docs" / "states.md").read_text() == diagram()


def test_nobody_else_sets_a_state() -> None:
    """States change by `Journal.advance` only; a row's first state is given where the row is made."""
    setting = re.compile(r"\.state\s*=[^=]|values\([^)]*\bstate=")
    allowed = {"daemon/events.py"}
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in (ROOT / "daemon").rglob("*.py")
        if str(path.relative_to(ROOT)) not in allowed
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if setting.search(line)
    ]
    assert found == []

"""docs/alerts.md shows every alert as the code makes it, and names every event."""

import tomllib
from pathlib import Path

from daemon.alerts.envelope import ALERTS
from daemon.alerts.examples import as_markdown, examples

ROOT = Path(__file__).parents[2]
DOC = (ROOT / "docs" / "alerts.md").read_text()
NOT_EVENTS = {"budget.no_room"}


def test_the_examples_in_the_docs_are_made_by_the_code() -> None:
    assert as_markdown() in DOC


def test_every_event_with_a_sentence_is_documented() -> None:
    words = tomllib.loads((ROOT / "config" / "words" / "en" / "events.toml").read_text())
    codes = {f"{table}.{name}" for table, entries in words.items() for name in entries} - NOT_EVENTS
    assert [code for code in sorted(codes) if code not in DOC] == []
    assert codes >= ALERTS


def test_no_sentence_of_an_example_misses_a_value() -> None:
    assert [code for code, body in examples().items() if "unknown" in body["text"] or "=" in body["text"]] == []

"""The body of an alert: small, whole, and with what a person needs."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.settings import AlertSettings
from daemon.alerts.envelope import ALERTS, LARGEST, envelope, outbox_rows, shortened
from daemon.models import Event
from tests.fakes.clock import START

TEXT = st.text(st.characters(codec="utf-8"), max_size=50).map(lambda t: t * 400)


def event(code: str, **values: Any) -> Event:
    return Event(id=7, at=START, code=code, job_id="j1", values=values)


def size(body: dict[str, Any]) -> int:
    return len(json.dumps(body, ensure_ascii=False).encode())


@given(st.sampled_from(sorted(ALERTS)), TEXT, TEXT, TEXT)
def test_no_body_is_larger_than_20_kb(code: str, log: str, why: str, name: str) -> None:
    values = {"job": name, "why": why, "warning": why, "file": name, "source": name, "budget": name, "offer": name, "log_tail": log,
              "spent_micro": 1, "command": name}  # fmt: skip
    assert size(envelope(event(code, **values), "install")) < LARGEST


@pytest.mark.parametrize("text", ["é" * 30_000, "\x1b[31m" * 30_000, "训练失败" * 9000, '"\\' * 20_000])
def test_a_long_log_keeps_its_end(text: str) -> None:
    tail = envelope(event("job.failed", job="x", log_tail=f"{text}\nKeyError: 'lr'"), "install")["data"]["log_tail"]
    assert tail.startswith("…")
    assert tail.endswith("KeyError: 'lr'")


@given(st.text(st.characters(codec="utf-8"), max_size=300), st.integers(3, 400), st.booleans())
def test_shortened_is_a_part_that_fits(text: str, most: int, keep_end: bool) -> None:
    short = shortened(text, most, keep_end=keep_end)
    assert len(json.dumps(short, ensure_ascii=False).encode()) - 2 <= most
    assert short == text or (text.endswith(short[1:]) if keep_end else text.startswith(short[:-1]))


def test_twenty_lines_of_a_usual_log_are_all_there() -> None:
    log = "\n".join(f"epoch {n:3} loss 0.123 accuracy 0.987 " + "." * 160 for n in range(20))
    assert envelope(event("job.failed", job="x", log_tail=log), "install")["data"]["log_tail"] == log


def test_money_is_there_exactly_and_as_people_read_it() -> None:
    data = envelope(event("job.finished", job="x", cost_micro=1_234_567, on_demand_micro=9_000_000), "install", "CNY")[
        "data"
    ]
    assert data["cost_micro"] == 1_234_567
    assert "1.23" in data["cost"]
    assert "$" not in data["cost"]


def test_the_id_is_the_same_for_every_endpoint_and_the_events_own() -> None:
    rows = outbox_rows(
        event("job.held", job="x", why="y"), [AlertSettings(name="a"), AlertSettings(name="b")], "install"
    )
    assert {row.payload["id"] for row in rows} == {"evt_install_7"}


@pytest.mark.parametrize(
    ("patterns", "wanted"),
    [(("*",), True), (("job.*",), True), (("job.held",), True), (("budget.*",), False), ((), False)],
)
def test_an_endpoint_gets_what_its_patterns_name(patterns: tuple[str, ...], wanted: bool) -> None:
    rows = outbox_rows(event("job.held", job="x", why="y"), [AlertSettings(name="a", events=patterns)], "install")
    assert bool(rows) is wanted

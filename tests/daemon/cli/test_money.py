"""What `costs` and `advise` print, from answers of the daemon."""

from typing import Any

from daemon.cli.money import _advice, _bill
from daemon.cli.table import WIDEST, width

OFFERING = {
    "term_hours": 26280,
    "payment": "Partial Upfront",
    "offering_class": "convertible",
    "effective_hourly_micro": 600_000,
    "hours_needed": 438.2,
    "saved_micro": 68_900_000,
    "pays": True,
    "never": False,
}


def found(*offerings: dict[str, Any]) -> dict[str, Any]:
    used = {"cloud": "aws", "region": "us-east-1", "type": "g5.xlarge", "hours": 512.24, "cost_micro": 512_000_000}
    return {"days": 30, "known": len(offerings), "used": [used | {"offerings": list(offerings)}]}


def test_a_row_says_from_how_many_hours_it_pays_and_what_it_saves() -> None:
    lines = _advice(found(OFFERING), "USD", everything=False)
    words = " ".join(lines[0].splitlines()[1].split())
    assert words == "aws/us-east-1/g5.xlarge 512.2 $512.00 3y convertible, partial $0.600 438 h saves $68.90"
    assert lines[-1] == "frugald never buys reserved capacity: this is advice only"
    assert max(width(line) for line in lines[0].splitlines()) <= WIDEST


def test_only_the_best_offering_is_shown_unless_all_are_asked_for() -> None:
    dearer = OFFERING | {"saved_micro": -5_000_000, "pays": False, "hours_needed": 800.0, "never": True}
    no = dearer | {"never": False, "hours_needed": 700.0}
    answer = found(OFFERING, no, dearer)
    assert len(_advice(answer, "USD", everything=False)[0].splitlines()) == 2
    shown = _advice(answer, "USD", everything=True)[0]
    assert "$5.00 dearer" in shown
    assert "never pays" in shown


def test_without_offerings_or_use_it_says_so() -> None:
    assert "no reserved offerings are known: no price source here lists any" in _advice(
        found(), "USD", everything=False
    )
    nothing = _advice({"days": 30, "known": 3, "used": []}, "USD", everything=False)
    assert nothing == ["nothing was rented in the last 30 days, so there is nothing to advise on"]


def test_costs_tell_what_the_cloud_itself_billed() -> None:
    bill = {
        "cloud": "aws",
        "since": "2026-12-01",
        "until": "2026-12-08",
        "billed_micro": 10_400_000,
        "ledger_micro": 10_000_000,
        "estimated": True,
    }
    assert _bill(bill, "USD") == (
        "aws billed $10.40 so far for 2026-12-01 to 2026-12-08; the ledger has $10.00 for these days"
    )
    assert "for 2026-12-08;" in _bill(bill | {"since": "2026-12-08", "estimated": False}, "USD")

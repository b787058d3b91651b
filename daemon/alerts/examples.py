"""One example of every alert, made by the code that makes the real ones: `python -m daemon.alerts.examples`."""

import json
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from config.reason import Reason, Value
from daemon.alerts.envelope import ALERTS, envelope
from daemon.models import Event

_AT = datetime(2026, 12, 1, 12, 59, 28, tzinfo=UTC)
_JOB = {"job": "bert-squad", "spent_micro": 4_210_000, "needed_micro": 6_900_000, "command": "frugald why jk4m9q2ab"}
_OFFER: dict[str, Value] = {"offer": "aws/us-east-1c/g5.xlarge/spot"}
_BUDGET = {
    "budget": "project:nlp/month",
    "spent_micro": 41_300_000,
    "leased_micro": 1_210_000,
    "cap_micro": 50_000_000,
    "needed_micro": 6_900_000,
    "command": "frugald budget set project:nlp/month AMOUNT",
}
_HELD: dict[str, Value] = {
    "budget": "job:jk4m9q2ab/total",
    "spent_micro": 4_210_000,
    "leased_micro": 0,
    "cap_micro": 4_500_000,
    "command": "frugald budget set job:jk4m9q2ab/total AMOUNT",
}
_OWN_BUDGET = {
    "budget": "job:jk4m9q2ab/total",
    "spent_micro": 4_210_000,
    "leased_micro": 0,
    "cap_micro": 4_500_000,
    "command": "frugald budget set job:jk4m9q2ab/total AMOUNT",
}
_VALUES: dict[str, Mapping[str, Any]] = {
    "budget.threshold": _BUDGET | {"percent": 80},
    "budget.forecast": {
        "budget": "all/month",
        "forecast_micro": 372_000_000,
        "spent_micro": 141_000_000,
        "cap_micro": 300_000_000,
        "at": "2027-01-01T00:00+08:00",
        "command": "frugald budgets",
    },
    "budget.reached": _BUDGET | {"percent": 100, "spent_micro": 49_100_000, "leased_micro": 700_000},
    "job.placed": _JOB
    | {
        "offer": "A10G spot in aws/us-east-1c",
        "market": "spot",
        "hourly_micro": 412_000,
        "on_demand_hourly_micro": 1_006_000,
    },
    "job.advised": _JOB
    | {"offer": "A10G spot in aws/us-east-1c", "pool": "aws/us-east-1c/g5.xlarge/spot", "hourly_micro": 412_000},
    "job.started": _JOB | _OFFER,
    "job.resumed": _JOB | _OFFER | {"step": 12_000, "lost_s": 41.0},
    "job.interrupted": _JOB
    | _OFFER
    | {"step": 12_040, "in_s": 118.0, "why": Reason("interrupted.notice", _OFFER | {"in_s": 118.0}).stored()},
    "job.lost": _JOB | _OFFER,
    "job.held": _JOB
    | {
        "why": Reason("hold.budget", _HELD).stored(),
        "command": _HELD["command"],
    },
    "job.finished": _JOB | {"cost_micro": 11_020_000, "on_demand_micro": 29_400_000, "attempts": 3, "needed_micro": 0},
    "job.failed": _JOB
    | {
        "exit_code": 1,
        "why": Reason("failed.failed", {"exit_code": 1}).stored(),
        "command": "frugald logs jk4m9q2ab",
        "log_tail": "Traceback (most recent call last):\n  File \"train.py\", line 9, in <module>\nKeyError: 'lr'",
    },
    "job.cancelled": _JOB | {"seconds_s": 12.0},
    "job.warning": _JOB | {"warning": Reason("agent.overwrites_in_place", {"file": "checkpoint.pth"}).stored()},
    "machine.leaked": {
        "cloud": "aws",
        "machine_there": "i-0abc1234",
        "spent_micro": 310_000,
        "command": "frugald reap",
    },
    "prices.stale": {"source": "aws", "age_s": 1260.0, "why": "RequestLimitExceeded", "command": "frugald status"},
    "prices.quarantined": {
        "source": "aws",
        "count": 2,
        "why": "aws/us-east-1a/p3.2xlarge/spot: spot at $3.20/h is not below on demand at $3.06/h",
        "command": "frugald status",
    },
    "grant.short": {"cloud": "aws", "life_s": 3600.0, "lease_s": 7200.0},
    "bill.drift": {
        "cloud": "aws",
        "day": "2026-11-29",
        "billed_micro": 10_400_000,
        "ledger_micro": 10_000_000,
        "machines": 1,
        "worst": Reason(
            "billing.machine",
            {"machine": "m4d8kq2xz", "job": "jk4m9q2ab", "billed_micro": 5_400_000, "ledger_micro": 5_000_000},
        ).stored(),
        "command": "frugald costs --month 2026-11 --by machine",
    },
    "bill.unchecked": {"cloud": "aws", "why": Reason("billing.no_tags").stored(), "command": "frugald costs"},
    "source.down": {"source": "aws", "why": "could not connect", "command": "frugald status"},
    "source.up": {"source": "aws"},
    "file.rejected": {"file": "train.yaml", "why": "line 4: it is not UTF-8: save it again as UTF-8"},
    "daemon.started": {"version": "0.1.0"},
    "daemon.stopped": {},
}


def examples() -> dict[str, dict[str, Any]]:
    """Return the body of one alert of each kind."""
    return {
        code: envelope(
            Event(
                id=number,
                at=_AT,
                code=code,
                job_id="jk4m9q2ab" if code.startswith("job.") else "",
                values=dict(_VALUES[code]),
            ),
            "f7x2k9mpq",
        )
        for number, code in enumerate(sorted(ALERTS), 1)
    }


def as_markdown() -> str:
    """Return the examples as the docs show them."""
    parts = []
    for code, body in examples().items():
        parts += [
            f"### {code}\n",
            f"> {body['text']}\n",
            "```json",
            json.dumps(body, indent=2, ensure_ascii=False),
            "```\n",
        ]
    return "\n".join(parts)


if __name__ == "__main__":
    sys.stdout.write(as_markdown())

"""The demo's numbers, from the database and from what the receiver got, and the table that people read."""

from typing import Any

from sqlmodel import Session, col, func, select

from config.units import MICRO
from daemon import views
from daemon.cli.table import lasting, money, table
from daemon.demo.receiver import Receiver
from daemon.models import Attempt, Outbox

_SURE = 0.95


def numbers(session: Session, receiver: Receiver, leaked: int, seconds: float) -> dict[str, Any]:
    """Return everything that the demo shows at its end."""
    rows = sorted(views.jobs(session), key=lambda job: job["name"])
    detailed = [views.job_status(session, views.find_job(session, job["id"])) for job in rows]  # type: ignore[arg-type]
    sent = session.exec(select(func.count()).select_from(Outbox)).one()
    delivered = session.exec(
        select(func.count()).select_from(Outbox).where(col(Outbox.delivered_at).is_not(None))
    ).one()
    return {
        "runs": detailed,
        "why": {job["id"]: views.why(session, views.find_job(session, job["id"]))["decisions"] for job in rows},  # type: ignore[arg-type]
        "demo": {
            "jobs": [_job(session, job) for job in rows],
            "webhooks": {
                "sent": int(sent),
                "delivered": int(delivered),
                "signature_valid": bool(receiver.received) and all(r.valid for r in receiver.received),
            },
            "leaked_machines": leaked,
            "seconds": round(seconds, 1),
        },
    }


def is_right(found: dict[str, Any]) -> bool:
    """Say whether everything is as the demo promises."""
    demo = found["demo"]
    digits, sweep = demo["jobs"]
    return (
        all(job["state"] == "succeeded" for job in demo["jobs"])
        and digits["interruptions"] == 1
        and digits["resumed_from_step"] > 0
        and digits["accuracy"] > _SURE
        and sweep["attempts"] >= 2
        and sweep["resumed_from_step"] > 0
        and demo["webhooks"]["sent"] == demo["webhooks"]["delivered"] > 0
        and demo["webhooks"]["signature_valid"]
        and demo["leaked_machines"] == 0
    )


def table_of(found: dict[str, Any]) -> str:
    """Return the table of every attempt with its offer, and why that offer won."""
    rows, reasons = [], []
    for job in found["runs"]:
        decisions = found["why"][job["id"]]
        for run in job["runs"]:
            machine = run["machine"]
            rows.append(
                (
                    job["name"],
                    str(run["attempt"]),
                    f"{machine['gpu']} {machine['market']} {machine['zone']}",
                    run["outcome"],
                    f"{max(run['restored_step'], 0)}-{run['step']}",
                    lasting(run["run_s"]),
                    lasting(run["lost_s"]),
                    money(machine["spent_micro"]),
                )
            )
            if run["attempt"] < len(decisions):
                reasons.append(f"{job['name']} {run['attempt']}: {decisions[run['attempt']]['winner']['why']}")
        rows.append(
            (
                job["name"],
                "all",
                f"on demand {money(job['on_demand_micro'])}, cap {money(job['budget_micro'])}",
                job["state"],
                str(job["step"]),
                lasting(sum(r["run_s"] for r in job["runs"])),
                lasting(job["lost_s"]),
                money(job["cost_micro"]),
            )
        )
    head = ("job", "attempt", "offer", "outcome", "steps", "ran", "lost", "cost")
    body = table(head, rows, right=("ran", "lost", "cost"))
    return "\n".join(["", body, "", "Why each offer won", *(f"  {reason}" for reason in reasons), ""])


def _job(session: Session, job: dict[str, Any]) -> dict[str, Any]:
    resumed = session.exec(
        select(func.max(Attempt.restored_step)).where(Attempt.job_id == job["id"], col(Attempt.restored_step) >= 0)
    ).one()
    return {
        "name": job["name"],
        "state": job["state"],
        "attempts": job["attempts"],
        "interruptions": job["interruptions"],
        "resumed_from_step": -1 if resumed is None else int(resumed),
        "final_step": job["step"],
        "accuracy": job["metrics"].get("accuracy"),
        "cost_usd": job["cost_micro"] / MICRO,
        "on_demand_usd": job["on_demand_micro"] / MICRO,
        "budget_usd": None if job["budget_micro"] is None else job["budget_micro"] / MICRO,
    }

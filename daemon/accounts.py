"""Keep the ledger up to date, and say when a budget's thresholds are crossed."""

from datetime import datetime, timedelta
from typing import Any

from sqlmodel import Session, col, select

from daemon import jobs, money
from daemon.budgets import Cap, Purse, Window, window_of
from daemon.events import needed_micro
from daemon.models import Budget, Job, Machine
from daemon.states import MACHINE_LIVE
from daemon.world import World

_DAY = timedelta(days=1)


class Accounts:
    """Charges machines at every billing interval."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._overran: set[str] = set()

    def run_once(self, now: datetime) -> dict[str, int]:
        """Charge every machine that is due, then look at every budget; return how many of each."""
        charged = 0
        with self.world.database.write() as session:
            for machine in session.exec(select(Machine).where(col(Machine.state).in_(MACHINE_LIVE))):
                if machine.charged_until and now - machine.charged_until >= self.world.settings.charge_every:
                    self._overrun(session, machine, now)
                    charged += money.charge_seen(session, machine, now, self.world.settings.zone) > 0
            session.flush()
            purse = money.read_purse(session, now, self.world.settings.zone)
            alerts = sum(self._thresholds(session, purse, cap, now) for cap in purse.caps)
        return {"charged": charged, "alerts": alerts}

    def _overrun(self, session: Session, machine: Machine, now: datetime) -> None:
        """Tell a person of a machine that outlived its lease: its cost goes on counting until it is gone."""
        overran = machine.lease_until and machine.seen_at and machine.seen_at > machine.lease_until
        if overran and machine.id not in self._overran:
            self._overran.add(machine.id)
            self.world.journal.emit(
                session,
                now,
                "machine.leaked",
                machine=machine,
                cloud=machine.cloud,
                machine_there=machine.provider_id,
                spent_micro=machine.spent_micro,
                command="frugald reap",
            )

    def _thresholds(self, session: Session, purse: Purse, cap: Cap, now: datetime) -> int:
        window = window_of(cap.period, now, purse.zone)
        spent, leased = purse.spent_micro(cap, window), purse.leased_micro(cap, window)
        budget = session.get_one(Budget, cap.id)
        sent = 0
        for percent in cap.thresholds:
            if percent < 100 and spent * 100 >= cap.cap_micro * percent:
                sent += self._say(session, budget, window, percent, spent, leased, now)
        if spent >= cap.cap_micro and 100 in cap.thresholds:
            sent += jobs.first_time(session, budget, window.start, "reached", 100, now) and bool(
                self.world.journal.emit(
                    session, now, "budget.reached", **self._values(session, budget, spent, leased), percent=100
                )
            )
        return sent + self._forecast(session, budget, cap, window, purse, now)

    def _say(
        self, session: Session, budget: Budget, window: Window, percent: int, spent: int, leased: int, now: datetime
    ) -> int:
        if not jobs.first_time(session, budget, window.start, "spent", percent, now):
            return 0
        job = session.get(Job, budget.subject) if budget.scope == "job" else None
        self.world.journal.emit(
            session, now, "budget.threshold", job=job, percent=percent, **self._values(session, budget, spent, leased)
        )
        return 1

    def _forecast(self, session: Session, budget: Budget, cap: Cap, window: Window, purse: Purse, now: datetime) -> int:
        """Warn when spending goes on as in the last day and would pass the cap before the period ends."""
        if cap.period in {"hour", "total"}:
            return 0
        last_day = money.spent_micro(session, cap, Window(now - _DAY, now))
        spent, leased = purse.spent_micro(cap, window), purse.leased_micro(cap, window)
        forecast = spent + leased + int(last_day * ((window.end - now) / _DAY))
        if forecast <= cap.cap_micro or not jobs.first_time(session, budget, window.start, "forecast", 100, now):
            return 0
        self.world.journal.emit(
            session,
            now,
            "budget.forecast",
            budget=budget.id,
            forecast_micro=forecast,
            cap_micro=cap.cap_micro,
            spent_micro=spent,
            at=window.end.astimezone(purse.zone).isoformat(timespec="minutes"),
            command="frugald budgets",
        )
        return 1

    @staticmethod
    def _values(session: Session, budget: Budget, spent: int, leased: int) -> dict[str, Any]:
        job = session.get(Job, budget.subject) if budget.scope == "job" else None
        return {
            "budget": budget.id,
            "spent_micro": spent,
            "leased_micro": leased,
            "cap_micro": budget.cap_micro,
            "needed_micro": needed_micro(job) if job else None,
            "command": f"frugald budget set {budget.id} AMOUNT",
        }

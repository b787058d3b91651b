"""Decide what to do: a pure function from a snapshot to a plan. It reads no clock, network, database or random source."""

from dataclasses import dataclass, field, replace
from datetime import timedelta

from config.reason import Reason
from config.units import parse_memory
from daemon.budgets import Lease, Shortfall, window_of
from daemon.snapshot import (
    Candidate,
    HeldJob,
    Hold,
    Launch,
    LiveMachine,
    Plan,
    Release,
    Renewal,
    Skip,
    Snapshot,
    Stop,
    WaitingJob,
)
from pricing.book import Selection
from pricing.need import Need
from pricing.offer import Market, Offer
from pricing.ranking import Ranked, rank

_DISK_UNIT = parse_memory("100GB")


@dataclass(frozen=True)
class _Choice:
    """One offer for one of the job's needs."""

    ranked: Ranked
    need: Need


_CHOICES = 50
"""How many ranked offers are tried against the budgets before the job waits."""


def decide(snapshot: Snapshot) -> Plan:
    """Renew leases, release what may go on, and match waiting jobs to the cheapest offers that fit; touch nothing."""
    purse = replace(snapshot.purse, leases=dict(snapshot.purse.leases))
    draft = _Draft(replace(snapshot, purse=purse))
    for machine in snapshot.machines:
        draft.renew(machine)
    for held in snapshot.held:
        draft.release(held)
    for job in sorted(snapshot.waiting, key=lambda job: (-job.priority, job.submitted_at, job.id)):
        draft.place(job)
    return draft.plan()


@dataclass
class _Draft:
    """The plan while it is being made; each promise uses up room in the purse, stock and counts."""

    snapshot: Snapshot
    launches: list[Launch] = field(default_factory=list)
    renewals: list[Renewal] = field(default_factory=list)
    stops: list[Stop] = field(default_factory=list)
    holds: list[Hold] = field(default_factory=list)
    releases: list[Release] = field(default_factory=list)
    skips: list[Skip] = field(default_factory=list)
    taken: dict[str, int] = field(default_factory=dict)  # machines promised in this plan, by pool
    ranked: dict[object, tuple[list[Ranked], Selection]] = field(default_factory=dict)

    def plan(self) -> Plan:
        return Plan(
            tuple(self.launches),
            tuple(self.renewals),
            tuple(self.stops),
            tuple(self.holds),
            tuple(self.releases),
            tuple(self.skips),
        )

    def renew(self, machine: LiveMachine) -> None:
        """Lengthen a lease that is more than half over, or stop the machine when no cap has room for more."""
        lease, now = self.snapshot.lease, self.snapshot.now
        left = machine.lease.until - lease.end - now
        wanted = min(max(now - machine.launched_at, lease.length), lease.longest)
        if not machine.renewable or left > wanted / 2:
            return
        longer = replace(machine.lease, until=now + wanted + lease.end)
        granted = self.snapshot.purse.longest(longer, now + lease.shortest + lease.end)
        if isinstance(granted, Lease) and granted.until > machine.lease.until + lease.shortest / 8:
            self.snapshot.purse.take(granted)
            self.renewals.append(Renewal(machine.id, granted))
        elif left < lease.shortest:
            self._stop(machine, granted)

    def _stop(self, machine: LiveMachine, granted: Lease | Shortfall) -> None:
        lack = granted
        if isinstance(lack, Lease):  # room for what it has, and for nothing more
            lack = self.snapshot.purse.shortfall(replace(lack, until=lack.until + self.snapshot.lease.shortest)) or lack
        if isinstance(lack, Shortfall):
            self.stops.append(Stop(machine.id, lack.reason, lack.cap.id, lack.window.start))

    def release(self, held: HeldJob) -> None:
        """Let a job that a budget held wait again once that cap is higher, gone, or in its next period."""
        cap = next((cap for cap in self.snapshot.purse.caps if cap.id == held.budget), None)
        start = window_of(cap.period, self.snapshot.now, self.snapshot.purse.zone).start if cap else None
        if cap is None or cap.cap_micro > held.cap_micro or start != held.period_start:
            self.releases.append(Release(held.id))

    def place(self, job: WaitingJob) -> None:
        """Promise the job the cheapest offer that fits and that every cap has room for, or say why not."""
        refusal = self._not_now(job)
        if refusal:
            self.skips.append(Skip(job.id, refusal))
            return
        choices, selections = self._choices(job)
        if not choices:
            self.skips.append(Skip(job.id, self._nothing_left(selections)))
            return
        lacks = []
        for choice in choices[:_CHOICES]:
            lease = self._first_lease(job, choice)
            lack = self._no_money(choice.ranked, lease)
            if lack is None:
                self._promise(job, choice, lease, choices, selections)
                return
            lacks.append(lack)
        self._without_money(job, min(lacks, key=lambda lack: lack.needed_micro))

    def _not_now(self, job: WaitingJob) -> Reason | None:
        now, choose = self.snapshot.now, self.snapshot.choose
        if job.lacks:
            return job.lacks
        if job.not_before and now < job.not_before:
            return Reason("wait.not_before", {"at": job.not_before.isoformat(timespec="seconds")})
        if job.waits_for:
            return Reason("wait.after", {"jobs": ", ".join(job.waits_for)})
        if self.snapshot.machine_count + len(self.launches) >= choose.max_machines:
            return Reason("wait.machines", {"machines": choose.max_machines})
        if self.snapshot.recent_launches + len(self.launches) >= choose.max_launches_per_minute:
            return Reason("wait.launches", {"launches": choose.max_launches_per_minute})
        return None

    def _choices(self, job: WaitingJob) -> tuple[list[_Choice], list[Selection]]:
        found: list[_Choice] = []
        selections = []
        for need in job.needs:
            ranked, selection = self._rank(job, need)
            selections.append(selection)
            found += (_Choice(r, need) for r in ranked if self._has_stock(r.offer))
        return sorted(self._in_time(job, found), key=_by_cost), selections

    def _in_time(self, job: WaitingJob, choices: list[_Choice]) -> list[_Choice]:
        """Leave spot out once a deadline has no room for an interruption: the safety net of "Can't Be Late" (NSDI 2024).

        Needed are the expected hours and two restarts. Where nothing is sure any more, the best effort stands.
        """
        if job.deadline is None:
            return choices
        left_h = (job.deadline - self.snapshot.now) / timedelta(hours=1)
        sure = [c for c in choices if c.ranked.offer.pool.market is not Market.SPOT or _needs_h(c, job) <= left_h]
        return sure or choices

    def _rank(self, job: WaitingJob, need: Need) -> tuple[list[Ranked], Selection]:
        key = (need, job.work)
        if key not in self.ranked:
            s = self.snapshot
            selection = s.book.select(
                need,
                s.now,
                closed=s.closed,
                stale_after=s.stale_after,
                quotas=s.quotas,
                checkpointed=job.work.checkpointed,
            )
            self.ranked[key] = rank(s.book, selection, job.work, s.hazards, need), selection
        return self.ranked[key]

    def _has_stock(self, offer: Offer) -> bool:
        return offer.free is None or self.taken.get(str(offer.pool), 0) < offer.free

    def _first_lease(self, job: WaitingJob, choice: _Choice) -> Lease:
        """Return the lease from now until the guest's own timer has surely ended the machine."""
        lease, now, offer = self.snapshot.lease, self.snapshot.now, choice.ranked.offer
        length = max(lease.boot + 2 * lease.end, offer.minimum_billing)
        return Lease(
            machine=job.id,
            scopes=job.scopes(offer.pool.cloud),
            start=now,
            until=now + length,
            hourly_micro=highest_hourly_micro(offer, bid_micro(offer, choice.need), job.disk),
        )

    def _no_money(self, ranked: Ranked, lease: Lease) -> Shortfall | None:
        if ranked.offer.pool.cloud in self.snapshot.uncapped_clouds:
            return None
        whole = ranked.expected_micro if ranked.expected_micro is not None else lease.total_micro
        return self.snapshot.purse.shortfall(lease) or self.snapshot.purse.holding(lease, whole)

    def _promise(
        self, job: WaitingJob, choice: _Choice, lease: Lease, choices: list[_Choice], selections: list[Selection]
    ) -> None:
        offer = choice.ranked.offer
        if offer.pool.cloud in self.snapshot.uncapped_clouds:
            self.skips.append(Skip(job.id, Reason("wait.no_cap", {"cloud": offer.pool.cloud})))
            return
        others = [c.ranked for c in choices if c.ranked.offer.pool != offer.pool][: self.snapshot.choose.runners_up]
        self.snapshot.purse.take(lease)
        pool = str(offer.pool)
        self.taken[pool] = self.taken.get(pool, 0) + 1
        self.launches.append(
            Launch(
                job=job.id,
                offer=offer,
                bid_micro=bid_micro(offer, choice.need),
                lease=lease,
                winner=_candidate(choice.ranked),
                runners_up=tuple(_candidate(r) for r in others),
                passed_over=tuple(passed for selection in selections for passed in selection.passed_over),
            )
        )

    def _without_money(self, job: WaitingJob, lack: Shortfall) -> None:
        """A cap that starts anew lets the job wait; one for a job, or for good, needs a person."""
        if lack.cap.period == "total":
            self.holds.append(Hold(job.id, lack.reason, lack.cap.id, lack.window.start))
        else:
            self.skips.append(Skip(job.id, lack.reason))

    @staticmethod
    def _nothing_left(selections: list[Selection]) -> Reason:
        return selections[0].nothing_left() if selections else Reason("wait.no_need")


def bid_micro(offer: Offer, need: Need) -> int | None:
    """Return the highest hourly price to accept for a spot offer, None for any other market."""
    if offer.pool.market is not Market.SPOT:
        return None
    return offer.ceiling_micro if need.max_hourly_micro is None else min(need.max_hourly_micro, offer.ceiling_micro)


def highest_hourly_micro(offer: Offer, bid: int | None, disk: int) -> int:
    """Return the most that an hour on `offer` can cost: the bid limit or the price, and the disk."""
    price = offer.hourly_micro if bid is None else max(bid, offer.hourly_micro)
    return price + disk_hourly_micro(offer, disk)


def disk_hourly_micro(offer: Offer, disk: int) -> int:
    """Return what an hour of `disk` bytes costs on `offer`, rounded up."""
    return -(-offer.disk_hourly_micro * disk // _DISK_UNIT)


def _needs_h(choice: _Choice, job: WaitingJob) -> float:
    restart_h = choice.ranked.offer.boot / timedelta(hours=1) + job.work.restore_h
    return (choice.ranked.expected_hours or 0.0) + 2 * restart_h


def _by_cost(choice: _Choice) -> tuple[bool, int, int, float, str]:
    return choice.ranked.order


def _candidate(ranked: Ranked) -> Candidate:
    return Candidate(ranked.offer, ranked.expected_micro, ranked.per_work_hour_micro, ranked.why)

"""Poll every price source, believe what can be believed, and keep the book that decisions read."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from sqlmodel import Session, col, insert, select, update

from daemon import money
from daemon.models import Machine, PoolLife, PricePoint, SourceHealth
from daemon.states import MACHINE_LIVE
from daemon.world import World
from pricing.book import PriceBook
from pricing.history import Hazards, Observation
from pricing.offer import Offer, PriceSource, Quota
from pricing.quarantine import sift


@dataclass(frozen=True)
class Answer:
    """What one source said in one poll."""

    offers: Sequence[Offer]
    quotas: Sequence[Quota]


class Prices:
    """Holds the newest offers of all sources; a source that fails keeps its last ones, which grow old."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.book = PriceBook(())
        self.quotas: tuple[Quota, ...] = ()
        self.hazards = Hazards(())
        self._offers: dict[str, Sequence[Offer]] = {}
        self._quotas: dict[str, Sequence[Quota]] = {}
        self._last: dict[str, int] = {}  # the price last believed of each pool, however long ago
        self._suspects: dict[str, dict[str, int]] = {}  # by source: a jump seen once is believed when it is seen again
        self._busy: set[str] = set()
        self._stale: set[str] = set()  # sources whose age has been told

    def run_once(self, now: datetime) -> dict[str, int]:
        """Ask every source that isn't still busy with the last question, and tell of those whose prices are too old."""
        asked = 0
        self._watch_age(now)
        for source in self.world.sources:
            if source.name not in self._busy:
                self._busy.add(source.name)
                self.world.calls.submit(
                    f"prices:{source.name}", partial(_ask, source, now), partial(self._answered, source)
                )
                asked += 1
        return {"asked": asked}

    def _watch_age(self, now: datetime) -> None:
        with self.world.database.write() as session:
            for health in session.exec(select(SourceHealth).where(col(SourceHealth.ok_at).is_not(None))):
                age = now - health.ok_at if health.ok_at else now - now
                if age <= self.world.settings.prices.stale_after:
                    self._stale.discard(health.name)
                elif health.name not in self._stale:
                    self._stale.add(health.name)
                    self.world.journal.emit(
                        session,
                        now,
                        "prices.stale",
                        source=health.name,
                        age_s=age.total_seconds(),
                        why=health.reason or "no answer",
                        command="frugald status",
                    )

    def _answered(self, source: PriceSource, outcome: Any) -> None:  # noqa: ANN401
        self._busy.discard(source.name)
        now = self.world.clock.now()
        with self.world.database.write() as session:
            if isinstance(outcome, Exception):
                self._failed(session, source, outcome, now)
                return
            self._take_in(session, source, outcome, now)
            self.hazards = Hazards(
                tuple(Observation(life.pool, life.age_s, life.interrupted) for life in session.exec(select(PoolLife)))
            )
        self.book = PriceBook([offer for offers in self._offers.values() for offer in offers])
        self.quotas = tuple(quota for quotas in self._quotas.values() for quota in quotas)
        self.world.wake()

    def _take_in(self, session: Session, source: PriceSource, answer: Answer, now: datetime) -> None:
        settings = self.world.settings
        rentable = [offer for offer in answer.offers if offer.pool.cloud in self.world.providers]
        believed, doubted = sift(
            rentable, self._last, settings.prices.jump, self._suspects.get(source.name, {}), settings.currency
        )
        self._suspects[source.name] = {str(offer.pool): offer.hourly_micro for offer, _ in doubted}
        self._offers[source.name], self._quotas[source.name] = believed, answer.quotas
        self._remember(session, believed, now)
        self._reprice(session, believed, now)
        health = session.get(SourceHealth, source.name) or SourceHealth(name=source.name)
        if health.reason:
            self.world.journal.emit(session, now, "source.up", source=source.name)
        if doubted and len(doubted) != health.quarantined:
            self.world.journal.emit(
                session,
                now,
                "prices.quarantined",
                source=source.name,
                count=len(doubted),
                why=doubted[0][1],
                command="frugald status",
            )
        session.merge(
            SourceHealth(
                name=source.name, ok_at=now, failed_at=health.failed_at, offers=len(believed), quarantined=len(doubted)
            )
        )

    def _failed(self, session: Session, source: PriceSource, error: Exception, now: datetime) -> None:
        health = session.get(SourceHealth, source.name) or SourceHealth(name=source.name)
        if not health.reason:
            why = str(error) or "no answer"
            self.world.journal.emit(session, now, "source.down", source=source.name, why=why, command="frugald status")
        session.merge(
            SourceHealth(
                name=source.name,
                ok_at=health.ok_at,
                failed_at=now,
                reason=str(error) or "no answer",
                offers=health.offers,
                quarantined=health.quarantined,
            )
        )

    def _remember(self, session: Session, offers: Sequence[Offer], now: datetime) -> None:
        """Keep a row only where a price changed."""
        changed = {str(o.pool): o.hourly_micro for o in offers if self._last.get(str(o.pool)) != o.hourly_micro}
        if changed:
            rows = [{"pool": pool, "at": now, "hourly_micro": price} for pool, price in changed.items()]
            session.execute(insert(PricePoint), rows)
        self._last |= changed

    def _reprice(self, session: Session, offers: Sequence[Offer], now: datetime) -> None:
        """Charge running spot machines at the old price up to now, and at the new one from here."""
        prices = {str(offer.pool): offer.hourly_micro for offer in offers}
        live = session.exec(select(Machine).where(Machine.market == "spot", col(Machine.state).in_(MACHINE_LIVE)))
        for machine in live:
            price = prices.get(machine.offer["pool"])
            disk = int(machine.offer["disk_hourly_micro"])
            if price is None or price + disk == machine.hourly_micro:
                continue
            money.charge_seen(session, machine, now, self.world.settings.zone)
            hourly = min(price + disk, machine.highest_hourly_micro)
            session.execute(update(Machine).where(col(Machine.id) == machine.id).values(hourly_micro=hourly))


def _ask(source: PriceSource, now: datetime) -> Answer:
    return Answer(tuple(source.offers(now)), tuple(source.quotas(now)))

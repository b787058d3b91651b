"""The fake cloud keeps the contract, so that what is tested against it holds for real ones."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from runner.provider import Condition, LaunchRequest, ProviderError, Throttled
from tests.contracts.provider import CloudContract, CloudWorld
from tests.fakes.clock import FakeClock
from tests.fakes.cloud import FakeAccount, FakeCloud, an_offer


def a_request(clock: FakeClock, token: str) -> LaunchRequest:
    tags = {"frugald:owner": "me", "frugald:machine": token}
    return LaunchRequest(token, an_offer(clock), None, 10, "{}", tags, timedelta(minutes=20))


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def world(clock: FakeClock) -> CloudWorld:
    account = FakeAccount()
    start = clock.now()

    def until(condition: Callable[[], bool]) -> None:
        while not condition():
            clock.advance(0.5)
            assert clock.now() < start + timedelta(hours=1), "never came true"

    def asked_at_start(token: str) -> LaunchRequest:
        return a_request(FakeClock(start), token)

    def seen(**how: timedelta) -> FakeCloud:
        return FakeCloud(clock, account=account, **how)

    provider, lossy, throttled, sold_out, small_quota = seen(), seen(), seen(), seen(), seen()
    lossy.lose_next_answer = True
    throttled.broken = Throttled("too often")
    sold_out.sold_out.add(an_offer(clock).pool)
    small_quota.quota["gpu"] = 0
    return CloudWorld(
        provider=provider, stranger=FakeCloud(clock, "somebody else", account), request=asked_at_start, until=until,
        now=clock.now, lossy=lossy, throttled=throttled, sold_out=sold_out, small_quota=small_quota,
        late=seen(listing_lag=timedelta(seconds=20)),
        interrupt=lambda machine, notice: provider.interrupt(machine, clock.now() + notice, notice),
    )  # fmt: skip


class TestFakeCloud(CloudContract):
    pass


def test_the_next_error_is_raised_once(clock: FakeClock) -> None:
    cloud = FakeCloud(clock)
    cloud.next_error["machines"] = ProviderError("half a listing")
    with pytest.raises(ProviderError, match="half"):
        cloud.machines()
    assert list(cloud.machines()) == []
    assert cloud.calls == [("machines", ""), ("machines", "")]


def test_billed_shows_what_no_listing_shows(clock: FakeClock) -> None:
    cloud = FakeCloud(clock, listing_lag=timedelta(minutes=1))
    machine = cloud.launch(a_request(clock, "one"))
    assert list(cloud.machines()) == []
    assert [billed.id for billed in cloud.billed] == [machine.id]


def test_an_agent_that_ends_ends_its_machine(clock: FakeClock) -> None:
    cloud = FakeCloud(clock)
    cloud.finish(cloud.launch(a_request(clock, "one")).id)
    [machine] = cloud.machines()
    assert machine.condition is Condition.GONE


def test_a_moved_guard_keeps_a_machine(clock: FakeClock) -> None:
    cloud = FakeCloud(clock)
    machine = cloud.launch(a_request(clock, "one"))
    cloud.set_guard(machine.id, clock.now() + timedelta(hours=1))
    clock.advance(timedelta(minutes=30))
    assert len(cloud.billed) == 1
    clock.advance(timedelta(minutes=31))
    assert cloud.billed == []

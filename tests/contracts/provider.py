"""What every provider must do: one suite, run against each of them."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import pytest

from runner.provider import (
    Condition,
    Denied,
    Gone,
    LaunchRequest,
    Machine,
    Provider,
    QuotaExceeded,
    SoldOut,
    Throttled,
    Unknown,
)

_ORDER = [Condition.PENDING, Condition.RUNNING, Condition.ENDING, Condition.GONE]


@dataclass
class World:
    """One cloud, and what a test may do to it."""

    provider: Provider
    stranger: Provider  # the same cloud, seen by another owner
    request: Callable[[str], LaunchRequest]  # by token; owned by `provider`'s owner
    until: Callable[[Callable[[], bool]], None]  # let time pass until the condition holds; fails when it never does
    now: Callable[[], datetime]

    def listed(self, token: str) -> Machine:
        [found] = [machine for machine in self.provider.machines() if machine.token == token]
        return found

    def until_condition(self, token: str, *conditions: Condition) -> Machine:
        self.until(lambda: self.listed(token).condition in conditions)
        return self.listed(token)


class ProviderContract:
    """Subclass it and give it a fixture `world`."""

    def test_a_launch_gives_a_machine_that_runs_soon(self, world: World) -> None:
        before = world.now()
        machine = world.provider.launch(world.request("one"))
        assert machine.token == "one"
        assert machine.id
        assert machine.condition in {Condition.PENDING, Condition.RUNNING}
        assert before <= machine.launched_at <= world.now()
        assert machine.launched_at.tzinfo is not None
        running = world.until_condition("one", Condition.RUNNING)
        assert running.id == machine.id
        assert running.tags == world.request("one").tags
        assert running.ended_at is None

    def test_the_same_token_is_the_same_machine(self, world: World) -> None:
        first = world.provider.launch(world.request("one"))
        assert world.provider.launch(world.request("one")).id == first.id
        assert [machine.id for machine in world.provider.machines()] == [first.id]

    def test_another_token_is_another_machine(self, world: World) -> None:
        ids = {world.provider.launch(world.request(token)).id for token in ("one", "two")}
        assert {machine.id for machine in world.provider.machines()} == ids
        assert len(ids) == 2

    def test_the_same_token_with_other_parameters_is_refused(self, world: World) -> None:
        world.provider.launch(world.request("one"))
        with pytest.raises(Denied, match="IdempotentParameterMismatch"):
            world.provider.launch(replace(world.request("one"), disk=7))
        assert len(world.provider.machines()) == 1

    def test_a_token_is_known_after_its_machine_ended(self, world: World) -> None:
        first = world.provider.launch(world.request("one"))
        world.provider.terminate(first.id)
        world.until_condition("one", Condition.GONE)
        again = world.provider.launch(world.request("one"))
        assert (again.id, again.condition) == (first.id, Condition.GONE)
        assert len(world.provider.machines()) == 1

    def test_find_knows_tokens(self, world: World) -> None:
        machine = world.provider.launch(world.request("one"))
        found = world.provider.find("one")
        assert found is not None
        assert found.id == machine.id
        assert world.provider.find("never launched") is None

    def test_a_terminated_machine_ends_and_stays_listed_with_its_end(self, world: World) -> None:
        machine = world.provider.launch(world.request("one"))
        world.provider.terminate(machine.id)
        gone = world.until_condition("one", Condition.GONE)
        assert gone.ended_at is not None
        assert machine.launched_at <= gone.ended_at <= world.now()
        assert gone.why_ended

    def test_terminating_again_or_nothing_is_success(self, world: World) -> None:
        machine = world.provider.launch(world.request("one"))
        world.provider.terminate(machine.id)
        world.provider.terminate(machine.id)
        gone = world.until_condition("one", Condition.GONE)
        world.provider.terminate(machine.id)
        world.provider.terminate("no-such-machine")
        assert world.listed("one") == gone

    def test_conditions_only_go_forward(self, world: World) -> None:
        machine = world.provider.launch(world.request("one"))
        seen = [machine.condition]

        def gone() -> bool:
            seen.append(world.listed("one").condition)
            if seen[-1] is Condition.RUNNING:
                world.provider.terminate(machine.id)
            return seen[-1] is Condition.GONE

        world.until(gone)
        assert seen == sorted(seen, key=_ORDER.index)
        assert Condition.RUNNING in seen

    def test_a_machine_nobody_renews_ends_by_its_own_timer(self, world: World) -> None:
        request = replace(world.request("one"), guard=timedelta(seconds=1))
        launched = world.provider.launch(request)
        gone = world.until_condition("one", Condition.GONE)
        assert gone.ended_at is not None
        assert gone.ended_at - launched.launched_at >= timedelta(seconds=0.9)

    def test_nobody_sees_or_ends_what_others_own(self, world: World) -> None:
        machine = world.provider.launch(world.request("one"))
        assert list(world.stranger.machines()) == []
        assert world.stranger.find("one") is None
        assert list(world.stranger.notices()) == []
        with pytest.raises(Denied):
            world.stranger.terminate(machine.id)
        world.until_condition("one", Condition.RUNNING)

    def test_a_machine_without_our_tag_is_not_rented(self, world: World) -> None:
        with pytest.raises(Denied, match="frugald:owner"):
            world.stranger.launch(world.request("one"))
        assert list(world.provider.machines()) == []

    def test_an_unmolested_machine_has_no_notice(self, world: World) -> None:
        world.provider.launch(world.request("one"))
        world.until_condition("one", Condition.RUNNING)
        assert list(world.provider.notices()) == []

    def test_extend_leaves_a_living_machine_alone(self, world: World) -> None:
        machine = world.provider.launch(world.request("one"))
        world.provider.extend(machine.id, world.now() + timedelta(hours=1))
        assert world.until_condition("one", Condition.RUNNING).id == machine.id

    def test_an_empty_cloud_lists_nothing(self, world: World) -> None:
        assert list(world.provider.machines()) == []
        assert list(world.provider.notices()) == []


@dataclass
class CloudWorld(World):
    """A cloud that can be made to fail."""

    lossy: Provider  # the same cloud and owner; launches happen, their answers get lost
    throttled: Provider  # refuses every call as too frequent
    sold_out: Provider  # has no stock of what `request` asks for
    small_quota: Provider  # has no quota for it
    late: Provider  # lists a new machine only after a while
    interrupt: Callable[[str, timedelta], None]  # (machine id, notice)


class CloudContract(ProviderContract):
    """What a provider must do that rents from a real market; the fixture `world` is a CloudWorld."""

    def test_a_lost_answer_is_found_again(self, world: CloudWorld) -> None:
        with pytest.raises(Unknown):
            world.lossy.launch(world.request("one"))
        found = world.provider.find("one")
        assert found is not None
        assert world.provider.launch(world.request("one")).id == found.id
        assert [machine.id for machine in world.provider.machines()] == [found.id]

    def test_a_throttled_call_does_nothing_and_says_when_to_repeat_it(self, world: CloudWorld) -> None:
        with pytest.raises(Throttled) as caught:
            world.throttled.launch(world.request("one"))
        assert caught.value.retry_after > timedelta(0)
        assert world.provider.find("one") is None

    def test_no_stock_is_sold_out_and_rents_nothing(self, world: CloudWorld) -> None:
        with pytest.raises(SoldOut):
            world.sold_out.launch(world.request("one"))
        assert world.provider.find("one") is None

    def test_no_quota_is_quota_exceeded_and_rents_nothing(self, world: CloudWorld) -> None:
        with pytest.raises(QuotaExceeded):
            world.small_quota.launch(world.request("one"))
        assert world.provider.find("one") is None

    def test_a_notice_is_repeated_until_the_machine_is_gone(self, world: CloudWorld) -> None:
        machine = world.provider.launch(world.request("one"))
        world.until_condition("one", Condition.RUNNING)
        world.interrupt(machine.id, timedelta(seconds=1))
        world.until(lambda: bool(world.provider.notices()))
        [notice] = world.provider.notices()
        assert notice.machine_id == machine.id
        assert list(world.provider.notices()) == [notice]
        gone = world.until_condition("one", Condition.GONE)
        assert list(world.provider.notices()) == []
        assert gone.ended_at is not None
        assert abs(gone.ended_at - notice.at) < timedelta(seconds=2)
        assert gone.why_ended == "machine_end.interrupted"

    def test_an_interruption_may_come_without_a_notice(self, world: CloudWorld) -> None:
        machine = world.provider.launch(world.request("one"))
        world.until_condition("one", Condition.RUNNING)
        world.interrupt(machine.id, timedelta(0))
        seen = []

        def gone() -> bool:
            seen.extend(world.provider.notices())
            return world.listed("one").condition is Condition.GONE

        world.until(gone)
        assert seen == []

    def test_extending_a_dead_machine_is_refused_where_there_is_a_release_timer_and_else_does_nothing(
        self, world: CloudWorld
    ) -> None:
        machine = world.provider.launch(world.request("one"))
        world.provider.terminate(machine.id)
        gone = world.until_condition("one", Condition.GONE)
        if world.provider.abilities.release_timer:
            with pytest.raises(Gone):
                world.provider.extend(machine.id, world.now() + timedelta(hours=1))
        else:
            world.provider.extend(machine.id, world.now() + timedelta(hours=1))
        assert world.listed("one") == gone

    def test_a_new_machine_may_be_missing_from_listings_but_not_from_launches(self, world: CloudWorld) -> None:
        machine = world.late.launch(world.request("one"))
        assert world.late.abilities.listing_lag > timedelta(0)
        assert list(world.late.machines()) == []
        assert world.late.find("one") is None
        assert world.late.launch(world.request("one")).id == machine.id
        world.until(lambda: bool(world.late.machines()))
        assert world.late.find("one") is not None

"""The sandbox cloud, with its real processes."""

import json
import os
import shutil
import signal
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from config.settings import SandboxSettings
from pricing.offer import Market
from pricing.sandbox_market import SandboxMarket
from runner.provider import Condition, ProviderError, SoldOut
from runner.providers.rack import processes
from runner.providers.sandbox import SandboxCloud
from tests.contracts.provider import CloudContract, CloudWorld
from tests.fakes.clock import FakeClock
from tests.runner.providers.machines import CLOCK, Site, until

CALM = SandboxSettings(interruptions=False, sold_out_share=0, boot=timedelta(0), listing_lag=timedelta(0))


def with_settings(**changes: object) -> SandboxSettings:
    return CALM.model_copy(update=changes)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    cheapest = min(SandboxMarket(CALM).offers(CLOCK.now()), key=lambda offer: offer.hourly_micro)
    site = Site(tmp_path, cheapest)
    yield site
    SandboxCloud(tmp_path / "cloud", CALM, "me", CLOCK).destroy_all()
    assert site.left_over() == []


def opened(site: Site, owner: str = "me", **changes: object) -> SandboxCloud:
    return SandboxCloud(site.folder / "cloud", with_settings(**changes), owner, CLOCK)


@pytest.fixture
def cloud(site: Site) -> SandboxCloud:
    return opened(site)


@pytest.fixture
def world(site: Site) -> CloudWorld:
    provider = opened(site)
    return CloudWorld(
        provider=provider, stranger=opened(site, "somebody else"), request=site.request, until=until, now=CLOCK.now,
        lossy=opened(site, lost_answer_share=1.0), throttled=opened(site, throttle_share=1.0),
        sold_out=opened(site, sold_out_share=1.0), small_quota=opened(site, quota_gpus=0),
        late=opened(site, listing_lag=timedelta(seconds=1)), interrupt=provider.interrupt,
    )  # fmt: skip


class TestSandboxCloud(CloudContract):
    pass


def condition(cloud: SandboxCloud, name: str = "one") -> Condition:
    return next(machine.condition for machine in cloud.machines() if machine.token == name)


def why(cloud: SandboxCloud, name: str = "one") -> str:
    until(lambda: condition(cloud, name) is Condition.GONE)
    return next(machine.why_ended for machine in cloud.machines() if machine.token == name)


def test_machines_outlive_the_daemon_that_rented_them(site: Site, cloud: SandboxCloud) -> None:
    machine = cloud.launch(site.request("one"))
    pid = site.said(machine.id)["pid"]
    reopened = opened(site)
    assert [found.id for found in reopened.machines()] == [machine.id]
    assert reopened.launch(site.request("one")).id == machine.id
    reopened.terminate(machine.id)
    assert why(reopened) == "machine_end.terminated"
    assert processes.identity(pid) is None


def test_a_machine_sees_its_own_folder_and_none_of_our_environment(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI")
    cloud = SandboxCloud(site.folder / "cloud", CALM, "me", CLOCK, store_options="{}")
    said = site.said(cloud.launch(site.request("one")).id)
    environment = said["environment"]
    assert "AWS_SECRET_ACCESS_KEY" not in environment
    assert environment["HOME"] == said["cwd"]
    assert said["cwd"].startswith(str(site.folder))
    assert environment["OMP_NUM_THREADS"] == "1"
    assert environment["FRUGALD_STORE_OPTIONS"] == "{}"
    assert said["argv"][1:5] == ["--store", f"file://{site.folder / 'store'}", "--machine", "one"]


def test_a_host_keeps_no_secret_for_its_machine_to_read(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI")
    machine = opened(site).launch(site.request("one"))
    assert b"wJalrXUtnFEMI" not in (Path("/proc") / str(host_of(site, machine.id)) / "environ").read_bytes()


def host_of(site: Site, machine_id: str) -> int:
    state = json.loads((site.folder / "cloud/machines" / machine_id / "machine.json").read_text())
    return int(state["host"].partition(":")[0])


def test_nothing_outlives_a_killed_host(site: Site, cloud: SandboxCloud) -> None:
    machine = cloud.launch(site.request("stubborn"))
    agent = site.said(machine.id)["pid"]
    assert len(site.left_over()) >= 3  # the host, the agent, and the one that hid from both
    os.kill(host_of(site, machine.id), signal.SIGKILL)
    until(lambda: processes.identity(agent) is None)  # by the kernel's hand: nobody has looked yet
    assert why(cloud, "stubborn") == "machine_end.host_lost"
    assert site.left_over() == []
    [gone] = cloud.machines()
    assert gone.ended_at is not None
    assert gone.launched_at <= gone.ended_at <= CLOCK.now()


def test_what_ignores_the_stop_and_hides_in_its_own_session_is_killed(site: Site, cloud: SandboxCloud) -> None:
    machine = cloud.launch(site.request("stubborn"))
    site.said(machine.id)
    cloud.interrupt(machine.id, timedelta(0))
    assert why(cloud, "stubborn") == "machine_end.interrupted"
    until(lambda: site.left_over() == [])


def test_the_disk_is_gone_with_the_machine(site: Site, cloud: SandboxCloud) -> None:
    machine = cloud.launch(site.request("one"))
    site.said(machine.id)
    cloud.terminate(machine.id)
    why(cloud)
    assert not (site.folder / "cloud/machines" / machine.id / "disk").exists()


@pytest.mark.parametrize(("token", "end"), [("finished", "machine_end.exited"), ("failed", "machine_end.crashed")])
def test_a_machine_ends_with_its_agent(site: Site, cloud: SandboxCloud, token: str, end: str) -> None:
    cloud.launch(site.request(token))
    assert why(cloud, token) == end


def test_a_bundle_with_another_hash_is_not_run(site: Site, cloud: SandboxCloud) -> None:
    machine = cloud.launch(site.request("one", digest="0" * 64))
    assert why(cloud) == "machine_end.crashed"
    console = (site.folder / "cloud/machines" / machine.id / "console.log").read_text()
    assert "the launch named 0000" in console


def test_the_agent_moves_the_guest_timer_by_its_file(site: Site, cloud: SandboxCloud) -> None:
    moved = cloud.launch(site.request("guarded", guard=timedelta(seconds=1.5)))
    cloud.launch(site.request("one", guard=timedelta(seconds=1.5)))
    assert why(cloud) == "machine_end.guard"
    assert condition(cloud, "guarded") is Condition.RUNNING
    (site.folder / "cloud/machines" / moved.id / "disk/guard").write_text("0.2")
    assert why(cloud, "guarded") == "machine_end.guard"


def test_a_guest_timer_does_not_wait_for_the_boot(site: Site) -> None:
    cloud = opened(site, boot=timedelta(hours=1))
    cloud.launch(site.request("one", guard=timedelta(seconds=0.3)))
    assert why(cloud) == "machine_end.guard"


def test_a_sigterm_to_the_host_ends_the_machine(site: Site, cloud: SandboxCloud) -> None:
    machine = cloud.launch(site.request("one"))
    os.kill(host_of(site, machine.id), signal.SIGTERM)
    assert why(cloud) == "machine_end.terminated"


def test_metadata_needs_a_token_and_knows_the_notice(site: Site, cloud: SandboxCloud) -> None:
    machine = cloud.launch(site.request("one"))
    argv = site.said(machine.id)["argv"]
    ask = Metadata(argv[argv.index("--metadata") + 1])
    assert ask("GET", "/latest/meta-data/instance-id") == (401, "PUT /latest/api/token first")
    assert ask("PUT", "/latest/api/token")[0] == 400
    _, ask.token = ask("PUT", "/latest/api/token", {"X-aws-ec2-metadata-token-ttl-seconds": "60"})
    assert ask("GET", "/latest/meta-data/instance-id") == (200, machine.id)
    assert ask("GET", "/latest/meta-data/spot/instance-action")[0] == 404
    cloud.interrupt(machine.id, timedelta(seconds=30))
    until(lambda: bool(cloud.notices()))
    status, text = ask("GET", "/latest/meta-data/spot/instance-action")
    [notice] = cloud.notices()
    at = notice.at.strftime("%Y-%m-%dT%H:%M:%SZ")
    assert (status, json.loads(text)) == (200, {"action": "terminate", "time": at})


class Metadata:
    def __init__(self, url: str) -> None:
        self._address = urlsplit(url).netloc
        self.token = ""

    def __call__(self, method: str, path: str, headers: dict[str, str] | None = None) -> tuple[int, str]:
        connection = HTTPConnection(self._address, timeout=10)
        connection.request(method, path, headers=headers or {"X-aws-ec2-metadata-token": self.token})
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, text


def test_the_market_takes_spot_machines(site: Site) -> None:
    cloud = opened(site, interruptions=True, hazard_per_hour=50_000.0)
    cloud.launch(site.request("one"))
    assert why(cloud) == "machine_end.interrupted"


def planned(site: Site, token: str, bid_micro: int | None = None, **how: object) -> dict[str, object]:
    """What the host was told of the machine's fate when it was launched."""
    cloud = opened(site, interruptions=True, **how)
    machine = cloud.launch(site.request(token, bid_micro=bid_micro))
    return json.loads((site.folder / "cloud/machines" / machine.id / "machine.json").read_text())


def test_some_interruptions_are_announced_and_some_are_not(site: Site) -> None:
    notice = timedelta(seconds=20)
    assert planned(site, "one", no_notice_share=0.0, notice=notice)["notice_s"] == 20
    assert planned(site, "two", no_notice_share=1.0, notice=notice)["notice_s"] == 0


def test_a_price_that_will_pass_the_limit_is_planned_for(site: Site) -> None:
    market = SandboxMarket(CALM)
    passes = market.passes_bid(site.offer.pool, site.offer.hourly_micro, CLOCK.now())
    plan = planned(site, "one", site.offer.hourly_micro, hazard_per_hour=0.0)
    assert passes is not None
    assert plan["lives_why"] == "price"
    assert plan["lives_s"] == pytest.approx((passes - CLOCK.now()).total_seconds(), abs=5)


def test_without_a_limit_or_a_hazard_nothing_is_planned(site: Site) -> None:
    assert planned(site, "one", hazard_per_hour=0.0)["lives_s"] is None


def test_on_demand_machines_are_never_taken(site: Site) -> None:
    cloud = opened(site, interruptions=True, hazard_per_hour=50_000.0)
    pool = replace(site.offer.pool, market=Market.ON_DEMAND)
    cloud.launch(site.request("one", offer=replace(site.offer, pool=pool)))
    until(lambda: condition(cloud) is Condition.RUNNING)
    assert cloud.machines()[0].condition is Condition.RUNNING


def test_a_spot_price_above_the_limit_is_not_rented(site: Site, cloud: SandboxCloud) -> None:
    with pytest.raises(SoldOut, match="SpotMaxPriceTooLow"):
        cloud.launch(site.request("one", bid_micro=site.offer.hourly_micro // 2))


def test_stock_is_used_up(site: Site, cloud: SandboxCloud) -> None:
    free = site.offer.free
    assert free is not None
    for number in range(free):
        cloud.launch(site.request(f"machine {number}"))
    with pytest.raises(SoldOut):
        cloud.launch(site.request("one too many"))


def test_quota_in_use_counts_gpus(site: Site, cloud: SandboxCloud) -> None:
    pool = site.offer.pool
    cloud.launch(site.request("one"))
    assert cloud.in_use(pool.region, site.offer.family, pool.market) == site.offer.gpus
    assert cloud.in_use(pool.region, site.offer.family, Market.ON_DEMAND) == 0


def test_a_launch_that_was_cut_off_before_its_host_ran_never_happened(site: Site, cloud: SandboxCloud) -> None:
    draft = site.folder / "cloud/machines/.draft-cut-off"
    draft.mkdir()
    assert list(cloud.machines()) == []
    cloud.launch(site.request("one"))
    assert not draft.exists()
    assert len(cloud.machines()) == 1


def later(site: Site, after: timedelta) -> SandboxCloud:
    return SandboxCloud(site.folder / "cloud", CALM, "me", FakeClock(CLOCK.now() + after))


def test_an_ended_machine_leaves_the_listing_before_its_token_is_forgotten(site: Site, cloud: SandboxCloud) -> None:
    machine = cloud.launch(site.request("finished"))
    why(cloud, "finished")
    assert len(later(site, timedelta(minutes=59)).machines()) == 1
    assert list(later(site, timedelta(minutes=61)).machines()) == []
    assert later(site, timedelta(days=6)).launch(site.request("finished")).id == machine.id
    later(site, timedelta(days=8)).launch(site.request("one"))
    assert cloud.find("finished") is None


def test_half_a_listing_is_no_listing(site: Site, cloud: SandboxCloud) -> None:
    machine = cloud.launch(site.request("finished"))
    why(cloud, "finished")
    until(lambda: site.left_over() == [])
    (site.folder / "cloud/machines" / machine.id / "machine.json").write_text("{")
    with pytest.raises(ProviderError, match="could not be read"):
        opened(site).machines()
    shutil.rmtree(site.folder / "cloud/machines" / machine.id)

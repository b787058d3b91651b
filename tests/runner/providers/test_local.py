"""This computer's own machines, with their real processes."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from config.settings import LocalSettings
from pricing.sources.local import Device, LocalSource
from runner.provider import SoldOut
from runner.providers.local import LocalProvider
from tests.contracts.provider import ProviderContract, World
from tests.runner.providers.machines import CLOCK, Site, until

SETTINGS = LocalSettings(enabled=True, cpu_machines=2)
GPUS = tuple(Device(f"GPU-{n}", "NVIDIA L4", 23_034 * 2**20, "12.8") for n in range(2))


def opened(site: Site, owner: str = "me", devices: tuple[Device, ...] = ()) -> LocalProvider:
    return LocalProvider(site.folder / "cloud", SETTINGS, owner, CLOCK, devices)


def a_site(folder: Path, devices: tuple[Device, ...]) -> Iterator[Site]:
    [offer] = LocalSource(SETTINGS, devices).offers(datetime(2026, 3, 2, tzinfo=UTC))
    site = Site(folder, offer)
    yield site
    opened(site, devices=devices).destroy_all()
    assert site.left_over() == []


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    yield from a_site(tmp_path, ())


@pytest.fixture
def gpu_site(tmp_path: Path) -> Iterator[Site]:
    yield from a_site(tmp_path, GPUS)


@pytest.fixture
def world(site: Site) -> World:
    return World(opened(site), opened(site, "somebody else"), site.request, until, CLOCK.now)


class TestLocalProvider(ProviderContract):
    pass


def test_it_can_rent_no_more_than_there_is(site: Site) -> None:
    provider = opened(site)
    first = provider.launch(site.request("one"))
    provider.launch(site.request("two"))
    assert provider.in_use(site.offer.pool) == 2
    with pytest.raises(SoldOut):
        provider.launch(site.request("three"))
    provider.terminate(first.id)
    until(lambda: provider.in_use(site.offer.pool) == 1)
    provider.launch(site.request("three"))


def test_each_machine_sees_one_gpu_of_its_own(gpu_site: Site) -> None:
    provider = opened(gpu_site, devices=GPUS)
    machines = [provider.launch(gpu_site.request(token)) for token in ("one", "two")]
    seen = {gpu_site.said(machine.id)["environment"]["CUDA_VISIBLE_DEVICES"] for machine in machines}
    assert seen == {"GPU-0", "GPU-1"}


def test_a_machine_without_a_gpu_sees_none(site: Site) -> None:
    machine = opened(site).launch(site.request("one"))
    assert site.said(machine.id)["environment"]["CUDA_VISIBLE_DEVICES"] == ""

"""This computer as a price list."""

from datetime import UTC, datetime

from config.gpus import usable_bytes
from config.settings import LocalSettings
from config.units import Money
from pricing.offer import Market
from pricing.sources import local
from pricing.sources.local import Device, LocalSource

NOW = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
TWO = tuple(Device(f"GPU-{n}", "NVIDIA L4", 23_034 * 2**20, "12.8") for n in range(2))


def test_a_computer_without_a_gpu_is_no_error() -> None:
    assert list(LocalSource(LocalSettings(), ()).offers(NOW)) == []
    assert isinstance(local.devices(), tuple)


def test_each_gpu_is_one_owned_machine_that_costs_nothing() -> None:
    [offer] = LocalSource(LocalSettings(), TWO, lambda _: 1).offers(NOW)
    assert offer.pool.market is Market.RESERVED
    assert (offer.gpu, offer.gpu_memory) == ("L4", usable_bytes("L4"))
    assert (offer.gpus, offer.free, offer.hourly_micro, offer.cuda_max) == (1, 1, 0, "12.8")


def test_a_card_that_we_do_not_know_is_offered_under_its_own_name() -> None:
    [offer] = LocalSource(LocalSettings(), [Device("GPU-0", "NVIDIA Z9000", 7 * 2**30, "12.8")]).offers(NOW)
    assert (offer.gpu, offer.gpu_memory) == ("NVIDIA Z9000", 7 * 2**30)


def test_the_settings_name_the_price() -> None:
    [offer] = LocalSource(LocalSettings(hourly=Money(250_000)), TWO).offers(NOW)
    assert (offer.hourly_micro, offer.ceiling_micro) == (250_000, 250_000)


def test_cpus_make_machines_only_where_there_is_no_gpu() -> None:
    settings = LocalSettings(cpu_machines=2)
    [cpu] = LocalSource(settings, ()).offers(NOW)
    assert (cpu.gpus, cpu.gpu, cpu.free) == (0, "", 2)
    assert cpu.vcpus >= 1
    assert cpu.memory > 2**28
    assert [offer.gpus for offer in LocalSource(settings, TWO).offers(NOW)] == [1]


def test_different_models_are_different_offers() -> None:
    mixed = (*TWO, Device("GPU-9", "NVIDIA A100-SXM4-80GB", 81_920 * 2**20, "12.8"))
    assert sorted((offer.pool.type, offer.free) for offer in LocalSource(LocalSettings(), mixed).offers(NOW)) == [
        ("nvidia-a100-sxm4-80gb", 1), ("nvidia-l4", 2),
    ]  # fmt: skip

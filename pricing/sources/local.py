"""This computer as a price list of owned machines: one per GPU, or some for its CPUs when it has none."""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from config import gpus
from config.settings import LocalSettings
from pricing.offer import Market, Offer, Pool, Quota

CLOUD = "local"


@dataclass(frozen=True, slots=True)
class Device:
    """One GPU of this computer."""

    uuid: str  # as CUDA_VISIBLE_DEVICES takes it
    name: str
    memory: int  # bytes in all, as nvidia-smi shows it
    cuda_max: str  # the newest CUDA that the driver serves, such as `13.0`


def devices() -> tuple[Device, ...]:
    """Return this computer's NVIDIA GPUs as NVML lists them; no driver, no library or no GPU is an empty answer."""
    try:
        import pynvml
    except ImportError:
        return ()
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return ()
    try:
        cuda = pynvml.nvmlSystemGetCudaDriverVersion_v2()
        newest = f"{cuda // 1000}.{cuda % 1000 // 10}"
        return tuple(_device(pynvml, index, newest) for index in range(pynvml.nvmlDeviceGetCount()))
    except pynvml.NVMLError:
        return ()  # a GPU that fell off the bus must not stop the rest of the service
    finally:
        pynvml.nvmlShutdown()


class LocalSource:
    """Offers of this computer: reserved capacity, at the price an hour that the settings name."""

    name = CLOUD

    def __init__(
        self,
        settings: LocalSettings,
        found: Sequence[Device] | None = None,
        in_use: Callable[[Pool], int] = lambda _pool: 0,
    ) -> None:
        """Offer `found`, by default the GPUs that this computer has, less what `in_use` says is taken."""
        self._settings = settings
        self._found = devices() if found is None else tuple(found)
        self._in_use = in_use

    def offers(self, now: datetime) -> Iterable[Offer]:
        """Return one offer per model of GPU, or one for the CPUs; nothing where there is neither."""
        models = {(device.name, device.memory, device.cuda_max) for device in self._found}
        offers = [self._gpu_offer(*model, now) for model in sorted(models)]
        if not self._found and self._settings.cpu_machines:
            offers.append(self._offer(pool("cpu"), self._settings.cpu_machines, now))
        return offers

    def quotas(self, now: datetime) -> Sequence[Quota]:
        """Return nothing: the count of each offer is the limit."""
        del now
        return ()

    def _gpu_offer(self, name: str, memory: int, cuda_max: str, now: datetime) -> Offer:
        count = sum(device.name == name and device.memory == memory for device in self._found)
        key, usable = _known_as(name, memory)
        offer = self._offer(pool(machine_type(name)), count, now)
        return replace(offer, gpu=key, gpus=1, gpu_memory=usable, cuda_max=cuda_max)

    def _offer(self, at: Pool, count: int, now: datetime) -> Offer:
        hourly = self._settings.hourly.micro
        machines = max(len(self._found), self._settings.cpu_machines, 1)
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return Offer(
            pool=at, gpu="", gpus=0, gpu_memory=0, vcpus=max(1, (os.cpu_count() or 1) // machines),
            memory=memory // machines, hourly_micro=hourly, ceiling_micro=hourly, as_of=now,
            free=max(0, count - self._in_use(at)), native_hourly=self._settings.hourly.exact(),
            boot=timedelta(seconds=1), hazard_per_hour=0.0,
        )  # fmt: skip


def pool(kind: str) -> Pool:
    """Return the pool of this computer's machines of one kind."""
    return Pool(CLOUD, CLOUD, CLOUD, kind, Market.RESERVED)


def machine_type(gpu_name: str) -> str:
    """Return the machine type that holds one GPU of this name."""
    return gpu_name.lower().replace(" ", "-")


def _known_as(name: str, memory: int) -> tuple[str, int]:
    """Return a GPU's key in the table and the bytes that programs can use; a card we don't know counts as NVML says."""
    try:
        gpu = gpus.identify(name, memory // gpus.MIB)
    except gpus.UnknownGpu:
        return name, memory
    return gpu.key, gpu.usable


def _device(pynvml: Any, index: int, cuda_max: str) -> Device:  # noqa: ANN401 - a module without types
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    return Device(
        uuid=pynvml.nvmlDeviceGetUUID(handle),
        name=pynvml.nvmlDeviceGetName(handle),
        memory=pynvml.nvmlDeviceGetMemoryInfo(handle).total,
        cuda_max=cuda_max,
    )

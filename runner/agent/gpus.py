"""The GPUs that are really in this machine, as NVML sees them."""

from collections.abc import Callable
from typing import Any


def reader() -> Callable[[], list[dict[str, Any]]]:
    """Return a function that reads the GPUs; without NVML, a driver or a GPU it returns an empty list."""
    try:
        import pynvml

        pynvml.nvmlInit()
        driver = str(pynvml.nvmlSystemGetDriverVersion())
        handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
    except Exception:  # noqa: BLE001 - a broken driver raises many things, and none of them may stop a job
        return list
    return lambda: [_read(pynvml, handle, driver) for handle in handles]


def _read(nvml: Any, handle: Any, driver: str) -> dict[str, Any]:  # noqa: ANN401 - pynvml has no types
    """Return one GPU: name, driver, memory in bytes, use in percent of time; what can't be read is left out."""
    found: dict[str, Any] = {"driver": driver}
    readings: dict[str, Callable[[], Any]] = {
        "name": lambda: nvml.nvmlDeviceGetName(handle),
        "memory_bytes": lambda: nvml.nvmlDeviceGetMemoryInfo(handle).total,
        "used_bytes": lambda: nvml.nvmlDeviceGetMemoryInfo(handle).used,
        "use_percent": lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu,
    }
    for name, read in readings.items():
        try:
            found[name] = read()
        except nvml.NVMLError:  # MIG slices and containers don't tell everything
            continue
    return found

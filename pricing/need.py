"""What a job needs of one machine."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Need:
    """One way to satisfy a job; a job may name several. Memory and disk are bytes; zero and empty mean any."""

    gpus: float = 1
    gpu_names: frozenset[str] = frozenset()  # keys of the GPU table
    gpu_memory: int = 0  # usable, of each GPU
    vcpus: float = 0
    memory: int = 0
    disk: int = 0
    cuda: str = ""
    min_compute_capability: str = ""
    cloud: str = ""
    region: str = ""
    zone: str = ""
    max_hourly_micro: int | None = None
    spot: str = "auto"  # yes, no or auto

"""This computer's own GPUs, or its CPUs, as machines that nobody takes away."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from config.clock import Clock
from config.settings import LocalSettings
from pricing.offer import Pool
from pricing.sources.local import CLOUD, Device, devices, machine_type, pool
from runner.provider import Abilities, LaunchRequest, Machine, Notice, SoldOut
from runner.providers.rack.account import Account, as_machine
from runner.providers.rack.rack import Rack
from runner.providers.rack.state import MachineState


class LocalProvider:
    """Machines on this computer: each is some processes in a folder, with one GPU of its own or with none.

    Terminating one ends its processes and frees its GPU; the computer stays. There are no interruptions and no notices.
    """

    name = CLOUD
    abilities = Abilities(real_money=False)

    def __init__(
        self,
        folder: Path,
        settings: LocalSettings,
        owner: str,
        clock: Clock,
        found: Sequence[Device] | None = None,
        store_options: str = "",
    ) -> None:
        """Keep machines in `folder`; `found` are the GPUs, by default those that this computer has."""
        self._rack = Rack(folder, clock)
        self._account = Account(self._rack, CLOUD, owner, clock)
        self._slots = _slots(settings, devices() if found is None else found)
        self._guest = {"FRUGALD_STORE_OPTIONS": store_options} if store_options else {}

    def launch(self, request: LaunchRequest) -> Machine:
        """Start one machine on a free GPU or share of the CPUs; see Provider.launch."""
        return as_machine(self._account.launch(request, self._accept))

    def find(self, token: str) -> Machine | None:
        """Return the machine launched with `token`, None if there is none."""
        state = self._account.find(token)
        return as_machine(state) if state else None

    def machines(self) -> Sequence[Machine]:
        """Return the owner's machines; those that ended stay listed for an hour."""
        return [as_machine(state) for state in self._account.listed()]

    def terminate(self, machine_id: str) -> None:
        """End a machine's processes; gone already is success. Raises Denied for another owner's."""
        self._account.terminate(machine_id)

    def notices(self) -> Sequence[Notice]:
        """Return nothing: nobody takes this computer away."""
        return ()

    def extend(self, machine_id: str, until: datetime) -> None:
        """Do nothing: there is no release timer but the machine's own."""

    def in_use(self, wanted: Pool) -> int:
        """Return how many machines of a pool run, of every owner."""
        return sum(state.place["type"] == wanted.type for state in self._account.living())

    def destroy_all(self) -> None:
        """End every machine of every owner, and return when no process is left."""
        self._rack.destroy_all()

    def _accept(self, request: LaunchRequest, living: list[MachineState], now: datetime) -> MachineState:
        """Return the machine to start, in the first free slot of its kind. Raises SoldOut."""
        kind = request.offer.pool.type
        taken = {state.place["slot"] for state in living}
        free = [slot for slot, (of_kind, _) in self._slots.items() if of_kind == kind and slot not in taken]
        if not free or request.offer.pool != pool(kind):
            raise SoldOut(f"every {kind} machine of this computer is in use")
        environment = {"CUDA_VISIBLE_DEVICES": self._slots[free[0]][1], **self._guest}
        place = {"type": kind, "slot": free[0]}
        return self._account.drawn_up(request, now).changed(place=place, environment=environment)


def _slots(settings: LocalSettings, found: Sequence[Device]) -> dict[str, tuple[str, str]]:
    """Return each slot's machine type and CUDA_VISIBLE_DEVICES: one per GPU, or some for the CPUs."""
    if found:
        return {device.uuid: (machine_type(device.name), device.uuid) for device in found}
    return {f"cpu-{index}": ("cpu", "") for index in range(settings.cpu_machines)}

"""What a machine is told when it is rented: the boot order, the job order, the request to the cloud."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlmodel import Session

from daemon import jobs
from daemon.models import Job, Machine
from daemon.world import World
from pricing.offer import Market, Offer, Pool
from runner.bootstrap import user_data
from runner.provider import LaunchRequest, Provider
from runner.provider import Machine as CloudMachine
from runner.store import Store
from runner.store.records import BootOrder, JobOrder, job_key, machine_key


@dataclass(frozen=True)
class Launch:
    """One launch, ready to be carried out on another thread."""

    request: LaunchRequest
    boot: BootOrder
    jobs: tuple[JobOrder, ...]


def launch(world: World, session: Session, machine: Machine) -> Launch:
    """Build a launch from its rows alone, so that a retry after a restart sends exactly the same."""
    pairs = jobs.on_machine(session, machine.id)
    bundle_key, bundle_sha256 = machine.offer["bundle"]
    guard_s = float(machine.offer["guard_s"])
    boot = BootOrder(
        machine=machine.id,
        attempts=[[job.id, attempt.n] for attempt, job in pairs],
        guard_s=guard_s,
        bundle_key=bundle_key,
        bundle_sha256=bundle_sha256,
        tail_s=tail_s(world, [job for _, job in pairs]),
    )
    request = LaunchRequest(
        token=machine.token,
        offer=offer_from_json(machine.offer),
        bid_micro=machine.bid_micro,
        disk=int(machine.offer["disk"]),
        guard=timedelta(seconds=guard_s),
        user_data=user_data(world.store.url, machine.id, bundle_key, bundle_sha256),
        tags={"frugald:owner": world.database.install_id, "frugald:machine": machine.id, "frugald:job": machine.job_id},
    )
    return Launch(request, boot, tuple(job_order(world, job) for _, job in pairs))


def rent(store: Store, provider: Provider, order: Launch) -> CloudMachine:
    """Leave the orders in the store, then rent the machine that will look for them. Raises StoreError, ProviderError."""
    for job in order.jobs:
        store.put(job_key(job.job, "spec.json"), job.to_json())
    store.put(machine_key(order.boot.machine, "boot.json"), order.boot.to_json())
    return provider.launch(order.request)


def job_order(world: World, job: Job) -> JobOrder:
    """Return what the agent must know of a job."""
    spec = world.spec(job)
    return JobOrder(
        job=job.id,
        name=job.name,
        run=spec.run,
        setup=spec.setup,
        code_key=job.code_key,
        code_sha256=job.code_sha256,
        envs=spec.environment(world.credentials),
        outputs=list(spec.outputs),
        gpus=max(n.gpus for n in spec.needs()),
        max_duration_s=spec.max_duration.total_seconds() if spec.max_duration else None,
        **_checkpoint(spec.checkpoint),
    )


def tail_s(world: World, waiting: list[Job]) -> float:
    """Return how long before a lease's end a machine must start to save: its jobs' grace, within the shortest lease."""
    graces = [spec.checkpoint.grace.total_seconds() for job in waiting if (spec := world.spec(job)).checkpoint]
    return min(max(graces, default=1.0), world.settings.lease.shortest.total_seconds() / 2)


def offer_from_json(values: dict[str, Any]) -> Offer:
    """Return the offer that was kept beside a machine."""
    pool = Pool(values["cloud"], values["region"], values["zone"], values["type"], Market(values["market"]))
    return Offer(
        pool=pool,
        gpu=values["gpu"],
        gpus=values["gpus"],
        gpu_memory=values["gpu_memory"],
        vcpus=values["vcpus"],
        memory=values["memory"],
        hourly_micro=values["hourly_micro"],
        ceiling_micro=values["ceiling_micro"],
        as_of=datetime.fromisoformat(values["as_of"]),
        family=values["family"],
        boot=timedelta(seconds=values["boot_s"]),
        notice=timedelta(seconds=values["notice_s"]),
    )


def _checkpoint(checkpoint: Any) -> dict[str, Any]:  # noqa: ANN401 - the job file's checkpoint table, or None
    if checkpoint is None:
        return {"checkpoint_path": ""}
    return {
        "checkpoint_path": checkpoint.path,
        "checkpoint_interval_s": checkpoint.interval.total_seconds(),
        "checkpoint_signal": checkpoint.signal,
        "checkpoint_grace_s": checkpoint.grace.total_seconds(),
        "checkpoint_keep": checkpoint.keep,
    }

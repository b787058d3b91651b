"""Agents for the machines of a FakeCloud: they work in virtual time and keep to their leases, like the real one."""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from config.clock import Clock
from runner.provider import Condition
from runner.provider import Machine as CloudMachine
from runner.store import Missing, Store
from runner.store.records import (
    AttemptStatus,
    Beat,
    BootOrder,
    Command,
    Lease,
    Phase,
    attempt_key,
    checkpoint_prefix,
    machine_key,
)
from tests.fakes.cloud import FakeCloud


@dataclass
class _Agent:
    machine: CloudMachine
    boot: BootOrder
    booted_at: datetime
    ends_at: datetime  # by the newest lease
    seq: int = 0
    lease_seq: int = 0
    beats: dict[int, datetime] = field(default_factory=dict)
    silent: bool = False
    status: AttemptStatus | None = None
    worked_until: datetime | None = None
    over: bool = False
    saves_until: datetime | None = None


class FakeAgents:
    """Every machine's agent. A job needs `work_s[job]` (or `default_work_s`) seconds of running; a step is a second."""

    save_s = 15.0

    def __init__(self, clock: Clock, store: Store, cloud: FakeCloud, *, checkpoint_every_s: float = 60) -> None:
        self.clock, self.store, self.cloud = clock, store, cloud
        self.checkpoint_every_s = checkpoint_every_s
        self.default_work_s = 600.0
        self.work_s: dict[str, float] = {}
        self.exit_code: dict[str, int] = {}  # jobs whose command fails when its work is done
        self.ends_because: dict[str, str] = {}  # jobs that give another reason for being stopped
        self.unsaved: set[str] = set()  # jobs that can't save in time
        self.deaf: set[str] = set()  # provider ids of machines that are not heard any more, but go on
        self.agents: dict[str, _Agent] = {}
        self.writers: list[tuple[datetime, str, tuple[int, ...]]] = []  # job, attempts running at one moment

    def step(self) -> None:
        """Let every agent do what it would have done by now."""
        now = self.clock.now()
        for machine in self.cloud.machines():
            if machine.condition is Condition.RUNNING and machine.id not in self.agents:
                self._boot(machine, now)
        alive = {m.id for m in self.cloud.machines() if m.condition is not Condition.GONE}
        for machine_id, agent in self.agents.items():
            if machine_id in alive and not agent.over:
                self._agent(agent, now)
        self._watch_writers(now)

    def _boot(self, machine: CloudMachine, now: datetime) -> None:
        try:
            boot = BootOrder.from_json(self.store.get(machine_key(machine.tags["frugald:machine"], "boot.json")))
        except Missing:
            return
        self.agents[machine.id] = _Agent(machine, boot, now, now + timedelta(seconds=boot.guard_s))

    def _agent(self, agent: _Agent, now: datetime) -> None:
        if agent.machine.id not in self.deaf:
            self._read_lease(agent)
        job, attempt = agent.boot.attempts[0]
        status = agent.status or AttemptStatus(job=job, attempt=attempt, phase=Phase.READY)
        if agent.status is None:
            agent.status = status
        notice = next((n for n in self.cloud.notices() if n.machine_id == agent.machine.id), None)
        if agent.machine.id not in self.deaf:
            agent.seq += 1
            agent.beats[agent.seq] = now
            left = (notice.at - now).total_seconds() if notice else None
            self._put(
                machine_key(agent.boot.machine, "beat.json"), Beat(agent.boot.machine, agent.seq, 0, notice_in_s=left)
            )
        self._work(agent, status, now)
        why = "notice" if notice else "lease" if now >= agent.ends_at - timedelta(seconds=agent.boot.tail_s) else ""
        command = self._command(job, attempt)
        if command and command.do in {"stop", "save", "cancel"}:
            why = "command"
        if (why or agent.saves_until) and agent.status.phase not in Phase.TERMINAL:
            self._save(agent, why, now)
        if agent.machine.id not in self.deaf:
            self._put(attempt_key(job, attempt, "status.json"), agent.status)
        if agent.status.phase in Phase.TERMINAL:
            agent.over = True
            self.cloud.finish(agent.machine.id)

    def _work(self, agent: _Agent, status: AttemptStatus, now: datetime) -> None:
        if agent.saves_until is not None:
            return
        command = self._command(status.job, status.attempt)
        if status.phase == Phase.READY and command and command.do == "start":
            step = max(0, command.restore_step)
            agent.status = status = replace(
                status,
                phase=Phase.RUNNING,
                step=step,
                restored_step=command.restore_step,
                total_steps=int(self._needs(status.job)),
            )
            agent.worked_until = now
        if status.phase != Phase.RUNNING or agent.worked_until is None:
            return
        seconds = int((now - agent.worked_until).total_seconds())
        agent.worked_until += timedelta(seconds=seconds)
        step = min(status.step + seconds, int(self._needs(status.job)))
        agent.status = replace(status, step=step, running_s=status.running_s + seconds, lost_s=status.lost_s + seconds)
        if (
            step // self.checkpoint_every_s
            > max(status.checkpoint_step, status.restored_step, 0) // self.checkpoint_every_s
        ):
            self._checkpoint(agent)
        if step >= self._needs(status.job):
            code = self.exit_code.get(status.job, 0)
            phase = Phase.FAILED if code else Phase.SUCCEEDED
            agent.status = replace(
                agent.status, phase=phase, exit_code=code, ended_because="failed" if code else "finished"
            )

    def _needs(self, job: str) -> float:
        return self.work_s.get(job, self.default_work_s)

    def _save(self, agent: _Agent, why: str, now: datetime) -> None:
        status = agent.status
        assert status is not None
        if agent.saves_until is None:
            agent.saves_until = now + timedelta(seconds=min(self.save_s, agent.boot.tail_s))
        if now < agent.saves_until:
            return
        saved = status.phase == Phase.RUNNING and status.job not in self.unsaved
        if saved:
            self._checkpoint(agent)
        assert agent.status is not None
        agent.status = replace(
            agent.status,
            phase=Phase.SAVED if saved else Phase.NOT_SAVED,
            ended_because=self.ends_because.get(status.job, why),
        )

    def _checkpoint(self, agent: _Agent) -> None:
        status = agent.status
        assert status is not None
        prefix = checkpoint_prefix(status.job, status.step, status.attempt)
        agent.status = replace(status, checkpoint=prefix, checkpoint_step=status.step, lost_s=0.0)

    def _read_lease(self, agent: _Agent) -> None:
        try:
            lease = Lease.from_json(self.store.get(machine_key(agent.boot.machine, "lease.json")))
        except Missing:
            return
        if lease.seq > agent.lease_seq and lease.beat_seq in agent.beats:
            agent.lease_seq = lease.seq
            agent.ends_at = max(agent.ends_at, agent.beats[lease.beat_seq] + timedelta(seconds=lease.length_s))
            self.cloud.set_guard(agent.machine.id, agent.ends_at)

    def _command(self, job: str, attempt: int) -> Command | None:
        try:
            return Command.from_json(self.store.get(attempt_key(job, attempt, "command.json")))
        except Missing:
            return None

    def _put(self, key: str, record: Beat | AttemptStatus) -> None:
        self.store.put(key, record.to_json())

    def _watch_writers(self, now: datetime) -> None:
        writing: dict[str, list[int]] = {}
        alive = {m.id for m in self.cloud.machines() if m.condition is not Condition.GONE}
        for machine_id, agent in self.agents.items():
            if machine_id in alive and agent.status and agent.status.phase == Phase.RUNNING:
                writing.setdefault(agent.status.job, []).append(agent.status.attempt)
        self.writers += [(now, job, tuple(attempts)) for job, attempts in writing.items()]

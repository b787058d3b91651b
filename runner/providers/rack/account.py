"""One owner's view of a rack: idempotent launches, and listings that show nobody else's machines."""

import json
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from hashlib import sha256

from config.clock import Clock
from runner.provider import Condition, Denied, LaunchRequest, Machine, Notice
from runner.providers.rack.rack import Rack
from runner.providers.rack.state import MachineState

OWNER = "frugald:owner"
LISTED_FOR = timedelta(hours=1)  # a machine that ended stays in the listing for this long
Accept = Callable[[LaunchRequest, list[MachineState], datetime], MachineState]


class Account:
    """What the install `owner` may see and do on a rack."""

    def __init__(self, rack: Rack, cloud: str, owner: str, clock: Clock) -> None:
        """Act as `owner`; `cloud` begins the ids of machines."""
        self._rack = rack
        self._cloud = cloud
        self._owner = owner
        self._clock = clock

    def launch(self, request: LaunchRequest, accept: Accept) -> MachineState:
        """Return the machine of `request.token`; a new one is what `accept` makes of the living ones, or refuses.

        Raises Denied, Unknown, and what `accept` raises.
        """
        if request.tags.get(OWNER) != self._owner:
            raise Denied(f"the tag {OWNER} must be {self._owner!r}: a machine without it would never be swept")
        with self._rack.locked():
            known = self._rack.state(self.machine_id(request.token))
            if known:
                return _same(known, request)
            now = self._clock.now()
            self._rack.forget_old(now)
            return self._rack.start(accept(request, self.living(), now))

    def drawn_up(self, request: LaunchRequest, now: datetime) -> MachineState:
        """Return the machine that a request asks for; its cloud adds the rest."""
        return MachineState(
            id=self.machine_id(request.token), token=request.token, fingerprint=_fingerprint(request),
            launched_at=now.isoformat(), tags=dict(request.tags), user_data=request.user_data,
            guard_s=request.guard.total_seconds(),
        )  # fmt: skip

    def living(self) -> list[MachineState]:
        """Return the machines of every owner that have not ended: what takes up stock and quotas."""
        return [state for state in self._rack.states() if not state.gone]

    def own(self) -> list[MachineState]:
        """Return every machine of the owner that is remembered. Raises ProviderError."""
        return [state for state in self._rack.states() if self._is_own(state)]

    def find(self, token: str) -> MachineState | None:
        """Return the owner's machine launched with `token`."""
        state = self._rack.state(self.machine_id(token))
        return state if state and self._is_own(state) else None

    def listed(self) -> list[MachineState]:
        """Return the owner's living machines and those that ended within `LISTED_FOR`."""
        since = self._clock.now() - LISTED_FOR
        return [state for state in self.own() if not state.ended_at or datetime.fromisoformat(state.ended_at) > since]

    def terminate(self, machine_id: str) -> None:
        """Ask for a machine's end; gone already, or never there, is success. Raises Denied for another owner's."""
        state = self._rack.state(machine_id)
        if state and not self._is_own(state):
            raise Denied(f"{machine_id} belongs to {state.tags.get(OWNER)!r}, not to {self._owner!r}")
        if state and not state.gone:
            self._rack.terminate(machine_id)

    def notices(self) -> Sequence[Notice]:
        """Return the notices in force for the owner's machines."""
        warned = [(state.id, state.notice_at) for state in self.own() if not state.gone]
        return [Notice(machine, datetime.fromisoformat(at)) for machine, at in warned if at]

    def machine_id(self, token: str) -> str:
        """Return the id of the machine that `token` launches, so that a token needs no table."""
        return f"{self._cloud}-{sha256(token.encode()).hexdigest()[:16]}"

    def _is_own(self, state: MachineState) -> bool:
        return state.tags.get(OWNER) == self._owner


def as_machine(state: MachineState) -> Machine:
    """Return a machine as a cloud lists it."""
    return Machine(
        id=state.id, token=state.token, condition=Condition(state.condition),
        launched_at=datetime.fromisoformat(state.launched_at),
        ended_at=datetime.fromisoformat(state.ended_at) if state.ended_at else None,
        address="" if state.gone else "127.0.0.1", why_ended=state.why_ended, tags=state.tags,
    )  # fmt: skip


def _fingerprint(request: LaunchRequest) -> str:
    """Return what a repeated token must come with: everything in the request but the price, which moves."""
    what = [str(request.offer.pool), request.bid_micro, request.disk, request.user_data, request.guard.total_seconds()]
    return sha256(json.dumps([*what, sorted(request.tags.items())]).encode()).hexdigest()


def _same(state: MachineState, request: LaunchRequest) -> MachineState:
    if state.fingerprint != _fingerprint(request):
        raise Denied(
            f"IdempotentParameterMismatch: token {request.token} launched {state.id} with other parameters; "
            "a new machine needs a new token"
        )
    return state

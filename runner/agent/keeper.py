"""Two processes that end each other's children: whichever is killed, nothing of the job outlives it.

The keeper is what the machine starts. It does nothing but fork the agent, adopt orphans and wait; when the agent ends, even
by `kill -9`, every process below the keeper is killed. When the keeper itself is killed, the agent is told by the kernel
and ends in order. A death signal on the job alone would miss what the job has started.
"""

import os
import signal
import sys
import traceback
from collections.abc import Callable

from config.clock import Clock
from runner.agent import processes

_KILL_S = 10.0  # a process that the kernel can't end by then hangs in a device; the machine's end takes it


def keep(agent: Callable[[], int], clock: Clock) -> int:
    """Run `agent` in a process of its own and return its exit code; nothing that it started is left. Raises OSError."""
    processes.adopt_orphans()
    keeper = os.getpid()
    pid = os.fork()  # before there is any thread
    if pid == 0:
        _be_agent(agent, keeper)
    signal.signal(signal.SIGTERM, lambda *_: processes.send(pid, signal.SIGTERM))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # from a terminal it reaches the agent as well
    code = _wait_for(pid)
    processes.kill(lambda: _left(keeper), clock, _KILL_S)
    return code


def _be_agent(agent: Callable[[], int], keeper: int) -> None:
    code = 1
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        processes.hear_of_parent(signal.SIGTERM, keeper)
        code = agent()
    except BaseException:  # noqa: BLE001 - this process ends here, whatever it was
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)  # threads that hang in the store must not hold the machine


def _wait_for(agent: int) -> int:
    """Reap every child until the agent is among them."""
    while True:
        pid, status = os.wait()
        if pid == agent:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def _left(keeper: int) -> list[processes.Process]:
    _reap()
    return processes.below([keeper], processes.table())


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return

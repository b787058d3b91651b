"""Logs: one line for each event and failure, JSON for the journal, readable on a terminal."""

import logging
import sys
from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from daemon.main import Daemon

_REPEAT_S = 60.0


def set_up_logs() -> None:
    """Write to standard error: coloured lines on a terminal, JSON everywhere else."""
    renderer: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer() if sys.stderr.isatty() else structlog.processors.JSONRenderer()
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


def report_failures(daemon: "Daemon") -> None:
    """Log what goes wrong, the same thing at most once a minute with how often it was seen."""
    log = structlog.get_logger()
    clock = daemon.world.clock
    said: dict[tuple[str, str], tuple[float, int]] = {}

    def report(what: str, error: Exception) -> None:
        key = (what, type(error).__name__)
        at, count = said.get(key, (float("-inf"), 0))
        if clock.monotonic() - at < _REPEAT_S:
            said[key] = (at, count + 1)
            return
        said[key] = (clock.monotonic(), 0)
        log.error("failed", what=what, error=str(error), times=count + 1, exc_info=error)

    daemon.control.on_failure = report
    daemon.world.on_failure = report

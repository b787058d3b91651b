"""The metronome: the only file that knows APScheduler. It puts `due` on the control thread's queue and nothing else."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta

from apscheduler.events import EVENT_JOB_ERROR, EVENT_JOB_MAX_INSTANCES, EVENT_JOB_MISSED, JobExecutionEvent
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler


class Metronome:
    """Ticks for every loop at its own interval, in UTC, first at once, and never drops a late tick."""

    def __init__(
        self,
        every: Mapping[str, timedelta],
        due: Callable[[str], None],
        now: Callable[[], datetime],
        on_trouble: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._scheduler = BackgroundScheduler(
            timezone=UTC,
            executors={"default": ThreadPoolExecutor(1)},
            # The library's own defaults drop a run that is one second late (misfire_grace_time=1).
            job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
        )
        for name, interval in every.items():
            self._scheduler.add_job(
                due, "interval", args=[name], id=name, seconds=interval.total_seconds(), next_run_time=now()
            )
        self._scheduler.add_listener(
            lambda event: on_trouble(_trouble(event)), EVENT_JOB_ERROR | EVENT_JOB_MISSED | EVENT_JOB_MAX_INSTANCES
        )

    def start(self) -> None:
        """Begin to tick."""
        self._scheduler.start()

    def stop(self) -> None:
        """Tick no more."""
        self._scheduler.shutdown(wait=False)


def _trouble(event: JobExecutionEvent) -> str:
    return f"the tick of {event.job_id} was late or failed: {getattr(event, 'exception', None) or 'skipped'}"

"""Job files: what people write, checked at once and whole, as frozen values."""

from daemon.jobfile.problems import JobFileError, Problem
from daemon.jobfile.read import read_job
from daemon.jobfile.spec import Checkpoint, JobSpec, Resources, Retry, Work
from daemon.jobfile.values import Currency

__all__ = [
    "Checkpoint",
    "Currency",
    "JobFileError",
    "JobSpec",
    "Problem",
    "Resources",
    "Retry",
    "Work",
    "read_job",
]

"""The drop folder: files in, results out."""

from daemon.inbox.claim import Claimed, Inbox, Refused
from daemon.inbox.deliver import Delivery, Mirrored
from daemon.inbox.drop import job_file_in, submit_file
from daemon.inbox.ready import JOB_FILES

__all__ = ["JOB_FILES", "Claimed", "Delivery", "Inbox", "Mirrored", "Refused", "job_file_in", "submit_file"]

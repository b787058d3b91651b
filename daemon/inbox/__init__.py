"""The drop folder: files in, results out."""

from daemon.inbox.claim import Claimed, Inbox, Refused
from daemon.inbox.deliver import Delivery
from daemon.inbox.drop import submit_file

__all__ = ["Claimed", "Delivery", "Inbox", "Refused", "submit_file"]

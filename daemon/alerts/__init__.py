"""Alerts: written down with their cause, sent until they are taken."""

from daemon.alerts.envelope import ALERTS, outbox_rows
from daemon.alerts.outbox import Delivery, apply, dead_letters, next_batch
from daemon.alerts.senders import Outcome, send

__all__ = ["ALERTS", "Delivery", "Outcome", "apply", "dead_letters", "next_batch", "outbox_rows", "send"]

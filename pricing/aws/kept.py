"""Answers that change seldom: asked for when they are old, and the last one stands while asking fails."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Generic, TypeVar

from pricing.offer import SourceError

T = TypeVar("T")
_TRIED_AGAIN = timedelta(minutes=15)


class Kept(Generic[T]):
    """One answer; `failed` says why it couldn't be had anew, empty when it could."""

    def __init__(self, life: timedelta, rest: timedelta = timedelta(0)) -> None:
        """Ask nothing yet. An answer older than `life` is asked for again.

        Where there has never been one, a failure is repeated for `rest` without asking.
        """
        self.failed = ""
        self._life = life
        self._rest = rest
        self._value: T | None = None
        self._error: SourceError | None = None
        self._next: datetime | None = None

    def get(self, now: datetime, ask: Callable[[], T]) -> T:
        """Return the answer, asked for where it is old. Raises SourceError when there has never been one."""
        if self._next is None or now >= self._next:
            self._ask(now, ask)
        if self._value is None:
            raise self._error or SourceError(self.failed)
        return self._value

    @property
    def known(self) -> bool:
        """Say whether there is an answer."""
        return self._value is not None

    def keep(self, value: T, at: datetime) -> None:
        """Take over an answer that was had at `at`."""
        self._value, self._next = value, at + self._life

    def _ask(self, now: datetime, ask: Callable[[], T]) -> None:
        try:
            self._value, self._next, self.failed = ask(), now + self._life, ""
        except SourceError as error:
            self._error, self.failed = error, str(error)
            self._next = now + (self._rest if self._value is None else _TRIED_AGAIN)

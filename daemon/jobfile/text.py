"""Bytes that somebody dropped, as text that is safe to keep, to show and to log."""

import re

UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, line ends that only some programs see, changes of the writing direction, halves of characters."""

_MOST_SHOWN = 400


def printable(text: str) -> str:
    """Return a text for people on one line, cut when it is long; what has no picture is written as its code."""
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text[:_MOST_SHOWN])
    return shown if len(text) <= _MOST_SHOWN else f"{shown}..."


def line_at(text: str, position: int) -> int:
    """Return the line, counted from 1, on which a position of a text lies."""
    return text.count("\n", 0, position) + 1

"""Tables that fit a terminal, for text of any width."""

import unicodedata
from collections.abc import Sequence
from datetime import datetime, timedelta

from config.units import Money, print_duration

WIDEST = 100
_GAP = "  "


def table(
    head: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[str] = (), widest: int = WIDEST
) -> str:
    """Return rows under a head, aligned; the widest text columns are cut with `…` until a line fits."""
    if not rows:
        return "none"
    cells = [list(map(str, row)) for row in [head, *rows]]
    widths = [max(width(row[n]) for row in cells) for n in range(len(head))]
    while sum(widths) + len(_GAP) * (len(widths) - 1) > widest and max(widths) > 8:
        widths[widths.index(max(widths))] -= 1
    aligned = [
        _GAP.join(_fit(text, widths[n], right=head[n] in right) for n, text in enumerate(row)).rstrip() for row in cells
    ]
    return "\n".join(aligned)


def width(text: str) -> int:
    """Return how many columns a text takes: wide East Asian characters take two, combining ones none."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in {"W", "F"} else 1 for c in text
    )


def money(micro: int | None, currency: str = "USD") -> str:
    """Return an amount, `-` for none."""
    return "-" if micro is None else str(Money(micro, currency))


def when(iso: str | None) -> str:
    """Return a time of today as a clock shows it here, of another day with its date; `-` for none."""
    if not iso:
        return "-"
    local = datetime.fromisoformat(iso).astimezone()
    return local.strftime("%Y-%m-%d %H:%M:%S")


def lasting(seconds: float | None) -> str:
    """Return a duration, `-` for none."""
    return "-" if seconds is None else print_duration(timedelta(seconds=round(seconds, 1)))


def clean(text: str) -> str:
    """Return a text without control characters, so that nobody's file name can write on the terminal."""
    return "".join(c if c.isprintable() else "?" for c in text)


def _fit(text: str, columns: int, *, right: bool) -> str:
    text = clean(text)
    if width(text) > columns:
        while width(text) > columns - 1:
            text = text[:-1]
        text += "…"
    padding = " " * (columns - width(text))
    return padding + text if right else text + padding

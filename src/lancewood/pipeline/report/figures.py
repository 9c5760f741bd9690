"""Numbers, sizes and times as people read them. The same on a page and in a terminal.

What is not known is a dash. Knows nothing of runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import UTC, datetime

UNKNOWN = "\N{EN DASH}"
_SHOWN_DIGITS = 12


def count(number: int | None) -> str:
    """1,234,567."""
    return UNKNOWN if number is None else f"{number:,}"


def counted(number: int, thing: str) -> str:
    """A number of things in words: ``1 row``, ``2,500 rows``."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def total(numbers: Iterable[int | None]) -> int | None:
    """The sum of those that are known; None if none is."""
    known = [each for each in numbers if each is not None]
    return sum(known) if known else None


def size(number: int | None) -> str:
    """A number of bytes with the unit that keeps it short."""
    if number is None:
        return UNKNOWN
    amount = float(number)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if amount < 1024:
            return f"{number:,} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:,.1f} PiB"


def duration(seconds: float) -> str:
    """A span of time with its two largest units.

    >>> [duration(each) for each in (0.042, 7.25, 185, 7380, 200000)]
    ['42 ms', '7.2 s', '3 min 5 s', '2 h 3 min', '2 d 7 h']
    """
    if not math.isfinite(seconds) or seconds < 0:
        return UNKNOWN
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for unit, below, one, less in ((60, 3600, "min", "s"), (3600, 86400, "h", "min")):
        if whole < below:
            return f"{whole // unit} {one} {whole % unit // (unit // 60)} {less}"
    return f"{whole // 86400:,} d {whole % 86400 // 3600} h"


def moment(iso: str) -> str:
    """A moment of ISO 8601 to the second, in UTC; any other text as it is."""
    try:
        when = datetime.fromisoformat(iso)
        utc = when.replace(tzinfo=UTC) if when.tzinfo is None else when.astimezone(UTC)
    except (ValueError, OverflowError):
        return iso
    return f"{utc:%Y-%m-%d %H:%M:%S} UTC"


def day(seconds_since_epoch: int) -> str:
    """The day of a moment, in UTC."""
    try:
        return f"{datetime.fromtimestamp(seconds_since_epoch, UTC):%Y-%m-%d}"
    except (ValueError, OverflowError, OSError):
        return f"@{seconds_since_epoch}"


def short_hash(commit: str | None) -> str:
    """What is shown of a commit, as in every message of ours."""
    return UNKNOWN if commit is None else commit[:_SHOWN_DIGITS]

"""Lengths of time as the file writes them: ``7 days``, ``12 hours``, ``10 seconds``."""

from __future__ import annotations

import re
from datetime import timedelta

from lancewood.errors import InvalidInputError

UNITS = ("seconds", "minutes", "hours", "days", "weeks")
LONGEST = timedelta(days=3_660)
_is_duration = re.compile(r"\s*(\d{1,10})\s+([a-z]+?)s?\s*").fullmatch


def parsed_duration(text: str) -> timedelta:
    """Raises InvalidInputError for what is no length of time, none at all, or above ten years."""
    found = _is_duration(text)
    unit = f"{found[2]}s" if found else ""
    if found is None or unit not in UNITS:
        raise InvalidInputError(
            f'{text!r} is no length of time: write it as "7 days" or "12 hours", '
            f"in {', '.join(UNITS)}"
        )
    try:
        length = timedelta(**{unit: int(found[1])})
    except OverflowError:
        length = timedelta.max
    if not timedelta() < length <= LONGEST:
        raise InvalidInputError(f"{text!r} is not from one second to ten years")
    return length

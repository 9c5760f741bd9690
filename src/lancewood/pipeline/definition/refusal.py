"""The words of an error in the file: first where it stands, then what is wrong and the way out.

Knows words, not the keys of any section.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches

from lancewood.errors import InvalidInputError
from lancewood.pipeline.definition.model import Spot
from lancewood.table import shorten


def wrong(spot: Spot, why: str) -> InvalidInputError:
    """The error for what a file says at a spot."""
    return InvalidInputError(f"{spot}: {why}", file=spot.file, key=spot.key, line=spot.line)


@contextmanager
def errors_at(spot: Spot) -> Iterator[None]:
    """Put a spot in front of what is found to be wrong with what stands there."""
    try:
        yield
    except InvalidInputError as refused:
        raise wrong(spot, refused.message) from refused


def near(asked: str, known: Iterable[str]) -> str:
    """The way out for a name that is not known: the one that was meant, or all there are."""
    names = sorted(map(str, known))
    if not names:
        return "there are none"
    folded = {each.casefold(): each for each in names}
    longer = [each for each in folded if len(asked) > 2 and each.startswith(asked.casefold())]
    close = get_close_matches(asked.casefold(), folded, n=1) or longer
    return f"did you mean {folded[close[0]]!r}?" if close else f"there are {', '.join(names)}"


def described(value: object) -> str:
    """A value of TOML in words, long texts shortened."""
    if isinstance(value, str):
        return f"the text {shorten(value, 60)}"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return f"the number {value!r:.40}"
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, dt.date | dt.time):
        return f"the date or time {value.isoformat()}"
    return f"a {type(value).__name__}"

"""Names of items: the path of a repository below the folder that holds all of them.

Pure. A name that leads out of the folder, into git, or into what this room keeps there for itself,
is refused with the rule it breaks.
"""

from __future__ import annotations

from lancewood.catalog.paths import broken_rule, shown
from lancewood.errors import InvalidInputError
from lancewood.store.base import is_in_the_making

STAGING = ".lancewood"
"""Where new items are made before they get their names; no item is in it."""
_OF_A_REPOSITORY = ("HEAD", "refs")
"""A folder in which there are two of these and ``objects`` is taken for an item, and what else is
in it is found by nobody."""
_MOST_BYTES = 1024
_MOST_PART_BYTES = 250


def checked_item(item: object) -> str:
    """The name itself; raises InvalidInputError, which says which rule it breaks."""
    if not isinstance(item, str):
        raise InvalidInputError(
            "an item has no name: the column item is null"
            if item is None
            else f"the name of an item is a text, not {type(item).__name__}"
        )
    why = _broken_rule(item)
    if why is not None:
        raise InvalidInputError(f"item {shown(item)} is not allowed: {why}", item=item)
    return item


def _broken_rule(item: str) -> str | None:
    why = broken_rule(item, most_bytes=_MOST_BYTES, most_part_bytes=_MOST_PART_BYTES)
    if why is not None:
        return why
    parts = item.split("/")
    if parts[0].lower() == STAGING:
        return f"{STAGING!r} is where new items are made"
    for part in parts:
        if part in _OF_A_REPOSITORY:
            return f"{part!r} is in a repository, and the folder it is in would be taken for one"
        if is_in_the_making(part):
            return f"{part!r} is what files are called that are not finished"
    return None

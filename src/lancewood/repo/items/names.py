"""Names of items: the path of a repository below the folder that holds all of them.

Pure. A name that leads out of the folder, into git, or into what this room keeps there for itself,
is refused with the rule it breaks.
"""

from __future__ import annotations

from lancewood.errors import InvalidInputError
from lancewood.git.values import is_dot_git
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
        shown = item if len(item) <= 200 else f"{item[:150]}…{item[-40:]}"
        raise InvalidInputError(f"item {shown!r} is not allowed: {why}", item=item)
    return item


def _broken_rule(item: str) -> str | None:
    if not item:
        return "its name is empty"
    if item.startswith("/"):
        return "it starts with '/', and items are below a folder"
    if "\0" in item:
        return "it contains NUL"
    if "\\" in item:
        return "it contains a backslash; folders are told apart by '/'"
    try:
        size = len(item.encode())
    except UnicodeEncodeError:
        return "it is not UTF-8"
    if size > _MOST_BYTES:
        return f"its name has {size} bytes, {_MOST_BYTES} are allowed"
    parts = item.split("/")
    if parts[0].lower() == STAGING:
        return f"{STAGING!r} is where new items are made"
    for part in parts:
        why = _broken_part(part)
        if why is not None:
            return why
    return None


def _broken_part(part: str) -> str | None:
    if not part:
        return "a part of its path is empty"
    if part in (".", ".."):
        return f"it contains {part!r}, which leads elsewhere"
    if len(part.encode()) > _MOST_PART_BYTES:
        return f"{part[:40]!r}… has more than {_MOST_PART_BYTES} bytes, and no disk could hold it"
    if part in _OF_A_REPOSITORY:
        return f"{part!r} is in a repository, and the folder it is in would be taken for one"
    if is_dot_git(part):
        return f"{part!r} is, or is on some disks, '.git', which git keeps for itself"
    if is_in_the_making(part):
        return f"{part!r} is what files are called that are not finished"
    return None

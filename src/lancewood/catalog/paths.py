"""Paths of parts, below a commit or below a folder: which of them every disk, and git, can hold.

Pure. Knows nothing of what a path names, nor of names that somebody keeps for himself.
"""

from __future__ import annotations

from lancewood.git.values import is_dot_git


def broken_rule(path: str, *, most_bytes: int, most_part_bytes: int) -> str | None:
    """The rule that a path breaks, in words for a message; None if it breaks none."""
    if not path:
        return "it is empty"
    if path.startswith("/"):
        return "it is absolute; write it without the '/' at its start"
    if "\0" in path:
        return "it contains NUL"
    if "\\" in path:
        return "it contains a backslash; parts are told apart by '/'"
    try:
        size = len(path.encode())
    except UnicodeEncodeError:
        return "it is not UTF-8"
    if size > most_bytes:
        return f"it has {size} bytes, {most_bytes} are allowed"
    broken = (_broken_part(each, most_part_bytes) for each in path.split("/"))
    return next((why for why in broken if why is not None), None)


def shown(path: str) -> str:
    """A path in quotes for a message, its middle left out where it is long."""
    return repr(path if len(path) <= 200 else f"{path[:150]}…{path[-40:]}")


def _broken_part(part: str, most_bytes: int) -> str | None:
    if not part:
        return "a part of it is empty"
    if part in (".", ".."):
        return f"it contains {part!r}, which leads elsewhere"
    if len(part.encode()) > most_bytes:
        return f"{part[:40]!r}… has more than {most_bytes} bytes, and no disk could hold it"
    if is_dot_git(part):
        return f"{part!r} is, or is on some disks, '.git', which git keeps for itself"
    return None

"""Names of files in a commit: a path of parts, each of which is safe on every file system.

Pure. A path that git would refuse, that leads out of a directory when somebody checks the commit
out, or that could be taken for a pin of a table, is refused with the rule it breaks.
"""

from __future__ import annotations

import os.path
from collections.abc import Iterable

from lancewood.catalog.names import TABLES_DIR
from lancewood.errors import InvalidInputError
from lancewood.git.values import is_dot_git

_MOST_BYTES = 4096
_MOST_PART_BYTES = 255


def checked_paths(paths: Iterable[object]) -> tuple[str, ...]:
    """The paths, sorted; raises InvalidInputError, which names the path and the rule.

    Two of them may not need the same name for a file and for a directory.
    """
    found = sorted(map(checked_path, paths))
    files = set(found)
    for path in found:
        above = os.path.dirname(path)
        while above:
            if above in files:
                raise InvalidInputError(
                    f"{above!r} cannot be a file and the directory of {path!r}; rename one of them",
                    path=path,
                )
            above = os.path.dirname(above)
    return tuple(found)


def checked_path(path: object) -> str:
    """The path itself; raises InvalidInputError."""
    if not isinstance(path, str):
        raise InvalidInputError(f"the path of a file is a text, not {type(path).__name__}")
    why = _broken_rule(path)
    if why is not None:
        shown = path if len(path) <= 200 else f"{path[:150]}…{path[-40:]}"
        raise InvalidInputError(f"file {shown!r} cannot be in a commit: {why}", path=path)
    return path


def _broken_rule(path: str) -> str | None:
    if not path:
        return "its path is empty"
    if path.startswith("/"):
        return "its path is absolute; paths begin below the commit"
    if "\0" in path:
        return "it contains NUL"
    if "\\" in path:
        return "it contains a backslash; directories are told apart by '/'"
    try:
        size = len(path.encode())
    except UnicodeEncodeError:
        return "it is not UTF-8"
    if size > _MOST_BYTES:
        return f"its path has {size} bytes, {_MOST_BYTES} are allowed"
    parts = path.split("/")
    if parts[0].rstrip(" .").lower() == TABLES_DIR:
        return f"{TABLES_DIR!r} is where the pins of tables are"
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
    if is_dot_git(part):
        return f"{part!r} is, or is on some disks, '.git', which git keeps for itself"
    return None

"""Names of files in a commit: a path of parts, each of which is safe on every file system.

Pure. A path that git would refuse, that leads out of a directory when somebody checks the commit
out, or that could be taken for a pin of a table, is refused with the rule it breaks.
"""

from __future__ import annotations

import os.path
from collections.abc import Iterable

from lancewood.catalog.names import TABLES_DIR
from lancewood.catalog.paths import broken_rule, shown
from lancewood.errors import InvalidInputError

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
        raise InvalidInputError(f"file {shown(path)} cannot be in a commit: {why}", path=path)
    return path


def _broken_rule(path: str) -> str | None:
    why = broken_rule(path, most_bytes=_MOST_BYTES, most_part_bytes=_MOST_PART_BYTES)
    if why is None and path.split("/")[0].rstrip(" .").lower() == TABLES_DIR:
        return f"{TABLES_DIR!r} is where the pins of tables are"
    return why

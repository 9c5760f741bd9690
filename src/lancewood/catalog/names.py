"""Names of tables in a repository, and where in it each table is and is pinned.

Pure. A table that lives below the repository lives at ``tables/<name>.lance``, under the name that
commits know it by: so whoever holds such a table knows which pins are about it.

Paths of parts, below a commit or below a folder: which of them every disk, and git, can hold.

Pure. Knows nothing of what a path names, nor of names that somebody keeps for himself.

Names of files in a commit: a path of parts, each of which is safe on every file system.

Pure. A path that git would refuse, that leads out of a directory when somebody checks the commit
out, or that could be taken for a pin of a table, is refused with the rule it breaks.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Iterable
from functools import lru_cache

from lancewood.errors import InvalidInputError
from lancewood.git.values import is_dot_git

TABLES_DIR = "tables"
"""The directory of the tables, and the tree of the pins in a commit."""
_HOME_SUFFIX = ".lance"
_ENTRY_SUFFIX = ".json"
_MOST_CHARACTERS = 100
_is_table = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*").fullmatch
_is_allowed = re.compile(r"[A-Za-z0-9._-]").fullmatch


def checked_table(name: str) -> str:
    """The name itself; raises InvalidInputError, which says which rule it breaks."""
    if not isinstance(name, str):
        raise InvalidInputError(f"the name of a table is a text, not {type(name).__name__}")
    why = _broken_rule(name)
    if why is not None:
        shown = name if len(name) <= _MOST_CHARACTERS else f"{name[:70]}…{name[-20:]}"
        raise InvalidInputError(f"table name {shown!r} is not allowed: {why}", table=name)
    return name


def home_uri(name: str) -> str:
    """Where a table of this name lives below the repository."""
    return f"{TABLES_DIR}/{name}{_HOME_SUFFIX}"


@lru_cache(maxsize=4096)
def table_at_home(uri: str) -> str | None:
    """The name of the table that lives there; None for what is no place below a repository."""
    return _between(uri, f"{TABLES_DIR}/", _HOME_SUFFIX)


def pin_entry(name: str) -> str:
    """The name of a table's pin in the tree ``tables``."""
    return name + _ENTRY_SUFFIX


def pin_file(name: str) -> str:
    """The path of a table's pin in a commit."""
    return f"{TABLES_DIR}/{pin_entry(name)}"


@lru_cache(maxsize=4096)
def pinned_table(entry: str) -> str | None:
    """The name of the table that an entry of the tree ``tables`` pins; None for other files."""
    return _between(entry, "", _ENTRY_SUFFIX)


def _between(text: str, prefix: str, suffix: str) -> str | None:
    if not (text.startswith(prefix) and text.endswith(suffix)):
        return None
    name = text[len(prefix) : len(text) - len(suffix)]
    return name if _broken_rule(name) is None else None


def _broken_rule(name: str) -> str | None:
    if not name:
        return "it is empty"
    if len(name) > _MOST_CHARACTERS:
        return f"it has {len(name)} characters, {_MOST_CHARACTERS} are allowed"
    if _is_table(name):
        return None
    for each in name:
        if not _is_allowed(each):
            return f"it contains {each!r}; letters a to z, digits, '.', '-' and '_' are allowed"
    return f"it begins with {name[0]!r}; it has to begin with a letter or a digit"


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
    why = _broken_file_rule(path)
    if why is not None:
        raise InvalidInputError(f"file {shown(path)} cannot be in a commit: {why}", path=path)
    return path


def _broken_file_rule(path: str) -> str | None:
    why = broken_rule(path, most_bytes=_MOST_BYTES, most_part_bytes=_MOST_PART_BYTES)
    if why is None and path.split("/")[0].rstrip(" .").lower() == TABLES_DIR:
        return f"{TABLES_DIR!r} is where the pins of tables are"
    return why

"""Names of tables in a repository, and where in it each table is and is pinned.

Pure. A table that lives below the repository lives at ``tables/<name>.lance``, under the name that
commits know it by: so whoever holds such a table knows which pins are about it.
"""

from __future__ import annotations

import re
from functools import lru_cache

from lancewood.errors import InvalidInputError

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

"""Names in a repository: of tables, of files in a commit, of branches and tags; which are allowed,
and where they lead.

A table that lives below the repository is at ``tables/<name>.lance``, under the name that commits
use for it, so the location of such a table says which pins refer to it. A path is refused, with the
rule it breaks, if git would refuse it, if it would leave the directory on checkout, or if it could
be mistaken for a pin.

A branch of the repository is a branch of every table that is written on it, so its name keeps to
the rules of both. A tag becomes tags of another name in the tables: git's rules are enough.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Container, Iterable
from functools import lru_cache

from lancewood.errors import InvalidInputError
from lancewood.git.names import HEAD, HEADS, TAGS, checked_branch, checked_tag, is_dot_git
from lancewood.model.refs import MAIN, BranchName

SECTION, ID = "lancewood", "id"
"""Where git's configuration has the repository's identity."""
TABLES_DIR = "tables"
"""The directory of the tables, and the tree of pins in a commit."""
PROTECTED = "refs/lancewood/protected/"
"""How the names begin under which commits are protected that no tag names."""
_TABLE_SUFFIX = ".lance"
_ENTRY_SUFFIX = ".json"
_MOST_CHARACTERS = 100
_is_table = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*").fullmatch
_is_allowed = re.compile(r"[A-Za-z0-9._-]").fullmatch
_MOST_BYTES = 4096
_MOST_PART_BYTES = 255


def checked_table(name: str) -> str:
    """The name itself; raises InvalidInputError with the rule that it breaks."""
    if not isinstance(name, str):
        raise InvalidInputError(f"the name of a table is a text, not {type(name).__name__}")
    why = _broken_name(name)
    if why is not None:
        short = name if len(name) <= _MOST_CHARACTERS else f"{name[:70]}…{name[-20:]}"
        raise InvalidInputError(f"table name {short!r} is not allowed: {why}", table=name)
    return name


def own_table_uri(name: str) -> str:
    """Where a table of this name lives below the repository."""
    return f"{TABLES_DIR}/{name}{_TABLE_SUFFIX}"


@lru_cache(maxsize=4096)
def own_table(uri: str) -> str | None:
    """The name of the table at a uri below the repository; None for any other uri."""
    return _between(uri, f"{TABLES_DIR}/", _TABLE_SUFFIX)


def pin_entry(name: str) -> str:
    """The name of a table's pin in the tree ``tables``."""
    return name + _ENTRY_SUFFIX


def pin_file(name: str) -> str:
    """The path of a table's pin in a commit."""
    return f"{TABLES_DIR}/{pin_entry(name)}"


@lru_cache(maxsize=4096)
def pinned_table(entry: str) -> str | None:
    """The name of the table that an entry of the tree ``tables`` pins; None for other entries."""
    return _between(entry, "", _ENTRY_SUFFIX)


def _between(text: str, prefix: str, suffix: str) -> str | None:
    if not (text.startswith(prefix) and text.endswith(suffix)):
        return None
    name = text[len(prefix) : len(text) - len(suffix)]
    return name if _broken_name(name) is None else None


def _broken_name(name: str) -> str | None:
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
    """The rule that a path breaks, worded for an error message; None if it is fine."""
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
    """A path in quotes for an error message, shortened in the middle."""
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


def checked_paths(paths: Iterable[object]) -> tuple[str, ...]:
    """The paths, sorted; raises InvalidInputError with the path and the rule.

    No path may be both a file and a directory of another.
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
    why = broken_rule(path, most_bytes=_MOST_BYTES, most_part_bytes=_MOST_PART_BYTES)
    if why is None and path.split("/")[0].rstrip(" .").lower() == TABLES_DIR:
        why = f"{TABLES_DIR!r} is where the pins of tables are"
    if why is not None:
        raise InvalidInputError(f"file {shown(path)} cannot be in a commit: {why}", path=path)
    return path


def branch_ref(name: str) -> str:
    """The full ref name of a branch; raises InvalidInputError, which says which rule it breaks."""
    checked_branch(name)
    if name != MAIN:
        try:
            BranchName(name)
        except InvalidInputError as refused:
            raise InvalidInputError(
                f"{refused.message} (tables get a branch of the same name when they are written)",
                **refused.facts,
            ) from refused
    return HEADS + name


def tag_ref(name: str) -> str:
    """The full ref name of a tag; raises InvalidInputError, which says which rule it breaks."""
    checked_tag(name)
    return TAGS + name


def lance_branch(branch: str) -> BranchName | None:
    """The branch of the tables that belongs to a branch of the repository; None is main."""
    return None if branch == MAIN else BranchName(branch)


def full_ref(known: Container[str], text: str) -> str:
    """HEAD, a full ref name, or that of the branch or tag which is called so."""
    if text == HEAD or text.startswith("refs/"):
        return text
    return TAGS + text if HEADS + text not in known and TAGS + text in known else HEADS + text

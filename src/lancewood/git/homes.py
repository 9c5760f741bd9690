"""Where a repository is: a directory of a disk, or a place in a bucket by its uri.

Knows how the two are written, and what lies below them; a link there leads out, and is refused.
Opens nothing.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TypeAlias

from lancewood.store.disk_root import refuse_links

Home: TypeAlias = Path | str
"""A directory is a ``Path``; a ``str`` is the uri of a place in an object store."""

_has_scheme = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://").match


def is_uri(place: str | os.PathLike[str]) -> bool:
    """Whether a place is named by a uri other than a file's: then it is not on a disk."""
    if not isinstance(place, str):
        return False
    return _has_scheme(place) is not None and not place.lower().startswith("file:")


def below(home: Home, key: str) -> Home:
    """A place inside; the key has none of the characters that a uri would have to quote. Raises
    InvalidInputError if a directory on the way, or the place itself, is a symbolic link."""
    if not isinstance(home, Path):
        return f"{home.rstrip('/')}/{key}"
    refuse_links(str(home), key)
    return home / key


def real_home(home: Home) -> str:
    """By which two homes are compared: a directory without symbolic links, a uri as it is."""
    return os.path.realpath(home) if isinstance(home, Path) else home.rstrip("/")


def home_at(text: str) -> Home:
    """A home that was written down, as ``real_home`` gave it."""
    return text if is_uri(text) else Path(text)

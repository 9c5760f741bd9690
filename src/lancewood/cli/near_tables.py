"""The table that was meant, where a path leads to none: one beside it with a name much like it, or
that of the repository whose directory one is in.

Looks at local directories only, and at no more than a few thousand names. Does not open tables.
"""

from __future__ import annotations

import os
from difflib import get_close_matches
from itertools import islice

from lancewood.catalog.names import home_uri

_MOST_NAMES = 5_000
_VERSIONS = "_versions"
_SUFFIX = ".lance"


def near_table(path: str) -> str | None:
    """The path of the table that was most likely meant; None where there is none like it."""
    if "://" in path:
        return None
    parent, name = os.path.split(path.rstrip("/"))
    found = [each for each in _tables(parent or ".") if each != name]
    if f"{name}{_SUFFIX}" in found:
        return os.path.join(parent, f"{name}{_SUFFIX}")
    of_repository = os.path.join(parent, home_uri(name))
    if os.path.isdir(os.path.join(of_repository, _VERSIONS)):
        return of_repository
    near = get_close_matches(name, found, 1)
    if near:
        return os.path.join(parent, near[0])
    inside = _tables(path)
    return os.path.join(path, inside[0]) if len(inside) == 1 else None


def _tables(directory: str) -> list[str]:
    try:
        with os.scandir(directory) as entries:
            names = [each.name for each in islice(entries, _MOST_NAMES)]
    except OSError:
        return []
    return sorted(e for e in names if os.path.isdir(os.path.join(directory, e, _VERSIONS)))

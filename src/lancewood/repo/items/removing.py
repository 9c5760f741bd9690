"""Taking files out of the tree of a commit.

Knows trees; only directories on the way to a file are read and written. One that becomes empty
goes too, as git has none.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable, Mapping

from lancewood.catalog.files import split_directory
from lancewood.git.objects import TREE, Entry, Objects


def without_paths(
    objects: Objects, top: Mapping[str, Entry], paths: Iterable[str]
) -> dict[str, Entry]:
    """The entries of a tree without some files; what is not there, or is no file, stays away.

    New directories are put, and not synced.
    """
    levels = {"": dict(top)}
    changed: set[str] = set()
    for path in paths:
        _take_out(objects, levels, changed, path)
    for inner in reversed(levels):
        if inner and inner in changed:
            above, name = split_directory(inner)
            if levels[inner]:
                levels[above][name] = Entry(TREE, objects.put_tree(levels[inner]))
            else:
                del levels[above][name]
    return levels[""]


def _take_out(
    objects: Objects, levels: dict[str, dict[str, Entry]], changed: set[str], path: str
) -> None:
    """Take a file out of its directory, which is looked up and noted."""
    *parts, name = path.split("/")
    way = [""]
    for part in parts:
        inner = f"{way[-1]}{part}/"
        if inner not in levels:
            entry = levels[way[-1]].get(part)
            if entry is None or not stat.S_ISDIR(entry.mode):
                return
            levels[inner] = objects.tree(entry.hash)
        way.append(inner)
    entry = levels[way[-1]].get(name)
    if entry is not None and not stat.S_ISDIR(entry.mode):
        del levels[way[-1]][name]
        changed.update(way)

"""Taking files out of the tree of a commit.

Knows trees; only directories on the way to a file are read and written. One that becomes empty
goes too, as git has none.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable, Mapping

from lancewood.git.objects import TREE, Entry, Objects


def without_paths(
    objects: Objects, top: Mapping[str, Entry], paths: Iterable[str]
) -> dict[str, Entry]:
    """The entries of a tree without some files; what is not there, or is no file, stays away.

    New directories are put, and not synced.
    """
    found = dict(top)
    for path in paths:
        _take_out(objects, found, path.split("/"))
    return found


def _take_out(objects: Objects, top: dict[str, Entry], parts: list[str]) -> None:
    levels = [top]
    for part in parts[:-1]:
        entry = levels[-1].get(part)
        if entry is None or not stat.S_ISDIR(entry.mode):
            return
        levels.append(objects.tree(entry.hash))
    entry = levels[-1].get(parts[-1])
    if entry is None or stat.S_ISDIR(entry.mode):
        return
    del levels[-1][parts[-1]]
    for at in range(len(levels) - 1, 0, -1):
        if levels[at]:
            levels[at - 1][parts[at - 1]] = Entry(TREE, objects.put_tree(levels[at]))
        else:
            del levels[at - 1][parts[at - 1]]

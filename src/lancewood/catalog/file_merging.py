"""Doing to one set of files what became of another: the three-way merge of trees, file by file.

A file is taken as a whole: it has one content, or two that do not go together. Modes, links and
commits of other repositories, which git can put into a tree, come along as they are.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator, Mapping, Sequence

from lancewood.git.objects import TREE, Entry, Objects

_DEEPEST = 200
"""Directories in each other that both sides changed; deeper ones do not go together."""


def merge_entries(
    objects: Objects,
    before: Mapping[str, Entry],
    after: Mapping[str, Entry],
    now: Mapping[str, Entry],
) -> tuple[dict[str, Entry], list[str]]:
    """The entries ``now`` with what changed from ``before`` to ``after``, and the paths that were
    changed both there and here, in different ways.

    Only directories that both sides changed are read. New ones are put, and not synced.
    """
    return _merged(objects, before, after, now, "", 0)


def _merged(
    objects: Objects,
    before: Mapping[str, Entry],
    after: Mapping[str, Entry],
    now: Mapping[str, Entry],
    above: str,
    depth: int,
) -> tuple[dict[str, Entry], list[str]]:
    found, refused = dict(now), list[str]()
    for name in sorted({*before, *after}):
        then, wanted, here = before.get(name), after.get(name), now.get(name)
        if wanted in (then, here):
            continue
        if here == then:
            if wanted is None:
                del found[name]
            else:
                found[name] = wanted
            continue
        path, sides = f"{above}{name}", (then, wanted, here)
        if depth == _DEEPEST or not all(map(_may_be_directory, sides)) or here is None:
            refused.append(path)
            continue
        first, second, third = (_entries(objects, each) for each in sides)
        merged, more = _merged(objects, first, second, third, f"{path}/", depth + 1)
        refused += more
        if merged:
            found[name] = Entry(TREE, objects.put_tree(merged))
        else:
            del found[name]
    return found, refused


def crossed_paths(
    objects: Objects,
    bases: Sequence[Mapping[str, Entry]],
    after: Mapping[str, Entry],
    now: Mapping[str, Entry],
) -> list[str]:
    """The paths that differ between ``after`` and ``now``, and in which several bases of the two
    differ: each base would tell another change."""
    return [*_crossed(objects, bases, after, now, "", 0)]


def _crossed(
    objects: Objects,
    bases: Sequence[Mapping[str, Entry]],
    after: Mapping[str, Entry],
    now: Mapping[str, Entry],
    above: str,
    depth: int,
) -> Iterator[str]:
    for name in sorted({*after, *now}.union(*bases)):
        then, wanted, here = [each.get(name) for each in bases], after.get(name), now.get(name)
        if wanted == here or all(each == then[0] for each in then):
            continue
        path, sides = f"{above}{name}", [*then, wanted, here]
        if depth == _DEEPEST or not all(map(_may_be_directory, sides)):
            yield path
            continue
        *below, there, ours = (_entries(objects, each) for each in sides)
        yield from _crossed(objects, below, there, ours, f"{path}/", depth + 1)


def _may_be_directory(entry: Entry | None) -> bool:
    return entry is None or stat.S_ISDIR(entry.mode)


def _entries(objects: Objects, entry: Entry | None) -> Mapping[str, Entry]:
    return {} if entry is None else objects.tree(entry.hash)

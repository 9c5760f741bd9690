"""Whether the files that a version adds are there, checked before it is published.

Until then no version names them, and a cleanup whose clock is wrong, or that does not know the
repository, mistakes them for leftovers of a failed writer. A version without its files would make
the whole table unreadable. Only files that are new with the version are checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from functools import partial
from itertools import chain
from typing import TypeAlias

from lancewood.engine.location import Location
from lancewood.errors import StorageError
from lancewood.model.fragment import DataFile, Fragment
from lancewood.model.manifest import Manifest
from lancewood.model.transaction import ManifestPatch, Operation
from lancewood.proto import table_pb2
from lancewood.rules.columns import new_fragments
from lancewood.store.base import Store, is_there
from lancewood.store.together import together

_FEW = 256
"""Up to this many files are checked one by one; for more, their directories are listed."""

File: TypeAlias = tuple[Store, str]
"""A store and a key."""


def lost_file(
    location: Location,
    source: Manifest,
    patch: ManifestPatch,
    state: Manifest,
    seen: Set[File] = frozenset(),
) -> str | None:
    """A file that a patch of ``source`` adds to a state, that was not seen, and that is gone.

    A store that no codec can write to, such as one in memory, has no data files to lose.
    """
    changed = ((source.fragment(number), each) for number, each in patch.replace.items())
    added = ((None, each) for each in patch.add)
    files = {*_files(location, state, chain(changed, added))} - seen
    return min(_lost(_that_may_go(files)), default=None)


def seen_files(
    location: Location, base: Manifest, operations: Iterable[Operation]
) -> frozenset[File]:
    """The files of new fragments in the table's own root that are there. They can be checked before
    it is known which version they become part of."""
    fragments = ((None, each) for each in new_fragments(operations))
    files = _that_may_go({*_files(location, base, fragments, own_root=True)})
    try:
        lost = {*_lost(files)}
    except StorageError:
        return frozenset()
    return frozenset(each for each in files if each[1] not in lost)


def _that_may_go(files: Set[File]) -> set[File]:
    return {(store, key) for store, key in files if store.location(key) is not None}


def lost_staged_file(location: Location, before: Manifest | None, state: Manifest) -> str | None:
    """A file below the root of a staged state's branch that the state needs, the version before it
    does not have, and that is gone."""
    known = frozenset[bytes]() if before is None else frozenset(before.message.fragments)
    fresh = [each for each in state.message.fragments if each not in known]
    own = Manifest(table_pb2.Manifest(fragments=fresh), name=state.name)
    files = _files(location, state, [(None, each) for each in own.fragments], own_root=True)
    return min(_lost({*files}), default=None)


def _files(
    location: Location,
    state: Manifest,
    fragments: Iterable[tuple[Fragment | None, Fragment]],
    *,
    own_root: bool = False,
) -> Iterator[File]:
    """The files that fragments have now and did not have before."""
    for before, now in fragments:
        known = set() if before is None else {*map(_name, _data_files(before))}
        for each in _data_files(now):
            is_elsewhere = own_root and each.HasField("base_id")
            if _name(each) not in known and not is_elsewhere:
                yield location.data_file(state, DataFile(each))
        deletion = now.deletion_file
        if deletion is None or (before is not None and deletion == before.deletion_file):
            continue
        found = location.deletion_file(state, now)
        if found is not None and not (own_root and deletion.base_id is not None):
            yield found


def _data_files(fragment: Fragment) -> Iterator[table_pb2.DataFile]:
    yield from fragment.message.files
    yield from (each.data_file for each in fragment.message.overlays)


def _name(file: table_pb2.DataFile) -> tuple[str, int | None]:
    return file.path, file.base_id if file.HasField("base_id") else None


def _lost(files: set[File]) -> list[str]:
    """The keys of the files that are not there."""
    lost: list[str] = []

    def look(store: Store, key: str) -> None:
        if not is_there(store, key):
            lost.append(key)

    if len(files) <= _FEW:
        together([partial(look, *each) for each in sorted(files, key=lambda each: each[1])])
    else:
        lost.extend(_not_listed(files))
    return lost


def _not_listed(files: set[File]) -> Iterator[str]:
    directories: dict[tuple[Store, str], set[str]] = {}
    for store, key in files:
        directory, _, name = key.rpartition("/")
        directories.setdefault((store, directory), set()).add(name)
    for (store, directory), names in directories.items():
        for each in store.names(directory):
            names.discard(each)
            if not names:
                break
        yield from (f"{directory}/{each}" for each in names)

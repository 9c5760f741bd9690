"""Where the new files of a change go, which roots a caller means, and removing the files of a
change that does not land.

Data files of main and of a clone go to the table's own root. Those of a branch go to the main root,
if a base path of the branch names it: so a published branch leaves nothing behind. Where none does,
as after the table was moved, they stay below the branch; so do those with blobs of the first
layout, because pylance 14 looks for such bytes in the own root only. Deletion files are always
below the own root. A caller may name other roots: base paths by name, id or path.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from lancewood.data.file_root import FileRoot
from lancewood.engine.base import as_list
from lancewood.engine.location.base_paths import (
    ALL,
    BasePath,
    is_table_root,
    owner_of_location,
    uri_of_base,
)
from lancewood.engine.location.deletion_vectors import deletion_key
from lancewood.engine.location.location import Location
from lancewood.engine.location.moved_roots import present_roots
from lancewood.errors import InvalidInputError, StorageError
from lancewood.format.layout import DATA_DIR, key_in_base
from lancewood.model.fragment import DataFile, Fragment
from lancewood.model.ids import BaseId
from lancewood.model.manifest import ManifestHead
from lancewood.model.schema import BLOB, BLOB_V1_TYPES
from lancewood.proto import table_pb2
from lancewood.store.base import Store
from lancewood.store.locate import open_store


def own_file_root(location: Location) -> FileRoot:
    """The ``data/`` directory of a table's own root."""
    return FileRoot(location.store, storage_options=location.storage_options)


def default_file_root(location: Location, head: ManifestHead) -> FileRoot:
    """Where new data files go unless the caller says otherwise."""
    main = location.main(head)
    if main is None or _has_old_blobs(head):
        return own_file_root(location)
    for base in head.base_paths:
        if base.is_dataset_root and location.is_at(base, main):
            return base_file_root(location, base)
    return own_file_root(location)


def _has_old_blobs(head: ManifestHead) -> bool:
    return any(BLOB in each.metadata and each.logical_type in BLOB_V1_TYPES for each in head.fields)


def base_file_root(location: Location, base: table_pb2.BasePath) -> FileRoot:
    """The directory of a base path that holds data files."""
    return FileRoot(
        location.base_store(base),
        DATA_DIR if base.is_dataset_root else "",
        BaseId(base.id),
        location.options_of(base),
    )


class NewFile(NamedTuple):
    """A file that was written for a change, and that nothing refers to yet."""

    key: str
    """A key below the own root, or the bare name of a data file in another root."""
    base_id: BaseId | None = None


def new_data_files(fragments: Iterable[Fragment]) -> tuple[NewFile, ...]:
    """The data files of new fragments."""
    return tuple(new_data_file(file) for each in fragments for file in each.files)


def new_data_file(file: DataFile) -> NewFile:
    if file.base_id is None:
        return NewFile(f"{DATA_DIR}/{file.path}")
    return NewFile(file.path, file.base_id)


def new_deletion_files(fragments: Iterable[Fragment]) -> tuple[NewFile, ...]:
    """The deletion files of changed fragments."""
    return tuple(
        NewFile(deletion_key(each.id, each.deletion_file))
        for each in fragments
        if each.deletion_file is not None
    )


def discard(location: Location, head: ManifestHead, files: Iterable[NewFile]) -> None:
    """Remove files that nothing refers to. Best effort: cleanup finds the rest by age."""
    file_roots: dict[BaseId | None, list[str]] = {}
    for each in files:
        file_roots.setdefault(each.base_id, []).append(each.key)
    bases = {each.id: each for each in head.base_paths}
    for base_id, keys in file_roots.items():
        store: Store = location.store
        if base_id is not None:
            base = bases[base_id]
            store = location.base_store(base)
            keys = [key_in_base(base, DATA_DIR, each) for each in keys]
        with contextlib.suppress(StorageError):
            store.delete(keys)


Base: TypeAlias = int | str | os.PathLike[str] | BasePath | None
"""A base path by its id, name or path; None, or the table's own path, is the table's own root."""
Bases: TypeAlias = Base | Sequence[Base]
"""One base or several; the text ``"all"`` means every root there is."""


def find_base_path(location: Location, head: ManifestHead, base: Base) -> table_pb2.BasePath | None:
    """The base path that a caller means; None for the table's own root.

    Raises InvalidInputError where the table has no such base path.
    """
    if base is None:
        return None
    location.settle(head)
    if isinstance(base, BasePath):
        base = base.path if base.id is None else base.id
    if isinstance(base, int) and not isinstance(base, bool):
        found = [each for each in head.base_paths if each.id == base]
    elif isinstance(base, str | os.PathLike) and base:
        found = [each for each in head.base_paths if each.HasField("name") and each.name == base]
        if not found:
            there = open_store(base)
            if there.uri == location.uri:
                return None
            found = [each for each in head.base_paths if base == each.path]
            found = found or [each for each in head.base_paths if location.leads_to(each, there)]
            if len({each.is_dataset_root for each in found}) == 1:
                return min(found, key=lambda each: each.id)  # the ids of one place mean the same
    else:
        raise InvalidInputError(
            f"a base path is given by its id, name or path, and the own root by None, got {base!r}"
        )
    if len(found) == 1:
        return found[0]
    if found:
        raise InvalidInputError(
            f"base path {base!r} is declared {len(found)} times by {location.uri}; use its id"
        )
    which = f"version {head.version} of " if head.version else ""
    raise InvalidInputError(
        f"base path {base!r} not found: {which}{location.uri} declares "
        f"{_declared_text(head.base_paths)}",
        base=base if isinstance(base, int) else str(base),
    )


def file_roots_to_write(location: Location, head: ManifestHead, bases: Bases) -> list[FileRoot]:
    """The roots for new data files, to be filled in turn.

    ``"all"`` is the default root and every base path except the roots of other tables. Raises
    InvalidInputError for an unknown root, or one where the cleanup of another table would delete
    the files as its own garbage.
    """
    if isinstance(bases, str) and bases == ALL:
        return list(_all_file_roots(location, head))
    found = [find_file_root(location, head, each) for each in _listed(bases)]
    if not found:
        raise InvalidInputError("bases is an empty list; name a base path, or leave bases out")
    return _distinct(found)


def find_file_root(location: Location, head: ManifestHead, base: Base) -> FileRoot:
    """The root that a caller means for new data files; raises what ``file_roots_to_write``
    raises."""
    found = find_base_path(location, head, base)
    if found is None or location.leads_to(found, location.store):
        return own_file_root(location)
    main = location.main(head)
    if main is not None and _may_be_main(location, head, found):
        raise InvalidInputError(
            f"the table was moved to {main.uri}, and base path {base!r} may mean that root, but "
            f"no file proves it; say with set_base(id, {main.uri!r}) which base path does",
            base=found.id,
        )
    owner = _owner(location, head, found)
    if owner is not None:
        raise InvalidInputError(
            f"base path {base!r} holds the table at {owner}, whose cleanup would remove files "
            "that it does not know; write to another base path",
            base=found.id,
        )
    return base_file_root(location, found)


def ids_to_read(location: Location, head: ManifestHead, bases: Bases) -> frozenset[BaseId | None]:
    """The base ids of the roots, None for the own root, however they are declared.

    Raises InvalidInputError for an unknown root.
    """
    location.settle(head)
    own = (location.uri, DATA_DIR)
    known: dict[BaseId | None, tuple[str, str]] = {None: own}
    for each in head.base_paths:
        directory = DATA_DIR if each.is_dataset_root else ""
        known[BaseId(each.id)] = (uri_of_base(location, each), directory)
    if isinstance(bases, str) and bases == ALL:
        return frozenset(known)
    chosen = set()
    for wanted in _listed(bases):
        found = find_base_path(location, head, wanted)
        chosen.add(own if found is None else known[BaseId(found.id)])
    return frozenset(base_id for base_id, file_root in known.items() if file_root in chosen)


def _listed(bases: Bases) -> list[Base]:
    if bases is None or isinstance(bases, int | str | os.PathLike | BasePath):
        return [bases]
    return as_list("bases", bases)


def _all_file_roots(location: Location, head: ManifestHead) -> Iterator[FileRoot]:
    location.settle(head)
    usual = default_file_root(location, head)
    yield usual
    for each in sorted(head.base_paths, key=lambda base: base.id):
        if any(location.leads_to(each, known) for known in (location.store, usual.store)):
            continue
        if not _may_be_main(location, head, each) and _owner(location, head, each) is None:
            yield base_file_root(location, each)


def _owner(location: Location, head: ManifestHead, base: table_pb2.BasePath) -> str | None:
    """The table whose cleanup would delete files there; the main root of a branch does not
    count."""
    store = location.base_store(base)
    main = location.main(head)
    if base.is_dataset_root and main is not None and store.uri == main.uri:
        return None
    if base.is_dataset_root and is_table_root(store):
        return store.uri
    if base.is_dataset_root and location.finding(base) is None:
        *branches, _ = present_roots(main or location.store, base)
        for each in branches:  # it was moved, but no file of it is here to prove it
            if is_table_root(each):
                return each.uri
    return owner_of_location(location, base)


def _may_be_main(location: Location, head: ManifestHead, base: table_pb2.BasePath) -> bool:
    """Whether a base path may name the main root of a branch at an old location.

    That is so if no file of it is known, no other base path is known to lead to the table's roots,
    and it has no name, as the main root never has.
    """
    if head.branch is None or not base.is_dataset_root or base.name:
        return False
    known = map(location.finding, head.base_paths)
    return location.finding(base) is None and all(
        each is None or each.root is None for each in known
    )


def _distinct(file_roots: Iterable[FileRoot]) -> list[FileRoot]:
    return list({each.base_id: each for each in file_roots}.values())


def _declared_text(bases: Sequence[table_pb2.BasePath]) -> str:
    if not bases:
        return "none"
    shown = [f"{each.id} {each.name or each.path!r}" for each in bases[:20]]
    return ", ".join(shown) + (", …" if len(bases) > 20 else "")

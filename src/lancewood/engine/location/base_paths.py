"""Base paths as callers give and see them, the checks before a table declares one, and which of
them still name the location that a table was moved away from.

Lancewood finds the files of a moved table anyway (``moved_roots``); readers that rely on the
recorded paths do not.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from lancewood.engine.base import as_list, check_number
from lancewood.engine.location.location import Location
from lancewood.engine.location.moved_roots import find_trace, is_relative
from lancewood.errors import InvalidInputError, LancewoodError, StorageError, UnsupportedError
from lancewood.format.layout import OWNED_DIRS, VERSIONS_DIR, parse_manifest_name
from lancewood.model.ids import BaseId
from lancewood.model.manifest import Manifest
from lancewood.model.transaction import check_text
from lancewood.proto import table_pb2
from lancewood.rules.apply import with_bases
from lancewood.store.base import Store
from lancewood.store.locate import open_store
from lancewood.store.options import StorageOptions

ALL = "all"
"""Means every root of a table, so no base path may have this name."""


@dataclass(frozen=True, slots=True, init=False)
class BasePath:
    """Another root of a table's files: ``BasePath("s3://cold/photos", name="cold")``.

    ``path`` is absolute; a relative one is made absolute at once. Data files lie directly in it or,
    where ``is_dataset_root`` is true, in its directory ``data``. ``id`` is the table's number for
    it: None if no table declares it yet. A table's own list spells paths as the manifest does.
    """

    path: str
    name: str | None
    is_dataset_root: bool
    id: int | None

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        name: str | None = None,
        is_dataset_root: bool = False,
        id: int | None = None,
    ) -> None:
        if not isinstance(is_dataset_root, bool):
            raise InvalidInputError(f"is_dataset_root is True or False, got {is_dataset_root!r}")
        if name is not None:
            check_text("the name of a base path", name)
        if id is None:
            path = normal_path(path)
        else:
            check_number("the id of a base path", id)
            if not isinstance(path, str | os.PathLike):
                raise InvalidInputError(
                    f"the path of a base path is a text or a path, got {path!r}"
                )
            path = os.fspath(path)
        for field, value in (("path", path), ("name", name), ("id", id)):
            object.__setattr__(self, field, value)
        object.__setattr__(self, "is_dataset_root", is_dataset_root)


NewBase: TypeAlias = BasePath | str | os.PathLike[str]
"""A base path to be declared; a bare path has no name and is not a dataset root."""


def normal_path(path: str | os.PathLike[str]) -> str:
    """A path or URI as manifests should spell it: absolute, without a trailing slash."""
    if path == "":
        raise InvalidInputError("a base path needs a path, got an empty text")
    return open_store(path).uri


def uri_of_base(location: Location, base: table_pb2.BasePath) -> str:
    """Where a base path leads; as recorded, where it cannot be opened here."""
    try:
        return location.base_store(base).uri
    except LancewoodError:
        return base.path


def declared_bases(bases: Iterable[table_pb2.BasePath]) -> tuple[BasePath, ...]:
    """The base paths that a manifest declares, by id: pylance writes them in any order."""
    return tuple(
        BasePath(
            each.path,
            name=each.name if each.HasField("name") else None,
            is_dataset_root=each.is_dataset_root,
            id=each.id,
        )
        for each in sorted(bases, key=lambda base: base.id)
    )


def new_base_paths(
    location: Location, known: tuple[table_pb2.BasePath, ...], bases: Iterable[NewBase]
) -> tuple[table_pb2.BasePath, ...]:
    """The bases with the ids that they get beside the known ones, counted from 1; raises what
    ``checked_bases`` raises."""
    new = checked_bases(location, known, bases)
    return with_bases(known, new)[len(known) :]


def checked_bases(
    location: Location, known: Iterable[table_pb2.BasePath], bases: Iterable[NewBase]
) -> tuple[table_pb2.BasePath, ...]:
    """The bases to be declared, without ids.

    Raises InvalidInputError for a name or location that is taken, the table's own root, and a
    location where a cleanup would delete the files as its own garbage.
    """
    known = tuple(known)
    listed = as_list("bases", bases)
    new = [each if isinstance(each, BasePath) else BasePath(each) for each in listed]
    taken = {uri_of_base(location, each): f"base path {each.id}" for each in known}
    taken[location.uri] = "the table's own root"
    names = {each.name for each in known if each.HasField("name")}
    for each in new:
        if each.id is not None:
            raise InvalidInputError(
                f"base path {each.path!r} has the id {each.id} already: it belongs to a table, and "
                "a new one gets its id when it is declared; leave id out"
            )
        _check_name(each, names)
        if each.path in taken:
            raise InvalidInputError(
                f"base path {each.path!r} is not allowed: it is {taken[each.path]}", path=each.path
            )
        taken[each.path] = f"given twice, as {each.path!r}"
        check_location(location, _message(each))
    return tuple(map(_message, new))


def owner_of_location(location: Location, base: table_pb2.BasePath) -> str | None:
    """The root of the table in whose own directories a base path lies; None where it is free.

    The directories of ``location`` count whether or not there is a table yet. A location that may
    not be read counts as free.
    """
    for above in _roots_above(uri_of_base(location, base)):
        if above == location.uri:
            return above
        if is_table_root(open_store(above, storage_options=location.options_of(base))):
            return above
    return None


def is_table_root(store: Store) -> bool:
    """Whether there are manifests; a store that does not answer counts as having none."""
    try:
        return any(parse_manifest_name(each) is not None for each in store.names(VERSIONS_DIR))
    except StorageError:
        return False


def base_options(
    options: Mapping[str, Mapping[str, str]] | None,
) -> dict[str, Mapping[str, str]]:
    """Storage options of bases by name or normalised path."""
    if options is not None and not isinstance(options, Mapping):
        raise InvalidInputError(
            "base_storage_options takes a dictionary from the name or path of a base path to its "
            f"storage options, got a {type(options).__name__}"
        )
    found: dict[str, Mapping[str, str]] = {}
    for key, each in (options or {}).items():
        if not isinstance(key, str | os.PathLike) or not key:
            raise InvalidInputError(
                f"base_storage_options are for the name or path of a base path, got {key!r}"
            )
        hidden = StorageOptions(each)
        found[os.fspath(key)] = hidden
        found.setdefault(normal_path(key), hidden)
    return found


def _message(base: BasePath) -> table_pb2.BasePath:
    return table_pb2.BasePath(name=base.name, path=base.path, is_dataset_root=base.is_dataset_root)


def _check_name(base: BasePath, names: set[str]) -> None:
    if base.name is None:
        return
    problem = None
    if base.name == "":
        problem = "it is empty; leave it out"
    elif base.name == ALL:
        problem = "it stands for all roots of a table"
    elif base.name in names:
        problem = "another base path of the table has that name"
    if problem:
        raise InvalidInputError(
            f"the name {base.name!r} of base path {base.path!r} is not allowed: {problem}",
            name=base.name,
        )
    names.add(base.name)


def check_location(location: Location, base: table_pb2.BasePath) -> None:
    """Raise InvalidInputError for a location where a cleanup would delete files as garbage."""
    owner = owner_of_location(location, base)
    if owner is not None:
        raise InvalidInputError(
            f"base path {base.path!r} is not allowed: it lies in a directory of the table at "
            f"{owner}, whose cleanup would remove files that it does not know; choose a place "
            "outside of it",
            path=base.path,
        )


def _roots_above(uri: str) -> Iterator[str]:
    """The roots of tables whose own directories would contain the location."""
    scheme, mark, rest = uri.rpartition("://")
    segments = rest.split("/")
    for at, each in enumerate(segments):
        if at and each in OWNED_DIRS:
            yield scheme + mark + "/".join(segments[:at]) or "/"


def moved_bases(
    location: Location, manifest: Manifest, *, also_relative: bool = False
) -> dict[str, str]:
    """The recorded paths of base paths that moved, and the roots of the table that they are today.

    ``also_relative`` includes those that are right in this working directory and in no other.
    """
    location.settle(manifest)
    moved = {}
    for base in manifest.base_paths:
        found = location.finding(base)
        if found is None or found.root is None:
            continue
        if found.is_moved or (
            also_relative and is_relative(base.path) and _proves(manifest, base, found.root)
        ):
            moved[base.path] = found.root.uri
    return moved


def check_not_moved(location: Location, manifest: Manifest) -> None:
    """Raise UnsupportedError where pylance would look for files at an old location."""
    moved = moved_bases(location, manifest)
    if moved:
        old, new = next(iter(moved.items()))
        raise UnsupportedError(
            f"{location.uri} was moved: pylance would look for files of {new} at {old}; relocate() "
            "writes the present place into the manifests",
            path=old,
        )


def _proves(manifest: Manifest, base: table_pb2.BasePath, root: Store) -> bool:
    trace = find_trace(manifest, BaseId(base.id))
    return trace is not None and trace.is_below(root)

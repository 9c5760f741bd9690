"""Which homes a caller means: base paths by name, id or path, and the table's own root.

Writers get the homes that new data files go to, readers the base ids that stand for them. Does not
know rows, and writes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from lancewood.data.home import DataHome
from lancewood.engine.base_homes import present_roots
from lancewood.engine.base_paths import (
    ALL,
    BasePath,
    is_table_root,
    owner_of_place,
    uri_of_base,
)
from lancewood.engine.homes import base_home, data_home, own_home
from lancewood.engine.limits import as_list
from lancewood.engine.place import Place
from lancewood.errors import InvalidInputError
from lancewood.format.layout import DATA_DIR
from lancewood.model.ids import BaseId
from lancewood.model.manifest import ManifestHead
from lancewood.proto import table_pb2
from lancewood.store.locate import open_store

Base: TypeAlias = int | str | os.PathLike[str] | BasePath | None
"""A base path by its id, name or path; None, or the table's own path, is the table's own root."""
Bases: TypeAlias = Base | Sequence[Base]
"""One base or several; the text ``"all"`` means every home there is."""


def find_base_path(place: Place, head: ManifestHead, base: Base) -> table_pb2.BasePath | None:
    """The base path that a caller means; None for the table's own root.

    Raises InvalidInputError where the table has none that is called so.
    """
    if base is None:
        return None
    place.settle(head)
    if isinstance(base, BasePath):
        base = base.path if base.id is None else base.id
    if isinstance(base, int) and not isinstance(base, bool):
        found = [each for each in head.base_paths if each.id == base]
    elif isinstance(base, str | os.PathLike) and base:
        found = [each for each in head.base_paths if each.HasField("name") and each.name == base]
        if not found:
            there = open_store(base)
            if there.uri == place.uri:
                return None
            found = [each for each in head.base_paths if base == each.path]
            found = found or [each for each in head.base_paths if place.leads_to(each, there)]
    else:
        raise InvalidInputError(
            f"a base path is meant by its id, name or path, and the own root by None, got {base!r}"
        )
    if len(found) == 1:
        return found[0]
    if found:
        raise InvalidInputError(
            f"base path {base!r} is declared {len(found)} times by {place.uri}; use its id"
        )
    which = f"version {head.version} of " if head.version else ""
    raise InvalidInputError(
        f"base path {base!r} not found: {which}{place.uri} declares {_told(head.base_paths)}",
        base=base if isinstance(base, int) else str(base),
    )


def homes_to_write(place: Place, head: ManifestHead, bases: Bases) -> list[DataHome]:
    """Where new data files go: to each of the homes in turn.

    ``"all"`` is where files go anyway and every base path but the roots of other tables. Raises
    InvalidInputError for a home that is not there, or where the cleanup of another table would
    take the files for its own garbage.
    """
    if isinstance(bases, str) and bases == ALL:
        return list(_all_homes(place, head))
    found = [find_home(place, head, each) for each in _listed(bases)]
    if not found:
        raise InvalidInputError("bases is an empty list; name a base path, or leave bases out")
    return _distinct(found)


def find_home(place: Place, head: ManifestHead, base: Base) -> DataHome:
    """The home that a caller means, for new data files; raises as ``homes_to_write`` does."""
    found = find_base_path(place, head, base)
    if found is None or place.leads_to(found, place.store):
        return own_home(place)
    main = place.main(head)
    if main is not None and _may_be_main(place, head, found):
        raise InvalidInputError(
            f"the table was moved to {main.uri}, and base path {base!r} may stand for that root: "
            f"no file tells; say with set_base(id, {main.uri!r}) which base path does",
            base=found.id,
        )
    owner = _owner(place, head, found)
    if owner is not None:
        raise InvalidInputError(
            f"base path {base!r} holds the table at {owner}, whose cleanup would remove files "
            "that it does not know; write to another base path",
            base=found.id,
        )
    return base_home(place, found)


def ids_to_read(place: Place, head: ManifestHead, bases: Bases) -> frozenset[BaseId | None]:
    """The base ids that stand for the homes, None for the own root, however they are declared.

    Raises InvalidInputError for a home that is not there.
    """
    place.settle(head)
    own = (place.uri, DATA_DIR)
    known: dict[BaseId | None, tuple[str, str]] = {None: own}
    for each in head.base_paths:
        directory = DATA_DIR if each.is_dataset_root else ""
        known[BaseId(each.id)] = (uri_of_base(place, each), directory)
    if isinstance(bases, str) and bases == ALL:
        return frozenset(known)
    chosen = set()
    for wanted in _listed(bases):
        found = find_base_path(place, head, wanted)
        chosen.add(own if found is None else known[BaseId(found.id)])
    return frozenset(base_id for base_id, home in known.items() if home in chosen)


def _listed(bases: Bases) -> list[Base]:
    if bases is None or isinstance(bases, int | str | os.PathLike | BasePath):
        return [bases]
    return as_list("bases", bases)


def _all_homes(place: Place, head: ManifestHead) -> Iterator[DataHome]:
    place.settle(head)
    usual = data_home(place, head)
    yield usual
    for each in sorted(head.base_paths, key=lambda base: base.id):
        if any(place.leads_to(each, known) for known in (place.store, usual.store)):
            continue
        if not _may_be_main(place, head, each) and _owner(place, head, each) is None:
            yield base_home(place, each)


def _owner(place: Place, head: ManifestHead, base: table_pb2.BasePath) -> str | None:
    """The table that would take files there for its own; the main root of a branch would not."""
    store = place.base_store(base)
    main = place.main(head)
    if base.is_dataset_root and main is not None and store.uri == main.uri:
        return None
    if base.is_dataset_root and is_table_root(store):
        return store.uri
    if base.is_dataset_root and place.finding(base) is None:
        *branches, _ = present_roots(main or place.store, base)
        for each in branches:  # it was moved, but no file of it is here to tell
            if is_table_root(each):
                return each.uri
    return owner_of_place(place, base)


def _may_be_main(place: Place, head: ManifestHead, base: table_pb2.BasePath) -> bool:
    """Whether a base path may stand for the main root of a branch, at the place where it was.

    So it is with one of which no file is known, where none is known to lead to the table's roots.
    That of a main root has no name.
    """
    if head.branch is None or not base.is_dataset_root or base.name:
        return False
    known = map(place.finding, head.base_paths)
    return place.finding(base) is None and all(each is None or each.root is None for each in known)


def _distinct(homes: Iterable[DataHome]) -> list[DataHome]:
    return list({each.base_id: each for each in homes}.values())


def _told(bases: Sequence[table_pb2.BasePath]) -> str:
    if not bases:
        return "none"
    told = [f"{each.id} {each.name or each.path!r}" for each in bases[:20]]
    return ", ".join(told) + (", …" if len(bases) > 20 else "")

"""Where a pinned table is: its uri as pins write it, and the place that it leads to now.

A table below the repository is found where the repository is now, wherever it was when the pin was
written; any other by its full uri. Opens nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from lancewood.catalog.names import TABLES_DIR, own_table, own_table_uri
from lancewood.catalog.pin import Pin, check_uri
from lancewood.engine.location import Location
from lancewood.engine.snapshot import branch_location
from lancewood.errors import InvalidInputError
from lancewood.git.names import RepositoryRoot, below
from lancewood.store.base import Store
from lancewood.store.locate import open_store


def pinned_uri(root: str, repository: RepositoryRoot) -> str:
    """The uri that a pin has for a table whose main root is there (``Store.uri``).

    Raises InvalidInputError for a place that no pin may name, such as one inside the repository
    but not among its tables.
    """
    for inside in _inside(root, repository):
        return _checked_own(inside, root)
    check_uri(root)
    return root


def main_location_of(
    pin: Pin,
    repository: RepositoryRoot,
    *,
    storage_options: Mapping[str, str] | None = None,
    fsync: bool | None = None,
    stores: dict[str, Store] | None = None,
) -> Location:
    """The main root of the pinned table, where its refs are. The options are for other places
    than a disk. ``stores`` are those that are open already, by the uri of a pin; a new one is
    added. Raises InvalidInputError where a link leads out of the repository."""
    is_own = own_table(pin.uri) is not None
    where: RepositoryRoot = Path(pin.uri) if "://" not in pin.uri else pin.uri
    if is_own:
        where = below(repository, pin.uri)
    store = None if stores is None else stores.get(pin.uri)
    if store is None:
        store = open_store(where, fsync=fsync, storage_options=storage_options)
        if stores is not None:
            store = stores.setdefault(pin.uri, store)
    is_on_disk = is_own and isinstance(repository, Path)
    return Location(store) if is_on_disk else Location(store, storage_options)


def location_of(
    pin: Pin,
    repository: RepositoryRoot,
    *,
    storage_options: Mapping[str, str] | None = None,
    fsync: bool | None = None,
    stores: dict[str, Store] | None = None,
) -> Location:
    """The root of the branch that a pin speaks of."""
    main = main_location_of(
        pin, repository, storage_options=storage_options, fsync=fsync, stores=stores
    )
    return branch_location(main, pin.branch)


def inside_of(root: str, repository: RepositoryRoot) -> str | None:
    """Where a place is below a repository; None for one that is elsewhere."""
    return next(_inside(root, repository), None)


def _inside(root: str, repository: RepositoryRoot) -> Iterator[str]:
    """Where a root is below the repository, by the paths that are used or without links."""
    if isinstance(repository, str):
        pairs = [(root, repository)]
    elif "://" in root:
        pairs = []
    else:
        used = str(repository)
        pairs = [
            (os.path.abspath(root), os.path.abspath(used)),
            (os.path.realpath(root), os.path.realpath(used)),
        ]
    yield from (inside for each in pairs if (inside := _below(*each)) is not None)


def _checked_own(inside: str, root: str) -> str:
    if own_table(inside) is None:
        raise InvalidInputError(
            f"{root} is inside the repository, but not at {own_table_uri('<name>')}: tables of a "
            f"repository lie in {TABLES_DIR}/, under the name that commits know them by; move it "
            "there, or out of the repository",
            uri=root,
        )
    return inside


def _below(path: str, above: str) -> str | None:
    start = f"{above.rstrip('/')}/"
    return path[len(start) :] if path.startswith(start) else None

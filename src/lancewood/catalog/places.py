"""Where a pinned table is: its uri as pins write it, and the place that it leads to now.

A table below the repository is found where the repository is now, wherever it was when the pin was
written; any other by its full uri. Opens nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from lancewood.catalog.names import TABLES_DIR, home_uri, table_at_home
from lancewood.catalog.pin import Pin, check_uri
from lancewood.engine.place import Place
from lancewood.engine.snapshot import branch_place
from lancewood.errors import InvalidInputError
from lancewood.git.names import Home, below
from lancewood.store.base import Store
from lancewood.store.locate import open_store


def pinned_uri(root: str, repository: Home) -> str:
    """The uri that a pin has for a table whose main root is there (``Store.uri``).

    Raises InvalidInputError for a place that no pin may name, such as one inside the repository
    but not among its tables.
    """
    for inside in _inside(root, repository):
        return _checked_home(inside, root)
    check_uri(root)
    return root


def main_place_of(
    pin: Pin,
    repository: Home,
    *,
    storage_options: Mapping[str, str] | None = None,
    fsync: bool | None = None,
    stores: dict[str, Store] | None = None,
) -> Place:
    """The main root of the pinned table, where its refs are. The options are for other places
    than a disk. ``stores`` are those that are open already, by the uri of a pin; a new one is
    added. Raises InvalidInputError where a link leads out of the repository."""
    is_at_home = table_at_home(pin.uri) is not None
    where: Home = Path(pin.uri) if "://" not in pin.uri else pin.uri
    if is_at_home:
        where = below(repository, pin.uri)
    store = None if stores is None else stores.get(pin.uri)
    if store is None:
        store = open_store(where, fsync=fsync, storage_options=storage_options)
        if stores is not None:
            store = stores.setdefault(pin.uri, store)
    is_on_disk = is_at_home and isinstance(repository, Path)
    return Place(store) if is_on_disk else Place(store, storage_options)


def place_of(
    pin: Pin,
    repository: Home,
    *,
    storage_options: Mapping[str, str] | None = None,
    fsync: bool | None = None,
    stores: dict[str, Store] | None = None,
) -> Place:
    """The root of the branch that a pin speaks of."""
    main = main_place_of(
        pin, repository, storage_options=storage_options, fsync=fsync, stores=stores
    )
    return branch_place(main, pin.branch)


def inside_of(root: str, repository: Home) -> str | None:
    """Where a place is below a repository; None for one that is elsewhere."""
    return next(_inside(root, repository), None)


def _inside(root: str, repository: Home) -> Iterator[str]:
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


def _checked_home(inside: str, root: str) -> str:
    if table_at_home(inside) is None:
        raise InvalidInputError(
            f"{root} is inside the repository, but not at {home_uri('<name>')}: tables of a "
            f"repository lie in {TABLES_DIR}/, under the name that commits know them by; move it "
            "there, or out of the repository",
            uri=root,
        )
    return inside


def _below(path: str, above: str) -> str | None:
    start = f"{above.rstrip('/')}/"
    return path[len(start) :] if path.startswith(start) else None

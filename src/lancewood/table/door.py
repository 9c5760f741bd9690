"""The verbs that find a table by its place: create, open, exists, drop, migrate_names, repair."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa

from lancewood.engine.create import create_table
from lancewood.engine.drop import drop_table
from lancewood.engine.limits import FileLimits
from lancewood.engine.migrate import MigratedNames
from lancewood.engine.migrate import migrate_names as migrate_table_names
from lancewood.engine.place import Place
from lancewood.engine.snapshot import load_snapshot
from lancewood.engine.versions import newest_version
from lancewood.errors import InvalidInputError
from lancewood.jobs.runner import LocalRunner
from lancewood.jobs.upkeep.proposals import RepairReport
from lancewood.jobs.upkeep.repair import repair as repair_table
from lancewood.model.file_version import DEFAULT_FILE_VERSION
from lancewood.store.locate import open_store
from lancewood.store.options import StorageOptions
from lancewood.table.table import Table


def create(
    uri: str | os.PathLike[str],
    data: Any,
    *,
    schema: pa.Schema | None = None,
    stable_row_ids: bool = True,
    max_rows_per_file: int = FileLimits().max_rows,
    max_bytes_per_file: int = FileLimits().max_bytes,
    file_version: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    unsafe: bool = False,
    fsync: bool | None = None,
    message: str | None = None,
    properties: Mapping[str, str] | None = None,
) -> Table:
    """A new table with the data, or an empty one for a ``pyarrow.Schema``.

    ``data`` is anything that speaks Arrow; ``schema`` says which columns the table gets, where that
    is not the data's own schema. ``stable_row_ids`` gives every row an id that stays with it. A
    data file is closed at ``max_rows_per_file`` rows or ``max_bytes_per_file`` Arrow bytes;
    ``file_version`` is 2.0, 2.1 or 2.2. ``storage_options`` are credentials and settings of object
    stores, in the words that pylance takes. Before the first commit to one it must prove that it
    never writes over an object that is there; ``unsafe=True`` goes without the proof, and two
    writers at once may then lose a commit. ``fsync=False`` leaves the syncing of local files to
    the system. ``message`` and ``properties`` are kept with the version.

    Raises AlreadyExistsError if there is a table.
    """
    snapshot = create_table(
        _place(uri, storage_options, fsync, unsafe=unsafe),
        data,
        schema=schema,
        stable_row_ids=stable_row_ids,
        file_version=DEFAULT_FILE_VERSION if file_version is None else file_version,
        limits=FileLimits.checked(max_rows_per_file, max_bytes_per_file),
        message=message,
        properties=properties,
    )
    return Table(snapshot)


def open(
    uri: str | os.PathLike[str],
    *,
    version: int | None = None,
    as_of: datetime | None = None,
    storage_options: Mapping[str, str] | None = None,
    unsafe: bool = False,
    fsync: bool | None = None,
    allowed_bases: Sequence[str] | None = None,
) -> Table:
    """The table at its newest version, or at the version or moment asked for.

    ``unsafe`` is as for ``create``. ``allowed_bases`` restricts the other places that its manifests
    may send a reader to.
    Raises NotFoundError, or FormatError naming the newest readable version.
    """
    place = _place(uri, storage_options, fsync, allowed_bases, unsafe=unsafe)
    return Table(load_snapshot(place, version=version, as_of=as_of))


def exists(
    uri: str | os.PathLike[str], *, storage_options: Mapping[str, str] | None = None
) -> bool:
    """Whether there is a table; no manifest is opened."""
    return newest_version(open_store(uri, storage_options=storage_options)) is not None


def drop(
    uri: str | os.PathLike[str],
    *,
    force: bool = False,
    storage_options: Mapping[str, str] | None = None,
) -> None:
    """Delete a table: only what the format owns, other files below the root stay.

    Refuses a table that has branches or tags unless forced. Raises NotFoundError.
    """
    drop_table(open_store(uri, storage_options=storage_options), force=force)


def migrate_names(
    uri: str | os.PathLike[str],
    *,
    storage_options: Mapping[str, str] | None = None,
    unsafe: bool = False,
) -> MigratedNames:
    """Rename the manifests of a table and its branches from scheme V1 to V2, or finish doing so.

    Nobody may write meanwhile, and until it is done the table does not open; run it again if it
    was interrupted. Changes nothing where all names are V2.
    """
    return migrate_table_names(open_store(uri, storage_options=storage_options, unsafe=unsafe))


def repair(
    uri: str | os.PathLike[str],
    *,
    dry_run: bool = True,
    storage_options: Mapping[str, str] | None = None,
    unsafe: bool = False,
) -> RepairReport:
    """What would make a damaged table whole, also one that does not open.

    With ``dry_run=False`` it is done. Every proposal says what it changes, and nothing that may
    hold rows is removed.
    Raises NotFoundError where there is no table.
    """
    place = _place(uri, storage_options, None, unsafe=unsafe)
    return repair_table(place, LocalRunner(), dry_run=dry_run)


def _place(
    uri: str | os.PathLike[str],
    storage_options: Mapping[str, str] | None,
    fsync: bool | None,
    allowed_bases: Sequence[str] | None = None,
    *,
    unsafe: bool = False,
) -> Place:
    options = None if storage_options is None else StorageOptions(storage_options)
    store = open_store(uri, storage_options=options, fsync=fsync, unsafe=unsafe)
    if isinstance(allowed_bases, str) or not all(
        isinstance(each, str) for each in allowed_bases or ()
    ):
        raise InvalidInputError(f"allowed_bases takes a list of places, got {allowed_bases!r}")
    allowed = None if allowed_bases is None else tuple(allowed_bases)
    return Place(store, options, allowed)

"""One write to one table, in the steps that every door of Spark takes: plan, run, commit or abort.

``plan_write`` checks everything and writes nothing. ``WriteJob.run`` is called on executors, once
for each partition, perhaps more often. ``commit`` is called once, with what ``run`` answered; a
table that is not there is made by it, with its rows, so that a job that fails leaves none.
``abort`` removes files where it is proven that nothing refers to them. Knows nothing of frames but
their schema.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from lancewood.data.align import align_schema
from lancewood.data.home import DataHome
from lancewood.data.writer import check_columns
from lancewood.engine.base_paths import BasePath, NewBase, new_base_paths, uri_of_base
from lancewood.engine.chosen_homes import Bases, homes_to_write
from lancewood.engine.homes import own_home
from lancewood.engine.limits import FileLimits, as_list, check_choice, check_file_version
from lancewood.engine.manifest_stores import manifest_store_mark
from lancewood.engine.place import Place
from lancewood.engine.publish import PutIfAbsent
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import InvalidInputError
from lancewood.external.base import ManifestStore
from lancewood.format.layout import NamingScheme
from lancewood.format.manifest import empty_manifest
from lancewood.model.applied import AppliedBatch
from lancewood.model.file_version import DEFAULT_FILE_VERSION
from lancewood.model.manifest import FLAG_STABLE_ROW_IDS
from lancewood.model.transaction import commit_properties
from lancewood.proto import table_pb2
from lancewood.rules.applied import is_applied
from lancewood.spark.writing.columns import Columns, columns_of_table, new_columns
from lancewood.spark.writing.job import Mode, WriteJob, table_exists
from lancewood.spark.writing.target import find_target
from lancewood.spark.writing.work import WriteWork

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


@dataclass(frozen=True, slots=True)
class _Wishes:
    """What a caller says about columns and files; None where nothing is said."""

    schema: pa.Schema | None
    limits: FileLimits
    into: Bases
    stable_row_ids: bool | None
    file_version: str | None
    bases: tuple[NewBase, ...]

    def __post_init__(self) -> None:
        if self.schema is not None and not isinstance(self.schema, pa.Schema):
            raise InvalidInputError(f"schema takes a pyarrow.Schema, got {self.schema!r}")
        if self.stable_row_ids is not None and not isinstance(self.stable_row_ids, bool):
            raise InvalidInputError(f"stable_row_ids is True or False, got {self.stable_row_ids!r}")
        if self.file_version is not None:
            check_file_version(self.file_version)


def plan_write(
    uri: str | os.PathLike[str],
    frame: StructType,
    *,
    mode: Mode = "append",
    branch: str | None = None,
    schema: pa.Schema | None = None,
    max_rows_per_file: int = FileLimits().max_rows,
    max_bytes_per_file: int = FileLimits().max_bytes,
    into: Bases = None,
    stable_row_ids: bool | None = None,
    file_version: str | None = None,
    bases: Iterable[NewBase] = (),
    app: str | None = None,
    batch: int | None = None,
    message: str | None = None,
    properties: Mapping[str, str] | None = None,
    serializable: bool = False,
    storage_options: Mapping[str, str] | None = None,
    base_storage_options: Mapping[str, Mapping[str, str]] | None = None,
    manifest_store: str | ManifestStore | None = None,
    unsafe: bool = False,
    fsync: bool | None = None,
) -> WriteJob:
    """A write of rows that have the columns of ``frame``, checked as far as that is possible.

    See ``lancewood.spark.write`` for what the arguments mean. A job with nothing to do says so
    (``is_skipped``): its batch is in the table already, or ``mode`` is "ignore" and there is a
    table. Raises AlreadyExistsError for mode "error" and a table that is there. Writes nothing,
    but for the probe of an object store that is not yet known to be safe to commit to.
    """
    check_choice("mode", mode, Mode)
    applied = AppliedBatch.asked_for(app, batch)
    facts = commit_properties(message, properties)
    wishes = _Wishes(
        schema,
        FileLimits.checked(max_rows_per_file, max_bytes_per_file),
        into,
        stable_row_ids,
        file_version,
        tuple(as_list("bases", bases)),
    )
    target = find_target(
        uri,
        branch,
        storage_options=storage_options,
        base_storage_options=base_storage_options,
        manifest_store=manifest_store,
        unsafe=unsafe,
        fsync=fsync,
    )
    there = target.snapshot
    if there is None:
        work, base, declared = _new_table(target.place, frame, wishes)
        return WriteJob(work, base, mode, facts, applied, serializable, declared)
    if mode == "error":
        raise table_exists(there.place.uri)
    if mode == "ignore" or is_applied(there.manifest.config, applied):
        return WriteJob(None, there, mode, facts, applied, serializable)
    work = _added(there, frame, wishes) if mode == "append" else _replacing(there, frame, wishes)
    return WriteJob(work, there, mode, facts, applied, serializable)


def _new_table(
    place: Place, frame: StructType, wishes: _Wishes
) -> tuple[WriteWork, Snapshot, tuple[table_pb2.BasePath, ...]]:
    """What executors do, the state before the first version, and the base paths to be declared."""
    version = wishes.file_version or DEFAULT_FILE_VERSION
    declared = new_base_paths(place, (), wishes.bases)
    columns = new_columns(frame, None, wishes.schema)
    homes = [own_home(place)]
    if wishes.into is not None:
        with_bases = empty_manifest(version)
        with_bases.message.base_paths.extend(declared)
        homes = homes_to_write(place, with_bases, wishes.into)
    flags = 0 if wishes.stable_row_ids is False else FLAG_STABLE_ROW_IDS
    nothing = empty_manifest(version, flags=flags)
    nothing.message.config.update(manifest_store_mark(place.store))
    before = Snapshot(place, nothing, NamingScheme.V2)
    return _work(place, columns, homes, version, wishes), before, declared


def _added(there: Snapshot, frame: StructType, wishes: _Wishes) -> WriteWork:
    """For rows that a table gets besides its own."""
    _check_same(there, wishes)
    version = there.manifest.file_version
    if wishes.file_version not in (None, version):
        raise InvalidInputError(
            f"file_version {wishes.file_version!r} is asked for, but {there.place.uri} has data "
            f"files of version {version}, and new ones are like them; leave it out, or overwrite "
            "the table"
        )
    columns = columns_of_table(frame, there, wishes.schema)
    homes = [there.data_home]
    if wishes.into is not None:
        homes = homes_to_write(there.place, there.manifest, wishes.into)
    return _work(there.place, columns, homes, version, wishes)


def _replacing(there: Snapshot, frame: StructType, wishes: _Wishes) -> WriteWork:
    """For rows that replace those of a table, and its columns."""
    _check_same(there, wishes)
    version = wishes.file_version or there.manifest.file_version
    columns = new_columns(frame, there, wishes.schema)
    homes = [there.data_home]
    if wishes.into is not None:
        homes = homes_to_write(there.place, there.manifest, wishes.into)
    elif any(each.is_blob_v1 for each in columns.schema.walk()):
        homes = [own_home(there.place)]
    return _work(there.place, columns, homes, version, wishes)


def _work(
    place: Place, columns: Columns, homes: Sequence[DataHome], version: str, wishes: _Wishes
) -> WriteWork:
    """Raises for columns that do not go together with the table or the version of the files."""
    align_schema(columns.schema, columns.writing.schema)
    check_columns(columns.schema, version)
    PutIfAbsent().check_trust(place.store)
    return WriteWork(columns.writing, columns.schema, tuple(homes), version, wishes.limits)


def _check_same(there: Snapshot, wishes: _Wishes) -> None:
    """Raises InvalidInputError for what is said of a new table and does not hold for this one."""
    has_ids = there.manifest.has_stable_row_ids
    if wishes.stable_row_ids not in (None, has_ids):
        raise InvalidInputError(
            f"stable_row_ids={wishes.stable_row_ids} is asked for, but {there.place.uri} was made "
            f"{'with' if has_ids else 'without'} them, and that does not change; leave it out"
        )
    there.place.settle(there.manifest)
    known = {uri_of_base(there.place, each) for each in there.manifest.base_paths}
    for each in wishes.bases:
        path = (each if isinstance(each, BasePath) else BasePath(each)).path
        if path not in known:
            raise InvalidInputError(
                f"base path {path!r} is asked for, but {there.place.uri} is there and does not "
                "declare it; do so with add_base first",
                path=path,
            )

"""Planning a write: everything is checked, and nothing is written.

Every way to write through Spark has the same steps. ``plan_write`` finds the table and decides the
columns. ``WriteJob.run`` is called on executors, once or more for each partition. ``commit`` is
called once with their answers; it also makes a new table together with its rows, so that a failed
job leaves none. ``abort`` removes files that are proven to be unused. Only the schema of a frame is
needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from lancewood.data.align import align_schema
from lancewood.data.encodings import check_encoding_keys
from lancewood.data.file_root import FileRoot
from lancewood.data.writer import check_columns
from lancewood.engine.base import FileLimits, as_list, check_choice, check_file_version
from lancewood.engine.commit import PutIfAbsent, manifest_store_mark
from lancewood.engine.location import (
    BasePath,
    Bases,
    Location,
    NewBase,
    file_roots_to_write,
    new_base_paths,
    own_file_root,
    uri_of_base,
)
from lancewood.engine.snapshot import TAG, Access, Snapshot, is_table, open_revision
from lancewood.engine.write import first_field_id
from lancewood.errors import InvalidInputError, NotFoundError, UnsupportedError
from lancewood.format.arrow import schema_from_arrow
from lancewood.format.layout import NamingScheme
from lancewood.format.manifest import empty_manifest
from lancewood.model.applied import AppliedBatch
from lancewood.model.file_version import DEFAULT_FILE_VERSION
from lancewood.model.manifest import FLAG_STABLE_ROW_IDS
from lancewood.model.refs import MAIN
from lancewood.model.revision import AtTag, OnBranch, parse_revision
from lancewood.model.schema import Schema
from lancewood.model.transaction import commit_properties
from lancewood.proto import table_pb2
from lancewood.rules.applied import is_applied
from lancewood.spark.types import Writing, spark_schema
from lancewood.spark.writing.job import Mode, WriteJob, table_exists
from lancewood.spark.writing.work import WriteWork

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


@dataclass(frozen=True, slots=True)
class WriteTarget:
    """Where a write goes."""

    location: Location
    snapshot: Snapshot | None
    """The newest version; None if there is no table."""


def find_target(access: Access, branch: str | None = None) -> WriteTarget:
    """The table that a uri and a branch mean for a writer.

    The uri may carry the name of a branch. Raises NotFoundError for a branch that does not exist,
    InvalidInputError for a uri that means a tag or a single version, and IncompatibleConflictError
    for a branch that was published and closed.
    """
    location, revision = access.find()
    if revision is None and not is_table(location.store):
        if branch is not None and branch != MAIN:
            raise NotFoundError(
                f"no table at {location.uri}, so it has no branch {branch!r}: write to main first, "
                "then create the branch",
                table=location.uri,
                branch=branch,
            )
        return WriteTarget(location, None)
    snapshot = open_revision(location, branch=branch, in_uri=revision)
    if revision is not None:
        _check_branch(revision, snapshot)
    snapshot.check_writable()
    snapshot.check_open()
    return WriteTarget(snapshot.location, snapshot)


def _check_branch(revision: str, snapshot: Snapshot) -> None:
    meant = parse_revision(revision)
    is_version = isinstance(meant, OnBranch) and meant.version is not None
    if is_version or isinstance(meant, AtTag) or TAG in snapshot.derived:
        raise InvalidInputError(
            f"the uri carries {revision!r}, which is one version of {snapshot.location.uri}, and "
            "versions do not change; write to a branch: give its name there, or as branch=",
            revision=revision,
        )


class Columns(NamedTuple):
    """The columns of one write."""

    writing: Writing
    schema: Schema
    """The table's, with the field ids for new files."""


def columns_of_table(frame: StructType, snapshot: Snapshot, schema: pa.Schema | None) -> Columns:
    """For rows that are added to a table: its own columns, whatever types the frame has.

    Raises InvalidInputError if the frame does not fit, or ``schema`` differs.
    """
    known = snapshot.arrow_schema
    if schema is not None and not schema.equals(known):
        raise InvalidInputError(
            f"schema= is not the schema of {snapshot.location.uri}, and rows that are added keep "
            "that one; leave it out, or overwrite the table"
        )
    return Columns(Writing(frame, known), snapshot.schema)


def new_columns(frame: StructType, snapshot: Snapshot | None, schema: pa.Schema | None) -> Columns:
    """For a new table, or for rows that replace a table's: ``schema``, or what follows from the
    frame.

    A column that the table has under the same name keeps its Arrow type if Spark reads that type as
    the frame's, so vectors stay vectors. Columns of a frame that are not nullable change nothing,
    because even literals are not.
    """
    wanted = schema
    if schema is None and snapshot is not None:
        wanted = kept_columns(frame, snapshot.arrow_schema)
    writing = Writing(frame, schema=wanted)
    first_id = 0 if snapshot is None else first_field_id(snapshot.manifest)
    new = schema_from_arrow(writing.table, first_id=first_id)
    if not new.fields:
        raise InvalidInputError("a table needs at least one column, the frame has none")
    check_encoding_keys(new)
    return Columns(writing, new)


def kept_columns(frame: StructType, table: pa.Schema) -> pa.Schema:
    """The columns of a frame whose rows replace a table's, keeping Arrow types where possible."""
    derived, fields = Writing(frame).table, []
    for column in frame.fields:
        at = table.get_field_index(column.name)
        if at >= 0 and _holds(_spark_type(table.field(at)), column.dataType):
            known = table.field(at)
            fields.append(known.with_nullable(known.nullable or column.nullable))
        else:
            fields.append(derived.field(column.name))
    return pa.schema(fields)


def _holds(known: Any, given: Any) -> bool:
    """Whether two Spark types are equal, except that the first may allow more nulls."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    if type(known) is not type(given):
        return False
    if isinstance(known, ArrayType):
        return (known.containsNull or not given.containsNull) and _holds(
            known.elementType, given.elementType
        )
    if isinstance(known, MapType):
        return (
            (known.valueContainsNull or not given.valueContainsNull)
            and _holds(known.keyType, given.keyType)
            and _holds(known.valueType, given.valueType)
        )
    if isinstance(known, StructType):
        return known.names == given.names and all(
            (mine.nullable or not theirs.nullable) and _holds(mine.dataType, theirs.dataType)
            for mine, theirs in zip(known.fields, given.fields, strict=True)
        )
    return bool(known == given)


def _spark_type(field: pa.Field) -> Any:
    """The Spark type of a column; None if Spark has none for it."""
    try:
        return spark_schema(pa.schema([field])).fields[0].dataType
    except UnsupportedError:
        return None


@dataclass(frozen=True, slots=True)
class _Wishes:
    """What a caller asks for columns and files; None for the default."""

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
    access: Access,
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
) -> WriteJob:
    """A write of rows that have the columns of ``frame``, checked as far as possible.

    The arguments are those of ``lancewood.spark.write``. A job has nothing to do (``is_skipped``)
    if the table has its batch already, or if ``mode`` is "ignore" and there is a table. Raises
    AlreadyExistsError in mode "error" if there is a table. Writes nothing except the probe of an
    object store that is not yet known to be safe to commit to.
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
    target = find_target(access, branch)
    there = target.snapshot
    if there is None:
        work, base, declared = _new_table(target.location, frame, wishes)
        return WriteJob(work, base, mode, facts, applied, serializable, declared)
    if mode == "error":
        raise table_exists(there.location.uri)
    if mode == "ignore" or is_applied(there.manifest.config, applied):
        return WriteJob(None, there, mode, facts, applied, serializable)
    work = _added(there, frame, wishes) if mode == "append" else _replacing(there, frame, wishes)
    return WriteJob(work, there, mode, facts, applied, serializable)


def _new_table(
    location: Location, frame: StructType, wishes: _Wishes
) -> tuple[WriteWork, Snapshot, tuple[table_pb2.BasePath, ...]]:
    """The work of executors, the state before the first version, and the base paths to declare."""
    version = wishes.file_version or DEFAULT_FILE_VERSION
    declared = new_base_paths(location, (), wishes.bases)
    columns = new_columns(frame, None, wishes.schema)
    file_roots = [own_file_root(location)]
    if wishes.into is not None:
        with_bases = empty_manifest(version)
        with_bases.message.base_paths.extend(declared)
        file_roots = file_roots_to_write(location, with_bases, wishes.into)
    flags = 0 if wishes.stable_row_ids is False else FLAG_STABLE_ROW_IDS
    nothing = empty_manifest(version, flags=flags)
    nothing.message.config.update(manifest_store_mark(location.store))
    before = Snapshot(location, nothing, NamingScheme.V2)
    return _work(location, columns, file_roots, version, wishes), before, declared


def _added(there: Snapshot, frame: StructType, wishes: _Wishes) -> WriteWork:
    """The work for rows that are added to a table."""
    _check_same(there, wishes)
    version = there.manifest.file_version
    if wishes.file_version not in (None, version):
        raise InvalidInputError(
            f"file_version {wishes.file_version!r} is asked for, but {there.location.uri} has data "
            f"files of version {version}, and new ones are like them; leave it out, or overwrite "
            "the table"
        )
    columns = columns_of_table(frame, there, wishes.schema)
    file_roots = [there.default_file_root]
    if wishes.into is not None:
        file_roots = file_roots_to_write(there.location, there.manifest, wishes.into)
    return _work(there.location, columns, file_roots, version, wishes)


def _replacing(there: Snapshot, frame: StructType, wishes: _Wishes) -> WriteWork:
    """The work for rows and columns that replace those of a table."""
    _check_same(there, wishes)
    version = wishes.file_version or there.manifest.file_version
    columns = new_columns(frame, there, wishes.schema)
    file_roots = [there.default_file_root]
    if wishes.into is not None:
        file_roots = file_roots_to_write(there.location, there.manifest, wishes.into)
    elif any(each.is_blob_v1 for each in columns.schema.walk()):
        file_roots = [own_file_root(there.location)]
    return _work(there.location, columns, file_roots, version, wishes)


def _work(
    location: Location,
    columns: Columns,
    file_roots: Sequence[FileRoot],
    version: str,
    wishes: _Wishes,
) -> WriteWork:
    """The work; raises for columns that do not suit the table or the file version."""
    align_schema(columns.schema, columns.writing.schema)
    check_columns(columns.schema, version)
    PutIfAbsent().check_trust(location.store)
    return WriteWork(columns.writing, columns.schema, tuple(file_roots), version, wishes.limits)


def _check_same(there: Snapshot, wishes: _Wishes) -> None:
    """Raise InvalidInputError for wishes for a new table that do not hold for this one."""
    has_ids = there.manifest.has_stable_row_ids
    if wishes.stable_row_ids not in (None, has_ids):
        raise InvalidInputError(
            f"stable_row_ids={wishes.stable_row_ids} is asked for, but {there.location.uri} was "
            f"made {'with' if has_ids else 'without'} them, and that does not change; leave it out"
        )
    there.location.settle(there.manifest)
    known = {uri_of_base(there.location, each) for each in there.manifest.base_paths}
    for each in wishes.bases:
        path = (each if isinstance(each, BasePath) else BasePath(each)).path
        if path not in known:
            raise InvalidInputError(
                f"base path {path!r} is asked for, but {there.location.uri} is there and does not "
                "declare it; do so with add_base first",
                path=path,
            )

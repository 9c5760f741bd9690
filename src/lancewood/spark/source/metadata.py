"""Tables about a table as DataFrames: planned on the driver, their rows made by tasks.

``versions``: one of the branch in each row, newest first, up to the one that is read.
``transactions``: what made each of these versions, in the same order.
``fragments`` and ``files``: those of the version that is read, files of deletions included.
``indices``: the segments of its indices.
``refs``: branches and tags, as they are when Spark runs: refs have no versions. A branch's
``branch`` and ``version`` are those that it was made from, a tag's those that it names.

What a writer did not record is null, so is the size of a deletion file. ``damage`` and ``missing``
say why the rest of a row is null. ``base`` is the id of a base path; null is the table's own root.

The driver lists names and cuts the undecoded bytes of fragments into slices; it decodes none and
opens no other version. Tasks open manifests, transactions and refs where a row needs them, but no
data or deletion files. ``metadata`` and ``format("lance")`` use the same plan.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast, get_args

import pyarrow as pa

from lancewood.engine.snapshot import Access, At, Snapshot, main_location
from lancewood.engine.versions import (
    iterate_infos,
    list_versions,
    load_transaction_of,
    read_refs,
)
from lancewood.errors import FormatError, InvalidInputError
from lancewood.format.deletion import deletion_file_name
from lancewood.format.refs import BRANCHES_DIR, TAGS_DIR, ref_name
from lancewood.jobs.job import chunks
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FieldId, Version
from lancewood.model.index import Index, kind_name
from lancewood.model.refs import MAIN, Branch, Tag
from lancewood.model.schema import Field
from lancewood.model.transaction import MissingTransaction, UnknownOperation, operation_name
from lancewood.proto import table_pb2
from lancewood.spark.reading.task import TablePortion
from lancewood.spark.tasks import spread
from lancewood.spark.types import Reading
from lancewood.table.by_uri import open as open_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MetadataKind: TypeAlias = Literal[
    "versions", "fragments", "files", "refs", "transactions", "indices"
]

_TEXTS = pa.map_(pa.string(), pa.string())
_MOMENT = pa.timestamp("us", "UTC")


def _columns(**columns: pa.DataType) -> pa.Schema:
    """Columns that may be null, but for the first."""
    first = next(iter(columns))
    return pa.schema([pa.field(each, kind, each != first) for each, kind in columns.items()])


METADATA_SCHEMAS: dict[str, pa.Schema] = {
    "versions": _columns(
        version=pa.int64(),
        timestamp=_MOMENT,
        operation=pa.string(),
        rows=pa.int64(),
        message=pa.string(),
        properties=_TEXTS,
        damage=pa.string(),
    ),
    "transactions": _columns(
        version=pa.int64(),
        uuid=pa.string(),
        read_version=pa.int64(),
        operation=pa.string(),
        message=pa.string(),
        properties=_TEXTS,
        missing=pa.string(),
    ),
    "fragments": _columns(
        fragment=pa.int64(),
        rows=pa.int64(),
        physical_rows=pa.int64(),
        deleted_rows=pa.int64(),
        data_files=pa.int64(),
        bytes=pa.int64(),
        deletion_file=pa.string(),
    ),
    "files": _columns(
        fragment=pa.int64(),
        kind=pa.string(),
        uri=pa.string(),
        path=pa.string(),
        base=pa.int64(),
        rows=pa.int64(),
        bytes=pa.int64(),
        file_version=pa.string(),
        fields=pa.list_(pa.int32()),
    ),
    "refs": _columns(
        kind=pa.string(),
        name=pa.string(),
        branch=pa.string(),
        version=pa.int64(),
        created_at=_MOMENT,
        updated_at=_MOMENT,
        metadata=_TEXTS,
        damage=pa.string(),
    ),
    "indices": _columns(
        name=pa.string(),
        kind=pa.string(),
        columns=pa.list_(pa.string()),
        uuid=pa.string(),
        version=pa.int64(),
        fragments=pa.int64(),
        base=pa.int64(),
    ),
}
"""The columns of each table, in order."""


def check_kind(kind: str) -> MetadataKind:
    """The table that is meant; raises InvalidInputError for one that there is not."""
    found = kind.strip().lower() if isinstance(kind, str) else kind
    if found not in get_args(MetadataKind):
        tables = ", ".join(map(repr, get_args(MetadataKind)))
        raise InvalidInputError(f"metadata is one of {tables}, got {kind!r}")
    return cast(MetadataKind, found)


Row: TypeAlias = dict[str, Any]

_MOST_LONG = (1 << 63) - 1
VERSIONS_PER_TASK = 256
FRAGMENTS_PER_TASK = 10_000
_SLOW_ROWS, _QUICK_ROWS = 32, 4_096
"""Rows of a batch. A row about a version costs reading a file, so those batches are small."""


def metadata(
    spark: SparkSession,
    uri: str | os.PathLike[str],
    table: MetadataKind,
    *,
    branch: str | None = None,
    version: int | None = None,
    tag: str | None = None,
    as_of: datetime | None = None,
    at: At = None,
    access: Access | None = None,
) -> DataFrame:
    """A table about a table: "versions", "transactions", "fragments", "files", "refs", "indices".

    Their columns are in ``METADATA_SCHEMAS``. The version is given as for ``lancewood.open``,
    resolved once, and the same for all actions of the DataFrame; refs have no versions and are read
    anew.
    """
    opened = open_table(
        uri,
        branch=branch,
        version=version,
        tag=tag,
        as_of=as_of,
        at=at,
        access=access,
    )
    plan = plan_metadata(opened._snapshot, table)
    return spread(spark, plan.messages).rows(plan.work, plan.work.reading.spark, table)


@dataclass(frozen=True)
class MetadataPlan:
    """The tasks of a metadata table."""

    work: MetadataWork
    messages: list[bytes]


def plan_metadata(snapshot: Snapshot, kind: str) -> MetadataPlan:
    """The tasks that make the rows of a metadata table of one version."""
    table = check_kind(kind)
    work = MetadataWork(snapshot.bare(), table, Reading(METADATA_SCHEMAS[table]))
    return MetadataPlan(work, list(_messages(snapshot, table)))


def _messages(snapshot: Snapshot, kind: MetadataKind) -> Iterator[bytes]:
    head = snapshot.manifest
    if kind in ("versions", "transactions"):
        listed = list_versions(snapshot.location.store).versions
        known = [each for each in listed if each <= head.version]
        yield from (json.dumps(each).encode() for each in chunks(known, VERSIONS_PER_TASK))
    elif kind in ("fragments", "files"):
        raw = head.message.fragments
        for at in range(0, len(raw), FRAGMENTS_PER_TASK):
            yield TablePortion(raw[at : at + FRAGMENTS_PER_TASK]).encode()
    elif kind == "indices":
        if head.indices:
            yield head.index_section or b""
    else:
        yield b""


def _versions(message: bytes) -> list[Version]:
    return [Version(each) for each in json.loads(message)]


@dataclass(frozen=True)
class MetadataWork:
    """What all tasks share. Pickles; ``snapshot`` has no fragments."""

    snapshot: Snapshot
    kind: MetadataKind
    reading: Reading

    def __call__(self, message: bytes) -> Iterator[pa.RecordBatch]:
        """The rows of one task, as Spark takes them. Raises FormatError."""
        schema = METADATA_SCHEMAS[self.kind]
        size = _SLOW_ROWS if self.kind in ("versions", "transactions") else _QUICK_ROWS
        rows = self._rows(message)
        while listed := list(islice(rows, size)):
            try:
                batch = pa.RecordBatch.from_pylist(listed, schema=schema)
            except (OverflowError, pa.ArrowInvalid) as cause:
                raise FormatError(
                    f"{self.snapshot.manifest.name}: the table {self.kind!r} would hold a number "
                    f"that is none of 64 bits: {cause}"
                ) from cause
            yield self.reading.convert(batch)

    def _rows(self, message: bytes) -> Iterator[Row]:
        if self.kind == "versions":
            return version_rows(self.snapshot, _versions(message))
        if self.kind == "transactions":
            return transaction_rows(self.snapshot, _versions(message))
        if self.kind == "fragments":
            return fragment_rows(self.snapshot, self._fragments(message))
        if self.kind == "files":
            return file_rows(self.snapshot, self._fragments(message))
        if self.kind == "indices":
            section = table_pb2.IndexSection.FromString(message)
            return index_rows(self.snapshot, map(Index, section.indices))
        return ref_rows(self.snapshot)

    def _fragments(self, message: bytes) -> list[Fragment]:
        return TablePortion.decode(message).decoded(self.snapshot.manifest.name)


def version_rows(snapshot: Snapshot, versions: Sequence[Version]) -> Iterator[Row]:
    """A row for each version; one that was cleaned up meanwhile is skipped."""
    for info in iterate_infos(snapshot.location.store, versions, snapshot.scheme):
        yield {
            "version": info.version,
            "timestamp": info.timestamp,
            "operation": info.operation,
            "rows": info.rows,
            "message": info.message,
            "properties": sorted(info.properties.items()),
            "damage": info.damage,
        }


def transaction_rows(snapshot: Snapshot, versions: Sequence[Version]) -> Iterator[Row]:
    """The transaction of each version, read without the manifest where possible."""
    for version in versions:
        found = load_transaction_of(snapshot.location.store, version, snapshot.scheme)
        operation = found.operation
        missing = operation.why if isinstance(operation, MissingTransaction) else None
        is_known = missing is None and not isinstance(operation, UnknownOperation)
        yield {
            "version": version,
            "uuid": found.uuid or None,
            "read_version": found.read_version if missing is None else None,
            "operation": operation_name(operation) if is_known else None,
            "message": found.message,
            "properties": sorted(found.user_properties.items()),
            "missing": missing,
        }


def fragment_rows(snapshot: Snapshot, fragments: Iterable[Fragment]) -> Iterator[Row]:
    """Each fragment, with the totals of its files."""
    for each in fragments:
        sizes = [file.size for file in each.files]
        yield {
            "fragment": each.id,
            "rows": each.num_rows,
            "physical_rows": each.physical_rows or None,
            "deleted_rows": 0 if each.deletion_file is None else each.num_deleted_rows or None,
            "data_files": len(sizes),
            "bytes": None if None in sizes else sum(size or 0 for size in sizes),
            "deletion_file": _deletion_name(each),
        }


def file_rows(snapshot: Snapshot, fragments: Iterable[Fragment]) -> Iterator[Row]:
    """Each data file, and after those of a fragment its deletion file."""
    for each in fragments:
        for file in each.files:
            file_root, key = snapshot.location.data_file(snapshot.manifest, file)
            yield {
                "fragment": each.id,
                "kind": "data",
                "uri": f"{file_root.uri}/{key}",
                "path": file.path,
                "base": file.base_id,
                "rows": each.physical_rows or None,
                "bytes": file.size,
                "file_version": "{}.{}".format(*file.version),
                "fields": list(file.fields),
            }
        deletion = each.deletion_file
        found = snapshot.location.deletion_file(snapshot.manifest, each)
        if deletion is not None and found is not None:
            file_root, key = found
            yield {
                "fragment": each.id,
                "kind": "deletion",
                "uri": f"{file_root.uri}/{key}",
                "path": _deletion_name(each),
                "base": deletion.base_id,
                "rows": deletion.num_deleted_rows or None,
            }


def _deletion_name(fragment: Fragment) -> str | None:
    found = fragment.deletion_file
    if found is None:
        return None
    return deletion_file_name(fragment.id, found.read_version, found.id, found.is_bitmap)


def ref_rows(snapshot: Snapshot) -> Iterator[Row]:
    """Tags, then branches; a row without readable values has the reason in ``damage``."""
    main = main_location(snapshot).store
    for kind, directory in (("tag", TAGS_DIR), ("branch", BRANCHES_DIR)):
        for file, found in read_refs(main, directory):
            if isinstance(found, FormatError):
                yield {"kind": kind, "name": _name(file), "damage": str(found)}
                continue
            row: Row = {"kind": kind, **_ref(found)}
            if row["version"] > _MOST_LONG:  # detached versions are
                damage = f"version {row['version']} is beyond a bigint"
                row |= {"version": None, "damage": damage}
            yield row


def _ref(ref: Tag | Branch) -> Row:
    updated: datetime | None
    if isinstance(ref, Tag):
        branch, version, updated = ref.branch, ref.version, ref.updated_at
    else:
        branch, version, updated = ref.parent_branch, ref.parent_version, None
    return {
        "name": str(ref.name),
        "branch": MAIN if branch is None else str(branch),
        "version": version,
        "created_at": ref.created_at,
        "updated_at": updated,
        "metadata": sorted(ref.metadata.items()),
    }


def _name(file: str) -> str:
    """The name of a damaged ref, or of its file."""
    try:
        return ref_name(file) or file
    except FormatError:
        return file


def index_rows(snapshot: Snapshot, indices: Iterable[Index]) -> Iterator[Row]:
    """Each index segment, with the dotted names of its columns."""
    names = dict(_dotted(snapshot.schema.fields))
    for each in indices:
        yield {
            "name": each.name,
            "kind": kind_name(each) or None,
            "columns": [names.get(field) for field in each.fields],
            "uuid": str(each.uuid),
            "version": each.dataset_version,
            "fragments": len(each.fragments),
            "base": each.base_id,
        }


def _dotted(fields: Iterable[Field], above: str = "") -> Iterator[tuple[FieldId, str]]:
    for each in fields:
        name = f"{above}{each.name}"
        yield each.id, name
        yield from _dotted(each.children, f"{name}.")

"""Rows in, operation out: writing the data files that a transaction will name; and the first
version of a table.

Nothing that is written here is visible until a commit says so. The files of a write whose commit is
proven to have failed are removed again; where there is doubt they stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from lancewood.data.align import Alignment, align_schema
from lancewood.data.encodings import check_encoding_keys
from lancewood.data.file_root import FileRoot
from lancewood.data.writer import WritePlan, write_fragments
from lancewood.engine.base import FileLimits, as_reader, check_file_version
from lancewood.engine.commit import CommitPolicy, PutIfAbsent, manifest_store_mark
from lancewood.engine.location import (
    Bases,
    Location,
    NewBase,
    discard,
    file_roots_to_write,
    new_base_paths,
    new_data_files,
    own_file_root,
)
from lancewood.engine.snapshot import Snapshot
from lancewood.engine.versions import newest_version
from lancewood.errors import (
    AlreadyExistsError,
    CommitUnknownError,
    ConflictError,
    InvalidInputError,
    LancewoodError,
)
from lancewood.format.arrow import schema_from_arrow
from lancewood.format.layout import NamingScheme
from lancewood.format.manifest import empty_manifest
from lancewood.format.schema import encode_schema
from lancewood.model.file_version import DEFAULT_FILE_VERSION
from lancewood.model.fragment import Fragment
from lancewood.model.ids import Version
from lancewood.model.manifest import (
    FLAG_FIELD_IDS_NOT_REUSED,
    FLAG_STABLE_ROW_IDS,
    Manifest,
    ManifestHead,
)
from lancewood.model.operations import Append, Overwrite
from lancewood.model.schema import Schema
from lancewood.model.transaction import Transaction, commit_properties


@dataclass(frozen=True, slots=True)
class RowsToWrite:
    """Rows whose columns fit a table; no file of them is written yet."""

    location: Location
    file_roots: Sequence[FileRoot]
    """Where the files go, in turn."""
    reader: pa.RecordBatchReader
    schema: Schema
    """That of the whole table; a nullable column may be missing in the rows."""
    alignment: Alignment
    file_version: str

    def append(self, limits: FileLimits) -> Append:
        """Write them, to be added to a table."""
        return Append(tuple(self._fragments(limits)))

    def overwrite(self, limits: FileLimits) -> Overwrite:
        """Write them, to replace everything in a table, its schema included."""
        return Overwrite(
            tuple(self._fragments(limits)),
            tuple(encode_schema(self.schema)),
            self.schema.metadata,
            file_version=self.file_version,
        )

    def check(self) -> int:
        """How many there are. Reads all of them and writes none.

        Raises InvalidInputError for values that do not fit.
        """
        plan, rows = WritePlan(self.alignment.schema, self.file_version), 0
        for batch in self.reader:
            plan.check_values(self.alignment.cast(batch))
            rows += batch.num_rows
        return rows

    def _fragments(self, limits: FileLimits) -> list[Fragment]:
        """Fragments without ids. Nothing is written to a store that could not be trusted with the
        commit."""
        PutIfAbsent().check_trust(self.location.store)
        return write_fragments(
            self.reader,
            self.alignment.schema,
            alignment=self.alignment,
            file_roots=self.file_roots,
            file_version=self.file_version,
            max_rows=limits.max_rows,
            max_bytes=limits.max_bytes,
        )


def rows_to_append(snapshot: Snapshot, data: Any, into: Bases = None) -> RowsToWrite:
    """Rows for the table's own schema, and the roots that ``into`` says.

    Raises InvalidInputError if the columns do not fit.
    """
    snapshot.check_writable()
    snapshot.check_open()
    file_roots = _file_roots(snapshot, into)
    reader = as_reader(data, snapshot.arrow_schema)
    return RowsToWrite(
        snapshot.location,
        file_roots,
        reader,
        snapshot.schema,
        align_schema(snapshot.schema, reader.schema),
        snapshot.manifest.file_version,
    )


def rows_to_overwrite(
    snapshot: Snapshot,
    data: Any,
    schema: pa.Schema | None = None,
    file_version: str | None = None,
    into: Bases = None,
) -> RowsToWrite:
    """Rows that will replace everything, under the data's schema or the given one."""
    snapshot.check_writable()
    snapshot.check_open()
    version = snapshot.manifest.file_version
    if file_version is not None:
        version = check_file_version(file_version)
    return _rows_anew(
        snapshot.location,
        _file_roots(snapshot, into),
        data,
        schema,
        version,
        first_field_id(snapshot.manifest),
        blob_file_root=own_file_root(snapshot.location) if into is None else None,
    )


def _file_roots(snapshot: Snapshot, into: Bases) -> list[FileRoot]:
    if into is None:
        return [snapshot.default_file_root]
    return file_roots_to_write(snapshot.location, snapshot.manifest, into)


def _rows_anew(
    location: Location,
    file_roots: Sequence[FileRoot],
    data: Any,
    schema: pa.Schema | None,
    file_version: str,
    first_id: int = 0,
    *,
    blob_file_root: FileRoot | None = None,
) -> RowsToWrite:
    """Rows under a new schema, whose field ids count from ``first_id``.

    ``blob_file_root`` is for files with blobs of the first layout, if those go elsewhere.
    """
    if schema is not None and not isinstance(schema, pa.Schema):
        raise InvalidInputError(f"schema takes a pyarrow.Schema, got {schema!r}")
    reader = as_reader(data, schema)
    new = schema_from_arrow(reader.schema if schema is None else schema, first_id=first_id)
    if not new.fields:
        raise InvalidInputError("a table needs at least one column, the data has none")
    check_encoding_keys(new)
    if blob_file_root is not None and any(each.is_blob_v1 for each in new.walk()):
        file_roots = [blob_file_root]
    alignment = align_schema(new, reader.schema)
    return RowsToWrite(location, file_roots, reader, new, alignment, file_version)


def first_field_id(head: ManifestHead) -> int:
    """Where the field ids of a new schema start: anew, unless the table never reuses them."""
    if head.writer_flags & FLAG_FIELD_IDS_NOT_REUSED:
        return head.message.max_allocated_field_id + 1
    return 0


def commit_written(
    snapshot: Snapshot,
    transaction: Transaction,
    policy: CommitPolicy,
    *,
    file_roots: ManifestHead | None = None,
) -> Snapshot:
    """Commit one operation that was just written here.

    A commit that fails with anything but CommitUnknownError has not landed; its files go.
    ``file_roots`` declares the base paths that they are in, where the snapshot does not yet.
    """
    try:
        return snapshot.commit(transaction, policy)
    except CommitUnknownError:
        raise
    except LancewoodError:
        discard(
            snapshot.location,
            file_roots or snapshot.manifest,
            new_data_files(_fragments(transaction)),
        )
        raise


def _fragments(transaction: Transaction) -> Iterator[Fragment]:
    for operation in transaction.operations:
        if isinstance(operation, Append | Overwrite):
            yield from operation.fragments


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTable:
    """How a table is to be made, besides its data."""

    schema: pa.Schema | None = None
    """The columns that it gets, where that is not the data's own schema."""
    stable_row_ids: bool = True
    file_version: str = DEFAULT_FILE_VERSION
    limits: FileLimits = field(default_factory=FileLimits)
    bases: Iterable[NewBase] = ()
    """Other roots for its files, that are declared with it."""
    into: Bases = None
    """To which of them the data goes."""
    message: str | None = None
    properties: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class FirstWrite:
    """What the first version of a table is made of; nothing names it yet."""

    before: Snapshot
    """Version 0, which has nothing."""
    transaction: Transaction
    file_roots: Manifest
    """Declares the base paths that the files are in."""


def create_table(location: Location, data: Any, new: NewTable) -> Snapshot:
    """Version 1 of a new table; raises AlreadyExistsError, also if another creator was faster."""
    first = write_first(location, data, new)
    try:
        return commit_written(
            first.before,
            first.transaction,
            CommitPolicy(serializable=True),
            file_roots=first.file_roots,
        )
    except ConflictError as lost:
        raise _exists(location) from lost


def write_first(location: Location, data: Any, new: NewTable) -> FirstWrite:
    """Write the files of a new table, and commit nothing. Raises AlreadyExistsError."""
    check_file_version(new.file_version)
    facts = commit_properties(new.message, new.properties)
    if newest_version(location.store) is not None:
        raise _exists(location)
    declared = new_base_paths(location, (), new.bases)
    flags = FLAG_STABLE_ROW_IDS if new.stable_row_ids else 0
    nothing = empty_manifest(new.file_version, flags=flags)
    nothing.message.config.update(manifest_store_mark(location.store))
    with_bases = empty_manifest(new.file_version)
    with_bases.message.base_paths.extend(declared)
    file_roots = [own_file_root(location)]
    if new.into is not None:
        file_roots = file_roots_to_write(location, with_bases, new.into)
    rows = _rows_anew(location, file_roots, data, new.schema, new.file_version)
    overwrite = replace(rows.overwrite(new.limits), initial_bases=declared)
    transaction = Transaction.new(Version(0), overwrite, properties=facts)
    return FirstWrite(Snapshot(location, nothing, NamingScheme.V2), transaction, with_bases)


def _exists(location: Location) -> AlreadyExistsError:
    return AlreadyExistsError(
        f"there is a table at {location.uri} already: open it and append or overwrite, "
        "or drop it first",
        uri=location.uri,
    )

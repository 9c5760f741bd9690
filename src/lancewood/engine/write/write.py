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

from lancewood.data.align import align_schema
from lancewood.data.encodings import check_encoding_keys
from lancewood.data.home import DataHome
from lancewood.data.writer import write_fragments
from lancewood.engine.base import FileLimits, as_reader, check_file_version
from lancewood.engine.commit import CommitPolicy, PutIfAbsent, manifest_store_mark
from lancewood.engine.place import (
    Bases,
    NewBase,
    Place,
    discard,
    homes_to_write,
    new_base_paths,
    new_data_files,
    own_home,
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


def write_append(snapshot: Snapshot, data: Any, limits: FileLimits, bases: Bases = None) -> Append:
    """Write rows for the table's own schema, into the homes that ``bases`` says, in turn.

    Raises InvalidInputError, before a file is written, if the columns do not fit.
    """
    snapshot.check_writable()
    snapshot.check_open()
    homes = _homes(snapshot, bases)
    reader = as_reader(data, snapshot.arrow_schema)
    version = snapshot.manifest.file_version
    return Append(tuple(_write(snapshot.place, homes, reader, snapshot.schema, version, limits)))


def write_overwrite(
    snapshot: Snapshot,
    data: Any,
    schema: pa.Schema | None,
    file_version: str | None,
    limits: FileLimits,
    bases: Bases = None,
) -> Overwrite:
    """Write rows that will replace everything, under the data's schema or the given one."""
    snapshot.check_writable()
    snapshot.check_open()
    version = snapshot.manifest.file_version
    if file_version is not None:
        version = check_file_version(file_version)
    return write_anew(
        snapshot.place,
        _homes(snapshot, bases),
        data,
        schema,
        version,
        limits,
        first_field_id(snapshot.manifest),
        blob_home=own_home(snapshot.place) if bases is None else None,
    )


def _homes(snapshot: Snapshot, bases: Bases) -> list[DataHome]:
    if bases is None:
        return [snapshot.data_home]
    return homes_to_write(snapshot.place, snapshot.manifest, bases)


def write_anew(
    place: Place,
    homes: Sequence[DataHome],
    data: Any,
    schema: pa.Schema | None,
    file_version: str,
    limits: FileLimits,
    first_id: int = 0,
    *,
    blob_home: DataHome | None = None,
) -> Overwrite:
    """Write rows under a new schema, whose field ids count from ``first_id``.

    ``blob_home`` is for files with blobs of the first layout, if those go elsewhere.
    """
    if schema is not None and not isinstance(schema, pa.Schema):
        raise InvalidInputError(f"schema takes a pyarrow.Schema, got {schema!r}")
    reader = as_reader(data, schema)
    new = schema_from_arrow(reader.schema if schema is None else schema, first_id=first_id)
    if not new.fields:
        raise InvalidInputError("a table needs at least one column, the data has none")
    check_encoding_keys(new)
    if blob_home is not None and any(each.is_blob_v1 for each in new.walk()):
        homes = [blob_home]
    fragments = _write(place, homes, reader, new, file_version, limits)
    return Overwrite(
        tuple(fragments), tuple(encode_schema(new)), new.metadata, file_version=file_version
    )


def _write(
    place: Place,
    homes: Sequence[DataHome],
    reader: pa.RecordBatchReader,
    table: Schema,
    file_version: str,
    limits: FileLimits,
) -> list[Fragment]:
    """Write the columns of ``table`` that the reader has, as fragments without ids.

    Nothing is written to a store that could not be trusted with the commit.
    """
    alignment = align_schema(table, reader.schema)
    PutIfAbsent().check_trust(place.store)
    return write_fragments(
        reader,
        alignment.schema,
        alignment=alignment,
        homes=homes,
        file_version=file_version,
        max_rows=limits.max_rows,
        max_bytes=limits.max_bytes,
    )


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
    homes: ManifestHead | None = None,
) -> Snapshot:
    """Commit one operation that was just written here.

    A commit that fails with anything but CommitUnknownError has not landed; its files go.
    ``homes`` declares the base paths that they are in, where the snapshot does not yet.
    """
    try:
        return snapshot.commit(transaction, policy)
    except CommitUnknownError:
        raise
    except LancewoodError:
        discard(snapshot.place, homes or snapshot.manifest, new_data_files(_fragments(transaction)))
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
    """Other homes for its files, that are declared with it."""
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
    homes: Manifest
    """Declares the base paths that the files are in."""


def create_table(place: Place, data: Any, new: NewTable) -> Snapshot:
    """Version 1 of a new table; raises AlreadyExistsError, also if another creator was faster."""
    first = write_first(place, data, new)
    try:
        return commit_written(
            first.before, first.transaction, CommitPolicy(serializable=True), homes=first.homes
        )
    except ConflictError as lost:
        raise _exists(place) from lost


def write_first(place: Place, data: Any, new: NewTable) -> FirstWrite:
    """Write the files of a new table, and commit nothing. Raises AlreadyExistsError."""
    check_file_version(new.file_version)
    facts = commit_properties(new.message, new.properties)
    if newest_version(place.store) is not None:
        raise _exists(place)
    declared = new_base_paths(place, (), new.bases)
    flags = FLAG_STABLE_ROW_IDS if new.stable_row_ids else 0
    nothing = empty_manifest(new.file_version, flags=flags)
    nothing.message.config.update(manifest_store_mark(place.store))
    with_bases = empty_manifest(new.file_version)
    with_bases.message.base_paths.extend(declared)
    homes = [own_home(place)]
    if new.into is not None:
        homes = homes_to_write(place, with_bases, new.into)
    written = write_anew(place, homes, data, new.schema, new.file_version, new.limits)
    overwrite = replace(written, initial_bases=declared)
    transaction = Transaction.new(Version(0), overwrite, properties=facts)
    return FirstWrite(Snapshot(place, nothing, NamingScheme.V2), transaction, with_bases)


def _exists(place: Place) -> AlreadyExistsError:
    return AlreadyExistsError(
        f"there is a table at {place.uri} already: open it and append or overwrite, "
        "or drop it first",
        uri=place.uri,
    )

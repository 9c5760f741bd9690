"""Rows in, operation out: writing the data files that a transaction will name; and the first
version of a table.

Nothing that is written here is visible until a commit says so. The files of a write whose commit is
proven to have failed are removed again; where there is doubt they stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lancewood.data.writer import WritePlan
from lancewood.engine.base import as_reader
from lancewood.engine.commit import CommitPolicy
from lancewood.engine.location import Location, discard, new_data_files
from lancewood.engine.snapshot import Snapshot
from lancewood.engine.versions import newest_version
from lancewood.engine.write.file_writer import FileWriter
from lancewood.engine.write.plan import PlannedWrite, WriteRequest, plan_first, plan_on
from lancewood.errors import AlreadyExistsError, CommitUnknownError, ConflictError, LancewoodError
from lancewood.model.fragment import Fragment
from lancewood.model.ids import Version
from lancewood.model.manifest import ManifestHead
from lancewood.model.transaction import (
    Append,
    Merge,
    Overwrite,
    Project,
    Transaction,
    commit_properties,
)


@dataclass(frozen=True, slots=True)
class RowsToWrite:
    """Rows whose columns fit a table; no file of them is written yet."""

    plan: PlannedWrite
    files: FileWriter
    reader: pa.RecordBatchReader

    def write(self) -> Append | Overwrite | Merge | Project:
        """Write them; the operation that a commit makes visible."""
        return self.plan.operation(self.files, self.files.write(self.reader))

    def check(self) -> int:
        """Read all rows, write none, and return how many there are.

        Raises InvalidInputError for values that do not fit.
        """
        alignment, rows = self.files.alignment, 0
        plan = WritePlan(alignment.schema, self.files.file_version)
        for batch in self.reader:
            fitting = alignment.cast(batch)
            plan.check_values(fitting)
            self.files.check(fitting)
            rows += batch.num_rows
        return rows


def rows_to_append(
    snapshot: Snapshot, data: Any, request: WriteRequest | None = None
) -> RowsToWrite:
    """Rows for the table's own schema; raises InvalidInputError if the columns do not fit."""
    return _rows_for(snapshot, data, request or WriteRequest(mode="append"))


def rows_to_overwrite(
    snapshot: Snapshot, data: Any, request: WriteRequest | None = None
) -> RowsToWrite:
    """Rows that will replace everything, or what meets a condition, as the request says; by default
    under the data's schema."""
    return _rows_for(
        snapshot, data, request or WriteRequest(mode="overwrite", overwrite_schema=True)
    )


def _rows_for(snapshot: Snapshot, data: Any, request: WriteRequest) -> RowsToWrite:
    snapshot.check_writable()
    snapshot.check_open()
    plan = plan_on(snapshot, request)
    if not plan.keeps_columns:
        return _rows_anew(plan, data)
    reader = as_reader(data, None if request.merge_schema else snapshot.arrow_schema)
    return RowsToWrite(plan, plan.files(reader.schema), reader)


def _rows_anew(plan: PlannedWrite, data: Any) -> RowsToWrite:
    """Rows under a new schema."""
    schema = plan.request.schema
    reader = as_reader(data, schema)
    return RowsToWrite(plan, plan.files(reader.schema, schema), reader)


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


def create_table(
    location: Location,
    data: Any,
    request: WriteRequest | None = None,
    *,
    message: str | None = None,
    properties: Mapping[str, str] | None = None,
) -> Snapshot:
    """Version 1 of a new table; raises AlreadyExistsError, also if another creator was faster."""
    plan, transaction = write_first(location, data, request, message=message, properties=properties)
    policy = CommitPolicy(serializable=True)
    try:
        return commit_written(plan.before, transaction, policy, file_roots=plan.roots)
    except ConflictError as lost:
        raise _exists(location) from lost


def write_first(
    location: Location,
    data: Any,
    request: WriteRequest | None = None,
    *,
    message: str | None = None,
    properties: Mapping[str, str] | None = None,
) -> tuple[PlannedWrite, Transaction]:
    """Write the files of a new table, and commit nothing. Raises AlreadyExistsError."""
    facts = commit_properties(message, properties)
    if newest_version(location.store) is not None:
        raise _exists(location)
    plan = plan_first(location, request or WriteRequest())
    transaction = Transaction.new(Version(0), _rows_anew(plan, data).write(), properties=facts)
    return plan, transaction


def _exists(location: Location) -> AlreadyExistsError:
    return AlreadyExistsError(
        f"there is a table at {location.uri} already: open it and append or overwrite, "
        "or drop it first",
        uri=location.uri,
    )

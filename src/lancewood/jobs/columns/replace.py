"""Replacing whole columns of some fragments by given values (DataReplacement).

The rows stay where they are; other columns, and other fragments, are not looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from lancewood.data.align import align_schema
from lancewood.engine.base import as_list, as_reader, check_number
from lancewood.engine.schema import NewColumns
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import InvalidInputError, NotFoundError, RetryableConflictError
from lancewood.format.schema import to_arrow_field
from lancewood.jobs.columns.add import rows_moved
from lancewood.jobs.columns.files import ColumnFiles, ColumnJob, ColumnWriter, read_fields
from lancewood.jobs.columns.sources import OrderedColumns
from lancewood.jobs.counts import ColumnCounts
from lancewood.jobs.job import Change
from lancewood.jobs.runner import Runner
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FragmentId
from lancewood.model.schema import Schema
from lancewood.model.transaction import DataReplacement, Replacement


class ReplaceColumns(ColumnJob):
    """New values for columns that are there, of the live rows of some fragments."""

    def __init__(
        self, snapshot: Snapshot, fragment_ids: Sequence[int], source: Any, runner: Runner
    ) -> None:
        super().__init__(ColumnFiles(snapshot, runner, "replacing columns"))
        self._snapshot = snapshot
        self._ids = [
            FragmentId(check_number("a fragment id", each))
            for each in as_list("fragment_ids", fragment_ids)
        ]
        if not self._ids or len(set(self._ids)) < len(self._ids):
            raise InvalidInputError(
                f"replace_columns needs fragment ids, each once, got {fragment_ids!r}"
            )
        fragments = self._fragments(snapshot)
        reader = as_reader(source, snapshot.arrow_schema)
        self._columns = reader.schema
        self._written(snapshot)
        rows = _row_count(fragments)
        given = source.num_rows if isinstance(source, pa.Table | pa.RecordBatch) else rows
        if rows is not None and given != rows:
            raise InvalidInputError(
                f"the data has {given} rows, the fragments have {rows} live ones: they are matched "
                "one by one, in the order of a scan"
            )
        self._source = OrderedColumns(reader)

    def plan(self, snapshot: Snapshot) -> ColumnCounts:
        """The columns and rows; the data is read to its end."""
        written = self._written(snapshot)
        self._source.check(snapshot, self._fragments(snapshot), written)
        return self._counted(written)

    def prepare(self, snapshot: Snapshot) -> Change[ColumnCounts]:
        """Write the files once; on a newer version name them again, if they still fit."""
        fragments = self._fragments(snapshot)
        written = self._written(snapshot)
        inputs = read_fields(written)
        if len(self._files):
            self._check_unchanged(snapshot, fragments, written)
        else:
            new = NewColumns(snapshot.schema, written, written)
            writer = ColumnWriter(snapshot, written, self._source, new)
            self._files.write(writer, fragments, inputs, here=True)
        operation = DataReplacement(
            tuple(Replacement(each.id, self._files.file_of(each, written)) for each in fragments)
        )
        return Change(operation, self._counted(written))

    def _counted(self, written: Schema) -> ColumnCounts:
        columns = tuple(map(to_arrow_field, written.fields))
        return ColumnCounts(columns, len(self._ids), self._source.rows)

    def _check_unchanged(
        self, snapshot: Snapshot, fragments: Sequence[Fragment], written: Schema
    ) -> None:
        before = self._snapshot.manifest.version
        changed, unknown = self._files.forget(snapshot, fragments, read_fields(written))
        why = None
        if changed or unknown:
            why = "the columns have other values there now"
        elif rows_moved(snapshot, before):
            why = "rows have moved to other fragments"
        if why:
            raise RetryableConflictError(
                f"the columns were replaced as of version {before} of {snapshot.location.uri}, and "
                f"in version {snapshot.manifest.version} {why}; read them again and replace them",
                version=snapshot.manifest.version,
            )

    def _fragments(self, snapshot: Snapshot) -> list[Fragment]:
        try:
            return [snapshot.manifest.fragment(each) for each in self._ids]
        except NotFoundError as cause:
            if snapshot is self._snapshot:
                raise
            raise RetryableConflictError(
                f"{cause.message}: it was there in version {self._snapshot.manifest.version}; "
                "read its rows again and replace them",
                **cause.facts,
            ) from cause

    def _written(self, snapshot: Snapshot) -> Schema:
        """The columns of the table that the data has; raises InvalidInputError for others."""
        known = snapshot.schema.by_name
        fields = tuple(known[each] for each in self._columns.names if each in known)
        if not fields:
            raise InvalidInputError(
                f"the data has no column of the table: it has {', '.join(self._columns.names)}"
            )
        schema = Schema(fields)
        align_schema(schema, self._columns, complete=True)
        return schema


def _row_count(fragments: Sequence[Fragment]) -> int | None:
    rows = 0
    for each in fragments:
        if each.num_rows is None:
            return None
        rows += each.num_rows
    return rows

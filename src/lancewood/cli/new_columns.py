"""What new columns would be, for dry runs: names and types, checked as the job itself does.

Writes nothing. Rows of files are read to see that they fit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

import pyarrow as pa

from lancewood.engine.evolve import next_field_id
from lancewood.engine.new_columns import plan_new_columns
from lancewood.engine.snapshot import Snapshot
from lancewood.jobs.columns.sources import JoinedColumns, SqlColumns, StreamColumns, join_names


def plan_sql(snapshot: Snapshot, expressions: Mapping[str, str]) -> pa.Schema:
    """The columns that expressions make; raises InvalidInputError where they cannot be."""
    return _planned(snapshot, SqlColumns(expressions).columns(snapshot))


def plan_nulls(snapshot: Snapshot, columns: pa.Schema) -> pa.Schema:
    """The columns of nulls that are asked for; raises InvalidInputError where they cannot be."""
    return _planned(snapshot, columns, are_null=True)


def check_rows(snapshot: Snapshot, rows: pa.RecordBatchReader, on: Sequence[str] | None) -> None:
    """Raise InvalidInputError where rows of files do not fit the table."""
    if on is not None:
        joined = JoinedColumns(rows.read_all(), join_names(on))
        _planned(snapshot, joined.columns(snapshot))
        return
    stream = StreamColumns(rows)
    _planned(snapshot, stream.columns(snapshot))
    for batches in stream.of(snapshot, snapshot.manifest.fragments):
        deque(batches, maxlen=0)


def _planned(snapshot: Snapshot, columns: pa.Schema, *, are_null: bool = False) -> pa.Schema:
    plan_new_columns(
        snapshot.schema,
        columns,
        first_id=next_field_id(snapshot.manifest),
        file_version=snapshot.manifest.file_version,
        are_null=are_null,
    )
    return columns

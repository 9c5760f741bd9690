"""Reading changed rows: chosen rows of fragments, under the columns of the later version.

A deleted row has its values from the earlier version, field by field (``find_earlier``); a newer
column is null.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import pyarrow as pa

from lancewood.data.wanted import WantedColumns
from lancewood.engine.base import WORKERS, in_order
from lancewood.engine.rows import Ints, LiveRows, RowFacts, RowShape, open_fragment, pick_rows
from lancewood.engine.schema import Columns, Projection, find_earlier, project
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import InvalidInputError
from lancewood.jobs.diff.by_marks import Side
from lancewood.model.ids import FieldId
from lancewood.model.schema import ROW_ID, Field, Schema


def project_changes(since: Snapshot, until: Snapshot, columns: Columns) -> Projection:
    """The requested columns of ``until``, after the row id.

    Columns that ``since`` does not have become nullable. Raises InvalidInputError for an unknown
    column.
    """
    if isinstance(columns, Mapping):
        raise InvalidInputError("changes returns columns as they are: give names, or use scan")
    known = {each.id: each.name for each in since.schema.walk()}
    fields = tuple(_loosened(each, known) for each in until.schema.fields)
    found = project(Schema(fields, until.schema.metadata), columns, with_row_id=True)
    rest = tuple(each for each in found.names if each != ROW_ID)
    return replace(found, names=(ROW_ID, *rest))


def _loosened(field: Field, known: Mapping[FieldId, str]) -> Field:
    is_old = known.get(field.id) == field.name
    children = tuple(_loosened(each, known) for each in field.children)
    return replace(field, nullable=field.nullable or not is_old, children=children)


def rows_until(side: Side, rows: LiveRows, projection: Projection) -> ChosenRows:
    """Rows of the later version."""
    return ChosenRows(side, rows, projection, projection.stored.by_name)


def rows_since(side: Side, until: Snapshot, rows: LiveRows, projection: Projection) -> ChosenRows:
    """Rows of the earlier version."""
    sources = find_earlier(side.snapshot, until, projection.stored)
    return ChosenRows(side, rows, projection, sources)


@dataclass(frozen=True, eq=False)
class ChosenRows:
    """Rows of one side of a comparison, read on demand, in table order."""

    side: Side
    rows: LiveRows
    projection: Projection
    sources: Mapping[str, Field]
    """What is read for each stored column; a column that the version does not have is absent."""

    @property
    def schema(self) -> pa.Schema:
        return self._shape.schema

    @property
    def row_count(self) -> int:
        return self.rows.row_count

    def batches(self, workers: int = WORKERS) -> Iterator[pa.RecordBatch]:
        """The rows, without empty batches; only their fragments are opened."""
        tasks = (partial(self._read, at, offsets) for at, offsets in self.rows.by_fragment())
        return in_order(tasks, workers=workers)

    @cached_property
    def _shape(self) -> RowShape:
        return RowShape(snapshot=self.side.snapshot, projection=self.projection)

    @cached_property
    def _wanted(self) -> WantedColumns:
        return WantedColumns(Schema(tuple(self.sources.values())))

    def _read(self, at: int, offsets: Ints) -> Iterator[pa.RecordBatch]:
        facts = RowFacts(self.side.snapshot, self.side.fragments[at])
        reader = open_fragment(self.side.snapshot, facts.fragment, self._wanted)
        return self._shaped(pick_rows(reader, self._wanted, offsets), facts, offsets)

    def _shaped(
        self, batches: Iterator[pa.RecordBatch], facts: RowFacts, offsets: Ints
    ) -> Iterator[pa.RecordBatch]:
        at = 0
        for batch in batches:
            here = offsets[at : at + batch.num_rows]
            at += batch.num_rows
            columns = dict(zip(self.sources, batch.columns, strict=True))
            stored: dict[str, Any] = {}
            for each in self.projection.stored.fields:
                kind = self.schema.field(each.name).type
                if each.name in columns:
                    stored[each.name] = self._fitted(columns[each.name], kind, each.name)
                else:
                    stored[each.name] = pa.nulls(len(here), kind)
            for name in self.projection.system:
                stored[name] = facts.column_at(name, here)
            yield self._shape.shaped(stored, len(here))

    def _fitted(self, array: pa.Array, kind: pa.DataType, name: str) -> pa.Array:
        if array.type == kind:
            return array
        try:
            return array.cast(kind)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as cause:
            version = self.side.snapshot.manifest.version
            raise InvalidInputError(
                f"column {name!r} was cast since version {version}, and a row that is gone does "
                f"not fit {kind}: {cause}. Name the other columns, or read version {version}",
                column=name,
            ) from cause

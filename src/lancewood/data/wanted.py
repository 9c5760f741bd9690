"""Columns to be read from many fragments: plans that fragments share, and the final batches.

Fragments of one table mostly have the same layout, so a plan made for one serves the next. No path
and no handle is kept. Batches of the same rows from several files are assembled into one; if a
single file holds the columns exactly as wanted, its batches are passed on unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TypeVar

import pyarrow as pa

from lancewood.data.arrays import FieldPart, Mask, assemble, assemble_live
from lancewood.data.codec import FileFacts
from lancewood.data.plan import (
    ColumnPlan,
    FilePlan,
    FileProjection,
    guess_paths,
    plan_columns,
    project_file,
)
from lancewood.errors import FormatError
from lancewood.format.schema import to_scan_schema
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FieldId
from lancewood.model.schema import Schema

_MOST_KEPT = 1024
K = TypeVar("K")
V = TypeVar("V")

Layout = tuple[tuple[tuple[int, ...], tuple[int, ...], int, int], ...]
"""Which fields are where in the files of a fragment, and the file versions."""


class WantedColumns:
    """A part of a table's schema, with the table's ids. Thread-safe."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._plans: dict[Layout, ColumnPlan] = {}
        self._projections: dict[tuple[int, int, int], tuple[object, object, FileProjection]] = {}
        self._guesses: dict[int, tuple[object, tuple[str, ...]]] = {}

    @cached_property
    def arrow(self) -> pa.Schema:
        """The Arrow schema of what is read, without schema metadata."""
        return to_scan_schema(self.schema).remove_metadata()

    @cached_property
    def owners(self) -> Mapping[FieldId, str]:
        """The top-level column that each field belongs to."""
        return {each.id: top.name for top in self.schema.fields for each in top.walk()}

    @cached_property
    def width(self) -> tuple[float, tuple[str, ...]]:
        """Bytes of a row as far as types determine it, and the columns that can be wider."""
        unknown = tuple(each.name for each in self.arrow if not is_fixed_width(each.type))
        return sum(value_width(each.type) for each in self.arrow), unknown

    def missing(self, fragment: Fragment) -> frozenset[FieldId]:
        """The fields that no file of the fragment holds; raises what ``plan_columns`` raises."""
        layout = layout_of(fragment)
        known = self._plans.get(layout)
        return self.plan(fragment, layout).missing if known is None else known.missing

    def plan(self, fragment: Fragment, layout: Layout) -> ColumnPlan:
        """Where the columns are in a fragment; raises what ``plan_columns`` raises."""
        known = self._plans.get(layout)
        if known is not None:
            return known.bound_to(fragment)
        made = plan_columns(fragment, self.schema)
        _keep(self._plans, layout, made)
        return made

    def guess(self, plan: FilePlan) -> tuple[str, ...]:
        """The projection of a file whose columns have the same names as in the table."""
        known = self._guesses.get(id(plan.columns))
        if known is not None:
            return known[1]
        made = guess_paths(plan, self.schema)
        _keep(self._guesses, id(plan.columns), (plan.columns, made))
        return made

    def projection(self, plan: FilePlan, facts: FileFacts, location: str) -> FileProjection:
        """What to request from a file; raises what ``project_file`` raises."""
        key = (id(plan.columns), id(facts.schema), facts.num_columns)
        known = self._projections.get(key)
        if known is not None:
            return known[2]
        made = project_file(plan, self.schema, facts, location)
        # The objects behind the ids in the key are kept alive, so that no id is reused.
        _keep(self._projections, key, (plan.columns, facts.schema, made))
        return made


def _keep(known: dict[K, V], key: K, value: V) -> None:
    if len(known) >= _MOST_KEPT:
        known.clear()
    known[key] = value


def layout_of(fragment: Fragment) -> Layout:
    """The layout of a fragment: fragments with the same layout share a plan."""
    return tuple(
        (
            tuple(each.fields),
            tuple(each.column_indices),
            each.file_major_version,
            each.file_minor_version,
        )
        for each in fragment.message.files
    )


def assembled(
    wanted: WantedColumns,
    sources: Sequence[tuple[pa.RecordBatch, FileProjection]],
    rows: int,
    find_live: Callable[[], Mask] | None = None,
) -> pa.RecordBatch:
    """The wanted columns, from batches of the same rows out of several files.

    Where the files disagree, ``find_live`` tells which rows are live; all are without it. Raises
    FormatError if the files disagree about a live row.
    """
    schema = wanted.arrow
    if len(sources) == 1 and not sources[0][1].renamed:
        batch = sources[0][0]
        if batch.schema.equals(schema):
            return batch
    columns = []
    arrays = [
        (dict(zip(batch.schema.names, batch.columns, strict=True)), projection)
        for batch, projection in sources
    ]
    for field, target in zip(wanted.schema.fields, schema, strict=True):
        parts = []
        for held, projection in arrays:
            array = held.get(projection.names.get(field.id, ""))
            if array is not None and field.id in projection.names:
                is_renamed = field.id in projection.renamed
                parts.append(FieldPart(array, projection.names, is_renamed))
        try:
            columns.append(assemble(field, target.type, parts, rows))
        except FormatError:
            live = None if find_live is None else find_live()
            if live is None or live.all():
                raise
            columns.append(assemble_live(field, target.type, parts, live))
    if not columns:
        return pa.RecordBatch.from_arrays([pa.nulls(rows)], names=["rows"]).select([])
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def is_fixed_width(kind: pa.DataType) -> bool:
    """Whether all values of the type have the same size."""
    if isinstance(kind, pa.BaseExtensionType):
        return is_fixed_width(kind.storage_type)
    if pa.types.is_fixed_size_list(kind):
        return is_fixed_width(kind.value_type)
    if pa.types.is_struct(kind):
        return all(is_fixed_width(each.type) for each in kind)
    if pa.types.is_dictionary(kind):
        return False
    try:
        return bool(kind.bit_width >= 0)
    except ValueError:
        return False


def value_width(kind: pa.DataType) -> float:
    """Bytes of one value in memory as far as the type determines it."""
    if isinstance(kind, pa.BaseExtensionType):
        return value_width(kind.storage_type)
    if pa.types.is_fixed_size_list(kind):
        return float(kind.list_size * value_width(kind.value_type))
    if pa.types.is_struct(kind):
        return sum(value_width(each.type) for each in kind)
    try:
        return float(kind.bit_width) / 8
    except ValueError:
        return 16.0


def has_dictionary(kind: pa.DataType) -> bool:
    """Whether there is a dictionary anywhere in the type."""
    if isinstance(kind, pa.BaseExtensionType):
        return has_dictionary(kind.storage_type)
    children = (kind.field(index).type for index in range(kind.num_fields))
    return pa.types.is_dictionary(kind) or any(map(has_dictionary, children))

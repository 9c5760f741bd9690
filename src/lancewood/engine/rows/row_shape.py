"""What a scan reads of every fragment, and how rows become its output: which columns a filter
needs, which others are returned, and how they are shaped and computed. Reads nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any

import pyarrow as pa

from lancewood.data.wanted import WantedColumns
from lancewood.engine.schema import Projection, cut_schema, stored_paths
from lancewood.engine.snapshot import Snapshot
from lancewood.expr import Predicate
from lancewood.model.schema import SYSTEM_COLUMNS, Schema


class Fetching(Enum):
    """How the columns that a filter does not need are fetched. Tests force one."""

    AUTO = "auto"
    TOGETHER = "in one go with the filter's"
    WITHIN = "later, with the rows between"
    SINGLY = "later, row by row"


@dataclass(frozen=True, kw_only=True)
class RowShape:
    """What one scan reads of every fragment."""

    snapshot: Snapshot
    projection: Projection
    predicate: Predicate | None = None
    batch_rows: int | None = None
    most_rows: int | None = None
    """The most rows of one fragment, after the filter."""
    fetching: Fetching = Fetching.AUTO
    hints: dict[str, frozenset[str]] = field(default_factory=dict, repr=False)
    """What was learned from one fragment, for the next: see ``fragment_scan``."""
    _subsets: dict[tuple[str, frozenset[str]], WantedColumns] = field(
        default_factory=dict, repr=False
    )

    @cached_property
    def schema(self) -> pa.Schema:
        """The schema of the output."""
        return self.projection.arrow_schema()

    @cached_property
    def filtering(self) -> WantedColumns:
        """The stored columns of the filter, cut to the fields that it reads."""
        paths = [] if self.predicate is None else stored_paths(self.predicate)
        return WantedColumns(cut_schema(self.snapshot.schema, paths))

    @cached_property
    def late(self) -> WantedColumns:
        """The stored output columns that are not read whole for the filter."""
        early = self.filtering.schema.by_name
        together = self.together.schema.by_name
        fields = self.projection.stored.fields
        rest = (each for each in fields if early.get(each.name) != together[each.name])
        return WantedColumns(Schema(tuple(rest)))

    @cached_property
    def together(self) -> WantedColumns:
        """All stored columns of projection and filter, for reading them at once."""
        if self.predicate is None:
            return WantedColumns(self.projection.stored)
        paths = [*self.projection.paths, *stored_paths(self.predicate)]
        return WantedColumns(cut_schema(self.snapshot.schema, paths))

    @cached_property
    def filter_system(self) -> tuple[str, ...]:
        """The system columns that the filter needs."""
        needed = () if self.predicate is None else self.predicate.columns
        return tuple(each for each in needed if each in SYSTEM_COLUMNS)

    @cached_property
    def is_plain(self) -> bool:
        """Whether stored columns are returned just as they are read."""
        names = self.projection.names
        return bool(names) and names == self.together.schema.names and not self.projection.computed

    @cached_property
    def is_filtered_by_statements(self) -> bool:
        """Whether DuckDB is asked which rows of a batch pass."""
        predicate = self.predicate
        return predicate is not None and bool(predicate.paths) and not predicate.is_exact

    @cached_property
    def is_computed(self) -> bool:
        """Whether DuckDB computes columns of the output."""
        return any(each.column is None for each in self.projection.computed.values())

    def early(self, names: frozenset[str]) -> WantedColumns:
        """The columns of the filter, and the late ones that are read along with them."""
        if not names:
            return self.filtering
        known = self._subsets.get(("early", names))
        if known is None:
            asked = [each for each in self.projection.paths if each[0] in names]
            filtered = [] if self.predicate is None else stored_paths(self.predicate)
            known = WantedColumns(cut_schema(self.snapshot.schema, [*filtered, *asked]))
            self._subsets["early", names] = known
        return known

    def part_of_late(self, names: frozenset[str]) -> WantedColumns:
        """The late columns with these names."""
        known = self._subsets.get(("late", names))
        if known is None:
            fields = tuple(each for each in self.late.schema.fields if each.name in names)
            known = self._subsets["late", names] = WantedColumns(Schema(fields))
        return known

    def shaped(self, columns: Mapping[str, Any], rows: int) -> pa.RecordBatch:
        """The output, from stored and system columns by name."""
        if not self.projection.names:
            return nameless(rows)
        computed = self.projection.computed
        whole = batch_of(columns, rows) if computed else None
        arrays = []
        for each in self.schema:
            if each.name in computed:
                arrays.append(computed[each.name].evaluate(whole))
            else:
                array = columns[each.name]
                arrays.append(array if array.type == each.type else _narrow(array, each.type))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def batch_of(columns: Mapping[str, Any], rows: int) -> pa.RecordBatch:
    """A batch of the columns, or of this many rows without columns."""
    if columns:
        return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    return nameless(rows)


def nameless(rows: int) -> pa.RecordBatch:
    """A batch of this many rows without columns."""
    return pa.RecordBatch.from_struct_array(
        pa.StructArray.from_buffers(pa.struct([]), rows, [None])
    )


def _narrow(array: Any, wanted: pa.DataType) -> Any:
    """A struct that the filter needed whole, cut to the requested children."""
    arrays = [
        _narrow(array.field(each.name), each.type)
        if array.type.field(each.name).type != each.type
        else array.field(each.name)
        for each in wanted
    ]
    return pa.StructArray.from_arrays(
        arrays, fields=list(wanted), mask=array.is_null() if array.null_count else None
    )

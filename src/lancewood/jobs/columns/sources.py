"""Where the values of new columns come from: SQL, a function, a stream, a stream joined by key.

Each knows which columns come out, which stored ones it reads, and gives the values of the live
rows of fragments. Writes nothing. What can be computed again, and for which rows, is said by
``can_repeat`` (any row, any number of times) and ``can_extend`` (rows that were not seen yet).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np
import pyarrow as pa

from lancewood.data.align import align_schema
from lancewood.engine.base import as_list
from lancewood.engine.rows import Portions, RowFacts, RowShape, scan_each
from lancewood.engine.schema import Projection, project
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import InvalidInputError, UnsupportedError
from lancewood.jobs.columns.files import Batches, ColumnValues, read_fields
from lancewood.jobs.merge_into.keys import Key, KeyIndex, check_distinct, resolve_key
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FieldId
from lancewood.model.schema import Schema

Function = Callable[[pa.RecordBatch], pa.RecordBatch]

_PORTION = 65_536


class ColumnSource(ColumnValues, Protocol):
    """Values for new columns of a table."""

    @property
    def can_repeat(self) -> bool: ...
    @property
    def can_extend(self) -> bool: ...

    def columns(self, snapshot: Snapshot) -> pa.Schema | None:
        """The columns that come out; None if only computing tells.

        Raises InvalidInputError if the table has not what is read.
        """

    def inputs(self, snapshot: Snapshot) -> frozenset[FieldId]:
        """The ids of the stored fields that are read."""


@dataclass(frozen=True)
class SqlColumns:
    """An SQL expression for each new column."""

    expressions: Mapping[str, str]
    batch_rows: int | None = None
    can_repeat: ClassVar[bool] = True
    can_extend: ClassVar[bool] = True

    def columns(self, snapshot: Snapshot) -> pa.Schema:
        projection = self._projection(snapshot)
        blob = next((each.name for each in projection.stored.fields if each.is_blob), None)
        if blob is not None:
            raise UnsupportedError(
                f"column {blob!r} holds blobs, of which a scan gives no values", column=blob
            )
        fields = [pa.field(name, each.type) for name, each in projection.computed.items()]
        return pa.schema(fields)

    def inputs(self, snapshot: Snapshot) -> frozenset[FieldId]:
        return read_fields(self._projection(snapshot).stored)

    def of(self, snapshot: Snapshot, fragments: Sequence[Fragment]) -> Iterator[Batches]:
        shape = RowShape(
            snapshot=snapshot, projection=self._projection(snapshot), batch_rows=self.batch_rows
        )
        return scan_each(shape, fragments)

    def _projection(self, snapshot: Snapshot) -> Projection:
        return project(snapshot.schema, self.expressions)


@dataclass(frozen=True)
class FunctionColumns:
    """A function of record batches, which sees live rows only."""

    function: Function
    columns_read: tuple[str, ...] | None
    """The columns that the function sees; None: all stored columns."""
    schema: pa.Schema | None
    batch_rows: int | None
    can_repeat: bool
    can_extend: ClassVar[bool] = True

    def columns(self, snapshot: Snapshot) -> pa.Schema | None:
        self._projection(snapshot)
        return self.schema

    def inputs(self, snapshot: Snapshot) -> frozenset[FieldId]:
        return read_fields(self._projection(snapshot).stored)

    def of(self, snapshot: Snapshot, fragments: Sequence[Fragment]) -> Iterator[Batches]:
        shape = RowShape(
            snapshot=snapshot, projection=self._projection(snapshot), batch_rows=self.batch_rows
        )
        return map(self._results, scan_each(shape, fragments))

    def _projection(self, snapshot: Snapshot) -> Projection:
        return project(snapshot.schema, self.columns_read)

    def _results(self, batches: Batches) -> Batches:
        for batch in batches:  # not map, which takes a StopIteration of the function for its end
            yield self._called(batch)

    def _called(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        result = self.function(batch)
        if not isinstance(result, pa.RecordBatch):
            raise InvalidInputError(
                "the function of add_columns must return a pyarrow.RecordBatch, it returned "
                f"{type(result).__name__}"
            )
        if result.num_rows != batch.num_rows:
            raise InvalidInputError(
                f"the function of add_columns was given {batch.num_rows} rows and returned "
                f"{result.num_rows}"
            )
        return result


class OrderedColumns:
    """A stream whose rows are the live rows of the table, in the order of a scan."""

    can_repeat: ClassVar[bool] = False
    can_extend: ClassVar[bool] = False

    def __init__(self, reader: pa.RecordBatchReader) -> None:
        self._schema = reader.schema
        self._portions = Portions(reader)
        self.rows = 0
        """Number of rows taken so far."""

    def columns(self, snapshot: Snapshot) -> pa.Schema:
        return self._schema

    def inputs(self, snapshot: Snapshot) -> frozenset[FieldId]:
        return frozenset()

    def check(self, snapshot: Snapshot, fragments: Sequence[Fragment], columns: Schema) -> None:
        """Read all of it; raises InvalidInputError if its rows are not those of the fragments, or
        its values not those of the columns."""
        alignment = align_schema(columns, self._schema, complete=True)
        for batches in self.of(snapshot, fragments):
            for batch in batches:
                alignment.cast(batch)

    def of(self, snapshot: Snapshot, fragments: Sequence[Fragment]) -> Iterator[Batches]:
        for each in fragments:
            yield self._taken(each.physical_rows - len(RowFacts(snapshot, each).deleted), each)
        if self._portions.peek() is not None:
            raise InvalidInputError(
                f"the data has more rows than the {self.rows} that get new values"
            )

    def _taken(self, rows: int, fragment: Fragment) -> Batches:
        for batch in self._portions.take(rows):
            rows -= batch.num_rows
            self.rows += batch.num_rows
            yield batch
        if rows:
            raise InvalidInputError(
                f"the data ends after {self.rows} rows, before the last row of fragment "
                f"{fragment.id}: it must have a row for each row that gets new values",
                fragment=fragment.id,
            )


@dataclass(frozen=True)
class JoinedColumns:
    """Rows of a source that is held in memory, found by key; null where there is none."""

    source: pa.Table = field(repr=False)
    on: tuple[str, ...]
    can_repeat: ClassVar[bool] = True
    can_extend: ClassVar[bool] = True

    def __getstate__(self) -> dict[str, Any]:
        return {"source": self.source, "on": self.on}

    def columns(self, snapshot: Snapshot) -> pa.Schema:
        key = self._key(snapshot)
        known = self._keys(key)
        check_distinct(key, self._index(key), known)
        return self._values.schema

    def inputs(self, snapshot: Snapshot) -> frozenset[FieldId]:
        return read_fields(project(snapshot.schema, self.on).stored)

    def of(self, snapshot: Snapshot, fragments: Sequence[Fragment]) -> Iterator[Batches]:
        key = self._key(snapshot)
        index = self._index(key)
        shape = RowShape(snapshot=snapshot, projection=project(snapshot.schema, self.on))
        enough = max(len(index), _PORTION)
        some: list[list[pa.Array]] = []
        for at, batches in enumerate(scan_each(shape, fragments)):
            some.append(key.values(pa.Table.from_batches(batches, shape.schema)))
            if at == len(fragments) - 1 or sum(len(each[0]) for each in some) >= enough:
                yield from self._found(index, some)
                some = []

    def _found(self, index: KeyIndex, some: list[list[pa.Array]]) -> Iterator[Batches]:
        """A look-up costs as much as the source is long, so it is done for many rows at once."""
        whole = [pa.concat_arrays(list(column)) for column in zip(*some, strict=True)]
        rows = index.find(whole)
        ends = np.cumsum([len(each[0]) for each in some])
        for part in np.split(rows, ends[:-1]):
            yield self._taken(part)

    def _taken(self, rows: np.ndarray[Any, np.dtype[np.int64]]) -> Batches:
        for start in range(0, len(rows), _PORTION):
            part = rows[start : start + _PORTION]
            taken = self._values.take(pa.array(part, mask=part < 0))
            yield from taken.combine_chunks().to_batches()

    @cached_property
    def _values(self) -> pa.Table:
        return self.source.drop_columns(list(self.on))

    def _key(self, snapshot: Snapshot) -> Key:
        key = resolve_key(snapshot.schema, self.on)
        for name in key.names:
            if name not in self.source.column_names:
                raise InvalidInputError(
                    f"the data has no column {name!r} to be joined on; it has "
                    f"{', '.join(self.source.column_names)}",
                    column=name,
                )
        return key

    def _keys(self, key: Key) -> list[pa.Array]:
        try:
            return key.values(self.source)
        except pa.ArrowException as cause:
            raise InvalidInputError(
                f"the data cannot be joined on {', '.join(self.on)}: its values are not of the "
                f"table's type: {cause}"
            ) from cause

    def _index(self, key: Key) -> KeyIndex:
        known: tuple[Key, KeyIndex] | None = self.__dict__.get("_known")
        if known is None or known[0] != key:
            known = key, KeyIndex(self._keys(key))
            self.__dict__["_known"] = known
        return known[1]


def join_names(on: str | Sequence[str]) -> tuple[str, ...]:
    """The columns that a caller wants to join on; raises InvalidInputError for what is no name."""
    names = [on] if isinstance(on, str) else as_list("on", on)
    for each in names:
        if not isinstance(each, str) or "." in each:
            raise InvalidInputError(f"on takes names of columns, it holds {each!r}")
    if not names:
        raise InvalidInputError("on= names no column to join on")
    return tuple(names)

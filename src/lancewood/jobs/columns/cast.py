"""Giving a column another type: a new field id, and its values written anew.

Only casts that lose nothing: a value that the type cannot hold ends the job, and is named.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from lancewood.data.wanted import WantedColumns
from lancewood.engine.rows import RowShape, scan_each
from lancewood.engine.schema import Cast, Projection, cast_column, next_field_id
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import InvalidInputError
from lancewood.format.schema import encode_schema, to_arrow_field
from lancewood.jobs.columns.files import (
    Batches,
    ColumnFiles,
    ColumnJob,
    ColumnWriter,
    count_live,
    named_fields,
    read_fields,
)
from lancewood.jobs.counts import ColumnCounts
from lancewood.jobs.job import Change, pack_fragments
from lancewood.jobs.rows.fitting import fitted
from lancewood.jobs.runner import Runner
from lancewood.model.fragment import Fragment
from lancewood.model.transaction import Merge

_SHOWN = 80


@dataclass(frozen=True)
class CastValues:
    """The values of a column under its new type."""

    name: str
    cast: Cast

    def of(self, snapshot: Snapshot, fragments: Sequence[Fragment]) -> Iterator[Batches]:
        read = self.cast.read
        shape = RowShape(snapshot=snapshot, projection=Projection(read, read.names))
        return map(self._cast, scan_each(shape, fragments), fragments)

    def _cast(self, batches: Batches, fragment: Fragment) -> Batches:
        target = pa.schema([to_arrow_field(each) for each in self.cast.written.fields])
        seen = 0
        for batch in batches:
            column = batch.column(0)
            try:
                made = fitted(column, target.field(0).type)
            except InvalidInputError as cause:
                row, value, why = _first_misfit(column, target.field(0).type)
                raise InvalidInputError(
                    f"column {self.name!r} cannot be cast to {target.field(0).type}: live row "
                    f"{seen + row} of fragment {fragment.id} is {value}: {why}. Nothing was "
                    "changed",
                    column=self.name,
                    fragment=fragment.id,
                    row=seen + row,
                ) from cause
            seen += batch.num_rows
            yield pa.RecordBatch.from_arrays([made], schema=target)


class CastColumn(ColumnJob):
    """A column that is to have another type."""

    def __init__(self, snapshot: Snapshot, name: str, kind: pa.DataType, runner: Runner) -> None:
        super().__init__(ColumnFiles(snapshot, runner, "casting a column"))
        self._name = name
        self._kind = kind
        self._runner = runner
        self._cast(snapshot)

    def plan(self, snapshot: Snapshot) -> ColumnCounts:
        """The column; every value is tried. Nothing to do if it has the type already."""
        cast = self._cast(snapshot)
        if cast is None:
            return ColumnCounts()
        holding = _holding(snapshot, cast)
        work = partial(try_cast, snapshot.bare(), CastValues(self._name, cast))
        tasks = list(pack_fragments(holding, self._runner.slots))
        deque(self._runner.run(work, tasks, what="trying the cast"), maxlen=0)
        return self._counted(cast, holding)

    def prepare(self, snapshot: Snapshot) -> Change[ColumnCounts]:
        """Write the column anew in fragments that hold it; where it is null there is nothing to
        write."""
        manifest = snapshot.manifest
        cast = self._cast(snapshot)
        if cast is None:
            self._files.discard()
            return Change(None, ColumnCounts())
        holding = _holding(snapshot, cast)
        inputs = read_fields(cast.read)
        self._files.forget(snapshot, holding, inputs)
        values = CastValues(self._name, cast)
        self._files.write(ColumnWriter(snapshot, cast.written, values), holding, inputs)
        live = read_fields(cast.schema)
        written = {each.id for each in holding}
        images = []
        for each in manifest.fragments:
            image = each
            if each.id in written:
                image = each.with_columns(self._files.file_of(each, cast.written))
            images.append(image.without_dead_files(live))
        merge = Merge(
            tuple(images),
            tuple(encode_schema(cast.schema)),
            manifest.schema_metadata,
            preserves_nullability=True,
        )
        return Change(merge, self._counted(cast, holding))

    def _counted(self, cast: Cast, holding: Sequence[Fragment]) -> ColumnCounts:
        columns = named_fields(cast.schema, [self._name])
        return ColumnCounts(columns, len(holding), count_live(holding))

    def _cast(self, snapshot: Snapshot) -> Cast | None:
        return cast_column(
            snapshot.schema,
            self._name,
            self._kind,
            first_id=next_field_id(snapshot.manifest),
            file_version=snapshot.manifest.file_version,
        )


def _holding(snapshot: Snapshot, cast: Cast) -> list[Fragment]:
    """The fragments that hold values of the column."""
    wanted = WantedColumns(cast.read)
    leaves = frozenset(each.id for each in cast.read.walk() if each.is_column_leaf)
    return [each for each in snapshot.manifest.fragments if wanted.missing(each) < leaves]


def try_cast(snapshot: Snapshot, values: CastValues, fragments: Sequence[Fragment]) -> None:
    """The task: cast all values of some fragments, and keep none."""
    for batches in values.of(snapshot, fragments):
        deque(batches, maxlen=0)


def _first_misfit(column: pa.Array, kind: pa.DataType) -> tuple[int, str, str]:
    """The first row that cannot be cast, its value, and why; by halving."""
    low, high = 0, len(column)
    while high - low > 1:
        middle = (low + high) // 2
        if _misfit(column.slice(low, middle - low), kind):
            high = middle
        else:
            low = middle
    why = _misfit(column.slice(low, 1), kind)
    text = repr(column[low].as_py())
    return low, text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…", why


def _misfit(column: pa.Array, kind: pa.DataType) -> str:
    try:
        fitted(column, kind)
    except InvalidInputError as error:
        return error.message
    return ""

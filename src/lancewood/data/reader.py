"""Reading the rows of one fragment, projected by field id.

Knows files, physical columns and the table's schema. Does not know deletion files, row ids or
filters: the engine applies those. Nothing here is shared between threads except the pool of open
files, which looks after itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack

import numpy as np
import pyarrow as pa

from lancewood.data.arrays import Part, assemble
from lancewood.data.codec import FileReader
from lancewood.data.open_files import OPEN_FILES, DataFilePlace, OpenFiles, find_file
from lancewood.data.plan import (
    ColumnPlan,
    FilePlan,
    FileProjection,
    guess_paths,
    plan_columns,
    project_file,
)
from lancewood.errors import FormatError, InvalidInputError
from lancewood.format.arrow import to_arrow_schema
from lancewood.model.fragment import DataFile, Fragment
from lancewood.model.schema import Schema

Locate = Callable[[DataFile], tuple[str, Mapping[str, str] | None]]
"""Where a data file is: a path or URI, and the storage options that open it."""

MAX_BATCH_ROWS = 65_536
_MIN_BATCH_ROWS = 256
_BATCH_BYTES = 8 << 20

Offsets = np.ndarray[tuple[int], np.dtype[np.integer]]


class FragmentReader:
    """The wanted columns of one fragment. Cheap to make; opens files when rows are asked for."""

    def __init__(
        self,
        fragment: Fragment,
        wanted: Schema,
        locate: Locate,
        *,
        open_files: OpenFiles = OPEN_FILES,
    ) -> None:
        """Plan the read; raises what ``plan_columns`` raises.

        ``wanted`` is a part of the table's schema with the table's ids; its metadata is dropped.
        """
        self._fragment = fragment
        self._wanted = wanted
        self._locate = locate
        self._open_files = open_files
        self._plan: ColumnPlan = plan_columns(fragment, wanted)
        self._projections: dict[int, tuple[DataFilePlace, FileProjection]] = {}
        self._rows: int | None = fragment.physical_rows or None
        self.schema: pa.Schema = to_arrow_schema(wanted).remove_metadata()
        """The Arrow schema of every batch and table that comes out."""

    def physical_rows(self) -> int:
        """Rows in the fragment, deleted ones included; opens a file if the manifest is silent."""
        if self._rows is None:
            if not self._fragment.files:
                raise FormatError(
                    f"fragment {self._fragment.id} has no data files and no row count",
                    fragment=self._fragment.id,
                )
            file = self._fragment.files[0]
            place = self._find(file)
            self._rows = self._open_files.facts(place, None).num_rows
        return self._rows

    def batches(
        self, start: int = 0, stop: int | None = None, batch_rows: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a range of offsets, in order, in batches of at most ``batch_rows``.

        The default follows the width of a row. Without columns the batches carry only their number
        of rows. Raises InvalidInputError for a range outside the fragment, NotFoundError,
        FormatError and StorageError that name the file.
        """
        rows = self.physical_rows()
        stop = rows if stop is None else stop
        if not 0 <= start <= stop <= rows:
            raise InvalidInputError(
                f"rows {start} to {stop} were asked of fragment {self._fragment.id}, "
                f"which has {rows}",
                fragment=self._fragment.id,
            )
        size = self._default_batch_rows() if batch_rows is None else max(1, batch_rows)
        if not self._plan.files:
            for at in range(start, stop, size):
                yield self._assembled([], min(size, stop - at))
        elif start < stop:
            yield from self._streamed(lambda reader: reader.read(start, stop, size), stop - start)

    def take(self, offsets: Offsets) -> pa.Table:
        """The rows at the given offsets, which are sorted and unique, in that order.

        Raises InvalidInputError for offsets that are not, or lie outside the fragment.
        """
        wanted = np.asarray(offsets)
        rows = self.physical_rows()
        if wanted.size and (
            wanted[0] < 0 or wanted[-1] >= rows or not bool(np.all(wanted[1:] > wanted[:-1]))
        ):
            raise InvalidInputError(
                f"offsets for fragment {self._fragment.id} must rise strictly from 0 to {rows - 1}",
                fragment=self._fragment.id,
            )
        if not wanted.size:
            return self.schema.empty_table()
        if not self._plan.files:
            return pa.Table.from_batches([self._assembled([], wanted.size)])
        listed, size = wanted.tolist(), self._default_batch_rows()
        batches = self._streamed(lambda reader: reader.take(listed, size), len(listed))
        return pa.Table.from_batches(batches, self.schema)

    def _streamed(
        self, read: Callable[[FileReader], Iterator[pa.RecordBatch]], rows: int
    ) -> Iterator[pa.RecordBatch]:
        with ExitStack() as stack:
            streams, projections = [], []
            for plan in self._plan.files:
                place, projection = self._projection(plan)
                reader = stack.enter_context(self._open_files.reader(place, projection.paths))
                streams.append(read(reader))
                projections.append(projection)
            seen = 0
            for batches in _in_step(streams):
                seen += batches[0].num_rows
                yield self._assembled(
                    list(zip(batches, projections, strict=True)), batches[0].num_rows
                )
            if seen != rows:
                names = ", ".join(each.file.path for each in self._plan.files)
                raise FormatError(
                    f"data file {names} gave {seen} rows where {rows} were expected", file=names
                )

    def _assembled(
        self, sources: Sequence[tuple[pa.RecordBatch, FileProjection]], rows: int
    ) -> pa.RecordBatch:
        columns = []
        for field, target in zip(self._wanted.fields, self.schema, strict=True):
            parts = []
            for batch, projection in sources:
                name = projection.names.get(field.id)
                if name is not None:
                    is_renamed = field.id in projection.renamed
                    parts.append(Part(batch.column(name), projection.names, is_renamed))
            columns.append(assemble(field, target.type, parts, rows))
        if not columns:
            return pa.RecordBatch.from_arrays([pa.nulls(rows)], names=["rows"]).select([])
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _find(self, file: DataFile) -> DataFilePlace:
        location, options = self._locate(file)
        return find_file(location, options, file.size)

    def _projection(self, plan: FilePlan) -> tuple[DataFilePlace, FileProjection]:
        place = self._find(plan.file)
        known = self._projections.get(id(plan))
        if known is not None and known[0] == place:
            return known
        facts = self._open_files.facts(place, guess_paths(plan, self._wanted))
        if facts.num_rows != self.physical_rows():
            raise FormatError(
                f"data file {place.location} has {facts.num_rows} rows, fragment "
                f"{self._fragment.id} has {self.physical_rows()}",
                file=place.location,
            )
        found = (place, project_file(plan, self._wanted, facts, place.location))
        self._projections[id(plan)] = found
        return found

    def _default_batch_rows(self) -> int:
        width = sum(_width(each.type) for each in self.schema) + self._stored_width()
        return max(_MIN_BATCH_ROWS, min(MAX_BATCH_ROWS, int(_BATCH_BYTES / max(width, 1))))

    def _stored_width(self) -> float:
        """Stored bytes per row of what is read: tells wide strings and blobs from narrow ones."""
        rows = self.physical_rows()
        total = 0.0
        for plan in self._plan.files:
            live = sum(1 for each in plan.file.column_indices if each >= 0)
            total += (plan.file.size or 0) * len(plan.columns) / max(live, 1)
        return total / rows if rows else 0.0


def _in_step(streams: Sequence[Iterator[pa.RecordBatch]]) -> Iterator[list[pa.RecordBatch]]:
    """Batches of several files, cut so that they always cover the same rows."""
    if len(streams) == 1:
        yield from ([each] for each in streams[0] if each.num_rows)
        return
    heads = [next(each, None) for each in streams]
    while True:
        live = [each for each in heads if each is not None]
        if len(live) < len(heads):
            return
        rows = min(each.num_rows for each in live)
        if rows:
            yield [each.slice(0, rows) for each in live]
        for index, each in enumerate(live):
            rest = each.slice(rows)
            heads[index] = rest if rest.num_rows else next(streams[index], None)


def _width(kind: pa.DataType) -> float:
    """Bytes of one value in memory as far as the type tells."""
    if isinstance(kind, pa.BaseExtensionType):
        return _width(kind.storage_type)
    if pa.types.is_fixed_size_list(kind):
        return float(kind.list_size * _width(kind.value_type))
    if pa.types.is_struct(kind):
        return sum(_width(each.type) for each in kind)
    try:
        return float(kind.bit_width) / 8
    except ValueError:
        return 16.0

"""Reading the rows of one fragment, projected by field id.

Deletion files, row ids and filters are applied by the engine. Threads share only the pool of open
files, which is thread-safe.

Of a blob column the descriptors are read: where the bytes of each value are (``data.blob_file``
reads the bytes). In the first layout a descriptor is a position and a size in the data file itself,
and a null is a size of 0 at a position other than 0. In the second layout (files of version 2.2 and
later) it also names the kind of storage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lancewood.data.codec import FileFacts, FileReader
from lancewood.data.open_files import (
    OPEN_FILES,
    Container,
    LocatedFile,
    OpenFiles,
    find_file,
    open_container,
)
from lancewood.data.plan import ColumnPlan, FilePlan, FileProjection
from lancewood.data.transplant import Transplant
from lancewood.data.wanted import WantedColumns, assembled, has_dictionary, layout_of
from lancewood.errors import FormatError, InvalidInputError, LancewoodError, NotFoundError
from lancewood.format.logical_type import encode_leaf_type
from lancewood.format.schema import BLOB_V1_DESCRIPTOR, BLOB_V2_DESCRIPTOR
from lancewood.model.fragment import DataFile, Fragment
from lancewood.model.ids import FieldId
from lancewood.model.schema import OLD_PACKED, PACKED, Field, Schema

Offsets = np.ndarray[tuple[int], np.dtype[np.integer]]

_FEW_ROWS = 4_096


def in_step(streams: Sequence[Iterator[pa.RecordBatch]]) -> Iterator[list[pa.RecordBatch]]:
    """Batches of several streams, cut so that they always cover the same rows."""
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


def sifted(
    batches: Iterator[pa.RecordBatch], wanted: Offsets, batch_rows: int | None
) -> Iterator[pa.RecordBatch]:
    """The wanted rows, of batches that start at the first wanted row; small batches are joined."""
    position = int(wanted[0])
    few: list[pa.RecordBatch] = []
    enough = min(_FEW_ROWS, batch_rows or _FEW_ROWS)
    for batch in batches:
        low, high = np.searchsorted(wanted, (position, position + batch.num_rows))
        if high - low == batch.num_rows:
            few.append(batch)
        elif high > low:
            few.append(batch.take(pa.array(wanted[low:high] - position)))
        position += batch.num_rows
        if sum(each.num_rows for each in few) >= enough:
            yield from _joined(few, batch_rows)
            few = []
    yield from _joined(few, batch_rows)


def _joined(batches: list[pa.RecordBatch], batch_rows: int | None) -> Iterator[pa.RecordBatch]:
    if not batches:
        return
    if any(has_dictionary(each.type) for each in batches[0].schema):
        yield from batches  # several dictionaries together may be too large for one
        return
    whole = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
    size = whole.num_rows if batch_rows is None else batch_rows
    yield from (whole.slice(at, size) for at in range(0, whole.num_rows, size))


Locate = Callable[[DataFile], tuple[str, Mapping[str, str] | None]]
"""Where a data file is: a path or URI and the storage options to open it."""
Elsewhere = Callable[[DataFile], Iterable[tuple[str, Mapping[str, str] | None]]]
"""Where else to look for a data file that was not found."""
AreDeleted = Callable[[npt.NDArray[np.int64]], npt.NDArray[np.bool_]]
"""Which of the rows at some offsets of a fragment are deleted."""
MAX_BATCH_ROWS = 65_536
_MIN_BATCH_ROWS = 256
_BATCH_BYTES = 8 << 20
_STRETCH_BYTES = 32 << 20
"""The most that is requested from the codec at once: it would read up to two gigabytes ahead."""


class FragmentReader:
    """The wanted columns of one fragment. Cheap to make; opens files when rows are asked for."""

    def __init__(
        self,
        fragment: Fragment,
        wanted: Schema | WantedColumns,
        locate: Locate,
        *,
        elsewhere: Elsewhere | None = None,
        are_deleted: AreDeleted | None = None,
        open_files: OpenFiles = OPEN_FILES,
    ) -> None:
        """Plan the read; raises what ``plan_columns`` raises.

        ``wanted`` is a part of the table's schema with the table's ids; its metadata is dropped.
        To read many fragments, pass the same WantedColumns for all of them. ``are_deleted`` is
        asked only where files disagree about rows; without it no row is deleted.
        """
        self._files = _Files(fragment, locate, elsewhere, are_deleted, open_files)
        self._select(wanted)

    def _select(self, wanted: Schema | WantedColumns) -> None:
        self._wanted = wanted if isinstance(wanted, WantedColumns) else WantedColumns(wanted)
        self._widths: Mapping[str, float] | None = None
        self._plan: ColumnPlan = self._wanted.plan(self._files.fragment, self._files.layout)
        self.schema: pa.Schema = self._wanted.arrow
        """The Arrow schema of all batches and tables, apart from metadata of fields."""

    def of(self, wanted: WantedColumns) -> FragmentReader:
        """A reader of other columns of the same files, which need not be opened again."""
        known = self._files.readers.get(wanted)
        if known is None:
            known = FragmentReader.__new__(FragmentReader)
            known._files = self._files
            known._select(wanted)
            self._files.readers[wanted] = known
        return known

    @property
    def file_numbers(self) -> frozenset[int]:
        """Which of the fragment's files hold the columns."""
        return frozenset(each.index for each in self._plan.files)

    @property
    def varying(self) -> tuple[str, ...]:
        """The columns whose values can have several sizes."""
        return self._wanted.width[1]

    def look(self) -> None:
        """Open the files that hold the columns, unless they are open already."""
        for plan in self._plan.files:
            self._files.facts(plan, self._wanted.guess(plan))

    def physical_rows(self) -> int:
        """Rows, deleted ones included; opens a file if the manifest has no count."""
        return self._files.rows()

    def batches(
        self, start: int = 0, stop: int | None = None, batch_rows: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a range of offsets, in order, in batches of at most ``batch_rows``.

        Reading begins at once, before the first batch is asked for. The default batch size follows
        the width of a row. Without columns the batches carry only their number of rows. Raises
        InvalidInputError for a range outside the fragment, and NotFoundError, FormatError and
        StorageError that name the file.
        """
        rows = self.physical_rows()
        stop = rows if stop is None else stop
        if not 0 <= start <= stop <= rows:
            raise InvalidInputError(
                f"rows {start} to {stop} were asked of fragment {self._files.fragment.id}, "
                f"which has {rows}",
                fragment=self._files.fragment.id,
            )
        if not self._plan.files:
            size = self._default_batch_rows() if batch_rows is None else max(1, batch_rows)
            return (
                assembled(self._wanted, [], min(size, stop - at)) for at in range(start, stop, size)
            )
        if start == stop:
            return iter(())
        self.look()
        step = int(_STRETCH_BYTES / max(sum(self.stored_widths().values()), 1e-9))
        step = max(step, _MIN_BATCH_ROWS, batch_rows or 1)
        first = self._stretch(start, min(start + step, stop), batch_rows)
        return (
            first if step >= stop - start else self._on(first, start + step, stop, step, batch_rows)
        )

    def _on(
        self,
        begun: Iterator[pa.RecordBatch],
        start: int,
        stop: int,
        step: int,
        batch_rows: int | None,
    ) -> Iterator[pa.RecordBatch]:
        """The begun stretch and those after it, each begun before the previous one is read."""
        for at in range(start, stop, step):
            following = self._stretch(at, min(at + step, stop), batch_rows)
            yield from begun
            begun = following
        yield from begun

    def _stretch(self, start: int, stop: int, batch_rows: int | None) -> Iterator[pa.RecordBatch]:
        def read(reader: FileReader | Transplant, size: int) -> Iterator[pa.RecordBatch]:
            return reader.read(start, stop, size)

        return self._streamed(read, range(start, stop), batch_rows)

    def take(self, offsets: Offsets) -> pa.Table:
        """The rows at the given offsets, which must be sorted and unique.

        Raises InvalidInputError for offsets that are not, or that lie outside the fragment.
        """
        return pa.Table.from_batches(self.pick(offsets), self.schema)

    def pick(
        self, offsets: Offsets, *, within: bool = False, batch_rows: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The rows at the given offsets, in batches of at most ``batch_rows``.

        ``within`` reads the whole range from first to last and drops the rows between: cheaper for
        narrow columns if few rows are dropped.
        """
        wanted = np.asarray(offsets)
        rows = self.physical_rows()
        if wanted.size and (
            wanted[0] < 0 or wanted[-1] >= rows or not bool(np.all(wanted[1:] > wanted[:-1]))
        ):
            raise InvalidInputError(
                f"offsets for fragment {self._files.fragment.id} must rise strictly from 0 to "
                f"{rows - 1}",
                fragment=self._files.fragment.id,
            )
        if not wanted.size:
            return iter(())
        if not self._plan.files:
            size = MAX_BATCH_ROWS if batch_rows is None else max(1, batch_rows)
            return (
                assembled(self._wanted, [], min(size, wanted.size - at))
                for at in range(0, wanted.size, size)
            )
        if within:
            batches = self.batches(int(wanted[0]), int(wanted[-1]) + 1, batch_rows)
            return sifted(batches, wanted, batch_rows)
        listed = wanted.tolist()

        def take(reader: FileReader | Transplant, size: int) -> Iterator[pa.RecordBatch]:
            return reader.take(listed, size)

        return self._streamed(take, listed, batch_rows)

    def stored_widths(self) -> Mapping[str, float]:
        """Stored bytes per row of each column, by its name.

        Exact for opened files; the size of others is divided evenly. Opens nothing.
        """
        if self._widths is not None:
            return self._widths
        rows = self.physical_rows()
        widths = dict.fromkeys(self._wanted.schema.names, 0.0)
        for plan in self._plan.files:
            sizes = self._files.column_bytes(plan)
            for field, index in plan.columns.items():
                widths[self._wanted.owners[field]] += sizes(index) / max(rows, 1)
        if all(map(self._files.is_open, self._plan.files)):
            self._widths = widths
        return widths

    def _streamed(
        self,
        read: Callable[[FileReader | Transplant, int], Iterator[pa.RecordBatch]],
        offsets: Sequence[int],
        batch_rows: int | None,
    ) -> Iterator[pa.RecordBatch]:
        """The rows at the offsets, as ``read`` gives them from each file, assembled."""
        rows = len(offsets)
        readers: list[FileReader | Transplant] = []
        projections: list[FileProjection] = []
        borrowed: list[tuple[LocatedFile, tuple[str, ...], FileReader]] = []
        for plan in self._plan.files:
            located, facts = self._files.facts(plan, self._wanted.guess(plan))
            projection = self._wanted.projection(plan, facts, located.location)
            if projection.paths:
                reader = self._files.open_files.borrow(located, projection.paths)
                borrowed.append((located, projection.paths, reader))
                readers.append(reader)
            for top, columns in projection.transplanted:
                readers.append(open_transplanted(open_container(located), top, columns))
            projections += [projection] * (len(readers) - len(projections))
        size = self._default_batch_rows() if batch_rows is None else max(1, batch_rows)
        streams = [read(each, min(size, rows)) for each in readers]

        def drained() -> Iterator[pa.RecordBatch]:
            seen = 0
            for batches in in_step(streams):
                first, seen = seen, seen + batches[0].num_rows
                sources = list(zip(batches, projections, strict=True))
                find_live = partial(self._files.find_live, offsets[first:seen])
                yield assembled(self._wanted, sources, batches[0].num_rows, find_live)
                if seen >= rows:
                    break  # asking the codec for the end of its stream costs as much as a batch
            if seen != rows:
                names = ", ".join(each.file.path for each in self._plan.files)
                raise FormatError(
                    f"data file {names} gave {seen} rows where {rows} were expected", file=names
                )
            for each in borrowed:
                self._files.open_files.give_back(*each)

        return drained()

    def _default_batch_rows(self) -> int:
        """Rows in a batch of a few megabytes; text and binary count with their stored width."""
        width, of_unknown_width = self._wanted.width
        if of_unknown_width:
            stored = self.stored_widths()
            width += sum(stored[each] for each in of_unknown_width)
        return max(_MIN_BATCH_ROWS, min(MAX_BATCH_ROWS, int(_BATCH_BYTES / max(width, 1))))


class _Files:
    """The data files of one fragment: their locations, and the facts read from them."""

    def __init__(
        self,
        fragment: Fragment,
        locate: Locate,
        elsewhere: Elsewhere | None,
        are_deleted: AreDeleted | None,
        open_files: OpenFiles,
    ) -> None:
        self.fragment = fragment
        self.open_files = open_files
        self.layout = layout_of(fragment)
        self._locate = locate
        self._elsewhere = elsewhere
        self._are_deleted = are_deleted
        self._rows: int | None = fragment.physical_rows or None
        self._facts: dict[int, tuple[LocatedFile, FileFacts]] = {}
        self.readers: dict[WantedColumns, FragmentReader] = {}

    def is_open(self, plan: FilePlan) -> bool:
        """Whether the facts of the file are known."""
        return plan.index in self._facts

    def rows(self) -> int:
        if self._rows is None:
            if not self.fragment.files:
                raise FormatError(
                    f"fragment {self.fragment.id} has no data files and no row count",
                    fragment=self.fragment.id,
                )
            self._rows = self._open(self.fragment.files[0], None)[1].num_rows
        return self._rows

    def facts(self, plan: FilePlan, guess: Sequence[str]) -> tuple[LocatedFile, FileFacts]:
        """Where the file is, and its facts; raises FormatError if its row count is wrong."""
        known = self._facts.get(plan.index)
        if known is not None:
            return known
        located, facts = self._open(plan.file, guess)
        if facts.num_rows != self.rows():
            raise FormatError(
                f"data file {located.location} has {facts.num_rows} rows, fragment "
                f"{self.fragment.id} has {self.rows()}",
                file=located.location,
            )
        self._facts[plan.index] = located, facts
        return located, facts

    def find_live(self, offsets: Sequence[int]) -> npt.NDArray[np.bool_]:
        """Which of the rows at the offsets are live."""
        if self._are_deleted is None:
            return np.ones(len(offsets), np.bool_)
        return ~self._are_deleted(np.asarray(offsets, np.int64))

    def column_bytes(self, plan: FilePlan) -> Callable[[int], float]:
        """The stored size of a physical column of the file."""
        known = self._facts.get(plan.index)
        exact = () if known is None else known[1].column_bytes
        live = sum(1 for each in plan.file.column_indices if each >= 0)
        share = (plan.file.size or 0) / max(live, 1)
        return lambda index: exact[index] if index < len(exact) else share

    def _open(self, file: DataFile, guess: Sequence[str] | None) -> tuple[LocatedFile, FileFacts]:
        try:
            located = find_file(*self._locate(file), file.size)
            return located, self.open_files.facts(located, guess)
        except NotFoundError as missing:
            if self._elsewhere is None:
                raise
            return self._search(file, guess, self._elsewhere(file), missing)

    def _search(
        self,
        file: DataFile,
        guess: Sequence[str] | None,
        others: Iterable[tuple[str, Mapping[str, str] | None]],
        missing: NotFoundError,
    ) -> tuple[LocatedFile, FileFacts]:
        """The file at one of the other locations; raises NotFoundError that names them all."""
        tried = [str(missing)]
        try:
            for location, options in others:
                try:
                    located = find_file(location, options, file.size)
                    return located, self.open_files.facts(located, guess)
                except NotFoundError as also:
                    tried.append(str(also))
        except LancewoodError as error:
            tried.append(str(error))
        if len(tried) == 1:
            raise missing
        if file.base_id is not None:
            tried.append(f"if base path {file.base_id} lies elsewhere now, set_base says where")
        raise NotFoundError("; ".join(tried), **missing.facts) from missing


def open_transplanted(container: Container, top: Field, columns: tuple[int, ...]) -> Transplant:
    """A reader of one top-level column as if it had its own file; of a blob, its descriptors."""
    if not top.is_blob:
        is_flat = len(columns) == 1 and all(not each.children for each in top.walk())
        return Transplant(container, columns, Schema((top,)), is_flat=is_flat)
    kind = BLOB_V2_DESCRIPTOR if top.is_blob_v2 else BLOB_V1_DESCRIPTOR
    parts = tuple(
        Field(FieldId(number), each.name, str(encode_leaf_type(each.type)), nullable=False)
        for number, each in enumerate(kind, 1)
    )
    packed = {PACKED: b"true", OLD_PACKED: b"true"}  # 2.0 files use only the older key
    described = Field(FieldId(0), top.name, "struct", True, packed, parts)

    def finish(batch: pa.RecordBatch) -> pa.RecordBatch:
        column = batch.column(0)
        found = column if top.is_blob_v2 else _with_nulls(column)
        if not found.type.equals(kind):
            raise FormatError(
                f"data file {container.name}: the descriptors of blob {top.name!r} are "
                f"{found.type}, expected {kind}",
                file=container.name,
            )
        return pa.RecordBatch.from_arrays([found], names=[top.name])

    return Transplant(container, columns, Schema((described,)), is_flat=True, finish=finish)


def _with_nulls(column: pa.StructArray) -> pa.StructArray:
    position, size = column.field("position"), column.field("size")
    mask = pc.and_(pc.equal(size, 0), pc.not_equal(position, 0))
    return pa.StructArray.from_arrays([position, size], fields=list(BLOB_V1_DESCRIPTOR), mask=mask)

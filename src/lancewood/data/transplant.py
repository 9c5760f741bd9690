"""Columns of a data file copied into a small temporary file, whose schema the codec understands.

The codec's public interface returns the bytes of a blob, never their position, and cannot read
files with a blob (v2) column, whose own schema does not number that column's parts. The pages
themselves are ordinary. So the requested pages are copied, undecoded, into a temporary file under a
valid schema, and the codec decodes them there.
"""

from __future__ import annotations

import os
import tempfile
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import accumulate
from typing import BinaryIO

import pyarrow as pa

from lancewood.data.codec import FileReader, open_reader
from lancewood.data.open_files import Container
from lancewood.errors import FormatError
from lancewood.format.container import ColumnPages, Page, encode_tail
from lancewood.model.schema import Schema

_ALIGNMENT = 64
_CHUNK = 8 << 20


class Transplant:
    """Chosen columns of one data file, read through a temporary file.

    ``schema`` describes them, in the order of ``columns``. ``is_flat`` says that there is one
    column and that each of its values is a row; then only the pages that hold wanted rows are
    copied. ``finish`` converts what the codec returns. Nothing is left on the disk when an iterator
    is exhausted or dropped.
    """

    def __init__(
        self,
        container: Container,
        columns: Sequence[int],
        schema: Schema,
        *,
        is_flat: bool,
        finish: Callable[[pa.RecordBatch], pa.RecordBatch] = lambda batch: batch,
    ) -> None:
        self._container = container
        self._indices = columns
        self._schema = schema
        self._is_flat = is_flat
        self._finish = finish

    def read(self, start: int, stop: int, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """The rows of a range in batches of at most ``batch_rows``."""
        pages = self._pages_of([start, stop - 1]) if self._is_flat else None
        if pages is not None:
            pages = list(range(pages[0], pages[-1] + 1))
        before = 0 if pages is None else self._starts[pages[0]]
        with self._planted(pages) as reader:
            for batch in reader.read(start - before, stop - before, batch_rows):
                yield self._finish(batch)

    def take(self, offsets: Sequence[int], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """The rows at strictly increasing offsets."""
        pages = self._pages_of(offsets) if self._is_flat else None
        with self._planted(pages) as reader:
            for batch in reader.take(self._moved(offsets, pages), batch_rows):
                yield self._finish(batch)

    @cached_property
    def _columns(self) -> list[ColumnPages]:
        return [self._container.column(each) for each in self._indices]

    @cached_property
    def _starts(self) -> list[int]:
        """The first row of each page of the one column, and the end of the last."""
        return list(accumulate((each.length for each in self._columns[0].pages), initial=0))

    def _pages_of(self, offsets: Sequence[int]) -> list[int]:
        if offsets and offsets[-1] >= self._starts[-1]:
            raise FormatError(
                f"data file {self._container.name} has {self._starts[-1]} rows in its pages, row "
                f"{offsets[-1]} was asked for",
                file=self._container.name,
            )
        return sorted({bisect_right(self._starts, each) - 1 for each in offsets})

    def _moved(self, offsets: Sequence[int], pages: Sequence[int] | None) -> Sequence[int]:
        """Where the rows are if only those pages are there."""
        if pages is None:
            return offsets
        lengths = [self._columns[0].pages[each].length for each in pages]
        begins = dict(zip(pages, accumulate(lengths, initial=0), strict=False))
        moved = []
        for each in offsets:
            page = bisect_right(self._starts, each) - 1
            moved.append(each - self._starts[page] + begins[page])
        return moved

    @contextmanager
    def _planted(self, pages: Sequence[int] | None) -> Iterator[FileReader]:
        with tempfile.TemporaryDirectory(prefix="lancewood-") as directory:
            path = os.path.join(directory, "columns.lance")
            with open(path, "wb") as file:
                self._plant(file, pages)
            yield open_reader(path, None, None)

    def _plant(self, file: BinaryIO, pages: Sequence[int] | None) -> None:
        columns, rows = [], 0
        for each in self._columns:
            column = ColumnPages()
            column.CopyFrom(each)
            if pages is not None:
                chosen = [each.pages[number] for number in pages]
                del column.pages[:]
                column.pages.extend(chosen)
            self._copy_buffers(file, column)
            rows = 0
            for page in column.pages:
                if pages is not None:
                    page.priority = rows
                self._copy_buffers(file, page)
                rows += page.length
            columns.append(column)
        _pad(file)
        length = self._container.num_rows if pages is None else rows
        version = self._container.footer.version
        file.write(encode_tail(file.tell(), version, self._schema, length, columns))

    def _copy_buffers(self, file: BinaryIO, holder: ColumnPages | Page) -> None:
        for number, (start, size) in enumerate(
            zip(holder.buffer_offsets, holder.buffer_sizes, strict=True)
        ):
            _pad(file)
            holder.buffer_offsets[number] = file.tell()
            for at in range(start, start + size, _CHUNK):
                file.write(self._container.read(at, min(_CHUNK, start + size - at)))


def _pad(file: BinaryIO) -> None:
    file.write(b"\0" * (-file.tell() % _ALIGNMENT))

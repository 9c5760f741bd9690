"""A data file opened as pages and positions, without the codec.

Reads a footer, a column's list of pages, or raw bytes, each on demand; ``format.container`` decodes
them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lancewood.errors import FormatError
from lancewood.format.container import (
    ENTRY_SIZE,
    FOOTER_SIZE,
    ColumnPages,
    Footer,
    decode_entry,
    decode_footer,
    decode_pages,
    decode_rows,
)

ReadRange = Callable[[int, int], bytes]
"""Reads bytes of the file: from a start, and how many."""


@dataclass(frozen=True)
class Container:
    """One data file as a container of pages."""

    name: str
    size: int
    footer: Footer
    descriptor: bytes
    """The file's own schema, its first global buffer."""
    num_rows: int
    _read: ReadRange

    def read(self, start: int, length: int) -> bytes:
        """Exactly these bytes; raises FormatError where the file ends earlier."""
        return _exactly(self.name, self._read, start, length)

    def column(self, index: int) -> ColumnPages:
        """The pages of a physical column; raises FormatError for one that leaves the file."""
        if not 0 <= index < self.footer.num_columns:
            raise FormatError(
                f"data file {self.name} has {self.footer.num_columns} columns, number {index} was "
                "asked for",
                file=self.name,
            )
        entry = self.read(self.footer.columns_at + ENTRY_SIZE * index, ENTRY_SIZE)
        start, length = decode_entry(entry, self.name, self.size, f"column {index}")
        return decode_pages(self.read(start, length), self.name, self.size, index)


def read_container(name: str, size: int, read: ReadRange) -> Container:
    """The container of the file called ``name``, whose size is known; raises FormatError."""
    if size < FOOTER_SIZE:
        raise FormatError(f"data file {name} has {size} bytes, too few for a footer", file=name)
    footer = decode_footer(_exactly(name, read, size - FOOTER_SIZE, FOOTER_SIZE), name, size)
    entry = _exactly(name, read, footer.descriptor_at, ENTRY_SIZE)
    descriptor = _exactly(name, read, *decode_entry(entry, name, size, "its own schema"))
    return Container(name, size, footer, descriptor, decode_rows(descriptor, name), read)


def _exactly(name: str, read: ReadRange, start: int, length: int) -> bytes:
    data = read(start, length)
    if len(data) != length:
        raise FormatError(
            f"data file {name} ends at {start + len(data)}, {length} bytes from {start} were "
            "expected",
            file=name,
        )
    return data

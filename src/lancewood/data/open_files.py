"""Data files that are open: for their pages and positions, or in a pool of the codec's readers.

Opening costs as much as taking a few rows. A reader serves one user at a time: it is lent out
exclusively and returned only after a clean use. Readers do not survive a fork: the child starts
with none.

Without the codec, a footer, a column's list of pages and raw bytes are read on demand;
``format.container`` decodes them.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from lancewood.data.codec import (
    FileFacts,
    FileReader,
    StorageOptions,
    file_facts,
    open_reader,
    read_range,
)
from lancewood.errors import FormatError, NotFoundError, StorageError, UnsupportedError
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


_Options = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class LocatedFile:
    """Where a data file is, and proof that it is still the same one."""

    location: str
    options: _Options = field(repr=False)
    proof: tuple[int, ...] = ()
    size: int | None = None
    """The size in bytes; None where neither the disk nor the manifest says."""

    @property
    def storage_options(self) -> StorageOptions:
        return dict(self.options) or None


def find_file(location: str, storage_options: StorageOptions, size: int | None) -> LocatedFile:
    """The location of a data file; on a local disk, checked.

    Raises NotFoundError, and FormatError for a file that is empty or not of the recorded size.
    Sends no request to an object store: there the codec finds out when it opens the file.
    """
    options = tuple(sorted((storage_options or {}).items()))
    path = _local_path(location)
    if path is None:
        return LocatedFile(location, options, size=size)
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError) as cause:
        raise NotFoundError(f"data file {location} not found", file=location) from cause
    except OSError as cause:
        raise StorageError(f"cannot open data file {location}: {cause}", file=location) from cause
    if found.st_size == 0 or (size is not None and found.st_size != size):
        raise FormatError(
            f"data file {location} has {found.st_size} bytes"
            + ("" if size is None else f", the manifest says {size}"),
            file=location,
        )
    proof = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
    return LocatedFile(location, options, proof, found.st_size)


def open_container(located: LocatedFile) -> Container:
    """The file as pages and positions, without the codec; raises FormatError and StorageError."""
    path = _local_path(located.location)
    if located.size is None:
        raise UnsupportedError(
            f"the manifest does not record the size of data file {located.location}, which reading "
            "its blobs needs; rewrite the table with pylance",
            file=located.location,
        )

    def remote(start: int, length: int) -> bytes:
        return read_range(located.location, located.storage_options, start, length)

    def local(start: int, length: int) -> bytes:
        assert path is not None
        try:
            with open(path, "rb") as file:
                file.seek(start)
                return file.read(length)
        except FileNotFoundError as cause:
            raise NotFoundError(
                f"data file {located.location} not found", file=located.location
            ) from cause
        except OSError as cause:
            raise StorageError(
                f"cannot read data file {located.location}: {cause}", file=located.location
            ) from cause

    return read_container(located.location, located.size, remote if path is None else local)


_Key = tuple[LocatedFile, tuple[str, ...] | None]


class OpenFiles:
    """A bounded, thread-safe pool of idle readers, and of known facts about files."""

    def __init__(self, *, idle: int = 64, known: int = 4096) -> None:
        self._max_idle, self._max_known = idle, known
        self._lock = threading.Lock()
        self._idle: OrderedDict[_Key, list[FileReader]] = OrderedDict()
        self._known: OrderedDict[LocatedFile, FileFacts] = OrderedDict()
        self._count = 0
        self._orphans: list[FileReader] = []

    def facts(self, located: LocatedFile, guess: Sequence[str] | None) -> FileFacts:
        """What the file says about itself.

        The first time the file is opened, with the projection ``guess`` if that is possible, and
        the reader is kept for the ``reader`` call that follows.
        """
        with self._lock:
            known = self._known.get(located)
            if known is not None:
                self._known.move_to_end(located)
                return known
        paths = tuple(guess) if guess else None
        try:
            reader = open_reader(located.location, paths, located.storage_options)
        except (FormatError, UnsupportedError):
            if paths is None:
                raise
            paths = None
            try:
                reader = open_reader(located.location, None, located.storage_options)
            except UnsupportedError as cause:
                return self._remember(located, _facts_without_codec(located, cause))
        facts = self._remember(located, reader.facts)
        self._keep((located, paths), reader)
        return facts

    @contextmanager
    def reader(self, located: LocatedFile, paths: tuple[str, ...]) -> Iterator[FileReader]:
        """Lend out a reader with this projection, opening one if none is idle."""
        reader = self.borrow(located, paths)
        yield reader
        self.give_back(located, paths, reader)  # not after an error, nor after half a scan

    def open(self, located: LocatedFile, paths: tuple[str, ...]) -> FileReader:
        """A new reader with this projection, which is not to be returned."""
        return open_reader(located.location, paths, located.storage_options)

    def borrow(self, located: LocatedFile, paths: tuple[str, ...]) -> FileReader:
        """A reader with this projection; one that is never returned is just closed."""
        key: _Key = (located, paths)
        with self._lock:
            idle = self._idle.get(key)
            reader = idle.pop() if idle else None
            if idle is not None and not idle:
                del self._idle[key]
            self._count -= reader is not None
        return reader or self.open(located, paths)

    def give_back(self, located: LocatedFile, paths: tuple[str, ...], reader: FileReader) -> None:
        """Return a reader that was used to the end."""
        self._keep((located, paths), reader)

    def close(self) -> None:
        """Drop every idle reader and all facts. Readers that are lent out stay open."""
        with self._lock:
            dropped = self._idle
            self._idle, self._count = OrderedDict(), 0
            self._known.clear()
        dropped.clear()

    @property
    def idle_count(self) -> int:
        """How many readers are idle."""
        return self._count

    def _remember(self, located: LocatedFile, facts: FileFacts) -> FileFacts:
        with self._lock:
            self._known[located] = facts
            while len(self._known) > self._max_known:
                self._known.popitem(last=False)
        return facts

    def _keep(self, key: _Key, reader: FileReader) -> None:
        dropped: list[FileReader] = []
        with self._lock:
            self._idle.setdefault(key, []).append(reader)
            self._idle.move_to_end(key)
            self._count += 1
            while self._count > self._max_idle:
                oldest, readers = next(iter(self._idle.items()))
                dropped.append(readers.pop())
                if not readers:
                    del self._idle[oldest]
                self._count -= 1
        dropped.clear()

    def after_fork(self) -> None:
        """Start empty in a forked child, where the codec's threads no longer run.

        The parent's readers are kept alive unused: dropping them could wait for those threads.
        """
        self._orphans += [each for readers in self._idle.values() for each in readers]
        self._lock = threading.Lock()  # another thread may have held the old one
        self._idle, self._count = OrderedDict(), 0
        self._known = OrderedDict()


OPEN_FILES = OpenFiles()
"""The pool that every reader of the process shares."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=OPEN_FILES.after_fork)


def _facts_without_codec(located: LocatedFile, refusal: UnsupportedError) -> FileFacts:
    """The facts of a file with a blob (v2) column, which the codec does not open as a whole."""
    try:
        container = open_container(located)
        facts = file_facts(
            located.location, container.descriptor, container.num_rows, container.footer.num_columns
        )
    except FormatError:
        raise refusal from None
    if not any(each.is_blob_v2 for each in facts.schema.walk()):
        raise refusal
    return facts


def is_on_disk(location: str) -> bool:
    """Whether a path or URI is on the local disk."""
    return _local_path(location) is not None


def _local_path(location: str) -> str | None:
    if location.startswith("file://"):
        return location.removeprefix("file://")
    return None if "://" in location else location

"""The files of one segment of an index: opened wherever a snapshot says they are, read by range.

They are Lance files that never change, so what was read of them is kept: a bounded number of bytes
for the whole process, by the location of the file and the proof that it is still the same one.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import pyarrow as pa

from lancewood.data.codec import FileFacts, FileReader
from lancewood.data.local_copy import readable_location
from lancewood.data.open_files import OPEN_FILES, LocatedFile, find_file
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import FormatError, LancewoodError, NotFoundError
from lancewood.model.index import Index
from lancewood.store.base import Store

T = TypeVar("T")
_WAY_OUT = "read with use_indices=False, drop the index and make it again"


@dataclass(frozen=True)
class IndexFile:
    """One file of a segment."""

    located: LocatedFile
    facts: FileFacts

    @property
    def name(self) -> str:
        return self.located.location

    @property
    def num_rows(self) -> int:
        return self.facts.num_rows

    def type_of(self, column: str) -> str | None:
        """The logical type of a column; None where the file has no such column."""
        found = self.facts.schema.by_name.get(column)
        return None if found is None else found.logical_type

    def read(self, columns: Sequence[str], start: int, stop: int) -> pa.RecordBatch:
        """The rows of a range that is not empty, in one batch."""
        rows = stop - start
        return self._whole(columns, rows, lambda reader: reader.read(start, stop, rows))

    def take(self, columns: Sequence[str], offsets: Sequence[int]) -> pa.RecordBatch:
        """The rows at strictly increasing offsets, at least one."""
        rows = len(offsets)
        return self._whole(columns, rows, lambda reader: reader.take(offsets, rows))

    def _whole(
        self,
        columns: Sequence[str],
        rows: int,
        read: Callable[[FileReader], Iterator[pa.RecordBatch]],
    ) -> pa.RecordBatch:
        parts: list[pa.RecordBatch] = []
        seen = 0
        with OPEN_FILES.reader(self.located, tuple(columns)) as reader:
            for batch in read(reader):
                parts.append(batch)
                seen += batch.num_rows
                if seen >= rows:
                    break  # asking the codec for the end of its stream costs as much as a batch
        if seen != rows:
            raise self.broken(f"gave {seen} rows where {rows} were expected")
        return parts[0] if len(parts) == 1 else pa.concat_batches(parts)

    def broken(self, why: str) -> FormatError:
        """The error for what the file holds."""
        return FormatError(f"index file {self.name} {why}; {_WAY_OUT}", file=self.name)


def open_index_file(
    snapshot: Snapshot, index: Index, name: str, columns: Sequence[str]
) -> IndexFile | None:
    """A file of a segment; None where it is missing.

    Raises FormatError for a file that is not of the recorded size, or that is no Lance file.
    """
    store, directory = snapshot.location.index_directory(snapshot.manifest, index)
    size = next((each.size_bytes for each in index.message.files if each.path == name), None)
    key = f"{directory}/{name}"
    for root, options in _roots(snapshot, index, store):
        try:
            located = find_file(readable_location(root, key), options, size or None)
            return IndexFile(located, OPEN_FILES.facts(located, columns))
        except NotFoundError:
            continue
    return None


def _roots(
    snapshot: Snapshot, index: Index, first: Store
) -> Iterator[tuple[Store, Mapping[str, str] | None]]:
    """Where the files of a segment are, and where else they may be if the table was moved."""
    location, head = snapshot.location, snapshot.manifest
    yield first, location.options_at(head, index.base_id)
    with suppress(LancewoodError):
        yield from location.elsewhere(head, index.base_id)


class KeptParts:
    """What was read of index files, the least recently used forgotten first. Thread-safe."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._held = 0
        self._parts: OrderedDict[object, tuple[Any, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, file: IndexFile, what: object) -> Any:
        """A part of a file; None where it is not kept."""
        key = (file.located, what)
        with self._lock:
            found = self._parts.get(key)
            if found is None:
                return None
            self._parts.move_to_end(key)
            return found[0]

    def put(self, file: IndexFile, what: object, part: object, size: int) -> None:
        """Keep a part of ``size`` bytes, unless it would take half of all."""
        if size > self._most // 2:
            return
        with self._lock:
            before = self._parts.pop((file.located, what), None)
            self._held += size - (before[1] if before is not None else 0)
            self._parts[file.located, what] = part, size
            while self._held > self._most:
                _, (_, freed) = self._parts.popitem(last=False)
                self._held -= freed

    def made(self, file: IndexFile, what: object, make: Callable[[], tuple[T, int]]) -> T:
        """The kept part, or the one that is made now, with its size."""
        found = self.get(file, what)
        if found is not None:
            return cast(T, found)
        part, size = make()
        self.put(file, what, part, size)
        return part

    def clear(self) -> None:
        with self._lock:
            self._parts.clear()
            self._held = 0

    def after_fork(self) -> None:
        """Make a new lock in a forked child: another thread may have held the old one."""
        self._lock = threading.Lock()


KEPT = KeptParts(128 << 20)
"""What every lookup of the process shares."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=KEPT.after_fork)

"""What a worker does: one request after the other, until its connection ends. Batches are handed to
Java in memory that both map, or else through the connection.

Knows the requests and how they are answered. What is read, and how a source is planned, is done by
what it is given: work that Java keeps pickled, and a function.

The memory has no name but the one under /proc, where only the same user may open it, and nothing of
it is left when both are gone. It has areas for two batches: while Java is at one, the worker lays
the next. A batch that is too large for its area gets larger ones, or all of it for itself.
"""

from __future__ import annotations

import mmap
import os
import pickle
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, Protocol

import pyarrow as pa

from lancewood.errors import LancewoodError, UnsupportedError
from lancewood.spark.columnar import protocol

_MOST_KEPT = 16
"""Narrowed work that is kept for the next task of the same query."""

Planner = Callable[[Mapping[str, str], int], bytes | None]
"""Makes an encoded ``PlannedRead`` of a source's options and the number of tasks that run at once;
None if the source is to be left to Spark's own way."""


class Work(Protocol):
    """What all tasks of a read share: see ``reading.task.ReadWork``."""

    @property
    def reading(self) -> Any: ...

    def narrowed(self, names: Sequence[str], where: str | None, limit: int | None) -> Work: ...

    def portion(self, message: bytes) -> Any: ...

    def rows(self, portion: Any) -> Iterator[pa.RecordBatch]: ...


class Worker:
    """One process on its connection."""

    def __init__(self, incoming: BinaryIO, out: BinaryIO, plan: Planner) -> None:
        self._in = protocol.Incoming(incoming)
        self._out = protocol.Outgoing(out)
        self._plan = plan
        self._handover = Handover(self._in, self._out)
        self._work: Work | None = None
        self._kept: dict[tuple[Any, ...], Work] = {}
        self._fragments = 0

    def serve(self) -> None:
        """Answer requests until Java is gone."""
        try:
            while True:
                request = self._in.byte()
                if request == protocol.READ:
                    self._read()
                else:
                    self._plan_source()
                self._out.flush()
        except protocol.GoneError:
            return

    def _read(self) -> None:
        pickled, names, where = self._in.some_bytes(), self._in.texts(), self._in.text()
        limit, messages = self._in.long(), self._in.many()
        self._fragments = 0
        try:
            if pickled is not None:
                self._work, self._kept = None, {}
                self._work = pickle.loads(pickled)
            work = self._narrowed(tuple(names), where, None if limit < 0 else limit)
            self._handover.begin(work.reading.schema)
            self._send(work, messages, None if limit < 0 else limit)
            self._handover.end()
        except StoppedError:
            self._handover.end()
        except protocol.GoneError:
            raise
        except Exception as error:
            failure = _failure(error)
            self._handover.end()
            self._out.write(failure)
            return
        self._out.write(protocol.integer(protocol.END) + protocol.long(self._fragments))

    def _send(self, work: Work, messages: Sequence[bytes], limit: int | None) -> None:
        left = limit
        for message in messages:
            portion = work.portion(message)
            self._fragments += len(portion.fragments)
            for batch in work.rows(portion):
                self._handover.send(batch)
                if left is not None:
                    left -= batch.num_rows
                    if left <= 0:
                        return

    def _narrowed(self, names: tuple[str, ...], where: str | None, limit: int | None) -> Work:
        assert self._work is not None
        asked = (names, where, limit)
        found = self._kept.get(asked)
        if found is None:
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            found = self._kept[asked] = self._work.narrowed(names, where, limit)
        return found

    def _plan_source(self) -> None:
        keys, values, slots = self._in.texts(), self._in.texts(), self._in.integer()
        try:
            planned = self._plan(dict(zip(keys, values, strict=True)), slots)
        except Exception as error:
            self._out.write(_failure(error))
            return
        if planned is None:
            self._out.write(protocol.integer(protocol.DELEGATED))
        else:
            self._out.write(protocol.integer(protocol.PLANNED) + protocol.some_bytes(planned))


def _failure(error: Exception) -> bytes:
    """The answer that tells an error: what one of ours says, and the stack."""
    said = str(error) if isinstance(error, LancewoodError) else None
    stack = "".join(traceback.format_exception(error))
    return protocol.integer(protocol.ERROR) + protocol.text(said) + protocol.text(stack)


_AREAS = 2
_AREA = 5 << 20
"""A little more than batches usually have."""
_MOST = (1 << 31) - 1
"""What Java maps, or takes from its connection, at once."""
_LARGEST_KEPT = 64 << 20
"""An area of more bytes is given back after its task."""
_PAGE = 4096
_MORE = 64
"""What a stream has besides its schema and the batch."""
_NO_MAPPING = "LANCEWOOD_SPARK_NO_MAPPING"
"""If this is set, batches go through the connection."""


class StoppedError(Exception):
    """Java wants no more of this request."""


class Handover:
    """The way of batches from one worker to Java."""

    def __init__(self, incoming: protocol.Incoming, out: protocol.Outgoing) -> None:
        self._incoming = incoming
        self._out = out
        self._is_mapping = hasattr(os, "memfd_create") and not os.environ.get(_NO_MAPPING)
        self._area, self._areas = 0, _AREAS
        self._view: memoryview | None = None
        self._sent = self._taken = 0
        self._schema: pa.Schema | None = None
        self._schema_size = 0

    def begin(self, schema: pa.Schema) -> None:
        """A request is answered with batches of this schema."""
        self._sent = self._taken = 0
        self._schema, self._schema_size = schema, schema.serialize().size
        sizes = [size for each in schema for size in list_sizes(each.type)]
        words = [protocol.LIST_SIZES, len(sizes), *sizes]
        self._out.write(b"".join(map(protocol.integer, words)))

    def send(self, batch: pa.RecordBatch) -> None:
        """Hand over a batch; waits while Java is two behind. Raises StoppedError, and
        UnsupportedError for one that is too large; batches are cut before, so it is one row."""
        need = pa.ipc.get_record_batch_size(batch) + self._schema_size + _MORE
        if need > _MOST:
            raise UnsupportedError(
                f"a row of {need} bytes is too large for Spark, which takes {_MOST} at once: leave "
                "columns out with columns="
            )
        if self._is_mapping and need > self._area:
            self._wait(0)
            self._is_mapping = self._offer(need)
        if self._is_mapping:
            self._wait(self._areas - 1)
            self._lay(batch, self._sent % self._areas * self._area, need)
        else:
            self._wait(0)
            self._stream(batch)
        self._out.flush()
        self._sent += 1

    def end(self) -> None:
        """Wait until Java has looked at everything; what it says next is a request."""
        try:
            self._wait(0)
        except StoppedError:
            return
        finally:
            if self._area > _LARGEST_KEPT:
                self._view, self._area = None, 0

    def _wait(self, most: int) -> None:
        """Wait until at most this many batches are with Java."""
        while self._sent - self._taken > most:
            if self._incoming.byte() == protocol.STOP:
                self._sent = self._taken = 0
                raise StoppedError
            self._taken += 1

    def _offer(self, need: int) -> bool:
        """New memory with larger areas; False if Java cannot map it."""
        size, areas = max(-(-need * 5 // 4 // _PAGE) * _PAGE, _AREA), _AREAS
        if size * areas > _MOST:
            size, areas = need, 1
        self._area = 0  # Java has no memory until it says so
        memory = os.memfd_create("lancewood")
        try:
            os.ftruncate(memory, size * areas)
            self._view = memoryview(mmap.mmap(memory, size * areas))
            path = f"/proc/{os.getpid()}/fd/{memory}"
            offered = protocol.integer(protocol.MEMORY) + protocol.text(path)
            self._out.write(offered + protocol.long(size * areas))
            self._out.flush()
            answer = self._incoming.byte()
        finally:
            os.close(memory)
        if answer == protocol.STOP:
            raise StoppedError
        is_mapped = answer == protocol.MAPPED
        if is_mapped:
            self._area, self._areas = size, areas
        return is_mapped

    def _lay(self, batch: pa.RecordBatch, at: int, size: int) -> None:
        assert self._view is not None
        area = pa.FixedSizeBufferWriter(pa.py_buffer(self._view[at : at + size]))
        with pa.ipc.new_stream(area, self._schema) as stream:
            stream.write_batch(batch)
        area.close()
        said = protocol.integer(protocol.BATCH) + protocol.long(size) + protocol.long(at)
        self._out.write(said)

    def _stream(self, batch: pa.RecordBatch) -> None:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self._schema) as stream:
            stream.write_batch(batch)
        laid = sink.getvalue()
        self._out.write(protocol.integer(protocol.BATCH_HERE) + protocol.integer(laid.size))
        self._out.write(laid)


def list_sizes(kind: pa.DataType) -> list[int]:
    """The number of values in every list inside, outermost first; -1 where that varies."""
    if pa.types.is_fixed_size_list(kind):
        return [kind.list_size, *list_sizes(kind.value_type)]
    if pa.types.is_list(kind):
        return [-1, *list_sizes(kind.value_type)]
    if pa.types.is_map(kind):
        return [*list_sizes(kind.key_type), *list_sizes(kind.item_type)]
    if pa.types.is_struct(kind):
        return [size for each in kind for size in list_sizes(each.type)]
    return []

"""What a worker does: one request after the other, until its connection ends.

Knows the requests and how they are answered. What is read, and how a source is planned, is done by
what it is given: work that Java keeps pickled, and a function.
"""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, Protocol

import pyarrow as pa

from lancewood.errors import LancewoodError
from lancewood.spark.columnar import protocol
from lancewood.spark.columnar.memory import Handover, StoppedError

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

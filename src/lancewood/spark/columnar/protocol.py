"""What Java and a worker say to each other: the words, how numbers, texts and bytes travel, and a
planned read; ``Protocol.java`` and ``PlannedRead.java`` have the same.

Everything that tasks need of a table is inside of the ``work`` and messages of a planned read,
pickled, storage options included. Java looks into neither.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, BinaryIO, NamedTuple

READ, PLAN = 1, 2
"""Requests."""
STOP, NEXT, MAPPED, NOT_MAPPED = 0, 1, 2, 3
"""Messages of Java during an answer."""
MEMORY, LIST_SIZES, BATCH, BATCH_HERE, END, ERROR, PLANNED, DELEGATED = range(1, 9)
"""Answers."""
_NONE = -1


class GoneError(Exception):
    """Java is not there any more. No error of the work itself is one."""


class Incoming:
    """What comes from Java; raises GoneError where it ends."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def exactly(self, size: int) -> bytes:
        with _gone():
            found = self._file.read(size)
        if len(found) < size:
            raise GoneError
        return found

    def byte(self) -> int:
        return self.exactly(1)[0]

    def integer(self) -> int:
        return int(struct.unpack(">i", self.exactly(4))[0])

    def long(self) -> int:
        return int(struct.unpack(">q", self.exactly(8))[0])

    def some_bytes(self) -> bytes | None:
        size = self.integer()
        return None if size == _NONE else self.exactly(size)

    def text(self) -> str | None:
        found = self.some_bytes()
        return None if found is None else found.decode()

    def texts(self) -> list[str]:
        return [self.text() or "" for _ in range(self.integer())]

    def many(self) -> list[bytes]:
        return [self.some_bytes() or b"" for _ in range(self.integer())]


class Outgoing:
    """What goes to Java; raises GoneError where nobody takes it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def write(self, data: Any) -> None:
        with _gone():
            self._file.write(data)

    def flush(self) -> None:
        with _gone():
            self._file.flush()


@contextmanager
def _gone() -> Iterator[None]:
    try:
        yield
    except OSError as lost:
        raise GoneError from lost


def integer(value: int) -> bytes:
    return struct.pack(">i", value)


def long(value: int) -> bytes:
    return struct.pack(">q", value)


def flag(value: bool) -> bytes:
    return bytes([value])


def some_bytes(value: bytes | None) -> bytes:
    return integer(_NONE) if value is None else integer(len(value)) + value


def text(value: str | None) -> bytes:
    return some_bytes(None if value is None else value.encode())


def texts(values: Sequence[str]) -> bytes:
    return integer(len(values)) + b"".join(map(text, values))


def many(values: Sequence[bytes]) -> bytes:
    return integer(len(values)) + b"".join(map(some_bytes, values))


def numbers(values: Mapping[str, float]) -> bytes:
    found = (text(name) + struct.pack(">d", value) for name, value in values.items())
    return integer(len(values)) + b"".join(found)


SOURCE = "io.lancewood.spark.PlannedSource"
"""The class that makes a frame of a planned read."""
_SEPARATOR = "\n"


class ColumnReference(NamedTuple):
    """What a condition calls a column, or a field below one."""

    sql: str
    is_comparable: bool
    """Whether values are compared with constants as Spark does; else they are null or not."""


@dataclass(frozen=True)
class PythonCommand:
    """The Python of the workers. Without an executable it is the one that Spark takes itself."""

    executable: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    includes: Sequence[str] = ()
    """Names of files that were shipped to be imported."""

    def encode(self) -> bytes:
        return (
            text(self.executable)
            + texts(list(self.environment))
            + texts(list(self.environment.values()))
            + texts(self.includes)
        )


@dataclass(frozen=True, kw_only=True)
class PlannedRead:
    """One version of a table, cut into tasks."""

    name: str
    schema: str
    """The type of its rows, as Spark's JSON."""
    work: bytes = field(repr=False)
    messages: Sequence[bytes] = field(repr=False)
    rows: int | None
    """The rows of all messages before any filter; None if unknown."""
    is_counted: bool
    """Whether ``rows`` is exactly the number of rows that come out."""
    pruned: int
    """The fragments that no message has, because none of their rows meets the condition."""
    slots: int
    worthwhile: int
    """Bytes that make a task worth starting."""
    most_condition: int
    """Characters that Spark's conditions may have."""
    widths: Mapping[str, float]
    """Estimated bytes of each column in a row."""
    needed: Sequence[str]
    """The columns that are read whatever Spark selects."""
    references: Mapping[tuple[str, ...], ColumnReference]
    """The columns and fields that conditions may name."""

    def encode(self, python: PythonCommand) -> bytes:
        named = {_SEPARATOR.join(each): found for each, found in self.references.items()}
        references = (
            text(path) + text(found.sql) + flag(found.is_comparable)
            for path, found in named.items()
        )
        return b"".join(
            (
                text(self.name),
                text(self.schema),
                some_bytes(self.work),
                many(self.messages),
                long(-1 if self.rows is None else self.rows),
                flag(self.is_counted and self.rows is not None),
                long(self.pruned),
                integer(self.slots),
                long(self.worthwhile),
                integer(self.most_condition),
                python.encode(),
                numbers(self.widths),
                texts(self.needed),
                integer(len(named)),
                *references,
            )
        )

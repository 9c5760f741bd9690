"""The words between Java and a worker, and how numbers, texts and bytes travel; ``Protocol.java``
has the same."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO

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

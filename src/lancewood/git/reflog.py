"""The log of a ref's moves: one line each, the newest at the end, as git writes it.

Knows the lines and the file. Does not know where refs are, or when they move: the caller holds the
lock of the ref. A line is written before the move it records, as git does, so that no move
is missing; a crash between the two leaves a line whose commit exists and was never the ref's,
which git lists and otherwise takes no notice of.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from lancewood.errors import FormatError, InvalidInputError, StorageError
from lancewood.git.values import Hash, Signature

_BLOCK = 1 << 16
_MOST_BYTES = 1 << 20
"""Number of bytes in one line; a file without newlines is not read on for ever."""
_APPEND = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_is_line = re.compile(rb"([0-9a-f]{64}) ([0-9a-f]{64}) ([^\t]*)(?:\t(.*))?", re.DOTALL).fullmatch


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One move: from, to (``ZERO`` for none), by whom and when, and why."""

    old: Hash
    new: Hash
    by: Signature
    why: str


def encode_entry(entry: LogEntry) -> bytes:
    """A line; white space in ``why`` becomes single spaces, as git does it."""
    try:
        why = b" ".join(entry.why.encode().split())
    except UnicodeEncodeError as cause:
        raise InvalidInputError(f"the reason {entry.why!r} of a move is not UTF-8") from cause
    if b"\0" in why:
        raise InvalidInputError("the reason of a move is not allowed to contain NUL")
    line = b" ".join([entry.old.encode(), entry.new.encode(), entry.by.encode()])
    return line + (b"\t" + why if why else b"") + b"\n"


def decode_entry(line: bytes) -> LogEntry:
    """Raises FormatError. The line is without its newline."""
    found = _is_line(line)
    if found is None:
        raise FormatError(f"{line[:200]!r} is not a line of a log of moves; remove the line")
    old, new, by, why = found.groups()
    return LogEntry(
        Hash(old.decode("ascii")),
        Hash(new.decode("ascii")),
        Signature.decode(by),
        (why or b"").decode("utf-8", "replace"),
    )


class Appended:
    """A line that was written at the end of a log, and can be taken back."""

    def __init__(self, file: str, size: int) -> None:
        self.file = file
        self.is_first = size == 0
        """Whether the file may be new, and its name not durable yet."""
        self._size = size

    def take_back(self) -> None:
        """Remove the line of a move that did not happen, while the lock is still held."""
        with suppress(OSError):
            if self.is_first:
                os.unlink(self.file)
            else:
                os.truncate(self.file, self._size)


def append(file: str, line: bytes) -> Appended:
    """Write a line. What a crash left half written at the end is cut off first: no move followed
    it. Raises OSError, with nothing written."""
    descriptor = os.open(file, _APPEND, 0o666)
    try:
        size = _whole_lines(descriptor)
        try:
            if os.write(descriptor, line) != len(line):
                raise OSError(28, "no space left for a line of the log")
        except BaseException:
            os.ftruncate(descriptor, size)
            raise
        return Appended(file, size)
    finally:
        os.close(descriptor)


def read_newest_first(file: str) -> Iterator[LogEntry]:
    """The moves, the latest first, read as they are asked for; none without a file.

    Raises FormatError or StorageError that names the file. A last line that is not whole is left
    out.
    """
    try:
        descriptor = os.open(file, _READ)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return
    except OSError as cause:
        raise StorageError(f"cannot read {file}: {cause.strerror}", file=file) from cause
    try:
        if not stat.S_ISREG(mode := os.fstat(descriptor).st_mode) and not stat.S_ISDIR(mode):
            raise FormatError("it is no file; remove it, it only tells where the ref was before")
        size = os.fstat(descriptor).st_size
        for line in whole_lines_backwards(size, partial(os.pread, descriptor)):
            yield decode_entry(line)
    except (FormatError, IsADirectoryError) as cause:
        if isinstance(cause, IsADirectoryError):
            return
        raise FormatError(f"{file}: {cause}", file=file) from cause
    finally:
        os.close(descriptor)


def whole_lines_backwards(size: int, read: Callable[[int, int], bytes]) -> Iterator[bytes]:
    """The lines of a log of ``size`` bytes, from the end; ``read`` takes how many, and from where.

    A last line that is not whole is left out: it is in the making, or was cut short.
    """
    pieces = _pieces_backwards(size, read)
    next(pieces, None)
    return (each for each in pieces if each)


def _pieces_backwards(size: int, read: Callable[[int, int], bytes]) -> Iterator[bytes]:
    """The pieces between newlines, from the end; the first is what follows the last newline."""
    at = size
    rest = b""
    while at > 0:
        size = min(_BLOCK, at)
        at -= size
        pieces = (read(size, at) + rest).split(b"\n")
        yield from reversed(pieces[1:])
        rest = pieces[0]
        if len(rest) > _MOST_BYTES:
            raise FormatError(f"a line is longer than {_MOST_BYTES} bytes")
    yield rest


def _whole_lines(descriptor: int) -> int:
    """The size of the file, without a last line that is not whole."""
    size = os.fstat(descriptor).st_size
    if not size or os.pread(descriptor, 1, size - 1) == b"\n":
        return size
    at = size
    while at > 0:
        start = max(0, at - _BLOCK)
        found = os.pread(descriptor, at - start, start).rfind(b"\n")
        if found >= 0:
            at = start + found + 1
            break
        at = start
    os.ftruncate(descriptor, at)
    return at

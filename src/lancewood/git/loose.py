"""Loose objects: one file each, named by the SHA-256 of what is in it.

Knows how such files are read, and how many of them are written so that a power cut leaves whole
ones only. Does not know what kinds of object there are, or of packs.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial

from lancewood.errors import FormatError, StorageError
from lancewood.git.syncing import Unsettled, sync_and_close, together
from lancewood.git.values import Hash
from lancewood.store.disk_root import refuse_links
from lancewood.store.retry import LOST_RACES
from lancewood.store.wholefile import read_file, sync_file

MOST_BYTES = 512 << 20
"""Number of bytes in one object at most. git streams what is larger; we hold an object whole."""
_AT_ONCE = 128
_FIRST = 8192
_SMALL = 4096 - 11
"""The most bytes that fit into a block of a disk beside what ``_STORED`` needs."""
_STORED = b"\x78\x01\x01"
"""How a stream of zlib begins whose only block is stored."""
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


def pack_loose(whole: bytes) -> bytes:
    """The bytes of the file for an object, its header included. Speed counts more than size:
    ``git gc`` writes them anew."""
    if len(whole) > _SMALL:
        return zlib.compress(whole, 1)
    # Most objects are small. Those take one block of a disk either way, and are written as zlib
    # writes what it cannot compress: one block of that format, and its check sum.
    size = len(whole)
    head = _STORED + size.to_bytes(2, "little") + (size ^ 0xFFFF).to_bytes(2, "little")
    return head + whole + zlib.adler32(whole).to_bytes(4, "big")


def unpack_loose(data: bytes) -> bytes:
    """An object with its header; raises FormatError, and is never led to inflate without end."""
    stream = zlib.decompressobj()
    try:
        whole = stream.decompress(data, _FIRST)
        if not stream.eof:
            _, _, size = whole[: whole.find(b"\0")].partition(b" ")
            if not size.isdigit() or len(size) > 12 or int(size) > MOST_BYTES:
                raise FormatError(f"an object of {size[:30]!r} bytes is not readable")
            most = int(size) + _FIRST
            whole += stream.decompress(stream.unconsumed_tail, most)
    except zlib.error as cause:
        raise FormatError(f"it does not inflate: {cause}") from cause
    if not stream.eof or stream.unused_data:
        raise FormatError("it is cut short, or there is more in it than one object")
    return whole


class LooseObjects:
    """The files below ``objects``."""

    def __init__(self, path: str, *, fsync: bool) -> None:
        self._path = path
        self._fsync = fsync
        self._settled: set[str] = set()
        """Directories whose own names are durable."""
        self._known: dict[str, str] = {}
        """Directories that are no links, as paths."""

    def file(self, hash: Hash) -> str:
        return f"{self._path}/{hash[:2]}/{hash[2:]}"

    def read(self, hash: Hash) -> bytes | None:
        """The object with its header, or None; raises FormatError naming the file."""
        file = self.file(hash)
        try:
            data = read_file(file)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as cause:
            raise StorageError(f"cannot read {file}: {cause.strerror}", file=file) from cause
        try:
            return unpack_loose(data)
        except FormatError as cause:
            raise FormatError(f"{file}: {cause}", file=file) from cause

    def has(self, hash: Hash) -> bool:
        return os.path.exists(self.file(hash))

    def freshen(self, hash: Hash) -> bool:
        """Whether the object is there; it then looks new, so that a removal of old, unused objects
        leaves it."""
        try:
            self._refuse_links([hash])
            os.utime(self.file(hash), follow_symlinks=False)
        except OSError:  # not there, or another user's: then it is written, and the new one is ours
            return False
        return True

    def write(self, batch: Mapping[Hash, bytes], met: Iterable[Hash] = ()) -> None:
        """Write the objects of ``batch`` (as ``pack_loose`` gave them): their bytes are durable
        when they get their names, and the names when ``unsettled`` directories are synced.

        Those of ``met`` are on the disk already, by another's hand: they are only made durable,
        or written after all if they went meanwhile. Raises StorageError, and InvalidInputError for
        a directory that is a symbolic link.
        """
        there = set(met) & batch.keys()
        self._known.clear()  # a handle lives long
        self._refuse_links(batch)
        try:
            lost = self._sync_met(there) if self._fsync else set()
            missing = [each for each in batch if each not in there or each in lost]
            for at in range(0, len(missing), _AT_ONCE):
                part = missing[at : at + _AT_ONCE]
                for _ in LOST_RACES:
                    part = self._write(part, batch)
                    if not part:
                        break
                else:
                    raise StorageError(
                        f"cannot write {self.file(part[0])}: somebody removes files of "
                        f"{self._path} while they are written; is a prune running?"
                    )
        except OSError as cause:
            raise StorageError(
                f"cannot write objects below {self._path}: {cause.strerror}", path=self._path
            ) from cause

    def _refuse_links(self, hashes: Iterable[Hash]) -> None:
        """Raise InvalidInputError if a directory of these objects leads elsewhere."""
        above, name = os.path.split(self._path)
        for each in {hash[:2] for hash in hashes}:
            if f"{name}/{each}" not in self._known:
                refuse_links(above, f"{name}/{each}", self._known)

    def _write(self, hashes: list[Hash], batch: Mapping[Hash, bytes]) -> list[Hash]:
        """Write files and give them their names; what is returned was swept away before that."""
        staged: dict[Hash, str] = {}
        descriptors: list[int] = []
        try:
            try:
                for each in hashes:
                    staged[each] = temporary = f"{self._path}/{each[:2]}/tmp_obj_{_random()}"
                    descriptor = self._create(temporary)
                    descriptors.append(descriptor)
                    _write_all(descriptor, batch[each])
            finally:
                if self._fsync:
                    sync_and_close(descriptors)
                else:
                    for descriptor in descriptors:
                        os.close(descriptor)
            swept = []
            for each, temporary in staged.items():
                try:
                    os.rename(temporary, self.file(each))
                except FileNotFoundError:
                    swept.append(each)
            return swept
        except BaseException:
            for temporary in staged.values():
                with suppress(OSError):
                    os.unlink(temporary)
            raise

    def _create(self, file: str) -> int:
        """Open a new file; a directory that is not there, or was just removed, is made."""
        for _ in LOST_RACES:
            try:
                return os.open(file, _CREATE, 0o444)
            except FileNotFoundError:
                directory = os.path.dirname(file)
                self._settled.discard(os.path.basename(directory))
                with suppress(FileExistsError):
                    os.mkdir(directory)
        return os.open(file, _CREATE, 0o444)

    def _sync_met(self, hashes: set[Hash]) -> set[Hash]:
        """Make files durable that others wrote; what is returned went meanwhile."""
        lost: set[Hash] = set()

        def sync(hash: Hash) -> None:
            try:
                sync_file(self.file(hash))
            except (FileNotFoundError, NotADirectoryError):
                lost.add(hash)

        together([partial(sync, each) for each in hashes])
        return lost

    def unsettled(self, hashes: Iterable[Hash]) -> Unsettled:
        """What is left to do for objects that were written."""
        if not self._fsync:
            return Unsettled()
        fans = {each[:2] for each in hashes}
        new = fans - self._settled
        directories = [f"{self._path}/{each}" for each in sorted(fans)]
        if new:
            directories.append(self._path)
        return Unsettled(tuple(directories), lambda: self._settled.update(new))


def _write_all(descriptor: int, data: bytes) -> None:
    written = os.write(descriptor, data)
    while written < len(data):
        written += os.write(descriptor, data[written:])


def _random() -> str:
    return os.urandom(8).hex()

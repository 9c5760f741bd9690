"""Files that are there whole or not at all: the system calls of the disk store, in their order.

Raises plain ``OSError``.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

from lancewood.errors import StorageError

_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS)
_TICK_NS = 20_000_000
"""The most that a file system's stamps lag behind the clock of its machine."""
_REFINED_NS = 1_000_000
_NO_SHARING = (*_NO_LINKS, errno.EXDEV, errno.EMLINK, errno.EACCES, errno.EROFS)
_NO_RENAME = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)
_CHUNK = 1 << 30


def read_file(path: str, start: int = 0, length: int | None = None) -> bytes:
    """The bytes of a regular file from ``start`` on, at most ``length`` of them."""
    descriptor = os.open(path, _READ)
    try:
        left = _size(descriptor) - start
        if length is not None and length < left:
            left = length
        if left <= 0:
            return b""
        data = os.pread(descriptor, left, start)
        if len(data) == left:
            return data
        parts = [data]
        while data and left > len(data):
            left, start = left - len(data), start + len(data)
            data = os.pread(descriptor, left, start)
            parts.append(data)
        return b"".join(parts)
    finally:
        os.close(descriptor)


def stat_file(path: str) -> os.stat_result:
    """The stat of a regular file; raises for anything else under that name."""
    found = os.lstat(path)
    _check_regular(found.st_mode)
    return found


def etag_of(found: os.stat_result) -> str:
    """A text that changes with each write through ``stage``."""
    return f"{found.st_ino:x}-{found.st_mtime_ns:x}-{found.st_size:x}"


def stage(directory: str, data: bytes, *, sync: bool) -> str:
    """Write a file under a name that listings leave out, and return its path."""
    return _stage(directory, lambda descriptor: _write(descriptor, data), sync)


def stage_copy(source: str, directory: str, *, sync: bool) -> str:
    """Write a copy of a file under a name that listings leave out, and return its path."""
    origin = os.open(source, _READ)
    try:
        size = _size(origin)
        return _stage(directory, lambda descriptor: _copy(origin, descriptor, size), sync)
    finally:
        os.close(origin)


def stage_parts(directory: str, parts: Iterable[bytes], *, sync: bool) -> str:
    """Write parts of bytes as one file that listings leave out, and return its path."""

    def fill(descriptor: int) -> None:
        for each in parts:
            _write(descriptor, each)

    return _stage(directory, fill, sync)


def link(source: str, path: str) -> bool:
    """Give a file a second name, after giving it the present time; False where that is not
    possible.

    With its old time, a cleanup of old and unused files would remove the new name.
    """
    try:
        os.utime(source, follow_symlinks=False)
        os.link(source, path, follow_symlinks=False)
    except FileExistsError:
        return os.path.samefile(source, path)
    except OSError as error:
        if error.errno in _NO_SHARING:
            return False
        raise
    return True


def move_over(staged: str, path: str) -> None:
    """Give a staged file its name, replacing any file that has it."""
    try:
        os.replace(staged, path)
    except BaseException:
        _discard(staged)
        raise


def move_if_absent(staged: str, path: str) -> bool:
    """Give a staged file its name unless the name is taken; the staged name is removed either
    way."""
    try:
        os.link(staged, path)
    except FileExistsError:
        # A network file system may send a request twice and return the second answer.
        return os.lstat(staged).st_nlink > 1
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        return _rename_if_absent(staged, path)
    else:
        return True
    finally:
        _discard(staged)


def is_taken(path: str) -> bool:
    """Whether a file, or a link, has that name; raises ``IsADirectoryError`` for a directory."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return False
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "a directory has that name")
    return True


def sync_file(path: str) -> None:
    """Make the bytes of a file durable, not its name."""
    _sync(path, _READ)


def sync_directory(path: str) -> None:
    """Make the names in a directory durable."""
    try:
        _sync(path, _DIRECTORY)
    except OSError as error:
        # Some network file systems have no such call for directories, and need none.
        if error.errno != errno.EINVAL:
            raise


def _sync(path: str, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _stage(directory: str, fill: Callable[[int], None], sync: bool) -> str:
    staged = f"{directory}/.tmp{os.urandom(8).hex()}"
    descriptor = os.open(staged, _CREATE, 0o666)
    try:
        try:
            fill(descriptor)
            _stamp(descriptor)
            if sync:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except BaseException:
        _discard(staged)
        raise
    return staged


def _stamp(descriptor: int) -> None:
    """Give a file a time that no other write has, because an etag has to change with every write.

    The stamp of a file system moves in ticks, so it is refined by our clock. Where the two differ
    by more than that, as on a disk of another machine, the file system is right: everyone who
    shares it sees the same order by its clock.
    """
    kept, now = os.fstat(descriptor).st_mtime_ns, time.time_ns()
    if abs(now - kept) > _TICK_NS:
        now = kept + now % _REFINED_NS
    os.utime(descriptor, ns=(now, now))


def _write(descriptor: int, data: bytes) -> None:
    written = os.write(descriptor, data)
    while written < len(data):
        written += os.write(descriptor, memoryview(data)[written : written + _CHUNK])


def _copy(origin: int, descriptor: int, size: int) -> None:
    done = 0
    with suppress(OSError):  # what the file system cannot copy by itself is read and written
        while done < size:
            moved = os.copy_file_range(origin, descriptor, size - done, done, done)
            if not moved:
                break
            done += moved
    os.lseek(descriptor, done, os.SEEK_SET)
    while part := os.pread(origin, 1 << 20, done):
        _write(descriptor, part)
        done += len(part)


def _discard(staged: str) -> None:
    with suppress(OSError):
        os.unlink(staged)


def _rename_if_absent(staged: str, path: str) -> bool:
    """Rename a file on a file system without hard links. There is no third safe way: a file that is
    made under its final name can be seen half written."""
    import ctypes

    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    code = errno.ENOSYS
    if rename is not None:
        here, no_replace = -100, 1  # AT_FDCWD, RENAME_NOREPLACE
        if rename(here, os.fsencode(staged), here, os.fsencode(path), no_replace) == 0:
            return True
        code = ctypes.get_errno()
    if code == errno.EEXIST:
        return False
    if code in _NO_RENAME:
        raise StorageError(
            f"cannot create {path} safely: its file system has neither hard links nor a rename "
            "that keeps what is there; use another file system",
            path=path,
            landed=False,
        )
    raise OSError(code, os.strerror(code))


def _size(descriptor: int) -> int:
    found = os.fstat(descriptor)
    _check_regular(found.st_mode)
    return found.st_size


def _check_regular(mode: int) -> None:
    if stat.S_ISREG(mode):
        return
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "a directory has that name")
    if stat.S_ISLNK(mode):
        raise OSError(errno.ELOOP, "it is a symbolic link")
    raise OSError(errno.EINVAL, "it is not a regular file")

"""Refs on a disk: their files and directories, ``packed-refs``, logs, and the lock beside each ref.

Raises plain ``OSError``, and InvalidInputError for a symbolic link: a repository may come from
somebody else, and nothing is written or deleted where its links lead. A lock is git's own
``<file>.lock``, with the owner inside. git and dulwich honour our locks, and we honour theirs.

dulwich's reader of refs is not used, since it takes a ref that cannot be read for a missing one. It
does read ``packed-refs``, and keeps the result until the file changes. A ref can be taken out of
``packed-refs`` under git's own lock; refs are never packed here: a ref that moves becomes a file
again. Nothing else is changed, except that empty directories in the way are removed.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import cast

from dulwich.errors import PackedRefsException
from dulwich.refs import DiskRefsContainer

from lancewood.errors import (
    FormatError,
    RetryableConflictError,
    StorageError,
)
from lancewood.git.names import is_ref
from lancewood.git.ref_store import (
    LOG_BLOCK,
    WORK_TREES,
    LogEntry,
    RefReader,
    checked_packed,
    decode_entry,
    in_the_way,
    is_marker,
    standing_value,
    whole_lines_backwards,
)
from lancewood.git.values import Hash
from lancewood.store.disk_root import link_refused, refuse_links
from lancewood.store.lockfile import acquire, release
from lancewood.store.wholefile import move_over, read_file, stage, sync_directory

_KEPT = 2
"""``refs/heads`` and the like stay even when they are empty."""
PATIENCE = 10.0
"""Seconds to wait for a lock; the work under it takes milliseconds."""
_APPEND = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
LEFT_BEHIND = 24 * 3600.0
"""Age in seconds after which a lock without an owner is taken over. Only git and dulwich make
those. A process of theirs that is suspended for a day would then meet another's lock."""


class RefFiles:
    """Paths below the root of a repository."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._settled: set[str] = {root}
        """Directories whose own names are durable."""
        self._known: dict[str, str] = {}
        """Directories known not to be links: paths by their keys."""

    def look_again(self) -> None:
        """Forget earlier checks for links, before a change or a listing."""
        self._known.clear()

    def ref(self, name: str) -> str:
        return self._checked(name)

    def log(self, name: str) -> str:
        return self._checked(f"logs/{name}")

    def _checked(self, key: str) -> str:
        directory = key.rpartition("/")[0]
        if directory and directory not in self._known:
            refuse_links(self.root, directory, self._known)
        file = f"{self.root}/{key}"
        if os.path.islink(file):
            raise link_refused(file, self.root)
        return file

    def make_directory_of(self, file: str) -> None:
        """Make the directories above a file; raises ``FileExistsError`` or ``NotADirectoryError``
        where a file is in the way."""
        directory = os.path.dirname(file)
        if os.path.isdir(directory):
            return
        self.make_directory_of(directory)
        self._settled.discard(directory)
        try:
            os.mkdir(directory)
        except FileExistsError:
            if not os.path.isdir(directory):
                raise

    def unsettled(self, directory: str) -> list[str]:
        """What to sync after names in a directory changed: the directory, and all above it that
        were not synced before."""
        found = [directory]
        while directory not in self._settled:
            directory = os.path.dirname(directory)
            found.append(directory)
        return found

    def settle(self, directories: Iterable[str]) -> None:
        """Note that these directories were synced, each with those above it."""
        self._settled.update(directories)

    def remove_empty_above(self, base: str, name: str) -> None:
        """Remove directories that a ref no longer needs; stops at one that is in use."""
        parts = name.split("/")[:-1]
        while len(parts) > _KEPT:
            directory = "/".join([base, *parts])
            try:
                os.rmdir(directory)
            except OSError:
                return
            self._settled.discard(directory)
            parts.pop()

    def clear_empty_below(self, directory: str) -> None:
        """Remove a directory and its subdirectories as far as they are empty."""
        refuse_links(self.root, directory.removeprefix(f"{self.root}/"))
        for path, _, _ in os.walk(directory, topdown=False):
            with suppress(OSError):
                os.rmdir(path)
                self._settled.discard(path)

    def ref_names(self, directory: str) -> Iterator[str]:
        """The full names of files below a directory that can be refs, in no order."""
        return (each for each in self._files(directory) if is_ref(each))

    def log_names(self) -> Iterator[str]:
        """The full names of the refs that have logs, in no order."""
        names = (each.removeprefix("logs/") for each in self._files("logs/refs"))
        return (each for each in names if is_ref(each))

    def locks(self) -> Iterator[str]:
        """The paths of all locks on refs."""
        return (f"{self.root}/{each}" for each in self._files("refs") if each.endswith(".lock"))

    def _files(self, directory: str) -> Iterator[str]:
        """Everything below a directory except directories, as keys."""
        self.look_again()
        refuse_links(self.root, directory, self._known)
        todo = [directory]
        while todo:
            at = todo.pop()
            try:
                with os.scandir(f"{self.root}/{at}") as entries:
                    found = [(each.name, each.is_dir(), each.is_symlink()) for each in entries]
            except (FileNotFoundError, NotADirectoryError):
                continue
            for name, is_directory, is_link in found:
                if not is_directory:
                    yield f"{at}/{name}"
                elif is_link:
                    raise link_refused(f"{self.root}/{at}/{name}", self.root)
                else:
                    todo.append(f"{at}/{name}")


@contextmanager
def locked(
    file: str, root: str, patience: float = PATIENCE, *, like: str | None = None
) -> Iterator[None]:
    """Hold the lock of a file of the repository at ``root`` while the block runs.

    A lock of ours names its process, with start time and boot, and is taken over once that process
    is proven dead. Any other lock is waited for, and after ``patience`` seconds
    RetryableConflictError is raised. ``like`` is a file of this thread that names this process
    already: the new lock is a hard link to it, which is cheaper.
    """
    lock(file, root, patience, like=like)
    try:
        yield
    finally:
        unlock(file)


def lock(file: str, root: str, patience: float = PATIENCE, *, like: str | None = None) -> None:
    """Take the lock of a file as ``locked`` does, and hold it until ``unlock``."""
    name = f"{file}.lock"
    try:
        # The file is made at the root: a stray one must not keep a directory of refs alive.
        acquire(name, patience, staging=root, like=like, unowned_after=LEFT_BEHIND)
    except StorageError as error:
        if "lock" not in error.facts:
            raise
        raise RetryableConflictError(
            f"{error}. A lock that names no owner was made by git or another program; "
            f"it is taken over after {LEFT_BEHIND / 3600:g} hours",
            lock=name,
        ) from error


def unlock(file: str) -> None:
    """Release a lock that ``lock`` took."""
    release(f"{file}.lock")


class PackedRefs:
    """The ``packed-refs`` of the repository at ``root``. Thread-safe."""

    def __init__(self, root: str, *, fsync: bool, patience: float) -> None:
        self.file = f"{root}/packed-refs"
        self._root = root
        self._fsync = fsync
        self._patience = patience
        self._container = DiskRefsContainer(root)
        self._lock = threading.Lock()

    def get(self, name: str) -> Hash | None:
        """The value of one ref, or None; raises FormatError."""
        value = self._read().get(_bytes(name))
        return None if value is None else self._checked(value)

    def starting_with(self, prefix: str) -> Iterator[tuple[str, Hash]]:
        """Names and values, in no order. Raises FormatError."""
        start = _bytes(prefix)
        for name, value in self._read().items():
            if name.startswith(start):
                yield name.decode("utf-8", "surrogateescape"), self._checked(value)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock of the file, so that refs are not packed while the block runs."""
        self._refuse_link()
        with locked(self.file, self._root, self._patience):
            yield

    def remove(self, name: str) -> None:
        """Take one ref out, durably, under the lock; other lines stay. Raises OSError."""
        if self.get(name) is None:
            return
        kept = without(read_file(self.file), name)
        move_over(stage(self._root, kept, sync=self._fsync), self.file)
        if self._fsync:
            sync_directory(self._root)

    def _read(self) -> Mapping[bytes, bytes]:
        self._refuse_link()
        try:
            self._check_regular()
            with self._lock:
                # Its container drops what it kept when the file is another one, and never
                # changes a mapping that it gave away.
                return cast("Mapping[bytes, bytes]", self._container.get_packed_refs())
        except (PackedRefsException, ValueError) as cause:
            raise FormatError(f"{self.file}: {cause}", file=self.file) from cause
        except StopIteration:  # an empty file holds no refs
            return {}
        except OSError as cause:
            raise StorageError(f"cannot read {self.file}: {cause.strerror}") from cause

    def _refuse_link(self) -> None:
        refuse_links(self._root, os.path.basename(self.file))

    def _check_regular(self) -> None:
        """Opening a pipe would block for ever."""
        with suppress(FileNotFoundError):
            if not stat.S_ISREG(os.stat(self.file).st_mode):
                raise FormatError(f"{self.file} is no file; bring it back", file=self.file)

    def _checked(self, value: bytes) -> Hash:
        return checked_packed(value.decode("ascii", "replace"), self.file)


def without(data: bytes, name: str) -> bytes:
    """The bytes of ``packed-refs`` without one ref; other lines stay as they are."""
    wanted = b" " + _bytes(name)
    kept: list[bytes] = []
    is_ours = False
    for line in data.splitlines(keepends=True):
        # a line that starts so belongs to the one before: what that tag stands for
        is_ours = is_ours if line[:1] == b"^" else line.rstrip(b"\r\n")[64:] == wanted
        if not is_ours:
            kept.append(line)
    return b"".join(kept)


def _bytes(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


class DiskRefReader(RefReader):
    """Reads the files of refs."""

    def __init__(self, files: RefFiles, packed: PackedRefs) -> None:
        self.root = files.root
        self._files = files
        self._packed = packed

    def data(self, name: str) -> bytes | None:
        file = self._files.ref(name)
        try:
            return read_file(file, 0, 4096)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None
        except OSError as cause:
            raise StorageError(f"cannot read {file}: {cause.strerror}", file=file) from cause

    def packed_value(self, name: str) -> Hash | None:
        return self._packed.get(name)

    def names(self, prefix: str) -> dict[str, Hash]:
        found: dict[str, Hash] = {}
        hidden = set[str]()
        for name in self.loose_names(prefix.rpartition("/")[0]):
            if name.startswith(prefix):
                value = self.follow(name)
                if value is not None:
                    found[name] = value
                elif self.is_marked(name):
                    hidden.add(name)
        for name, value in self._packed.starting_with(prefix):
            if name not in hidden:
                found.setdefault(name, value)
        return dict(sorted(found.items()))

    def every_name(self, prefix: str) -> list[str]:
        packed = (name for name, _ in self._packed.starting_with(prefix))
        loose = self.loose_names(prefix.rpartition("/")[0])
        names = {*packed, *(name for name in loose if name.startswith(prefix))}
        return sorted(name for name in names if not self.is_marked(name))

    def is_marked(self, name: str) -> bool:
        """Whether a marker from a bucket is in place of a ref; it hides a packed one."""
        data = self.data(name)
        return data is not None and is_marker(data)

    def loose_names(self, directory: str) -> Iterator[str]:
        """The refs that are files below a directory, in no order; raises StorageError."""
        try:
            yield from self._files.ref_names(directory)
        except OSError as cause:
            raise StorageError(
                f"cannot list {self._files.ref(directory)}: {cause.strerror} ({cause.filename})"
            ) from cause

    def work_trees(self) -> list[str]:
        try:
            return sorted(
                f"{WORK_TREES}/{each}" for each in os.listdir(self._files.ref(WORK_TREES))
            )
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as cause:
            raise StorageError(
                f"cannot list {self._files.ref(WORK_TREES)}: {cause.strerror}"
            ) from cause

    def standing(self, name: str) -> Hash | None:
        """The value of a ref; raises InvalidInputError for a symbolic one."""
        text = self.text(name)
        return None if text is None else standing_value(name, text)

    def check_room(self, name: str) -> None:
        """Raises AlreadyExistsError if a ref is where this one needs a directory, or below it."""
        parts = name.split("/")
        for count in range(2, len(parts)):
            above = "/".join(parts[:count])
            if self.text(above) is not None:
                raise in_the_way(name, above)
        file = self._files.ref(name)
        if os.path.isdir(file):
            for below in self.loose_names(name):
                raise in_the_way(name, below)
            self._files.clear_empty_below(file)
        for below, _ in self._packed.starting_with(f"{name}/"):
            raise in_the_way(name, below)
        if os.path.isdir(file):
            raise RetryableConflictError(
                f"cannot make {name}: somebody is making a ref below it, in {file}; try again"
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


def _whole_lines(descriptor: int) -> int:
    """The size of the file, without a last line that is not whole."""
    size = os.fstat(descriptor).st_size
    if not size or os.pread(descriptor, 1, size - 1) == b"\n":
        return size
    at = size
    while at > 0:
        start = max(0, at - LOG_BLOCK)
        found = os.pread(descriptor, at - start, start).rfind(b"\n")
        if found >= 0:
            at = start + found + 1
            break
        at = start
    os.ftruncate(descriptor, at)
    return at

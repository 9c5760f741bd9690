"""The local disk: whole files only, durable before they are visible, and compare-and-swap.

The order of steps is decided here; ``wholefile`` makes the system calls. A root says which path a
key has below it, and how the names on the way become durable; no symbolic link below it is
followed, so that no name leads out of it. Listings show finished files, without those being
written. An ``OSError`` becomes one of our errors.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from functools import partial
from typing import NoReturn

from lancewood.errors import InvalidInputError, NotFoundError, StorageError
from lancewood.store.base import (
    DirectoryStamp,
    ObjectInfo,
    PutOutcome,
    ReplaceOutcome,
    Store,
    check_directory,
    check_key,
    check_range,
    is_in_the_making,
)
from lancewood.store.lockfile import held, queued
from lancewood.store.together import together
from lancewood.store.wholefile import (
    etag_of,
    is_taken,
    keeps_directory_times,
    link,
    move_if_absent,
    move_over,
    read_file,
    stage,
    stage_copy,
    stage_parts,
    stat_file,
    sync_directory,
    sync_file,
)


def walk(path: str, below: str) -> Iterator[ObjectInfo]:
    """The objects below a directory, however deep, in any order; ``below`` is the prefix of their
    keys."""
    pending = [(path, below)]
    while pending:
        path, below = pending.pop()
        with _scanned(path) as entries:
            for each in entries:
                if each.is_dir(follow_symlinks=False):
                    pending.append((each.path, f"{below}{each.name}/"))
                elif _is_object(each):
                    with suppress(FileNotFoundError):
                        yield info_of(below + each.name, each.stat(follow_symlinks=False))


def names_in(path: str) -> Iterator[str]:
    """The names of finished files and of directories in a directory; none if it does not exist."""
    try:
        names = os.listdir(path)
    except (FileNotFoundError, NotADirectoryError):
        names = []
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:  # then nothing can have that name
            raise StorageError(f"cannot list {path}: {error.strerror}", path=path) from error
        names = []
    return iter([each for each in names if each[0] != "." or not is_in_the_making(each)])


def directories_in(path: str) -> Iterator[str]:
    """The names of the directories in a directory; none if it does not exist."""
    try:
        with os.scandir(path) as entries:
            names = [each.name for each in entries if each.is_dir(follow_symlinks=False)]
    except (FileNotFoundError, NotADirectoryError):
        names = []
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:  # then nothing can have that name
            raise StorageError(f"cannot list {path}: {error.strerror}", path=path) from error
        names = []
    return iter(names)


def info_of(key: str, found: os.stat_result) -> ObjectInfo:
    """A file's metadata as a store returns it."""
    modified = datetime.fromtimestamp(found.st_mtime, UTC)
    return ObjectInfo(key, found.st_size, modified, etag_of(found))


@contextmanager
def _scanned(path: str) -> Iterator[Iterable[os.DirEntry[str]]]:
    """The entries of a directory, lazily; none if it does not exist."""
    found: AbstractContextManager[Iterable[os.DirEntry[str]]]
    try:
        try:
            found = os.scandir(path)
        except (FileNotFoundError, NotADirectoryError):
            found = nullcontext(())
        with found as entries:
            yield entries
    except OSError as error:
        raise StorageError(f"cannot list {path}: {error.strerror}", path=path) from error


def _is_object(entry: os.DirEntry[str]) -> bool:
    """Whether an entry is a finished file. The kernel returns the kind with the name, so this costs
    no further call."""
    name = entry.name
    return entry.is_file(follow_symlinks=False) and (name[0] != "." or not is_in_the_making(name))


class DiskRoot:
    """The base of ``DiskStore``. Remembers which directories it has checked already."""

    def __init__(self, root: str | os.PathLike[str], fsync: bool | None = None) -> None:
        path = os.fspath(root)
        if not path or "\0" in path:
            raise InvalidInputError(f"path {path!r} is not allowed: it is empty or contains NUL")
        try:
            os.fsencode(path)
        except UnicodeEncodeError as cause:
            raise InvalidInputError(f"path {path!r} is not allowed: {cause.reason}") from cause
        on = fsync_by_default() if fsync is None else fsync
        self.__setstate__((os.path.abspath(path).strip("/"), "", on))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.uri!r}, fsync={self.fsync})"

    def __getstate__(self) -> tuple[str, str, bool]:
        return self._top.strip("/"), self._prefix, self.fsync

    def __setstate__(self, state: tuple[str, str, bool]) -> None:
        root, self._prefix, self.fsync = state
        self._top = f"/{root}" if root else ""
        self._known: dict[str, str] = {}
        """The paths of directories that are no symbolic links, by their keys from the top."""
        self._settled: set[str] = set()
        """Directories whose own names are durable, as paths."""

    @property
    def uri(self) -> str:
        return f"{self._top}/{self._prefix}".rstrip("/") or "/"

    def _path(self, key: str) -> str:
        check_key(key)
        full = self._prefix + key
        directory = full.rpartition("/")[0]
        if directory and directory not in self._known:
            self._check_directories(directory)
        return f"{self._top}/{full}"

    def _directory(self, directory: str) -> str:
        full = (self._prefix + directory).rstrip("/")
        if full and full not in self._known:
            self._check_directories(full)
        return f"{self._top}/{full}".rstrip("/") or "/"

    def _check_directories(self, directory: str) -> None:
        """Raise if a directory on the path is a symbolic link; remember those that are not."""
        refuse_links(self._top, directory, self._known)

    def _make_directory(self, directory: str) -> None:
        """Make a directory and its missing parents, each name durable in the one above."""
        try:
            os.mkdir(directory)
        except FileExistsError:
            return
        except FileNotFoundError:
            self._make_directory(os.path.dirname(directory))
            with suppress(FileExistsError):
                os.mkdir(directory)
        if self.fsync:
            sync_directory(os.path.dirname(directory))
            self._settled.add(directory)

    def _settle(self, directory: str) -> None:
        """Make the names in a directory durable; the first time also its own name, and those of its
        parents up to the root, since their creator may not have done so."""
        sync_directory(directory)
        while directory not in self._settled and directory.startswith(self._top or "/"):
            parent = os.path.dirname(directory)
            # Above the root we may not be allowed to look; what we made there is durable.
            with suppress(PermissionError):
                sync_directory(parent)
            self._settled.add(directory)
            directory = parent

    def _fail_to_read(self, key: str, error: OSError) -> NoReturn:
        facts = {"key": key, "uri": self.uri}
        is_absent = isinstance(error, FileNotFoundError | NotADirectoryError)
        if is_absent or error.errno == errno.ENAMETOOLONG:
            raise NotFoundError(f"{key!r} not found in {self.uri}", **facts) from error
        if isinstance(error, IsADirectoryError):
            text = f"{key!r} not found in {self.uri}: a directory has that name"
            raise NotFoundError(text, **facts) from error
        self._fail("read", key, error)

    def _fail(self, verb: str, key: str, error: OSError, **facts: object) -> NoReturn:
        if error.errno == errno.ELOOP:
            raise link_refused(f"{self.uri}/{key}", self.uri) from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            facts["final"] = True
        text = f"cannot {verb} {key!r} in {self.uri}: {error.strerror}"
        raise StorageError(text, key=key, uri=self.uri, **facts) from error


def fsync_by_default() -> bool:
    return os.environ.get("LANCEWOOD_FSYNC", "").strip().lower() not in ("0", "false", "no", "off")


def refuse_links(top: str, directory: str, known: dict[str, str] | None = None) -> None:
    """Raise InvalidInputError if a directory on the way down from ``top``, itself not included, is
    a symbolic link, or if the last one is a file.

    Paths in ``known``, by their keys, are not checked; those found to be directories are added. The
    check ends at the first path that does not exist or is not a directory.
    """
    way = ""
    for segment in directory.split("/"):
        way = f"{way}/{segment}" if way else segment
        if known is not None and way in known:
            continue
        path = f"{top}/{way}"
        try:
            mode = os.lstat(path).st_mode
        except OSError:
            return
        if stat.S_ISLNK(mode):
            raise link_refused(path, top)
        if not stat.S_ISDIR(mode):
            return
        if known is not None:
            known[way] = path


def link_refused(path: str, top: str) -> InvalidInputError:
    """The error for a link below ``top`` that would have been followed."""
    try:
        leads_to = f" to {os.readlink(path)}"
    except OSError:  # it is gone again
        leads_to = ""
    return InvalidInputError(
        f"{path} is a symbolic link{leads_to}, and links below {top or '/'} are not followed: "
        "put the files there, or open what the link points at",
        path=path,
    )


class DiskStore(DiskRoot):
    """Files under ``root``, which the first write creates; it may itself be a symbolic link.

    ``fsync=None`` follows the environment variable ``LANCEWOOD_FSYNC`` (0, false, no or off turns
    it off). With it a write returns when bytes and name are on the disk, without it when they are
    in the kernel. Reading and listing change nothing. Directories that became empty stay.
    """

    lists_in_order = False
    is_far = False
    probed_as = None

    def get(self, key: str) -> bytes:
        path = self._path(key)
        try:
            return read_file(path)
        except OSError as error:
            self._fail_to_read(key, error)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        check_range(key, start, length)
        path = self._path(key)
        try:
            return read_file(path, start, length)
        except OSError as error:
            self._fail_to_read(key, error)

    def head(self, key: str) -> ObjectInfo:
        path = self._path(key)
        try:
            return info_of(key, stat_file(path))
        except OSError as error:
            self._fail_to_read(key, error)

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        prefix = check_directory(prefix)
        return walk(self._directory(prefix), f"{prefix}/" if prefix else "")

    def names(self, directory: str) -> Iterator[str]:
        known = self._known.get(self._prefix + directory)
        return names_in(known or self._directory(check_directory(directory)))

    def directories(self, directory: str) -> Iterator[str]:
        return directories_in(self._directory(check_directory(directory)))

    def stamp(self, directory: str) -> DirectoryStamp | None:
        known = self._known.get(self._prefix + directory)
        path = known or self._directory(check_directory(directory))
        try:
            found = os.stat(path)
        except OSError:
            return None
        if not keeps_directory_times(path, found.st_dev):
            return None
        return DirectoryStamp(found.st_dev, found.st_ino, found.st_mtime_ns)

    def put(self, key: str, data: bytes) -> None:
        path = self._path(key)
        try:
            self._put(path, data)
        except OSError as error:
            self._fail("write", key, error)

    def put_together(self, objects: Mapping[str, bytes]) -> None:
        paths = {key: self._path(key) for key in objects}
        staged: dict[str, str] = {}
        key = ""
        try:
            for key, path in paths.items():
                staged[key] = self._stage(path, objects[key], sync=False)
            if self.fsync:
                together([partial(sync_file, each) for each in staged.values()])
            for key, path in paths.items():
                move_over(staged[key], path)
                del staged[key]
            if self.fsync:
                directories = dict.fromkeys(map(os.path.dirname, paths.values()))
                together([partial(self._settle, each) for each in directories])
        except OSError as error:
            self._fail("write", key, error)
        finally:
            for each in staged.values():
                with suppress(OSError):
                    os.unlink(each)

    def put_parts(self, key: str, parts: Iterable[bytes]) -> None:
        path = self._path(key)
        directory = os.path.dirname(path)
        try:
            self._make_directory(directory)
            move_over(stage_parts(directory, parts, sync=self.fsync), path)
            if self.fsync:
                self._settle(directory)
        except OSError as error:
            self._fail("write", key, error)

    def put_new(self, key: str, data: bytes) -> PutOutcome:
        path = self._path(key)
        try:
            # A writer that has already lost need not wait for the disk.
            if self.fsync and is_taken(path):
                return PutOutcome.EXISTS
            staged = self._stage(path, data)
        except OSError as error:
            self._fail("create", key, error, landed=False)
        try:
            if not move_if_absent(staged, path):
                is_taken(path)
                return PutOutcome.EXISTS
            if self.fsync:
                self._settle(os.path.dirname(path))
            return PutOutcome.CREATED
        except OSError as error:
            self._fail("create", key, error)

    def replace(self, key: str, data: bytes, expected_etag: str) -> ReplaceOutcome:
        path = self._path(key)
        try:
            if _etag_at(path) != expected_etag:
                return ReplaceOutcome.CHANGED
            with held(f"{path}.lock"):
                if _etag_at(path) != expected_etag:
                    return ReplaceOutcome.CHANGED
                self._put(path, data)
                return ReplaceOutcome.REPLACED
        except OSError as error:
            self._fail("replace", key, error)

    def copy(self, source: str, target: str) -> None:
        origin, path = self._path(source), self._path(target)
        directory = os.path.dirname(path)
        try:
            stat_file(origin)
        except OSError as error:
            self._fail_to_read(source, error)
        try:
            self._make_directory(directory)
            move_over(stage_copy(origin, directory, sync=self.fsync), path)
            if self.fsync:
                self._settle(directory)
        except OSError as error:
            self._fail(f"copy {source!r} to", target, error)

    def copy_from(
        self, source: Store, found: ObjectInfo, target: str, *, may_link: bool = False
    ) -> bool:
        path = self._path(target)
        if not isinstance(source, DiskStore):
            return False
        origin, directory = source._path(found.key), os.path.dirname(path)
        try:
            stat_file(origin)
        except OSError as error:
            source._fail_to_read(found.key, error)
        try:
            self._make_directory(directory)
            if may_link and link(origin, path):
                self.sync([target])
                return True
            move_over(stage_copy(origin, directory, sync=self.fsync), path)
            if self.fsync:
                self._settle(directory)
        except OSError as error:
            self._fail(f"copy {found.key!r} of {source.uri} to", target, error)
        return True

    def delete(self, keys: Iterable[str]) -> None:
        targets = [(key, self._path(key)) for key in keys]
        emptied: dict[str, str] = {}
        for key, path in targets:
            try:
                os.unlink(path)
                emptied[os.path.dirname(path)] = key
            except (FileNotFoundError, NotADirectoryError):
                pass
            except OSError as error:
                self._fail("delete", key, error)
        if self.fsync:
            for directory, key in emptied.items():
                try:
                    sync_directory(directory)
                except FileNotFoundError:
                    pass  # someone removed it meanwhile, with all names in it
                except OSError as error:
                    self._fail("delete", key, error)

    def prune(self, directory: str) -> None:
        top = self._directory(check_directory(directory))
        for path, _, _ in os.walk(top, topdown=False):
            with suppress(OSError):
                os.rmdir(path)
        self._known.clear()
        self._settled.clear()

    def sync(self, keys: Sequence[str]) -> None:
        paths = [self._path(key) for key in keys]
        if not self.fsync or not paths:
            return
        together([partial(self._sync_file, *each) for each in zip(keys, paths, strict=True)])
        for directory in dict.fromkeys(map(os.path.dirname, paths)):
            try:
                self._settle(directory)
            except OSError as error:
                self._fail("sync the directory of", keys[0], error)

    def turn(self, directory: str) -> AbstractContextManager[None]:
        return queued(self._directory(check_directory(directory)))

    def at(self, prefix: str) -> DiskStore:
        prefix = check_directory(prefix)
        deeper = DiskStore(self._top or "/", self.fsync)
        deeper._prefix = f"{self._prefix}{prefix}/" if prefix else self._prefix
        deeper._known, deeper._settled = self._known, self._settled
        return deeper

    def location(self, key: str) -> str:
        """The path of the file, which need not exist; only its directories are checked."""
        return self._path(key)

    def _put(self, path: str, data: bytes) -> None:
        move_over(self._stage(path, data), path)
        if self.fsync:
            self._settle(os.path.dirname(path))

    def _stage(self, path: str, data: bytes, *, sync: bool | None = None) -> str:
        directory = os.path.dirname(path)
        sync = self.fsync if sync is None else sync
        try:
            return stage(directory, data, sync=sync)
        except FileNotFoundError:
            self._make_directory(directory)
            return stage(directory, data, sync=sync)

    def _sync_file(self, key: str, path: str) -> None:
        try:
            sync_file(path)
        except OSError as error:
            self._fail_to_read(key, error)


def _etag_at(path: str) -> str | None:
    try:
        return etag_of(stat_file(path))
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None

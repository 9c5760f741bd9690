"""The local disk: whole files only, durable before they are visible, and compare-and-swap.

The order of steps is decided here; ``wholefile`` makes the system calls, ``disk_root`` maps keys to
paths, ``disk_listing`` reads directories.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial

from lancewood.store.base import (
    DirectoryStamp,
    ObjectInfo,
    PutOutcome,
    ReplaceOutcome,
    Store,
    check_directory,
    check_range,
)
from lancewood.store.disk_listing import directories_in, info_of, names_in, walk
from lancewood.store.disk_root import DiskRoot
from lancewood.store.lockfile import held, queued
from lancewood.store.mounts import keeps_directory_times
from lancewood.store.together import together
from lancewood.store.wholefile import (
    etag_of,
    is_taken,
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

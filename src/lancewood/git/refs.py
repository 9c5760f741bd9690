"""Refs: names for commits, each a file with a hash in it, and HEAD.

A ref moves by compare-and-swap under git's own lock, and every move is logged. The order is:
objects are written; then, under the lock, the line in the log, a new file with the value and the
names of the objects are made durable, all at once; then the file takes the ref's name; then its
directory is synced. So a ref is never empty or half written, and never names what a power cut can
take away. Knows nothing of what is named.

dulwich's container reads packed refs. It does not move any: its locks cannot say whose they are,
and it syncs no directory.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from lancewood.errors import (
    CommitUnknownError,
    FormatError,
    StorageError,
)
from lancewood.git.names import HEAD
from lancewood.git.ref_files import (
    LEFT_BEHIND,
    PATIENCE,
    Appended,
    DiskRefReader,
    PackedRefs,
    RefFiles,
    append,
    lock,
    locked,
    read_newest_first,
    unlock,
)
from lancewood.git.ref_store import (
    SYMBOLIC,
    Head,
    LogEntry,
    RefStore,
    already_moved,
    checked_name,
    encode_entry,
)
from lancewood.git.syncing import Unsettled, sync_paths
from lancewood.git.values import ZERO, Hash, Signature
from lancewood.store.badge import Badges
from lancewood.store.lockfile import is_dead, release_dead
from lancewood.store.retry import LOST_RACES
from lancewood.store.wholefile import stage

__all__ = ["Head", "LogEntry", "Refs"]


class Refs(RefStore):
    """The refs of the repository at ``root``. Safe to use from threads and processes.

    ``write_objects`` is called before any ref moves, and what it leaves to be synced is synced
    before the ref has its value. ``patience`` is how many seconds a lock is waited for.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        fsync: bool = True,
        write_objects: Callable[[], Unsettled] = Unsettled,
        patience: float = PATIENCE,
    ) -> None:
        self._root = os.path.abspath(root)
        self._fsync = fsync
        self._write_objects = write_objects
        self._patience = patience
        self._files = RefFiles(self._root)
        self._badges = Badges(self._root)
        self._packed = PackedRefs(self._root, fsync=fsync, patience=patience)
        self._reader = DiskRefReader(self._files, self._packed)
        super().__init__(self._reader)

    # Reading

    def log(self, name: str) -> Iterator[LogEntry]:
        return read_newest_first(self._files.log(checked_name(name)))

    def logged_names(self) -> list[str]:
        try:
            return sorted(self._files.log_names())
        except OSError as cause:
            raise StorageError(
                f"cannot list {self._root}/logs: {cause.strerror} ({cause.filename})"
            ) from cause

    def _log_file(self, key: str) -> Iterator[LogEntry]:
        return read_newest_first(f"{self._root}/{key}")

    # Moving

    def _move(self, name: str, old: Hash | None, new: Hash | None, line: bytes) -> bool:
        self._files.look_again()
        done = already_moved(name, self._reader.standing(name), old, new)
        if done is not None:
            return done
        objects = self._write_objects()
        with self._telling(name):
            if new is None:
                objects.sync()
                return self._delete(name, old, line)
            if old is None:
                self._reader.check_room(name)
            try:
                return self._set(name, old, new, line, objects)
            except (FileExistsError, NotADirectoryError, IsADirectoryError):
                # It says which other ref came first, if one did, and clears away what is empty.
                self._reader.check_room(name)
                return self._set(name, old, new, line, objects)

    def release_dead_locks(self, *, dry_run: bool = False) -> list[str]:
        """Remove every lock whose owner is proven dead, those of HEAD, of packed refs and of the
        settings too; their paths. ``dry_run`` only finds them."""
        files = [f"{self._root}/{each}" for each in (HEAD, "packed-refs", "config")]
        with self._telling("locks"):
            locks = [*(f"{each}.lock" for each in files), *self._files.locks()]
        release = is_dead if dry_run else release_dead
        return [each for each in locks if release(each, LEFT_BEHIND)]

    def remove_markers(self, *, dry_run: bool = False) -> list[str]:
        """Remove what a download brought along of refs that somebody was just making or deleting
        in a bucket, and what it hides; the files. Here nobody makes such. ``dry_run`` only finds
        them."""
        found = [each for each in self._reader.loose_names("refs") if self._reader.is_marked(each)]
        for name in [] if dry_run else found:
            with self._locked(name), self._packed.locked():
                if self._reader.is_marked(name):
                    self._remove(name)
        return [self._files.ref(each) for each in found]

    def _set(self, name: str, old: Hash | None, new: Hash, line: bytes, objects: Unsettled) -> bool:
        file = self._files.ref(name)
        with self._staged(new) as staged:
            with self._unless_moved(name, staged), self._locked(name):
                if self._reader.standing(name) != old:
                    return False
                if old is None:
                    self._reader.check_room(name)
                with self._logs_of(name) as logs:
                    self._replace(file, staged, logs, line, objects)
            self._settle(name, file)
        return True

    def _delete(self, name: str, old: Hash | None, line: bytes) -> bool:
        """The log goes first: a ref without a log is less of a riddle than a log without a ref.
        The packed value goes before the file, or it would shine through; and nobody can pack the
        ref meanwhile."""
        file, log = self._files.ref(name), self._files.log(name)
        with self._locked(name), self._packed.locked():
            if self._reader.standing(name) != old:
                return False
            with self._logs_of(name) as logs:
                written = [self._append(each, line) for each in logs if each != name]
                self._remove(name)
            if self._fsync:
                directories = [os.path.dirname(file)]
                if os.path.isdir(os.path.dirname(log)):
                    directories.append(os.path.dirname(log))
                sync_paths([each.file for each in written], directories)
        self._files.remove_empty_above(self._root, name)
        self._files.remove_empty_above(f"{self._root}/logs", name)
        return True

    def _remove(self, name: str) -> None:
        """The files of a ref, and its line among the packed ones, under both locks."""
        with suppress(FileNotFoundError, NotADirectoryError):
            os.unlink(self._files.log(name))
        self._packed.remove(name)
        with suppress(FileNotFoundError):
            os.unlink(self._files.ref(name))

    def _set_head(
        self, text: str, find: Callable[[], Hash | None], why: str, by: Signature
    ) -> None:
        encode_entry(LogEntry(ZERO, ZERO, by, why))
        self._files.look_again()
        objects = self._write_objects()
        file = self._files.ref(HEAD)
        with self._telling(HEAD), self._staged(text) as staged:
            with self._unless_moved(HEAD, staged), self._locked(HEAD):
                before, old = self._head_before()
                if before == text:
                    return
                new = find()
                logs = [HEAD] if new is not None else []
                line = encode_entry(LogEntry(old or ZERO, new or ZERO, by, why))
                self._replace(file, staged, logs, line, objects)
            self._settle(HEAD, file)

    def _head_before(self) -> tuple[str | None, Hash | None]:
        """What HEAD says and where it leads; None for what cannot be read, which is replaced."""
        text, leads_to = None, None
        with suppress(FormatError):
            text = self._reader.loose(HEAD)
            leads_to = self._reader.follow(HEAD)
        return text, leads_to

    # The steps

    @contextmanager
    def _staged(self, text: str) -> Iterator[str]:
        """A file with the value, which is gone after the block if it got no other name."""
        staged = stage(self._root, text.encode() + b"\n", sync=False)
        try:
            yield staged
        finally:
            with suppress(FileNotFoundError):
                os.unlink(staged)

    @contextmanager
    def _locked(self, name: str) -> Iterator[None]:
        file = self._files.ref(name)
        for attempt in LOST_RACES:
            self._files.make_directory_of(file)
            try:
                lock(file, self._root, self._patience, like=self._badges.mine())
                break
            except FileNotFoundError:  # who deleted the last ref of a directory removed it
                if attempt == LOST_RACES.last:
                    raise
        try:
            yield
        finally:
            unlock(file)

    @contextmanager
    def _logs_of(self, name: str) -> Iterator[list[str]]:
        """Which logs record a move: the ref's, and HEAD's, under its lock, if it names the ref."""
        followed = SYMBOLIC + name
        if self._reader.loose(HEAD) != followed:
            yield [name]
            return
        head = self._files.ref(HEAD)
        with locked(head, self._root, self._patience, like=f"{self._files.ref(name)}.lock"):
            yield [name, HEAD] if self._reader.loose(HEAD) == followed else [name]

    def _replace(
        self, file: str, staged: str, logs: list[str], line: bytes, objects: Unsettled
    ) -> None:
        """Write the logs, then give the staged file its name; a failure leaves neither."""
        written: list[Appended] = []
        try:
            for log in logs:
                written.append(self._append(log, line))
            if self._fsync:
                # HEAD's log only repeats the branch's: a power cut may take its last lines.
                sure = written[:1]
                new = [
                    directory
                    for each in sure
                    if each.is_first
                    for directory in self._files.unsettled(os.path.dirname(each.file))
                ]
                sync_paths([staged, *(each.file for each in sure)], [*new, *objects.directories])
                self._files.settle(new)
            objects.settled()
            os.rename(staged, file)
        except BaseException:
            if os.path.lexists(staged):
                for each in written:
                    each.take_back()
            raise

    def _append(self, name: str, line: bytes) -> Appended:
        file = self._files.log(name)
        for _ in LOST_RACES:
            try:
                return append(file, line)
            except FileNotFoundError:
                self._files.make_directory_of(file)
            except IsADirectoryError:
                self._files.clear_empty_below(file)
        return append(file, line)

    def _settle(self, name: str, file: str) -> None:
        if not self._fsync:
            return
        directories = self._files.unsettled(os.path.dirname(file))
        try:
            sync_paths(directories=directories)
        except FileNotFoundError:
            pass  # the ref was deleted meanwhile, and its directory with it
        except OSError as cause:
            raise self._unknown(name, cause) from cause
        else:
            self._files.settle(directories)

    @contextmanager
    def _unless_moved(self, name: str, staged: str) -> Iterator[None]:
        """A failure after the file got its name is not the failure of the move."""
        try:
            yield
        except OSError as cause:
            if os.path.lexists(staged):
                raise
            raise self._unknown(name, cause) from cause

    def _unknown(self, name: str, cause: OSError) -> CommitUnknownError:
        return CommitUnknownError(
            f"{name} in {self._root} has its new value, but the disk would not confirm that "
            f"it will stay: {cause.strerror}",
            ref=name,
        )

    @contextmanager
    def _telling(self, name: str) -> Iterator[None]:
        try:
            yield
        except OSError as cause:
            where = f" ({cause.filename})" if cause.filename else ""
            raise StorageError(
                f"cannot move {name} in {self._root}: {cause.strerror}{where}", ref=name
            ) from cause

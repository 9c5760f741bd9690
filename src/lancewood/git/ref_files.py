"""The files and directories of refs and their logs, and the lock beside each ref.

Raises plain ``OSError``, and InvalidInputError for a symbolic link: a repository may come from
somebody else, and nothing is written or deleted where its links lead. A lock is git's own
``<file>.lock``, with the owner inside. git and dulwich honour our locks, and we honour theirs.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from lancewood.errors import RetryableConflictError, StorageError
from lancewood.git.names import is_ref
from lancewood.store.disk_root import link_refused, refuse_links
from lancewood.store.lockfile import acquire, release

_KEPT = 2
"""``refs/heads`` and the like stay even when they are empty."""
PATIENCE = 10.0
"""Seconds to wait for a lock; the work under it takes milliseconds."""
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

"""The files and directories in which refs and their logs are kept.

Knows paths: which exist, which are in each other's way, whose names are durable. Raises plain
``OSError``, and InvalidInputError for a symbolic link: whoever made the repository may have put it
there, and nobody writes or deletes where it leads. Does not know the values of refs, nor who may
change them.

The lock beside a ref: git's own ``<file>.lock``, which says who holds it.

git and dulwich stay away from a file while its lock is there, and so do we from theirs. Knows
lock files; does not know what is written under them.
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
"""``refs/heads`` and its like stay when they are empty."""


class Places:
    """Where things are below the root of a repository."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._settled: set[str] = {root}
        """Directories whose own names are durable."""
        self._known: dict[str, str] = {}
        """Directories that are no links, as paths by their ways from the root."""

    def look_again(self) -> None:
        """Whoever begins to change something, or to list, does not rest on earlier looks."""
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
        """What is to be synced when the names in a directory changed: itself, and what is above
        it as long as nobody did so before."""
        found = [directory]
        while directory not in self._settled:
            directory = os.path.dirname(directory)
            found.append(directory)
        return found

    def settle(self, directories: Iterable[str]) -> None:
        """They were synced, each with what is above it."""
        self._settled.update(directories)

    def remove_empty_above(self, base: str, name: str) -> None:
        """Remove directories that the name of a ref no longer needs; stops at one that is used."""
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
        """Remove a directory that holds nothing but empty directories; otherwise as many as go."""
        refuse_links(self.root, directory.removeprefix(f"{self.root}/"))
        for path, _, _ in os.walk(directory, topdown=False):
            with suppress(OSError):
                os.rmdir(path)
                self._settled.discard(path)

    def ref_names(self, directory: str) -> Iterator[str]:
        """The full names of the files below a directory that can be refs, in no order."""
        return (each for each in self._files(directory) if is_ref(each))

    def log_names(self) -> Iterator[str]:
        """The full names of the refs that have logs, in no order."""
        names = (each.removeprefix("logs/") for each in self._files("logs/refs"))
        return (each for each in names if is_ref(each))

    def locks(self) -> Iterator[str]:
        """The paths of all locks on refs."""
        return (f"{self.root}/{each}" for each in self._files("refs") if each.endswith(".lock"))

    def _files(self, directory: str) -> Iterator[str]:
        """What is below a directory and is none itself, by its way from the root."""
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


PATIENCE = 10.0
"""Seconds to wait for another who holds a lock; the work under it takes milliseconds."""
LEFT_BEHIND = 24 * 3600.0
"""Age in seconds after which a lock that names no owner is taken over. Only git and dulwich make
such; a process of theirs that is stopped for a day and then goes on would meet another's lock."""


@contextmanager
def locked(
    file: str, root: str, patience: float = PATIENCE, *, like: str | None = None
) -> Iterator[None]:
    """Hold the lock of a file of the repository at ``root`` while the block runs.

    A lock of ours names its process, with its start and the boot, and is taken over when that
    process is proven dead. Any other is waited for, with growing pauses, and after ``patience``
    seconds comes RetryableConflictError. ``like`` is a file of this thread that
    names this process, a badge or a lock that it holds: the new lock is another name of it, which
    costs the disk less.
    """
    lock(file, root, patience, like=like)
    try:
        yield
    finally:
        unlock(file)


def lock(file: str, root: str, patience: float = PATIENCE, *, like: str | None = None) -> None:
    """The same until ``unlock``."""
    name = f"{file}.lock"
    try:
        # The file is made at the root: a stray one must not keep a directory of refs alive.
        acquire(
            name,
            patience,
            staging=root,
            like=like,
            unowned_after=LEFT_BEHIND,
        )
    except StorageError as error:
        if "lock" not in error.facts:
            raise
        raise RetryableConflictError(
            f"{error}. A lock that names no owner was made by git or another program; "
            f"it is taken over after {LEFT_BEHIND / 3600:g} hours",
            lock=name,
        ) from error


def unlock(file: str) -> None:
    """Let go of a lock that ``lock`` took."""
    release(f"{file}.lock")

"""The lock beside a ref: git's own ``<file>.lock``, which says who holds it.

git and dulwich stay away from a file while its lock is there, and so do we from theirs. Knows
lock files; does not know what is written under them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lancewood.errors import RetryableConflictError, StorageError
from lancewood.store.lockfile import acquire, release

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

"""Making several files and directories durable at once.

Knows paths and descriptors; raises plain ``OSError``. Does not know what the files mean.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from lancewood.store.together import together
from lancewood.store.wholefile import sync_directory, sync_file

__all__ = ["Unsettled", "sync_and_close", "sync_paths", "together"]


@dataclass(frozen=True, slots=True)
class Unsettled:
    """Files that are durable, in directories that have to be synced before anybody rests on them;
    the one that does so calls ``settled``. So one wait for the disk can serve several."""

    directories: tuple[str, ...] = ()
    settled: Callable[[], None] = lambda: None

    def sync(self) -> None:
        sync_paths(directories=self.directories)
        self.settled()


def sync_paths(files: Iterable[str] = (), directories: Iterable[str] = ()) -> None:
    """Return when the bytes of the files and the names in the directories are on the disk."""
    together(
        [
            *(partial(sync_file, each) for each in files),
            *(partial(sync_directory, each) for each in directories),
        ]
    )


def sync_and_close(descriptors: Iterable[int]) -> None:
    """Return when the bytes of open files are on the disk; they are closed whatever happens."""
    together([partial(_sync_and_close, each) for each in descriptors])


def _sync_and_close(descriptor: int) -> None:
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

"""Badges: files that identify a process and are kept, so that a lock can be a hard link to one.

A lock file of its own would be created and removed for each piece of work. File systems do not
reuse a freed inode at once, and search past it whenever a file is created: hundreds of locks a
second slow down every other file.
"""

from __future__ import annotations

import os
import threading
import weakref
from contextlib import suppress

from lancewood.store.lockfile import identity
from lancewood.store.wholefile import stage


class Badges:
    """One badge for each thread that asks, in ``directory``; removed with the thread or the
    process.

    What a killed process leaves has a name that listings leave out.
    """

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._own = threading.local()

    def mine(self) -> str:
        """The path of this thread's badge. Raises OSError if none can be made."""
        badge: _Badge | None = getattr(self._own, "badge", None)
        if badge is None or badge.pid != os.getpid() or not os.path.lexists(badge.path):
            badge = self._own.badge = _Badge(self._directory)
        return badge.path

    def __reduce__(self) -> tuple[type[Badges], tuple[str]]:
        return Badges, (self._directory,)


class _Badge:
    def __init__(self, directory: str) -> None:
        self.pid = os.getpid()
        self.path = stage(directory, identity(self.pid), sync=False)
        weakref.finalize(self, _remove, self.path, self.pid)


def _remove(path: str, pid: int) -> None:
    if os.getpid() == pid:  # a forked child is not the process that it names
        with suppress(OSError):
            os.unlink(path)

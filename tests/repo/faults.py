"""A process that dies, or a disk that fails, at the n-th step of the work on a repository.

Two kinds of step: the calls to the stores of its tables, and what is done to the files of git. A
death is played inside this process: from then on no step is done any more, and its locks are those
of a process that is gone.
"""

from __future__ import annotations

import errno
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

import pytest
from tests.repo.locations import Where

from lancewood.errors import CommitUnknownError, LancewoodError
from lancewood.store import badge, lockfile
from lancewood.store.base import Store
from lancewood.store.locate import open_store
from lancewood.testing.faults import FaultyStore, Killed, Mode

T = TypeVar("T")
FileMode = Literal["kill", "torn", "error", "lost"]
OPENING = (
    "lancewood.catalog.opening",
    "lancewood.repo.commit.creating",
    "lancewood.repo.commit.adding",
)
AT_HOME = (*OPENING, "lancewood.git.bucket.repository", "lancewood.repo.context")
"""In a bucket the objects and the refs of git are store calls, too, and so are notes."""
MOST_STEPS = 180
EVERY_STEP = os.environ.get("LANCEWOOD_EVERY_STEP") == "1"
"""Hurt verbs at every step, also where the tests of every day leave out some that are alike."""


@dataclass
class Steps:
    """What is to happen, and what was done."""

    at: int
    mode: str
    calls: list[str] = field(default_factory=list)
    is_dead: bool = False
    lock: Any = field(default_factory=threading.RLock)

    @property
    def is_over(self) -> bool:
        """The work was done before the step that was to hurt."""
        return len(self.calls) < self.at


@contextmanager
def at_store_call(at: int, mode: Mode, where: Where | None = None) -> Iterator[Steps]:
    """Hurt at the n-th call to any store of a table that is opened meanwhile; for a repository in
    a bucket to any store at all."""
    steps = Steps(at, mode)
    shared = FaultyStore(open_store("memory://never"), at, mode)._script

    def opened(uri: Any, **options: Any) -> Store:
        store = FaultyStore(open_store(uri, **{**options, "fsync": False}))
        store._script = shared
        return store

    with pytest.MonkeyPatch.context() as patch:
        for module in OPENING if where is None or where.is_on_disk else AT_HOME:
            patch.setattr(f"{module}.open_store", opened)
        patch.setattr("lancewood.store.retry.time.sleep", lambda seconds: None)
        yield steps
    steps.calls = [f"{verb} {key}" for verb, key in shared.calls]


@contextmanager
def at_file_step(root: Path, at: int, mode: FileMode) -> Iterator[Steps]:
    """Hurt at the n-th change to the files of git below ``root``; nothing is really synced.

    ``kill`` dies before it, ``torn`` in the middle of the n-th write, ``error`` fails before it,
    ``lost`` after it was done.
    """
    steps = Steps(at, mode)
    files = _Files(os.path.abspath(root), steps)
    dead = f"{os.getpid()} 1 {lockfile._namespace()} here\n".encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LANCEWOOD_FSYNC", "1")
        patch.setattr(lockfile, "identity", lambda pid: dead)
        patch.setattr(badge, "identity", lambda pid: dead)
        for name in ("rename", "replace", "link", "unlink", "mkdir", "rmdir", "truncate", "utime"):
            patch.setattr(os, name, files.on_paths(name, getattr(os, name)))
        patch.setattr(os, "write", files.on_write(os.write))
        patch.setattr(os, "fsync", files.on_descriptor("fsync", lambda descriptor: None))
        patch.setattr(os, "ftruncate", files.on_descriptor("ftruncate", os.ftruncate))
        patch.setattr(os, "open", files.on_open(os.open))
        patch.setattr(os, "close", files.on_close(os.close))
        yield steps


class _Files:
    def __init__(self, root: str, steps: Steps) -> None:
        self._root = f"{root}/"
        self._tables = f"{root}/tables"
        self._steps = steps
        self._known: dict[int, str] = {}

    def on_paths(self, name: str, real: Callable[..., T]) -> Callable[..., T]:
        def act(*paths: Any, **options: Any) -> T:
            where = paths[-1] if isinstance(paths[-1], str) else paths[0]
            if isinstance(where, int):
                where = self._known.get(where, "")
            if sys._getframe(1).f_code is badge._remove.__code__:
                return real(*paths, **options)  # whenever garbage is collected: no step of a verb
            return self._step(name, where, lambda: real(*paths, **options))

        return act

    def on_descriptor(self, name: str, real: Callable[..., T]) -> Callable[..., T]:
        def act(descriptor: int, *more: Any) -> T:
            path = self._known.get(descriptor, "")
            return self._step(name, path, lambda: real(descriptor, *more))

        return act

    def on_write(self, real: Callable[[int, Any], int]) -> Callable[[int, Any], int]:
        def act(descriptor: int, data: Any) -> int:
            path = self._known.get(descriptor, "")
            half = len(data) // 2
            return self._step(
                "write", path, lambda: real(descriptor, data), lambda: real(descriptor, data[:half])
            )

        return act

    def on_open(self, real: Callable[..., int]) -> Callable[..., int]:
        def act(path: Any, flags: int, mode: int = 0o777, **options: Any) -> int:
            def done() -> int:
                descriptor = real(path, flags, mode, **options)
                self._known[descriptor] = os.fspath(path)
                return descriptor

            if flags & (os.O_CREAT | os.O_WRONLY | os.O_RDWR):
                return self._step("open", path, done)
            return done()

        return act

    def on_close(self, real: Callable[[int], None]) -> Callable[[int], None]:
        def act(descriptor: int) -> None:
            self._known.pop(descriptor, None)
            real(descriptor)

        return act

    def _step(
        self, name: str, where: Any, real: Callable[[], T], torn: Callable[[], object] | None = None
    ) -> T:
        steps, path = self._steps, os.fspath(where) if not isinstance(where, int) else ""
        if not path.startswith(self._root) or path.startswith(self._tables):
            return real()
        with steps.lock:
            if steps.is_dead:
                raise Killed("this process is dead")
            if steps.mode == "torn" and torn is None:
                return real()
            steps.calls.append(f"{name} {path.removeprefix(self._root)}")
            if len(steps.calls) != steps.at:
                return real()
            if steps.mode == "error":
                raise OSError(errno.EIO, f"fault before {steps.calls[-1]}", path)
            if steps.mode == "lost":
                real()
                raise OSError(errno.EIO, f"fault after {steps.calls[-1]}", path)
            steps.is_dead = True
            if torn is not None and steps.mode == "torn":
                torn()
            raise Killed(f"died at {steps.calls[-1]}")


def hurting(stride: int) -> range:
    """The steps at which a verb is hurt: every third stride, or every step if asked for."""
    return range(1, 10 * MOST_STEPS) if EVERY_STEP else range(1, MOST_STEPS, 3 * stride)


def outcome(act: Callable[[], object]) -> str:
    """How it ended: done, failed, unknown or dead."""
    try:
        act()
    except Killed:
        return "dead"
    except CommitUnknownError:
        return "unknown"
    except (LancewoodError, OSError):
        return "failed"
    return "done"

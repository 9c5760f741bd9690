"""What the tests of this folder share: something is tried again and again, and each time another
call of its store goes wrong, until all of them have.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.breadth import daily

import lancewood as lw
from lancewood.engine.location.location import Location
from lancewood.engine.snapshot.snapshot import Snapshot
from lancewood.jobs.runner import LocalRunner
from lancewood.store.base import Store
from lancewood.store.disk import DiskStore
from lancewood.testing.faults import FaultyStore, Killed, Mode

EVERY = daily(3, of=1)
"""Every third call is hurt every day, every one in ``make campaigns``."""
MODES: list[Mode] = ["before", "after", "kill", "kill-after"]
ONE = LocalRunner(1)


def through(uri: str | Path, store: Store, version: int | None = None) -> lw.Table:
    """A handle on a table whose calls go through the store."""
    opened = lw.open(uri, version=version)._snapshot
    return lw.Table(Snapshot(Location(store), opened.manifest, opened.scheme))


def copied(kept: str | Path, uri: str | Path) -> DiskStore:
    """A directory that is again what it was when it was put aside."""
    shutil.rmtree(uri, ignore_errors=True)
    shutil.copytree(kept, uri)
    return DiskStore(uri)


def outcome_of(
    act: Callable[..., object],
    *args: Any,
    failures: tuple[type[Exception], ...] = (lw.StorageError,),
) -> str:
    """What a caller sees of an act: done, failed, unknown, or nothing, for it is dead."""
    try:
        act(*args)
    except Killed:
        return "dead"
    except lw.CommitUnknownError:
        return "unknown"
    except failures:
        return "failed"
    return "done"


class Deaf(FaultyStore):
    """Does not tell what became of a manifest of main, and lets nobody read it."""

    puts = True
    is_deaf = False

    def put_new(self, key: str, data: bytes) -> Any:
        full = f"{self._prefix}{key}"
        if "_versions/" not in full or "tree/" in full:
            return super().put_new(key, data)
        if self.puts:
            super().put_new(key, data)
        self.is_deaf = True
        raise lw.StorageError("no answer")

    def get(self, key: str) -> bytes:
        if self.is_deaf:
            raise lw.StorageError("no answer")
        return super().get(key)


class Attempt:
    """A store that is hurt at one call, and what became of what was tried through it."""

    def __init__(self, inner: Store, at: int, mode: Mode) -> None:
        self.inner = inner
        self.store = FaultyStore(inner, at, mode)
        self.at = at
        self.outcome = ""
        self._mode = mode

    def run(
        self,
        act: Callable[..., object],
        *args: Any,
        failures: tuple[type[Exception], ...] = (lw.StorageError,),
    ) -> str:
        self.outcome = outcome_of(act, *args, failures=failures)
        return self.outcome

    @property
    def where(self) -> tuple[int, str, tuple[str, str]]:
        return self.at, self.outcome, self.store.calls[-1]

    @property
    def is_whole(self) -> bool:
        """Whether it came to its end before the call that would have hurt."""
        return len(self.store.calls) < self.at

    @property
    def must_leave_nothing(self) -> bool:
        """Whether it failed where it could still take back what it had written."""
        verb, _ = self.store.calls[self.at - 1] if not self.is_whole else ("", "")
        return self.outcome == "failed" and self._mode == "before" and verb != "delete"

    @property
    def hurts_removal(self) -> bool:
        """Whether what goes wrong is a call that removes, or looks for what is to be removed."""
        verb, _ = self.store.calls[self.at - 1] if not self.is_whole else ("", "")
        return verb in ("delete", "prune", "list")

    def check(self, seen: object, before: object, after: object) -> None:
        """It is old or new, and as it was reported."""
        assert seen in (before, after), self.where
        assert self.outcome != "done" or seen == after, self.where
        assert self.outcome != "failed" or seen == before, self.where


def every_call(
    mode: Mode, make: Callable[[int], Store], *, more_than: int = 3, most: int = 250
) -> Iterator[Attempt]:
    """An attempt for every call (every day for every third one), each with the store that is made
    for its number.

    The last is not hurt. Attempts that were ``run`` must have ended as the mode says.
    """
    outcomes = set()
    for at in range(1, most, EVERY):
        attempt = Attempt(make(at), at, mode)
        yield attempt
        outcomes.add(attempt.outcome)
        if attempt.is_whole:
            break
    else:
        pytest.fail("it never came to its end")
    assert at > more_than
    assert outcomes == {""} or ("dead" in outcomes) == mode.startswith("kill")

"""Running a change until it is committed: prepare, commit, and if others were faster, again.

The commit itself rebases what can be rebased. What it cannot is prepared anew on the newest
version, a bounded number of times. Files of an attempt that is proven not to have landed are
removed; where there is doubt they stay.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from lancewood.engine.commit import CommitPolicy
from lancewood.engine.homes import NewFile
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import (
    CommitUnknownError,
    LancewoodError,
    RetryableConflictError,
)
from lancewood.model.operations import Operation, told_operation
from lancewood.model.transaction import Transaction

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Change(Generic[R]):
    """What one execution wants to commit, and what it has to tell."""

    operation: Operation | None
    """None: there is nothing to do, and no new version."""
    result: R
    files: tuple[NewFile, ...] = ()
    """What was written for it."""


@dataclass(frozen=True, slots=True)
class Persistence:
    """How often a change is executed, and how long it steps back in between."""

    executions: int = 10
    first_pause: float = 0.01
    longest_pause: float = 2.0
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic

    def pause(self, execution: int) -> None:
        """Step back for a random moment in a window that grows."""
        window = min(self.first_pause * 2**execution, self.longest_pause)
        self.sleep(random.uniform(window / 2, window))


@dataclass(frozen=True, slots=True)
class Terms:
    """What a caller may say about any change."""

    properties: Mapping[str, str] = field(default_factory=dict)
    policy: CommitPolicy = field(default_factory=CommitPolicy)
    persistence: Persistence = field(default_factory=Persistence)


def execute(
    snapshot: Snapshot, prepare: Callable[[Snapshot], Change[R]], terms: Terms | None = None
) -> tuple[Snapshot, R]:
    """The version after the change (the same one if there was nothing to do), and its result.

    ``prepare`` is called with the version to change, at first the caller's, after a conflict the
    newest. Raises RetryableConflictError, with attempts and time, when that has happened too
    often, or at once for a serializable change. Where work must not be repeated ``prepare`` raises
    by itself: see ``jobs.columns``.
    """
    terms = terms or Terms()
    limit = 1 if terms.policy.serializable else terms.persistence.executions
    started = terms.persistence.clock()
    for execution in range(limit):
        if execution:
            terms.persistence.pause(execution)
            snapshot = snapshot.newest()
        if not terms.policy.may_be_closed:
            snapshot.check_open()
        snapshot.check_new(terms.policy.applied)
        change = prepare(snapshot)
        if change.operation is None:
            return snapshot, change.result
        transaction = Transaction.new(
            snapshot.manifest.version, change.operation, properties=terms.properties
        )
        try:
            return snapshot.commit(transaction, terms.policy), change.result
        except CommitUnknownError:
            raise
        except RetryableConflictError as conflict:
            snapshot.discard(change.files)
            last = conflict
        except LancewoodError:
            snapshot.discard(change.files)
            raise
    if limit == 1:
        raise last
    seconds = terms.persistence.clock() - started
    raise RetryableConflictError(
        f"{told_operation(transaction.operation)} on {snapshot.place.uri} was executed {limit} "
        f"times in {seconds:.1f} s, and each time another writer was faster; run it again when "
        f"fewer are active. The last conflict: {last.message}",
        **{**last.facts, "attempts": limit, "seconds": seconds},
    ) from last

"""The commit point: a branch moves from one commit to the next, or not at all.

The tree of the new commit is made anew for every attempt: whoever lost the race sees what the
winner committed, and says what to do with it. After an unclear answer the branch is walked from its
tip back to where we began; a commit of ours that is found there has landed.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Protocol

from lancewood.catalog.tables import TableTree
from lancewood.errors import (
    CommitUnknownError,
    LancewoodError,
    RetryableConflictError,
)
from lancewood.git.hashes import Hash
from lancewood.git.history import walk
from lancewood.git.objects import Signature
from lancewood.repo.committing.messages import first_line
from lancewood.repo.grounds import Grounds
from lancewood.repo.ref_names import branch_ref


@dataclass(frozen=True, slots=True)
class Patience:
    """How often a swap is tried."""

    attempts: int = 256
    sleep: Callable[[float], None] = field(default=time.sleep)


class Proposal(Protocol):
    """What is to be committed."""

    def tree(self, tip: Hash | None) -> TableTree | None:
        """The tables of a commit that follows ``tip``; None if nothing is left to commit.

        Asked again, with the new tip, after somebody else was faster. Raises ConflictError where
        the two do not go together; nothing is visible then.
        """


def swap(
    grounds: Grounds,
    branch: str,
    proposal: Proposal,
    *,
    message: str,
    author: Signature,
    merged: Sequence[Hash] = (),
    committer: Signature | None = None,
    verb: str = "commit",
    patience: Patience | None = None,
) -> Hash | None:
    """The commit that the branch moved to; None if there was nothing to commit.

    ``merged`` are further parents, ``committer`` is the author if it is not given, ``verb`` stands
    in the log of the branch. Raises RetryableConflictError if others were faster too often,
    CommitUnknownError if nobody can tell whether the branch moved; after any other error it did
    not.
    """
    patience = patience or Patience()
    objects, refs, ref = grounds.git.objects, grounds.git.refs, branch_ref(branch)
    with ExitStack() as stack:
        for attempt in range(patience.attempts):
            tip = refs.read(ref)
            tables = proposal.tree(tip)
            if tables is None:
                return None
            why = f"{verb}{' (initial)' if tip is None else ''}: {first_line(message)}"
            parents = ((tip,) if tip is not None else ()) + tuple(merged)
            commit = objects.put_commit(tables.put(), parents, author, message, committer)
            try:
                if refs.move(ref, tip, commit, why=why, by=committer or author):
                    return commit
            except RetryableConflictError:
                raise
            except (LancewoodError, OSError) as unclear:
                landed = has_landed(grounds, branch, commit, since=tip)
                if landed:
                    return commit
                if landed is None:
                    raise _unknown(branch, commit, unclear) from unclear
                raise
            if not attempt:
                # From here on in order of arrival: many who jostle build the same things in vain.
                stack.enter_context(grounds.git.turn())
            patience.sleep(_pause(attempt))
    raise RetryableConflictError(
        f"branch {branch!r} of {grounds.home} moved {patience.attempts} times while a commit was "
        "about to be made; run it again when fewer writers are active",
        branch=branch,
        attempts=patience.attempts,
    )


def has_landed(grounds: Grounds, branch: str, commit: Hash, since: Hash | None) -> bool | None:
    """Whether a commit is on the branch, looked for from its tip back to ``since``; None where
    that cannot be read."""
    try:
        tip = grounds.git.refs.read(branch_ref(branch))
        if tip is None:
            return False
        for each in walk(grounds.git.objects, [tip], first_parent=True):
            if each.hash == commit:
                return True
            if each.hash == since:
                return False
    except (LancewoodError, OSError):
        return None
    return False


def _unknown(branch: str, commit: Hash, cause: Exception) -> CommitUnknownError:
    return CommitUnknownError(
        f"nobody can tell yet whether branch {branch!r} moved to commit {commit[:12]}: {cause}. "
        "Look at log(): if the commit is there it is done, else run it again",
        branch=branch,
        commit=commit,
    )


def _pause(attempt: int) -> float:
    return random.uniform(0, min(0.001 * 1.5**attempt, 0.1))

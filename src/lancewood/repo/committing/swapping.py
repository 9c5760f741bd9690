"""The commit point: a branch moves from one commit to the next, or not at all.

The tree of the new commit is built anew for every attempt, so the loser of a race sees what the
winner committed and decides again. Files beside the tables may depend on that too, and can
therefore be given as a function of the parent commit. After an unclear answer the branch is walked
from its tip back to where we began: if our commit is there, it has landed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from lancewood.catalog.files import checked_files, crossed_paths, merge_entries
from lancewood.catalog.names import branch_ref
from lancewood.catalog.tables import TableTree
from lancewood.errors import (
    CommitUnknownError,
    IncompatibleConflictError,
    LancewoodError,
    RetryableConflictError,
)
from lancewood.git.hashes import Hash
from lancewood.git.history import walk
from lancewood.git.objects import Signature, TreeEntry
from lancewood.repo.context import RepoContext
from lancewood.repo.identity import first_line
from lancewood.repo.looking.view import View
from lancewood.store.retry import SWAPS, Retry

FilesBeside: TypeAlias = Mapping[str, bytes] | Callable[[View | None], Mapping[str, bytes] | None]
"""Files by path; or a function of the parent commit (None for the first commit) that returns them,
or None if nothing is left to commit. It may raise ConflictError."""
_MOST_NAMED = 10


class CommitProposal(Protocol):
    """What is to be committed."""

    def tree(self, tip: Hash | None) -> TableTree | None:
        """The tables of a commit that follows ``tip``; None if nothing is left to commit.

        Called again with the new tip if another commit was faster. Raises ConflictError if the
        two are incompatible; nothing is visible then.
        """


def swap(
    context: RepoContext,
    branch: str,
    proposal: CommitProposal,
    *,
    message: str,
    author: Signature,
    merged: Sequence[Hash] = (),
    committer: Signature | None = None,
    verb: str = "commit",
    retry: Retry = SWAPS,
) -> Hash | None:
    """The commit that the branch moved to; None if there was nothing to commit.

    ``merged`` are further parents, ``committer`` defaults to the author, ``verb`` is for the log of
    the branch. Raises RetryableConflictError if others were faster too often, CommitUnknownError if
    it is unknown whether the branch moved; after any other error it did not.
    """
    objects, refs, ref = context.git.objects, context.git.refs, branch_ref(branch)
    with ExitStack() as stack:
        for attempt in retry:
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
                landed = has_landed(context, branch, commit, since=tip)
                if landed:
                    return commit
                if landed is None:
                    raise _unknown(branch, commit, unclear) from unclear
                raise
            if not attempt:
                # From here on in order of arrival: crowds would rebuild the same things in vain.
                stack.enter_context(context.git.turn())
    raise RetryableConflictError(
        f"branch {branch!r} of {context.root} moved {retry.attempts} times while a commit was "
        "about to be made; run it again when fewer writers are active",
        branch=branch,
        attempts=retry.attempts,
    )


def has_landed(context: RepoContext, branch: str, commit: Hash, since: Hash | None) -> bool | None:
    """Whether a commit is on the branch, between its tip and ``since``; None if unreadable."""
    try:
        tip = context.git.refs.read(branch_ref(branch))
        if tip is None:
            return False
        for each in walk(context.git.objects, [tip], first_parent=True):
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


class Beside:
    """The files of one commit that is about to be made."""

    def __init__(self, context: RepoContext, files: FilesBeside | None) -> None:
        self._context = context
        self._files = files if files is None or callable(files) else checked_files(files)
        self._seen: tuple[Hash | None, dict[str, bytes] | None] | None = None

    @property
    def is_any(self) -> bool:
        return self._files is not None

    def after(self, tip: Hash | None) -> dict[str, bytes] | None:
        """The files of a commit that follows ``tip``; None if nothing is left to commit."""
        if self._files is None:
            return {}
        if not callable(self._files):
            return dict(self._files)
        if self._seen is None or self._seen[0] != tip:
            found = self._files(None if tip is None else View(self._context, tip))
            self._seen = tip, None if found is None else checked_files(found)
        return self._seen[1]


@dataclass(frozen=True, slots=True)
class FileChange:
    """The change from the files of one commit to those of another; None stands for no files."""

    context: RepoContext
    before: Hash | None
    after: Hash | None
    refused: str
    """What to say is refused, if files are in the way."""
    crossing: tuple[Hash, ...] = ()
    """Further bases besides ``before``, after criss-cross merges."""

    def applied(self, now: Mapping[str, TreeEntry]) -> Mapping[str, TreeEntry]:
        """The entries of a tree with the change applied.

        Raises IncompatibleConflictError with the files that were changed differently here, and
        those that differ between the bases.
        """
        tree, objects = self.context.tree, self.context.git.objects
        before, after = tree(self.before).files, tree(self.after).files
        if self.crossing:
            bases = [before, *(tree(each).files for each in self.crossing)]
            self._check(
                crossed_paths(objects, bases, after, now),
                "The two were merged crosswise before, and which side took back what cannot be "
                "told of the files",
            )
        found, twice = merge_entries(objects, before, after, now)
        self._check(twice, "Files that are something else here:")
        return found

    def _check(self, files: list[str], why: str) -> None:
        if not files:
            return
        more = f" and {len(files) - _MOST_NAMED} more" if len(files) > _MOST_NAMED else ""
        raise IncompatibleConflictError(
            f"{self.refused}, and nothing has changed. {why} "
            f"{', '.join(map(repr, files[:_MOST_NAMED]))}{more}; make them the same on one side "
            "with snapshot(), and do it again",
            files=files,
        )

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

from lancewood.catalog.files import checked_files, merge_files
from lancewood.catalog.names import branch_ref
from lancewood.catalog.tables import TableTree
from lancewood.errors import (
    CommitUnknownError,
    IncompatibleConflictError,
    LancewoodError,
    RetryableConflictError,
)
from lancewood.git.history import walk
from lancewood.git.objects import Signature, TreeEntry
from lancewood.git.text_merge import Favor
from lancewood.git.values import Hash
from lancewood.repo.context import RepoContext
from lancewood.repo.identity import first_line
from lancewood.repo.inspect.view import View
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
    objects = context.git.objects

    def make(tip: Hash | None) -> Hash | None:
        tables = proposal.tree(tip)
        if tables is None:
            return None
        parents = ((tip,) if tip is not None else ()) + tuple(merged)
        return objects.put_commit(tables.put(), parents, author, message, committer)

    return swap_ref(
        context,
        branch_ref(branch),
        make,
        what=f"branch {branch!r}",
        verb=verb,
        title=first_line(message),
        by=committer or author,
        retry=retry,
        branch=branch,
    )


def swap_ref(
    context: RepoContext,
    ref: str,
    make: Callable[[Hash | None], Hash | None],
    /,
    *,
    what: str,
    verb: str,
    title: str,
    by: Signature,
    retry: Retry = SWAPS,
    **facts: str,
) -> Hash | None:
    """Move any ref to a commit that ``make`` makes after the ref's value; returns that commit, or
    None if ``make`` returns none.

    ``what`` is how errors call the ref, ``facts`` what they carry besides.
    """
    refs = context.git.refs
    with ExitStack() as stack:
        for attempt in retry:
            tip = refs.read(ref)
            commit = make(tip)
            if commit is None:
                return None
            why = f"{verb}{' (initial)' if tip is None else ''}: {title}"
            try:
                if refs.move(ref, tip, commit, why=why, by=by):
                    return commit
            except RetryableConflictError:
                raise
            except (LancewoodError, OSError) as unclear:
                landed = has_landed(context, ref, commit, since=tip)
                if landed:
                    return commit
                if landed is None:
                    raise CommitUnknownError(
                        f"nobody can tell yet whether {what} moved to commit {commit[:12]}: "
                        f"{unclear}. Look at log(): if the commit is there it is done, else run "
                        "it again",
                        **facts,
                        commit=commit,
                    ) from unclear
                raise
            if not attempt:
                # From here on in order of arrival: crowds would rebuild the same things in vain.
                stack.enter_context(context.git.turn())
    raise RetryableConflictError(
        f"{what} of {context.root} moved {retry.attempts} times while a commit was about to be "
        "made; run it again when fewer writers are active",
        **facts,
        attempts=retry.attempts,
    )


def has_landed(context: RepoContext, ref: str, commit: Hash, since: Hash | None) -> bool | None:
    """Whether a commit is between the tip of a ref and ``since``; None if unreadable."""
    try:
        tip = context.git.refs.read(ref)
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
    """The change from the files that some commits have in common, to those of another."""

    context: RepoContext
    bases: tuple[Hash, ...]
    """Commits before the change, newest first, several after criss-cross merges; none: no files."""
    after: Hash | None
    """The commit after the change; None stands for no files."""
    refused: str
    """What to say is refused, if files are in the way."""
    favor: Favor | None = None
    """Which side counts where both changed the same."""

    def applied(self, now: Mapping[str, TreeEntry]) -> Mapping[str, TreeEntry]:
        """The entries of a tree with the change applied.

        Raises IncompatibleConflictError with the files in conflict.
        """
        theirs = self.context.tree(self.after).files
        found, conflicts = merge_files(
            self.context.git.objects, self.bases, now, theirs, favor=self.favor
        )
        if not conflicts:
            return found
        some, files = conflicts[:_MOST_NAMED], [each.path for each in conflicts]
        more = f" and {len(files) - _MOST_NAMED} more" if len(files) > _MOST_NAMED else ""
        raise IncompatibleConflictError(
            f"{self.refused}, and nothing has changed. Files that do not go together: "
            f"{', '.join(map(str, some))}{more}; make them the same on one side with snapshot(), "
            "and do it again",
            files=files,
        )

"""Verbs of a repository that bring to a branch what commits did, or take it back: merge, reset,
revert and cherry_pick."""

from __future__ import annotations

from collections.abc import Collection

from lancewood.repo.bringing.merging import merge
from lancewood.repo.bringing.reverting import cherry_pick, revert
from lancewood.repo.committing.files_beside import FilesBeside
from lancewood.repo.committing.messages import checked_message
from lancewood.repo.grounds import Grounds
from lancewood.repo.identity import author_of
from lancewood.repo.moving.resetting import reset
from lancewood.repo.outcome import Committed


class BringingVerbs:
    """Verbs of a repository about what commits did."""

    _grounds: Grounds

    def merge(
        self,
        name: str,
        into: str | None = None,
        *,
        message: str | None = None,
        author: str | None = None,
        dry_run: bool = False,
        adopt: bool = False,
        squash: bool = False,
        files: FilesBeside | None = None,
        only_committed: Collection[str] = (),
    ) -> Committed:
        """Bring what a branch, or any revision, has into a branch, by default the current one; the
        result tells what was done to each table.

        A table that only the other side changed is taken over, one that only this side changed
        stays, and one that both changed is judged by the rules of any two writers. All become one
        commit with two parents. If tables refuse, IncompatibleConflictError names all that do, and
        nothing has changed. A branch other than main that has nothing of its own just moves. What
        is merged already is no commit. ``dry_run`` judges, and writes nothing. ``adopt`` is as for
        ``transaction``.

        ``squash`` makes a commit with one parent, and the target is as if the work had been done
        there: the branch can go afterwards, and should, for it could be merged once more.
        ``files`` are put into the commit beside its tables and other files: bytes by path, or a
        function of the commit that is followed (None: there is none), which gives them, gives None
        if nothing is left to do, or raises a ConflictError; it is asked again whenever somebody
        else was faster. A squashed merge with ``files`` brings those and no others.

        Rows that somebody wrote beside the repository since the target's last commit come into the
        commit, too; ``taken_in`` of the result names them. For tables in ``only_committed`` they do
        not: if there are any, and the merge publishes work on such a table, it is refused with
        RetryableConflictError.
        """
        grounds = self._grounds
        return merge(
            grounds,
            name,
            grounds.branch(into),
            message=None if message is None else checked_message(message),
            author=author_of(grounds.git, author),
            dry_run=dry_run,
            adopt=adopt,
            squash=squash,
            files=files,
            only_committed=only_committed,
        )

    def reset(
        self, revision: str = "HEAD", *, branch: str | None = None, soft: bool = False
    ) -> Committed:
        """Move a branch, by default the current one, to a commit, and its tables with it.

        Every table whose content is another gets a new version with that of the commit: numbers
        only grow, and older versions stay. What was written and not committed is given up.
        ``soft`` moves the branch only. If a table cannot follow, IncompatibleConflictError names
        all that cannot, and nothing has changed.
        """
        return reset(self._grounds, self._grounds.branch(branch), revision, soft=soft)

    def revert(
        self, revision: str, *, branch: str | None = None, author: str | None = None
    ) -> Committed:
        """Take back what a commit did, as a new commit on a branch, by default the current one.

        Each table that it changed becomes what it was before, where it still is what the commit
        made of it. If tables are something else by now, IncompatibleConflictError names all of
        them, and nothing has changed. Of a merge, what it brought to its first parent is taken
        back.
        """
        grounds = self._grounds
        by = author_of(grounds.git, author)
        return revert(grounds, grounds.branch(branch), revision, author=by)

    def cherry_pick(self, revision: str, *, branch: str | None = None) -> Committed:
        """Do once more what a commit did, as a new commit on a branch, by default the current one.

        Each table that it changed becomes what it is there, where it still is what it was before
        that commit. If tables are something else, IncompatibleConflictError names all of them, and
        nothing has changed. Author and message are the commit's.
        """
        grounds = self._grounds
        by = author_of(grounds.git)
        return cherry_pick(grounds, grounds.branch(branch), revision, by=by)

"""Verbs of a repository that bring to a branch what commits did, or take it back: merge, reset,
revert and cherry_pick.

Verbs of a repository that keep it in order: protect, exclusive, gc and fsck.

Verbs of a repository that look at it: its tables, its commits, and where both stand.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from datetime import timedelta

from lancewood.errors import InvalidInputError
from lancewood.git.hashes import Hash
from lancewood.git.history import merge_base, walk
from lancewood.git.objects import Commit
from lancewood.git.refs import Head, LogEntry
from lancewood.jobs.runner import Runner
from lancewood.jobs.upkeep.retention import IN_FLIGHT, Retention
from lancewood.repo.bringing.merging import merge
from lancewood.repo.bringing.reverting import cherry_pick, revert
from lancewood.repo.committing.adding import fence
from lancewood.repo.committing.swapping import FilesBeside
from lancewood.repo.fsck import FsckReport, check_repository
from lancewood.repo.gc.collecting import collect_garbage
from lancewood.repo.gc.needed import GcReport
from lancewood.repo.grounds import Grounds
from lancewood.repo.identity import author_of, checked_message
from lancewood.repo.looking.comparing import Shown, TableChange, compare, measured, told_apart
from lancewood.repo.looking.status import Status, find_status, standing_tables
from lancewood.repo.looking.view import View, changing, held_commits, paged
from lancewood.repo.moving import reset
from lancewood.repo.naming.tags import protect_commit, unprotect_commit
from lancewood.repo.outcome import Committed
from lancewood.repo.ref_names import full_ref
from lancewood.table.handle import runner_or_threads


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


class KeepingVerbs:
    """Verbs of a repository that keep it in order."""

    _grounds: Grounds

    def protect(self, revision: str = "HEAD") -> tuple[str, ...]:
        """Keep what a commit pins from every cleanup, pylance's too; the names of its tables.

        A ref, refs/lancewood/protected/<hash>, keeps the commit itself. Commits that are tagged
        are protected already.
        """
        return protect_commit(self._grounds, self._grounds.commit(revision))

    def unprotect(self, revision: str) -> None:
        """Take back what ``protect`` did for a commit; raises NotFoundError if that was nothing.

        What tags and branches lead to stays kept as they keep it.
        """
        unprotect_commit(self._grounds, self._grounds.commit(revision))

    @property
    def is_exclusive(self) -> bool:
        """Whether nobody but transactions of this repository may write to its tables."""
        return self._grounds.is_exclusive

    def exclusive(self, is_exclusive: bool, *, author: str | None = None) -> tuple[Committed, ...]:
        """Keep the tables for transactions of this repository, or open them to every writer; the
        commits that told the tables so, one for each branch.

        Whoever does not know the repository (pylance, Spark, ``Table`` verbs) still reads and
        tags its tables, and is refused everything else, pylance's cleanup included. Tables that
        are added later are told by the first transaction that writes to them, and a branch whose
        work was merged when it is brought up to date. Raises IncompatibleConflictError that names
        tables which have diverged, or which another repository keeps; the others were told.
        """
        return fence(self._grounds, is_exclusive, author_of(self._grounds.git, author))

    def gc(
        self,
        *,
        dry_run: bool = False,
        in_flight: timedelta = IN_FLIGHT,
        tables: bool = False,
        runner: Runner | None = None,
    ) -> GcReport:
        """Remove what no commit leads to; ``dry_run`` says what would go.

        What commits have waiting lands first. Then go: states that transactions staged and that
        no ref and no reflog leads to, branches of tables that this repository made, and neither
        has any more nor pins, what was staged of tables that were never made, and locks of
        processes that are proven dead; of all that nothing that is younger than ``in_flight``,
        for its writer may still be at work. Nobody may write while that is zero.

        Data files of tables stay: ``tables=True`` runs the cleanup of each table afterwards, which
        takes those that no version names any more, and no version. Objects of git stay: ``git gc``
        packs them, removes those that nothing reaches, and lets reflogs expire.

        Raises NotFoundError, FormatError or UnsupportedError, before anything is removed, if
        commits cannot be read. What stays because a table or another repository cannot be read is
        in the report.
        """
        retention = Retention.checked(None, None, (), in_flight)
        return collect_garbage(
            self._grounds, retention, runner_or_threads(runner), dry_run=dry_run, tables=tables
        )

    def fsck(self, *, deep: bool = False) -> FsckReport:
        """Whether the repository is whole; what is wrong comes back in the report.

        Refs lead to commits, commits and pins of the whole history can be read, what the tips pin
        opens in the tables and is what was pinned, the tables hold what commits pin, and tagged
        versions are kept by tags in the tables. ``deep`` opens every pin of the history and of the
        reflogs, each once, and reads every file.
        """
        return check_repository(self._grounds, deep=deep)


class LookingVerbs:
    """Verbs of a repository that change nothing."""

    _grounds: Grounds

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of the tables of HEAD."""
        head = self._grounds.git.refs.head()
        return tuple(self._grounds.tree(head.hash).names())

    def at(self, revision: str = "HEAD") -> View:
        """A commit, to be read: a branch, a tag, a hash, ``HEAD~2``; raises NotFoundError."""
        return View(self._grounds, self._grounds.commit(revision))

    @property
    def head(self) -> Head:
        """What HEAD names: a branch, or a commit when it is detached."""
        return self._grounds.git.refs.head()

    def status(self) -> Status:
        """Where the tables stand, compared with what HEAD pins: content, not version numbers."""
        return find_status(self._grounds)

    def log(
        self,
        *revisions: str,
        limit: int | None = None,
        skip: int = 0,
        first_parent: bool = False,
        table: str | None = None,
    ) -> Iterator[Commit]:
        """The commits that lead to revisions, or to HEAD, newest first; each is read when it is
        reached.

        ``first_parent`` leaves out what merges brought in. ``table`` keeps the commits that
        changed it: those whose pin is that of none of their parents. The end is a NotFoundError if
        no commit that is reached ever had the table.
        """
        tips = [self._grounds.commit(each) for each in revisions or ("HEAD",)]
        if table is not None:
            commits = walk(self._grounds.git.objects, tips, first_parent=first_parent)
            found = changing(self._grounds, commits, table, tips)
            return paged(found, limit=limit, skip=skip)
        return walk(
            self._grounds.git.objects, tips, limit=limit, skip=skip, first_parent=first_parent
        )

    def show(self, revision: str = "HEAD") -> Shown:
        """A commit, and what it changed against its first parent."""
        commit = self._grounds.git.objects.commit(self._grounds.commit(revision))
        parent = commit.parents[0] if commit.parents else None
        before, after = self._grounds.tree(parent), self._grounds.tree(commit.hash)
        return Shown(commit, measured(self._grounds, compare(before, after)))

    def diff(self, before: str = "HEAD~1", after: str | None = "HEAD") -> tuple[TableChange, ...]:
        """What differs between two revisions, for each table: how many rows were inserted, updated
        and deleted, and which columns.

        ``after`` None means the tables of the current branch as they stand now. Of the tables that
        differ manifests are read, and of rows that changed their numbers; data files only to see
        that a small table was written over by what it held. Where row ids cannot tell, ``counts``
        is None, and the rest is what the pins say; two tables of one name that share no history
        are ``is_unrelated``.
        """
        grounds = self._grounds
        one = grounds.commit(before)
        if after is None:
            return measured(grounds, compare(grounds.tree(one), standing_tables(grounds)))
        other = grounds.commit(after)
        found = measured(grounds, compare(grounds.tree(one), grounds.tree(other)))
        return tuple(told_apart(grounds, found, one, other))

    def merge_base(self, one: str, other: str) -> Hash | None:
        """The best commit that leads to both; None where there is none."""
        objects = self._grounds.git.objects
        return merge_base(objects, self._grounds.commit(one), self._grounds.commit(other))

    def held(self, commits: Iterable[Hash], revision: str = "HEAD") -> dict[Hash, Hash | None]:
        """Of some commits those that lead to a revision, each with the commit that reverted it, or
        None. One that is left out was reset away, or was never there."""
        return held_commits(self._grounds.git.objects, commits, self._grounds.commit(revision))

    def reflog(self, ref: str = "HEAD") -> Iterator[LogEntry]:
        """Every move of HEAD, of a branch or of a tag, newest first."""
        refs = self._grounds.git.refs
        if not isinstance(ref, str):
            raise InvalidInputError(f"{ref!r} is no ref: HEAD, a branch or a tag is")
        known = () if ref.startswith("refs/") else refs.names("refs/")
        return refs.log(full_ref(known, ref))

"""The verbs of a repository that change something: to bring changes, and to keep it in order."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

from lancewood.errors import InvalidInputError
from lancewood.git.values import Hash
from lancewood.jobs.upkeep.retention import IN_FLIGHT
from lancewood.repo.context import RepoContext

if TYPE_CHECKING:
    from lancewood.jobs.merge.decisions import Decision
    from lancewood.jobs.merge.resolve import Resolve
    from lancewood.jobs.merge.row_merge import Detect
    from lancewood.jobs.runner import Runner
    from lancewood.repo.commit.swapping import FilesBeside
    from lancewood.repo.fsck import FsckReport
    from lancewood.repo.gc.needed import GcReport
    from lancewood.repo.merge.next_state import RowMerges
    from lancewood.repo.outcome import Committed
    from lancewood.table.naming import Conflicts


class BringingVerbs:
    """Verbs that bring to a branch what commits did, or revert it."""

    _context: RepoContext

    def merge(
        self,
        name: str,
        *,
        branch: str | None = None,
        message: str | None = None,
        author: str | None = None,
        dry_run: bool = False,
        adopt: bool = False,
        squash: bool = False,
        files: FilesBeside | None = None,
        only_committed: Collection[str] = (),
        resolve: Any = None,
        detect: Detect = "cells",
        runner: Runner | None = None,
    ) -> Committed:
        """Merge a branch, or any revision, into a branch, by default the current one; the result
        says what was done to each table.

        A table that only the other side changed is taken over, one that only this side changed
        stays, and of one that both changed the rows are put together, cell by cell. All become one
        commit with two parents. Files are merged as git does it. What both sides changed
        differently is a conflict: MergeConflictError names all of the tables, and nothing has
        changed. ``resolve`` and ``detect`` decide as for ``Table.branches.merge``, the same for all
        tables, a rule for a column in those that have it, and a side also decides lines of files; a
        ``Resolve`` by table, as ``{"photos": Resolve(rows="ours")}``, decides in those tables only.
        So do decisions that ``resolve`` of the repository kept. Tables that refuse otherwise raise
        IncompatibleConflictError. A branch other than main that has nothing of its own just moves.
        If everything is merged already, there is no commit. ``dry_run`` judges, and writes nothing.
        ``adopt`` is as for ``transaction``.

        ``squash`` makes a commit with one parent, as if the work had been done on the target. The
        branch should be deleted afterwards, since it could be merged once more. It is merged by
        rows only where ``resolve`` decides. ``files`` are put into the commit beside its tables and
        other files: bytes by path, or a function of the parent commit (None for the first commit)
        that returns them, returns None if nothing is left to do, or raises a ConflictError; it is
        called again whenever another commit was faster. A squashed merge with ``files`` brings only
        those files.

        Rows that were written beside the repository since the target's last commit become part of
        the commit, and ``taken_in`` of the result names them. For tables in ``only_committed`` they
        do not: if there are any, and the merge publishes work on such a table, it is refused with
        RetryableConflictError.
        """
        from lancewood.repo.identity import checked_message
        from lancewood.repo.merge.merge import merge

        context = self._context
        return merge(
            context,
            name,
            context.branch(branch),
            message=None if message is None else checked_message(message),
            author=context.author(author),
            dry_run=dry_run,
            adopt=adopt,
            squash=squash,
            files=files,
            only_committed=only_committed,
            rows=_row_merges(resolve, detect, runner),
        )

    def conflicts(
        self,
        name: str,
        *,
        table: str | None = None,
        branch: str | None = None,
        resolve: Any = None,
        detect: Literal["cells", "rows"] = "cells",
        verb: Literal["merge", "cherry_pick", "revert"] = "merge",
    ) -> dict[str, Conflicts]:
        """The rows that a merge of a branch, or any revision, would leave to decide, by table:
        tables with rows that both sides may have changed, or only the one that is asked for.
        Nothing is changed.

        With another ``verb`` those that ``cherry_pick`` or ``revert`` of that commit would leave.
        Decisions that were kept for a merge decide here too, and ``resolve`` as for the verb.
        Raises NotFoundError for a table that neither side has.
        """
        from lancewood.engine.base import check_choice
        from lancewood.repo.merge.merge import find_row_merges
        from lancewood.repo.merge.revert_pick import find_redone
        from lancewood.table.naming import Conflicts

        context, into = self._context, self._context.branch(branch)
        if table is not None:
            context.check_table(table, context.tip(into), context.commit(name))
        rows = _row_merges(resolve, detect, None)
        check_choice("verb", verb, Literal["merge", "cherry_pick", "revert"])
        if verb == "merge":
            found = find_row_merges(context, name, into, rows, table)
        else:
            found = find_redone(context, into, name, verb, rows, table)
        return {table: Conflicts(each) for table, each in found.items()}

    def resolve(
        self,
        name: str,
        table: str,
        resolve: Any,
        *,
        where: str | None = None,
        branch: str | None = None,
        author: str | None = None,
    ) -> Hash:
        """Keep a decision about the conflicts of a table for a later ``merge`` of a branch, or any
        revision; returns its commit, on refs/lancewood/merges.

        ``resolve`` are rules or decided rows, as for ``merge``; a side with ``where`` is taken for
        the conflicts that match now, SQL over the columns of ``conflicts``, as ``ours.id = 3``.
        Raises InvalidInputError if none does, and for columns that neither side has, NotFoundError
        for such a table. Of two decisions on the same the later one counts. They are used by the
        next merge of that name, and go with it. A decision on a row that has changed since decides
        nothing.
        """
        from lancewood.jobs.merge.resolve import Resolve
        from lancewood.repo.decisions import add_decision
        from lancewood.repo.merge.next_state import checked_decision

        context = self._context
        into, by = context.branch(branch), context.author(author)
        given = Resolve.of(resolve)
        if where is not None:
            given = self._matching(name, table, given, where, into)
        decision = checked_decision(context, into, name, table, given)
        return add_decision(context, into, name, table, decision, author=by)

    def _matching(self, name: str, table: str, given: Resolve, where: str, into: str) -> Resolve:
        """A side for the conflicts of a table that match."""
        from lancewood.jobs.merge.decisions import Decision
        from lancewood.jobs.merge.resolve import Resolve

        if given.rows is None or Decision.of(given).rules != {"rows": given.rows}:
            raise InvalidInputError("where goes with a side alone: 'ours', 'theirs' or 'base'")
        found = self.conflicts(name, table=table, branch=into).get(table)
        names = [] if found is None else found.names(where)
        if not names:
            raise InvalidInputError(
                f"no conflict of table {table!r} matches {where!r}; conflicts() shows those that "
                "are left",
                table=table,
            )
        return Resolve(decisions={"_conflict": names, "take": [given.rows] * len(names)})

    def decisions(self, name: str, *, branch: str | None = None) -> dict[str, tuple[Decision, ...]]:
        """The decisions that are kept for a merge, by table, oldest first."""
        from lancewood.repo.decisions import list_decisions

        return list_decisions(self._context, self._context.branch(branch), name)

    def forget_decisions(self, name: str, *, branch: str | None = None) -> bool:
        """Remove the decisions that are kept for a merge; whether there were any."""
        from lancewood.repo.decisions import forget_decisions

        context = self._context
        return forget_decisions(context, context.branch(branch), name, by=context.author())

    def reset(
        self,
        revision: str = "HEAD",
        *,
        branch: str | None = None,
        soft: bool = False,
        dry_run: bool = False,
    ) -> Committed:
        """Move a branch, by default the current one, to a commit, and its tables with it.

        Every table with other content gets a new version with that of the commit: version numbers
        only grow, and older versions stay. Uncommitted writes are discarded. ``soft`` moves the
        branch only. If tables cannot follow, IncompatibleConflictError names all of them, and
        nothing has changed. ``dry_run`` plans, and writes nothing.
        """
        from lancewood.repo.moving import reset

        name = self._context.branch(branch)
        return reset(self._context, name, revision, soft=soft, dry_run=dry_run)

    def revert(
        self,
        revision: str,
        *,
        branch: str | None = None,
        author: str | None = None,
        dry_run: bool = False,
        resolve: Any = None,
        detect: Detect = "cells",
    ) -> Committed:
        """Revert a commit, as a new commit on a branch, by default the current one.

        Each table that the commit changed becomes what it was before, if it still is what the
        commit made of it; if it has changed since, the rows that the commit changed are changed
        back. Where later commits changed the same, MergeConflictError names the tables, and nothing
        has changed; ``resolve`` and ``detect`` decide as for ``merge``, where theirs is the state
        before the commit. Reverting a merge reverts what it brought to its first parent. Of a
        table whose rows the commit did not change, indices stay. ``dry_run`` plans, and writes
        nothing.
        """
        from lancewood.repo.merge.revert_pick import revert

        context = self._context
        by = context.author(author)
        rows = _row_merges(resolve, detect, None)
        name = context.branch(branch)
        return revert(context, name, revision, author=by, dry_run=dry_run, rows=rows)

    def cherry_pick(
        self,
        revision: str,
        *,
        branch: str | None = None,
        dry_run: bool = False,
        resolve: Any = None,
        detect: Detect = "cells",
    ) -> Committed:
        """Repeat what a commit did, as a new commit on a branch, by default the current one.

        Each table that the commit changed becomes what it is there, if it still is what it was
        before that commit; if it is something else, the rows that the commit changed are changed
        here. What was changed here as well is a conflict, as for ``merge``, and so are ``resolve``
        and ``detect``. Author and message are the commit's. ``dry_run`` plans, and writes nothing.
        """
        from lancewood.repo.merge.revert_pick import cherry_pick

        context = self._context
        by = context.author()
        rows = _row_merges(resolve, detect, None)
        name = context.branch(branch)
        return cherry_pick(context, name, revision, by=by, dry_run=dry_run, rows=rows)


def _row_merges(resolve: Any, detect: Detect, runner: Runner | None) -> RowMerges:
    from lancewood.engine.base import check_choice
    from lancewood.jobs.merge.resolve import Resolve
    from lancewood.jobs.merge.row_merge import Detect
    from lancewood.repo.merge.next_state import RowMerges
    from lancewood.table.handle import runner_or_threads

    check_choice("detect", detect, Detect)
    found = RowMerges(detect=detect, runner=runner_or_threads(runner))
    if isinstance(resolve, Mapping) and all(isinstance(r, Resolve) for r in resolve.values()):
        return replace(found, by_table=dict(resolve))
    return replace(found, resolve=Resolve.of(resolve))


class KeepingVerbs:
    """Verbs of a repository that keep it in order."""

    _context: RepoContext

    def protect(self, revision: str = "HEAD") -> tuple[str, ...]:
        """Keep what a commit pins from every cleanup, pylance's too; returns the names of its
        tables.

        The ref refs/lancewood/protected/<hash> keeps the commit itself. Tagged commits are
        protected already.
        """
        from lancewood.repo.refs import protect_commit

        return protect_commit(self._context, self._context.commit(revision))

    def unprotect(self, revision: str) -> None:
        """Undo ``protect``; raises NotFoundError if the commit is not protected.

        Tags and branches still keep what they lead to.
        """
        from lancewood.repo.refs import unprotect_commit

        unprotect_commit(self._context, self._context.commit(revision))

    @property
    def is_exclusive(self) -> bool:
        """Whether only transactions of this repository may write to its tables."""
        return self._context.is_exclusive

    def check_writable(self, table: str) -> None:
        """Raise InvalidInputError if the table may be written in transactions only."""
        from lancewood.repo.writable import check_not_exclusive

        check_not_exclusive(self._context, table)

    def exclusive(
        self, is_exclusive: bool, *, author: str | None = None, dry_run: bool = False
    ) -> tuple[Committed, ...]:
        """Reserve the tables for transactions of this repository, or open them to every writer;
        returns the commits that changed tables, one for each branch.

        Programs that do not know the repository (pylance, Spark, ``Table`` verbs) can still read
        and tag the tables; everything else is refused, pylance's cleanup included. Tables that are
        added later get the setting with the first transaction that writes to them, and a branch
        whose work was merged gets it when it is brought up to date. Raises
        IncompatibleConflictError, after all other tables were changed, with tables that have
        diverged or that another repository keeps. ``dry_run`` says which tables would be changed,
        and writes nothing.
        """
        from lancewood.repo.commit.adding import fence

        by = self._context.author(author)
        return fence(self._context, is_exclusive, by, dry_run=dry_run)

    def gc(
        self,
        *,
        dry_run: bool = False,
        in_flight: timedelta = IN_FLIGHT,
        tables: bool = False,
        runner: Runner | None = None,
    ) -> GcReport:
        """Remove what no commit leads to; ``dry_run`` says what would be removed.

        What commits have waiting lands first. Then these are removed: staged states that no ref and
        no reflog leads to, branches of tables that this repository made and neither has nor pins
        any more, what was staged of tables that were never made, and locks of processes that are
        proven dead. Anything younger than ``in_flight`` stays, since its writer may still be at
        work; if it is zero, nothing may be written meanwhile.

        Data files stay: ``tables=True`` runs the cleanup of each table afterwards, which removes
        files that no version names, and no versions. Objects of git stay: ``git gc`` packs them,
        removes unreachable ones, and expires reflogs.

        Raises NotFoundError, FormatError or UnsupportedError, before anything is removed, if
        commits cannot be read. The report names what stays because a table or another repository
        cannot be read.
        """
        from lancewood.jobs.upkeep.retention import Retention
        from lancewood.repo.gc.collecting import collect_garbage
        from lancewood.table.handle import runner_or_threads

        retention = Retention.checked(None, None, (), in_flight)
        return collect_garbage(
            self._context, retention, runner_or_threads(runner), dry_run=dry_run, tables=tables
        )

    def fsck(self, *, deep: bool = False) -> FsckReport:
        """Check whether the repository is whole; the report names what is wrong.

        Refs lead to commits, all commits and pins can be read, what the tips pin opens in the
        tables and is what was pinned, the tables hold what commits pin, and tagged versions are
        kept by tags in the tables. ``deep`` opens every pin of the history and of the reflogs, each
        once, and reads every file.
        """
        from lancewood.repo.fsck import check_repository

        return check_repository(self._context, deep=deep)

"""The verbs of a repository that look: at commits and tables, at what commits did, and at what
differs between two."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal, overload

from lancewood.catalog.names import full_ref
from lancewood.errors import InvalidInputError
from lancewood.git.values import Hash
from lancewood.repo.context import RepoContext

if TYPE_CHECKING:
    from lancewood.git.objects import Commit
    from lancewood.git.refs import Head, LogEntry
    from lancewood.repo.inspect.comparing import Shown, TableChange
    from lancewood.repo.inspect.status import Status
    from lancewood.repo.inspect.view import View
    from lancewood.table.blame import Blame
    from lancewood.table.diffs import Diff


class LookingVerbs:
    """Verbs of a repository that look at commits and compare them; they change nothing."""

    _context: RepoContext

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of the tables of HEAD."""
        head = self._context.git.refs.head()
        return tuple(self._context.tree(head.hash).names())

    def at(self, revision: str = "HEAD") -> View:
        """A commit, to be read: a branch, a tag, a hash, ``HEAD~2``; raises NotFoundError."""
        from lancewood.repo.inspect.view import View

        return View(self._context, self._context.commit(revision))

    def blame(
        self,
        table: str,
        where: str | None = None,
        columns: Sequence[str] | None = None,
        *,
        revision: str = "HEAD",
        cells: bool = False,
        show: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> Blame:
        """For each row of a table that matches ``where``, or each of its ``cells``, the version
        that wrote what is there, and the commit that brought that version: the oldest one on the
        way back from ``revision`` that holds it.

        The rest is as for ``Table.blame``. Raises NotFoundError for a table that is not there.
        """
        from lancewood.repo.inspect.blaming import blame_rows
        from lancewood.table.blame import Blame

        view = self.at(revision)
        rows = blame_rows(
            self._context,
            view.commit,
            view.pin(table),
            table,
            where=where,
            columns=columns,
            cells=cells,
            show=show,
            limit=limit,
        )
        return Blame(rows)

    @property
    def head(self) -> Head:
        """What HEAD names: a branch, or a commit when it is detached."""
        return self._context.git.refs.head()

    def status(self) -> Status:
        """The state of the tables compared with what HEAD pins: content, not version numbers."""
        from lancewood.repo.inspect.status import find_status

        return find_status(self._context)

    def log(
        self,
        *revisions: str,
        limit: int | None = None,
        skip: int = 0,
        first_parent: bool = False,
        table: str | None = None,
        where: str | None = None,
    ) -> Iterator[Commit]:
        """The commits that lead to revisions, or to HEAD, newest first; each is read when it is
        reached.

        ``first_parent`` leaves out what merges brought in. ``table`` keeps the commits that changed
        it: those whose pin differs from that of all their parents. Ends with NotFoundError if no
        such commit ever had the table. ``where`` keeps of these the commits that inserted, updated
        or deleted a row that matched before or after, SQL over the columns of the table; a state
        that does not have these columns has no such row. Raises InvalidInputError for a wrong
        ``where``.
        """
        from lancewood.git.history import walk
        from lancewood.repo.inspect.view import changing, paged

        if where is not None and table is None:
            raise InvalidInputError("where is about the rows of a table: name it (table=)")
        tips = [self._context.commit(each) for each in revisions or ("HEAD",)]
        if table is not None:
            commits = walk(self._context.git.objects, tips, first_parent=first_parent)
            found = changing(self._context, commits, table, tips)
            if where is not None:
                from lancewood.repo.inspect.blaming import touching

                found = touching(self._context, found, table, tips, where)
            return paged(found, limit=limit, skip=skip)
        return walk(
            self._context.git.objects, tips, limit=limit, skip=skip, first_parent=first_parent
        )

    def merge_base(self, one: str, other: str) -> Hash | None:
        """The best common ancestor; None if there is none."""
        from lancewood.git.history import merge_base

        objects = self._context.git.objects
        return merge_base(objects, self._context.commit(one), self._context.commit(other))

    def held(self, commits: Iterable[Hash], revision: str = "HEAD") -> dict[Hash, Hash | None]:
        """Which of ``commits`` lead to a revision, each with the commit that reverted it, or None.
        A commit that is missing was reset away, or was never there."""
        from lancewood.repo.inspect.view import held_commits

        return held_commits(self._context.git.objects, commits, self._context.commit(revision))

    def reflog(self, ref: str = "HEAD") -> Iterator[LogEntry]:
        """Every move of HEAD, of a branch or of a tag, newest first."""
        refs = self._context.git.refs
        if not isinstance(ref, str):
            raise InvalidInputError(f"{ref!r} is no ref: HEAD, a branch or a tag is")
        known = () if ref.startswith("refs/") else refs.names("refs/")
        return refs.log(full_ref(known, ref))

    def show(self, revision: str = "HEAD", *, table: str | None = None) -> Shown:
        """A commit, and what it changed against its first parent; ``table`` keeps one table.

        Raises NotFoundError for a table that neither of them has.
        """
        from lancewood.repo.inspect.comparing import Shown
        from lancewood.repo.inspect.sides import sides_of

        commit = self._context.git.objects.commit(self._context.commit(revision))
        sides = sides_of(self._context, commit, revision)
        return Shown(commit, sides.measured(sides.changes(table)))

    def history(
        self,
        table: str,
        *revisions: str,
        limit: int | None = None,
        skip: int = 0,
        first_parent: bool = False,
    ) -> Iterator[Shown]:
        """The commits that changed a table, as ``log(table=...)`` finds them, each with what became
        of its rows against the first parent; each is counted when it is reached."""
        found = self.log(*revisions, limit=limit, skip=skip, first_parent=first_parent, table=table)
        return (self.show(each.hash, table=table) for each in found)

    @overload
    def diff(
        self,
        before: str = "HEAD~1",
        after: str | None = "HEAD",
        *,
        table: str | None = None,
        rows: Literal[False] = False,
    ) -> tuple[TableChange, ...]: ...

    @overload
    def diff(
        self,
        before: str = "HEAD~1",
        after: str | None = "HEAD",
        *,
        table: str,
        rows: Literal[True],
        columns: Sequence[str] | None = None,
        where: str | None = None,
        change: str | Sequence[str] | None = None,
        on: str | Sequence[str] | None = None,
    ) -> Diff: ...

    @overload
    def diff(
        self,
        before: str = "HEAD~1",
        after: str | None = "HEAD",
        *,
        table: None = None,
        rows: Literal[True],
        columns: Sequence[str] | None = None,
        where: str | None = None,
        change: str | Sequence[str] | None = None,
        on: str | Sequence[str] | None = None,
    ) -> dict[str, Diff]: ...

    def diff(
        self,
        before: str = "HEAD~1",
        after: str | None = "HEAD",
        *,
        table: str | None = None,
        rows: bool = False,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        change: str | Sequence[str] | None = None,
        on: str | Sequence[str] | None = None,
    ) -> tuple[TableChange, ...] | Diff | dict[str, Diff]:
        """What differs between two revisions, for each table: how many rows were inserted, updated
        and deleted, and which columns. With ``after`` None, the tables of the current branch as
        they are now. ``"a...b"`` alone compares ``b`` with the merge base of both, ``"a..b"`` the
        two, and an empty side is HEAD.

        ``table`` keeps one table. ``rows`` gives the rows and cells that differ: the ``Diff`` of
        the table, or without ``table`` one for each that differs, by name. A table that only one
        side has is there with all of its rows, and so are two of one name that share no history,
        unless a key pairs them. ``columns``, ``where``, ``change`` and ``on`` are for rows, as in
        ``Table.diff``.

        Counting reads manifests and row ids, and at most some 16 MiB of values for a table, to tell
        which rows that were written hold other values; if there are more, ``is_exact`` is False.
        ``counts`` is None where nothing tells which rows are the same, or a state is gone. Two
        tables of one name without a common past are ``is_unrelated``.

        Raises NotFoundError for a revision that names nothing, a table that neither side has and
        ``a...b`` without a merge base; InvalidInputError where that has several; and what
        ``Table.diff`` raises.
        """
        from lancewood.jobs.diff import DiffRequest
        from lancewood.repo.inspect.measuring import row_diff
        from lancewood.repo.inspect.sides import find_sides

        asked = {"columns": columns, "where": where, "change": change, "on": on}
        given = [name for name, value in asked.items() if value is not None]
        if given and not rows:
            raise InvalidInputError(
                f"{given[0]} chooses rows, and tables are compared here: say rows=True as well"
            )
        sides = find_sides(self._context, before, after)
        changes = sides.changes(table)
        if not rows:
            return sides.measured(changes)

        def rows_of(name: str) -> Diff:
            pins = (sides.before.find(name), sides.after.find(name))
            return row_diff(self._context, *pins, DiffRequest(columns, where, change, on))

        if table is not None:
            return rows_of(table)
        return {each.name: rows_of(each.name) for each in changes if each.kind != "moved"}

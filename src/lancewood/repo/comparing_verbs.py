"""The verbs of a repository that compare: what commits did to tables, and what differs between
two."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, overload

from lancewood.errors import InvalidInputError
from lancewood.repo.looking.comparing import Shown, TableChange
from lancewood.repo.looking.measuring import row_diff
from lancewood.repo.looking.sides import find_sides, sides_of
from lancewood.repo.verbs import LookingVerbs
from lancewood.table.diffs import Diff


class ComparingVerbs(LookingVerbs):
    """Verbs of a repository that look at commits and compare them; they change nothing."""

    def show(self, revision: str = "HEAD", *, table: str | None = None) -> Shown:
        """A commit, and what it changed against its first parent; ``table`` keeps one table.

        Raises NotFoundError for a table that neither of them has.
        """
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
            return row_diff(
                self._context, *pins, columns=columns, where=where, change=change, on=on
            )

        if table is not None:
            return rows_of(table)
        return {each.name: rows_of(each.name) for each in changes if each.kind != "moved"}

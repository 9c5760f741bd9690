"""The two sides of a diff: two revisions or a range of them, and the tables that each has.

A range is read as ``git diff`` reads it: ``a..b`` is both revisions, ``a...b`` compares ``b`` with
the merge base of the two, and an empty side is HEAD. Unlike git, which takes one of several merge
bases, nothing is guessed: the caller says from which one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lancewood.catalog.names import checked_table
from lancewood.catalog.tables import TableTree
from lancewood.errors import InvalidInputError, NotFoundError
from lancewood.git.history import merge_bases
from lancewood.git.names import HEAD
from lancewood.git.objects import Commit
from lancewood.git.revisions import Range, parse_range
from lancewood.git.values import Hash
from lancewood.repo.context import RepoContext, near

if TYPE_CHECKING:
    from lancewood.repo.inspect.comparing import TableChange

_STANDING = "the tables as they stand"


@dataclass(frozen=True)
class Sides:
    """The tables that are compared, on both sides."""

    context: RepoContext
    names: tuple[str, str]
    """The names that the caller has for both sides."""
    commits: tuple[Hash, Hash] | None
    """Both commits; None if one side is none: before the first, and for tables as they stand."""
    before: TableTree
    after: TableTree

    def changes(self, table: str | None = None) -> tuple[TableChange, ...]:
        """What the pins say about the tables that differ, or about one of them.

        Raises NotFoundError for a table that neither side has.
        """
        from lancewood.repo.inspect.comparing import changed_tables

        if table is None:
            return changed_tables(self.before, self.after)
        self._check_there(table)
        return changed_tables(self.before, self.after, [table])

    def measured(self, changes: tuple[TableChange, ...]) -> tuple[TableChange, ...]:
        """Add to changes what is known about their rows, and mark unrelated tables of one name."""
        from lancewood.repo.inspect.measuring import mark_unrelated, measured

        found = measured(self.context, changes)
        if self.commits is None:
            return found
        return tuple(mark_unrelated(self.context, found, *self.commits))

    def _check_there(self, table: str) -> None:
        known = {*self.before.names(), *self.after.names()}
        if checked_table(table) not in known:
            one, other = self.names
            raise NotFoundError(
                f"there is no table {table!r} in {one}, nor in {other}{near(table, known)}",
                table=table,
            )


def find_sides(context: RepoContext, before: str, after: str | None) -> Sides:
    """The sides that two revisions name, or a range alone; None for the tables as they stand.

    Raises NotFoundError for a revision that names nothing and a range without a merge base, and
    InvalidInputError for several merge bases, and for a range beside another revision.
    """
    from lancewood.repo.inspect.status import standing_tables

    given = parse_range(before)
    if given is not None:
        if after != HEAD:
            raise InvalidInputError(
                f"{before!r} names both sides, and there is {after!r} besides: leave that out"
            )
        one, other = context.commit(given.one), context.commit(given.other)
        names = given.one, given.other
        if given.is_since_base:
            one, names = _base(context, given, one, other), (f"the base of {before}", given.other)
        return Sides(context, names, (one, other), context.tree(one), context.tree(other))
    one = context.commit(before)
    if after is None:
        tree = standing_tables(context)
        return Sides(context, (before, _STANDING), None, context.tree(one), tree)
    other = context.commit(after)
    return Sides(context, (before, after), (one, other), context.tree(one), context.tree(other))


def sides_of(context: RepoContext, commit: Commit, name: str) -> Sides:
    """A commit, by the name that the caller has for it, and its first parent."""
    after = context.tree(commit.hash)
    if not commit.parents:
        return Sides(context, ("what was before", name), None, context.tree(None), after)
    parent = commit.parents[0]
    return Sides(context, (f"{name}^", name), (parent, commit.hash), context.tree(parent), after)


def _base(context: RepoContext, given: Range, one: Hash, other: Hash) -> Hash:
    bases = merge_bases(context.git.objects, one, other)
    if not bases:
        raise NotFoundError(
            f"{given.one!r} and {given.other!r} have no commit in common, so there is no merge "
            f"base to compare {given.other!r} with; {given.one}..{given.other} compares the two"
        )
    if len(bases) > 1:
        raise InvalidInputError(
            f"{given.one!r} and {given.other!r} have {len(bases)} merge bases: "
            f"{', '.join(each[:12] for each in bases)}; compare {given.other!r} with one of them",
            bases=bases,
        )
    return bases[0]

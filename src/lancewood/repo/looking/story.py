"""The story of one table: the commits that changed what is pinned of it.

Reads the trees of commits, not their pins, and opens no table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from lancewood.catalog.names import checked_table
from lancewood.errors import InvalidInputError, NotFoundError
from lancewood.git.hashes import Hash
from lancewood.git.objects import Commit
from lancewood.repo.grounds import Grounds, near


def changing(
    grounds: Grounds, commits: Iterable[Commit], table: str, tips: Iterable[Hash]
) -> Iterator[Commit]:
    """Of some commits those whose pin of the table is that of none of their parents.

    A merge that took the table over as one side had it is no change, as for ``git log -- path``.
    Ends with NotFoundError where there is none, for then the table never was; the tables of the
    ``tips`` are those that may have been meant.
    """
    checked_table(table)
    known: dict[Hash, Hash | None] = {}

    def pinned(commit: Hash) -> Hash | None:
        if commit not in known:
            known[commit] = grounds.tree(commit).blob_hash(table)
        return known[commit]

    def found() -> Iterator[Commit]:
        is_any = False
        for each in commits:
            now = pinned(each.hash)
            before = [pinned(parent) for parent in each.parents] or [None]
            known.pop(each.hash)
            if now not in before:
                is_any = True
                yield each
        if not is_any:
            names = {name for each in tips for name in grounds.tree(each).names()}
            raise NotFoundError(
                f"there never was a table {table!r} in this history{near(table, names)}",
                table=table,
            )

    return found()


def paged(commits: Iterator[Commit], *, limit: int | None, skip: int) -> Iterator[Commit]:
    """Some of them; raises InvalidInputError for numbers below 0."""
    if (limit is not None and limit < 0) or skip < 0:
        raise InvalidInputError(f"limit {limit} and skip {skip} count commits, from 0 on")
    return islice(commits, skip, None if limit is None else skip + limit)

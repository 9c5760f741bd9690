"""Reading a commit, its tables exactly as pinned; and tracing tables and commits through history.

Tracing reads commits and trees, but no pins and no tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from lancewood.catalog.names import checked_table
from lancewood.catalog.pin import Pin
from lancewood.errors import InvalidInputError, NotFoundError
from lancewood.git.history import Commits, is_ancestor, walk
from lancewood.git.objects import Commit
from lancewood.git.values import Hash
from lancewood.repo.context import RepoContext, near
from lancewood.repo.identity import reverted_in

if TYPE_CHECKING:
    from lancewood.table.table import Table

_FEW = 64
"""Up to this many commits are each searched for individually."""


class View:
    """One commit. Made by ``Repository.at``. Reading never writes."""

    def __init__(self, context: RepoContext, commit: Hash) -> None:
        self._context = context
        self._commit = context.git.objects.commit(commit)
        self._tree = context.tree(commit)

    @property
    def hash(self) -> Hash:
        return self._commit.hash

    @property
    def commit(self) -> Commit:
        """Author, message and parents."""
        return self._commit

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of the tables."""
        return tuple(self._tree.names())

    def pin(self, name: str) -> Pin:
        """What the commit says about a table; raises NotFoundError."""
        return self._context.pin(self._tree, name)

    def table(self, name: str) -> Table:
        """A table exactly as it is pinned.

        Raises NotFoundError, and IntegrityError if the table is not what was pinned. If this is a
        detached state, writing to it is refused: use a transaction.
        """
        from lancewood.table.table import Table

        return Table(self._context.open(self.pin(name)))

    def landed(self, name: str) -> Table | None:
        """The version in the table's own history that has what is pinned; None if there is none,
        because the commit has not landed there, or only together with writes of others.

        Raises NotFoundError, and IntegrityError if the table is not what was pinned.
        """
        from lancewood.repo.landing import landed_version
        from lancewood.table.table import Table

        found = landed_version(self._context, self.pin(name))
        return None if found is None else Table(found)

    @property
    def files(self) -> tuple[str, ...]:
        """The paths of the commit's files, without the pins of its tables, sorted."""
        from lancewood.catalog.files import file_names

        return file_names(self._context.git.objects, self._commit.tree)

    def read(self, path: str) -> bytes:
        """The bytes of a file; raises NotFoundError."""
        from lancewood.catalog.files import read_file

        return read_file(self._context.git.objects, self._commit.tree, path)

    def __iter__(self) -> Iterator[str]:
        return iter(self.tables)

    def __contains__(self, name: object) -> bool:
        return name in self.tables

    def __repr__(self) -> str:
        return f"<View {self.hash[:12]} of {self._context.root}>"


def changing(
    context: RepoContext, commits: Iterable[Commit], table: str, tips: Iterable[Hash]
) -> Iterator[Commit]:
    """The commits whose pin of the table differs from that of all their parents.

    As for ``git log -- path``, a merge that took the table from one side is no change. Ends with
    NotFoundError if there is no such commit; ``tips`` are used to suggest names.
    """
    checked_table(table)
    known: dict[Hash, Hash | None] = {}

    def pinned(commit: Hash) -> Hash | None:
        if commit not in known:
            known[commit] = context.tree(commit).blob_hash(table)
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
            names = {name for each in tips for name in context.tree(each).names()}
            raise NotFoundError(
                f"there never was a table {table!r} in this history{near(table, names)}",
                table=table,
            )

    return found()


def paged(commits: Iterator[Commit], *, limit: int | None, skip: int) -> Iterator[Commit]:
    """A page of commits; raises InvalidInputError for negative numbers."""
    if (limit is not None and limit < 0) or skip < 0:
        raise InvalidInputError(f"limit {limit} and skip {skip} count commits, from 0 on")
    return islice(commits, skip, None if limit is None else skip + limit)


def held_commits(objects: Commits, commits: Iterable[Hash], tip: Hash) -> dict[Hash, Hash | None]:
    """Which of ``commits`` lead to ``tip``, each with the commit that reverted it; None if none
    did, or if the revert was reverted.

    Reads the history down to the oldest of them; for many commits, if some do not lead to ``tip``,
    all of it, once.
    """
    wanted = set(commits)
    if len(wanted) <= _FEW:
        wanted = {each for each in wanted if is_ancestor(objects, each, tip)}
    found: dict[Hash, Hash | None] = {}
    taken_back: dict[Hash, Hash] = {}
    for commit in walk(objects, [tip]) if wanted else ():
        # A commit comes after all that could have taken it back.
        if commit.hash not in taken_back:
            for each in reverted_in(commit.message):
                taken_back.setdefault(each, commit.hash)
        if commit.hash in wanted:
            found[commit.hash] = taken_back.get(commit.hash)
            if len(found) == len(wanted):
                break
    return found

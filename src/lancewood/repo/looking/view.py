"""A commit of the repository, to be read: its tables exactly as they are pinned.

Stories that a history tells: which commits changed a table, and what became of a commit.

Reads commits and their trees, not the pins, and opens no table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from lancewood.catalog.files import file_names, read_file
from lancewood.catalog.names import checked_table
from lancewood.catalog.pin import Pin
from lancewood.errors import InvalidInputError, NotFoundError
from lancewood.git.hashes import Hash
from lancewood.git.history import Commits, is_ancestor, walk
from lancewood.git.objects import Commit
from lancewood.repo.grounds import Grounds, near
from lancewood.repo.identity import reverted_in
from lancewood.table.table import Table


class View:
    """One commit. Made by ``Repository.at``. Reading never writes, whatever has landed."""

    def __init__(self, grounds: Grounds, commit: Hash) -> None:
        self._grounds = grounds
        self._commit = grounds.git.objects.commit(commit)
        self._tree = grounds.tree(commit)

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
        return self._grounds.pin(self._tree, name)

    def table(self, name: str) -> Table:
        """A table exactly as it is pinned.

        Raises NotFoundError, and IntegrityError if what is there is not what was pinned. A write
        to it is refused where it is a state beside the table's history: use a transaction.
        """
        return Table(self._grounds.open(self.pin(name)))

    @property
    def files(self) -> tuple[str, ...]:
        """The paths of the files that the commit holds besides the pins of its tables, sorted."""
        return file_names(self._grounds.git.objects, self._commit.tree)

    def read(self, path: str) -> bytes:
        """The bytes of a file; raises NotFoundError."""
        return read_file(self._grounds.git.objects, self._commit.tree, path)

    def __iter__(self) -> Iterator[str]:
        return iter(self.tables)

    def __contains__(self, name: object) -> bool:
        return name in self.tables

    def __repr__(self) -> str:
        return f"<View {self.hash[:12]} of {self._grounds.home}>"


_FEW = 64
"""So many commits are each looked for by themselves, near where the histories part."""


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


def held_commits(objects: Commits, commits: Iterable[Hash], tip: Hash) -> dict[Hash, Hash | None]:
    """Of some commits those that lead to ``tip``, each with the commit that took it back; None
    where none did, or where that was taken back in its turn.

    Reads the history down to the oldest of them and no further; with many of which some do not
    lead there, all of it, once.
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

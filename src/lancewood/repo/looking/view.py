"""A commit of the repository, to be read: its tables exactly as they are pinned."""

from __future__ import annotations

from collections.abc import Iterator

from lancewood.catalog.files import file_names, read_file
from lancewood.catalog.pin import Pin
from lancewood.git.hashes import Hash
from lancewood.git.objects import Commit
from lancewood.repo.grounds import Grounds
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

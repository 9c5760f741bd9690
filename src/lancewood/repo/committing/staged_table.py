"""A table inside a transaction: reads see what the transaction wrote, and nobody else does."""

from __future__ import annotations

from typing import Any, NoReturn, Self

from lancewood.errors import InvalidInputError
from lancewood.table.table import Table


class StagedTable(Table):
    """One state of a table in a transaction of a repository. Made by ``transaction.table``.

    Every verb that reads or changes rows, columns and settings works as on any table; each write
    gives the handle on the state after it. What concerns the table as a whole (its branches, tags,
    clones and upkeep) is not part of a transaction.
    """

    def latest(self) -> Self:
        """The newest state in this transaction."""
        return self._after(self._snapshot.newest())

    @property
    def branches(self) -> NoReturn:
        _refuse("branches")

    @property
    def tags(self) -> NoReturn:
        _refuse("tags")

    def checkout(self, **_: Any) -> NoReturn:
        _refuse("checkout")

    def versions(self, limit: int | None = None) -> NoReturn:
        _refuse("versions")

    def changes(self, *_: Any, **__: Any) -> NoReturn:
        _refuse("changes")

    def cleanup(self, **_: Any) -> NoReturn:
        _refuse("cleanup")

    def verify(self, **_: Any) -> NoReturn:
        _refuse("verify")

    def repair(self, **_: Any) -> NoReturn:
        _refuse("repair")

    def clone(self, *_: Any, **__: Any) -> NoReturn:
        _refuse("clone")

    def detach(self, **_: Any) -> NoReturn:
        _refuse("detach")

    def add_base(self, *_: Any, **__: Any) -> NoReturn:
        _refuse("add_base")

    def set_base(self, *_: Any, **__: Any) -> NoReturn:
        _refuse("set_base")

    def move_fragments(self, *_: Any, **__: Any) -> NoReturn:
        _refuse("move_fragments")

    def lance(self) -> NoReturn:
        _refuse("lance")

    def __repr__(self) -> str:
        return f"<StagedTable {self.uri} after version {self.version - 1}>"


def _refuse(verb: str) -> NoReturn:
    raise InvalidInputError(
        f"{verb} concerns the whole table, and cannot be part of a transaction: do it on "
        "lancewood.open(uri), before or after"
    )

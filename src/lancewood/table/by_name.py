"""Names of branches or tags, of a table or of a repository, as a mapping."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Generic, TypeVar

from lancewood.errors import InvalidInputError, NotFoundError

V = TypeVar("V")


class ByName(ABC, Generic[V]):
    """Names, and what each leads to: iterating gives the names, sorted; ``[name]`` reads one."""

    @abstractmethod
    def list(self) -> dict[str, V]:
        """Every name, sorted, and what it leads to."""

    @abstractmethod
    def get(self, name: str) -> V:
        """What a name leads to; raises NotFoundError."""

    def __getitem__(self, name: str) -> V:
        return self.get(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.list())

    def __contains__(self, name: object) -> bool:
        try:
            return isinstance(name, str) and self.get(name) is not None
        except (InvalidInputError, NotFoundError):
            return False

    def __len__(self) -> int:
        return len(self.list())

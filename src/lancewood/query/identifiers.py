"""Names of tables and columns as SQL compares them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from lancewood.expr.columns import alike, find


@dataclass(frozen=True)
class Identifiers:
    """How a dialect compares names; DuckDB takes upper and lower case for the same."""

    case_sensitive: bool = False

    def folded(self, name: str) -> str:
        """The form in which a name is compared with others."""
        return name if self.case_sensitive else name.lower()

    def near(self, name: str, names: Collection[str]) -> list[str]:
        """The names that `name` may mean: itself, or else those that compare as equal."""
        return alike(name, names, self.folded)

    def find(self, name: str, names: Collection[str]) -> str | None:
        """The one name that `name` means; None for no match, and for several."""
        near = self.near(name, names)
        return near[0] if len(near) == 1 else None

    def column(self, name: str, names: Collection[str], where: str) -> str:
        """The column that `name` means; raises InvalidInputError for none, and for several."""
        return find(name, names, "column", where, self.folded)

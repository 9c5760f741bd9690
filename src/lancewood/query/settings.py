"""The settings that decide how SQL text is parsed."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a session, as far as they matter here; the defaults are Spark's."""

    case_sensitive: bool = False
    zone: str = "UTC"
    timestamps_have_zones: bool = True
    """Whether ``TIMESTAMP '…'`` is an instant, not a local time."""
    double_quotes_name: bool = False
    """Whether ``"x"`` is a name, not a text."""
    names_are_patterns: bool = False
    """Whether a name in backticks may be a regular expression over columns."""

    def folded(self, name: str) -> str:
        """A name in the form in which names are compared."""
        return name if self.case_sensitive else name.lower()

    def near(self, name: str, names: Collection[str]) -> list[str]:
        """The names that a name may mean: itself, or else those that are compared as the same."""
        if name in names:
            return [name]
        return [each for each in names if self.folded(each) == self.folded(name)]

    def find(self, name: str, names: Collection[str]) -> str | None:
        """The one that a name means; None for none, and for several."""
        near = self.near(name, names)
        return near[0] if len(near) == 1 else None

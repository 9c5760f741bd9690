"""The settings of a session that decide how SQL text is parsed."""

from __future__ import annotations

from dataclasses import dataclass

from lancewood.query.sources import Identifiers


@dataclass(frozen=True)
class Settings(Identifiers):
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
        """The form in which a name is compared with others."""
        return name if self.case_sensitive else name.lower()

"""The settings of a session that decide how SQL text is parsed."""

from __future__ import annotations

from dataclasses import dataclass

from lancewood.query.identifiers import Identifiers


@dataclass(frozen=True)
class Settings(Identifiers):
    """The settings of a session, as far as they matter here; the defaults are Spark's."""

    zone: str = "UTC"
    timestamps_have_zones: bool = True
    """Whether ``TIMESTAMP '…'`` is an instant, not a local time."""
    double_quotes_name: bool = False
    """Whether ``"x"`` is a name, not a text."""
    names_are_patterns: bool = False
    """Whether a name in backticks may be a regular expression over columns."""

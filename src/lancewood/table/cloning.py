"""Verbs that make another table of a table, or a clone independent of its source."""

from __future__ import annotations

from lancewood.table.handle import Handle


class CloneVerbs(Handle):
    """Verbs that make another table of a table, or a clone independent of its source."""

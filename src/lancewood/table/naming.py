"""Verbs of a table's names: its branches and its tags."""

from __future__ import annotations

from lancewood.table.handle import Handle


class NamingVerbs(Handle):
    """Verbs of a table's names: its branches and its tags."""

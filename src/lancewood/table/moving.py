"""Verbs that bring fragments to another home."""

from __future__ import annotations

from lancewood.table.handle import Handle


class MoveVerbs(Handle):
    """Verbs that bring fragments to another home."""

"""Verbs of a table's base paths: the other homes of its files."""

from __future__ import annotations

from lancewood.table.handle import Handle


class BaseVerbs(Handle):
    """Verbs of a table's base paths: the other homes of its files."""

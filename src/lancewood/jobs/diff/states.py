"""The states that are compared, and what is known of their rows without reading values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from lancewood.data.wanted import WantedColumns
from lancewood.engine.rows import LiveRows, RowFacts
from lancewood.engine.snapshot import Snapshot
from lancewood.jobs.diff.columns import ColumnPair
from lancewood.model.fragment import Fragment
from lancewood.model.schema import Field, Schema

_PORTION = 32 << 20
_MOST_ROWS = 65_536


@dataclass(frozen=True, eq=False)
class State:
    """One of two states that are compared: its fragments that the other does not have in the same
    form, and their rows in the range of ids. A number that both states have is the same row."""

    snapshot: Snapshot
    parts: tuple[Part, ...]
    rows: LiveRows = field(default_factory=lambda: LiveRows.joined(()))

    def portion_rows(self, fields: Sequence[Field]) -> int:
        """How many rows of these columns are read at a time: some megabytes, as far as types or
        sizes of files tell."""
        return max(1, min(_MOST_ROWS, int(_PORTION / self.row_width(fields))))

    def row_width(self, fields: Sequence[Field]) -> float:
        """The bytes of a row of these columns, as far as types or sizes of files tell."""
        width, unknown = WantedColumns(Schema(tuple(fields))).width
        return max(self._row_size if unknown else width, 1.0)

    @cached_property
    def _row_size(self) -> float:
        size = sum(file.size or 0 for each in self.parts for file in each.fragment.files)
        return size / max(1, sum(each.fragment.physical_rows for each in self.parts))


@dataclass(frozen=True, eq=False)
class Part:
    """A fragment of one state."""

    facts: RowFacts
    shown: Fragment
    """The same, in the terms of both states."""

    @property
    def fragment(self) -> Fragment:
        return self.facts.fragment


@dataclass(frozen=True, eq=False)
class Doubt:
    """Rows of both states whose values may differ in some columns, stretch by stretch."""

    columns: tuple[ColumnPair, ...]
    before: LiveRows
    after: LiveRows


@dataclass(frozen=True, eq=False)
class Comparison:
    """What is known of the rows of two states without reading values: of all of them, or of those
    in a range of ids."""

    before: State
    after: State
    columns: tuple[ColumnPair, ...]
    """Those that both have."""
    common: Snapshot | None
    """The newest version that both come from, if it is known."""
    deleted: LiveRows
    """Stretches of ``before``."""
    inserted: LiveRows
    """Stretches of ``after``."""
    doubts: tuple[Doubt, ...]

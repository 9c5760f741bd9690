"""How wide a row of a scan is in memory, guessed from the manifest alone.

Types tell most of it. What texts, bytes and lists take is guessed from the sizes of the files that
hold them, less what the other columns take there. Opens no file.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from lancewood.data.wanted import WantedColumns
from lancewood.engine.scan import ScanPlan
from lancewood.errors import LancewoodError
from lancewood.model.fragment import DataFile, Fragment
from lancewood.model.schema import Schema

_SYSTEM_COLUMN = 8.0
_UNKNOWN = 32.0
"""Bytes of a value of which nothing is known."""
_LEAST = 4.0


class RowWidth:
    """The width of the rows of one scan."""

    def __init__(self, plan: ScanPlan) -> None:
        self._plan = plan
        self._whole = WantedColumns(plan.snapshot.schema)

    def of(self, sample: Iterable[Fragment]) -> float:
        """Bytes of a row, if others are like those of the sample; at least one."""
        fixed, varying = self._plan.wanted.width
        width = fixed + _SYSTEM_COLUMN * len(self._plan.projection.system)
        if varying:
            found = [each for each in map(self._varying, sample) if each is not None]
            guess = sum(found) / len(found) if found else _UNKNOWN * len(varying)
            width += max(guess, _LEAST * len(varying))
        return max(width, 1.0)

    def _varying(self, fragment: Fragment) -> float | None:
        """Bytes of the columns whose types do not tell, in a row of a fragment; None if nobody can
        say. What is wrong with a fragment is told when it is read."""
        rows = fragment.physical_rows
        try:
            sizes = [self._in_file(each, rows) for each in fragment.files] if rows else [None]
        except LancewoodError:
            return None
        known = [each for each in sizes if each is not None]
        return sum(known) if len(known) == len(sizes) else None

    def _in_file(self, file: DataFile, rows: int) -> float | None:
        columns = {self._whole.owners[each] for each in file.fields if each in self._whole.owners}
        varying = columns & self._all_varying
        asked = varying & self._asked
        if not asked:
            return 0.0
        if file.size is None:
            return None
        fields = self._plan.snapshot.schema.fields
        others = Schema(tuple(e for e in fields if e.name in columns and e.name not in varying))
        left = file.size / rows - WantedColumns(others).width[0]
        return max(left, 0.0) * len(asked) / len(varying)

    @cached_property
    def _all_varying(self) -> frozenset[str]:
        return frozenset(self._whole.width[1])

    @cached_property
    def _asked(self) -> frozenset[str]:
        return frozenset(self._plan.wanted.width[1])

"""The rows of failed checks, kept for people: one Lance table for each check, in a run's folder.

They are few and small by the time they get here: see ``gathering``.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from lancewood.table.door import create

_DIRECTORY = "failures"
_not_in_names = re.compile(r"[^\w .+=,-]")


@dataclass
class Keeping:
    """Where failing rows go."""

    folder: Path
    _taken: set[str] = field(default_factory=set)

    def clear(self) -> None:
        """Remove what an earlier attempt has kept."""
        shutil.rmtree(self.folder / _DIRECTORY, ignore_errors=True)

    def keep(self, check: str, rows: pa.Table) -> str:
        """Write the rows of a check; gives where they are."""
        at = self.folder / _DIRECTORY / f"{self._file_name(check)}.lance"
        at.parent.mkdir(parents=True, exist_ok=True)
        create(at, rows, message=f"rows that fail check {check!r}")
        return str(at)

    def _file_name(self, check: str) -> str:
        plain = name = _not_in_names.sub("_", check)
        number = 1
        while name.casefold() in self._taken:
            number += 1
            name = f"{plain} {number}"
        self._taken.add(name.casefold())
        return name

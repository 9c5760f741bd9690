"""Tables after theirs, and operations of ours that were built before: each made once."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from tests.interop.matrix.ours import OURS
from tests.interop.matrix.tables import BASE, copy, make_base
from tests.interop.matrix.theirs import THEIRS

import lancewood as lw
from lancewood.model.transaction import Operation


@dataclass
class World:
    """A table at the version that both sides have read, and what becomes of it."""

    root: Path
    stable: bool
    only: str | None = None
    """The only one of ours that is needed; None: all of them."""
    _after_theirs: dict[str, Path] = field(default_factory=dict)
    _operations: dict[str, Operation] = field(default_factory=dict)
    _numbers: count[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        make_base(self.base, stable=self.stable)
        table = lw.open(self.base)
        needed = OURS if self.only is None else (self.only,)
        self._operations = {name: OURS[name](table) for name in needed}

    @property
    def base(self) -> Path:
        return self.root / "base"

    def another(self, table: Path) -> Path:
        """A copy to be written to."""
        return copy(table, self.root / f"copy-{next(self._numbers)}")

    def after_theirs(self, name: str) -> Path:
        """The table after what others did to it; not to be written to."""
        if name not in self._after_theirs:
            table = self.another(self.base)
            THEIRS[name](table)
            self._after_theirs[name] = table
        return self._after_theirs[name]

    def operation(self, name: str) -> Operation:
        """Ours, built on the version that both sides had read."""
        return self._operations[name]

    def commit_late(self, name: str, table: Path) -> lw.Table:
        """Commit ours as it was built."""
        old = lw.open(table, version=BASE)
        return old.commit(old.transaction(self.operation(name)))

    def commit_in_turn(self, name: str, table: Path) -> lw.Table:
        """Commit what ours is on the newest version."""
        now = lw.open(table)
        return now.commit(now.transaction(OURS[name](now)))

"""Problems as they are found: whatever cannot be read is told, and the look goes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from lancewood.errors import LancewoodError
from lancewood.repo.fsck.problems import Kind, Problem

RESTORE = "Bring it back from a copy of the repository; git fsck says more"
T = TypeVar("T")


@dataclass
class Findings:
    """What was found so far."""

    problems: list[Problem] = field(default_factory=list)

    def tell(self, kind: Kind, where: str, why: str, way_out: str) -> None:
        self.problems.append(Problem(kind, where, why.rstrip("."), way_out))

    def attempt(self, kind: Kind, where: str, way_out: str, act: Callable[[], T]) -> T | None:
        """What it gives; None, and a problem more, where it cannot be had."""
        try:
            return act()
        except (LancewoodError, OSError) as error:
            self.tell(kind, where, str(error), way_out)
            return None

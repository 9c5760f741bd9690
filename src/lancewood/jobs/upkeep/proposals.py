"""What a repair may consist of: proposals for people, and the steps that carry them out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lancewood.jobs.upkeep.problems import Problem


@dataclass(frozen=True, slots=True)
class Proposal:
    """One thing that can be done."""

    action: str
    """In a few words, as ``set the manifest aside``."""
    where: str
    finding: str
    """What is wrong."""
    effect: str
    """What changes when it is done."""


@dataclass(frozen=True, slots=True)
class Step:
    """A proposal, and how it is done; doing it twice is doing it once."""

    proposal: Proposal
    do: Callable[[], object]


@dataclass(frozen=True, slots=True)
class RepairReport:
    """What was done, or with ``dry_run`` what would be."""

    dry_run: bool
    proposals: tuple[Proposal, ...]
    remaining: tuple[Problem, ...]
    """What is wrong and not mended by any of it."""

    @property
    def ok(self) -> bool:
        """Whether there is nothing to do, and nothing wrong."""
        return not self.proposals and not self.remaining

"""What ``Repository.gc`` did, or would do."""

from __future__ import annotations

from dataclasses import dataclass

from lancewood.jobs.upkeep.cleanup import CleanupReport
from lancewood.repo.outcome import Divergence


@dataclass(frozen=True, slots=True, order=True)
class Spot:
    """A table, and a branch of it."""

    table: str
    branch: str

    def __str__(self) -> str:
        return f"{self.table} on {self.branch}"


@dataclass(frozen=True, slots=True)
class Stays:
    """Something that stays although it looks unneeded, and why."""

    what: str
    why: str


@dataclass(frozen=True, slots=True)
class GcReport:
    """What went, or with ``dry_run`` what would."""

    dry_run: bool
    landed: tuple[Spot, ...] = ()
    """Tables that commits had waiting, and that hold them now."""
    diverged: tuple[Divergence, ...] = ()
    """Tables that cannot hold what a commit pins, beside what a writer from outside did."""
    states: int = 0
    """Detached manifests that no commit leads to."""
    transactions: int = 0
    """Their transaction files."""
    branches: tuple[Spot, ...] = ()
    """Branches of tables that this repository made, and has no use for any more."""
    tables: tuple[str, ...] = ()
    """Places of tables that were never made."""
    joined: tuple[str, ...] = ()
    """Tables elsewhere that were told where this repository is."""
    files: tuple[str, ...] = ()
    """Locks and other files of git that dead processes left."""
    bytes: int = 0
    """The size of the manifests, and of what was at the places of tables that were never made."""
    in_flight: int = 0
    """States, branches and places that are unneeded, and too young: somebody may be at work."""
    stays: tuple[Stays, ...] = ()
    cleaned: tuple[tuple[Spot, CleanupReport], ...] = ()
    """What the cleanup of the tables did, if it was asked for."""

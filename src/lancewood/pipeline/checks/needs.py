"""What checks ask of the ground that a run stands on: its tables, before the run and now.

A protocol: a run has more (see ``running``), a test less. Nothing here writes.
"""

from __future__ import annotations

from typing import Protocol

from lancewood.git.hashes import Hash
from lancewood.pipeline.definition.model import Pipeline
from lancewood.repo.repository import Repository
from lancewood.table.table import Table


class Ground(Protocol):
    """The repository's tables as they were when the run began, and as its branch has them."""

    @property
    def repository(self) -> Repository: ...

    @property
    def pipeline(self) -> Pipeline: ...

    @property
    def base(self) -> Hash | None:
        """The commit that the run began with; None before the first."""

    @property
    def branch(self) -> str:
        """The run's branch of the repository."""

    def has(self, table: str) -> bool:
        """Whether there was a table when the run began."""

    def open(self, table: str) -> Table:
        """As it was then."""

    def has_now(self, table: str) -> bool: ...

    def open_now(self, table: str) -> Table:
        """As the run's branch has it, committed or not."""

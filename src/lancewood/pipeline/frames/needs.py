"""What frames ask of the ground that a run stands on: the repository's tables, to be read.

A protocol: a run has more (see ``running``), a test less. Nothing here writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from lancewood.git.hashes import Hash
from lancewood.repo.repository import Repository
from lancewood.table.table import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Tables(Protocol):
    """The tables of a repository at the commit that a run began with."""

    @property
    def repository(self) -> Repository: ...

    @property
    def run(self) -> str:
        """The id of the run."""

    @property
    def base(self) -> Hash | None:
        """The commit; None in a repository, or on a branch, that has none."""

    def read(self, spark: SparkSession, table: str, *, revision: str | None = None) -> DataFrame:
        """A table exactly as it is pinned."""

    def open(self, table: str, *, revision: str | None = None) -> Table: ...

    def has(self, table: str, *, revision: str | None = None) -> bool: ...

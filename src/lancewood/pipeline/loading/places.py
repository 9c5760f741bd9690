"""What loading asks of the ground that a run stands on, and of its frames.

Protocols: a run has more (see ``running`` and ``frames``), a test less.

Where the table of a target is, while it is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from lancewood.pipeline.definition.model import Pipeline
from lancewood.pipeline.report.facts import SourceFacts
from lancewood.repo.repository import Repository
from lancewood.table.door import open as open_table
from lancewood.table.table import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


class Ground(Protocol):
    """The repository's tables, as a run reads them and writes them on a branch of its own."""

    @property
    def repository(self) -> Repository: ...

    @property
    def pipeline(self) -> Pipeline: ...

    @property
    def run(self) -> str:
        """The id of the run."""

    @property
    def branch(self) -> str:
        """The run's branch of the repository."""

    @property
    def storage_options(self) -> dict[str, str] | None:
        """What opens the tables, with the secrets in it."""

    def has(self, table: str, *, revision: str | None = None) -> bool:
        """Whether a commit has a table; by default the one that the run began with. Then also
        whether there is one at the place that its target names."""

    def has_now(self, table: str) -> bool:
        """Whether the run's branch has a table."""

    def open(self, table: str, *, revision: str | None = None) -> Table: ...

    def place(self, table: str) -> tuple[str, str | None]:
        """Uri and branch of a table that is there, to be written now."""

    def create(
        self, table: str, schema: pa.Schema, uri: str | None = None
    ) -> tuple[str, str | None]:
        """The same for a table that is not there: it has these columns and no rows."""


class Loadable(Protocol):
    """The frames of a run, by the names of sources and steps."""

    def frame(self, name: str) -> DataFrame:
        """The good rows."""

    def schema(self, name: str) -> StructType: ...

    def bad_rows(self) -> DataFrame | None:
        """The others, with the columns ``origin``, ``reason``, ``file``, ``line`` and ``record``;
        None where nothing can be bad."""

    def counted(self) -> Sequence[SourceFacts]:
        """What came in by sources; ``rows`` are all, good and bad."""


@dataclass(frozen=True)
class Place:
    """A table on the run's branch, to be written."""

    uri: str
    branch: str | None
    options: dict[str, str] | None = field(repr=False)
    """They may hold secrets."""

    def opened(self) -> Table:
        """As it stands now."""
        return open_table(self.uri, branch=self.branch, storage_options=self.options)


def is_there(ground: Ground, table: str) -> bool:
    """Whether there is a table to be written, perhaps by an earlier target."""
    return ground.has_now(table) or ground.has(table)


def find_place(ground: Ground, table: str) -> Place:
    """Where a table is written that is there."""
    return Place(*ground.place(table), ground.storage_options)


def new_place(ground: Ground, table: str, schema: pa.Schema, uri: str | None = None) -> Place:
    """The same for one that is not."""
    return Place(*ground.create(table, schema, uri), ground.storage_options)


def prepare_places(ground: Ground) -> None:
    """Make ready all tables that targets write and that are there, so that one which cannot be
    written, because it has diverged, is told before the first of them is."""
    tables = dict.fromkeys(each.table for each in ground.pipeline.targets)
    for each in tables:
        if is_there(ground, each):
            ground.place(each)

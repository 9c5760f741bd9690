"""Where the tables of targets are written, and what loading needs of a run and its frames."""

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


class LoadContext(Protocol):
    """The repository's tables, as a run reads them, and writes them on its own branch."""

    @property
    def repository(self) -> Repository: ...

    @property
    def pipeline(self) -> Pipeline: ...

    @property
    def run(self) -> str:
        """The id of the run."""

    @property
    def branch(self) -> str:
        """The run's branch in the repository."""

    @property
    def storage_options(self) -> dict[str, str] | None:
        """Options to open the tables with, secrets included."""

    def has(self, table: str, *, revision: str | None = None) -> bool:
        """Whether a commit has a table; by default the one that the run started from. Then a table
        at the place that its target names counts, too."""

    def has_now(self, table: str) -> bool:
        """Whether the run's branch has a table."""

    def open(self, table: str, *, revision: str | None = None) -> Table: ...

    def location(self, table: str) -> tuple[str, str | None]:
        """Uri and branch of an existing table, ready to be written."""

    def create(
        self, table: str, schema: pa.Schema, uri: str | None = None
    ) -> tuple[str, str | None]:
        """The same for a new table with these columns and no rows."""


class Loadable(Protocol):
    """The frames of a run, by the names of sources and steps."""

    def frame(self, name: str) -> DataFrame:
        """The good rows."""

    def schema(self, name: str) -> StructType: ...

    def bad_rows(self) -> DataFrame | None:
        """The bad rows, with the columns ``origin``, ``reason``, ``file``, ``line`` and ``record``;
        None if nothing can be bad."""

    def counted(self) -> Sequence[SourceFacts]:
        """What came in by sources; ``rows`` counts good and bad ones."""


@dataclass(frozen=True)
class TargetTable:
    """A table to write on the run's branch."""

    uri: str
    branch: str | None
    options: dict[str, str] | None = field(repr=False)
    """May hold secrets."""

    def opened(self) -> Table:
        """As it stands now."""
        return open_table(self.uri, branch=self.branch, storage_options=self.options)


def is_there(context: LoadContext, table: str) -> bool:
    """Whether the table exists, perhaps made by an earlier target."""
    return context.has_now(table) or context.has(table)


def find_location(context: LoadContext, table: str) -> TargetTable:
    """Where an existing table is written."""
    return TargetTable(*context.location(table), context.storage_options)


def new_location(
    context: LoadContext, table: str, schema: pa.Schema, uri: str | None = None
) -> TargetTable:
    """Where a new table is written; creates it."""
    return TargetTable(*context.create(table, schema, uri), context.storage_options)


def prepare_locations(context: LoadContext) -> None:
    """Prepare all existing tables that targets write, so that a table that cannot be written,
    because it has diverged, is reported before any is written."""
    tables = dict.fromkeys(each.table for each in context.pipeline.targets)
    for each in tables:
        if is_there(context, each):
            context.location(each)

"""The ground that a run stands on: the repository's tables as it began, and as it leaves them.

Reading goes to exactly what a commit pins; writing goes to the run's own branch of a table, which
is made when it is first asked for. Nobody else sees anything of it. Knows nothing of what is
written.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from lancewood.catalog.pin import Pin
from lancewood.errors import NotFoundError
from lancewood.git.hashes import Hash
from lancewood.pipeline.definition.model import Pipeline, Target
from lancewood.pipeline.frames.modules import code_digest
from lancewood.pipeline.frames.reading import plain_options
from lancewood.pipeline.running.folder import run_branch
from lancewood.repo.looking.view import View
from lancewood.repo.repository import Repository
from lancewood.spark.reading.read import read_snapshot
from lancewood.table.door import exists
from lancewood.table.door import open as open_table
from lancewood.table.table import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass
class RunContext:
    """One attempt of a run, on one base."""

    repository: Repository
    pipeline: Pipeline
    run: str
    base: Hash | None
    """The commit of the target branch that the run began with; None before its first."""
    _locations: dict[str, tuple[str, str]] = field(default_factory=dict, repr=False)

    @property
    def branch(self) -> str:
        """The branch that the run works on."""
        return run_branch(self.run)

    @cached_property
    def storage_options(self) -> dict[str, str] | None:
        """Those of the pipeline, with the secrets in them: for stores, not for people."""
        return storage_texts(self.pipeline)

    @cached_property
    def code(self) -> str:
        """Of the Python that the run uses, as it is when this is first asked for."""
        return code_digest(self.pipeline)

    # As it began

    def has(self, table: str, *, revision: str | None = None) -> bool:
        """Whether a revision, by default the base, has a table; of those that live elsewhere also
        whether there is one that it does not know yet."""
        view = self._view(revision)
        if view is not None and table in view.tables:
            return True
        return revision is None and self._elsewhere(table) is not None

    def open(self, table: str, *, revision: str | None = None) -> Table:
        """A table exactly as a revision, by default the base, pins it; raises NotFoundError."""
        view = self._view(revision)
        if view is not None and table in view.tables:
            return view.table(table)
        found = self._elsewhere(table) if revision is None else None
        if found is not None:
            return found
        where = f"commit {self.base[:12]}" if self.base else f"branch {self.pipeline.branch!r}"
        known = ", ".join(view.tables[:10]) if view is not None and view.tables else "none"
        raise NotFoundError(
            f"there is no table {table!r} in {revision or where}; there is {known}", table=table
        )

    def read(self, spark: SparkSession, table: str, *, revision: str | None = None) -> DataFrame:
        """The rows of a table exactly as a revision, by default the base, pins it."""
        return read_snapshot(spark, self.open(table, revision=revision)._snapshot)

    # As the run leaves it

    def has_now(self, table: str) -> bool:
        """Whether the run's branch has a table."""
        return table in self._locations or table in self._branch_view().tables

    def open_now(self, table: str) -> Table:
        """A table as the run's branch stands now, committed or not; raises NotFoundError."""
        location = self._locations.get(table)
        if location is None:
            return self._branch_view().table(table)
        uri, branch = location
        return open_table(uri, branch=branch, storage_options=self.storage_options)

    # To be written

    def location(self, table: str) -> tuple[str, str]:
        """The uri and the branch where this run writes a table; raises NotFoundError for one that
        is to be made with ``create``."""
        if table in self._locations:
            return self._locations[table]
        found = self._elsewhere(table)
        if table not in self._branch_view().tables and found is not None:
            return self.create(table, found.schema, self._uri_of(table))
        self.repository.prepare(table, branch=self.branch, onto=self.pipeline.branch)
        return self._placed(table)

    def create(self, table: str, schema: pa.Schema, uri: str | None = None) -> tuple[str, str]:
        """The same for a table that is not there yet: it has these columns and no rows, and only
        the run's branch knows it. What another target of the run has made is there."""
        if table in self._locations or table in self._branch_view().tables:
            return self.location(table)
        where = uri or self._uri_of(table)
        self.repository.prepare_new(
            table, schema, branch=self.branch, onto=self.pipeline.branch, uri=where
        )
        return self._placed(table)

    def _placed(self, table: str) -> tuple[str, str]:
        uri = self._uri(self._branch_view().pin(table))
        self._locations[table] = uri, self.branch
        return self._locations[table]

    def _uri(self, pin: Pin) -> str:
        return str(self.repository.path / pin.uri) if pin.is_own else pin.uri

    def _view(self, revision: str | None) -> View | None:
        if revision is not None:
            return self.repository.at(revision)
        return None if self.base is None else self.repository.at(self.base)

    def _branch_view(self) -> View:
        return self.repository.at(self.branch)

    def _target(self, table: str) -> Target | None:
        return next((each for each in self.pipeline.targets if each.table == table), None)

    def _uri_of(self, table: str) -> str | None:
        target = self._target(table)
        return None if target is None else target.uri

    def _elsewhere(self, table: str) -> Table | None:
        """The table at the uri of a target, as long as the repository does not know it."""
        uri = self._uri_of(table)
        if uri is None or not exists(uri, storage_options=self.storage_options):
            return None
        return open_table(uri, storage_options=self.storage_options)


def storage_texts(pipeline: Pipeline) -> dict[str, str] | None:
    """The storage options of a pipeline, with the secrets in them: for stores, not for people."""
    return plain_options(pipeline.storage_options) or None

"""The tables of the repository as a run sees them: as they were when it began, and on its branch.

Reading goes to exactly what a commit pins; writing goes to the run's own branch of a table, which
is made when it is first asked for. Nobody else sees anything of it.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from lancewood.errors import NotFoundError
from lancewood.pipeline.definition.load import code_digest
from lancewood.pipeline.definition.model import Pipeline
from lancewood.pipeline.definition.toml_file import plain_options
from lancewood.pipeline.report.facts import RunFacts
from lancewood.repo import HEADS, MAIN, Hash, Repository, View
from lancewood.spark.reading.read import read_snapshot
from lancewood.table import Access, Table, exists
from lancewood.table import open as open_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RUN_BRANCHES = "run/"


@dataclass(frozen=True)
class TargetTable:
    """A table to write on the run's branch."""

    uri: str
    branch: str
    options: dict[str, str] | None = field(repr=False)
    """May hold secrets."""

    def opened(self) -> Table:
        """The table as it stands now."""
        return open_table(self.uri, branch=self.branch, access=Access(storage_options=self.options))


@dataclass
class RunContext:
    """One attempt of a run, on one base."""

    repository: Repository
    pipeline: Pipeline
    run: str
    base: Hash | None
    """The commit of the target branch that the run began with; None before its first."""
    _targets: dict[str, TargetTable] = field(default_factory=dict, repr=False)

    @property
    def branch(self) -> str:
        """The branch that the run works on."""
        return run_branch(self.run)

    @cached_property
    def storage_options(self) -> dict[str, str] | None:
        """Storage options of the pipeline, with the secrets in them: for stores, not for people."""
        return storage_texts(self.pipeline)

    @cached_property
    def code(self) -> str:
        """The digest of the Python that the run uses, as it is when this is first asked for."""
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
        return table in self._targets or table in self._branch_view().tables

    def open_now(self, table: str) -> Table:
        """A table as the run's branch stands now, committed or not; raises NotFoundError."""
        known = self._targets.get(table)
        return self._branch_view().table(table) if known is None else known.opened()

    def is_there(self, table: str) -> bool:
        """Whether a table existed when the run began, or the run has made it."""
        return self.has_now(table) or self.has(table)

    def published_indices(self, table: str) -> set[str]:
        """The names of the indices that a table has on the branch that the run publishes into, also
        of those that no commit pins yet."""
        into = self.pipeline.branch
        try:
            found = open_table(
                self._targets[table].uri,
                branch=None if into == MAIN else into,
                access=Access(storage_options=self.storage_options),
            )
        except NotFoundError:
            return set()
        return {each.name for each in found.indices}

    # The branch of the run

    def create_branch(self) -> None:
        """A fresh branch at the base."""
        branches = self.repository.branches
        if self.base is not None:
            # An earlier branch of that name may have been deleted without those of its tables.
            branches.delete_from_tables(self.branch, self.base)
        branches.create(self.branch, at=self.base)
        self.reset_tables()

    def reset_tables(self) -> None:
        """Bring the tables back to what the run's branch has committed."""
        self.repository.reset(HEADS + self.branch, branch=self.branch)

    def remove_branch(self) -> None:
        """Remove the run's branch from the repository and its tables; harmless if it is gone."""
        with suppress(NotFoundError):
            self.repository.branches.delete(self.branch, force=True, tables=True)

    # To be written

    def prepare_targets(self) -> None:
        """Prepare all existing tables that targets write, so that a table that cannot be written,
        because it has diverged, is reported before any is written."""
        for each in dict.fromkeys(each.table for each in self.pipeline.targets):
            if self.is_there(each):
                self.location(each)

    def location(self, table: str) -> TargetTable:
        """Where this run writes an existing table; raises NotFoundError for one that is to be made
        with ``create``."""
        if table in self._targets:
            return self._targets[table]
        found = self._elsewhere(table)
        if table not in self._branch_view().tables and found is not None:
            return self.create(table, found.schema)
        own_ids = table in self.pipeline.on_conflict
        onto = self.pipeline.branch
        self.repository.prepare(table, branch=self.branch, onto=onto, own_ids=own_ids)
        return self._located(table)

    def create(self, table: str, schema: pa.Schema) -> TargetTable:
        """Make a table that is not there yet, and say where this run writes it: it has these
        columns and no rows, and only the run's branch knows it. One that another target of the run
        has made is taken as it is."""
        if table in self._targets or table in self._branch_view().tables:
            return self.location(table)
        uri = self._uri_of(table)
        self.repository.prepare_new(
            table,
            schema,
            branch=self.branch,
            onto=self.pipeline.branch,
            uri=uri,
            own_ids=table in self.pipeline.on_conflict,
        )
        return self._located(table)

    def _located(self, table: str) -> TargetTable:
        pin = self._branch_view().pin(table)
        uri = str(self.repository.path / pin.uri) if pin.is_own else pin.uri
        self._targets[table] = TargetTable(uri, self.branch, self.storage_options)
        return self._targets[table]

    def _view(self, revision: str | None) -> View | None:
        if revision is not None:
            return self.repository.at(revision)
        return None if self.base is None else self.repository.at(self.base)

    def _branch_view(self) -> View:
        return self.repository.at(self.branch)

    def _uri_of(self, table: str) -> str | None:
        """Where the file says that a table is; None for one of the repository's own."""
        return next((each.uri for each in self.pipeline.targets if each.table == table), None)

    def _elsewhere(self, table: str) -> Table | None:
        """The table at the uri of a target, as long as the repository does not know it."""
        uri = self._uri_of(table)
        if uri is None or not exists(uri, access=Access(storage_options=self.storage_options)):
            return None
        return open_table(uri, access=Access(storage_options=self.storage_options))


def run_branch(run: str) -> str:
    """The branch that a run works on."""
    return RUN_BRANCHES + run


def new_facts(pipeline: Pipeline, run: str, run_branch: str, started: datetime) -> RunFacts:
    """The facts of a run that begins."""
    return RunFacts(
        pipeline=pipeline.name,
        run=run,
        repository=pipeline.repository,
        branch=pipeline.branch,
        run_branch=run_branch,
        started=started.isoformat(timespec="seconds"),
        file=str(pipeline.file),
        parameters=dict(pipeline.parameters),
        full_refresh=[*pipeline.full_refresh],
    )


def storage_texts(pipeline: Pipeline) -> dict[str, str] | None:
    """The storage options of a pipeline, with the secrets in them: for stores, not for people."""
    return plain_options(pipeline.storage_options) or None

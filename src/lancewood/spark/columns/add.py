"""Adding columns that Spark expressions compute, on executors; the driver commits once.

Only the new columns are written, one file for each fragment, by the same operation as
``Table.add_columns``. Rows are not shuffled.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from lancewood.engine.limits import check_number
from lancewood.engine.projection import project
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import BatchAppliedError, UnsupportedError
from lancewood.external.base import ManifestStore
from lancewood.jobs.columns.add import WHAT, AddColumns
from lancewood.jobs.columns.files import ColumnFiles, ColumnWriter, WrittenColumns, read_fields
from lancewood.jobs.gathering import gather
from lancewood.jobs.packing import pack_fragments
from lancewood.jobs.runner import Progress
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FieldId
from lancewood.model.schema import Schema
from lancewood.rules.applied import is_applied
from lancewood.spark.columns.computing import (
    FragmentRows,
    WriteComputed,
    read_fragments,
    write_computed,
)
from lancewood.spark.columns.expressions import (
    Checked,
    Expressions,
    check_expressions,
    hidden_fields,
)
from lancewood.spark.runner import SparkRunner
from lancewood.spark.running.answers import Shared
from lancewood.spark.running.arriving import Answering
from lancewood.spark.writing.written import Written
from lancewood.table.door import open as open_table
from lancewood.table.handle import terms
from lancewood.table.table import Table

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


def add_columns(
    spark: SparkSession,
    uri: str | os.PathLike[str],
    columns: Mapping[str, str | Column],
    *,
    branch: str | None = None,
    batch_rows: int | None = None,
    message: str | None = None,
    properties: Mapping[str, str] | None = None,
    serializable: bool = False,
    app: str | None = None,
    batch: int | None = None,
    storage_options: Mapping[str, str] | None = None,
    base_storage_options: Mapping[str, Mapping[str, str]] | None = None,
    manifest_store: str | ManifestStore | None = None,
    progress: Progress | None = None,
) -> Written:
    """Add columns whose values are Spark expressions over the other columns of a row.

    ``columns`` maps names to Spark SQL or to a ``Column``; Python functions of Spark are fine. An
    expression that needs more than its own row (aggregates, windows, generators, subqueries) is
    refused. A dotted name adds a field to a struct. Columns that are not named in an expression
    are not read, and only the new ones are written.

    ``batch_rows`` is how many rows at most go to Spark at once. When another writer is faster,
    values for rows that are new or have changed are computed again; an expression with chance in
    it gives other values then. A batch of an app that the table has already is skipped. The other
    arguments are as for ``write``.

    Raises InvalidInputError, before anything is written, for a name that is taken and for an
    expression that Spark does not understand.
    """
    asked = Expressions(columns)
    if batch_rows is not None:
        batch_rows = check_number("batch_rows", batch_rows, least=1)
    wishes = terms(message, properties, serializable=serializable, app=app, batch=batch)
    table = open_table(
        uri,
        branch=branch,
        storage_options=storage_options,
        base_storage_options=base_storage_options,
        manifest_store=manifest_store,
    )
    snapshot = table._snapshot
    if is_applied(snapshot.manifest.config, wishes.policy.applied):
        return _skipped(table)
    source = ExpressionColumns(spark, asked)
    files = ExpressionFiles(snapshot, source, batch_rows, progress)
    try:
        after = AddColumns(snapshot, source, files).run(wishes)
    except BatchAppliedError:
        return _skipped(table.latest())
    manifest = after.manifest
    return Written(
        table.uri, manifest.branch, manifest.version, files=len(files), bytes=files.bytes
    )


def _skipped(table: Table) -> Written:
    return Written(table.uri, table.branch, table.version, skipped=True)


class ExpressionColumns:
    """Spark expressions as a source of columns. Lives on the driver."""

    can_repeat: ClassVar[bool] = True
    can_extend: ClassVar[bool] = True

    def __init__(
        self,
        spark: SparkSession,
        asked: Expressions,
        types: Mapping[str, pa.DataType] | None = None,
    ) -> None:
        """``types`` are those of columns that the expressions alone do not tell."""
        self.spark = spark
        self.asked = asked
        self._types = types or {}
        self._checked: tuple[Schema, Checked] | None = None

    def checked(self, snapshot: Snapshot) -> Checked:
        """What Spark says of the expressions on the schema of a version."""
        if self._checked is None or self._checked[0] != snapshot.schema:
            found = check_expressions(self.spark, self.asked, snapshot.arrow_schema, self._types)
            self._checked = snapshot.schema, found
        return self._checked[1]

    def columns(self, snapshot: Snapshot) -> pa.Schema:
        return self.checked(snapshot).schema

    def inputs(self, snapshot: Snapshot) -> frozenset[FieldId]:
        read = list(self.checked(snapshot).columns_read)
        return read_fields(project(snapshot.schema, read).stored)

    def of(self, snapshot: Snapshot, fragments: Sequence[Fragment]) -> Any:
        raise UnsupportedError("Spark expressions are computed by executors only")


class ExpressionFiles(ColumnFiles):
    """Column files whose values Spark computes."""

    def __init__(
        self,
        snapshot: Snapshot,
        source: ExpressionColumns,
        batch_rows: int | None,
        progress: Progress | None,
    ) -> None:
        super().__init__(snapshot, SparkRunner(source.spark, progress), WHAT)
        self._source = source
        self._batch_rows = batch_rows
        self._progress = progress

    @property
    def bytes(self) -> int:
        """What was written."""
        return sum(each.file.size or 0 for each in self._kept.values())

    def _in_tasks(
        self, writer: ColumnWriter, fragments: Sequence[Fragment]
    ) -> Sequence[WrittenColumns]:
        for each in fragments:
            if each.num_rows == 0:
                writer.write(each, ())  # says why there can be no file for it
        checked = self._source.checked(writer.snapshot)
        bare = writer.snapshot.bare()
        rows = FragmentRows(bare, checked.columns_read, checked.reading, self._batch_rows)
        runner = ExpressionRunner(self._source, rows, self._progress)
        tasks: list[Any] = list(pack_fragments(fragments, runner.slots))
        work = WriteComputed(
            bare, writer.written, writer.new, checked.writing, checked.names, writer.mark
        )
        return gather(runner, work, tasks, what=WHAT, snapshot=writer.snapshot)


class ExpressionRunner(SparkRunner):
    """Executors that read the fragments of a task, compute, and only then do the work."""

    def __init__(
        self, source: ExpressionColumns, rows: FragmentRows, progress: Progress | None
    ) -> None:
        super().__init__(source.spark, progress)
        self._asked = source.asked
        self._rows = rows

    def _planned(self, tasks: DataFrame, shared: Shared) -> tuple[DataFrame, Answering]:
        from pyspark.sql.types import StructType

        schema = StructType([*hidden_fields(), *self._rows.reading.spark])
        read = tasks.mapInArrow(partial(read_fragments, self._rows), schema)
        return self._asked.selected(read), partial(write_computed, shared)

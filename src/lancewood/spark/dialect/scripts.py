"""``lancewood.spark.sql``: queries and statements, computed by Spark and written by executors.

A statement is run as in one process (``query.statements``); here Spark answers the queries that say
what changes, and the rows stay on executors.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as pt

from lancewood.engine.snapshot import Access, Address, Snapshot, same_branch
from lancewood.engine.write import plan_on, plan_write
from lancewood.errors import InvalidInputError
from lancewood.jobs.columns.add import AddColumns
from lancewood.jobs.counts import RowCounts
from lancewood.jobs.job import CommitOptions
from lancewood.query.sources import Source, Sources
from lancewood.query.statements.engine import (
    Ask,
    ChangeQuery,
    Engine,
    NewTable,
    matched_twice,
    not_replaced,
)
from lancewood.query.statements.model import (
    DELETED,
    INSERTED,
    REFUSED,
    UPDATED,
    Passed,
    RowChange,
)
from lancewood.query.statements.running import ScriptRun
from lancewood.query.statements.workplace import Workplace
from lancewood.repo.repository import Repository
from lancewood.spark.columns.add import ExpressionColumns, ExpressionFiles
from lancewood.spark.columns.expressions import ColumnExpressions
from lancewood.spark.dialect.change_queries import change_query
from lancewood.spark.dialect.plan import QueryPlan, plan_query
from lancewood.spark.dialect.querying import Args, OfSession, answer, refused, session_settings
from lancewood.spark.dialect.script import parse_script
from lancewood.spark.dialect.settings import Settings
from lancewood.spark.dialect.text import check_not_ours, is_no_query, shown
from lancewood.spark.dialect.types import arrow_type
from lancewood.spark.merge_into.addressed import ChangeByFrame, FrameChanges
from lancewood.spark.merge_into.key_join import KnownChanges
from lancewood.spark.runner import SparkRunner
from lancewood.spark.tasks import check_running, frame_of
from lancewood.spark.types import Writing, spark_schema
from lancewood.spark.write_frame import run_job, write
from lancewood.spark.writing.job import WriteJob
from lancewood.table.by_uri import open as open_table
from lancewood.table.table import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def sql(
    spark: SparkSession,
    query: str,
    *,
    tables: Mapping[str, Source] | None = None,
    repository: Repository | str | os.PathLike[str] | None = None,
    revision: str | None = None,
    args: Args = None,
    access: Access | None = None,
) -> DataFrame:
    """The answer to a query, whose tables may be named with revisions, as a DataFrame. Statements
    that change tables are run, too.

    ``tables`` gives names to uris and handles; ``repository`` adds the tables of a commit, HEAD's
    or that of ``revision``; names of the session come last. Without a repository, ``revision``
    applies to the tables that are given by uri. A name in the query may carry its own revision:
    ``photos@exp``, ``photos@v1.0``, ``photos@:12``, ``photos VERSION AS OF 12``, ``photos TIMESTAMP
    AS OF '2026-11-15'``. Names with other characters go in backticks. ``FROM diff('photos', 'v1.0',
    'exp')`` has the rows that differ between two revisions, as ``Table.diff`` gives them. ``args``
    are values for ``:name`` (a mapping) or ``?`` (a list).

    Every version is resolved now, once for each name and revision: later commits do not change the
    frame. Spark decides which columns and rows are read, as for ``lancewood.spark.read``. Raises
    NotFoundError, and InvalidInputError for text that Spark refuses.

    INSERT, UPDATE, DELETE, MERGE INTO, CREATE TABLE and the like are done before this returns:
    Spark computes, executors write, and the driver makes one commit for each, on ``photos@exp`` as
    well. In a repository, what stands between BEGIN and COMMIT 'message' is one commit over many
    tables. Several statements are separated by semicolons; the answer is that of the last one if it
    is a query, else a row for each statement, with the columns statement, table, inserted, updated,
    deleted, version, commit. A statement that is none of these goes to Spark as it is.
    """
    check_running(spark)
    engine = OnSpark(spark, args)
    script = parse_script(query, engine.identifiers)
    if isinstance(args, Sequence) and not all(isinstance(each, Passed) for each in script):
        raise InvalidInputError("statements take values for :name, not a list for ?")
    sources = Sources(tables, repository, revision, access, engine.identifiers)
    found = ScriptRun(script, Workplace(sources), engine).run()
    return engine.report(found) if isinstance(found, pa.Table) else found


class OnSpark(Engine):
    """Statements in Spark's SQL: Spark answers, and its executors write."""

    def __init__(self, spark: SparkSession, args: Args) -> None:
        self._spark = spark
        self._args = args
        self.identifiers: Settings = session_settings(spark)
        self.runner = SparkRunner(spark)

    def change_query(
        self, statement: RowChange, table: pa.Schema, given: Sequence[str]
    ) -> ChangeQuery:
        return change_query(statement, table, given, self.identifiers)

    def arrow_type(self, sql: str) -> pa.DataType:
        return arrow_type(sql, self.identifiers)

    def moment(self, sql: str) -> datetime:
        return OfSession(self._spark).moment(sql)

    def planned(self, sql: str, sources: Sources) -> QueryPlan:
        return plan_query(sql, sources, self.identifiers, OfSession(self._spark))

    def answer(self, planned: QueryPlan) -> DataFrame:
        return answer(self._spark, planned, self._args)

    def passed(self, text: str, sources: Sources) -> DataFrame:
        check_not_ours(text, self.identifiers, lambda name: sources.known_as(name) is not None)
        try:
            return self.answer(self.planned(text, sources))
        except InvalidInputError as error:
            if not is_no_query(error):
                raise
        with refused(f"Spark does not take {shown(text)}"):
            return self._spark.sql(text, self._args)  # type: ignore[arg-type]

    def names(self, rows: DataFrame) -> Sequence[str]:
        return list(rows.columns)

    def report(self, rows: pa.Table) -> DataFrame:
        """What statements did, as a frame."""
        kinds = {pa.string(): "string", pa.int64(): "bigint"}
        columns = ", ".join(f"`{each.name}` {kinds[each.type]}" for each in rows.schema)
        return frame_of(self._spark, rows, columns)

    def insert(
        self, table: Table, rows: DataFrame, names: Sequence[str], *, overwrite: bool, **how: Any
    ) -> Table:
        frame = _stored(rows.toDF(*names), table.schema)
        done = write(frame, table, "overwrite" if overwrite else "append", **how)
        if how.get("dry_run"):
            return table._after(table._snapshot, RowCounts(inserted=frame.count()))
        return table._after(same_branch(table._snapshot, done.version), done.counts)

    def change(self, table: Table, ask: Ask, *, dry_run: bool, message: str | None) -> Table:
        def find(snapshot: Snapshot) -> FrameChanges:
            query, rows = ask(snapshot)
            named = rows.toDF(*rows.columns[:2], *query.values)
            return FrameChanges(
                _stored(named, snapshot.arrow_schema),
                query.values,
                query.updated,
                query.inserted,
                query.on,
                KnownChanges(INSERTED, UPDATED, DELETED, query.deletes_repeatedly),
                REFUSED,
                partial(matched_twice, "MERGE"),
                not_replaced,
                query.serializable,
            )

        return table._run(ChangeByFrame(find), CommitOptions(message), dry_run=dry_run)

    def columns(self, rows: DataFrame) -> pa.Schema:
        return Writing(rows.schema).table

    def create(
        self,
        uri: str | os.PathLike[str],
        access: Access | None,
        new: NewTable,
        message: str | None,
    ) -> Table:
        rows: DataFrame = new.rows
        if rows is None:
            rows = self._spark.createDataFrame([], spark_schema(new.schema))
        if new.there is None:
            plan = plan_write(Address(uri, access), new.request)
        else:
            new.there._snapshot.check_writable()
            plan = plan_on(new.there._snapshot, new.request)
        commit_options = CommitOptions(message, serializable=new.is_own)
        done = run_job(rows, WriteJob.of(plan, rows.schema, commit_options))
        made = open_table(uri, version=done.version, access=access)
        return made._after(made._snapshot, done.counts)

    def add_columns(
        self, table: Table, values: Mapping[str, str], *, dry_run: bool, message: str | None
    ) -> Table:
        before = table._snapshot
        source = ExpressionColumns(self._spark, ColumnExpressions(values))
        job = AddColumns(before, source, ExpressionFiles(before, source, None, None))
        return table._run(job, CommitOptions(message), dry_run=dry_run)


def _stored(frame: DataFrame, table: pa.Schema) -> DataFrame:
    """The frame with floats instead of decimals where the table has those: an exact number is
    written that way, and is no misfit."""
    from pyspark.sql.types import DecimalType

    known = {each.name: each for each in table if pt.is_floating(each.type)}
    changed = []
    for each in frame.schema.fields:
        column, field = frame[f"`{each.name.replace('`', '``')}`"], known.get(each.name)
        if field is not None and isinstance(each.dataType, DecimalType):
            wanted = spark_schema(pa.schema([field])).fields[0].dataType
            column = column.cast(wanted).alias(each.name)
        changed.append(column)
    return frame.select(*changed)

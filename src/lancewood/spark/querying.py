"""A query with tables at revisions, executed by Spark.

Spark executes the query as it was written, except that each table becomes a frame under the same
alias. ``query.reads`` decides what a frame contains. If Spark refuses the query with such reduced
frames, it is asked again with whole ones, so that its answer, also about a wrong name, never
depends on the reduction.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

from lancewood.engine.rows import plan_scan
from lancewood.errors import InvalidInputError, UnsupportedError
from lancewood.query.diffs import TableDiff
from lancewood.query.names import Occurrence, with_names
from lancewood.query.plan import QueryPlan, plan_query
from lancewood.query.reads import Read
from lancewood.query.settings import Settings
from lancewood.query.sources import AddressedSnapshot, Source, Sources
from lancewood.query.text import shown
from lancewood.repo.repository import Repository
from lancewood.spark.abilities import DOUBLED_QUOTES, release_of
from lancewood.spark.diffing.diff import diff_frame
from lancewood.spark.reading.plan import plan_read
from lancewood.spark.reading.read import read_frame, taken_whole
from lancewood.spark.running.failures import quiet
from lancewood.spark.tasks import check_running, is_connect, slots

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Args: TypeAlias = Mapping[str, Any] | Sequence[Any] | None
"""Values for ``:name`` (a mapping) or ``?`` (a list), as Spark takes them."""
_condition = re.compile(r"^\[[A-Z0-9_.]+\] ")
_state = re.compile(r"\.? *SQLSTATE: \w+")
_location = re.compile(r"(line \d+),? pos \d+")
_MOST_CHARACTERS = 500
_NO_COLUMN = "__lancewood_row"
"""The column of a frame of which only the number of rows matters."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def explain_sql(
    spark: SparkSession,
    query: str,
    *,
    tables: Mapping[str, Source] | None = None,
    repository: Repository | str | os.PathLike[str] | None = None,
    revision: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> str:
    """What a query reads of its tables, in words: versions, columns, conditions, limits.

    No row is read. Raises what ``sql`` raises before Spark sees the query.
    """
    check_running(spark)
    settings = session_settings(spark)
    sources = Sources(tables, repository, revision, storage_options, settings)
    return plan_query(query, sources, settings, OfSession(spark)).explain()


def answer(
    spark: SparkSession, planned: QueryPlan, args: Args = None, *, pushdown: bool = True
) -> DataFrame:
    """The frame of a planned query."""
    given = _checked_args(args)
    if not pushdown or not _is_read_alike(spark, planned.query.sql):
        return _Asked(spark, planned, planned.whole_reads, given).frame()
    try:
        return _Asked(spark, planned, planned.reads, given).frame()
    except InvalidInputError as found:
        try:
            return _Asked(spark, planned, planned.whole_reads, given).frame()
        except UnsupportedError:  # a column that Spark cannot have, and that nobody asked for
            raise found from None


def _is_read_alike(spark: SparkSession, query: str) -> bool:
    """Whether Spark takes every text of the query as we do."""
    return DOUBLED_QUOTES.is_in(release_of(spark)) or "''" not in query


def _checked_args(args: Args) -> Any:
    if args is None or isinstance(args, Mapping):
        return None if args is None else dict(args)
    if isinstance(args, Sequence) and not isinstance(args, str | bytes):
        return list(args)
    raise InvalidInputError(
        f"args takes a mapping for :name or a list for ?, got a {type(args).__name__}"
    )


@dataclass(frozen=True)
class OfSession:
    """What a session knows besides our tables."""

    spark: SparkSession

    def moment(self, expression: str) -> datetime:
        """The time that Spark reads, in its time zone; raises InvalidInputError."""
        asked = f"SELECT unix_micros(CAST(({expression}) AS TIMESTAMP)) AS at"
        takes = "TIMESTAMP AS OF takes a moment, such as '2026-11-15 12:00:00'"
        with refused(f"{takes}, got {expression}"):
            found = self.spark.sql(asked).collect()[0]["at"]
        if found is None:
            raise InvalidInputError(f"{takes}, and {expression} is NULL")
        try:
            return _EPOCH + timedelta(microseconds=found)
        except OverflowError:
            raise InvalidInputError(f"{takes}, and {expression} is beyond all calendars") from None

    def has_table(self, name: str) -> bool:
        return bool(self.spark.catalog.tableExists("`" + name.replace("`", "``") + "`"))


@dataclass(frozen=True)
class _Asked:
    """A query, with the read of each of its tables."""

    spark: SparkSession
    planned: QueryPlan
    reads: Mapping[Occurrence, Read]
    args: Any

    def frame(self) -> DataFrame:
        """Raises InvalidInputError with Spark's reason."""
        text, frames = self._text()
        with refused(f"Spark does not take {shown(self.planned.query.sql)}"):
            found = self.spark.sql(text, self.args, **frames)
            if is_connect(self.spark):
                _ = found.schema  # only now the server looks at the query
        return found

    def _text(self) -> tuple[str, dict[str, DataFrame]]:
        """The query as a template for PySpark, and the frames for it."""
        frames: dict[str, DataFrame] = {}
        names: dict[Occurrence, str] = {}
        for occurrence, read in self.reads.items():
            name = f"lancewood{len(frames)}"
            frames[name] = _frame(self.spark, read)
            names[occurrence] = f"{{{name}}}"
        query = self.planned.query
        return (with_names(query, names, _escaped) if frames else query.sql), frames


def _escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _frame(spark: SparkSession, read: Read) -> DataFrame:
    rows = read.known_rows
    if rows is not None:
        return spark.range(rows).selectExpr(f"true AS {_NO_COLUMN}")
    source, columns = read.source, read.columns
    if columns is None and isinstance(source, AddressedSnapshot):
        columns = tuple(source.arrow_schema.names)
    if columns == ():
        columns = tuple(source.arrow_schema.names[:1])
    if isinstance(source, TableDiff):
        return diff_frame(spark, source.diff._rows, columns)
    scan = plan_scan(
        source,
        columns=columns,
        where=read.where,
        parameters=dict(read.parameters) or None,
        limit=read.limit,
    )
    plan = plan_read(scan.snapshot, scan.request, slots(spark))
    frame = read_frame(spark, plan)
    if read.limit is None or plan.limit is not None:
        return frame
    return taken_whole(frame, read.limit)


def session_settings(spark: SparkSession) -> Settings:
    """The settings of a session that decide how SQL text is read."""
    conf: Any = spark.conf

    def is_on(name: str) -> bool:
        return str(conf.get(name, "false")).lower() == "true"

    return Settings(
        case_sensitive=is_on("spark.sql.caseSensitive"),
        zone=str(conf.get("spark.sql.session.timeZone")),
        timestamps_have_zones=str(conf.get("spark.sql.timestampType", "TIMESTAMP_LTZ"))
        == "TIMESTAMP_LTZ",
        double_quotes_name=is_on("spark.sql.ansi.enabled")
        and is_on("spark.sql.ansi.doubleQuotedIdentifiers"),
        names_are_patterns=is_on("spark.sql.parser.quotedRegexColumnNames"),
    )


@contextmanager
def refused(what: str) -> Iterator[None]:
    """Turn what Spark refuses in the block into InvalidInputError with Spark's reason, quietly."""
    from pyspark.errors import PySparkException

    try:
        with quiet():
            yield
    except PySparkException as error:
        raise InvalidInputError(f"{what}: {reason(error)}") from error


def reason(error: Any) -> str:
    """The first line of Spark's message, without codes.

    Positions within a line are left out: they are those in the text that Spark got, in which tables
    have other names.
    """
    line = _condition.sub("", str(error).strip().partition("\n")[0].strip())
    line = _location.sub(r"\1", _state.sub("", line)).rstrip(" ;.")
    return line if len(line) <= _MOST_CHARACTERS else f"{line[:_MOST_CHARACTERS]}…"

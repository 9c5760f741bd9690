"""What of a session decides how SQL text is read there. Knows no query.

What Spark says against a query, in one line, and without the stack that PySpark prints of it.

``lancewood.spark.sql``: frames of tables put into the text of a query, and the text to Spark.

Knows sessions. Spark executes the query as it was written, but for the names of tables, each of
which becomes a frame under the same alias. What of a table goes into its frame is said by
``reads``. Where Spark does not take the query with small frames, it is asked once more with whole
ones: its answer, also what it says of a wrong name, is never that of a smaller table.
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
from lancewood.query.names import Occurrence, with_names
from lancewood.query.plan import QueryPlan, plan_query
from lancewood.query.reads import Read
from lancewood.query.settings import Settings
from lancewood.query.sources import Source, Sources
from lancewood.query.text import shown
from lancewood.repo.repository import Repository
from lancewood.spark.reading.plan import plan_read
from lancewood.spark.reading.read import read_frame, taken_whole
from lancewood.spark.running.failures import quiet
from lancewood.spark.tasks import check_running, is_connect, slots

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_CASE = "spark.sql.caseSensitive"
_ZONE = "spark.sql.session.timeZone"
_TIMESTAMP = "spark.sql.timestampType"
_ANSI = "spark.sql.ansi.enabled"
_DOUBLE_QUOTES = "spark.sql.ansi.doubleQuotedIdentifiers"
_REGEX_NAMES = "spark.sql.parser.quotedRegexColumnNames"


def session_settings(spark: SparkSession) -> Settings:
    """Those of a session."""
    conf: Any = spark.conf

    def is_on(name: str) -> bool:
        return str(conf.get(name, "false")).lower() == "true"

    return Settings(
        case_sensitive=is_on(_CASE),
        zone=str(conf.get(_ZONE)),
        timestamps_have_zones=str(conf.get(_TIMESTAMP, "TIMESTAMP_LTZ")) == "TIMESTAMP_LTZ",
        double_quotes_name=is_on(_ANSI) and is_on(_DOUBLE_QUOTES),
        names_are_patterns=is_on(_REGEX_NAMES),
    )


_condition = re.compile(r"^\[[A-Z0-9_.]+\] ")
_state = re.compile(r"\.? *SQLSTATE: \w+")
_place = re.compile(r"(line \d+),? pos \d+")
_MOST_CHARACTERS = 500


@contextmanager
def refused(what: str) -> Iterator[None]:
    """Raise InvalidInputError that says what, and why, for what Spark refuses in the block."""
    from pyspark.errors import PySparkException

    try:
        with quiet():
            yield
    except PySparkException as error:
        raise InvalidInputError(f"{what}: {reason(error)}") from error


def reason(error: Any) -> str:
    """The first line of what Spark says, without codes.

    A place within a line is left out, too: it is one of the text that Spark got, in which tables
    have other names.
    """
    line = _condition.sub("", str(error).strip().partition("\n")[0].strip())
    line = _place.sub(r"\1", _state.sub("", line)).rstrip(" ;.")
    return line if len(line) <= _MOST_CHARACTERS else f"{line[:_MOST_CHARACTERS]}…"


Args: TypeAlias = Mapping[str, Any] | Sequence[Any] | None
"""Values for ``:name`` (a mapping) or ``?`` (a list), as Spark takes them."""

_NO_COLUMN = "__lancewood_row"
"""The column of a frame of which nothing matters but how many rows it has."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def sql(
    spark: SparkSession,
    query: str,
    *,
    tables: Mapping[str, Source] | None = None,
    repository: Repository | str | os.PathLike[str] | None = None,
    revision: str | None = None,
    args: Args = None,
    storage_options: Mapping[str, str] | None = None,
    pushdown: bool = True,
) -> DataFrame:
    """The answer to a query, whose tables may be named with revisions, as a DataFrame.

    ``tables`` gives names to uris and handles, ``repository`` has the tables of a commit, HEAD's
    or that of ``revision``; names of the session come last. Without a repository ``revision`` is
    one of the tables that are given by uri. A name in the query may carry one of its own:
    ``photos@exp``, ``photos@v1.0``, ``photos@:12``, ``photos VERSION AS OF 12``,
    ``photos TIMESTAMP AS OF '2026-11-15'``. What has other characters stands in backticks.
    ``args`` are values for ``:name`` (a mapping) or ``?`` (a list).

    Every version is found now, and once for the same name and revision: what others commit later
    does not change the frame. Columns, conditions and limits that a table can be asked for are
    asked of it; ``pushdown=False`` reads all of every table, for the same answer.
    Raises NotFoundError, InvalidInputError for what is no query or what Spark does not take.
    """
    check_running(spark)
    settings = session_settings(spark)
    sources = Sources(tables, repository, revision, storage_options, settings)
    planned = plan_query(query, sources, settings, OfSession(spark))
    return answer(spark, planned, args, pushdown=pushdown)


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
    if not pushdown:
        return _Asked(spark, planned, planned.whole_reads, given).frame()
    try:
        return _Asked(spark, planned, planned.reads, given).frame()
    except InvalidInputError as found:
        try:
            return _Asked(spark, planned, planned.whole_reads, given).frame()
        except UnsupportedError:  # a column that Spark cannot have, and that nobody asked for
            raise found from None


@dataclass(frozen=True)
class OfSession:
    """What a session knows besides our tables."""

    spark: SparkSession

    def moment(self, expression: str) -> datetime:
        """As Spark reads it, in its time zone; raises InvalidInputError."""
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
    """A query with what is read of each of its tables."""

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
        """The query as a pattern for PySpark, and the frames that stand in it."""
        frames: dict[str, DataFrame] = {}
        names: dict[Occurrence, str] = {}
        for occurrence, read in self.reads.items():
            name = f"lancewood{len(frames)}"
            frames[name] = _frame(self.spark, read)
            names[occurrence] = f"{{{name}}}"
        query = self.planned.query
        return (with_names(query, names, _escaped) if frames else query.sql), frames


def _frame(spark: SparkSession, read: Read) -> DataFrame:
    rows = read.known_rows
    if rows is not None:
        return spark.range(rows).selectExpr(f"true AS {_NO_COLUMN}")
    columns = read.columns
    if columns == ():
        columns = tuple(read.snapshot.arrow_schema.names[:1])
    scan = plan_scan(
        read.snapshot,
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


def _escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _checked_args(args: Args) -> Any:
    if args is None or isinstance(args, Mapping):
        return None if args is None else dict(args)
    if isinstance(args, Sequence) and not isinstance(args, str | bytes):
        return list(args)
    raise InvalidInputError(
        f"args takes a mapping for :name or a list for ?, got a {type(args).__name__}"
    )

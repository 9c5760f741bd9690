"""A query with tables at revisions, executed by Spark.

Spark executes the query as it was written, except that each table becomes a frame under the same
alias. Which columns and rows are read, and how far a limit goes, Spark decides.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

from lancewood.engine.snapshot import Access, Snapshot
from lancewood.errors import InvalidInputError
from lancewood.query.names import Readable, TableDiff
from lancewood.query.sources import AddressedSnapshot, Source, Sources
from lancewood.repo.repository import Repository
from lancewood.spark.dialect.names import with_names
from lancewood.spark.dialect.plan import QueryPlan, plan_query
from lancewood.spark.dialect.settings import Settings
from lancewood.spark.dialect.text import shown
from lancewood.spark.diffs.diff import diff_frame
from lancewood.spark.reading.read import read_snapshot
from lancewood.spark.running.failures import quiet
from lancewood.spark.tasks import check_running, is_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Args: TypeAlias = Mapping[str, Any] | Sequence[Any] | None
"""Values for ``:name`` (a mapping) or ``?`` (a list), as Spark takes them."""
_condition = re.compile(r"^\[[A-Z0-9_.]+\] ")
_state = re.compile(r"\.? *SQLSTATE: \w+")
_location = re.compile(r"(line \d+),? pos \d+")
_MOST_CHARACTERS = 500
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def explain_sql(
    spark: SparkSession,
    query: str,
    *,
    tables: Mapping[str, Source] | None = None,
    repository: Repository | str | os.PathLike[str] | None = None,
    revision: str | None = None,
    access: Access | None = None,
) -> str:
    """Which versions of its tables a query reads, in words; what Spark reads of them,
    ``DataFrame.explain`` says.

    No row is read. Raises what ``sql`` raises before Spark sees the query.
    """
    check_running(spark)
    settings = session_settings(spark)
    sources = Sources(tables, repository, revision, access, settings)
    return plan_query(query, sources, settings, OfSession(spark)).explain()


def answer(spark: SparkSession, planned: QueryPlan, args: Args = None) -> DataFrame:
    """The frame of a planned query: each table is a frame under the same alias, of which Spark
    reads what it needs. Raises InvalidInputError with Spark's reason."""
    given = _checked_args(args)
    frames = {
        f"lancewood{at}": _frame(spark, source)
        for at, source in enumerate(planned.versions.values())
    }
    query = planned.query
    names = {
        occurrence: f"{{{name}}}" for occurrence, name in zip(planned.versions, frames, strict=True)
    }
    text = with_names(query, names, _escaped) if frames else query.sql
    with refused(f"Spark does not take {shown(query.sql)}"):
        found = spark.sql(text, given, **frames)
        if is_connect(spark):
            _ = found.schema  # only now the server looks at the query
    return found


def _checked_args(args: Args) -> Any:
    if args is None or isinstance(args, Mapping):
        return None if args is None else dict(args)
    if isinstance(args, Sequence) and not isinstance(args, str | bytes):
        return list(args)
    raise InvalidInputError(
        f"args takes a mapping for :name or a list for ?, got a {type(args).__name__}"
    )


def _escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _frame(spark: SparkSession, source: Readable) -> DataFrame:
    if isinstance(source, TableDiff):
        return diff_frame(spark, source.diff._rows)
    assert isinstance(source, Snapshot)
    columns = source.arrow_schema.names if isinstance(source, AddressedSnapshot) else None
    return read_snapshot(spark, source, columns)


@dataclass(frozen=True)
class OfSession:
    """Answers of a Spark session about tables, views and times that a query names."""

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

"""``lw sql``: a query over the tables of a repository, or of any place, at any revision.

Knows the options and what is printed. Everything that can be found without Spark is found before
it starts, which takes seconds.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import typer

import lancewood as lw
from lancewood.cli import options
from lancewood.cli.file_formats import FileFormat
from lancewood.cli.output import Output, note
from lancewood.cli.repository.finding import find_repository, warnings_told
from lancewood.cli.rows import print_rows
from lancewood.cli.sinks import STDOUT, writing
from lancewood.errors import InvalidInputError, NotFoundError
from lancewood.query.plan import QueryPlan, plan_query
from lancewood.query.settings import Settings
from lancewood.query.sources import Sources
from lancewood.spark.querying.query import OfSession, answer
from lancewood.spark.querying.settings import session_settings
from lancewood.spark.quiet import quiet
from lancewood.spark.running.failures import told
from lancewood.spark.session import session


def command(
    query: Annotated[
        str, typer.Argument(metavar="QUERY", help="The query, or - to read it from stdin.")
    ],
    table: Annotated[
        list[str] | None,
        typer.Option(
            "--table",
            "-t",
            metavar="NAME=URI",
            help="A table by a name for the query. May be repeated.",
        ),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            "--at", metavar="REVISION", help="Where tables are read that name no revision."
        ),
    ] = None,
    limit: options.Limit = None,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say what would be read of each table, and stop.")
    ] = False,
    pushdown: Annotated[
        bool,
        typer.Option(
            "--pushdown/--no-pushdown",
            help="Read only what the query needs; without it, all of every table.",
        ),
    ] = True,
    master: Annotated[
        str, typer.Option("--master", metavar="URL", help="Where Spark runs.")
    ] = "local[*]",
    storage_option: options.StorageOptions = None,
    json: options.Json = False,
) -> None:
    """Ask tables with SQL, at any revision.

    Tables are those of the repository, as HEAD has them, and those of --table. A name may carry a
    revision: photos@exp (a branch, a tag, a commit), photos@main~1, photos@:12 and photos@exp:12
    (versions of the table), photos VERSION AS OF 12, photos TIMESTAMP AS OF '2026-11-15'. The SQL
    is Spark's, which runs here; only queries are taken. The answer has to fit into memory.

    JSON lines, with a key for each column. With --explain one document with the key plan.
    """
    if csv and json:
        raise typer.BadParameter("--csv and --json are two forms: give one of them")
    text = sys.stdin.read() if query == STDOUT else query
    given = _tables(table)
    with warnings_told():
        repository, storage = _repository(needed=not given), options.storage(storage_option)
        spark = _Spark(master)

        def planned(settings: Settings) -> QueryPlan:
            sources = Sources(given, repository, at, storage, settings)
            return plan_query(text, sources, settings, spark)

        plan = planned(Settings())
        if explain:
            told_plan = plan.explain()
            document = {"plan": told_plan}
            Output(as_json=json).document(document, told_plan or "no table of ours is read")
            return
        settings = session_settings(spark.running)
        plan = plan if settings == plan.settings else planned(settings)
        found = _answered(spark.running, plan, limit, pushdown=pushdown, as_json=json)
    if csv:
        with writing(STDOUT, FileFormat.CSV, found.schema, force=False) as sink:
            for batch in found.to_batches():
                sink.write(batch)
        return
    print_rows(_Rows(found), Output(as_json=json))


class _Spark:
    """A session that starts when something is asked of it."""

    def __init__(self, master: str) -> None:
        self._master = master

    @cached_property
    def running(self) -> Any:
        if sys.stderr.isatty():
            note("starting Spark …")
        return session(self._master)

    def moment(self, expression: str) -> datetime:
        return OfSession(self.running).moment(expression)

    def has_table(self, name: str) -> bool:
        """A Spark that starts here, for this query, has none."""
        return not self._master.startswith("local") and OfSession(self.running).has_table(name)


class _Rows:
    """The rows of an answer, as ``print_rows`` takes them."""

    def __init__(self, found: pa.Table) -> None:
        self._found = found

    @property
    def schema(self) -> pa.Schema:
        return self._found.schema

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        return iter(self._found.to_batches())


def _answered(
    spark: Any, planned: QueryPlan, limit: int | None, *, pushdown: bool, as_json: bool
) -> pa.Table:
    frame = answer(spark, planned, pushdown=pushdown)
    if as_json:
        check_keys(frame.columns)
    frame = frame if limit is None else frame.limit(limit)
    try:
        with quiet():
            return frame.toArrow()
    except Exception as error:  # of PySpark, of Java and of the tasks, which told sorts out
        raise told(error, "the query") from error


def check_keys(names: Sequence[str]) -> None:
    """Raise InvalidInputError where a line of JSON would keep only one of two columns."""
    for name, times in Counter(names).items():
        if times > 1:
            raise InvalidInputError(
                f"the answer has {times} columns {name!r}, and a line of JSON can have one: name "
                "the others with AS, or ask for --csv",
                column=name,
            )


def _repository(*, needed: bool) -> Path | None:
    """The repository around, without which --table has to name all tables."""
    if needed:
        try:
            return find_repository(Path.cwd())
        except NotFoundError as error:
            error.add_note("--table NAME=URI asks tables without one")
            raise
    with suppress(NotFoundError):
        return find_repository(Path.cwd())
    return None


def _tables(texts: list[str] | None) -> dict[str, str | lw.Table]:
    found: dict[str, str | lw.Table] = {}
    for each in texts or ():
        name, equals, uri = each.partition("=")
        # The uri is not repeated: it may hold a secret.
        if not equals or not name or not uri:
            raise typer.BadParameter(f"--table takes NAME=URI, got {name!r} alone")
        if name in found:
            raise InvalidInputError(f"--table gives {name!r} twice")
        found[name] = uri
    return found

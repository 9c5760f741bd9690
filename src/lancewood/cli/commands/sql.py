"""``lw sql``: a query over the tables of a repository, or of any place, at any revision.

Knows the options and what is printed. DuckDB answers in this process, Spark where it is asked for;
what can be found without Spark is found before it starts, which takes seconds.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import typer

import lancewood as lw
from lancewood.cli import options
from lancewood.cli.commands.rows import print_rows
from lancewood.cli.file_options import check_safe
from lancewood.cli.output import note
from lancewood.cli.repository.names import find_repository, warnings_shown
from lancewood.errors import InvalidInputError, NotFoundError
from lancewood.files.formats import FileFormat
from lancewood.files.sinks import STDOUT, writing
from lancewood.query.answer import Answer, InProcess
from lancewood.query.answer import answer as answer_here
from lancewood.query.plan import QueryPlan, plan_query
from lancewood.query.settings import Settings
from lancewood.query.sources import Sources
from lancewood.spark.querying import OfSession, answer, session_settings
from lancewood.spark.running.failures import as_our_error, quiet
from lancewood.spark.session import session


def sql_command(
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
    safe: options.Safe = False,
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
    spark: Annotated[
        bool, typer.Option("--spark", help="Let Spark answer, on this machine.")
    ] = False,
    master: Annotated[
        str | None,
        typer.Option("--master", metavar="URL", help="Let Spark answer, at this master."),
    ] = None,
    *,
    given: options.StoreOptions,
) -> None:
    """Ask tables with SQL, at any revision.

    Tables are those of the repository, as HEAD has them, and those of --table. A name may carry a
    revision: photos@exp (a branch, a tag, a commit), photos@main~1, photos@:12 and photos@exp:12
    (versions of the table), photos VERSION AS OF 12, photos TIMESTAMP AS OF '2026-11-15'. Where
    there is no repository and no --table, a quoted name may be a path: 'photos.lance@v1'.

    The SQL is Spark's; only queries are taken. DuckDB answers in this process, and what it has not,
    or means otherwise, is refused: that is for --spark, whose answer has to fit into memory.

    JSON lines, with a key for each column. With --explain one document with the key plan.
    """
    if csv and given.json:
        raise typer.BadParameter("--csv and --json are two forms: give one of them")
    check_safe(safe, FileFormat.CSV if csv else None)
    sql = sys.stdin.read() if query == STDOUT else query
    tables = _tables(table)
    with warnings_shown():
        repository, storage = _repository(), given.storage
        engine = _Spark(master) if spark or master is not None else InProcess()

        def planned(settings: Settings) -> QueryPlan:
            sources = Sources(tables or None, repository, at, storage, settings)
            return plan_query(sql, sources, settings, engine)

        try:
            plan = planned(Settings())
        except NotFoundError as error:
            if repository is None and not tables:
                error.add_note("there is no repository around; --table NAME=URI names a table")
            raise
        if explain:
            text = plan.explain()
            given.output.document({"plan": text}, text or "no table of ours is read")
            return
        if isinstance(engine, _Spark):
            settings = session_settings(engine.running)
            plan = plan if settings == plan.settings else planned(settings)
            found = _answered(engine.running, plan, limit, pushdown=pushdown, as_json=given.json)
        else:
            found = _Limited(answer_here(plan, pushdown=pushdown), limit)
            if given.json:
                check_keys(found.schema.names)
        if csv:
            with writing(STDOUT, FileFormat.CSV, found.schema, force=False, safe=safe) as sink:
                for batch in found.to_batches():
                    sink.write(batch)
            return
        print_rows(found, given.output)


class _Spark:
    """A session that starts when something is asked of it."""

    def __init__(self, master: str | None) -> None:
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
        is_own = self._master is None or self._master.startswith("local")
        return not is_own and OfSession(self.running).has_table(name)


@dataclass(frozen=True)
class _Limited:
    """The first rows of an answer; all of them without a limit."""

    found: Answer
    limit: int | None

    @property
    def schema(self) -> pa.Schema:
        return self.found.schema

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        left = self.limit
        if left == 0:
            return
        for batch in self.found.to_batches():
            yield batch if left is None else batch.slice(0, left)
            left = None if left is None else left - batch.num_rows
            if left is not None and left <= 0:
                return


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
        raise as_our_error(error, "the query") from error


def check_keys(names: Sequence[str]) -> None:
    """Raise InvalidInputError where a line of JSON would keep only one of two columns."""
    for name, times in Counter(names).items():
        if times > 1:
            raise InvalidInputError(
                f"the answer has {times} columns {name!r}, and a line of JSON can have one: name "
                "the others with AS, or ask for --csv",
                column=name,
            )


def _repository() -> Path | None:
    """The repository around; without one, tables are those of --table, or paths."""
    try:
        return find_repository(Path.cwd())
    except NotFoundError:
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

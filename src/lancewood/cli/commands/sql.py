"""``lw sql``: a query over tables of a repository, or of any place, at any revision, or a script
that changes them.

Knows the options and what is printed. DuckDB answers in this process, Spark where it is asked for;
what can be found without Spark is found before it starts, which takes seconds.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.compute as pc
import typer

import lancewood as lw
from lancewood.cli import options
from lancewood.cli.file_options import check_safe
from lancewood.cli.output import note
from lancewood.cli.repository import check_main_is_meant, find_repository, warnings_shown
from lancewood.cli.showing import Limited, print_rows, write_rows
from lancewood.errors import InvalidInputError, LancewoodError, NotFoundError
from lancewood.files.formats import FileFormat
from lancewood.files.sinks import STDOUT
from lancewood.query.answer import Answer
from lancewood.query.sources import Identifiers, Sources
from lancewood.query.statements import script as in_process
from lancewood.query.statements.engine import Engine
from lancewood.query.statements.model import Begin, Commit, Explain, OfTable, Rollback, Script
from lancewood.query.statements.running import ScriptRun
from lancewood.query.statements.script import is_query
from lancewood.query.statements.workplace import Workplace
from lancewood.spark.dialect import script as on_spark
from lancewood.spark.dialect.plan import plan_query
from lancewood.spark.dialect.querying import OfSession
from lancewood.spark.dialect.scripts import OnSpark
from lancewood.spark.dialect.settings import Settings
from lancewood.spark.running.failures import as_our_error, quiet
from lancewood.spark.session import session
from lancewood.spark.tasks import arrow_of

_SHORT_HASH = 12


def sql_command(
    query: Annotated[
        str | None,
        typer.Argument(metavar="[QUERY]", help="The query or script, or - to read it from stdin."),
    ] = None,
    file: Annotated[
        str | None,
        typer.Option("--file", "-f", metavar="FILE", help="Read the script from this file."),
    ] = None,
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
            "--at",
            metavar="REVISION",
            help="Where tables are read, and written, that name no revision.",
        ),
    ] = None,
    limit: options.Limit = None,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    safe: options.Safe = False,
    explain: Annotated[
        bool,
        typer.Option("--explain", help="Say what would be read, or changed, and stop."),
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
    full: options.Full = False,
    *,
    given: options.StoreOptions,
) -> None:
    """Ask and change tables with SQL, at any revision.

    Tables are those of the repository, as HEAD has them, and those of --table. A name may carry a
    revision: photos@exp (a branch, a tag, a commit), photos@main~1, photos@:12 and photos@exp:12
    (versions of the table), photos AT (VERSION => 12), photos AT (TIMESTAMP => '2026-11-15'). Where
    there is no repository and no --table, a quoted name may be a path: 'photos.lance@v1'.

    The SQL is DuckDB's, which answers in this process. With --spark it is Spark's, with photos
    VERSION AS OF 12, and Spark answers; what it says has to fit into memory.

    INSERT, UPDATE, DELETE, MERGE INTO, CREATE TABLE, ALTER TABLE, CREATE BRANCH and their like
    change tables, photos@exp among them: each is one commit, and in a repository all that stands
    between BEGIN and COMMIT 'message' is one. Semicolons separate statements. The answer is that of
    the last one, if it is a query; else a row for each statement says what it did.

    JSON lines, with a key for each column. With --explain one document with the key plan.
    """
    if csv and given.json:
        raise typer.BadParameter("--csv and --json are two forms: give one of them")
    check_safe(safe, FileFormat.CSV if csv else None)
    asked = _Asked(
        _text(query, file), _tables(table) or None, _repository(), at, lw.Access(given.storage)
    )
    session = _Spark(master) if spark or master is not None else None
    if session is not None and not pushdown:
        raise typer.BadParameter("--no-pushdown is about DuckDB: Spark decides what it reads")
    script = asked.script(session)
    with warnings_shown(), asked.noted():
        if explain:
            plan = asked.explained(script, session)
            given.output.document({"plan": plan}, plan or "no table of ours is read")
            return
        if is_query(script):
            found = asked.answer(session, pushdown=pushdown)
        else:
            found = asked.run(script, session, pushdown=pushdown)
            if isinstance(found, pa.Table) and not given.json and not csv:
                found = _for_people(found)
        schema, rows = _taken(found, limit, as_json=given.json)
        if csv:
            write_rows(STDOUT, FileFormat.CSV, schema, rows, safe=safe)
            return
        output = given.output_of_rows(full=full)
        print_rows(schema.names, rows, output)
        if not given.json:
            rest = rows.count_rest()
            output.more(None if rest and session else rest)


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
class _Asked:
    """A text, and the tables that it may name."""

    text: str
    tables: Mapping[str, str | lw.Table] | None
    repository: Path | None
    at: str | None
    access: lw.Access

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Say how tables are named where none could be found."""
        try:
            yield
        except NotFoundError as error:
            if self.repository is None and not self.tables:
                error.add_note("there is no repository around; --table NAME=URI names a table")
            raise

    def script(self, spark: _Spark | None) -> Script:
        """The statements, or one query; what is wrong in them is told before Spark starts."""
        if spark is None:
            return in_process.parse_script(self.text)
        return on_spark.parse_script(self.text, Settings())

    def answer(self, spark: _Spark | None, *, pushdown: bool) -> Any:
        """The rows of a query; what can be wrong in it is told before Spark starts."""
        if spark is None:
            return Engine(pushdown=pushdown).planned(self.text, self._sources(Identifiers()))
        plan_query(self.text, self._sources(Settings()), Settings(), spark)
        engine = OnSpark(spark.running, None)
        return engine.answer(engine.planned(self.text, self._sources(engine.identifiers)))

    def run(self, script: Script, spark: _Spark | None, *, pushdown: bool = True) -> Any:
        """What a script answers, in this process, or on Spark, which starts now: the rows of its
        last query, or a table of what it did."""
        engine = Engine(pushdown=pushdown) if spark is None else OnSpark(spark.running, None)
        workplace = Workplace(self._sources(engine.identifiers))
        self._check_targets(script, workplace)
        with nullcontext() if spark is None else _in_our_words("the script"):
            return ScriptRun(script, workplace, engine).run()

    def _check_targets(self, script: Script, workplace: Workplace) -> None:
        """Raise InvalidInputError for a table that is named by its path, without a branch, where
        the repository around it is on another branch than main."""
        for each in script:
            if not isinstance(each, OfTable) or workplace.is_in_repository(each.target):
                continue
            if each.target.revision is None:
                with suppress(NotFoundError):  # a table that is made
                    table = workplace.table(each.target, dry_run=True)
                    check_main_is_meant(table.uri, table, self.access.storage_options)

    def explained(self, script: Script, spark: _Spark | None) -> str:
        """What a query reads, or each statement would do to the tables as they are."""
        if is_query(script) and spark is not None:
            plan = plan_query(self.text, self._sources(Settings()), Settings(), spark)
            return plan.explain()
        if is_query(script):
            return str(Engine().planned(self.text, self._sources(Identifiers())).explain())
        plans = [self.run((each,), spark)["plan"] for each in _explaining(script)]
        return "\n".join(line for each in plans for line in each.to_pylist())

    def _sources(self, identifiers: Identifiers) -> Sources:
        return Sources(self.tables, self.repository, self.at, self.access, identifiers)


def _taken(found: Any, limit: int | None, *, as_json: bool) -> tuple[pa.Schema, Limited]:
    """The rows of an answer, or of a frame of Spark, which come at once."""
    is_here = isinstance(found, pa.Table | Answer)
    if as_json:
        check_keys(found.schema.names if is_here else found.columns)
    if not is_here:
        frame = found if limit is None else found.limit(limit + 1)
        with _in_our_words("the query"):
            found = arrow_of(frame)
    return found.schema, Limited(found.to_batches(), limit)


@contextmanager
def _in_our_words(what: str) -> Iterator[None]:
    """Say in our words why Spark failed, of PySpark, of Java or of the tasks."""
    try:
        with quiet():
            yield
    except LancewoodError:
        raise
    except Exception as error:
        raise as_our_error(error, what) from error


def _for_people(report: pa.Table) -> pa.Table:
    """A report without the columns that say nothing about any statement, and with short hashes."""
    names = [each for each in report.column_names if report[each].null_count < len(report)]
    if "commit" in names:
        short = pc.utf8_slice_codeunits(report["commit"], 0, _SHORT_HASH)
        report = report.set_column(report.column_names.index("commit"), "commit", short)
    return report.select(names)


def _explaining(script: Script) -> Iterator[Explain]:
    """The statements that change something, and the queries, to be explained."""
    for each in script:
        if isinstance(each, Explain):
            yield each
        elif not isinstance(each, Begin | Commit | Rollback):
            yield Explain(each)


def check_keys(names: Sequence[str]) -> None:
    """Raise InvalidInputError where a line of JSON would keep only one of two columns."""
    for name, times in Counter(names).items():
        if times > 1:
            raise InvalidInputError(
                f"the answer has {times} columns {name!r}, and a line of JSON can have one: name "
                "the others with AS, or ask for --csv",
                column=name,
            )


def _text(query: str | None, file: str | None) -> str:
    """What is asked: from the command, a file or stdin."""
    if (query is None) == (file is None):
        raise typer.BadParameter("give a query, or --file with one; - reads it from stdin")
    if STDOUT in (query, file):
        return sys.stdin.read()
    if file is None:
        return str(query)
    try:
        return Path(file).read_text("utf-8")
    except OSError as error:
        raise NotFoundError(f"cannot read the script {file!r}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"the script {file!r} is not UTF-8 text: {error}") from error


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

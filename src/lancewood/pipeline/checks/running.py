"""Planning and running the checks of a pipeline, in the order of its file.

A check is planned before anything is written, on empty tables with the columns that the run will
leave; Spark analyses it, and no job runs. Later the same check runs on what was loaded. The rows
that fail it are kept as a Lance table in the run's folder, one for each check. What follows from
the results is decided by the run.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from lancewood.errors import LancewoodError
from lancewood.pipeline.checks.column_checks import ACCEPTED, NOT_NULL, REFERENCES, UNIQUE
from lancewood.pipeline.checks.kind import CheckKind, CheckWork
from lancewood.pipeline.checks.manifest_checks import ROWS, SCHEMA
from lancewood.pipeline.checks.sql import SQL, table_names
from lancewood.pipeline.checks.tables import planned_relations, standing_relations
from lancewood.pipeline.context import RunContext
from lancewood.pipeline.definition.model import (
    AcceptedCheck,
    Check,
    NotNullCheck,
    Pipeline,
    ReferenceCheck,
    RowsCheck,
    SchemaCheck,
    SqlCheck,
    UniqueCheck,
)
from lancewood.pipeline.frames.functions import Modules, Registered
from lancewood.pipeline.frames.refusals import failed, refused_at, spark_errors, spark_may_be_gone
from lancewood.pipeline.report.facts import CheckFacts
from lancewood.table import create

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


KINDS: Mapping[type[Check], CheckKind] = {
    SqlCheck: SQL,
    NotNullCheck: NOT_NULL,
    UniqueCheck: UNIQUE,
    AcceptedCheck: ACCEPTED,
    RowsCheck: ROWS,
    SchemaCheck: SCHEMA,
    ReferenceCheck: REFERENCES,
}


def kind_of(check: Check) -> CheckKind:
    return KINDS[type(check)]


_DIRECTORY = "failures"
_not_in_names = re.compile(r"[^\w .+=,-]")
Around = Callable[[Check], AbstractContextManager[object]]


def table_of(check: Check) -> str | None:
    """The table that a check is about; None for a query."""
    return getattr(check, "table", None)


def tables_seen(check: Check) -> frozenset[str]:
    """All tables that a check reads, now or as they were, spelt as in the check. In SQL the case
    may differ from the repository's."""
    if isinstance(check, SqlCheck):
        return frozenset(each.table for each in table_names(check.sql))
    other = {check.other} if isinstance(check, ReferenceCheck) else set[str]()
    table = table_of(check)
    return frozenset(other if table is None else {table, *other})


def plan_checks(
    spark: SparkSession, pipeline: Pipeline, context: RunContext, planned: Mapping[str, pa.Schema]
) -> None:
    """Raise InvalidInputError, starting with the spot, for the first check that refers to something
    that will not exist: a table, a column, a function, a value of another type; or for SQL that
    Spark cannot analyse.

    ``planned`` are the columns of tables that the run creates or changes, from ``plan_targets``.
    SQL may call the pipeline's functions, which the run's open frames have registered.
    """
    work = CheckWork(spark, pipeline, planned_relations(context, planned))
    for check in pipeline.checks:
        with refused_at(check.spot, pipeline):
            kind_of(check).plan(work, check)


def check_tables(pipeline: Pipeline, context: RunContext) -> None:
    """Raise InvalidInputError for the first check of a table that does not exist and that no target
    creates. This needs no Spark."""
    standing = planned_relations(context, {})
    names = {*standing.names(), *(each.table for each in pipeline.targets)}
    relations = replace(standing, names=lambda: names)
    known = {each.casefold() for each in names}
    for check in pipeline.checks:
        for table in sorted(tables_seen(check)):
            if table.casefold() not in known:
                is_sql, is_own = isinstance(check, SqlCheck), table == table_of(check)
                key = ("sql",) if is_sql else ("table",) if is_own else ("references", "table")
                relations.now(table, check.spot.at(*key))


@dataclass
class Keeping:
    """Where failing rows are written."""

    folder: Path
    _taken: set[str] = field(default_factory=set)

    def clear(self) -> None:
        """Remove what an earlier attempt kept."""
        shutil.rmtree(self.folder / _DIRECTORY, ignore_errors=True)

    def keep(self, check: str, rows: pa.Table) -> str:
        """Write the failing rows of a check; returns their place."""
        at = self.folder / _DIRECTORY / f"{self._file_name(check)}.lance"
        at.parent.mkdir(parents=True, exist_ok=True)
        create(at, rows, message=f"rows that fail check {check!r}")
        return str(at)

    def _file_name(self, check: str) -> str:
        plain = name = _not_in_names.sub("_", check)
        number = 1
        while name.casefold() in self._taken:
            number += 1
            name = f"{plain} {number}"
        self._taken.add(name.casefold())
        return name


def run_checks(
    spark: SparkSession,
    pipeline: Pipeline,
    context: RunContext,
    folder: Path,
    *,
    around: Around | None = None,
) -> list[CheckFacts]:
    """Run all checks; failing rows are kept below ``folder``, replacing what was there.

    Each check runs inside ``around(check)``, which can report its beginning and end. SQL may call
    the pipeline's functions, so frames that registered them must be closed by now. Raises
    LancewoodError, naming the check, for one that could not run.
    """
    work = CheckWork(spark, pipeline, standing_relations(context))
    keeping = Keeping(folder)
    keeping.clear()
    found = []
    with _functions(spark, pipeline):
        for check in pipeline.checks:
            with around(check) if around is not None else nullcontext():
                found.append(_run(work, check, keeping))
    return found


def has_failed(checks: Iterable[CheckFacts]) -> bool:
    """Whether the run must not be published: a check failed that is not just a warning."""
    return any(not each.is_passed and not each.is_warning for each in checks)


@contextmanager
def _functions(spark: SparkSession, pipeline: Pipeline) -> Iterator[None]:
    """SQL knows the pipeline's functions inside the block."""
    if not any(isinstance(each, SqlCheck) for each in pipeline.checks):
        yield
        return
    registered = Registered(spark, pipeline, Modules(pipeline.file.parent))
    try:
        registered.register(pipeline.functions)
        yield
    finally:
        with spark_may_be_gone():
            registered.close()


def _run(work: CheckWork, check: Check, keeping: Keeping) -> CheckFacts:
    started = time.monotonic()
    kind = kind_of(check)
    expected: tuple[type[Exception], ...] = (LancewoodError, *spark_errors())
    try:
        finding = kind.judge(work, check)
    except expected as error:  # with the name of the check in it, and without secrets
        what = f"check {check.name!r}"
        found = failed(work.pipeline, error, what)
        if what in found.message:
            raise found from None
        raise type(found)(f"{what}: {found.message}", **found.facts) from None
    facts = CheckFacts(
        name=check.name,
        kind=kind.word,
        table=table_of(check),
        is_passed=finding.is_passed,
        is_warning=check.is_warning,
        asked=kind.asked(check),
        found=finding.found,
        failing_rows=finding.failing_rows,
    )
    rows = finding.gathered
    if rows is not None and rows.rows:
        facts.columns, facts.sample = rows.columns, rows.shown
        if rows.kept is not None:
            facts.kept_at = keeping.keep(check.name, rows.kept)
    facts.seconds = time.monotonic() - started
    return facts

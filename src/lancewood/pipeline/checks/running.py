"""The kinds of checks: every class of ``definition.model`` and what is done for it.

What is wrong with the checks, told before anything is written.

Every check is built as it will be built later, on tables without rows that have the columns which
the run will leave. Spark analyses; no job runs.

The rows of failed checks, kept for people: one Lance table for each check, in a run's folder.

They are few and small by the time they get here: see ``gathering``.

Running the checks of a pipeline, in the order of its file, on what a run has loaded.

Says what each found and keeps failing rows. What follows from it is for the run to decide.
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
from lancewood.pipeline.checks.accepted import ACCEPTED
from lancewood.pipeline.checks.kind import Finding, Kind, Work
from lancewood.pipeline.checks.not_null import NOT_NULL
from lancewood.pipeline.checks.references import REFERENCES
from lancewood.pipeline.checks.relations import Ground, planned_relations, standing_relations
from lancewood.pipeline.checks.row_counts import ROWS
from lancewood.pipeline.checks.schemas import SCHEMA
from lancewood.pipeline.checks.sql import SQL, table_names
from lancewood.pipeline.checks.unique import UNIQUE
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
from lancewood.pipeline.frames.functions import Registered
from lancewood.pipeline.frames.modules import Modules
from lancewood.pipeline.frames.refusals import failed, refused_at, spark_errors, spark_may_be_gone
from lancewood.pipeline.report.facts import CheckFacts
from lancewood.table.door import create

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


KINDS: Mapping[type[Check], Kind] = {
    SqlCheck: SQL,
    NotNullCheck: NOT_NULL,
    UniqueCheck: UNIQUE,
    AcceptedCheck: ACCEPTED,
    RowsCheck: ROWS,
    SchemaCheck: SCHEMA,
    ReferenceCheck: REFERENCES,
}


def kind_of(check: Check) -> Kind:
    return KINDS[type(check)]


def table_of(check: Check) -> str | None:
    """The table that a check is about; a query is about none alone."""
    return getattr(check, "table", None)


def tables_seen(check: Check) -> frozenset[str]:
    """All tables that a check looks at, now or as they were, as it spells them: in SQL that may
    differ from the repository in upper and lower case."""
    if isinstance(check, SqlCheck):
        return frozenset(each.table for each in table_names(check.sql))
    other = {check.other} if isinstance(check, ReferenceCheck) else set[str]()
    table = table_of(check)
    return frozenset(other if table is None else {table, *other})


def plan_checks(
    spark: SparkSession, pipeline: Pipeline, ground: Ground, planned: Mapping[str, pa.Schema]
) -> None:
    """Raise InvalidInputError, which begins with the spot, for the first check that speaks of what
    there will not be: tables, columns, functions, values of another type, SQL that means nothing.

    ``planned`` are the columns of tables that the run makes or changes: what ``plan_targets``
    gives. SQL may call the pipeline's functions: the frames of the run, which are open now, have
    made them known.
    """
    work = Work(spark, pipeline, planned_relations(ground, planned))
    for check in pipeline.checks:
        with refused_at(check.spot, pipeline):
            kind_of(check).plan(work, check)


def check_tables(pipeline: Pipeline, ground: Ground) -> None:
    """Raise InvalidInputError for the first check of a table that nobody has and no target makes:
    what can be told of checks without Spark."""
    standing = planned_relations(ground, {})
    names = {*standing.names(), *(each.table for each in pipeline.targets)}
    relations = replace(standing, names=lambda: names)
    known = {each.casefold() for each in names}
    for check in pipeline.checks:
        for table in sorted(tables_seen(check)):
            if table.casefold() not in known:
                is_sql, is_own = isinstance(check, SqlCheck), table == table_of(check)
                key = ("sql",) if is_sql else ("table",) if is_own else ("references", "table")
                relations.now(table, check.spot.at(*key))


_DIRECTORY = "failures"
_not_in_names = re.compile(r"[^\w .+=,-]")


@dataclass
class Keeping:
    """Where failing rows go."""

    folder: Path
    _taken: set[str] = field(default_factory=set)

    def clear(self) -> None:
        """Remove what an earlier attempt has kept."""
        shutil.rmtree(self.folder / _DIRECTORY, ignore_errors=True)

    def keep(self, check: str, rows: pa.Table) -> str:
        """Write the rows of a check; gives where they are."""
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


Around = Callable[[Check], AbstractContextManager[object]]


def run_checks(
    spark: SparkSession,
    pipeline: Pipeline,
    ground: Ground,
    folder: Path,
    *,
    around: Around | None = None,
) -> list[CheckFacts]:
    """Run all checks; failing rows are kept below ``folder``, in place of what was kept there.

    ``around`` gives what each check happens in, for who wants to tell that it begins and ends.
    SQL may call the pipeline's functions; frames that have made them known must be closed by now.
    Raises LancewoodError that names the check for one that could not be run.
    """
    work = Work(spark, pipeline, standing_relations(ground))
    keeping = Keeping(folder)
    keeping.clear()
    found = []
    with _functions(spark, pipeline):
        for check in pipeline.checks:
            with around(check) if around is not None else nullcontext():
                found.append(_run(work, check, keeping))
    return found


def has_failed(checks: Iterable[CheckFacts]) -> bool:
    """Whether a run must not be published: a check failed that is not only a warning."""
    return any(not each.is_passed and not each.is_warning for each in checks)


@contextmanager
def _functions(spark: SparkSession, pipeline: Pipeline) -> Iterator[None]:
    """The functions of the pipeline are known to SQL inside of the block."""
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


def _run(work: Work, check: Check, keeping: Keeping) -> CheckFacts:
    started = time.monotonic()
    kind = kind_of(check)
    finding = _judged(work, check)
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


def _judged(work: Work, check: Check) -> Finding:
    expected: tuple[type[Exception], ...] = (LancewoodError, *spark_errors())
    try:
        return kind_of(check).judge(work, check)
    except expected as error:
        raise _told(work.pipeline, check, error) from None


def _told(pipeline: Pipeline, check: Check, error: Exception) -> LancewoodError:
    """The error with the name of the check in it, and without secrets."""
    what = f"check {check.name!r}"
    found = failed(pipeline, error, what)
    if what in found.message:
        return found
    return type(found)(f"{what}: {found.message}", **found.facts)

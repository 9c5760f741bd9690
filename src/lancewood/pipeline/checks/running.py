"""Running the checks of a pipeline, in the order of its file, on what a run has loaded.

Says what each found and keeps failing rows. What follows from it is for the run to decide.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from lancewood.errors import LancewoodError
from lancewood.pipeline.checks.keeping import Keeping
from lancewood.pipeline.checks.kind import Finding, Work
from lancewood.pipeline.checks.kinds import kind_of, table_of
from lancewood.pipeline.checks.needs import Ground
from lancewood.pipeline.checks.relations import standing_relations
from lancewood.pipeline.definition.model import Check, Pipeline, SqlCheck
from lancewood.pipeline.frames.functions import Registered
from lancewood.pipeline.frames.modules import Modules
from lancewood.pipeline.frames.refusals import failed, spark_errors, spark_may_be_gone
from lancewood.pipeline.report.facts import CheckFacts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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

"""``lw runs list``, ``show`` and ``clean``: the runs of pipelines in a repository."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, TypeAlias

import typer

from lancewood.cli import options
from lancewood.cli.output import counted, moment, outcome
from lancewood.cli.repository.names import InRepository, repository
from lancewood.cli.repository.showing import short
from lancewood.pipeline.report.lines import check_lines, failing, target_lines
from lancewood.pipeline.report.markup import duration
from lancewood.pipeline.running.folder import RunFolder
from lancewood.pipeline.running.runs import (
    KnownRun,
    PastReport,
    clean,
    count_runs,
    known_run,
    known_runs,
    past_report,
)

OfPipeline: TypeAlias = Annotated[
    str | None,
    typer.Option("--pipeline", metavar="NAME", help="Only runs of this pipeline."),
]
_LISTED = ("run", "pipeline", "state", "time", "branch", "commit", "report")
_TARGET = (
    *("table", "mode", "rows_before", "rows_after", "inserted", "updated", "deleted"),
    *("replaced", "duplicates", "columns_added", "version"),
)
_CHECK = ("name", "kind", "table", "asked", "found", "failing_rows", "kept_at")


def list_runs_command(
    pipeline: OfPipeline = None,
    limit: Annotated[
        int | None, typer.Option("--max-count", "-n", metavar="N", min=0, help="At most N runs.")
    ] = None,
    *,
    given: options.Printing,
) -> None:
    """List the runs of a repository, and how each stands.

    First those that were not published, as long as they have a branch, then those that were; the
    newest first. A run is at work, cut off (its process died; the same --run-id goes on), or it
    ended: published, checks failed, too many bad rows, failed. Of a published one the history of
    its branch tells whether it still is, or was reset away or reverted, and by which commit.

    JSON lines with keys: run, pipeline, state, time, branch, commit, report.
    """
    with repository() as repo:
        found = known_runs(repo, pipeline, limit)
        columns = ("run", "pipeline", "state", "time", "at")
        given.output.listing(found, (_LISTED, _listed), (columns, _cells))
        if limit and not given.json:
            given.output.more(max(0, count_runs(repo, pipeline) - limit), "--max-count")


def _listed(e: KnownRun) -> tuple[Any, ...]:
    return e.run, e.pipeline, e.state, moment(e.when), e.branch, e.commit, e.report


def _cells(each: KnownRun) -> tuple[Any, ...]:
    at = each.branch if each.commit is None else short(each.commit)
    return each.run, each.pipeline, each.state, moment(each.when), at


def show_run_command(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The id of the run.")],
    pipeline: OfPipeline = None,
    *,
    given: options.Printing,
) -> None:
    """Show one run: how it stands, when it ran and how long, what it loaded, which checks failed.

    How it stands is what the repository says now, as in lw runs list; the figures are those of its
    report, and empty for a run without one.

    JSON keys: run, pipeline, state, time, started, seconds, branch, commit, error, targets,
    checks_failed, report. A target has table, mode, rows_before, rows_after, inserted, updated,
    deleted, replaced, duplicates, columns_added, version; a check has name, kind, table, asked,
    found, failing_rows, kept_at.
    """
    with repository() as repo:
        found = known_run(repo, run, pipeline)
        report = PastReport()
        if found.pipeline is not None:
            report = past_report(RunFolder.of(repo.path, found.pipeline, found.run))
    given.output.facts(_document(found, report), _run_facts(found, report))


def _document(found: KnownRun, report: PastReport) -> dict[str, Any]:
    return {
        "run": found.run,
        "pipeline": found.pipeline,
        "state": found.state,
        "time": moment(found.when),
        "started": report.started,
        "seconds": report.seconds,
        "branch": found.branch,
        "commit": found.commit,
        "error": report.error,
        "targets": [_some(each, _TARGET) for each in report.targets],
        "checks_failed": [_some(each, _CHECK) for each in failing([*report.checks])],
        "report": found.report,
    }


def _some(facts: object, keys: Sequence[str]) -> dict[str, Any]:
    return {key: getattr(facts, key) for key in keys}


def _run_facts(found: KnownRun, report: PastReport) -> list[tuple[str, Any]]:
    took = None if report.seconds is None else duration(report.seconds)
    facts: list[tuple[str, Any]] = [
        ("run", found.run),
        ("pipeline", found.pipeline),
        ("state", found.state),
        ("time", moment(found.when)),
        ("started", report.started),
        ("took", took),
        ("branch", found.branch),
        ("commit", found.commit),
        ("error", report.error),
        *_under("loaded", target_lines(report.targets)),
        *_under("checks", check_lines(report.checks)),
        ("report", found.report),
    ]
    return [each for each in facts if each[1] is not None]


def _under(name: str, lines: list[str]) -> list[tuple[str, str]]:
    """Lines under each other, the first one after their name."""
    return [(name if number == 0 else "", each) for number, each in enumerate(lines)]


def clean_runs_command(
    older_than: Annotated[
        str,
        typer.Option(
            "--older-than", metavar="SPAN", help="Only if nothing was written for so long: 7d, 0s."
        ),
    ] = "7d",
    pipeline: OfPipeline = None,
    dry_run: options.DryRun = False,
    *,
    here: InRepository,
) -> None:
    """Remove the branches of runs that nobody finished.

    In the repository and in its tables. A run that is at work is left alone, whatever its age; so
    is the current branch. Reports, and rows that checks kept, stay where they are.

    JSON keys: dry_run, runs.
    """
    age = options.span(older_than, "--older-than")
    assert age is not None
    with here.repository() as repo:
        gone = clean(repo, older_than=age, dry_run=dry_run, pipeline=pipeline)
    text = "nothing to remove"
    if gone:
        what = f"the branches of {counted(len(gone), 'run')}: {', '.join(gone)}"
        text = outcome("remove", "removed", what, dry_run=dry_run)
    here.output.document({"dry_run": dry_run, "runs": list(gone)}, text)

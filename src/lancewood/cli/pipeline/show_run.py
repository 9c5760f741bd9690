"""``lw runs show``: one run, and what it loaded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from lancewood.cli import options
from lancewood.cli.output import Output, moment
from lancewood.cli.pipeline.choosing import OfPipeline
from lancewood.cli.repository.finding import repository
from lancewood.pipeline.report.figures import duration
from lancewood.pipeline.report.lines import check_lines, target_lines
from lancewood.pipeline.report.verdict import failing
from lancewood.pipeline.running.folder import RunFolder
from lancewood.pipeline.running.known_runs import KnownRun, known_run
from lancewood.pipeline.running.past_report import PastReport, past_report

_TARGET = (
    *("table", "mode", "rows_before", "rows_after", "inserted", "updated", "deleted"),
    *("replaced", "duplicates", "columns_added", "version"),
)
_CHECK = ("name", "kind", "table", "asked", "found", "failing_rows", "kept_at")


def command(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The id of the run.")],
    pipeline: OfPipeline = None,
    json: options.Json = False,
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
    Output(as_json=json).facts(_document(found, report), _facts(found, report))


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


def _facts(found: KnownRun, report: PastReport) -> list[tuple[str, Any]]:
    took = None if report.seconds is None else duration(report.seconds)
    told: list[tuple[str, Any]] = [
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
    return [each for each in told if each[1] is not None]


def _under(name: str, lines: list[str]) -> list[tuple[str, str]]:
    """Lines under each other, the first of them after a word that says what they are."""
    return [(name if number == 0 else "", each) for number, each in enumerate(lines)]

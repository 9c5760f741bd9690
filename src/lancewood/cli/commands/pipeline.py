"""``lw run``: from a pipeline file to a published commit; ``lw runs list``, ``show`` and ``clean``:
the runs in a repository.

While a run works, progress goes to stderr: a bar for each stage on a terminal, a line for each
stage elsewhere, nothing if the output is JSON. The summary of the run goes to stdout.

On Ctrl-C, PySpark cancels its Spark jobs. The connection to Java, which waits for an answer, breaks
and logs that at length; this log is suppressed.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout
from datetime import UTC, datetime
from pathlib import Path
from shlex import join
from threading import Lock
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from lancewood.cli import options
from lancewood.cli.failing import ExitCode
from lancewood.cli.output import moment, outcome, padded, picked
from lancewood.cli.progress import bars
from lancewood.cli.repository import InRepository, repository, short, warnings_shown
from lancewood.errors import InvalidInputError, LancewoodError, RunFailedError
from lancewood.pipeline.definition.load import load
from lancewood.pipeline.report.facts import Ending, Listener, RunFacts
from lancewood.pipeline.report.lines import check_lines, failing, lines, target_lines
from lancewood.pipeline.report.markup import counted, duration, shown, size
from lancewood.pipeline.report.page import page
from lancewood.pipeline.running.publishing import FACTS
from lancewood.pipeline.running.runs import (
    KnownRun,
    PastReport,
    RunFolder,
    checked_run_id,
    clean,
    count_runs,
    known_run,
    known_runs,
    new_run_id,
    past_report,
)
from lancewood.pipeline.start import run

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_NAME_WIDTH = 40
_PY4J_NOISE = ("Exception while sending command", "KeyboardInterrupt while sending command")
_NOT_PUBLISHED = (Ending.CHECKS_FAILED, Ending.TOO_MANY_BAD_ROWS, Ending.REVERTED)


def run_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The pipeline, a TOML file.")],
    param: Annotated[
        list[str] | None,
        typer.Option(
            "--param",
            "-p",
            metavar="KEY=VALUE",
            help="A parameter of the file. It is shown and kept: a secret comes from the "
            "environment. May be repeated.",
        ),
    ] = None,
    run_id: Annotated[
        str | None,
        typer.Option(
            "--run-id",
            metavar="ID",
            help="Its name: the same one twice publishes once. By default the time and digits.",
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Find what is wrong before anything is loaded, and stop."),
    ] = False,
    full_refresh: Annotated[
        bool,
        typer.Option(
            "--full-refresh",
            help="Make every table of the file anew: incremental sources are read from the start.",
        ),
    ] = False,
    full_refresh_table: Annotated[
        list[str] | None,
        typer.Option(
            "--full-refresh-table",
            metavar="TABLE",
            help="The same for one table; the others are loaded as always. May be repeated.",
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option("--report", metavar="PATH", help="Also write the report here, as HTML."),
    ] = None,
    master: Annotated[
        str | None,
        typer.Option("--master", metavar="URL", help="Where Spark runs, in place of the file's."),
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Also what Spark logs of tasks that fail, in Java.")
    ] = False,
    *,
    given: options.Printing,
) -> None:
    """Run a pipeline: load, check, publish.

    The run works on a branch of its own, run/ID. If every check passes, all tables are published
    in one commit, and the branch goes. If not, the branch stays for you to look at, and nothing is
    published; lw runs clean removes it, and so do later runs when it is old. After Ctrl-C or a
    crash, the same --run-id goes on. The report is in the repository, at
    lancewood/runs/PIPELINE/ID/report.html. Progress goes to stderr.

    JSON keys: pipeline, run, repository, branch, run_branch, started, file, ending, seconds,
    attempts, batches, parameters, full_refresh, sources, targets, checks, quarantine, stages,
    base_commit, commit, tag, graph, past, versions, error, what_next, folder. The ending is one of
    published, nothing new, already published, reverted, checks failed, too many bad rows, dry run,
    failed.
    """
    parameters = options.pairs(param, "--param")
    if report is not None and (report.is_dir() or not report.absolute().parent.is_dir()):
        why = f"there is no directory {report.parent}"
        why = "it is a directory" if report.is_dir() else why
        raise InvalidInputError(f"--report {str(report)!r} cannot be written: {why}")
    pipeline = load(file, parameters)
    name = None if run_id is None else checked_run_id(run_id)
    if name is None and pipeline.stream is None:  # the runs of a stream name themselves
        name = new_run_id(datetime.now(UTC))  # here, so that an interruption can show it
    refresh = full_refresh or full_refresh_table or False
    with (
        warnings_shown(),
        # A function of the pipeline may print; stdout is for the one document.
        redirect_stdout(sys.stderr) if given.json else nullcontext(),
        interruption_noted(pipeline.branch, _again(file, parameters, refresh, master, name)),
        run_progress(wanted=not given.json) as listener,
    ):
        try:
            facts = run(
                pipeline,
                run_id=name,
                dry_run=dry_run,
                full_refresh=refresh,
                master=master,
                listener=listener,
                verbose=verbose,
            )
            failed = None
        except LancewoodError as error:
            failed = error
    if failed is not None:
        found = failed.facts.get(FACTS)
        if isinstance(found, RunFacts):
            _write_report(report, found)
            if given.json:
                given.output.document(found.to_json(), "")
        if isinstance(failed, RunFailedError) and not verbose:
            failed.add_note("--verbose shows what Spark logs")
        raise failed
    _write_report(report, facts)
    given.output.document(facts.to_json(), "\n".join(lines(facts)))
    if facts.ending in _NOT_PUBLISHED:
        raise typer.Exit(ExitCode.NOT_PUBLISHED)


def _write_report(location: Path | None, facts: RunFacts) -> None:
    if location is not None:
        location.write_text(page(facts), encoding="utf-8", errors="replace")


def _again(
    file: Path,
    given: dict[str, str],
    refresh: bool | list[str],
    master: str | None,
    run_id: str | None,
) -> list[str]:
    """The command that continues the same run."""
    said = [word for key, value in given.items() for word in ("--param", f"{key}={value}")]
    if isinstance(refresh, list):
        said += [word for table in refresh for word in ("--full-refresh-table", table)]
    elif refresh:
        said.append("--full-refresh")
    said += [] if master is None else ["--master", master]
    said += [] if run_id is None else ["--run-id", run_id]
    return ["lw", "run", str(file), *said]


@contextmanager
def interruption_noted(branch: str, again: Sequence[str]) -> Iterator[None]:
    """Add to a KeyboardInterrupt the command that continues the run."""
    root = logging.getLogger()
    root.addFilter(_is_not_py4j)
    try:
        yield
    except KeyboardInterrupt as stopped:
        stopped.add_note(f"{branch} is as it was, or has the whole run; to go on: {join(again)}")
        raise
    finally:
        root.removeFilter(_is_not_py4j)


def _is_not_py4j(record: logging.LogRecord) -> bool:
    return not str(record.msg).startswith(_PY4J_NOISE)


@contextmanager
def run_progress(*, wanted: bool) -> Iterator[Listener]:
    """The listener for a run, which shows its progress during the block."""
    if not wanted:
        yield Listener()
        return
    if not sys.stderr.isatty():
        yield StageLines()
        return
    with bars("{task.fields[tasks]}") as drawn:
        yield StageBars(drawn)


class StageLines(Listener):
    """Prints a line for each stage that is done."""

    def ended(self, stage: str, seconds: float, **amounts: int | None) -> None:
        self.noted(f"{stage}: {_amounts(seconds, **amounts)}")

    def noted(self, text: str) -> None:
        print(shown(text), file=sys.stderr, flush=True)


class StageBars(Listener):
    """Shows a bar for each stage at work, and above it a line for each that is done."""

    def __init__(self, bars: Progress) -> None:
        self._bars = bars
        self._tasks: dict[str, TaskID] = {}
        self._lock = Lock()

    def begun(self, stage: str) -> None:
        with self._lock:
            self._end(stage)
            name = padded(shown(stage, _NAME_WIDTH), _NAME_WIDTH)
            self._tasks[stage] = self._bars.add_task(name, total=None, tasks="")

    def moved(self, stage: str, done: int, total: int) -> None:
        with self._lock:
            task = self._tasks.get(stage)
            if task is None:  # late news of a stage that is over
                return
            tasks = f"{done:,} of {counted(total, 'task')}" if total else counted(done, "task")
            self._bars.update(task, completed=done, total=total or None, tasks=tasks)

    def ended(self, stage: str, seconds: float, **amounts: int | None) -> None:
        with self._lock:
            self._end(stage)
        name = padded(shown(stage, _NAME_WIDTH), _NAME_WIDTH)
        self.noted(f"{name} {_amounts(seconds, **amounts)}")

    def noted(self, text: str) -> None:
        from rich.text import Text

        self._bars.console.print(Text(shown(text)), soft_wrap=True)

    def over(self, facts: RunFacts) -> None:
        with self._lock:
            for stage in list(self._tasks):
                self._end(stage)

    def _end(self, stage: str) -> None:
        task = self._tasks.pop(stage, None)
        if task is not None:
            self._bars.remove_task(task)


def _amounts(
    seconds: float,
    *,
    rows: int | None = None,
    bytes: int | None = None,
    files: int | None = None,
) -> str:
    amounts = [
        None if rows is None else counted(rows, "row"),
        None if bytes is None else size(bytes),
        None if files is None else counted(files, "file"),
        duration(seconds),
    ]
    return ", ".join(each for each in amounts if each is not None)


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


def runs_list_command(
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


def runs_show_command(
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
        "targets": [picked(each, *_TARGET) for each in report.targets],
        "checks_failed": [picked(each, *_CHECK) for each in failing([*report.checks])],
        "report": found.report,
    }


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


def runs_clean_command(
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

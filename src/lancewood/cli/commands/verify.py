"""``lw table verify``: whether a version is whole."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from lancewood.cli import options
from lancewood.cli.exit_codes import ExitCode
from lancewood.cli.output import Output, counted
from lancewood.cli.progress import task_runner
from lancewood.cli.revision_options import NEWEST, Revision, with_revision
from lancewood.cli.snapshots import table_to_read
from lancewood.jobs.upkeep.problems import Problem
from lancewood.jobs.upkeep.verify import VerifyReport


@with_revision
def command(
    uri: options.UriOrName,
    deep: Annotated[
        bool, typer.Option("--deep", help="Also decode every value of every data file.")
    ] = False,
    revision: Revision = NEWEST,
    storage_option: options.StorageOptions = None,
    json: options.Json = False,
) -> None:
    """Check that a version is whole.

    Files are there with their sizes and rows, deletions and row ids are in order, indices have
    their files, the newest version opens, branches and tags name versions that exist. Ends with an
    exit code of its own if something is wrong; repair tells what can be done.

    JSON keys: uri, version, deep, ok, problems, fragments, data_files, deletion_files, indices,
    refs. A problem has kind, where, text, fragment and advice.
    """
    table = table_to_read(uri, storage_option, revision)
    with task_runner(wanted=not json) as runner:
        report = table.verify(deep=deep, runner=runner)
    document = {
        "uri": table.uri,
        "version": report.version,
        "deep": report.deep,
        "ok": report.ok,
        "problems": [problem_document(each) for each in report.problems],
        "fragments": report.fragments,
        "data_files": report.data_files,
        "deletion_files": report.deletion_files,
        "indices": report.indices,
        "refs": report.refs,
    }
    output = Output(as_json=json)
    if not json and report.problems:
        output.rows(("problem", "where", "found"), map(problem_line, report.problems))
    output.document(document, _told(table.uri, report))
    if not report.ok:
        raise typer.Exit(ExitCode.CHECK_FAILED)


def problem_document(problem: Problem) -> dict[str, Any]:
    """A problem for programs."""
    return {
        "kind": problem.kind.value,
        "where": problem.where,
        "text": problem.text,
        "fragment": problem.fragment,
        "advice": problem.advice,
    }


def problem_line(problem: Problem) -> tuple[str, str, str]:
    """A problem for people."""
    return problem.kind.value, problem.where, f"{problem.text}; {problem.advice}"


def _told(uri: str, report: VerifyReport) -> str:
    checked = ", ".join(
        counted(number, thing)
        for number, thing in (
            (report.fragments, "fragment"),
            (report.data_files, "data file"),
            (report.deletion_files, "deletion file"),
        )
    )
    state = "is whole" if report.ok else f"has {counted(len(report.problems), 'problem')}"
    how = ", every value decoded" if report.deep else ""
    return f"version {report.version} of {uri} {state}: {checked} checked{how}"

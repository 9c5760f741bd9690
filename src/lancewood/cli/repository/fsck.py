"""``lw fsck``: whether history and tables are whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from lancewood.cli import options
from lancewood.cli.exit_codes import ExitCode
from lancewood.cli.output import Output, counted
from lancewood.cli.repository.finding import repository
from lancewood.cli.wording import as_typed
from lancewood.repo.fsck.problems import FsckReport


def command(
    deep: Annotated[
        bool,
        typer.Option(
            "--deep", help="Open what every commit pins, not only those that refs name; read all."
        ),
    ] = False,
    storage_option: options.StorageOptions = None,
    json: options.Json = False,
) -> None:
    """Check that history and tables are whole.

    Refs name commits, commits and pins can be read, what they pin opens with the right digest,
    tags protect what they name. Reads, and changes nothing. Ends with an exit code of its own if
    something is wrong. What git fsck says of single objects is not repeated.

    JSON keys: ok, deep, refs, commits, pins, opened, waiting, problems. A problem has kind, where,
    why, way_out; what waits to land has table, branch.
    """
    with repository(storage_option) as repo:
        report = repo.fsck(deep=deep)
    document = {
        "ok": not report.problems,
        "deep": report.deep,
        "refs": report.refs,
        "commits": report.commits,
        "pins": report.pins,
        "opened": report.opened,
        "waiting": [{"table": each.table, "branch": each.branch} for each in report.waiting],
        "problems": [
            {
                "kind": each.kind.value,
                "where": each.where,
                "why": as_typed(each.why),
                "way_out": as_typed(each.way_out),
            }
            for each in report.problems
        ],
    }
    Output(as_json=json).document(document, "\n".join(_lines(report)))
    if report.problems:
        raise typer.Exit(ExitCode.CHECK_FAILED)


def _lines(report: FsckReport) -> Iterator[str]:
    for each in report.problems:
        yield as_typed(f"{each.kind.value}: {each.where}: {each.why}. {each.way_out}")
    for spot in report.waiting:
        yield f"waits to land: {spot}; the next writer does it, or lw gc"
    checked = ", ".join(
        counted(number, thing)
        for number, thing in (
            (report.refs, "ref"),
            (report.commits, "commit"),
            (report.pins, "pin"),
        )
    )
    found = counted(len(report.problems), "problem") if report.problems else "no problem"
    yield f"{found}: {checked} checked, {counted(report.opened, 'state')} of tables opened"

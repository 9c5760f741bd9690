"""``lw gc`` and ``lw fsck``: removing what no commit needs, and checking that all is whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from lancewood.cli import options
from lancewood.cli.failing import ExitCode, as_typed
from lancewood.cli.output import counted, human_size
from lancewood.cli.progress import task_runner
from lancewood.cli.repository.names import InRepository
from lancewood.repo import FsckReport, GcReport, TableBranch


def gc_command(
    tables: Annotated[
        bool,
        typer.Option(
            "--tables", help="Then remove files of the tables that no version names any more."
        ),
    ] = False,
    in_flight: Annotated[
        str,
        typer.Option(
            "--in-flight",
            metavar="SPAN",
            help="What is younger may belong to somebody at work, and stays: 12h, 0s.",
        ),
    ] = "7d",
    dry_run: options.DryRun = False,
    *,
    here: InRepository,
) -> None:
    """Remove what no commit needs any more.

    What commits pin and has not landed lands first. Then states of tables go that no branch, tag
    or reflog leads to, branches of tables that the repository made and no longer uses, and what
    dead processes left. Nothing is done to a table outside of the repository that was never added
    here, whatever commits of others say. No version of a table goes: lw table cleanup removes old
    ones. Objects of git are left to git gc.

    JSON keys: dry_run, landed, diverged, states, transactions, branches, tables, joined, files,
    bytes, in_flight, stays, cleaned.
    """
    age = options.span(in_flight, "--in-flight")
    assert age is not None
    with here.repository() as repo, task_runner(wanted=not here.json) as runner:
        report = repo.gc(dry_run=dry_run, in_flight=age, tables=tables, runner=runner)
    here.output.document(_removed_facts(report), "\n".join(_removed_lines(report)))


def _removed_facts(report: GcReport) -> dict[str, Any]:
    return {
        "dry_run": report.dry_run,
        "landed": [_spot(each) for each in report.landed],
        "diverged": [{"table": e.table, "why": e.conflict.message} for e in report.diverged],
        "states": report.states,
        "transactions": report.transactions,
        "branches": [_spot(each) for each in report.branches],
        "tables": list(report.tables),
        "joined": list(report.joined),
        "files": list(report.files),
        "bytes": report.bytes,
        "in_flight": report.in_flight,
        "stays": [{"what": each.what, "why": each.why} for each in report.stays],
        "cleaned": [
            {**_spot(spot), "versions": list(done.versions), "bytes": done.bytes}
            for spot, done in report.cleaned
        ],
    }


def _spot(spot: TableBranch) -> dict[str, str]:
    return {"table": spot.table, "branch": spot.branch}


def _removed_lines(report: GcReport) -> Iterator[str]:
    would = "would be " if report.dry_run else ""
    for spot in report.landed:
        yield f"landed: {spot}"
    for each in report.diverged:
        yield f"diverged: {each.table}: {each.conflict.message}"
    for name in report.joined:
        yield f"{would}told where the repository is: {name}"
    gone = {"state": report.states, "transaction": report.transactions, "file": len(report.files)}
    removed = [counted(number, kind) for kind, number in gone.items() if number]
    removed += [f"branch {each.branch} of {each.table}" for each in report.branches]
    removed += [f"the place of {each}" for each in report.tables]
    if removed:
        yield f"{would}removed: {', '.join(removed)} ({human_size(report.bytes)})"
    for spot, done in report.cleaned:
        versions = counted(len(done.versions), "version")
        yield f"{would}cleaned: {spot}: {versions} ({human_size(done.bytes)})"
    for stays in report.stays:
        yield f"{stays.what} stays: {as_typed(stays.why)}"
    if report.in_flight:
        yield (
            f"{counted(report.in_flight, 'thing')} may belong to somebody at work; --in-flight "
            "says for how long they stay"
        )
    if not removed and not report.cleaned:
        yield "nothing to remove"


def fsck_command(
    deep: Annotated[
        bool,
        typer.Option(
            "--deep", help="Open what every commit pins, not only those that refs name; read all."
        ),
    ] = False,
    *,
    here: InRepository,
) -> None:
    """Check that history and tables are whole.

    Refs name commits, commits and pins can be read, what they pin opens with the right digest,
    tags protect what they name. Reads, and changes nothing. Ends with an exit code of its own if
    something is wrong. What git fsck says of single objects is not repeated.

    JSON keys: ok, deep, refs, commits, pins, opened, waiting, problems. A problem has kind, where,
    why, way_out; what waits to land has table, branch.
    """
    with here.repository() as repo:
        report = repo.fsck(deep=deep)
    document = {
        "ok": not report.problems,
        "deep": report.deep,
        "refs": report.refs,
        "commits": report.commits,
        "pins": report.pins,
        "opened": report.opened,
        "waiting": [_spot(each) for each in report.waiting],
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
    here.output.document(document, "\n".join(_problem_lines(report)))
    if report.problems:
        raise typer.Exit(ExitCode.CHECK_FAILED)


def _problem_lines(report: FsckReport) -> Iterator[str]:
    for each in report.problems:
        yield as_typed(f"{each.kind.value}: {each.where}: {each.why}. {each.way_out}")
    for spot in report.waiting:
        yield f"waits to land: {spot}; the next writer does it, or lw gc"
    seen = {"ref": report.refs, "commit": report.commits, "pin": report.pins}
    checked = ", ".join(counted(number, thing) for thing, number in seen.items())
    found = counted(len(report.problems), "problem") if report.problems else "no problem"
    yield f"{found}: {checked} checked, {counted(report.opened, 'state')} of tables opened"

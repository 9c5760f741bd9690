"""``lw doctor``, ``lw spark doctor``, ``lw table verify`` and ``repair``, ``lw fsck`` and ``gc``:
checks of a place, of Spark on this machine, of a table and of a repository, and mending them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any

import typer

import lancewood as lw
from lancewood.cli import options
from lancewood.cli.failing import ExitCode, as_typed
from lancewood.cli.options import Printing
from lancewood.cli.output import counted, human_size, picked
from lancewood.cli.progress import task_runner
from lancewood.cli.repository import InRepository
from lancewood.cli.tables import Changing, Reading, TableOptions
from lancewood.errors import InvalidInputError
from lancewood.repo import FsckReport, GcReport, TableBranch
from lancewood.spark.doctor import Trial, examine_spark
from lancewood.table import CheckStatus, Problem, StoreCheck, examine, version_words

_PROBLEM_KEYS = ("kind", "where", "text", "fragment", "advice")


def doctor_command(
    uri: options.Uri,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Leave out the checks that write.")
    ] = False,
    *,
    given: TableOptions,
) -> None:
    """Check a place and the table in it.

    What commits rest on is tried out in a directory that is removed again: rights, put-if-absent,
    listings, clock, syncing, space. Ends with an exit code of its own if a check fails.

    JSON keys: uri, ok, checks. A check has name, status (ok, warn, fail, skip), figure, advice.
    """
    store = given.address(uri).whole("the command").store
    _tell(examine(store, read_only=read_only), {"uri": store.uri}, given)


def spark_doctor_command(
    run: Annotated[
        bool, typer.Option("--run", help="Start a session, and try it out on its workers.")
    ] = False,
    master: Annotated[
        str | None,
        typer.Option(
            "--master", metavar="URL", help="With --run: where, instead of two local threads."
        ),
    ] = None,
    location: Annotated[
        str | None,
        typer.Option(
            "--place",
            metavar="URI",
            help="With --run: where a table is tried that is removed again; a cluster needs it.",
        ),
    ] = None,
    conf: Annotated[
        list[str] | None,
        typer.Option(
            "--conf", metavar="KEY=VALUE", help="With --run: a setting of Spark's. May be repeated."
        ),
    ] = None,
    *,
    given: Printing,
) -> None:
    """Say what Spark needs, and what is missing.

    Looks for pyspark, a Java, the packages that executors need, and variables that mislead Spark.
    With --run a session is started in a process of its own: its workers say what they run, and
    write and read a small table. Ends with an exit code of its own if something is missing.

    JSON keys: ok, checks. A check has name, status (ok, warn, fail, skip), figure, advice.
    """
    trial = _trial(run, master, location, conf or ())
    _tell(examine_spark(os.environ, trial), {}, given)


def _trial(
    run: bool, master: str | None, location: str | None, conf: Sequence[str]
) -> Trial | None:
    if not run:
        if master or location or conf:
            raise InvalidInputError("--master, --place and --conf are for a trial: add --run")
        return None
    settings = {}
    for each in conf:
        name, equals, value = each.partition("=")
        if not equals:
            raise InvalidInputError("--conf is not KEY=VALUE, as in spark.executor.memory=4g")
        settings[name] = value
    return Trial(master or Trial().master, location, settings)


def _tell(checks: Iterable[StoreCheck], facts: Mapping[str, str], given: Printing) -> None:
    """Print checks as they are made, then advice; raise Exit if one failed."""
    seen: list[StoreCheck] = []
    if given.json:
        seen += checks
        document: dict[str, Any] = {
            **facts,
            "ok": not _has_failed(seen),
            "checks": [picked(each, "name", "status", "figure", "advice") for each in seen],
        }
        given.output.document(document, "")
    else:
        given.output.rows(("check", "status", "seen"), _lines(checks, seen))
        for each in seen:
            if each.advice:
                print(f"{each.name}: {each.advice}")
    if _has_failed(seen):
        raise typer.Exit(ExitCode.CHECK_FAILED)


def _lines(checks: Iterable[StoreCheck], seen: list[StoreCheck]) -> Iterator[tuple[str, str, str]]:
    for each in checks:
        seen.append(each)
        yield each.name, each.status.value, each.figure


def _has_failed(checks: Iterable[StoreCheck]) -> bool:
    return any(each.status is CheckStatus.FAIL for each in checks)


def verify_command(
    uri: options.UriOrName,
    deep: Annotated[
        bool,
        typer.Option(
            "--deep",
            help="Also decode every value of every data file, and look for files that blobs name.",
        ),
    ] = False,
    *,
    read: Reading,
) -> None:
    """Check that a version is whole.

    Files are there with their sizes and rows, deletions and row ids are in order, indices have
    their files, the newest version opens, branches and tags name versions that exist. Ends with an
    exit code of its own if something is wrong; repair tells what can be done.

    JSON keys: uri, version, deep, ok, problems, fragments, data_files, deletion_files, indices,
    refs. A problem has kind, where, text, fragment and advice.
    """
    table = read.table(uri)
    with read.runner() as runner:
        report = table.verify(deep=deep, runner=runner)
    if not read.json and report.problems:
        read.output.rows(("problem", "where", "found"), map(_problem_line, report.problems))
    read.answer(
        table,
        _summary(table.uri, report),
        deep=report.deep,
        ok=report.ok,
        problems=[picked(each, *_PROBLEM_KEYS) for each in report.problems],
        **picked(report, "fragments", "data_files", "deletion_files", "indices", "refs"),
    )
    if not report.ok:
        raise typer.Exit(ExitCode.CHECK_FAILED)


def _problem_line(problem: Problem) -> tuple[str, str, str]:
    """A problem for people."""
    return problem.kind.value, problem.where, f"{problem.text}; {problem.advice}"


def _summary(uri: str, report: lw.VerifyReport) -> str:
    seen = {
        "fragment": report.fragments,
        "data file": report.data_files,
        "deletion file": report.deletion_files,
    }
    checked = ", ".join(counted(number, thing) for thing, number in seen.items())
    state = "is whole" if report.ok else f"has {counted(len(report.problems), 'problem')}"
    how = ", every value decoded" if report.deep else ""
    return f"{version_words(report.version)} of {uri} {state}: {checked} checked{how}"


def repair_command(
    uri: options.Uri,
    apply: Annotated[bool, typer.Option("--apply", help="Do what is proposed.")] = False,
    *,
    change: Changing,
) -> None:
    """Propose how to mend a table, and do it if told so.

    Without --apply nothing changes. What may still hold rows is set aside, never deleted. Works on
    a table that does not open. Ends with an exit code of its own if something is wrong that none of
    it mends.

    JSON keys: uri, dry_run, proposals, remaining. A proposal has action, where, finding and effect,
    what remains is told as by verify.
    """
    location = change.whole_uri(uri)
    with change.runner() as runner:
        report = lw.repair(uri, dry_run=not apply, runner=runner, access=change.access)
    document = {
        "uri": location,
        "dry_run": report.dry_run,
        "proposals": [
            picked(each, "action", "where", "finding", "effect") for each in report.proposals
        ],
        "remaining": [picked(each, *_PROBLEM_KEYS) for each in report.remaining],
    }
    output, json = change.output, change.json
    if not json and report.proposals:
        lines = [(e.action, e.where, f"{e.finding}; {e.effect}") for e in report.proposals]
        output.rows(("action", "where", "why, and what it does"), lines)
    if not json and report.remaining:
        output.rows(("not mended", "where", "found"), map(_problem_line, report.remaining))
    text = f"{location} needs no repair"
    if report.proposals:
        steps = counted(len(report.proposals), "step")
        text = f"did {steps} on {location}" if apply else f"{steps} for {location}: say --apply"
    elif report.remaining:
        text = f"nothing can be done for {location}"
    output.document(document, text)
    if report.remaining:
        raise typer.Exit(ExitCode.CHECK_FAILED)


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
        **picked(report, "states", "transactions"),
        "branches": [_spot(each) for each in report.branches],
        **picked(report, "tables", "joined", "files", "bytes", "in_flight"),
        "stays": [picked(each, "what", "why") for each in report.stays],
        "cleaned": [
            {**_spot(spot), **picked(done, "versions", "bytes")} for spot, done in report.cleaned
        ],
    }


def _spot(spot: TableBranch) -> dict[str, str]:
    return picked(spot, "table", "branch")


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
        **picked(report, "deep", "refs", "commits", "pins", "opened"),
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
    here.output.document(document, "\n".join(_fsck_lines(report)))
    if report.problems:
        raise typer.Exit(ExitCode.CHECK_FAILED)


def _fsck_lines(report: FsckReport) -> Iterator[str]:
    for each in report.problems:
        yield as_typed(f"{each.kind.value}: {each.where}: {each.why}. {each.way_out}")
    for spot in report.waiting:
        yield f"waits to land: {spot}; the next writer does it, or lw gc"
    seen = {"ref": report.refs, "commit": report.commits, "pin": report.pins}
    checked = ", ".join(counted(number, thing) for thing, number in seen.items())
    found = counted(len(report.problems), "problem") if report.problems else "no problem"
    yield f"{found}: {checked} checked, {counted(report.opened, 'state')} of tables opened"

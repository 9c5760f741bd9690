"""``lw table repair``: what would make a damaged table whole, and doing it."""

from __future__ import annotations

from typing import Annotated

import typer

from lancewood.cli import options
from lancewood.cli.commands.verify import problem_document, problem_line
from lancewood.cli.exit_codes import ExitCode
from lancewood.cli.output import Output, counted
from lancewood.cli.progress import task_runner
from lancewood.cli.snapshots import opened_place
from lancewood.jobs.upkeep.repair import repair


def command(
    uri: options.Uri,
    apply: Annotated[bool, typer.Option("--apply", help="Do what is proposed.")] = False,
    storage_option: options.StorageOptions = None,
    unsafe: options.Unsafe = False,
    json: options.Json = False,
) -> None:
    """Propose how to mend a table, and do it if told so.

    Without --apply nothing changes. What may still hold rows is set aside, never deleted. Works on
    a table that does not open. Ends with an exit code of its own if something is wrong that none of
    it mends.

    JSON keys: uri, dry_run, proposals, remaining. A proposal has action, where, finding and effect,
    what remains is told as by verify.
    """
    place = opened_place(uri, storage_option, unsafe=unsafe)
    with task_runner(wanted=not json) as runner:
        report = repair(place, runner, dry_run=not apply)
    document = {
        "uri": place.uri,
        "dry_run": report.dry_run,
        "proposals": [
            {
                "action": each.action,
                "where": each.where,
                "finding": each.finding,
                "effect": each.effect,
            }
            for each in report.proposals
        ],
        "remaining": [problem_document(each) for each in report.remaining],
    }
    output = Output(as_json=json)
    if not json and report.proposals:
        lines = [(e.action, e.where, f"{e.finding}; {e.effect}") for e in report.proposals]
        output.rows(("action", "where", "why, and what it does"), lines)
    if not json and report.remaining:
        output.rows(("not mended", "where", "found"), map(problem_line, report.remaining))
    told = f"{place.uri} needs no repair"
    if report.proposals:
        steps = counted(len(report.proposals), "step")
        told = f"did {steps} on {place.uri}" if apply else f"{steps} for {place.uri}: say --apply"
    elif report.remaining:
        told = f"nothing can be done for {place.uri}"
    output.document(document, told)
    if report.remaining:
        raise typer.Exit(ExitCode.CHECK_FAILED)

"""``lw runs clean``: branches of runs that nobody finished go."""

from __future__ import annotations

from typing import Annotated

import typer

from lancewood.cli import options
from lancewood.cli.output import UNCHANGED, Output, counted
from lancewood.cli.pipeline.choosing import OfPipeline
from lancewood.cli.repository.finding import repository
from lancewood.pipeline.running.leftovers import clean


def command(
    older_than: Annotated[
        str,
        typer.Option(
            "--older-than", metavar="SPAN", help="Only if nothing was written for so long: 7d, 0s."
        ),
    ] = "7d",
    pipeline: OfPipeline = None,
    dry_run: options.DryRun = False,
    storage_option: options.StorageOptions = None,
    json: options.Json = False,
) -> None:
    """Remove the branches of runs that nobody finished.

    In the repository and in its tables. A run that is at work is left alone, whatever its age; so
    is the current branch. Reports, and rows that checks kept, stay where they are.

    JSON keys: dry_run, runs.
    """
    age = options.span(older_than, "--older-than")
    assert age is not None
    with repository(storage_option) as repo:
        gone = clean(repo, older_than=age, dry_run=dry_run, pipeline=pipeline)
    told = "nothing to remove"
    if gone:
        names = ", ".join(gone)
        what = counted(len(gone), "run")
        removed = f"the branches of {what}: {names}"
        told = f"would remove {removed}; {UNCHANGED}" if dry_run else f"removed {removed}"
    Output(as_json=json).document({"dry_run": dry_run, "runs": list(gone)}, told)

"""``lw runs list``: the runs of a repository."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from lancewood.cli import options
from lancewood.cli.output import Output, moment
from lancewood.cli.pipeline.choosing import OfPipeline
from lancewood.cli.repository.finding import repository
from lancewood.cli.repository.telling import short
from lancewood.pipeline.running.known_runs import KnownRun, known_runs

_KEYS = ("run", "pipeline", "state", "time", "branch", "commit", "report")


def command(
    pipeline: OfPipeline = None,
    limit: Annotated[
        int | None, typer.Option("--max-count", "-n", metavar="N", min=0, help="At most N runs.")
    ] = None,
    json: options.Json = False,
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
        if json:
            Output(as_json=True).rows(_KEYS, _facts(found))
            return
        columns = ("run", "pipeline", "state", "time", "at")
        Output(as_json=False).rows(columns, map(_cells, found))


def _facts(runs: list[KnownRun]) -> Iterator[tuple[Any, ...]]:
    for each in runs:
        when = moment(each.when)
        yield each.run, each.pipeline, each.state, when, each.branch, each.commit, each.report


def _cells(each: KnownRun) -> tuple[Any, ...]:
    at = each.branch if each.commit is None else short(each.commit)
    return each.run, each.pipeline, each.state, moment(each.when), at

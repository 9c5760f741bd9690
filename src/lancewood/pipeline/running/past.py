"""Earlier runs of a pipeline, for the plots of a report: from commits alone, and quickly."""

from __future__ import annotations

from itertools import islice

from lancewood.pipeline.definition.model import Pipeline
from lancewood.pipeline.report.facts import PastRun
from lancewood.pipeline.running.ledger import decode_entry, entry_bytes, entry_file
from lancewood.repo.repository import Repository

MOST_RUNS = 30
_MOST_COMMITS = 300


def past_runs(repository: Repository, pipeline: Pipeline, commit: str | None) -> list[PastRun]:
    """The runs that led to a commit, that one included, with the rows of the tables that the
    pipeline loads; at most thirty, the newest last. Commits that are further back are not read."""
    if commit is None:
        return []
    tables = dict.fromkeys(each.table for each in pipeline.targets)
    found: list[PastRun] = []
    newer: tuple[bytes, PastRun] | None = None
    commits = islice(repository.log(commit, first_parent=True), _MOST_COMMITS)
    for each in commits:
        view = repository.at(each.hash)
        data = entry_bytes(view, pipeline.name)
        if newer is not None and data != newer[0]:
            found.append(newer[1])
            if len(found) == MOST_RUNS:
                newer = None
                break
        if data is None:
            newer = None
            continue
        entry = decode_entry(data, entry_file(pipeline.name))
        pins = {name: view.pin(name).rows for name in tables if name in view.tables}
        rows = {name: count for name, count in pins.items() if count is not None}
        newer = data, PastRun(entry.run, each.hash, each.committer.seconds, rows)
    if newer is not None:
        found.append(newer[1])
    return found[::-1]

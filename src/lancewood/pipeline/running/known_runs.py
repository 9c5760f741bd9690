"""The runs that a repository knows of: those with a branch, and those that were published.

Reads refs, commits and the folders of runs. Changes nothing, and starts no Spark.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from lancewood.git.hashes import Hash
from lancewood.pipeline.report.facts import Ending
from lancewood.pipeline.running.claim import is_claimed
from lancewood.pipeline.running.folder import RunFolder
from lancewood.pipeline.running.leftovers import last_written, unfinished_runs
from lancewood.pipeline.running.resume import is_of_a_run
from lancewood.pipeline.running.run_ids import run_branch
from lancewood.repo.repository import Repository

AT_WORK, CUT_OFF = "at work", "cut off"
_MARKS = "runs/"


@dataclass(frozen=True, slots=True)
class KnownRun:
    """One run, and how it stands."""

    run: str
    pipeline: str | None
    """None where nothing tells: its folder is gone."""
    state: str
    """``at work``, ``cut off``, or how it ended: ``published``, ``checks failed``, …"""
    when: datetime
    """When its branch last moved, or when it was published."""
    branch: str | None = None
    """Of a run that was not published."""
    commit: Hash | None = None
    """That published it."""
    report: str | None = None


def known_runs(repository: Repository, pipeline: str | None = None) -> list[KnownRun]:
    """Runs that have a branch, and then published ones, the newest first of each kind;
    ``pipeline`` takes those of one pipeline. A branch that a person made is none of them."""
    found = [*_unfinished(repository, pipeline)], [*_published(repository, pipeline)]
    return [each for kind in found for each in sorted(kind, key=lambda of: of.when, reverse=True)]


def _unfinished(repository: Repository, pipeline: str | None) -> Iterator[KnownRun]:
    for run in unfinished_runs(repository):
        branch = run_branch(run)
        folders = RunFolder.all_of(repository.path, run)
        for folder in folders:
            if pipeline in (None, folder.path.parent.name):
                yield KnownRun(
                    run=run,
                    pipeline=folder.path.parent.name,
                    state=_state(repository.path, run, folder),
                    when=last_written(repository, branch),
                    branch=branch,
                    report=_report(folder),
                )
        if not folders and pipeline is None and is_of_a_run(repository, run):
            yield KnownRun(run, None, CUT_OFF, last_written(repository, branch), branch)


def _published(repository: Repository, pipeline: str | None) -> Iterator[KnownRun]:
    prefix = _MARKS if pipeline is None else f"{_MARKS}{pipeline}/"
    for name, commit in repository.marks.list(prefix).items():
        of, _, run = name.removeprefix(_MARKS).partition("/")
        seconds = repository.at(commit).commit.committer.seconds
        yield KnownRun(
            run=run,
            pipeline=of,
            state=Ending.PUBLISHED.value,
            when=datetime.fromtimestamp(seconds, UTC),
            commit=commit,
            report=_report(RunFolder.of(repository.path, of, run)),
        )


def _state(repository: Path, run: str, folder: RunFolder) -> str:
    if is_claimed(repository, run):
        return AT_WORK
    if not folder.is_over:
        return CUT_OFF
    try:
        return str(json.loads(folder.data.read_bytes())["ending"])
    except (OSError, ValueError, KeyError, TypeError):
        return Ending.FAILED.value


def _report(folder: RunFolder) -> str | None:
    return str(folder.page) if folder.page.exists() else None

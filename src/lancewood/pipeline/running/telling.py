"""What a report tells besides the run itself: the commits around it, earlier runs, what to do next.

Best told from the repository as it is when the run is over. Reads, and writes nothing.
"""

from __future__ import annotations

import platform
import shlex
from typing import Any

from lancewood.errors import NotFoundError
from lancewood.git.graph import lines
from lancewood.git.names import HEADS
from lancewood.git.objects import Commit
from lancewood.pipeline.definition.model import Pipeline
from lancewood.pipeline.report.facts import Ending, RunFacts
from lancewood.pipeline.running.past import past_runs
from lancewood.repo.repository import Repository
from lancewood.version import LIBRARY, RELEASE

_MOST_COMMITS = 20


def tell(facts: RunFacts, pipeline: Pipeline, repository: Repository, spark: Any) -> None:
    """Fill in the facts that the repository tells."""
    facts.versions = {LIBRARY: RELEASE, "python": platform.python_version()}
    if spark is not None:
        facts.versions["spark"] = str(spark.version)
    try:
        tip = repository.at(HEADS + pipeline.branch).hash
    except NotFoundError:
        tip = None
    if tip is not None:
        commits = repository.log(tip, limit=_MOST_COMMITS)
        facts.graph = [*lines(commits, _one_line)]
    facts.past = past_runs(repository, pipeline, facts.commit or tip)
    facts.what_next = what_next(facts, is_batch=pipeline.stream is not None)


def what_next(facts: RunFacts, *, is_batch: bool = False) -> list[str]:
    """Commands that a person may want to type now; a stream names the runs of its batches."""
    at = shlex.quote(facts.repository)
    said = [f"--param={name}={value}" for name, value in facts.parameters.items()]
    said += [f"--full-refresh-table={each}" for each in facts.full_refresh]
    anew = shlex.join(["lw", "run", facts.file, *said])
    again = anew if is_batch else f"{anew} --run-id {shlex.quote(facts.run)}"
    match facts.ending:
        case Ending.PUBLISHED | Ending.ALREADY_PUBLISHED:
            shown = str(facts.commit)[:12]
            return [f"cd {at}", f"lw show {shown}", "lw log --graph --oneline"]
        case Ending.CHECKS_FAILED | Ending.TOO_MANY_BAD_ROWS:
            look = f"tables {facts.run_branch}"
            if facts.base_commit is not None:
                look = f"diff {facts.branch} {facts.run_branch}"
            return [f"cd {at}", f"lw {look}", *_bad_rows(facts), again]
        case Ending.FAILED:
            return [again]
        case Ending.DRY_RUN | Ending.REVERTED:
            return [anew]
        case Ending.NOTHING_NEW:
            return []


def _bad_rows(facts: RunFacts) -> list[str]:
    """The command that shows the rows of which there are too many: they are not on main."""
    if facts.ending is not Ending.TOO_MANY_BAD_ROWS or facts.quarantine is None:
        return []
    return [f"lw table cat tables/{facts.quarantine.table}.lance@{facts.run_branch}"]


def _one_line(commit: Commit) -> str:
    subject = commit.message.strip().partition("\n")[0]
    return f"{commit.hash[:12]} {subject[:100]}"

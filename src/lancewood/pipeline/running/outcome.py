"""What a run reports at its end: its error, the commits around it, earlier runs, what to do next.

Errors carry the facts of the run and no secrets. The rest is read from the repository as it is when
the run is over; nothing is written.
"""

from __future__ import annotations

import platform
import shlex
from itertools import islice
from typing import Any

from lancewood.errors import LancewoodError, NotFoundError, RunFailedError
from lancewood.pipeline.definition.model import Pipeline
from lancewood.pipeline.definition.parameters import hide
from lancewood.pipeline.frames.refusals import failed, spark_errors
from lancewood.pipeline.report.facts import Ending, PastRun, RunFacts
from lancewood.pipeline.running.ledger import decode_entry, entry_bytes, entry_file
from lancewood.repo import HEADS, Commit, Repository, graph_lines
from lancewood.version import LIBRARY, RELEASE

FACTS = "run_facts"
"""The key of ``error.facts`` for the facts of the run."""
_MOST_CHARACTERS = 2_000
_DEEPEST = 20
_MOST_RUNS = 30
_MOST_PAST_COMMITS = 300
_MOST_SHOWN_COMMITS = 20


def shown(pipeline: Pipeline, error: BaseException) -> str:
    """What may be shown of an error: its text without secrets and Java's stacks."""
    return _plain(pipeline, error).message[:_MOST_CHARACTERS]


def failure(pipeline: Pipeline, error: Exception, facts: RunFacts) -> LancewoodError:
    """The error to raise in place of another one: our errors keep their class, others, including
    Spark's, become a RunFailedError.

    If a text held a secret, the cause is left out, as it would reveal it.
    """
    found = _plain(pipeline, error)
    kind = RunFailedError if type(found) is LancewoodError else type(found)
    made = kind(found.message, **{**found.facts, FACTS: facts})
    for note in getattr(found, "__notes__", ()):
        made.add_note(hide(pipeline, note))
    made.add_note(f"run {facts.run} of {facts.pipeline}: {facts.folder or facts.repository}")
    made.__cause__ = None if _holds_secrets(pipeline, error) else error
    return made


def _plain(pipeline: Pipeline, error: BaseException) -> LancewoodError:
    if isinstance(error, LancewoodError):
        return type(error)(hide(pipeline, error.message), **error.facts)
    if isinstance(error, spark_errors()):
        return failed(pipeline, error, "the run")
    text = hide(pipeline, str(error)) or "it says nothing else"
    return LancewoodError(f"the run failed: {type(error).__name__}: {text}")


def _holds_secrets(pipeline: Pipeline, error: BaseException) -> bool:
    """Whether an error, or what led to it, contains a secret; in doubt it does."""
    at: BaseException | None = error
    for _ in range(_DEEPEST):
        if at is None:
            return False
        text = f"{at} {at!r}"
        if hide(pipeline, text) != text:
            return True
        at = at.__cause__ or at.__context__
    return True


def complete(facts: RunFacts, pipeline: Pipeline, repository: Repository, spark: Any) -> None:
    """Fill in the facts that come from the repository."""
    facts.versions = {LIBRARY: RELEASE, "python": platform.python_version()}
    if spark is not None:
        facts.versions["spark"] = str(spark.version)
    try:
        tip = repository.at(HEADS + pipeline.branch).hash
    except NotFoundError:
        tip = None
    if tip is not None:
        commits = repository.log(tip, limit=_MOST_SHOWN_COMMITS)
        facts.graph = [*graph_lines(commits, _one_line)]
    facts.past = past_runs(repository, pipeline, facts.commit or tip)
    facts.what_next = what_next(facts, is_batch=pipeline.stream is not None)


def what_next(facts: RunFacts, *, is_batch: bool = False) -> list[str]:
    """Commands that a person may want to type next; a stream names the runs of its batches."""
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
    """The command that shows the bad rows: they are not on main."""
    if facts.ending is not Ending.TOO_MANY_BAD_ROWS or facts.quarantine is None:
        return []
    return [f"lw table cat tables/{facts.quarantine.table}.lance@{facts.run_branch}"]


def _one_line(commit: Commit) -> str:
    subject = commit.message.strip().partition("\n")[0]
    return f"{commit.hash[:12]} {subject[:100]}"


def past_runs(repository: Repository, pipeline: Pipeline, commit: str | None) -> list[PastRun]:
    """The runs up to a commit, newest last, with the rows of the tables that the pipeline loads. At
    most ``_MOST_RUNS``, from a limited number of commits."""
    if commit is None:
        return []
    tables = dict.fromkeys(each.table for each in pipeline.targets)
    found: list[PastRun] = []
    newer: tuple[bytes, PastRun] | None = None
    commits = islice(repository.log(commit, first_parent=True), _MOST_PAST_COMMITS)
    for each in commits:
        view = repository.at(each.hash)
        data = entry_bytes(view, pipeline.name)
        if newer is not None and data != newer[0]:
            found.append(newer[1])
            if len(found) == _MOST_RUNS:
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

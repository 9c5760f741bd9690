"""How a run that was cut off continues, and when the branches of unfinished runs are removed.

Each loaded target becomes a commit on the run's branch, whose message carries the progress so far:
it is there together with the rows, or not at all. A run that was cut off continues after the last
such commit if everything else is as before: the commit it started from, the definition, parameters,
the Python beside the file and, unless everything was loaded, what incremental sources have to
offer. Uncommitted writes are dropped. A run that ended and failed starts anew, since the data may
be the reason.

A failed run leaves its branch for people to look at; it is removed when it is old enough. A branch
that a process holds, or that no run has made, is left alone.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from lancewood.errors import InvalidInputError, LancewoodError, NotFoundError
from lancewood.git.hashes import Hash
from lancewood.git.names import HEADS
from lancewood.git.objects import Commit
from lancewood.pipeline.report.facts import QuarantineFacts, SourceFacts, TargetFacts
from lancewood.pipeline.running.context import RunContext
from lancewood.pipeline.running.folder import RUN_BRANCHES, RunFolder, claimed, run_branch
from lancewood.pipeline.running.ledger import LedgerEntry, entry_at
from lancewood.repo.repository import Repository

_KEY = "Lancewood-Progress: "
_MOST_COMMITS = 10_000
"""Of a run's branch; a target makes a few."""
F = TypeVar("F", SourceFacts, TargetFacts, QuarantineFacts)
OLDER_THAN = timedelta(days=7)


@dataclass
class Progress:
    """What a run has done on its branch."""

    pipeline: str
    run: str
    digest: str
    """Of the definition."""
    code: str
    """The digest of the Python beside it."""
    base: Hash | None
    started: str
    """ISO 8601, UTC: when the first attempt began."""
    news: str
    """What incremental sources have to offer: which files, which versions of tables."""
    targets: list[TargetFacts] = field(default_factory=list)
    """The loaded ones, in the order of the file."""
    sources: list[SourceFacts] = field(default_factory=list)
    quarantine: QuarantineFacts | None = None


def encode_message(title: str, progress: Progress) -> str:
    """The message of a commit on the run's branch."""
    return f"{title}\n\n{_KEY}{json.dumps(asdict(progress), ensure_ascii=False)}"


def decode_message(message: str) -> Progress | None:
    """The progress in a message; None if there is none that can be understood."""
    # Not ``splitlines``: JSON does not escape all line ends that Unicode knows.
    line = next((each for each in message.split("\n") if each.startswith(_KEY)), None)
    if line is None:
        return None
    try:
        found = json.loads(line.removeprefix(_KEY))
        quarantine = found["quarantine"]
        plain = ("pipeline", "run", "digest", "code", "base", "started", "news")
        return Progress(
            **{name: found[name] for name in plain},
            targets=[_facts(TargetFacts, each) for each in found["targets"]],
            sources=[_facts(SourceFacts, each) for each in found["sources"]],
            quarantine=None if quarantine is None else _facts(QuarantineFacts, quarantine),
        )
    except (ValueError, LookupError, TypeError):
        return None


def find_progress(commits: Iterable[Commit], base: Hash | None) -> Progress | None:
    """The newest progress in these commits, newest first, down to where the branch began."""
    for _, commit in zip(range(_MOST_COMMITS), commits, strict=False):
        if commit.hash == base:
            return None
        found = decode_message(commit.message)
        if found is not None:
            return found
    return None


def _facts(kind: type[F], found: dict[str, Any]) -> F:
    known = {each.name for each in fields(kind)}
    return kind(**{name: _plain(value) for name, value in found.items() if name in known})


def _plain(value: Any) -> Any:
    """A value as it was before JSON: lists there are tuples in facts."""
    return tuple(map(_plain, value)) if isinstance(value, list) else value


@dataclass(frozen=True, slots=True)
class Left:
    """What is left of a run that was cut off and can continue."""

    progress: Progress
    entry: LedgerEntry | None
    """What to publish, if everything was loaded."""


def find_left(context: RunContext, folder: RunFolder) -> Left | None:
    """What a run can continue from; None if it starts anew. The caller, who has the frames, checks
    that incremental sources still offer the same (``Progress.news``)."""
    repository, pipeline = context.repository, context.pipeline
    try:
        view = repository.at(HEADS + context.branch)
    except NotFoundError:
        return None
    if folder.is_over or not folder.is_there:
        return None
    progress = find_progress(
        repository.log(HEADS + context.branch, first_parent=True), context.base
    )
    if progress is None:
        return None
    then = progress.pipeline, progress.run, progress.digest, progress.code, progress.base
    if then != (pipeline.name, context.run, pipeline.digest, context.code, context.base):
        return None
    entry = entry_at(view, pipeline.name)
    is_loaded = entry is not None and entry.run == context.run
    return Left(progress, entry if is_loaded else None)


def is_of_a_run(repository: Repository, run: str) -> bool:
    """Whether the branch of a run id was made by a run and not by a person: the run's folder
    exists, or a commit of the branch mentions the run."""
    if RunFolder.all_of(repository.path, run):
        return True
    try:
        tip = repository.at(HEADS + run_branch(run)).commit
    except NotFoundError:
        return True  # there is no branch
    progress = decode_message(tip.message)
    return progress is not None and progress.run == run


def go_on(context: RunContext) -> None:
    """Bring the tables back to what the run's branch has committed."""
    context.repository.reset(HEADS + context.branch, branch=context.branch)


def begin(context: RunContext, folder: RunFolder) -> None:
    """A fresh branch at the base. An existing one is removed first, with the branches of its
    tables, before anything says that the run is at work again."""
    branches = context.repository.branches
    remove_branch(context)
    folder.begin()
    if context.base is not None:
        # An earlier branch of that name may have been deleted without those of its tables.
        branches.delete_from_tables(context.branch, context.base)
    branches.create(context.branch, at=context.base)
    go_on(context)


def remove_branch(context: RunContext) -> None:
    """Remove the run's branch from the repository and its tables; harmless if it is gone."""
    with suppress(NotFoundError):
        context.repository.branches.delete(context.branch, force=True, tables=True)


def clean(
    repository: Repository | str | os.PathLike[str],
    *,
    older_than: timedelta = OLDER_THAN,
    dry_run: bool = False,
    pipeline: str | None = None,
) -> tuple[str, ...]:
    """Remove the branches of runs that were not published, in the repository and in its tables;
    returns the ids of those runs. ``dry_run`` only lists them.

    A branch goes if it was last written more than ``older_than`` ago and nobody is at work on it;
    ``pipeline`` restricts this to one pipeline. The current branch stays, as do reports and kept
    rows.
    """
    if older_than < timedelta(0):
        raise InvalidInputError(f"older_than is {older_than}: it takes a time of 0 or more")
    opened = repository if isinstance(repository, Repository) else Repository.open(repository)
    latest = datetime.now(UTC) - older_than
    return tuple(
        run
        for run in unfinished_runs(opened)
        if (pipeline is None or RunFolder.of(opened.path, pipeline, run).is_there)
        and is_of_a_run(opened, run)
        and _goes(opened, run, latest, dry_run=dry_run)
    )


def unfinished_runs(repository: Repository) -> list[str]:
    """The ids of runs with a branch, or with the remains of one."""
    names = {*repository.branches.list(RUN_BRANCHES), *repository.branches.leaving()}
    found = (each.removeprefix(RUN_BRANCHES) for each in names if each.startswith(RUN_BRANCHES))
    return sorted(each for each in found if "/" not in each)


def _goes(repository: Repository, run: str, latest: datetime, *, dry_run: bool) -> bool:
    branch = RUN_BRANCHES + run
    if last_written(repository, branch) > latest:
        return False
    try:
        with claimed(Path(repository.path), run):
            if last_written(repository, branch) > latest:
                return False
            if not dry_run:
                with suppress(NotFoundError):
                    repository.branches.delete(branch, force=True, tables=True)
    except LancewoodError:
        return False
    return True


def last_written(repository: Repository, branch: str) -> datetime:
    """When a branch last moved; the commit it started from may be older."""
    moved = next(iter(repository.reflog(HEADS + branch)), None)
    if moved is not None:
        return datetime.fromtimestamp(moved.by.seconds, UTC)
    try:
        seconds = repository.at(HEADS + branch).commit.committer.seconds
    except NotFoundError:
        return datetime.fromtimestamp(0, UTC)  # its deletion was cut off
    return datetime.fromtimestamp(seconds, UTC)

"""How far a run has come, told by the commits of its own branch.

Each target that is loaded becomes a commit there, and its message carries what was done so far: it
is there with the rows, or not at all. After a crash the newest one tells where to go on.

What a run that was cut off has left, and how it goes on: from there, or from the beginning.

It goes on after the last target that is committed on its branch, if nothing that counts is another
than before: the commit it began with, the definition, the parameters, the Python beside the file,
and, as long as not everything was loaded, what incremental sources have to give. What it wrote and
did not commit goes. A run that came to an end, and failed, begins anew: what made it fail may be in
the data.

Branches of runs that nobody finished: they go when they are old enough.

A run that fails leaves its branch for people to look at. One that somebody holds at this moment is
left alone, whatever its age, and so is a branch that no run has made.
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
from lancewood.pipeline.running.folder import RUN_BRANCHES, RunFolder, claimed, run_branch
from lancewood.pipeline.running.ground import RunGround
from lancewood.pipeline.running.ledger import Entry, entry_at
from lancewood.repo.repository import Repository

_KEY = "Lancewood-Progress: "
_MOST_COMMITS = 10_000
"""Of a run's branch; a target makes a few."""

F = TypeVar("F", SourceFacts, TargetFacts, QuarantineFacts)


@dataclass
class Progress:
    """What a run has done on its branch."""

    pipeline: str
    run: str
    digest: str
    """Of the definition."""
    code: str
    """Of the Python beside it."""
    base: Hash | None
    started: str
    """ISO 8601, UTC: of the attempt that began it."""
    news: str
    """Of what incremental sources have to give: which files, which versions of tables."""
    targets: list[TargetFacts] = field(default_factory=list)
    """Those that are loaded, in the order of the file."""
    sources: list[SourceFacts] = field(default_factory=list)
    quarantine: QuarantineFacts | None = None


def encode_message(title: str, progress: Progress) -> str:
    """The message of a commit that brought a run so far."""
    return f"{title}\n\n{_KEY}{json.dumps(asdict(progress), ensure_ascii=False)}"


def decode_message(message: str) -> Progress | None:
    """What a message tells of a run; None where it tells nothing that can be understood."""
    # Not ``splitlines``: JSON leaves some ends of lines as they are that Unicode knows.
    line = next((each for each in message.split("\n") if each.startswith(_KEY)), None)
    if line is None:
        return None
    try:
        found = json.loads(line.removeprefix(_KEY))
        quarantine = found["quarantine"]
        return Progress(
            pipeline=found["pipeline"],
            run=found["run"],
            digest=found["digest"],
            code=found["code"],
            base=found["base"],
            started=found["started"],
            news=found["news"],
            targets=[_facts(TargetFacts, each) for each in found["targets"]],
            sources=[_facts(SourceFacts, each) for each in found["sources"]],
            quarantine=None if quarantine is None else _facts(QuarantineFacts, quarantine),
        )
    except (ValueError, LookupError, TypeError):
        return None


def find_progress(commits: Iterable[Commit], base: Hash | None) -> Progress | None:
    """The newest that is told by commits, the newest first, down to where the branch began."""
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
    """As it was before it went through JSON: what are lists there are tuples in facts."""
    return tuple(map(_plain, value)) if isinstance(value, list) else value


@dataclass(frozen=True, slots=True)
class Left:
    """A run that was cut off, and can go on."""

    progress: Progress
    entry: Entry | None
    """What is to be published of it, if everything was loaded."""


def find_left(ground: RunGround, folder: RunFolder) -> Left | None:
    """What a run can go on from; None if it begins anew. That incremental sources still give what
    they gave then (``Progress.news``) is for who has the frames to see."""
    repository, pipeline = ground.repository, ground.pipeline
    try:
        view = repository.at(HEADS + ground.branch)
    except NotFoundError:
        return None
    if folder.is_over or not folder.is_there:
        return None
    progress = find_progress(repository.log(HEADS + ground.branch, first_parent=True), ground.base)
    if progress is None:
        return None
    then = progress.pipeline, progress.run, progress.digest, progress.code, progress.base
    if then != (pipeline.name, ground.run, pipeline.digest, ground.code, ground.base):
        return None
    entry = entry_at(view, pipeline.name)
    is_loaded = entry is not None and entry.run == ground.run
    return Left(progress, entry if is_loaded else None)


def is_of_a_run(repository: Repository, run: str) -> bool:
    """Whether the branch that a run id stands for was made by a run, and not by a person: the
    folder of the run is there, or a commit of the branch tells of it."""
    if RunFolder.all_of(repository.path, run):
        return True
    try:
        tip = repository.at(HEADS + run_branch(run)).commit
    except NotFoundError:
        return True  # there is none
    progress = decode_message(tip.message)
    return progress is not None and progress.run == run


def go_on(ground: RunGround) -> None:
    """Bring the tables back to what the run's branch has committed."""
    ground.repository.reset(HEADS + ground.branch, branch=ground.branch)


def begin(ground: RunGround, folder: RunFolder) -> None:
    """A fresh branch at the base; one that is there goes, with its branches of tables, before
    anything says that the run is at work again."""
    branches = ground.repository.branches
    remove_branch(ground)
    folder.begin()
    if ground.base is not None:
        # Who deleted an earlier branch of that name may have left those of its tables.
        branches.delete_from_tables(ground.branch, ground.base)
    branches.create(ground.branch, at=ground.base)
    go_on(ground)


def remove_branch(ground: RunGround) -> None:
    """The run's branch goes, in the repository and in its tables; once more does no harm."""
    with suppress(NotFoundError):
        ground.repository.branches.delete(ground.branch, force=True, tables=True)


OLDER_THAN = timedelta(days=7)


def clean(
    repository: Repository | str | os.PathLike[str],
    *,
    older_than: timedelta = OLDER_THAN,
    dry_run: bool = False,
    pipeline: str | None = None,
) -> tuple[str, ...]:
    """Remove the branches of runs that were not published, in the repository and in its tables;
    the ids of those runs. ``dry_run`` only tells which.

    They go if they were last written before ``older_than``, and nobody is at work on them;
    ``pipeline`` takes those of one pipeline only. A branch that cannot go, because it is the
    current one, stays. Rows that a check kept and reports stay.
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
    """The ids of runs with a branch, or with what is left of one."""
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
    """When a branch last moved: the commit that it began with may be old."""
    moved = next(iter(repository.reflog(HEADS + branch)), None)
    if moved is not None:
        return datetime.fromtimestamp(moved.by.seconds, UTC)
    try:
        seconds = repository.at(HEADS + branch).commit.committer.seconds
    except NotFoundError:
        return datetime.fromtimestamp(0, UTC)  # its deletion was cut off
    return datetime.fromtimestamp(seconds, UTC)

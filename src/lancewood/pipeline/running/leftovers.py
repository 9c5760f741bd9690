"""Branches of runs that nobody finished: they go when they are old enough.

A run that fails leaves its branch for people to look at. One that somebody holds at this moment is
left alone, whatever its age, and so is a branch that no run has made.
"""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from lancewood.errors import InvalidInputError, LancewoodError, NotFoundError
from lancewood.git.names import HEADS
from lancewood.pipeline.running.claim import claimed
from lancewood.pipeline.running.folder import RunFolder
from lancewood.pipeline.running.resume import is_of_a_run
from lancewood.pipeline.running.run_ids import RUN_BRANCHES
from lancewood.repo.repository import Repository

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

"""What a run that was cut off has left, and how it goes on: from there, or from the beginning.

It goes on after the last target that is committed on its branch, if nothing that counts is another
than before: the commit it began with, the definition, the parameters, the Python beside the file,
and, as long as not everything was loaded, what incremental sources have to give. What it wrote and
did not commit goes. A run that came to an end, and failed, begins anew: what made it fail may be in
the data.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from lancewood.errors import NotFoundError
from lancewood.git.names import HEADS
from lancewood.pipeline.running.folder import RunFolder
from lancewood.pipeline.running.ground import RunGround
from lancewood.pipeline.running.ledger import Entry, entry_at
from lancewood.pipeline.running.progress import Progress, decode_message, find_progress
from lancewood.pipeline.running.run_ids import run_branch
from lancewood.repo.repository import Repository


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

"""Running the tasks of a change that write files, so that a failure leaves as few as it can."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

from lancewood.engine.homes import NewFile
from lancewood.engine.snapshot import Snapshot
from lancewood.jobs.runner import Runner


class Written(Protocol):
    """What a task that writes files has to tell."""

    @property
    def files(self) -> tuple[NewFile, ...]:
        """What it wrote."""


T = TypeVar("T")
W = TypeVar("W", bound=Written)


def gather(
    runner: Runner, work: Callable[[T], W], tasks: Sequence[T], *, what: str, snapshot: Snapshot
) -> list[W]:
    """The results of all tasks, in their order.

    When a task fails, or somebody stops the job, the files of finished tasks are removed. Those of
    a task that the runner lost sight of stay until cleanup finds them; nothing refers to them.
    """
    done: list[W] = []
    try:
        for each in runner.run(work, tasks, what=what, leftover=done.append):
            done.append(each)
    except BaseException:
        snapshot.discard(_files(done))
        raise
    return done


def _files(results: Sequence[Written]) -> Iterator[NewFile]:
    for each in results:
        yield from each.files

"""What every group of verbs on a table shares: the version it speaks of, and how a write ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from lancewood.engine.commit import CommitPolicy
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import InvalidInputError
from lancewood.jobs.execute import Terms
from lancewood.jobs.runner import LocalRunner, Runner
from lancewood.model.applied import AppliedBatch
from lancewood.model.transaction import commit_properties


class Handle:
    """One version of a table."""

    def __init__(self, snapshot: Snapshot, counts: Any = None) -> None:
        self._snapshot = snapshot
        self._counts = counts

    @property
    def counts(self) -> Any:
        """What the write that made this handle did (rows inserted, updated, …); None for a handle
        that was opened, or made by a write that has nothing to count."""
        return self._counts

    def _after(self, snapshot: Snapshot, counts: Any = None) -> Self:
        """The handle on the version after a write."""
        return type(self)(snapshot, counts)


def terms(
    message: str | None,
    properties: Mapping[str, str] | None,
    *,
    serializable: bool = False,
    app: str | None = None,
    batch: int | None = None,
) -> Terms:
    """A caller's wishes for a change; raises InvalidInputError for a message that is no text, and
    for an app without a batch."""
    return Terms(
        properties=commit_properties(message, properties),
        policy=CommitPolicy(serializable=serializable, applied=AppliedBatch.asked_for(app, batch)),
    )


def runner_or_threads(runner: Runner | None) -> Runner:
    """The runner that a caller gave, or threads of this process.

    Raises InvalidInputError for what runs nothing, before a job has begun.
    """
    if runner is None:
        return LocalRunner()
    if not callable(getattr(runner, "run", None)):
        raise InvalidInputError(
            f"runner takes what runs tasks, such as LocalRunner(workers=4), got {runner!r}"
        )
    return runner

"""``Table.branches``: other histories of the table, each from one of its versions on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from lancewood.engine.revisions import At
from lancewood.engine.snapshot import Snapshot
from lancewood.jobs.naming.creation import create_branch
from lancewood.jobs.naming.deletion import delete_branch
from lancewood.jobs.naming.records import find_branch, list_branches
from lancewood.jobs.naming.renaming import rename_branch
from lancewood.jobs.runner import Runner
from lancewood.model.refs import Branch
from lancewood.table.handle import Handle, runner_or_threads
from lancewood.table.publishing import PublishVerbs

H = TypeVar("H", bound=Handle)


class Branches(PublishVerbs[H]):
    """The branches of a table; main is not among them. Made by ``Table.branches``.

    A branch begins as the version it was made from, at no cost, and goes its own way from there.
    ``Table.checkout(branch=)`` opens one.
    """

    def __init__(self, snapshot: Snapshot, handle: Callable[..., H]) -> None:
        self._snapshot = snapshot
        self._handle = handle

    def create(self, name: str, at: At = None, *, metadata: Mapping[str, str] | None = None) -> H:
        """A new branch, and the handle on its first version, which has the number of the version
        it was made from.

        ``at`` says which one that is: None is the version of this handle, a number or a moment one
        of its branch, a text what ``lancewood.open`` takes for it. ``/`` parts the name into
        segments of letters, digits, ``.``, ``-`` and ``_``.

        Raises AlreadyExistsError, NotFoundError for a version that is not there, and
        RetryableConflictError while somebody else makes or deletes a branch of that name.
        """
        return self._handle(create_branch(self._snapshot, name, at, metadata=metadata))

    def list(self) -> dict[str, Branch]:
        """Every branch by its name, sorted; no version is opened."""
        return list_branches(self._snapshot)

    def get(self, name: str) -> Branch:
        """What is recorded about a branch; raises NotFoundError."""
        return find_branch(self._snapshot, name)

    def delete(self, name: str, *, force: bool = False) -> None:
        """Remove a branch with its versions.

        Refuses one that others need (branches made from it, tags on it, base paths into it), and
        the one that this handle is on. ``force`` removes the tags with it, and finishes a deletion
        or clears away a creation that was cut off.
        """
        delete_branch(self._snapshot, name, force=force)

    def rename(self, old: str, new: str, *, runner: Runner | None = None) -> H:
        """Give a branch another name, and the handle on its newest version.

        Versions keep their numbers. Refuses what ``delete`` refuses, but for the handle's own
        branch. Nobody may write to the branch meanwhile. Run it again if it was cut off.
        """
        return self._handle(
            rename_branch(self._snapshot, old, new, runner=runner_or_threads(runner))
        )

    def __repr__(self) -> str:
        return f"<branches of {self._snapshot.place.uri}>"

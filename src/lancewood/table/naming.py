"""``Table.tags``: names for versions that stay where they are put.

Verbs that bring the work on a branch to another branch, and a branch back to it.

``Table.branches``: other histories of the table, each from one of its versions on.

Verbs of a table's names: its branches and its tags.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, Self, TypeVar

from lancewood.engine.snapshot import At, Snapshot
from lancewood.errors import InvalidInputError
from lancewood.jobs.naming.creation import create_branch
from lancewood.jobs.naming.deletion import delete_branch
from lancewood.jobs.naming.records import find_branch, list_branches
from lancewood.jobs.naming.renaming import rename_branch
from lancewood.jobs.naming.tags import create_tag, delete_tag, find_tag, list_tags, update_tag
from lancewood.jobs.publishing.publish import publish
from lancewood.jobs.publishing.reset import reset
from lancewood.jobs.runner import Runner
from lancewood.model.refs import Branch, Tag
from lancewood.table.handle import Handle, runner_or_threads, terms


class Tags:
    """The tags of a table, whatever branch their versions are on. Made by ``Table.tags``.

    A version that a tag names is never cleaned up. Where a verb takes ``at``, None is the version
    of the handle, a number or a moment a version of its branch, a text what ``lancewood.open``
    takes for it: ``"exp:12"``, ``":12"`` (main), another tag.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def create(
        self,
        name: str,
        at: At = None,
        *,
        metadata: Mapping[str, str] | None = None,
        force: bool = False,
    ) -> Tag:
        """A new tag; raises AlreadyExistsError, or NotFoundError for a version that is not there.

        Letters, digits, ``.``, ``-`` and ``_`` are allowed. ``force`` allows a name that says that
        somebody reads the files of the version, as clones leave one.
        """
        return create_tag(self._snapshot, name, at, metadata=metadata, force=force)

    def update(self, name: str, at: At = None, *, force: bool = False) -> Tag:
        """Move a tag to another version. When it was created and its metadata stay."""
        return update_tag(self._snapshot, name, at, force=force)

    def list(self, *, pins: bool = False) -> dict[str, Tag]:
        """Every tag by its name, sorted; no version is opened.

        With ``pins`` also those that clones and publishing have left.
        """
        return list_tags(self._snapshot, guards=pins)

    def get(self, name: str) -> Tag:
        """What is recorded about a tag; raises NotFoundError."""
        return find_tag(self._snapshot, name)

    def delete(self, name: str, *, force: bool = False) -> None:
        """Remove a tag; its version may then be cleaned up.

        ``force`` also removes one that a clone has left, whose files may then go.
        """
        delete_tag(self._snapshot, name, force=force)

    def __repr__(self) -> str:
        return f"<tags of {self._snapshot.place.uri}>"


H = TypeVar("H", bound=Handle)


class PublishVerbs(Generic[H]):
    """What ``Table.branches`` can do with the work on a branch."""

    _snapshot: Snapshot
    _handle: Callable[..., H]
    """Makes a handle of a snapshot, and of what a write has to tell."""

    def publish(
        self,
        name: str,
        onto: str | None = None,
        *,
        adopt: bool = True,
        dry_run: bool = False,
        message: str | None = None,
        properties: Mapping[str, str] | None = None,
        runner: Runner | None = None,
    ) -> H:
        """Bring what happened on a branch to the branch it was made from, as one commit there; the
        handle on that version, whose ``counts`` tell what was done.

        The work is judged by what happened on the target since, by the rules of any commit, and
        refused with a ConflictError where the two do not go together; then nothing has changed.
        Rows and fragments that were born on the branch get new ids where the target has moved. The
        branch is closed afterwards: nobody writes to it until ``reset``. Run it again if it was cut
        off: work is published once.

        ``onto`` is the parent, by name, and only that. ``adopt=False`` leaves deletion files and
        data files where they are below the branch, and keeps the branch with a tag
        ``lw.publish.<uuid>``. ``dry_run=True`` judges and plans, and writes nothing: it raises what
        publishing would raise now, or gives the handle on the target as it is, whose ``counts``
        tell what would be done.
        """
        for argument, flag in {"adopt": adopt, "dry_run": dry_run}.items():
            if not isinstance(flag, bool):
                raise InvalidInputError(f"{argument} takes True or False, got {flag!r}")
        found, told = publish(
            self._snapshot,
            name,
            onto,
            adopt=adopt,
            terms=terms(message, properties),
            runner=runner_or_threads(runner),
            dry_run=dry_run,
        )
        return self._handle(found, told)

    def reset(self, name: str, at: At = None, *, force: bool = False) -> H:
        """Begin a branch anew from the newest version of its parent, or from the one that ``at``
        says; the handle on it.

        Older versions of the branch stay, and so do tags on them. Refuses a branch with work that
        was not published, unless ``force`` gives that up.
        """
        return self._handle(reset(self._snapshot, name, at, force=force))


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


class NamingVerbs(Handle):
    """Verbs of a table's names: its branches and its tags."""

    @property
    def branches(self) -> Branches[Self]:
        """The table's branches; main is not among them."""
        return Branches(self._snapshot, self._after)

    @property
    def tags(self) -> Tags:
        """The table's tags, whatever branch their versions are on."""
        return Tags(self._snapshot)

"""Deleting a branch: its record first, then its files.

1. An intent is left in its root; whoever makes a tag or a branch of it from here on steps back.
2. Who needs it is looked up again: what was made before the intent is seen now.
3. The record goes. From here on the branch does not exist, and its root is one that nobody names.
4. Its files go, the manifests first; then the intent, and the directories that are empty now.

Data files that the branch wrote into the main root are left to the cleanup of main, which no longer
finds a version that names them. A deletion that is cut off after the third step is finished by the
next one with ``force``, or by whoever makes a branch of that name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lancewood.engine.location import Location
from lancewood.engine.snapshot import Snapshot, main_location
from lancewood.engine.versions import is_recorded
from lancewood.errors import InvalidInputError, NotFoundError, RetryableConflictError
from lancewood.format.refs import branch_key, tag_key
from lancewood.jobs.refs.branch_root import (
    BranchNeeds,
    find_files,
    find_needs,
    load_other_refs,
    prune,
    remove_files,
    root_of,
)
from lancewood.jobs.refs.records import (
    Intent,
    Standing,
    declare,
    is_moving,
    load_standing,
    no_branch,
    withdraw,
)
from lancewood.model.refs import BranchName, branch_name
from lancewood.store.base import Store
from lancewood.store.retry import LOST_RACES


def delete_branch(
    snapshot: Snapshot,
    name: str,
    *,
    force: bool = False,
    dry_run: bool = False,
    check: Callable[[], None] = lambda: None,
) -> None:
    """Remove a branch that nobody needs.

    ``force`` also removes the tags on it, and what is left of a branch that is no longer recorded.
    ``check`` is asked for others who may need it, once everybody can see that it is leaving, and
    stops it with InvalidInputError. A dry run only checks.
    Raises NotFoundError; InvalidInputError if somebody needs it, who is named;
    RetryableConflictError while somebody else makes, deletes or renames it.
    """
    asked = branch_name(name)
    if asked is None:
        raise InvalidInputError("main cannot be deleted: it is the table; lw.drop removes that")
    if snapshot.manifest.branch == asked:
        raise InvalidInputError(
            f"branch {name!r} cannot be deleted through a handle that is on it; take one on main "
            "or on another branch",
            branch=name,
        )
    deletion = _Deletion(snapshot, main_location(snapshot), asked, force, check)
    if dry_run:
        deletion.plan()
    else:
        deletion.run()


@dataclass
class _Deletion:
    snapshot: Snapshot
    main: Location
    name: BranchName
    force: bool
    check: Callable[[], None]

    @property
    def store(self) -> Store:
        return self.main.store

    @property
    def root(self) -> Store:
        return root_of(self.store, self.name)

    def plan(self) -> None:
        """Raise what stands in the way now; write nothing."""
        self._needs().check_none(self.name, "deleted", force=self.force)
        self._check_standing()
        self.check()

    def run(self) -> None:
        self._needs().check_none(self.name, "deleted", force=self.force)
        self._declare()
        try:
            needs = self._needs()
            needs.check_none(self.name, "deleted", force=self.force)
            self.check()
        except InvalidInputError:
            withdraw(self.root)
            raise
        self.store.delete([tag_key(each.name) for each in needs.tags])
        self.store.delete([branch_key(self.name)])
        remove_files(self.root, find_files(self.root), self._stay)
        # Whoever was about to commit while they were listed has left something since.
        remove_files(self.root, find_files(self.root), self._stay)
        withdraw(self.root)
        prune(self.store, self.name)

    def _needs(self) -> BranchNeeds:
        refs = load_other_refs(self.store, self.name)
        return find_needs(self.main, refs, self.name, [self.snapshot.manifest])

    def _declare(self) -> None:
        for _ in LOST_RACES:
            if declare(self.root, Intent("delete"), self._check_standing()):
                return
        raise self._busy("others keep creating or deleting it")

    def _check_standing(self) -> Standing | None:
        """What others are about to do with the branch, unless that stands in the way."""
        standing = load_standing(self.root)
        if is_recorded(self.store, self.name):
            self._check_free(standing)
        else:
            self._check_leftover(standing)
        return standing

    def _check_free(self, standing: Standing | None) -> None:
        """Whoever made the branch is done when it is recorded; others may be at work."""
        if standing is not None and is_moving(self.store, self.name, standing):
            raise self._busy(f"it {standing.intent}; rename it again to finish that")
        if standing is None or standing.intent.verb in ("create", "move in"):
            return
        if not (standing.is_abandoned or self.force):
            raise self._busy(f"it {standing.intent} by somebody; force=True does it all the same")

    def _check_leftover(self, standing: Standing | None) -> None:
        files = find_files(self.root)
        if standing is None and not files.manifests and not files.others:
            raise no_branch(self.store, self.name)
        if standing is not None and is_moving(self.store, self.name, standing):
            raise self._busy(f"it {standing.intent}; rename it again to finish that")
        if self.force or (standing is not None and standing.is_abandoned):
            return
        why = f"it {standing.intent}, or that was cut off" if standing else "no branch names them"
        raise NotFoundError(
            f"branch {str(self.name)!r} of {self.store.uri} not found, but {self.root.uri} holds "
            f"files: {why}; force=True removes them",
            branch=str(self.name),
        )

    def _stay(self) -> None:
        """Say that somebody is still at work; raises if another has taken over."""
        standing = load_standing(self.root)
        if standing is None or not declare(self.root, standing.intent, standing):
            raise self._busy("somebody else has taken over")

    def _busy(self, why: str) -> RetryableConflictError:
        return RetryableConflictError(
            f"branch {str(self.name)!r} of {self.store.uri} cannot be deleted now: {why}",
            branch=str(self.name),
        )

"""``Repository.branches``: lines of commits, each a ref that moves.

A branch can be deleted together with the branches of its tables:

    1  a note records which branch is to be deleted, and its commit
    2  the ref is deleted: its commits now count only if something else leads to them
    3  the branches of the tables are deleted unless they are needed; then the note

After an interruption the branch may or may not be there still, and deleting it again finishes the
work. A branch of a table is deleted only if this repository made it, no reachable commit pins it,
and no tag or branch of the table depends on it. The others are left to ``gc``.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from lancewood.catalog.names import branch_ref, lance_branch
from lancewood.catalog.pin import Pin
from lancewood.errors import (
    AlreadyExistsError,
    IncompatibleConflictError,
    InvalidInputError,
    NotFoundError,
    RetryableConflictError,
)
from lancewood.format.layout import TREE_DIR
from lancewood.git.history import is_ancestor
from lancewood.git.names import HEADS
from lancewood.git.objects import Signature
from lancewood.git.values import Hash
from lancewood.model.refs import BranchName
from lancewood.repo.context import RepoContext
from lancewood.repo.refs.tags import NamedCommits

if TYPE_CHECKING:
    from lancewood.engine.snapshot import Snapshot


class Branches(NamedCommits):
    """The branches of a repository, main included, by name. Made by ``Repository.branches``.

    ``branches["exp"]`` is the commit of a branch; iterating gives the names, sorted. A new branch
    costs one small file. Tables get a branch of the same name when they are first written on it.
    """

    _kind = "branch"

    def list(self, prefix: str = "") -> dict[str, Hash]:
        """The branches whose names begin with the prefix, sorted, and their commits."""
        found = self._context.git.refs.names(HEADS + prefix)
        return {name.removeprefix(HEADS): found[name] for name in sorted(found)}

    def find(self, name: str) -> Hash | None:
        """The commit of a branch; None if there is none."""
        return self._context.git.refs.read(branch_ref(name))

    def create(self, name: str, at: str | None = "HEAD") -> Hash:
        """Make a branch at a revision, and return that commit; raises AlreadyExistsError.

        With ``at`` None, for a repository without commits, the branch begins with an empty commit.
        """
        from lancewood.repo.identity import author_of

        ref = branch_ref(name)
        by = author_of(self._context.git)
        commit = self._context.commit(at) if at is not None else self._empty_commit(by)
        why = f"branch: Created from {'nothing' if at is None else at}"
        if not self._context.git.refs.move(ref, None, commit, why=why, by=by):
            raise AlreadyExistsError(
                f"there is a branch {name!r} already, at "
                f"{str(self._context.git.refs.read(ref))[:12]}; delete it first, or reset() it",
                branch=name,
            )
        return commit

    def delete(self, name: str, *, force: bool = False, tables: bool = False) -> None:
        """Remove a branch; its commits stay as long as something else leads to them. What was
        decided about merges of it goes with it.

        Refuses the current branch, and without ``force`` one with commits that no other branch has.
        Branches of tables stay until ``gc``; ``tables`` removes at once those of that name that
        this repository made, that no commit pins and that nobody else needs. A deletion with
        ``tables`` that was interrupted is finished by the next one. Raises NotFoundError.
        """
        from lancewood.repo.decisions import forget_branch
        from lancewood.repo.identity import author_of
        from lancewood.repo.notes import note_deletion

        refs = self._context.git.refs
        ref = branch_ref(name)
        if refs.head().branch == name:
            raise InvalidInputError(
                f"branch {name!r} is the current one: switch to another before deleting it",
                branch=name,
            )
        tip = refs.read(ref)
        if tip is None:
            if tables and finish_deletion(self._context, name):
                return
            raise NotFoundError(f"there is no branch {name!r}", branch=name)
        if not force and not self._is_elsewhere(name, tip):
            raise IncompatibleConflictError(
                f"branch {name!r} has commits that no other branch has: merge it first, or give "
                "them up with force=True",
                branch=name,
            )
        if tables:
            note_deletion(self._context, name, tip)
        if not refs.move(ref, tip, None, why="branch: deleted", by=author_of(self._context.git)):
            raise RetryableConflictError(
                f"branch {name!r} moved while it was to be deleted; look at it again", branch=name
            )
        forget_branch(self._context, name, by=author_of(self._context.git))
        if tables:
            finish_deletion(self._context, name)

    def delete_from_tables(self, name: str, at: str) -> None:
        """Remove what a deleted branch left in the tables of a revision, as ``delete`` does with
        ``tables``. Raises AlreadyExistsError if the branch exists."""
        from lancewood.repo.notes import note_deletion

        if self._context.git.refs.read(branch_ref(name)) is not None:
            raise AlreadyExistsError(
                f"there is a branch {name!r}: delete it with tables=True", branch=name
            )
        note_deletion(self._context, name, self._context.commit(at))
        finish_deletion(self._context, name)

    def leaving(self) -> tuple[str, ...]:
        """The branches whose deletion with ``tables`` is unfinished; deleting them again finishes
        it."""
        from lancewood.repo.notes import unfinished_deletions

        return tuple(unfinished_deletions(self._context))

    def _empty_commit(self, by: Signature) -> Hash:
        return self._context.git.objects.put_commit(self._context.tree(None).put(), (), by, "begin")

    def _is_elsewhere(self, name: str, tip: Hash) -> bool:
        objects = self._context.git.objects
        others = (each for branch, each in self.list().items() if branch != name)
        return any(each == tip or is_ancestor(objects, tip, each) for each in others)


def finish_deletion(context: RepoContext, branch: str) -> bool:
    """The third step, if there is a note; whether there was one.

    If a table cannot be read that error is raised, and the note stays, so it can be run again.
    """
    from lancewood.repo.decisions import forget_branch
    from lancewood.repo.identity import author_of
    from lancewood.repo.notes import (
        noted_deletion,
        remove_deletion_note,
        remove_merge_note,
        remove_move_notes,
    )

    tip = noted_deletion(context, branch)
    if tip is None:
        return False
    wanted = lance_branch(branch)
    assert wanted is not None, "main does not go"
    forget_branch(context, branch, by=author_of(context.git))
    with suppress(NotFoundError):  # the commit is gone, and its tables are unknown
        _Deletion(context, branch, wanted, tip).run()
    remove_merge_note(context, branch)
    remove_move_notes(context, branch)
    remove_deletion_note(context, branch)
    return True


@dataclass(frozen=True, slots=True)
class _TableBranch:
    """A table with a branch of that name."""

    pin: Pin
    main: Snapshot
    made: int
    """When the branch was made, in seconds; 0 if only files of it are left."""


@dataclass
class _Deletion:
    context: RepoContext
    branch: str
    wanted: BranchName
    tip: Hash

    def run(self) -> None:
        from lancewood.catalog.membership import repositories_of
        from lancewood.jobs.refs.deletion import delete_branch
        from lancewood.repo.gc.needed import CommitNeeds

        tree = self.context.tree(self.tip)
        pins = (tree.pin(name) for name in tree.names())
        found = [*filter(None, map(self._to_delete, pins))]
        if not found:
            return
        # Commits that pin a branch were made after it.
        self.needs = CommitNeeds(self.context, since=min(each.made for each in found) or None)
        for each in found:
            with suppress(NotFoundError, InvalidInputError):  # gone, or still needed
                self.needs.watch(each.pin.uri, repositories_of(each.main))
                self._check(each)
                delete_branch(each.main, self.branch, force=True, check=partial(self._check, each))

    def _to_delete(self, pin: Pin) -> _TableBranch | None:
        from lancewood.engine.snapshot import load_snapshot
        from lancewood.engine.versions import load_branch
        from lancewood.jobs.refs.records import load_standing
        from lancewood.repo.writing.writable import is_ours

        location = self.context.location(pin.on(None))
        record = load_branch(location.store, self.wanted)
        if record is not None and not is_ours(self.context, record):
            return None
        if record is None:
            standing = load_standing(location.store.at(f"{TREE_DIR}/{self.wanted}"))
            if standing is None or standing.intent.verb != "delete":
                return None
        try:
            main = load_snapshot(location)
        except NotFoundError:
            return None
        return _TableBranch(pin, main, 0 if record is None else record.created_at_seconds)

    def _check(self, found: _TableBranch) -> None:
        """Raise InvalidInputError if the branch of a table is still needed."""
        from lancewood.engine.versions import load_refs

        if self.context.git.refs.head().branch == self.branch or self.context.tip(self.branch):
            raise InvalidInputError("the repository has a branch of that name")
        self.needs.look()
        if self.needs.needs_branch(found.pin.uri, self.wanted):
            raise InvalidInputError("a commit pins it")
        tags = load_refs(found.main.location.store).tags
        if any(each.branch == self.wanted for each in tags):
            raise InvalidInputError("a tag is on it")

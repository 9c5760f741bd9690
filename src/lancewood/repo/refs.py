"""``Repository.branches``, ``tags`` and ``marks``: refs that lead to commits, and their protection.

Protecting a commit tags the versions that it pins in the tables themselves, so that no cleanup,
ours or pylance's, removes them. Tags of the repository always do so. ``Marks`` are the repository's
own refs below ``refs/lancewood``: they keep a commit as any ref does, and protect no table.

A branch can be deleted together with the branches of its tables:

    1  a note records which branch is to be deleted, and its commit
    2  the ref is deleted: its commits now count only if something else leads to them
    3  the branches of the tables are deleted unless they are needed; then the note

After an interruption the branch may or may not be there still, and deleting it again finishes the
work. A branch of a table is deleted only if this repository made it, no reachable commit pins it,
and no tag or branch of the table depends on it. The others are left to ``gc``.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from lancewood.catalog.names import PROTECTED, branch_ref, lance_branch, tag_ref
from lancewood.catalog.pin import Pin
from lancewood.errors import (
    AlreadyExistsError,
    ConflictError,
    IncompatibleConflictError,
    InvalidInputError,
    NotFoundError,
    RetryableConflictError,
)
from lancewood.format.layout import TREE_DIR
from lancewood.git.history import is_ancestor
from lancewood.git.names import HEADS, TAGS, checked_ref
from lancewood.git.values import Hash
from lancewood.model.refs import BranchName
from lancewood.repo.context import RepoContext, near
from lancewood.table.by_name import ByName

if TYPE_CHECKING:
    from lancewood.engine.snapshot import Snapshot

_OURS = "refs/lancewood/"


class NamedCommits(ByName[Hash]):
    """Commits by name."""

    _kind: str
    """What has the names: a branch, a tag."""
    _prefix: str
    """How their refs begin."""

    def __init__(self, context: RepoContext) -> None:
        self._context = context

    @abstractmethod
    def _ref(self, name: str) -> str:
        """The full name of the ref; raises InvalidInputError for a name that cannot be one."""

    def list(self, prefix: str = "") -> dict[str, Hash]:
        """Every name that begins with the prefix, sorted, and its commit."""
        found = self._context.git.refs.names(self._prefix + prefix)
        return {ref.removeprefix(self._prefix): commit for ref, commit in found.items()}

    def find(self, name: str) -> Hash | None:
        """The commit of a name; None if there is none. Raises InvalidInputError for a name that
        cannot be one."""
        return self._context.git.refs.read(self._ref(name))

    def get(self, name: str) -> Hash:
        """The commit of a name; raises NotFoundError."""
        found = None
        with suppress(InvalidInputError):
            found = self.find(name)
        if found is None:
            raise NotFoundError(
                f"there is no {self._kind} {name!r}{near(name, self.list())}", **{self._kind: name}
            )
        return found

    def __contains__(self, name: object) -> bool:
        with suppress(InvalidInputError):
            return isinstance(name, str) and self.find(name) is not None
        return False

    def __repr__(self) -> str:
        return f"<{type(self).__name__.lower()} of {self._context.root}>"


class Tags(NamedCommits):
    """The tags of a repository, by name. Made by ``Repository.tags``.

    ``tags["v1"]`` is the commit of a tag; iterating gives the names, sorted.
    """

    _kind, _prefix = "tag", TAGS

    def _ref(self, name: str) -> str:
        return tag_ref(name)

    def list(self, prefix: str = "") -> dict[str, Hash]:
        """The tags whose names begin with the prefix, sorted, and their commits; annotated tags are
        peeled.

        Tags that lead to something else than a commit are left out. Raises NotFoundError, naming
        the tag, if its object is gone.
        """
        found = self._context.git.refs.names(TAGS + prefix)
        peeled = {ref: self._commit_of(ref, at) for ref, at in found.items()}
        return {name.removeprefix(TAGS): at for name, at in peeled.items() if at is not None}

    def find(self, name: str) -> Hash | None:
        """The commit of a tag; None if there is none, or if it leads to something else."""
        ref = tag_ref(name)
        found = self._context.git.refs.read(ref)
        return None if found is None else self._commit_of(ref, found)

    def create(self, name: str, at: str = "HEAD", *, message: str | None = None) -> Hash:
        """Make a tag at a revision, and return that commit; raises AlreadyExistsError.

        With a ``message`` it is an annotated tag, as git's: with who made it, and when. The tables
        are tagged first, so an existing tag always protects.
        """
        from lancewood.repo.identity import checked_message

        ref = tag_ref(name)
        refs = self._context.git.refs
        text = None if message is None else checked_message(message, "an annotated tag")
        commit = self._context.commit(at)
        if refs.read(ref) is not None:
            raise self._taken(name)
        by = self._context.author()
        protect(self._context, ref, commit)
        objects = self._context.git.objects
        named = commit if text is None else objects.put_tag(name, commit, by, text)
        if not refs.move(ref, None, named, why=f"tag: tagging {commit[:12]}", by=by):
            self._protect_again(ref)
            raise self._taken(name)
        return commit

    def delete(self, name: str) -> None:
        """Remove a tag, with the tags that it set in tables; raises NotFoundError."""

        ref = tag_ref(name)
        refs = self._context.git.refs
        found = refs.read(ref)
        if found is None:
            raise NotFoundError(f"there is no tag {name!r}", tag=name)
        if not refs.move(ref, found, None, why="tag: deleted", by=self._context.author()):
            raise RetryableConflictError(f"tag {name!r} was changed meanwhile", tag=name)
        commit = None
        with suppress(NotFoundError):  # the tables of a lost commit are unknown
            commit = self._commit_of(ref, found)
        if commit is not None:
            unprotect(self._context, ref, commit)
        self._protect_again(ref)

    def _commit_of(self, ref: str, found: Hash) -> Hash | None:
        """The commit that a tag leads to; None if it leads to something else."""
        try:
            return self._context.git.objects.peel(found)
        except NotFoundError as gone:
            if "hash" not in gone.facts:
                return None
            raise NotFoundError(
                f"{ref} of {self._context.root} leads nowhere: {gone.message}; bring the object "
                "back from a copy, or delete the tag",
                **gone.facts,
            ) from gone

    def _protect_again(self, ref: str) -> None:
        """Protect a tag that was made again meanwhile, and needs the tags in the tables."""
        found = self._context.git.refs.read(ref)
        if found is not None:
            protect(self._context, ref, self._context.git.objects.peel(found))

    def _taken(self, name: str) -> AlreadyExistsError:
        return AlreadyExistsError(
            f"there is a tag {name!r} already: a tag stays where it is; delete it first",
            tag=name,
        )


class Marks(NamedCommits):
    """Commits by names of the repository's own. Made by ``Repository.marks``."""

    _kind, _prefix = "mark", _OURS

    def _ref(self, name: str) -> str:
        return checked_ref(_OURS + name)

    def set(self, name: str, commit: Hash, *, why: str, instead_of: Hash | None = None) -> bool:
        """Give a commit a name, moving it from ``instead_of``; False if the commit has it already.

        Raises AlreadyExistsError if another commit has it.
        """

        ref, refs = self._ref(name), self._context.git.refs
        if refs.move(ref, instead_of, commit, why=why, by=self._context.author()):
            return True
        found = refs.read(ref)
        if found != commit:
            raise AlreadyExistsError(
                f"{ref} is commit {str(found)[:12]} already, and cannot be {commit[:12]} as well",
                ref=ref,
            )
        return False


def protect(context: RepoContext, ref: str, commit: Hash) -> tuple[str, ...]:
    """Tag the landed version of every table that a commit pins; returns the names of the tables.

    What has not landed lands first. A warning names tables that cannot be tagged, and only our own
    cleanup keeps their state: those that have diverged, and those elsewhere that were never added.
    """
    from lancewood.catalog.membership import protect as protect_table
    from lancewood.repo.landing import check_member
    from lancewood.repo.outcome import NotLandedWarning

    tree = context.tree(commit)
    done = []
    for name in tree.names():
        try:
            pin = tree.pin(name)
            check_member(context, pin, name)
            protect_table(_landed(context, pin, name), ref, context.id)
            done.append(name)
        except InvalidInputError as foreign:
            warnings.warn(f"not tagged: {foreign.message}", NotLandedWarning, stacklevel=3)
        except ConflictError as conflict:
            warnings.warn(
                f"table {name!r} has diverged and cannot be tagged: {conflict.message}",
                NotLandedWarning,
                stacklevel=3,
            )
    return tuple(done)


def unprotect(context: RepoContext, ref: str, commit: Hash) -> None:
    """Undo ``protect`` for a ref."""
    from lancewood.catalog.membership import unprotect as unprotect_table

    tree = context.tree(commit)
    for name in tree.names():
        unprotect_table(context.location(tree.pin(name).on(None)), ref, context.id)


def protect_commit(context: RepoContext, commit: Hash) -> tuple[str, ...]:
    """Protect a commit by a ref of its own."""

    ref = f"{PROTECTED}{commit}"
    done = protect(context, ref, commit)
    context.git.refs.move(ref, None, commit, why="protect", by=context.author())
    return done


def unprotect_commit(context: RepoContext, commit: Hash) -> None:
    """Undo ``protect_commit``; raises NotFoundError if the commit is not protected."""

    ref, refs = f"{PROTECTED}{commit}", context.git.refs
    if not refs.move(ref, commit, None, why="unprotect", by=context.author()):
        raise NotFoundError(f"commit {commit[:12]} is not protected by itself", commit=commit)
    unprotect(context, ref, commit)
    if refs.read(ref) is not None:  # protected again meanwhile
        protect(context, ref, commit)


def _landed(context: RepoContext, pin: Pin, name: str) -> Snapshot:
    """The version that a pin landed as."""
    from lancewood.engine.snapshot import load_snapshot
    from lancewood.repo.landing import land_pin

    landed = land_pin(context, pin, name)
    if landed is None:
        return context.open(pin)
    return load_snapshot(context.location(pin), version=landed.versions[-1])


class Branches(NamedCommits):
    """The branches of a repository, main included, by name. Made by ``Repository.branches``.

    ``branches["exp"]`` is the commit of a branch; iterating gives the names, sorted. A new branch
    costs one small file. Tables get a branch of the same name when they are first written on it.
    """

    _kind, _prefix = "branch", HEADS

    def _ref(self, name: str) -> str:
        return branch_ref(name)

    def create(self, name: str, at: str | None = "HEAD") -> Hash:
        """Make a branch at a revision, and return that commit; raises AlreadyExistsError.

        With ``at`` None, for a repository without commits, the branch begins with an empty commit.
        """

        ref = branch_ref(name)
        by = self._context.author()
        if at is not None:
            commit = self._context.commit(at)
        else:
            empty = self._context.tree(None).put()
            commit = self._context.git.objects.put_commit(empty, (), by, "begin")
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
        if not refs.move(ref, tip, None, why="branch: deleted", by=self._context.author()):
            raise RetryableConflictError(
                f"branch {name!r} moved while it was to be deleted; look at it again", branch=name
            )
        forget_branch(self._context, name, by=self._context.author())
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

    def _is_elsewhere(self, name: str, tip: Hash) -> bool:
        objects = self._context.git.objects
        others = (each for branch, each in self.list().items() if branch != name)
        return any(each == tip or is_ancestor(objects, tip, each) for each in others)


def finish_deletion(context: RepoContext, branch: str) -> bool:
    """The third step, if there is a note; whether there was one.

    If a table cannot be read that error is raised, and the note stays, so it can be run again.
    """
    from lancewood.repo.decisions import forget_branch
    from lancewood.repo.notes import noted_deletion, remove_branch_notes

    tip = noted_deletion(context, branch)
    if tip is None:
        return False
    wanted = lance_branch(branch)
    assert wanted is not None, "main does not go"
    forget_branch(context, branch, by=context.author())
    with suppress(NotFoundError):  # the commit is gone, and its tables are unknown
        _Deletion(context, branch, wanted, tip).run()
    remove_branch_notes(context, branch)
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
        from lancewood.repo.writable import is_ours

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

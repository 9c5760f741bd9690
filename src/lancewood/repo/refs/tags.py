"""``Repository.tags`` and other refs that stay where they are, and what protects their commits.

Protecting a commit tags the versions that it pins in the tables themselves, so that no cleanup,
ours or pylance's, removes them. Tags of the repository always do so. ``Marks`` are the repository's
own refs below ``refs/lancewood``: they keep a commit as any ref does, and protect no table.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from contextlib import suppress
from typing import TYPE_CHECKING

from lancewood.catalog.names import PROTECTED, tag_ref
from lancewood.catalog.pin import Pin
from lancewood.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidInputError,
    NotFoundError,
    RetryableConflictError,
)
from lancewood.git.names import TAGS, checked_ref
from lancewood.git.values import Hash
from lancewood.repo.context import RepoContext, near
from lancewood.table.by_name import ByName

if TYPE_CHECKING:
    from lancewood.engine.snapshot import Snapshot

_OURS = "refs/lancewood/"


class NamedCommits(ByName[Hash]):
    """Commits by name."""

    _kind: str
    """What has the names: a branch, a tag."""

    def __init__(self, context: RepoContext) -> None:
        self._context = context

    @abstractmethod
    def list(self, prefix: str = "") -> dict[str, Hash]:
        """Every name that begins with the prefix, sorted, and its commit."""

    @abstractmethod
    def find(self, name: str) -> Hash | None:
        """The commit of a name; None if there is none. Raises InvalidInputError for a name that
        cannot be one."""

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

    _kind = "tag"

    def list(self, prefix: str = "") -> dict[str, Hash]:
        """The tags whose names begin with the prefix, sorted, and their commits; annotated tags are
        peeled.

        Tags that lead to something else than a commit are left out. Raises NotFoundError, naming
        the tag, if its object is gone.
        """
        found = self._context.git.refs.names(TAGS + prefix)
        peeled = {name: self._commit_of(name, found[name]) for name in sorted(found)}
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
        from lancewood.repo.identity import author_of, checked_message

        ref = tag_ref(name)
        refs = self._context.git.refs
        text = None if message is None else checked_message(message, "an annotated tag")
        commit = self._context.commit(at)
        if refs.read(ref) is not None:
            raise self._taken(name)
        by = author_of(self._context.git)
        protect(self._context, ref, commit)
        objects = self._context.git.objects
        named = commit if text is None else objects.put_tag(name, commit, by, text)
        if not refs.move(ref, None, named, why=f"tag: tagging {commit[:12]}", by=by):
            self._protect_again(ref)
            raise self._taken(name)
        return commit

    def delete(self, name: str) -> None:
        """Remove a tag, with the tags that it set in tables; raises NotFoundError."""
        from lancewood.repo.identity import author_of

        ref = tag_ref(name)
        refs = self._context.git.refs
        found = refs.read(ref)
        if found is None:
            raise NotFoundError(f"there is no tag {name!r}", tag=name)
        if not refs.move(ref, found, None, why="tag: deleted", by=author_of(self._context.git)):
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

    _kind = "mark"

    def find(self, name: str) -> Hash | None:
        """The commit of a name; None if there is none."""
        return self._context.git.refs.read(checked_ref(_OURS + name))

    def list(self, prefix: str = "") -> dict[str, Hash]:
        """Every name with the prefix, sorted, and its commit."""
        found = self._context.git.refs.names(_OURS + prefix)
        return {name.removeprefix(_OURS): found[name] for name in sorted(found)}

    def set(self, name: str, commit: Hash, *, why: str, instead_of: Hash | None = None) -> bool:
        """Give a commit a name, moving it from ``instead_of``; False if the commit has it already.

        Raises AlreadyExistsError if another commit has it.
        """
        from lancewood.repo.identity import author_of

        ref, refs = checked_ref(_OURS + name), self._context.git.refs
        if refs.move(ref, instead_of, commit, why=why, by=author_of(self._context.git)):
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
    from lancewood.catalog.repository_tags import protect as protect_table
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
    from lancewood.catalog.repository_tags import unprotect as unprotect_table

    tree = context.tree(commit)
    for name in tree.names():
        unprotect_table(context.location(tree.pin(name).on(None)), ref, context.id)


def protect_commit(context: RepoContext, commit: Hash) -> tuple[str, ...]:
    """Protect a commit by a ref of its own."""
    from lancewood.repo.identity import author_of

    ref = f"{PROTECTED}{commit}"
    done = protect(context, ref, commit)
    context.git.refs.move(ref, None, commit, why="protect", by=author_of(context.git))
    return done


def unprotect_commit(context: RepoContext, commit: Hash) -> None:
    """Undo ``protect_commit``; raises NotFoundError if the commit is not protected."""
    from lancewood.repo.identity import author_of

    ref, refs = f"{PROTECTED}{commit}", context.git.refs
    if not refs.move(ref, commit, None, why="unprotect", by=author_of(context.git)):
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

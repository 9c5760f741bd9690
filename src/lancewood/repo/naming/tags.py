"""Keeping what a commit pins from every cleanup: tags in the tables themselves.

``Repository.tags``: names for commits that stay where they are.

A tag of the repository also becomes a tag of every table it pins, so that no cleanup, ours or
pylance's, takes the versions for garbage.

Names of the repository's own for commits, below ``refs/lancewood``: neither branches nor tags.

Whoever has something to remember of a commit gives it one: it stays where it is until its giver
moves it, and keeps the commit as any ref does. Knows nothing of what the names mean.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import suppress

from lancewood.catalog.marks import protect as protect_table
from lancewood.catalog.marks import unprotect as unprotect_table
from lancewood.catalog.pin import Pin
from lancewood.engine.snapshot import Snapshot, load_snapshot
from lancewood.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidInputError,
    NotFoundError,
    RetryableConflictError,
)
from lancewood.git.hashes import Hash
from lancewood.git.names import TAGS, checked_ref
from lancewood.repo.grounds import Grounds
from lancewood.repo.identity import author_of
from lancewood.repo.landing import check_member, land_pin
from lancewood.repo.outcome import NotLandedWarning
from lancewood.repo.ref_names import PROTECTED, tag_ref


def protect(grounds: Grounds, ref: str, commit: Hash) -> tuple[str, ...]:
    """Tag the landed version of every table that a commit pins; the names of those tables.

    What has not landed lands first. A table that has diverged has no version to be tagged: a
    warning names it, and only our own cleanup keeps its state; so it does one elsewhere that was
    never added here.
    """
    tree = grounds.tree(commit)
    done = []
    for name in tree.names():
        try:
            pin = tree.pin(name)
            check_member(grounds, pin, name)
            protect_table(_landed(grounds, pin, name), ref, grounds.id)
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


def protect_commit(grounds: Grounds, commit: Hash) -> tuple[str, ...]:
    """Protect a commit that need not have a name: a ref of its own keeps it."""
    ref = f"{PROTECTED}{commit}"
    done = protect(grounds, ref, commit)
    grounds.git.refs.move(ref, None, commit, why="protect", by=author_of(grounds.git))
    return done


def unprotect_commit(grounds: Grounds, commit: Hash) -> None:
    """Take back what ``protect_commit`` did; raises NotFoundError if that was nothing."""
    ref, refs = f"{PROTECTED}{commit}", grounds.git.refs
    if not refs.move(ref, commit, None, why="unprotect", by=author_of(grounds.git)):
        raise NotFoundError(f"commit {commit[:12]} is not protected by itself", commit=commit)
    unprotect(grounds, ref, commit)
    if refs.read(ref) is not None:  # somebody protected it meanwhile
        protect(grounds, ref, commit)


def unprotect(grounds: Grounds, ref: str, commit: Hash) -> None:
    """Take back what ``protect`` did for a ref."""
    tree = grounds.tree(commit)
    for name in tree.names():
        unprotect_table(grounds.place(tree.pin(name).on(None)), ref, grounds.id)


def _landed(grounds: Grounds, pin: Pin, name: str) -> Snapshot:
    """The version of the table's branch that a pin became."""
    landed = land_pin(grounds, pin, name)
    if landed is None:
        return grounds.open(pin)
    return load_snapshot(grounds.place(pin), version=landed.versions[-1])


class Tags:
    """The tags of a repository, by name. Made by ``Repository.tags``."""

    def __init__(self, grounds: Grounds) -> None:
        self._grounds = grounds

    def list(self) -> dict[str, Hash]:
        """Every tag and the commit that it names, sorted by name; annotated ones are peeled.

        Those that git set on something else are left out. Raises NotFoundError, naming the tag,
        where what it names is gone.
        """
        found = self._grounds.git.refs.names(TAGS)
        peeled = {name: self._commit_of(name, found[name]) for name in sorted(found)}
        return {name.removeprefix(TAGS): at for name, at in peeled.items() if at is not None}

    def create(self, name: str, at: str = "HEAD") -> Hash:
        """A new tag at a revision, and the commit that is; raises AlreadyExistsError.

        The tables are tagged first: a tag that is there protects.
        """
        ref = tag_ref(name)
        refs = self._grounds.git.refs
        commit = self._grounds.commit(at)
        if refs.read(ref) is not None:
            raise self._taken(name)
        protect(self._grounds, ref, commit)
        by = author_of(self._grounds.git)
        if not refs.move(ref, None, commit, why=f"tag: tagging {commit[:12]}", by=by):
            self._protect_again(ref)
            raise self._taken(name)
        return commit

    def delete(self, name: str) -> None:
        """Remove a tag, and those that it became in the tables; raises NotFoundError."""
        ref = tag_ref(name)
        refs = self._grounds.git.refs
        found = refs.read(ref)
        if found is None:
            raise NotFoundError(f"there is no tag {name!r}", tag=name)
        if not refs.move(ref, found, None, why="tag: deleted", by=author_of(self._grounds.git)):
            raise RetryableConflictError(f"tag {name!r} was changed meanwhile", tag=name)
        commit = None
        with suppress(NotFoundError):  # which tables a commit had that is gone, nobody knows
            commit = self._commit_of(ref, found)
        if commit is not None:
            unprotect(self._grounds, ref, commit)
        self._protect_again(ref)

    def __iter__(self) -> Iterator[str]:
        return iter(self.list())

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self.list()

    def __len__(self) -> int:
        return len(self.list())

    def __repr__(self) -> str:
        return f"<tags of {self._grounds.home}>"

    def _commit_of(self, ref: str, found: Hash) -> Hash | None:
        """The commit that a tag leads to; None where it leads to something else."""
        try:
            return self._grounds.git.objects.peel(found)
        except NotFoundError as gone:
            if "hash" not in gone.facts:
                return None
            raise NotFoundError(
                f"{ref} of {self._grounds.home} leads nowhere: {gone.message}; bring the object "
                "back from a copy, or delete the tag",
                **gone.facts,
            ) from gone

    def _protect_again(self, ref: str) -> None:
        """Somebody may have made the tag while our own tags were in the tables."""
        found = self._grounds.git.refs.read(ref)
        if found is not None:
            protect(self._grounds, ref, self._grounds.git.objects.peel(found))

    def _taken(self, name: str) -> AlreadyExistsError:
        return AlreadyExistsError(
            f"there is a tag {name!r} already: a tag stays where it is; delete it first",
            tag=name,
        )


_OURS = "refs/lancewood/"


class Marks:
    """Commits by such names. Made by ``Repository.marks``."""

    def __init__(self, grounds: Grounds) -> None:
        self._grounds = grounds

    def get(self, name: str) -> Hash | None:
        """The commit of a name; None where there is none."""
        return self._grounds.git.refs.read(checked_ref(_OURS + name))

    def list(self, prefix: str = "") -> dict[str, Hash]:
        """Every name that begins so, and its commit, sorted by name."""
        found = self._grounds.git.refs.names(_OURS + prefix)
        return {name.removeprefix(_OURS): found[name] for name in sorted(found)}

    def set(self, name: str, commit: Hash, *, why: str, instead_of: Hash | None = None) -> bool:
        """Give a commit a name, which ``instead_of`` loses; False if it has that already.

        Raises AlreadyExistsError if another commit has it.
        """
        ref, refs = checked_ref(_OURS + name), self._grounds.git.refs
        if refs.move(ref, instead_of, commit, why=why, by=author_of(self._grounds.git)):
            return True
        found = refs.read(ref)
        if found != commit:
            raise AlreadyExistsError(
                f"{ref} is commit {str(found)[:12]} already, and cannot be {commit[:12]} as well",
                ref=ref,
            )
        return False

    def __repr__(self) -> str:
        return f"<marks of {self._grounds.home}>"

"""Keeping what a commit pins from every cleanup: tags in the tables themselves."""

from __future__ import annotations

import warnings

from lancewood.catalog.pin import Pin
from lancewood.catalog.protection import protect as protect_table
from lancewood.catalog.protection import unprotect as unprotect_table
from lancewood.engine.snapshot import Snapshot, load_snapshot
from lancewood.errors import ConflictError, InvalidInputError, NotFoundError
from lancewood.git.hashes import Hash
from lancewood.repo.grounds import Grounds
from lancewood.repo.identity import author_of
from lancewood.repo.landing.land import land_pin
from lancewood.repo.outcome import NotLandedWarning
from lancewood.repo.ref_names import PROTECTED
from lancewood.repo.writing.joining import check_member


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

"""Versions of a table that the branch does not pin: of abandoned commits, or written by others.

What commits made can be read from them, so other content may follow it. What others wrote stays. If
the branch does not pin the table, that is a conflict. If it does, the writes become part of the
next commit that changes the table, since the history of a table's branch is linear and a
transaction can only follow its newest version. They are found here, to be reported. Nothing is
changed.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from lancewood.catalog.names import lance_branch, own_table_uri
from lancewood.catalog.pin import Pin
from lancewood.engine.location import Location
from lancewood.engine.snapshot import Snapshot, load_snapshot
from lancewood.engine.versions import load_transaction, load_transaction_of, versions_since
from lancewood.errors import IncompatibleConflictError
from lancewood.format.manifest import content_digest
from lancewood.git.history import walk
from lancewood.git.values import Hash
from lancewood.model.ids import Version
from lancewood.model.manifest import Manifest
from lancewood.model.transaction import STAGED_PROPERTY, Clone
from lancewood.repo.context import RepoContext
from lancewood.repo.landing import finish_moves, landed_version
from lancewood.repo.notes import check_unmerged
from lancewood.repo.outcome import TakenIn
from lancewood.repo.writing.writable import diverged, landed_source, own_head

if TYPE_CHECKING:
    from lancewood.engine.staging import Stage

_MOST_READ = 100


def unpinned_head(
    context: RepoContext, branch: str, tip: Hash | None, name: str
) -> Snapshot | None:
    """The newest version, on its own branch, of an own table that the branch pinned once and no
    longer pins; None if it never did.

    Walks the commits back to the last one that had it. Raises IncompatibleConflictError if others
    wrote to it since.
    """
    pin, wanted = _last_pin(context, tip, name), lance_branch(branch)
    if pin is None or pin.uri != own_table_uri(name):
        return None
    for each in finish_moves(context, branch, tip, [name]):
        raise diverged(each)
    if pin.branch == wanted:
        landed_source(context, name, pin)
        check_unmerged(context, branch, tip, name)
        return abandoned_head(context, pin) or load_snapshot(context.location(pin))
    if wanted is None:
        return None
    return own_head(context, branch, tip, name, landed_source(context, name, pin), wanted)


def _last_pin(context: RepoContext, tip: Hash | None, name: str) -> Pin | None:
    if tip is None:
        return None
    for each in walk(context.git.objects, [tip], first_parent=True):
        tree = context.tree(each.hash)
        if tree.blob_hash(name) is not None:
            return tree.pin(name)
    return None


def is_free(head: Snapshot) -> bool:
    """Whether something else may follow the newest version of a table that a branch does not pin: a
    commit made it, or it is where the branch of the table begins.

    A table whose first version is empty was begun for a branch that made it.
    """
    made = load_transaction(head.location.store, head.manifest)
    if STAGED_PROPERTY in made.properties:
        return True
    if head.manifest.branch is not None:
        return isinstance(made.operations[0], Clone)
    return head.manifest.version == 1 and not head.manifest.fragment_count


def abandoned_head(context: RepoContext, pin: Pin) -> Snapshot | None:
    """The newest version of a table that a branch does not pin, if its content is not the pin's: it
    was made by commits that are abandoned.

    Raises IncompatibleConflictError if others wrote to it.
    """
    head = load_snapshot(context.location(pin))
    if content_digest(head.manifest.message) == pin.content:
        return None
    known = landed_version(context, pin)
    if known is not None:
        since = known.manifest.version
    else:
        since = pin.version if pin.landing is None else pin.landing.base
    _check_abandoned(head, since)
    return head


def abandoned_since(location: Location, fork: Version) -> Snapshot | None:
    """The newest version of a table that a branch does not pin, if it is after ``fork``: it was
    made by commits that are abandoned.

    Raises IncompatibleConflictError if others wrote to it.
    """
    head = load_snapshot(location)
    if head.manifest.version == fork:
        return None
    _check_abandoned(head, fork)
    return head


def _check_abandoned(head: Snapshot, since: Version) -> None:
    store, scheme = head.location.store, head.scheme
    for version in versions_since(store, since, scheme).versions:
        if STAGED_PROPERTY not in load_transaction_of(store, version, scheme).properties:
            raise IncompatibleConflictError(
                "it is not on this branch, and others wrote to the table itself, as version "
                f"{version}; add() takes it as it stands"
            )


def find_taken_in(name: str, pin: Pin, stage: Stage) -> TakenIn | None:
    """The direct writes between what the parent commit pins and what a stage is built on, among the
    newest hundred versions; None if rows and columns are as pinned.

    Costs nothing if the stage is built on the pinned state itself, as is usual.
    """
    base, since = stage.base, Version(0)
    if pin.branch == base.branch:
        if _is_pinned(pin, base):
            return None
        since = pin.version if pin.landing is None else pin.landing.base
    found, message = list[Version](), None
    newer = versions_since(stage.location.store, since, stage.scheme).versions
    for version in islice((each for each in newer if each <= base.version), _MOST_READ):
        made = load_transaction_of(stage.location.store, version, stage.scheme)
        if isinstance(made.operations[0], Clone):
            break  # where a branch of the table begins, or began anew
        if STAGED_PROPERTY not in made.properties:
            found.append(version)
            message = message or made.message
    return TakenIn(name, tuple(reversed(found)), message) if found else None


def _is_pinned(pin: Pin, base: Manifest) -> bool:
    """Whether a version has the pinned rows and columns; the pinned state itself is recognized by
    its number and its transaction."""
    from lancewood.engine.staging import is_last_step

    is_exact = base.version == pin.exact_version
    if is_exact and (pin.landing is None or is_last_step(base, pin.landing)):
        return True
    return content_digest(base.message) == pin.content

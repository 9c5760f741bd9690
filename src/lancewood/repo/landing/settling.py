"""Paying what a moved branch owes to its tables: each comes to hold what the branch now pins.

The process that moved the branch does it, and if it did not come that far, whoever writes next;
each table at most once, by whoever comes. Until then the branch reads as it should, and only the
tables themselves are behind.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from lancewood.catalog.pin import Pin
from lancewood.engine.commit import commit
from lancewood.engine.landed import find_landed
from lancewood.engine.place import Place
from lancewood.engine.revisions import branch_place, main_place
from lancewood.engine.snapshot import Snapshot, load_snapshot
from lancewood.engine.transactions import load_transaction_of
from lancewood.engine.versions import versions_since
from lancewood.errors import (
    AlreadyExistsError,
    CommitUnknownError,
    ConflictError,
    IncompatibleConflictError,
    NotFoundError,
    RetryableConflictError,
)
from lancewood.format.manifest_digest import content_digest
from lancewood.git.hashes import Hash
from lancewood.jobs.publishing.reset import begin_anew
from lancewood.model.operations import Clone, Restore
from lancewood.model.refs import BranchName
from lancewood.model.transaction import STAGED_PROPERTY, Transaction
from lancewood.repo.grounds import Grounds
from lancewood.repo.landing.land import land_rest
from lancewood.repo.landing.landed import landed_version, pinned_state
from lancewood.repo.notes.reset_notes import Owed, forget, is_abandoned, load_notes, strike_out
from lancewood.repo.outcome import Divergence
from lancewood.repo.ref_names import lance_branch
from lancewood.repo.writing.joining import check_member

_ATTEMPTS = 10


def settle(
    grounds: Grounds, branch: str, tip: Hash | None, names: Collection[str] | None = None
) -> tuple[Divergence, ...]:
    """Pay what a branch owes that is at ``tip``, to the tables that are named, or to all.

    Costs one look at a directory where nothing is owed.
    """
    found = []
    for note in load_notes(grounds, branch):
        if not note.has_happened(grounds, tip):
            if tip != note.before and is_abandoned(grounds, note):
                forget(grounds, note)
            continue
        due = note.due(grounds, tip)
        done = note.tables.keys() - due.keys()
        for name in due if names is None else due.keys() & {*names}:
            try:
                pin = grounds.tree(note.after).pin(name)
                check_member(grounds, pin, name)
                pay(grounds, branch, pin, due[name])
                done.add(name)
            except ConflictError as conflict:
                found.append(Divergence(name, conflict))
        if done:
            strike_out(grounds, note, done)
    return tuple(found)


def pay_and_land(
    grounds: Grounds, branch: str, tip: Hash | None, names: Collection[str] | None = None
) -> tuple[Divergence, ...]:
    """Pay what is owed, then land what commits pin: everything that comes before a new write.

    In this order: what a branch was moved to counts, and not what could still land elsewhere.
    """
    owed = settle(grounds, branch, tip, names)
    return (*owed, *land_rest(grounds, tip, names))


def owed_tables(grounds: Grounds, branch: str, tip: Hash | None) -> frozenset[str]:
    """The tables that are behind; reads only."""
    return frozenset(
        name
        for note in load_notes(grounds, branch)
        if note.has_happened(grounds, tip)
        for name in note.due(grounds, tip)
    )


def pay(grounds: Grounds, branch: str, pin: Pin, owed: Owed) -> None:
    """Let one table hold what is pinned.

    Raises ConflictError where its branch is closed, or nobody can tell whether it was done.
    """
    if owed.uuid is None:
        _begin_anew(grounds, branch, pin, owed)
    else:
        _restore(grounds, pin, owed, owed.uuid)


def restoring(
    head: Snapshot, source: Snapshot, uuid: str | None = None, message: str | None = None
) -> Transaction:
    """The transaction that gives a branch, whose newest version is ``head``, an older state."""
    made = Transaction.new(head.manifest.version, Restore(source.manifest.version), message=message)
    known = made.uuid if uuid is None else uuid
    return replace(made, uuid=known, properties={**made.properties, STAGED_PROPERTY: known})


def _restore(grounds: Grounds, pin: Pin, owed: Owed, uuid: str) -> None:
    """The head is read before the versions are searched: who does the same in between is seen
    either by the search or by the commit."""
    head = load_snapshot(grounds.place(pin))
    is_landing = pin.landing is not None and uuid == pin.landing.uuids[-1]
    if not is_landing and content_digest(head.manifest.message) == pin.content:
        return
    try:
        if find_landed(head.place, head.scheme, uuid, owed.base) is not None:
            return
    except CommitUnknownError as unknown:
        raise IncompatibleConflictError(
            f"its branch was moved, and whether the table followed cannot be told: "
            f"{unknown.message}",
            **unknown.facts,
        ) from unknown
    source = pinned_state(grounds, pin)
    transaction = restoring(head, source, uuid, "reset")
    commit(head.place, head.manifest, head.scheme, transaction)


def _begin_anew(grounds: Grounds, branch: str, pin: Pin, owed: Owed) -> None:
    source = landed_version(grounds, pin)
    if source is None:
        raise IncompatibleConflictError(
            "its branch is to begin anew from a state that is no version of the history"
        )
    main, wanted = main_place(source), lance_branch(branch)
    assert wanted is not None, "main does not begin anew"
    place = branch_place(main, wanted)
    for _ in range(_ATTEMPTS):
        try:
            head = load_snapshot(place)
        except NotFoundError:
            return  # the branch was deleted: the next writer makes it
        if _has_begun(place, head, source, owed):
            return
        try:
            begin_anew(main, source, head, BranchName.found(wanted))
            return
        except AlreadyExistsError:
            continue
    raise RetryableConflictError(
        f"its branch {str(wanted)!r} moved {_ATTEMPTS} times while it was to begin anew"
    )


def _has_begun(place: Place, head: Snapshot, source: Snapshot, owed: Owed) -> bool:
    """Whether a version since the note was written is where the branch began anew."""
    for version in versions_since(place.store, owed.base, head.scheme).versions:
        for made in load_transaction_of(place.store, version, head.scheme).operations:
            is_same = (
                isinstance(made, Clone)
                and made.ref_version == source.manifest.version
                and made.ref_name == source.manifest.branch
            )
            if is_same:
                return True
    return False

"""Telling tables elsewhere that commits of this repository pin them, before the first one does.

``add`` does it when it takes a table in. A copy of a repository, or one that was moved, has tables
that only know the place where it was; a cleanup of them would not look here.

A repository that somebody else made may pin any place of this machine, or any uri. So nothing is
written to a table elsewhere that does not say itself that it belongs to the repository.

Which version of a table is exactly what a commit pins. Reads, and lands nothing.

Landing: what commits pin comes onto the branches of the tables.

The writer of a commit does it, and if it did not come that far, whoever writes next. Each state
lands at most once, the oldest first. What a writer from outside made impossible is a divergence:
it is told, and the commit still reads.

Paying what a moved branch owes to its tables: each comes to hold what the branch now pins.

The process that moved the branch does it, and if it did not come that far, whoever writes next;
each table at most once, by whoever comes. Until then the branch reads as it should, and only the
tables themselves are behind.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import replace

from lancewood.catalog.membership import is_member, join
from lancewood.catalog.pin import Pin
from lancewood.catalog.reachable import unlanded
from lancewood.engine.commit import commit, find_landed, lost_staged_file
from lancewood.engine.place import Place
from lancewood.engine.snapshot import (
    Snapshot,
    branch_place,
    load_snapshot,
    main_place,
    same_content,
)
from lancewood.engine.staging import Landed, find_landing, land
from lancewood.engine.versions import (
    load_manifest,
    load_transaction,
    load_transaction_of,
    versions_since,
)
from lancewood.errors import (
    AlreadyExistsError,
    CommitUnknownError,
    ConflictError,
    IncompatibleConflictError,
    InvalidInputError,
    NotFoundError,
    RetryableConflictError,
)
from lancewood.format.manifest_digest import content_digest
from lancewood.git.hashes import Hash
from lancewood.jobs.publishing.reset import begin_anew
from lancewood.model.ids import Version
from lancewood.model.operations import Clone, Restore
from lancewood.model.refs import BranchName
from lancewood.model.transaction import STAGED_PROPERTY, Transaction
from lancewood.repo.grounds import Grounds
from lancewood.repo.notes import Owed, forget, is_abandoned, load_notes, strike_out
from lancewood.repo.outcome import Divergence
from lancewood.repo.ref_names import lance_branch


def join_tables(
    grounds: Grounds, pins: Mapping[str, Pin | None], *, new: Container[str] = ()
) -> None:
    """Leave word at each table that is not below the repository; one look for each process.

    A table that is gone is left alone: what is pinned of it cannot be read anyway. Raises as
    ``check_member`` does for all but the ``new`` ones, which were named just now.
    """
    joined = grounds.memory.joined
    for name, pin in pins.items():
        if pin is None or pin.is_at_home or (pin.uri, name) in joined:
            continue
        try:
            head = load_snapshot(grounds.place(pin.on(None)))
        except NotFoundError:
            continue
        if name not in new:
            check_member(grounds, pin, name)
        join(head, grounds.home, grounds.id, name)
        joined.add((pin.uri, name))


def check_member(grounds: Grounds, pin: Pin, name: str) -> None:
    """Raise InvalidInputError for a table elsewhere that nobody has added to this repository.

    One read for each such table and process.
    """
    known = grounds.memory.members
    if pin.is_at_home or pin.uri in known:
        return
    if not is_member(grounds.place(pin.on(None)).store, grounds.id):
        raise InvalidInputError(
            f"table {name!r} is at {pin.uri}, which is not below the repository, and it does not "
            "say that it belongs to it: commits of others may name any place, so nothing is "
            f"written there. If the table is yours, repo.add({name!r}, {pin.uri!r}) takes it in",
            table=name,
            uri=pin.uri,
        )
    known.add(pin.uri)


def landed_version(grounds: Grounds, pin: Pin) -> Snapshot | None:
    """The version of the pin's branch that has its content; None where it has not landed, or landed
    together with something else.

    Raises NotFoundError and IntegrityError for a version that was pinned where it stood, and is not
    there any more.
    """
    if pin.landing is None:
        return grounds.open(pin)
    place = grounds.place(pin)
    state = find_landing(place, pin.landing)
    if not state.versions:
        return None
    try:
        found = load_snapshot(place, version=state.versions[-1])
    except NotFoundError:
        return None
    return found if content_digest(found.manifest.message) == pin.content else None


def pinned_state(grounds: Grounds, pin: Pin) -> Snapshot:
    """The version that landed, or the state beside the history that was pinned.

    Raises NotFoundError, also for a state whose files are gone, and IntegrityError.
    """
    return landed_version(grounds, pin) or _whole(grounds.open(pin), pin)


def _whole(state: Snapshot, pin: Pin) -> Snapshot:
    """A state that is beside the history, once its own files were looked for."""
    before = None
    if pin.landing is not None and pin.landing.base:
        with contextlib.suppress(NotFoundError):
            before = load_manifest(state.place.store, pin.landing.base, state.scheme)
    lost = lost_staged_file(state.place, before, state.manifest)
    if lost is not None:
        raise NotFoundError(
            f"{lost} of {state.place.uri}, which version {pin.version} needs that the commit pins, "
            "is gone. Another program's cleanup removed it before the commit landed; bring it back "
            "from a copy, or use another commit",
            uri=state.place.uri,
            version=pin.version,
            file=lost,
        )
    return state


def is_beginning(head: Snapshot, branch: str | None, version: Version) -> bool:
    """Whether a branch of a table begins, or began anew, at a version of another one, and was not
    written since."""
    made = load_transaction(head.place.store, head.manifest).operations[0]
    return isinstance(made, Clone) and (made.ref_name, made.ref_version) == (branch, version)


def same_table(grounds: Grounds, one: Pin, other: Pin) -> bool:
    """Whether two pins are of the same rows and columns of one table, on whatever branches."""
    if one.uri != other.uri:
        return False
    if one.branch == other.branch and one.content == other.content:
        return True
    if (one.rows, one.fragments, one.schema) != (other.rows, other.fragments, other.schema):
        return False
    return same_content(grounds.open(one), grounds.open(other))


LOST = "lost"
"""The fact of a conflict that says: what the commit pins is gone."""


def land_pin(grounds: Grounds, pin: Pin, name: str) -> Landed | None:
    """Bring one state onto its branch; None for one that was pinned where it stood.

    Raises ConflictError for a divergence, and InvalidInputError as ``check_member``.
    """
    if pin.landing is None:
        return None
    check_member(grounds, pin, name)
    return land(grounds.place(pin), pin.landing)


def land_rest(
    grounds: Grounds, tip: Hash | None, names: Iterable[str] | None = None
) -> tuple[Divergence, ...]:
    """Bring everything onto the branches that the commits up to ``tip`` pin, the oldest first; of
    the tables that are named, or of all. A state that is gone is a divergence, too."""
    if tip is None:
        return ()
    wanted = None if names is None else tuple(names)
    try:
        return _land_all(grounds, tip, wanted)
    except NotFoundError as gone:
        if "hash" in gone.facts:  # of git, not of a table
            raise
    found: list[Divergence] = []
    for name in grounds.tree(tip).names() if wanted is None else wanted:
        try:
            found += _land_all(grounds, tip, (name,))
        except NotFoundError as gone:
            found.append(Divergence(name, _lost(gone)))
    return tuple(found)


def _land_all(grounds: Grounds, tip: Hash, names: tuple[str, ...] | None) -> tuple[Divergence, ...]:
    found: dict[str, Divergence] = {}
    waiting = unlanded(
        grounds.git,
        tip,
        grounds.home,
        names=names,
        storage_options=grounds.storage_options,
        fsync=grounds.fsync,
        stores=grounds.memory.stores,
    )
    for name, pin in waiting:
        if name in found:
            continue
        try:
            land_pin(grounds, pin, name)
        except ConflictError as conflict:
            found[name] = Divergence(name, conflict)
    return tuple(found.values())


def _lost(gone: NotFoundError) -> IncompatibleConflictError:
    return IncompatibleConflictError(
        f"the state that the commit pins has not landed, and is gone: {gone.message}",
        **{**gone.facts, LOST: True},
    )


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

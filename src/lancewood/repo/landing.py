"""Landing: what commits pin gets onto the branches of the tables.

The writer of a commit lands it; if it is interrupted, the next writer does. Each state lands at
most once, oldest first. What a writer from outside made impossible is a divergence: it is reported,
and the commit still reads. In the same way, after a branch was moved each table is brought to what
the branch now pins. Until then the branch reads as it should, and only the tables are behind.

A tag in each table elsewhere says that commits pin it, and where the repository is, so that its
cleanup looks here. A repository that others made may pin any path or uri. So nothing is
written to a table elsewhere that does not itself say that it belongs to the repository.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from lancewood.catalog.names import lance_branch
from lancewood.catalog.opening import content_of
from lancewood.catalog.pin import Pin
from lancewood.errors import (
    AlreadyExistsError,
    CommitUnknownError,
    ConflictError,
    IncompatibleConflictError,
    IntegrityError,
    InvalidInputError,
    NotFoundError,
    RetryableConflictError,
)
from lancewood.git.values import Hash
from lancewood.model.ids import Version, version_words
from lancewood.model.lines import has_own_ids
from lancewood.model.refs import BranchName
from lancewood.model.transaction import STAGED_PROPERTY, Clone, Restore, Transaction
from lancewood.repo.context import RepoContext
from lancewood.repo.notes import (
    PendingMove,
    is_abandoned,
    load_move_notes,
    remove_from_note,
    remove_move_note,
)
from lancewood.repo.outcome import Divergence
from lancewood.store.retry import LOST_RACES

if TYPE_CHECKING:
    from lancewood.engine.location import Location
    from lancewood.engine.snapshot import Snapshot
    from lancewood.engine.staging import Landed

LOST = "lost"
"""The fact of a conflict which says that what the commit pins is gone."""


def join_tables(
    context: RepoContext, pins: Mapping[str, Pin | None], *, new: Container[str] = ()
) -> None:
    """Mark each table elsewhere as pinned by this repository; one look per table and process.

    Skips a table that is gone. Raises as ``check_member`` does, except for the ``new`` tables,
    which the user just named.
    """
    from lancewood.catalog.membership import join
    from lancewood.engine.snapshot import load_snapshot

    joined = context.memory.joined
    for name, pin in pins.items():
        if pin is None or pin.is_own or (pin.uri, name) in joined:
            continue
        try:
            head = load_snapshot(context.location(pin.on(None)))
        except NotFoundError:
            continue
        if name not in new:
            check_member(context, pin, name)
        join(head, context.root, context.id, name)
        joined.add((pin.uri, name))


def check_member(context: RepoContext, pin: Pin, name: str) -> None:
    """Raise InvalidInputError for a table elsewhere that was never added to this repository.

    One read per table and process.
    """
    from lancewood.catalog.membership import is_member

    known = context.memory.members
    if pin.is_own or pin.uri in known:
        return
    if not is_member(context.location(pin.on(None)).store, context.id):
        raise InvalidInputError(
            f"table {name!r} is at {pin.uri}, which is not below the repository, and it does not "
            "say that it belongs to it: commits of others may name any place, so nothing is "
            f"written there. If the table is yours, repo.add({name!r}, {pin.uri!r}) takes it in",
            table=name,
            uri=pin.uri,
        )
    known.add(pin.uri)


def landed_version(context: RepoContext, pin: Pin) -> Snapshot | None:
    """The version on the pin's branch with the pinned content; None if it has not landed, or landed
    together with something else.

    Raises NotFoundError and IntegrityError if an ordinary version was pinned and is no longer
    there.
    """
    from lancewood.engine.snapshot import load_snapshot
    from lancewood.engine.staging import find_landing

    if pin.landing is None:
        return context.open(pin)
    location = context.location(pin)
    state = find_landing(location, pin.landing)
    if not state.versions:
        return None
    try:
        found = load_snapshot(location, version=state.versions[-1])
    except NotFoundError:
        return None
    return found if content_of(found) == pin.content else None


def is_as_pinned(context: RepoContext, pin: Pin, head: Snapshot) -> bool:
    """Whether a version of the pin's branch has the pinned rows, columns and indices. If the pinned
    version is gone, nobody knows of its indices, and they count as the same."""
    from lancewood.engine.snapshot import same_indices
    from lancewood.engine.staging import is_last_step

    if content_of(head) != pin.content:
        return False
    if pin.landing is not None and is_last_step(head.manifest, pin.landing):
        return True
    try:
        pinned = landed_version(context, pin)
    except (NotFoundError, IntegrityError):
        return True
    return pinned is None or same_indices(pinned.manifest, head.manifest)


def pinned_state(context: RepoContext, pin: Pin) -> Snapshot:
    """The landed version, or else the detached state that was pinned.

    Raises NotFoundError, also if files of the state are gone, and IntegrityError.
    """
    return landed_version(context, pin) or _whole(context.open(pin), pin)


def _whole(state: Snapshot, pin: Pin) -> Snapshot:
    """A detached state, after checking that its own files are there."""
    from lancewood.engine.commit import lost_staged_file
    from lancewood.engine.versions import load_manifest

    before = None
    if pin.landing is not None and pin.landing.base:
        with contextlib.suppress(NotFoundError):
            before = load_manifest(state.location.store, pin.landing.base, state.scheme)
    lost = lost_staged_file(state.location, before, state.manifest)
    if lost is not None:
        raise NotFoundError(
            f"{lost} of {state.location.uri}, which {version_words(pin.version)} needs that the "
            "commit pins, is gone. Another program's cleanup removed it before the commit landed; "
            "bring it back from a copy, or use another commit",
            uri=state.location.uri,
            version=pin.version,
            file=lost,
        )
    return state


def is_beginning(head: Snapshot, branch: str | None, version: Version) -> bool:
    """Whether a branch of a table was not written since it began at a version of another branch."""
    from lancewood.engine.versions import load_transaction

    made = load_transaction(head.location.store, head.manifest).operations[0]
    return isinstance(made, Clone) and (made.ref_name, made.ref_version) == (branch, version)


def same_table(context: RepoContext, one: Pin, other: Pin) -> bool:
    """Whether two pins have the same rows and columns of one table, on whatever branches."""
    from lancewood.engine.snapshot import same_content

    if one.uri != other.uri:
        return False
    if one.branch == other.branch and one.content == other.content:
        return True
    if (one.rows, one.fragments, one.schema) != (other.rows, other.fragments, other.schema):
        return False
    return same_content(context.open(one), context.open(other))


def land_pin(context: RepoContext, pin: Pin, name: str) -> Landed | None:
    """Bring one state onto its branch; None for an ordinary version.

    Raises ConflictError for a divergence, and InvalidInputError as ``check_member`` does.
    """
    from lancewood.engine.staging import land

    if pin.landing is None:
        return None
    check_member(context, pin, name)
    return land(context.location(pin), pin.landing)


def land_rest(
    context: RepoContext, tip: Hash | None, names: Iterable[str] | None = None
) -> tuple[Divergence, ...]:
    """Land everything that commits up to ``tip`` pin, oldest first; of the named tables, or of all.
    A state that is gone counts as a divergence."""
    if tip is None:
        return ()
    wanted = None if names is None else tuple(names)
    try:
        return _land_all(context, tip, wanted)
    except NotFoundError as gone:
        if "hash" in gone.facts:  # of git, not of a table
            raise
    found: list[Divergence] = []
    for name in context.tree(tip).names() if wanted is None else wanted:
        try:
            found += _land_all(context, tip, (name,))
        except NotFoundError as gone:
            lost = IncompatibleConflictError(
                f"the state that the commit pins has not landed, and is gone: {gone.message}",
                **{**gone.facts, LOST: True},
            )
            found.append(Divergence(name, lost))
    return tuple(found)


def _land_all(
    context: RepoContext, tip: Hash, names: tuple[str, ...] | None
) -> tuple[Divergence, ...]:
    from lancewood.catalog.reachable import waiting

    found: dict[str, Divergence] = {}
    for state in waiting(context.git, tip, context.root, names=names, stores=context.table_stores):
        if state.name in found:
            continue
        try:
            land_pin(context, state.pin, state.name)
        except ConflictError as conflict:
            found[state.name] = Divergence(state.name, conflict)
    return tuple(found.values())


def finish_moves(
    context: RepoContext, branch: str, tip: Hash | None, names: Collection[str] | None = None
) -> tuple[Divergence, ...]:
    """Bring the named tables, or all, to what a branch at ``tip`` pins after it was moved.

    Costs one look at a directory if there is nothing to do.
    """
    found = []
    for note in load_move_notes(context, branch):
        if not note.has_happened(context, tip):
            if tip != note.before and is_abandoned(context, note):
                remove_move_note(context, note)
            continue
        pending = note.pending(context, tip)
        done = note.tables.keys() - pending.keys()
        for name in pending if names is None else pending.keys() & {*names}:
            try:
                pin = context.tree(note.after).pin(name)
                check_member(context, pin, name)
                move_table(context, branch, pin, pending[name])
                done.add(name)
            except ConflictError as conflict:
                found.append(Divergence(name, conflict))
        if done:
            remove_from_note(context, note, done)
    return tuple(found)


def catch_up(
    context: RepoContext, branch: str, tip: Hash | None, names: Collection[str] | None = None
) -> tuple[Divergence, ...]:
    """Everything that comes before a new write: ``finish_moves``, then ``land_rest``.

    In this order, since what a branch was moved to takes precedence over what could still land.
    """
    pending = finish_moves(context, branch, tip, names)
    return (*pending, *land_rest(context, tip, names))


def pending_tables(context: RepoContext, branch: str, tip: Hash | None) -> frozenset[str]:
    """The tables that are behind after a move; only reads."""
    return frozenset(
        name
        for note in load_move_notes(context, branch)
        if note.has_happened(context, tip)
        for name in note.pending(context, tip)
    )


def move_table(context: RepoContext, branch: str, pin: Pin, pending: PendingMove) -> None:
    """Bring one table to what is pinned.

    Raises ConflictError if its branch is closed, or if it is unknown whether it was done.
    """
    if pending.uuid is None:
        _begin_anew(context, branch, pin, pending)
    else:
        _restore(context, pin, pending, pending.uuid)


def restoring(
    head: Snapshot, source: Snapshot, uuid: str | None = None, message: str | None = None
) -> Transaction:
    """The transaction that returns a branch with newest version ``head`` to an older state."""
    made = Transaction.new(head.manifest.version, Restore(source.manifest.version), message=message)
    known = made.uuid if uuid is None else uuid
    return replace(made, uuid=known, properties={**made.properties, STAGED_PROPERTY: known})


def _restore(context: RepoContext, pin: Pin, pending: PendingMove, uuid: str) -> None:
    """Reads the head before searching the versions: if another process does the same in between,
    either the search or the commit sees it."""
    from lancewood.engine.commit import commit, find_landed
    from lancewood.engine.snapshot import load_snapshot

    head = load_snapshot(context.location(pin))
    is_landing = pin.landing is not None and uuid == pin.landing.uuids[-1]
    if not is_landing and is_as_pinned(context, pin, head):
        return
    try:
        if find_landed(head.location, head.scheme, uuid, pending.base) is not None:
            return
    except CommitUnknownError as unknown:
        raise IncompatibleConflictError(
            f"its branch was moved, and whether the table followed cannot be told: "
            f"{unknown.message}",
            **unknown.facts,
        ) from unknown
    source = pinned_state(context, pin)
    transaction = restoring(head, source, uuid, "reset")
    commit(head.location, head.manifest, head.scheme, transaction)


def _begin_anew(context: RepoContext, branch: str, pin: Pin, pending: PendingMove) -> None:
    from lancewood.engine.snapshot import branch_location, load_snapshot, main_location
    from lancewood.jobs.publish.closed_branch import begin_anew

    source = landed_version(context, pin)
    if source is None:
        raise IncompatibleConflictError(
            "its branch is to begin anew from a state that is no version of the history"
        )
    main, wanted = main_location(source), lance_branch(branch)
    assert wanted is not None, "main does not begin anew"
    location = branch_location(main, wanted)
    for _ in LOST_RACES:
        try:
            head = load_snapshot(location)
        except NotFoundError:
            return  # the branch was deleted: the next writer makes it
        if _has_begun(location, head, source, pending):
            return
        try:
            own_ids = has_own_ids(head.manifest)
            begin_anew(main, source, head, BranchName.found(wanted), own_ids=own_ids)
            return
        except AlreadyExistsError:
            continue
    raise RetryableConflictError(
        f"its branch {str(wanted)!r} moved {LOST_RACES.attempts} times while it was to begin anew"
    )


def _has_begun(location: Location, head: Snapshot, source: Snapshot, pending: PendingMove) -> bool:
    """Whether the branch has begun anew since the note was written."""
    from lancewood.engine.versions import load_transaction_of, versions_since

    for version in versions_since(location.store, pending.base, head.scheme).versions:
        for made in load_transaction_of(location.store, version, head.scheme).operations:
            is_same = (
                isinstance(made, Clone)
                and made.ref_version == source.manifest.version
                and made.ref_name == source.manifest.branch
            )
            if is_same:
                return True
    return False

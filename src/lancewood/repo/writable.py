"""Where a table is written on a branch of the repository: on its own branch of that name.

That branch is made when the repository's branch first writes to the table, from the version that
the commit pins. A branch of that name that others made is not touched unless it is adopted.
Like git's work tree, the table may differ from what the branch pins.

The branch of the table may hold versions that the repository's branch does not pin. What commits
made that were abandoned can be read from them, so other content may follow it. What others wrote
stays. If the branch does not pin the table, that is a conflict. If it does, the writes become part
of the next commit that changes the table, since the history of a table's branch is linear and a
transaction can only follow its newest version. They are found here, to be reported.

The exclusive setting is the repository's. A table is reserved by a key in its configuration and the
writer flag that comes with it. Every state that a transaction writes follows the setting, so if
setting it is interrupted, the next transaction that writes to a table completes it there.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from lancewood.catalog.membership import REPOSITORY_ID
from lancewood.catalog.names import SECTION, lance_branch, own_table_uri
from lancewood.catalog.pin import Pin
from lancewood.engine.location import Location
from lancewood.engine.snapshot import Snapshot, branch_location, load_snapshot, main_location
from lancewood.engine.versions import (
    list_versions,
    load_branch,
    load_transaction,
    load_transaction_of,
    versions_since,
)
from lancewood.errors import (
    AlreadyExistsError,
    ConflictError,
    IncompatibleConflictError,
    InvalidInputError,
    NotFoundError,
    RetryableConflictError,
)
from lancewood.format.manifest import content_digest
from lancewood.git.history import walk
from lancewood.git.values import Hash
from lancewood.model.ids import Version
from lancewood.model.lines import has_own_ids
from lancewood.model.manifest import Manifest
from lancewood.model.refs import Branch, BranchName, called
from lancewood.model.table_config import keeper_of, keeping
from lancewood.model.transaction import STAGED_PROPERTY, Clone
from lancewood.model.transaction import Transaction as TableTransaction
from lancewood.repo.context import EXCLUSIVE, RepoContext
from lancewood.repo.landing import (
    LOST,
    check_member,
    finish_moves,
    is_as_pinned,
    is_beginning,
    land_pin,
    land_rest,
    landed_version,
)
from lancewood.repo.notes import check_unmerged
from lancewood.repo.outcome import Divergence, TakenIn
from lancewood.store.retry import LOST_RACES

if TYPE_CHECKING:
    from lancewood.engine.staging import Stage


class BranchMovedError(RetryableConflictError):
    """The branch of the repository has another commit by now; look at it, and try again."""


def writable_head(
    context: RepoContext,
    branch: str,
    tip: Hash | None,
    name: str,
    pin: Pin,
    *,
    adopt: bool = False,
    own_ids: bool = True,
) -> Snapshot:
    """The newest version of the table on the branch, once all commits up to ``tip`` have landed.

    A branch of the table that is made for it gets row ids of its own, unless ``own_ids`` says that
    it will not stay. Raises IncompatibleConflictError for a table that has diverged, and for a
    branch of it that the repository did not make.
    """
    check_member(context, pin, name)
    wanted = lance_branch(branch)
    for each in finish_moves(context, branch, tip, [name]):
        raise diverged(each)
    if pin.branch == wanted:
        head = _landed_head(context, pin)
        if head is None:
            for each in land_rest(context, tip, [name]):
                raise diverged(each)
        found = head or load_snapshot(context.location(pin))
        if not (has_own_ids(found.manifest) and found.manifest.has_stable_row_ids):
            check_unmerged(context, branch, tip, name)
        return found
    if wanted is None:
        raise IncompatibleConflictError(
            f"table {name!r} is pinned on its {called(pin.branch)}, and main is to be written: "
            f"merge {str(pin.branch)!r} into main first",
            table=name,
        )
    source = landed_source(context, name, pin)
    return own_head(context, branch, tip, name, source, wanted, adopt=adopt, own_ids=own_ids)


def _landed_head(context: RepoContext, pin: Pin) -> Snapshot | None:
    """The newest version of the pin's branch, if it is the pinned state itself, as is usual."""
    from lancewood.engine.staging import is_last_step

    try:
        head = load_snapshot(context.location(pin))
    except NotFoundError:
        return None
    return head if pin.landing is None or is_last_step(head.manifest, pin.landing) else None


def landed_source(context: RepoContext, name: str, pin: Pin) -> Snapshot:
    """The landed version with the pinned content, from which branches are made.

    Raises IncompatibleConflictError if there is none.
    """
    if pin.landing is None:
        return context.open(pin)
    try:
        landed = land_pin(context, pin, name)
    except ConflictError as conflict:
        raise diverged(Divergence(name, conflict)) from conflict
    assert landed is not None
    found = load_snapshot(context.location(pin), version=landed.versions[-1])
    if not landed.is_exact and content_digest(found.manifest.message) != pin.content:
        raise IncompatibleConflictError(
            f"table {name!r} landed together with a write from outside, as version "
            f"{landed.versions[-1]}: no version of it is exactly what the commit pins, and no "
            "branch can be made there; commit() where it stands, and go on from that commit",
            table=name,
        )
    return found


def is_ours(context: RepoContext, record: Branch) -> bool:
    """Whether this repository made a branch of a table."""
    return record.metadata.get(REPOSITORY_ID) == context.id


def why_not_ours(context: RepoContext, record: Branch, parent: str | None) -> str | None:
    """Why the repository cannot have a branch of a table go on from the table's branch ``parent``,
    as the end of a sentence that begins with the table; None if it can."""
    has = f"has a branch {str(record.name)!r} that"
    if not is_ours(context, record):
        return (
            f"{has} this repository did not make; adopt=True in a transaction takes it over as it "
            "stands, or choose another name for the branch"
        )
    if record.parent_branch != parent:
        return (
            f"{has} was made from {called(record.parent_branch)}, and cannot begin anew from "
            f"{called(parent)}; delete it, or choose another name for the branch"
        )
    return None


def goes_on(location: Location, parent: str | None, version: Version) -> bool:
    """Whether a branch of a table holds nothing but a version of its parent and what others wrote
    since, and no landed commit of the repository.

    Such a commit would be from an earlier branch of that name, or from before it moved.
    """
    found = list_versions(location.store)
    for each in found.versions:
        made = load_transaction_of(location.store, each, found.scheme)
        if isinstance(made.operation, Clone):
            return made.operation.ref_version == version and made.operation.ref_name == parent
        if STAGED_PROPERTY in made.properties:
            return False
    return False


def diverged(found: Divergence) -> IncompatibleConflictError:
    """The error for a table that cannot be written before its user decides."""
    way_out = (
        "The commit still reads; commit() takes the table as it stands, reset() brings back what "
        "is committed"
    )
    if found.conflict.facts.keys() & {LOST, "file"}:
        way_out = (
            "Bring the files back from a copy; else commit() takes the table as it stands, and "
            f"remove({found.table!r}) leaves it out"
        )
    return IncompatibleConflictError(
        f"table {found.table!r} has diverged: {found.conflict.message}. {way_out}",
        **{**found.conflict.facts, "table": found.table},
    )


def own_head(
    context: RepoContext,
    branch: str,
    tip: Hash | None,
    name: str,
    source: Snapshot,
    wanted: BranchName,
    *,
    adopt: bool = False,
    own_ids: bool = True,
) -> Snapshot:
    """The newest version of the table's branch, which begins at the source.

    Writes of others since it was made are taken in; what commits of an earlier branch of that name
    left is not. Two processes may write to it for the first time at once: a branch only begins anew
    right after the version that was seen, and while the repository's branch has not moved.
    """
    from lancewood.jobs.publish.closed_branch import begin_anew, mend_record
    from lancewood.jobs.refs.creation import create_branch
    from lancewood.jobs.refs.records import is_leaving

    main = main_location(source)
    for _ in LOST_RACES:
        record = load_branch(main.store, wanted)
        if record is None:
            try:
                made = {REPOSITORY_ID: context.id}
                return create_branch(source, str(wanted), metadata=made, own_ids=own_ids)
            except AlreadyExistsError:
                continue
        if is_leaving(main.store, wanted):
            raise RetryableConflictError(
                f"branch {str(wanted)!r} of table {name!r} is being deleted or renamed at this "
                "moment; run the transaction again",
                table=name,
                branch=str(wanted),
            )
        head = load_snapshot(branch_location(main, wanted))
        if adopt:
            return head
        why = why_not_ours(context, record, source.manifest.branch)
        if why is not None:
            raise IncompatibleConflictError(
                f"table {name!r} {why}", table=name, branch=str(record.name)
            )
        if goes_on(head.location, source.manifest.branch, source.manifest.version):
            mend_record(main.store, head, source.manifest.version, source.manifest.size)
            return head
        if context.tip(branch) != tip:
            raise BranchMovedError(f"branch {branch!r} has another commit by now", branch=branch)
        try:
            return begin_anew(main, source, head, wanted, own_ids=own_ids)
        except AlreadyExistsError:
            continue
    raise RetryableConflictError(
        f"branch {str(wanted)!r} of table {name!r} moved {LOST_RACES.attempts} times while it was "
        "to begin anew; run the transaction again when nobody else writes to it",
        table=name,
        branch=str(wanted),
    )


def working_location(
    context: RepoContext, branch: str, pin: Pin, *, adopt: bool = False
) -> Location | None:
    """The root where the table is written on a branch of the repository.

    None if it was not written there since it was pinned, and the pin is on another branch.
    """
    wanted = lance_branch(branch)
    location = context.location(pin)
    if pin.branch == wanted:
        return location
    main = context.location(pin.on(None))
    if wanted is None:
        return main
    record = load_branch(main.store, wanted)
    if record is None:
        return None
    found = branch_location(main, wanted)
    is_begun_here = is_ours(context, record) and goes_on(found, pin.branch, pin.exact_version)
    return found if adopt or is_begun_here else None


def changed_head(
    context: RepoContext, pin: Pin, location: Location, newest: Version, *, is_pinned_branch: bool
) -> Snapshot | None:
    """The newest version of a table, if its rows, columns or indices are not the pin's.

    ``is_pinned_branch``: the location is that of the pin's branch.
    """
    if is_pinned_branch and pin.landing is None and pin.version == newest:
        return None
    head = load_snapshot(location, version=newest)
    if is_pinned_branch and is_as_pinned(context, pin, head):
        return None
    if not is_pinned_branch and is_beginning(head, pin.branch, pin.exact_version):
        return None
    return head


def set_exclusive(context: RepoContext, is_exclusive: bool) -> None:
    """Write the setting; the next transaction that writes to a table applies it there."""
    if not isinstance(is_exclusive, bool):
        raise InvalidInputError(f"exclusive is True or False, not {is_exclusive!r}")
    context.git.set(SECTION, EXCLUSIVE, "true" if is_exclusive else "false")


def keep_to_setting(context: RepoContext, stage: Stage) -> None:
    """Have the newest state of a stage follow the setting: one more step if it does not."""
    wanted = wanted_keeper(context)
    head = stage.snapshot.manifest
    if keeper_of(head) != wanted:
        stage.commit(TableTransaction.new(head.version, keeping(wanted)))


def wanted_keeper(context: RepoContext) -> str | None:
    """What the key of every table should be."""
    return context.id if context.is_exclusive else None


def check_not_exclusive(context: RepoContext, name: str) -> None:
    """Raise InvalidInputError if tables may only be written in transactions."""
    if context.is_exclusive:
        raise InvalidInputError(
            f"table {name!r} cannot be written without a transaction: the repository keeps its "
            "tables for itself; write in repo.transaction(), or open them to others with "
            "repo.exclusive(False)",
            table=name,
        )


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

"""Making tables ready to be written on a branch by writers that know nothing of the repository.

Pylance, Spark and ``lw table`` need the branch of a table to exist before they write on it.
``Repository.commit`` then records what they wrote. A transaction does not need this.

Work may also be meant for another branch, into which it is merged, squashed, before its own branch
is deleted. The target must not be left with a pin on a branch of a table that is deleted. Work can
be published onto the branch of a table that it comes from, so it has to begin at the target's own.
Where the target still pins a table on another branch, because it was never written there, its own
is made first. The branch with the work pins where that begins, and the target does not know it
until the merge.

A new table begins empty, on main, and no commit of main pins it. One that the target had until a
commit removed it continues with nothing of what it held; so does one of that name that another
branch made.
"""

from __future__ import annotations

import contextlib
import os

import pyarrow as pa

from lancewood.catalog.names import checked_table, lance_branch, own_table_uri
from lancewood.catalog.opening import pin_of
from lancewood.catalog.pin import Pin
from lancewood.engine.location import Location
from lancewood.engine.snapshot import (
    Snapshot,
    branch_location,
    is_table,
    load_snapshot,
    main_location,
)
from lancewood.engine.write import create_table
from lancewood.errors import AlreadyExistsError, RetryableConflictError
from lancewood.git.objects import Signature
from lancewood.jobs.publish import reset
from lancewood.jobs.publish.work import load_work
from lancewood.model.lines import has_own_ids
from lancewood.model.refs import MAIN, BranchName, called
from lancewood.repo.commit.adding import add_tables, check_no_manifest_store
from lancewood.repo.commit.creating import begin_anew, may_branch, new_location, taken
from lancewood.repo.commit.transaction import Transaction
from lancewood.repo.context import RepoContext
from lancewood.repo.landing import finish_moves
from lancewood.repo.writing.abandoned import is_free, unpinned_head
from lancewood.repo.writing.writable import (
    check_not_exclusive,
    diverged,
    working_location,
    writable_head,
)
from lancewood.store.locate import open_store
from lancewood.table.table import Table


def prepare(
    context: RepoContext, branch: str, name: str, *, adopt: bool, own_ids: bool = True
) -> Table:
    """The newest version of a table on a branch, which is made if need be.

    What commits of the branch pin lands first; uncommitted writes stay. Raises NotFoundError,
    IncompatibleConflictError for a table that has diverged, and InvalidInputError in an exclusive
    repository.
    """
    check_not_exclusive(context, name)
    tip = context.tip(branch)
    pin = context.pin(context.tree(tip), name)
    wanted = lance_branch(branch)
    if pin.branch != wanted and wanted is not None:
        for each in finish_moves(context, branch, tip, [name]):
            raise diverged(each)
        location = working_location(context, branch, pin, adopt=adopt)
        if location is not None:
            return Table(load_snapshot(location))
    head = writable_head(context, branch, tip, name, pin, adopt=adopt, own_ids=own_ids)
    return Table(head)


def prepare_work(
    context: RepoContext,
    branch: str,
    name: str,
    *,
    onto: str,
    by: Signature,
    own_ids: bool = False,
) -> Table:
    """A table on a branch whose work is to be merged onto another branch; by rows, if need be, only
    if it has row ids of its own.

    Raises what ``prepare`` raises, and RetryableConflictError if the other branch moved.
    """
    check_not_exclusive(context, name)
    pin = context.pin(context.tree(context.tip(branch)), name)
    if pin.branch not in (lance_branch(branch), lance_branch(onto)):
        first = _beginning(context, onto, name, pin)
        message = f"table {name} goes on from its {called(lance_branch(onto))}"
        changes = Transaction(context, branch, message, by)
        changes.pin(name, pin_of(first, pin.uri))
        changes.commit()
    return prepare(context, branch, name, adopt=False, own_ids=own_ids)


def prepare_new(
    context: RepoContext,
    branch: str,
    name: str,
    schema: pa.Schema,
    *,
    onto: str,
    by: Signature,
    uri: str | os.PathLike[str] | None = None,
    own_ids: bool = False,
) -> Table:
    """A table that the branch does not have yet, with these columns and without rows; or, where
    there is a table at ``uri`` already, that one as it stands.

    Raises AlreadyExistsError if there is another table in its place.
    """
    check_not_exclusive(context, name)
    checked_table(name)
    changes = Transaction(context, branch, f"add table {name}", by)
    if uri is None:
        if name in changes.tables:
            raise AlreadyExistsError(
                f"there is a table {name!r} on branch {branch!r} already", table=name
            )
        first = _first_own(context, onto, name, schema)
        changes.pin(name, pin_of(first, own_table_uri(name)))
        is_right = not first.manifest.fragment_count and first.arrow_schema == schema
    else:
        is_right = True
        _make_at(context, uri, schema)
        add_tables(context, changes, {name: uri})
    changes.commit()
    work = prepare_work(context, branch, name, onto=onto, by=by, own_ids=own_ids)
    table = _begun_anew(work)
    if is_right:
        return table
    with Transaction(context, branch, f"table {name} begins anew", by) as changes:
        begin_anew(changes.table(name), schema)
    return prepare(context, branch, name, adopt=False, own_ids=own_ids)


def _begun_anew(table: Table) -> Table:
    """A table on a branch without what was written there before any commit pinned the table there:
    that was abandoned."""
    head = table._snapshot
    if head.manifest.branch is None:
        return table
    work = load_work(head)
    if not work.steps:
        return table
    main = main_location(head)
    source = load_snapshot(branch_location(main, work.parent), version=work.fork)
    wanted = BranchName.found(work.branch)
    own_ids = has_own_ids(head.manifest)
    return Table(reset.begin_anew(main, source, head, wanted, own_ids=own_ids))


def _beginning(context: RepoContext, branch: str, name: str, pin: Pin) -> Snapshot:
    """Where the table's own branch begins, which goes on from a pin; it is made if need be.

    Raises RetryableConflictError if the branch pins something else by now: its own would have to
    begin anew, and there are writes on it.
    """
    tip = context.tip(branch)
    tree = context.tree(tip)
    if tree.blob_hash(name) is not None and tree.pin(name) != pin:
        raise RetryableConflictError(
            f"table {name!r} of branch {branch!r} was changed by another commit meanwhile; begin "
            "the work again from there",
            table=name,
            branch=branch,
        )
    return load_work(writable_head(context, branch, tip, name, pin)).first


def _first_own(context: RepoContext, onto: str, name: str, schema: pa.Schema) -> Snapshot:
    """Where the work on a table below the repository begins: a new one without rows; one that was
    never published, perhaps with other columns; or what the target had before, or another branch
    has, rows and all."""
    location = new_location(context, name)
    if not is_table(location.store):
        with contextlib.suppress(AlreadyExistsError):  # another process was faster
            return create_table(location, schema)
    found = load_snapshot(location)
    if found.manifest.version == 1 and not found.manifest.fragment_count:
        return found
    tip = context.tip(onto)
    is_made = context.tree(tip).blob_hash(name) is not None
    before = None if is_made else unpinned_head(context, onto, tip, name)
    if before is not None:
        return before
    if is_made or not (is_free(found) if onto == MAIN else may_branch(context, name, found)):
        raise taken(name, location)
    return found


def _make_at(context: RepoContext, uri: str | os.PathLike[str], schema: pa.Schema) -> None:
    """Make an empty table at a uri, unless there is one."""
    options = context.storage_options
    check_no_manifest_store(os.fspath(uri))
    location = Location(open_store(uri, storage_options=options, fsync=context.fsync), options)
    if not is_table(location.store):
        with contextlib.suppress(AlreadyExistsError):
            create_table(location, schema)

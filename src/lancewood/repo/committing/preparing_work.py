"""Making tables ready for work on a branch that is merged, squashed, into another, and then goes.

The target must not be left with a pin on a branch of a table that goes. Work on a branch of a table
can be published onto the branch that it comes from, so it has to begin at the target's own. Where
the target still pins a table on another one, because it was never written there, its own is made
first; the branch with the work pins where that begins, and the target knows nothing of it until
the merge.

A table that is not there yet begins empty, on main, which no commit of main pins. One that the
target had before, until a commit took it out, goes on from what it held, without it; and so does
one of that name which another branch made.
"""

from __future__ import annotations

import contextlib
import os

import pyarrow as pa

from lancewood.catalog.names import checked_table, own_table_uri
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
from lancewood.engine.write import NewTable, create_table
from lancewood.errors import AlreadyExistsError, RetryableConflictError
from lancewood.git.objects import Signature
from lancewood.jobs.publishing import reset
from lancewood.jobs.publishing.work import load_work
from lancewood.model.refs import MAIN, BranchName, called
from lancewood.repo.committing.adding import add_table, check_no_manifest_store
from lancewood.repo.committing.creating import begin_anew, may_branch, new_location, taken
from lancewood.repo.committing.transaction import Transaction
from lancewood.repo.context import RepoContext
from lancewood.repo.ref_names import lance_branch
from lancewood.repo.writing.given_up import is_free, left_head
from lancewood.repo.writing.preparing import check_not_exclusive, prepare
from lancewood.repo.writing.writable import writable_head
from lancewood.store.locate import open_store
from lancewood.table.table import Table


def prepare_work(
    context: RepoContext, branch: str, name: str, *, onto: str, by: Signature
) -> Table:
    """A table on a branch whose work is to be merged onto another branch.

    Raises what ``prepare`` raises, and RetryableConflictError if the other branch moved.
    """
    check_not_exclusive(context, name)
    pin = context.pin(context.tree(context.tip(branch)), name)
    if pin.branch not in (lance_branch(branch), lance_branch(onto)):
        first = _beginning(context, onto, name, pin)
        told = f"table {name} goes on from its {called(lance_branch(onto))}"
        changes = Transaction(context, branch, told, by)
        changes.pin(name, pin_of(first, pin.uri))
        changes.commit()
    return prepare(context, branch, name, adopt=False)


def prepare_new(
    context: RepoContext,
    branch: str,
    name: str,
    schema: pa.Schema,
    *,
    onto: str,
    by: Signature,
    uri: str | os.PathLike[str] | None = None,
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
        add_table(context, changes, name, uri)
    changes.commit()
    table = _begun_anew(prepare_work(context, branch, name, onto=onto, by=by))
    if is_right:
        return table
    with Transaction(context, branch, f"table {name} begins anew", by) as changes:
        begin_anew(changes.table(name), schema)
    return prepare(context, branch, name, adopt=False)


def _begun_anew(table: Table) -> Table:
    """A table on a branch without what was written there before any commit of it knew the table:
    somebody gave that up."""
    head = table._snapshot
    if head.manifest.branch is None:
        return table
    work = load_work(head)
    if not work.steps:
        return table
    main = main_location(head)
    source = load_snapshot(branch_location(main, work.parent), version=work.fork)
    return Table(reset.begin_anew(main, source, head, BranchName.found(work.branch)))


def _beginning(context: RepoContext, branch: str, name: str, pin: Pin) -> Snapshot:
    """Where the table's own branch begins, which goes on from a pin; it is made if need be.

    Raises RetryableConflictError if the branch pins something else by now: its own would have to
    begin anew, and somebody wrote there.
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
        with contextlib.suppress(AlreadyExistsError):  # somebody else made it in this moment
            return create_table(location, schema, NewTable())
    found = load_snapshot(location)
    if found.manifest.version == 1 and not found.manifest.fragment_count:
        return found
    tip = context.tip(onto)
    is_made = context.tree(tip).blob_hash(name) is not None
    before = None if is_made else left_head(context, onto, tip, name)
    if before is not None:
        return before
    if is_made or not (is_free(found) if onto == MAIN else may_branch(context, name, found)):
        raise taken(name, location)
    return found


def _make_at(context: RepoContext, uri: str | os.PathLike[str], schema: pa.Schema) -> None:
    """Have a table be at a uri."""
    options = context.storage_options
    check_no_manifest_store(os.fspath(uri))
    location = Location(open_store(uri, storage_options=options, fsync=context.fsync), options)
    if not is_table(location.store):
        with contextlib.suppress(AlreadyExistsError):
            create_table(location, schema, NewTable())

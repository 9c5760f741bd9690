"""Adding tables to a repository, removing them, preparing them for writers that do not know the
repository, and reserving them.

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

Making a repository exclusive, or open again, writes the setting first, and then one commit for each
branch that has tables of its own. A table that a branch has not written yet is changed on the
branch of the table where it is. A table whose work was merged is left alone, since no work
continues there. If it is interrupted, it can be run again.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from lancewood.catalog.membership import is_member, join
from lancewood.catalog.names import checked_table, lance_branch, own_table_uri
from lancewood.catalog.opening import inside_of, pin_of, pinned_uri
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
from lancewood.errors import (
    AlreadyExistsError,
    ConflictError,
    IncompatibleConflictError,
    InvalidInputError,
    LancewoodError,
    NotFoundError,
    RetryableConflictError,
    UnsupportedError,
)
from lancewood.git.names import HEADS, below
from lancewood.git.objects import Signature
from lancewood.jobs.publish import closed_branch
from lancewood.jobs.publish.branch_work import load_work
from lancewood.model.lines import has_own_ids
from lancewood.model.refs import MAIN, BranchName, called
from lancewood.model.table_config import (
    EXCLUSIVE_KEY,
    MANIFEST_STORE_KEY,
    keeper_of,
    keeping,
    manifest_store_of,
)
from lancewood.repo.commit.creating import begin_anew, may_branch, new_location, taken
from lancewood.repo.commit.transaction import Transaction
from lancewood.repo.context import RepoContext
from lancewood.repo.landing import finish_moves
from lancewood.repo.notes import MERGED
from lancewood.repo.outcome import Committed
from lancewood.repo.writable import (
    check_not_exclusive,
    diverged,
    is_free,
    set_exclusive,
    unpinned_head,
    wanted_keeper,
    working_location,
    writable_head,
)
from lancewood.store.disk_root import refuse_links
from lancewood.store.locate import open_store, table_of_ddb
from lancewood.table.table import Table


@dataclass(frozen=True, slots=True)
class _Addition:
    """A table that may be added, as it stands."""

    name: str
    uri: str
    """The uri of the table as the pin writes it."""
    head: Snapshot
    is_pinned: bool
    """Whether the commit pins it already: the repository was received from others."""


def add_tables(
    context: RepoContext, changes: Transaction, tables: Mapping[str, str | os.PathLike[str]]
) -> None:
    """Have a transaction pin tables, which are given by name and uri, as they stand.

    A table elsewhere may be pinned already if the repository was received from others; it is then
    only marked as belonging to this repository. All are checked before the first is marked.
    """
    for each in [_checked(context, changes, name, uri) for name, uri in tables.items()]:
        if not _is_below(each.uri):
            join(each.head, context.root, context.id, each.name)
        if not each.is_pinned:
            changes.pin(each.name, pin_of(each.head, each.uri))


def _checked(
    context: RepoContext, changes: Transaction, name: str, uri: str | os.PathLike[str]
) -> _Addition:
    """The table at a uri, if it may be added under this name."""
    checked_table(name)
    written = _written_uri(context, uri)
    store = open_store(
        below(context.root, written) if _is_below(written) else written,
        storage_options=context.storage_options,
        fsync=context.fsync,
    )
    known = changes.uri_of(name)
    is_received = known == written and not _is_below(written) and not is_member(store, context.id)
    if known is not None and not is_received:
        raise AlreadyExistsError(
            f"there is a table {name!r} in the repository already: commit() records what was "
            "written to it; if another table is meant, choose another name",
            table=name,
        )
    head = load_snapshot(Location(store, context.storage_options))
    if main_location(head).uri != head.location.uri:
        raise InvalidInputError(
            f"{uri!s} is the root of branch {head.manifest.branch!r}: add the table itself"
        )
    if known is None:
        _check_rows_here(context, head, name, written)
    kind = manifest_store_of(head.manifest)
    if kind is not None:
        freed = f"set_config({{{MANIFEST_STORE_KEY!r}: None}})"
        raise _beside(kind, f"; {freed} frees one that nobody else writes to")
    return _Addition(name, written, head, is_pinned=known is not None)


def _check_rows_here(context: RepoContext, head: Snapshot, name: str, uri: str) -> None:
    """Raise AlreadyExistsError for a table that branches of the repository made: its main is empty,
    and the rows are on branches of the table."""
    if uri != own_table_uri(name) or head.manifest.version > 1 or head.manifest.fragment_count:
        return
    holders = context.holders([name]).get(name, {})
    made = [branch for branch, pin in holders.items() if pin.branch is not None]
    if made:
        raise AlreadyExistsError(
            f"table {name!r} was made on branch {', '.join(map(repr, made))}, and its rows are "
            f"there: merge({made[0]!r}) brings it here; create_table() makes another one of that "
            "name on this branch",
            table=name,
            branches=made,
        )


def check_no_manifest_store(uri: str) -> None:
    """Raise UnsupportedError for a uri with a manifest store: the repository would bypass it."""
    if table_of_ddb(uri) is not None:
        raise _beside("s3+ddb://")


def remove_table(changes: Transaction, name: str) -> None:
    """Have a transaction remove a table."""
    if name not in changes.tables:
        raise NotFoundError(
            f"there is no table {name!r} on this branch; there is "
            f"{', '.join(changes.tables) or 'none'}",
            table=name,
        )
    changes.pin(name, None)


def _written_uri(context: RepoContext, uri: str | os.PathLike[str]) -> str:
    """The uri as pins write it: relative if the table is below the repository."""
    text, root = os.fspath(uri), context.root
    check_no_manifest_store(text)
    if "://" in text:
        if isinstance(root, Path):
            return text
        table = open_store(text, storage_options=context.storage_options).uri
        return text if inside_of(table, root) is None else pinned_uri(table, root)
    path = Path(text)
    if not path.is_absolute():
        path = Path.cwd() / path
    used = Path(os.path.normpath(path))
    if isinstance(root, Path) and used.is_relative_to(root):
        refuse_links(str(root), used.relative_to(root).as_posix())
    return pinned_uri(os.path.normpath(path.resolve()), root)


def _is_below(uri: str) -> bool:
    return "://" not in uri and not os.path.isabs(uri)


def _beside(kind: str, or_else: str = "") -> UnsupportedError:
    return UnsupportedError(
        f"a table behind a manifest store ({kind}) cannot be in a repository: commits of the "
        f"repository do not go through it; keep it beside, or copy it with clone(){or_else}"
    )


def fence(
    context: RepoContext, is_exclusive: bool, author: Signature, *, dry_run: bool
) -> tuple[Committed, ...]:
    """Make a repository exclusive or open; returns the commits that changed tables.

    Raises IncompatibleConflictError, after all other tables were changed, with the tables that have
    diverged or that another repository keeps for itself.
    """
    if dry_run:
        return _unfenced(context, context.id if is_exclusive else None)
    set_exclusive(context, is_exclusive)
    done, refused = [], dict[str, LancewoodError]()
    for ref in context.git.refs.names(HEADS):
        branch = ref.removeprefix(HEADS)
        changes = _fenced(context, branch, author, refused)
        made = changes.commit()
        if made.is_new:
            done.append(made)
    if refused:
        first = next(iter(refused.values()))
        raise IncompatibleConflictError(
            f"the repository is {'exclusive' if is_exclusive else 'open to all'} now, and so are "
            f"its tables, but for {', '.join(refused)}: {first.message}. Then do it again",
            tables=[*refused],
        ) from first
    return tuple(done)


def _unfenced(context: RepoContext, wanted: str | None) -> tuple[Committed, ...]:
    """The tables that do not have the setting yet, by branch."""
    found = []
    for ref, tip in context.git.refs.names(HEADS).items():
        branch, tree = ref.removeprefix(HEADS), context.tree(tip)
        pins = ((name, tree.pin(name)) for name in tree.names())
        tables = tuple(
            name
            for name, pin in pins
            if pin.branch == lance_branch(branch)
            and keeper_of(load_snapshot(context.location(pin)).manifest) != wanted
        )
        if tables:
            found.append(Committed(tip, branch, tables, is_dry_run=True))
    return tuple(found)


def _fenced(
    context: RepoContext, branch: str, author: Signature, refused: dict[str, LancewoodError]
) -> Transaction:
    """A transaction that writes the setting to every table of the branch."""
    wanted = wanted_keeper(context)
    message = "Keep the tables for this repository" if wanted else "Open the tables to all writers"
    changes = Transaction(context, branch, message, author)
    tree = context.tree(context.tip(branch))
    for name in tree.names():
        if tree.pin(name).branch != lance_branch(branch):
            continue
        try:
            table = changes.table(name)
        except (ConflictError, UnsupportedError) as refusal:
            if MERGED not in refusal.facts:
                refused[f"{name} on {branch}"] = refusal
            continue
        if table.config.get(EXCLUSIVE_KEY) != wanted:
            table.commit(table.transaction(keeping(wanted)))
    return changes


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
    return Table(closed_branch.begin_anew(main, source, head, wanted, own_ids=own_ids))


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

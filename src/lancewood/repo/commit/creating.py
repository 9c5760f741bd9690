"""Tables inside a transaction, and new tables.

On main, a table comes into being when its first state lands. On another branch, a table needs a
main to branch from: an empty one is made at once, which the repository's main does not pin. If
there is a table of that name already, it continues with nothing of what it held: one that the
branch had until a commit removed it, or one that another branch made. In the second case the two
are on different branches of the table, and merging them is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn, Self

import pyarrow as pa

from lancewood.catalog.names import lance_branch, own_table_uri
from lancewood.engine.base import as_reader
from lancewood.engine.location import Location
from lancewood.engine.snapshot import Snapshot, branch_location, is_table, load_snapshot
from lancewood.engine.staging import Stage
from lancewood.engine.versions import load_branch
from lancewood.engine.write import Layout, WriteRequest, create_table
from lancewood.errors import AlreadyExistsError, InvalidInputError
from lancewood.git.names import below
from lancewood.git.values import Hash
from lancewood.jobs.job import CommitOptions
from lancewood.model.fragment import DEFAULT_FILE_VERSION
from lancewood.model.lines import LINE_KEY, MERGED_KEY
from lancewood.model.refs import MAIN, BranchName
from lancewood.model.table_config import EXCLUSIVE_KEY
from lancewood.repo.context import RepoContext
from lancewood.repo.landing import land_rest
from lancewood.repo.writable import is_free, own_head, unpinned_head
from lancewood.store.locate import open_store
from lancewood.table.table import Table


class StagedTable(Table):
    """One state of a table in a transaction of a repository. Made by ``transaction.table``.

    Reads see what the transaction wrote. Every verb that reads or changes rows, columns and
    settings works as on any table; each write returns a handle on the new state. Verbs about the
    table as a whole (branches, tags, clones and upkeep) are not part of a transaction.
    """

    def latest(self) -> Self:
        """The newest state in this transaction."""
        return self._after(self._snapshot.newest())

    @property
    def branches(self) -> NoReturn:
        _refuse("branches")

    @property
    def tags(self) -> NoReturn:
        _refuse("tags")

    def checkout(self, **_: Any) -> NoReturn:
        _refuse("checkout")

    def versions(self, limit: int | None = None) -> NoReturn:
        _refuse("versions")

    def changes(self, *_: Any, **__: Any) -> NoReturn:
        _refuse("changes")

    def cleanup(self, **_: Any) -> NoReturn:
        _refuse("cleanup")

    def verify(self, **_: Any) -> NoReturn:
        _refuse("verify")

    def repair(self, **_: Any) -> NoReturn:
        _refuse("repair")

    def clone(self, *_: Any, **__: Any) -> NoReturn:
        _refuse("clone")

    def detach(self, **_: Any) -> NoReturn:
        _refuse("detach")

    def add_base(self, *_: Any, **__: Any) -> NoReturn:
        _refuse("add_base")

    def set_base(self, *_: Any, **__: Any) -> NoReturn:
        _refuse("set_base")

    def move_fragments(self, *_: Any, **__: Any) -> NoReturn:
        _refuse("move_fragments")

    def lance(self) -> NoReturn:
        _refuse("lance")

    def __repr__(self) -> str:
        return f"<StagedTable {self.uri} after version {self.version - 1}>"


def _refuse(verb: str) -> NoReturn:
    raise InvalidInputError(
        f"{verb} concerns the whole table, and cannot be part of a transaction: do it on "
        "lancewood.open(uri), before or after"
    )


def begin_anew(table: StagedTable, data: Any, **options: Any) -> StagedTable:
    """The table with new columns and rows, or none for a ``pyarrow.Schema``, and without settings.

    What is known about the origin of its rows is removed too, such as which batches of a stream
    were applied. ``options`` are those of ``overwrite``. Concurrent writes are conflicts.
    """
    settings = dict.fromkeys(table.config.keys() - {EXCLUSIVE_KEY, LINE_KEY, MERGED_KEY})
    if settings:
        table = table.set_config(settings)
    if table.metadata:
        table = table.set_metadata({}, replace=True)
    rows = pa.Table.from_batches([], data) if isinstance(data, pa.Schema) else data
    return table.overwrite(rows, commit=CommitOptions(serializable=True), **options)


@dataclass(frozen=True, slots=True)
class NewTable:
    """A table that is to be made. One that was there before keeps its kind of row ids, unless the
    request asks for one."""

    name: str
    data: Any
    request: WriteRequest
    message: str


def new_stage(context: RepoContext, branch: str, tip: Hash | None, new: NewTable) -> Stage:
    """The first state of a table that the branch does not have at ``tip``."""
    name = new.name
    location = new_location(context, name)
    wanted = lance_branch(branch)
    is_there = is_table(location.store)
    before = unpinned_head(context, branch, tip, name) if is_there else None
    if before is not None:
        return _stage_anew(before, new)
    if wanted is not None:
        return _stage_on_branch(context, branch, tip, location, wanted, new)
    if is_there:
        head = load_snapshot(location)
        if not is_free(head):
            raise taken(name, location)
        return _stage_anew(head, new)
    return Stage.new(location, new.data, new.request, new.message)


def new_location(context: RepoContext, name: str) -> Location:
    """Where this repository makes a new table."""
    where, options = below(context.root, own_table_uri(name)), context.storage_options
    store = open_store(where, fsync=context.fsync, storage_options=options)
    return Location(store, None if isinstance(where, Path) else options, repository=context.id)


def may_branch(context: RepoContext, name: str, main: Snapshot) -> bool:
    """Whether a branch may make its own table where there is one: if that is the repository's."""
    if is_free(main):
        return True
    tree = context.tree(context.tip(MAIN))
    return tree.blob_hash(name) is not None and tree.pin(name).is_own


def taken(name: str, location: Location) -> AlreadyExistsError:
    """The error for a table below the repository that no commit of the branch has pinned."""
    return AlreadyExistsError(
        f"there is a table at {location.uri} already, which this branch does not pin: "
        f"repo.add({name!r}, uri) takes it in",
        table=name,
    )


def _stage_anew(before: Snapshot, new: NewTable) -> Stage:
    """Raises InvalidInputError if the table has another kind of row ids than asked for."""
    stage, request = Stage(before, message=new.message), new.request
    table = StagedTable(stage.snapshot)
    if request.stable_row_ids not in (None, table.has_stable_row_ids):
        raise InvalidInputError(
            f"there was a table {new.name!r} before, with"
            f"{'' if table.has_stable_row_ids else 'out'} stable row ids, and the new one goes on "
            "so: leave stable_row_ids out, or choose another name",
            table=new.name,
        )
    begin_anew(
        table,
        new.data,
        schema=request.schema,
        layout=Layout(
            max_rows_per_file=request.limits.max_rows,
            max_bytes_per_file=request.limits.max_bytes,
            file_version=request.file_version or DEFAULT_FILE_VERSION,
        ),
    )
    return stage


def _stage_on_branch(
    context: RepoContext,
    branch: str,
    tip: Hash | None,
    location: Location,
    wanted: BranchName,
    new: NewTable,
) -> Stage:
    name, schema = new.name, new.request.schema
    land_rest(context, context.tip(MAIN), [name])  # it may be main that makes the table
    if is_table(location.store):
        main = load_snapshot(location)
        if not may_branch(context, name, main):
            raise taken(name, location)
        if load_branch(location.store, wanted) is not None:
            own = branch_location(location, wanted)
            if not is_free(load_snapshot(own)):
                raise taken(name, own)
        head = own_head(context, branch, tip, name, main, wanted)
        return _stage_anew(head, new)
    reader = as_reader(new.data, schema)
    main = create_table(location, schema or reader.schema, replace(new.request, schema=None))
    stage = Stage(own_head(context, branch, tip, name, main, wanted), message=new.message)
    if not isinstance(new.data, pa.Schema):
        StagedTable(stage.snapshot).append(reader)
    return stage

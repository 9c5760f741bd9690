"""New tables of a transaction.

On main a table comes into being when its first state lands. A table of another branch needs a main
to have branched from: it gets an empty one at once, which the repository's main does not pin. A
table that the branch had before, until a commit took it out, goes on with nothing of what it held.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from lancewood.catalog.names import home_uri
from lancewood.catalog.tag_names import REPOSITORY_ID
from lancewood.engine.arrow_input import as_reader
from lancewood.engine.create import NewTable, create_table
from lancewood.engine.limits import FileLimits
from lancewood.engine.place import Place
from lancewood.engine.refs import load_branch
from lancewood.engine.revisions import branch_place
from lancewood.engine.snapshot import Snapshot, load_snapshot
from lancewood.engine.staging import Stage
from lancewood.engine.uris import is_table
from lancewood.errors import AlreadyExistsError, InvalidInputError
from lancewood.git.hashes import Hash
from lancewood.git.homes import below
from lancewood.jobs.naming.creation import create_branch
from lancewood.model.file_version import DEFAULT_FILE_VERSION
from lancewood.model.refs import BranchName
from lancewood.repo.committing.anew import begin_anew
from lancewood.repo.committing.staged_table import StagedTable
from lancewood.repo.grounds import Grounds
from lancewood.repo.ref_names import lance_branch
from lancewood.repo.writing.given_up import left_head
from lancewood.repo.writing.writable import goes_on, is_ours
from lancewood.store.locate import open_store

_OPTIONS = frozenset(
    {"schema", "stable_row_ids", "file_version", "max_rows_per_file", "max_bytes_per_file"}
)


def new_stage(
    grounds: Grounds,
    branch: str,
    tip: Hash | None,
    name: str,
    data: Any,
    options: Mapping[str, Any],
    message: str,
) -> Stage:
    """The first state of a table that the branch, at ``tip``, does not have; ``message`` is that of
    its versions."""
    unknown = sorted(set(options) - _OPTIONS)
    if unknown:
        raise InvalidInputError(
            f"create_table does not take {', '.join(unknown)}; it takes "
            f"{', '.join(sorted(_OPTIONS))}"
        )
    place = new_place(grounds, name)
    new = NewTable(
        schema=options.get("schema"),
        stable_row_ids=options.get("stable_row_ids", True),
        file_version=options.get("file_version") or DEFAULT_FILE_VERSION,
        limits=FileLimits.checked(
            options.get("max_rows_per_file", FileLimits().max_rows),
            options.get("max_bytes_per_file", FileLimits().max_bytes),
        ),
        message=message,
    )
    wanted = lance_branch(branch)
    is_there = is_table(place.store)
    before = left_head(grounds, branch, tip, name) if is_there else None
    if before is not None:
        return _stage_anew(before, name, data, options, new)
    if wanted is not None:
        return _stage_on_branch(grounds, name, place, str(wanted), data, new)
    if is_there:
        raise taken(name, place)
    stage = Stage.new(place, data, new)
    stage.message = message
    return stage


def new_place(grounds: Grounds, name: str) -> Place:
    """Where a new table is made, to be written by this repository."""
    where, options = below(grounds.home, home_uri(name)), grounds.storage_options
    store = open_store(where, fsync=grounds.fsync, storage_options=options)
    return Place(store, None if isinstance(where, Path) else options, repository=grounds.id)


def taken(name: str, place: Place) -> AlreadyExistsError:
    """What is said of a table at home that no commit of the branch has pinned."""
    return AlreadyExistsError(
        f"there is a table at {place.uri} already, which this branch does not pin: "
        f"repo.add({name!r}, uri) takes it in",
        table=name,
    )


def _stage_anew(
    before: Snapshot, name: str, data: Any, options: Mapping[str, Any], new: NewTable
) -> Stage:
    """Raises InvalidInputError if other row ids are asked for than the table has."""
    stage = Stage(before, message=new.message)
    table = StagedTable(stage.snapshot)
    if options.get("stable_row_ids", table.has_stable_row_ids) != table.has_stable_row_ids:
        raise InvalidInputError(
            f"table {name!r} was on this branch before, with"
            f"{'' if table.has_stable_row_ids else 'out'} stable row ids, and goes on so: leave "
            "stable_row_ids out, or choose another name",
            table=name,
        )
    begin_anew(
        table,
        data,
        schema=new.schema,
        file_version=new.file_version,
        max_rows_per_file=new.limits.max_rows,
        max_bytes_per_file=new.limits.max_bytes,
    )
    return stage


def _stage_on_branch(
    grounds: Grounds, name: str, place: Place, branch: str, data: Any, new: NewTable
) -> Stage:
    reader = as_reader(data, new.schema)
    schema = new.schema or reader.schema
    if is_table(place.store):
        main = _empty_main(name, place, schema)
    else:
        main = create_table(place, schema, replace(new, schema=None, message=None))
    stage = Stage(_empty_branch(grounds, name, main, branch), message=new.message)
    if not isinstance(data, pa.Schema):
        StagedTable(stage.snapshot).append(reader)
    return stage


def _empty_main(name: str, place: Place, schema: pa.Schema) -> Snapshot:
    """The main that an attempt which was cut off left behind."""
    found = load_snapshot(place)
    if found.manifest.version != 1 or len(found.manifest.fragments) or found.arrow_schema != schema:
        raise taken(name, place)
    return found


def _empty_branch(grounds: Grounds, name: str, main: Snapshot, branch: str) -> Snapshot:
    """The branch of a new table, or the one that an attempt which was cut off left behind."""
    try:
        return create_branch(main, branch, metadata={REPOSITORY_ID: grounds.id})
    except AlreadyExistsError:
        wanted = BranchName(branch)
        record = load_branch(main.place.store, wanted)
        head = load_snapshot(branch_place(main.place, wanted))
        is_new = record is not None and is_ours(grounds, record)
        if not is_new or not goes_on(head.place, None, main.manifest.version):
            raise
        if head.manifest.fragment_count:
            raise taken(name, main.place) from None
        return head

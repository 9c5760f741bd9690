"""The verbs that find a table by its place: create, open, diff, exists, drop, migrate_names,
repair, relocate.

A uri may carry a revision, ``photos.lance@exp``, where a version is asked for (``open``, ``diff``,
``exists``); the others take a whole table and refuse it.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancewood.engine.snapshot import (
    TAG,
    Access,
    Address,
    At,
    has_revision,
    is_table,
    open_revision,
)
from lancewood.engine.upkeep import Dropped, MigratedNames, drop_table
from lancewood.engine.upkeep import migrate_names as migrate_table_names
from lancewood.engine.write import Layout, WriteRequest, create_table
from lancewood.jobs.job import CommitOptions
from lancewood.jobs.runner import Runner
from lancewood.jobs.upkeep.retention import COMMITTING
from lancewood.model.refs import OnBranch, parse_revision
from lancewood.table.diffs import Diff
from lancewood.table.handle import runner_or_threads
from lancewood.table.table import Table

if TYPE_CHECKING:
    from lancewood.jobs.relocate import RelocationReport
    from lancewood.jobs.upkeep.problems import RepairReport


def create(
    uri: str | os.PathLike[str],
    data: Any,
    *,
    schema: pa.Schema | None = None,
    layout: Layout | None = None,
    access: Access | None = None,
    message: str | None = None,
    commit: CommitOptions | None = None,
) -> Table:
    """A new table with the data, or an empty one for a ``pyarrow.Schema``.

    ``data`` is anything that speaks Arrow; ``schema`` says which columns the table gets, where that
    is not the data's own schema. ``layout`` says how rows become files, which base paths the table
    declares, and whether rows have stable ids, which they have by default. ``access`` says how
    stores are reached. ``message``, or the properties of ``commit``, are kept with the version.

    An ``@`` may be part of the table's name, unless what stands before it is a table.
    Raises AlreadyExistsError if there is a table.
    """
    snapshot = create_table(
        Address(uri, access).whole("create"),
        data,
        WriteRequest.of(
            layout,
            schema=schema,
        ),
        properties=CommitOptions.of(commit, message, takes_serializable=False).properties,
    )
    return Table(snapshot)


def open(
    uri: str | os.PathLike[str],
    *,
    branch: str | None = None,
    version: int | None = None,
    tag: str | None = None,
    as_of: datetime | str | None = None,
    at: At = None,
    access: Access | None = None,
) -> Table:
    """The table at its newest version, or at the one that is asked for.

    ``branch`` is its name, and "main" is main; ``version`` is a number and ``as_of`` a moment, on
    that branch or on the one whose root the uri is: a datetime, or a text in ISO 8601. Without a
    zone it is local time, and ``"2026-05-04"`` is the beginning of that day. ``tag`` is its name.
    ``at`` takes a number, a moment or a text: a tag or a branch (``"exp"``), the newest of a branch
    (``"exp:"``), a version of it (``"exp:12"``) or of main (``":12"``), a tag and nothing else
    (``"tag:v1"``). The uri may carry such a text after an ``@``: ``photos.lance@exp:12``. A uri
    that is itself a table wins, and a ``PathLike`` is never parted.

    ``access`` says how stores are reached: the handle keeps it, also when it is pickled. Its
    ``allowed_bases`` are the only other places that manifests may send a reader to;
    ``storage_options`` are for those, too.
    Raises NotFoundError, or FormatError naming the newest readable version.
    """
    address = Address(uri, access)
    return Table(address.open(branch=branch, version=version, tag=tag, as_of=as_of, at=at))


@dataclass(frozen=True, slots=True)
class NamedVersion:
    """What a uri and a branch lead to, for whoever wants to write there."""

    table: Table
    is_branch_named: bool
    """Whether the uri or the caller says which branch."""
    single: str | None = None
    """The revision in the uri, if it names one version and not a branch."""
    is_tag: bool = False


def open_named(address: Address, branch: str | None = None) -> NamedVersion:
    """The newest version of a branch, or the version that the uri carries."""
    location, in_uri = address.find()
    snapshot = open_revision(location, in_uri=in_uri, branch=branch)
    is_tag = TAG in snapshot.derived
    meant = None if in_uri is None else parse_revision(in_uri)
    is_single = is_tag or (isinstance(meant, OnBranch) and meant.version is not None)
    single = in_uri if is_single else None
    is_branch_named = in_uri is not None or branch is not None
    return NamedVersion(Table(snapshot), is_branch_named, single, single is not None and is_tag)


def diff(
    one: Table | str | os.PathLike[str],
    other: Table | str | os.PathLike[str],
    *,
    on: str | Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    change: str | Sequence[str] | None = None,
) -> Diff:
    """The rows that differ between two tables, or two versions of one, by handle or uri.

    Tables that share no history are compared by ``on``, the names of key columns, or else by the
    primary key of the later one: yesterday's file and today's, each imported. Tables that need
    options are opened first. See ``Table.diff``.
    """
    before, after = (side if isinstance(side, Table) else open(side) for side in (one, other))
    return after.diff(before, columns=columns, where=where, change=change, on=on)


def exists(
    uri: str | os.PathLike[str],
    *,
    access: Access | None = None,
) -> bool:
    """Whether there is a table, or the revision of one that a uri carries.

    Without a revision no manifest is opened.
    """
    location, revision = Address(uri, access).find()
    if revision is not None:
        return has_revision(location, revision)
    return is_table(location.store)


def drop(
    uri: str | os.PathLike[str],
    *,
    force: bool = False,
    dry_run: bool = False,
    access: Access | None = None,
) -> Dropped:
    """Delete a table: only what the format owns, other files below the root stay.

    ``dry_run`` deletes nothing, and refuses and tells what it would otherwise.

    Refuses a table that has branches or tags unless forced: a clone elsewhere is seen by the tag
    that it left. A clone's own tags at its sources go with it; a warning names one that stays.
    Those in other buckets need ``base_storage_options`` of an ``Access``.
    A manifest store forgets the table, also one that was removed without it. Raises NotFoundError.
    """
    location = Address(uri, access).whole("drop")
    dropped = drop_table(location, force=force, dry_run=dry_run)
    for each in dropped.still_pinned:
        warnings.warn(f"{each.root} keeps a pin: {each.why}", stacklevel=2)
    return dropped


def migrate_names(
    uri: str | os.PathLike[str],
    *,
    access: Access | None = None,
    progress: Callable[[int], None] | None = None,
) -> MigratedNames:
    """Rename the manifests of a table and its branches from scheme V1 to V2, or finish doing so.

    Nobody may write meanwhile, and until it is done the table does not open; run it again if it
    was interrupted. Changes nothing where all names are V2. ``progress`` is told how many more
    were renamed.
    """
    location = Address(uri, access).whole("migrate_names")
    return migrate_table_names(location.store, progress)


def repair(
    uri: str | os.PathLike[str],
    *,
    dry_run: bool = False,
    access: Access | None = None,
    runner: Runner | None = None,
) -> RepairReport:
    """Make a damaged table whole, also one that does not open.

    ``dry_run`` only proposes. Every proposal says what it changes, and nothing that may hold rows
    is removed.
    Raises NotFoundError where there is no table.
    """
    from lancewood.jobs.upkeep.repair import repair as repair_table

    location = Address(uri, access).whole("repair")
    return repair_table(location, runner_or_threads(runner), dry_run=dry_run)


def relocate(
    uri: str | os.PathLike[str],
    *,
    dry_run: bool = False,
    in_flight: timedelta = COMMITTING,
    access: Access | None = None,
    runner: Runner | None = None,
) -> RelocationReport:
    """Write the present place of a table that was copied or moved into its manifests.

    Lancewood does not need it. Pylance looks for what branches inherit at the place where they were
    made; after this it finds them here. Before this its cleanup takes the files that branches have
    in the main root for garbage. Of the manifests of main and all branches only base paths change,
    and only those that stood for a root of this table. Run again after an interruption, it does the
    rest. A handle from before knows the old paths, and would write them again: open the table anew.

    Nobody may write meanwhile: RetryableConflictError is raised for a version that is younger than
    ``in_flight`` (zero says that nobody writes), before anything changes, and for one that appears.
    Raises InvalidInputError for the root of a branch, NotFoundError where there is no table.
    """
    from lancewood.jobs.relocate import relocate as relocate_table

    location = Address(uri, access).whole("relocate")
    return relocate_table(location, runner_or_threads(runner), dry_run=dry_run, in_flight=in_flight)

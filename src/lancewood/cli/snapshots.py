"""Opening a place or a version as the engine sees it, for commands that show how it is stored.

Commands on a whole table refuse a uri that carries a revision, and those that write refuse one that
names a single version: what they would write comes after the newest one of its branch. Those that
read take names of tables in the repository around, too (``table_names``).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial

import lancewood as lw
from lancewood.cli import options
from lancewood.cli.manifest_store import manifest_store
from lancewood.cli.repository.table_names import TableNames
from lancewood.cli.revision_options import NEWEST, Revision
from lancewood.engine.descent import Descent
from lancewood.engine.place import Place
from lancewood.engine.revisions import TAG, history_place, open_revision
from lancewood.engine.snapshot import Snapshot
from lancewood.engine.uris import check_whole, find_address
from lancewood.errors import InvalidInputError
from lancewood.external.opening import open_table_store
from lancewood.model.refs import MAIN, called
from lancewood.model.revision import OnBranch, parse_revision
from lancewood.store.base import Store
from lancewood.store.options import StorageOptions


def opened_store(uri: str, storage_options: Sequence[str] | None, *, unsafe: bool = False) -> Store:
    """The place where a table is, or could be."""
    return opened_place(uri, storage_options, unsafe=unsafe).store


def opened_place(uri: str, storage_options: Sequence[str] | None, *, unsafe: bool = False) -> Place:
    """The same with the way to all homes of its files."""
    place, revision = _address(uri, storage_options, unsafe)
    check_whole("the command", uri, revision)
    return place


def opened_history(
    uri: str, storage_options: Sequence[str] | None, branch: str | None = None
) -> Store:
    """The root of the branch that a command is about; its newest version need not be readable."""
    names = TableNames(options.storage(storage_options))
    place, revision = _address(names.whole(uri) or uri, storage_options)
    with names.told():
        return history_place(place, branch=branch, in_uri=revision).store


def opened_snapshot(
    uri: str,
    storage_options: Sequence[str] | None,
    revision: Revision = NEWEST,
    *,
    unsafe: bool = False,
) -> Snapshot:
    """One version of the table that a command is about."""
    place, in_uri = _address(uri, storage_options, unsafe)
    return open_revision(place, in_uri=in_uri, **revision.arguments())


def opened_to_read(
    uri: str,
    storage_options: Sequence[str] | None,
    revision: Revision = NEWEST,
    *,
    unsafe: bool = False,
) -> Snapshot:
    """The same for a command that reads: the uri may be a name in the repository around."""
    names = TableNames(options.storage(storage_options))
    if revision in (NEWEST, Revision(at=revision.at)):
        exact = names.read_as(uri, revision.at)
        revision = revision if exact is None else NEWEST
    else:
        exact = names.whole(uri)
    with names.told():
        return opened_snapshot(exact or uri, storage_options, revision, unsafe=unsafe)


def table_to_read(
    uri: str,
    storage_options: Sequence[str] | None,
    revision: Revision = NEWEST,
    *,
    unsafe: bool = False,
) -> lw.Table:
    """The same as a handle."""
    return lw.Table(opened_to_read(uri, storage_options, revision, unsafe=unsafe))


def table_to_compare(
    uri: str, storage_options: Sequence[str] | None, branch: str | None
) -> lw.Table:
    """The table whose versions a command compares; the uri may be a name, as for one that reads."""
    names = TableNames(options.storage(storage_options))
    named = names.compared_as(uri) if branch is None else names.whole(uri)
    with names.told():
        return lw.Table(opened_snapshot(named or uri, storage_options, Revision(branch=branch)))


def compared_version(
    uri: str, storage_options: Sequence[str] | None, table: lw.Table, text: str
) -> int:
    """The number of a version of that table, which a text says: the number itself, a revision of
    the repository around, or one of the table."""
    if text.isascii() and text.isdecimal():
        return int(text)
    names = TableNames(options.storage(storage_options))
    named = names.compared_as(_without_revision(uri), text)
    with names.told():
        if named is None:
            found = table.checkout(at=text)._snapshot
        else:
            found = opened_snapshot(named, storage_options)
    number = found.manifest.version
    if Descent(table._snapshot).find(found) is None:
        raise InvalidInputError(
            f"{text!r} is version {number} of {called(found.manifest.branch)}, which is none of "
            f"{called(table.branch)}; --branch or URI@REVISION says of which branch changes are "
            "asked for",
            revision=text,
        )
    return number


def opened_to_write(
    uri: str, storage_options: Sequence[str] | None, branch: str | None, *, unsafe: bool = False
) -> Snapshot:
    """The newest version of the branch that a command writes to.

    Raises InvalidInputError for a uri with a tag or the number of a version.
    """
    snapshot, single = opened_maybe_past(uri, storage_options, branch, unsafe=unsafe)
    if single is not None:
        kind = "a tag" if TAG in snapshot.derived else "a single version"
        on = snapshot.manifest.branch
        raise InvalidInputError(
            f"{single!r} is {kind}, and {kind} is not written to: make a branch there "
            f"(lw table branch URI NAME --at {single}), or write to {called(on)} "
            f"(URI@{on or MAIN})",
            revision=single,
        )
    return snapshot


def table_to_write(
    uri: str, storage_options: Sequence[str] | None, branch: str | None, *, unsafe: bool = False
) -> lw.Table:
    """The same as a handle."""
    return lw.Table(opened_to_write(uri, storage_options, branch, unsafe=unsafe))


def opened_maybe_past(
    uri: str, storage_options: Sequence[str] | None, branch: str | None, *, unsafe: bool = False
) -> tuple[Snapshot, str | None]:
    """The version that a branch or a uri names; with the uri's revision, if that is a tag or the
    number of a version."""
    place, in_uri = _address(uri, storage_options, unsafe)
    snapshot = open_revision(place, in_uri=in_uri, branch=branch)
    if in_uri is None:
        return snapshot, None
    meant = parse_revision(in_uri)
    is_numbered = isinstance(meant, OnBranch) and meant.version is not None
    return snapshot, in_uri if is_numbered or TAG in snapshot.derived else None


def _without_revision(uri: str) -> str:
    """The table alone; a path that is one is not parted."""
    return uri if os.path.isdir(uri) else uri.partition("@")[0]


def _address(
    uri: str, storage_options: Sequence[str] | None, unsafe: bool = False
) -> tuple[Place, str | None]:
    given = StorageOptions(options.storage(storage_options))
    opened = partial(
        open_table_store, storage_options=given, unsafe=unsafe, manifest_store=manifest_store()
    )
    store, revision = find_address(uri, opened)
    return Place(store, given), revision

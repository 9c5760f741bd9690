"""Tables of metadata alone, in memory: fragments whose data files are only named, for nobody opens
them, and commits that do not wait.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from pyroaring import BitMap

from lancewood.engine.commit.commit import CommitPolicy, commit
from lancewood.engine.location.deletion_vectors import load_deletions
from lancewood.engine.location.location import Location
from lancewood.engine.versions.finding import load_version
from lancewood.format.layout import NamingScheme
from lancewood.format.manifest import empty_manifest
from lancewood.jobs.job import CommitOptions
from lancewood.model.fragment import DataFile, Fragment
from lancewood.model.ids import BaseId, FieldId, Version
from lancewood.model.manifest import Manifest
from lancewood.model.transaction import Operation, Transaction
from lancewood.proto import schema_pb2
from lancewood.store.base import Store
from lancewood.store.memory import MemoryStore
from lancewood.store.retry import COMMITS, JOBS, Retry

QUIET = CommitPolicy(retry=replace(COMMITS, sleep=lambda seconds: None))


@dataclass(frozen=True)
class RetriedOptions(CommitOptions):
    """Commit options with a policy and pauses of one's own."""

    policy: CommitPolicy = QUIET
    retry: Retry = JOBS


PERSISTENT = RetriedOptions(policy=QUIET, retry=replace(JOBS, sleep=lambda seconds: None))
"""Runs again for as long as others are faster."""
SHARED = {"names", "put_new"}
"""Listing and publishing are all that does not commute when writers are stepped: the rest is reads
of files that never change, and writes under names of one's own."""


def field(number: int, name: str) -> schema_pb2.Field:
    return schema_pb2.Field(id=number, name=name, parent_id=-1, logical_type="int64")


FIELDS = (field(0, "a"),)


def data_file(name: str, *fields: int, base: int | None = None) -> DataFile:
    """A file of the current version that holds these fields, or the first."""
    ids = [FieldId(each) for each in fields or (0,)]
    at = None if base is None else BaseId(base)
    return DataFile.make(name, ids, range(len(ids)), (2, 2), 1, at)


def fragment(name: str, rows: int = 10, *fields: int, base: int | None = None) -> Fragment:
    """A fragment of one such file."""
    return Fragment.make([data_file(name, *fields, base=base)], rows)


def put_fragment(store: Store, name: str) -> Fragment:
    """A fragment whose file is there, with a byte in it."""
    store.put(f"data/{name}.lance", b"x")
    return fragment(f"{name}.lance")


def begin(store: Store, *operations: Operation, branch: str | None = None) -> Manifest:
    """A table with stable row ids: the first operation makes version 1, each other one more."""
    manifest = empty_manifest("2.2", flags=2, branch=branch)
    for each in operations:
        transaction = Transaction.new(manifest.version, each)
        manifest = commit(Location(store), manifest, NamingScheme.V2, transaction, QUIET)
    return manifest


def begun(*operations: Operation) -> Store:
    """Such a table in a store of its own."""
    store = MemoryStore()
    begin(store, *operations)
    return store


def commit_to(store: Store, *operations: Operation, read: int | None = None) -> Version:
    """The version that one commit makes, which has read a version or the newest."""
    base, scheme = load_version(store, read)
    transaction = Transaction.new(base.version, *operations)
    return commit(Location(store), base, scheme, transaction, QUIET).version


def writer(build: Callable[[Store, Manifest], Operation]) -> Callable[[Store], object]:
    """Builds on version 1, and commits once."""

    def write(store: Store) -> object:
        base, scheme = load_version(store, 1)
        transaction = Transaction.new(base.version, build(store, base))
        return commit(Location(store), base, scheme, transaction, QUIET).version

    return write


def live_rows(store: Store) -> dict[str, list[int]]:
    """The ids of the rows of the newest version, by the file they are in. No id is there twice, and
    each fragment knows how many of its rows are gone."""
    manifest, _ = load_version(store)
    found: dict[str, list[int]] = {}
    for each in manifest.fragments:
        assert each.row_ids is not None
        gone = load_deletions(Location(store), manifest, each) or BitMap()
        assert each.num_deleted_rows == len(gone)
        found[each.files[0].path] = list(each.row_ids.without(gone))
    ids = [row for each in found.values() for row in each]
    assert len(set(ids)) == len(ids)
    assert all(row < manifest.next_row_id for row in ids)
    return found

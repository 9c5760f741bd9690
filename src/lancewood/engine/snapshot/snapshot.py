"""One version of one table and its location: what every verb of the engine starts from.

Its figures come from the manifest alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from pyroaring import BitMap

from lancewood.engine.location import (
    Location,
    NewFile,
    check_not_moved,
    default_file_root,
    discard,
    load_deletions,
)
from lancewood.engine.versions import (
    load_as_of,
    load_manifest,
    load_transaction,
    load_transaction_of,
    load_version,
)
from lancewood.errors import InvalidInputError, NotFoundError, UnsupportedError, found_in
from lancewood.format.layout import NamingScheme
from lancewood.format.schema import decode_schema
from lancewood.model.fragment import Fragment
from lancewood.model.ids import Version, is_detached
from lancewood.model.manifest import Manifest
from lancewood.model.schema import Schema
from lancewood.model.table_config import ANY_REPOSITORY, AppliedBatch, frees
from lancewood.model.transaction import Transaction, built_on
from lancewood.rules.features import check_new, check_open, check_writable, is_closed

if TYPE_CHECKING:
    from lancewood.data.file_root import FileRoot
    from lancewood.data.index_engine import DatasetAddress
    from lancewood.engine.commit import CommitPolicy

S = TypeVar("S", bound="Snapshot")
_SCHEMA_CACHES = ("schema", "arrow_schema")


@dataclass(frozen=True)
class Snapshot:
    """An immutable view of one version."""

    location: Location
    manifest: Manifest
    scheme: NamingScheme
    derived: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """A cache of what was derived from this version; it is not pickled."""

    def __getstate__(self) -> dict[str, Any]:
        return {"location": self.location, "manifest": self.manifest, "scheme": self.scheme}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, derived={})

    def bare(self) -> Snapshot:
        """This version without its fragments: small enough to be sent to every task, along with the
        task's own fragments."""
        self.location.settle(self.manifest)
        return Snapshot(self.location, self.manifest.bare(), self.scheme)

    def of_fragments(self, raw: Iterable[bytes], index_section: bytes) -> Snapshot:
        """A bare version with some of its fragments, undecoded, and indices."""
        return Snapshot(self.location, self.manifest.of_fragments(raw, index_section), self.scheme)

    def newest(self) -> Snapshot:
        """The newest version of its branch now."""
        return load_snapshot(self.location)

    def transaction_of(self, version: Version) -> Transaction:
        """The transaction that made a version of its branch, up to this one."""
        return load_transaction_of(self.location.store, version, self.scheme)

    def unlanded(self, version: int) -> Snapshot | None:
        """A state that is not a version of the history yet, under the number that it will have; see
        ``engine.staging``."""
        return None

    def together(self, other: Snapshot) -> Snapshot:
        """Another version of the table, reached from this one: writes to it end where writes to
        this one do."""
        return other

    @property
    def landed_version(self) -> Version | None:
        """The version of the history that this state is, or was built on if it is detached; None
        where that is unknown."""
        if not is_detached(self.manifest.version):
            return self.manifest.version
        return built_on(load_transaction(self.location.store, self.manifest))

    @cached_property
    def schema(self) -> Schema:
        """The tree of fields; raises FormatError if they form none."""
        with found_in(self.manifest.name):
            return decode_schema(self.manifest.fields, self.manifest.schema_metadata)

    @cached_property
    def arrow_schema(self) -> Any:
        """The schema as a pyarrow.Schema."""
        from lancewood.format.schema import to_arrow_schema

        with found_in(self.manifest.name):
            return to_arrow_schema(self.schema)

    @cached_property
    def default_file_root(self) -> FileRoot:
        """Where new data files go; see ``engine.location``."""
        return default_file_root(self.location, self.manifest)

    def discard(self, files: Iterable[NewFile]) -> None:
        """Remove new files that nothing refers to, best effort."""
        discard(self.location, self.manifest, files)

    def deletions(self, fragment: Fragment) -> BitMap | None:
        """The deleted offsets of a fragment; None where nothing is deleted."""
        return load_deletions(self.location, self.manifest, fragment)

    def check_writable(self) -> None:
        """Raise UnsupportedError, before any work is done, for a table that we cannot or may not
        write."""
        from lancewood.engine.commit import check_manifest_store

        check_writable(self.manifest, self.location.repository)
        check_manifest_store(self.location, self.manifest)

    def check_open(self) -> None:
        """Raise IncompatibleConflictError, before any work is done, where nothing may follow this
        version; a branch that was reset since is open."""
        if is_closed(self.manifest):
            check_open(self.newest().manifest)

    def check_new(self, applied: AppliedBatch | None) -> None:
        """Raise BatchAppliedError, before any work is done, for a batch that this version holds."""
        check_new(self.manifest.config, applied)

    def commit(self, transaction: Transaction, policy: CommitPolicy | None = None) -> Snapshot:
        """The snapshot after the transaction; see ``engine.commit``."""
        from lancewood.engine.commit import commit

        done = commit(*self._written_as(transaction), self.scheme, transaction, policy)
        return self._followed_by(Snapshot(self.location, done, self.scheme))

    def check_commit(self, transaction: Transaction, policy: CommitPolicy | None = None) -> None:
        """Raise what ``commit`` would raise now, and write nothing."""
        from lancewood.engine.commit import check_commit

        check_commit(*self._written_as(transaction), self.scheme, transaction, policy)

    def _written_as(self, transaction: Transaction) -> tuple[Location, Manifest]:
        """The location, for whoever may write a transaction there, and what it was built on."""
        base = self.manifest
        if transaction.read_version != base.version:
            base = read_version(self.location, self.scheme, transaction)
        is_freed = frees(transaction.operations)
        return self.location.written_by(ANY_REPOSITORY) if is_freed else self.location, base

    def _followed_by(self, after: S) -> S:
        """The snapshot after a change, with the schema reused where it is unchanged."""
        if self._same_schema(after):
            after.__dict__.update({k: v for k, v in self.__dict__.items() if k in _SCHEMA_CACHES})
        return after

    def _same_schema(self, other: Snapshot) -> bool:
        mine, theirs = self.manifest.message, other.manifest.message
        return mine.fields == theirs.fields and mine.schema_metadata == theirs.schema_metadata


def read_version(location: Location, scheme: NamingScheme, transaction: Transaction) -> Manifest:
    """The version that a transaction was built on; raises NotFoundError."""
    try:
        return load_manifest(location.store, transaction.read_version, scheme)
    except NotFoundError as cause:
        raise NotFoundError(
            f"the transaction was built on version {transaction.read_version} of "
            f"{location.uri}, which is not there; build it again on the newest version",
            version=transaction.read_version,
        ) from cause


def load_snapshot(
    location: Location, *, version: int | None = None, as_of: datetime | str | None = None
) -> Snapshot:
    """The newest version, or the one asked for."""
    if version is not None and as_of is not None:
        raise InvalidInputError("give version or as_of, not both")
    if as_of is not None:
        manifest, scheme = load_as_of(location.store, as_of)
    else:
        manifest, scheme = load_version(location.store, version)
    return Snapshot(location, manifest, scheme)


@dataclass(frozen=True, slots=True)
class TableStats:
    """Figures of one version; ``rows`` and ``bytes`` are None where a writer did not record
    them."""

    rows: int | None
    deleted_rows: int
    fragments: int
    data_files: int
    deletion_files: int
    bytes: int | None
    indices: int


def table_stats(snapshot: Snapshot) -> TableStats:
    """The figures of a snapshot. Opens no data file."""
    manifest = snapshot.manifest
    sizes = [file.size for fragment in manifest.fragments for file in fragment.files]
    return TableStats(
        rows=manifest.row_count,
        deleted_rows=sum(each.num_deleted_rows for each in manifest.fragments),
        fragments=manifest.fragment_count,
        data_files=len(sizes),
        deletion_files=sum(each.deletion_file is not None for each in manifest.fragments),
        bytes=None if None in sizes else sum(each or 0 for each in sizes),
        indices=len(manifest.indices),
    )


def dataset_address(snapshot: Snapshot) -> DatasetAddress:
    """Where pylance finds this version; raises UnsupportedError if it cannot open it at all."""
    from lancewood.data.index_engine import DatasetAddress

    location, head = snapshot.location, snapshot.manifest
    if location.store.location("data") is None:
        raise UnsupportedError(f"pylance cannot open {location.uri}: it is in this process only")
    check_not_moved(location, head)
    main = location.main(head)
    own = location.storage_options or {}
    options = ((each.path, location.options_of(each) or {}) for each in head.base_paths)
    return DatasetAddress(
        location.uri if main is None else main.uri,
        head.version,
        None if main is None else head.branch,
        location.storage_options,
        {path: each for path, each in options if each != own},
    )

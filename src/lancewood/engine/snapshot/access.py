"""How a caller reaches a table: its uri, and everything needed to open its stores.

An ``Access`` is what callers give as ``access=``; with a uri it is an ``Address``, which is made
once, at the edge, from options on the command line and on Spark as well. From there on it is passed
on whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from lancewood.engine.base import as_list
from lancewood.engine.location import Location, base_options
from lancewood.engine.snapshot.revisions import (
    At,
    Uri,
    check_contradictions,
    is_table,
    open_revision,
)
from lancewood.engine.snapshot.snapshot import Snapshot
from lancewood.errors import InvalidInputError
from lancewood.model.refs import split_uri
from lancewood.store.base import Store
from lancewood.store.options import StorageOptions

if TYPE_CHECKING:
    from lancewood.external.base import ManifestStore
    from lancewood.external.lock import CommitLock


@dataclass(frozen=True, slots=True)
class Access:
    """How the stores of tables are reached: ``access=`` of every verb that takes a uri.

    ``storage_options`` are credentials and settings of object stores, in the words that pylance
    takes. ``base_storage_options`` are those of base paths, by name or path; one in another bucket
    than the table gets no credentials of ``storage_options``: without options of its own it has the
    environment's. No option is ever written down, and the repr shows none.

    Before the first commit to an object store it must prove that it never writes over an object
    that is there; ``unsafe=True`` goes without the proof, and two writers at once may then lose a
    commit. ``fsync=False`` leaves the syncing of local files to the system.

    ``manifest_store`` is for an object store that cannot put if absent: the versions are committed
    through ``"sqlite:///path/file.db"``, ``"postgresql://…"`` or ``"dynamodb://table"``, which is
    pylance's ``s3+ddb://``; ``"rename-if-absent"`` is for one that can rename so. ``commit_lock``
    is called with a version and gives a context manager, in which nobody else commits it. All who
    write to a table must say the same; ``docs/manifest-stores.md`` says which to choose.

    Raises InvalidInputError for values of the wrong kind.
    """

    storage_options: Mapping[str, str] | None = field(default=None, repr=False)
    base_storage_options: Mapping[str, Mapping[str, str]] | None = field(default=None, repr=False)
    manifest_store: str | ManifestStore | None = field(default=None, repr=False)
    commit_lock: CommitLock | None = None
    unsafe: bool = False
    fsync: bool | None = None
    allowed_bases: Sequence[str] | None = None
    """The only other locations that manifests may refer to; None for any."""

    def __post_init__(self) -> None:
        if self.storage_options is not None:
            object.__setattr__(self, "storage_options", StorageOptions(self.storage_options))
        if self.allowed_bases is not None:
            allowed = tuple(as_list("allowed_bases", self.allowed_bases))
            if not all(isinstance(each, str) for each in allowed):
                raise InvalidInputError(
                    f"allowed_bases takes a list of places, got {self.allowed_bases!r}"
                )
            object.__setattr__(self, "allowed_bases", allowed)
        object.__setattr__(self, "base_storage_options", base_options(self.base_storage_options))


@dataclass(frozen=True, slots=True)
class Address:
    """Where a table is, and how it is reached."""

    uri: Uri
    access: Access | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.access, Access | None):
            raise InvalidInputError(
                f"access takes lancewood.Access(storage_options=…), got {self.access!r}"
            )

    def find(self) -> tuple[Location, str | None]:
        """Where the table is, and the revision that the uri carries.

        A uri that is itself a table is never split. Otherwise it is split at the first ``@`` that
        has a table before it, so only uris with an ``@`` cost another listing.
        """
        whole = self.store()
        parts = list(split_uri(self.uri)) if isinstance(self.uri, str) else []
        if parts and not is_table(whole):
            for root, revision in parts:
                store = self._store_at(root)
                if is_table(store):
                    return self._location(store), revision
        return self._location(whole), None

    def whole(self, verb: str) -> Location:
        """The location of a whole table; raises InvalidInputError if the uri carries a revision."""
        location, revision = self.find()
        if revision is not None:
            raise InvalidInputError(
                f"{verb} takes a whole table, and {self.uri!r} is revision {revision!r} of one; "
                "give the uri alone. A pathlib.Path is never taken for a revision",
                revision=revision,
            )
        return location

    def open(
        self,
        *,
        branch: str | None = None,
        version: int | None = None,
        tag: str | None = None,
        as_of: datetime | str | None = None,
        at: At = None,
    ) -> Snapshot:
        """The newest version, or the one asked for; raises NotFoundError."""
        check_contradictions(branch, version, tag, as_of, at)
        location, revision = self.find()
        return open_revision(
            location, branch=branch, version=version, tag=tag, as_of=as_of, at=at, in_uri=revision
        )

    def store(self) -> Store:
        """The store of the uri, taken as the root of a table."""
        return self._store_at(self.uri)

    def _store_at(self, root: Uri) -> Store:
        from lancewood.external.opening import open_table_store

        how = self.access or Access()
        return open_table_store(
            root,
            storage_options=how.storage_options,
            fsync=how.fsync,
            unsafe=how.unsafe,
            manifest_store=how.manifest_store,
            commit_lock=how.commit_lock,
        )

    def _location(self, store: Store) -> Location:
        how = self.access or Access()
        allowed = None if how.allowed_bases is None else tuple(how.allowed_bases)
        return Location(store, how.storage_options, allowed, how.base_storage_options or {})

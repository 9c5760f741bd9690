"""What a version is made of, told in full: its files, its fields, the versions around it.

Opens no data file. For whoever shows a table to people; programs ask ``Table.stats`` and
``Table.fragments``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from lancewood.engine.snapshot import Address, Snapshot, history_location, main_location
from lancewood.engine.versions import (
    VersionInfo,
    VersionList,
    iterate_versions,
    list_versions,
    load_manifest,
    require_newest,
)
from lancewood.errors import LancewoodError, NotFoundError
from lancewood.format.deletion import deletion_file_name
from lancewood.model.fragment import DataFile, Fragment
from lancewood.model.ids import Version
from lancewood.model.manifest import decode_fragment
from lancewood.model.schema import Field
from lancewood.store.base import Store
from lancewood.table.handle import Handle

_FIRST = Version(1)


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of a fragment."""

    fragment: int
    kind: str
    """data or deletion."""
    rows: int | None
    """That a data file holds, or that a deletion file deletes; None if it is not recorded."""
    bytes: int | None
    base: int | None
    """The id of the base path that it is in; None for the table's own root."""
    path: str
    version: str | None = None
    """The file version of a data file."""
    fields: tuple[int, ...] | None = None
    """The ids of the fields that a data file holds."""


@dataclass(frozen=True, slots=True)
class TableDetails:
    """What else is known of a version, its manifest and its history."""

    manifest_bytes: int
    reader_flags: int
    writer_flags: int
    naming_scheme: str
    """How manifests are called: V1 or V2."""
    writer: str
    """The program that wrote the version, as far as it said so."""
    newest_version: int | None
    oldest_version: int | None
    versions: int
    """Number of versions on this branch."""
    created: datetime | None
    """When the first version was made; None if that is gone or unreadable."""


class DetailVerbs(Handle):
    """Verbs that tell what a version is made of."""

    @property
    def main_uri(self) -> str:
        """Where main is; on a branch that is not the uri of the handle."""
        return main_location(self._snapshot).uri

    @property
    def fields(self) -> tuple[Field, ...]:
        """The columns as the format has them, with their ids and what is below them."""
        return self._snapshot.schema.fields

    def details(self) -> TableDetails:
        """The manifest's own facts, and those of the versions around it."""
        snapshot = self._snapshot
        manifest, found = snapshot.manifest, list_versions(snapshot.location.store)
        writer = manifest.message.writer_version
        return TableDetails(
            manifest_bytes=manifest.size,
            reader_flags=manifest.reader_flags,
            writer_flags=manifest.writer_flags,
            naming_scheme=snapshot.scheme.value,
            writer=" ".join(filter(None, (writer.library, writer.version))),
            newest_version=found.newest,
            oldest_version=found.versions[-1] if found.versions else None,
            versions=len(found.versions),
            created=_created(snapshot, found),
        )

    def files(self, limit: int | None = None) -> Iterator[StoredFile]:
        """The files of the first ``limit`` fragments, or of all; each is looked up in its turn."""
        manifest = self._snapshot.manifest
        # One by one, so that a short list of a large table stays quick.
        for raw in manifest.message.fragments[:limit]:
            fragment = Fragment(decode_fragment(raw, manifest.name))
            for file in fragment.files:
                yield _data_file(fragment, file)
            if fragment.deletion_file is not None:
                yield _deletion_file(self._snapshot, fragment)


def _created(snapshot: Snapshot, found: VersionList) -> datetime | None:
    if not found.versions or found.versions[-1] != _FIRST:
        return None
    try:
        return load_manifest(snapshot.location.store, _FIRST, found.scheme).timestamp
    except LancewoodError:
        return None


def _data_file(fragment: Fragment, file: DataFile) -> StoredFile:
    return StoredFile(
        fragment.id,
        "data",
        fragment.physical_rows or None,
        file.size,
        file.base_id,
        file.path,
        "{}.{}".format(*file.version),
        tuple(file.fields),
    )


def _deletion_file(snapshot: Snapshot, fragment: Fragment) -> StoredFile:
    deletion = fragment.deletion_file
    assert deletion is not None
    name = deletion_file_name(fragment.id, deletion.read_version, deletion.id, deletion.is_bitmap)
    found = snapshot.location.deletion_file(snapshot.manifest, fragment)
    assert found is not None
    store, key = found
    length = None
    with suppress(NotFoundError):
        length = store.head(key).size
    rows = deletion.num_deleted_rows or None
    return StoredFile(fragment.id, "deletion", rows, length, deletion.base_id, name)


def history(
    address: Address, *, branch: str | None = None, limit: int | None = None
) -> Iterator[VersionInfo]:
    """The versions of a branch, newest first, also where the newest cannot be read.

    Raises NotFoundError where there is no table.
    """
    return iterate_versions(_store_of(address, branch), limit)


def count_versions(address: Address, *, branch: str | None = None) -> int:
    """How many versions a branch has; none is opened.

    Raises NotFoundError where there is no table.
    """
    return len(list_versions(_store_of(address, branch)).versions)


def _store_of(address: Address, branch: str | None) -> Store:
    location, revision = address.find()
    store = history_location(location, branch=branch, in_uri=revision).store
    require_newest(store)
    return store

"""Whether two versions have the same rows and columns, even on different branches; and indices.

Two branches record the same file differently: under the id of one base path here, under another or
none there. So files are compared by location, and deletion files that differ by the rows that they
list, since a copy has another name. Fragments are decoded only where their bytes do not decide, and
only up to the first that differs. Opens no data file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lancewood.engine.snapshot.snapshot import Snapshot
from lancewood.format.layout import find_base
from lancewood.format.manifest import content_digest
from lancewood.model.fragment import Fragment
from lancewood.model.ids import BaseId
from lancewood.model.manifest import ManifestHead, decode_fragment
from lancewood.proto import table_pb2


def same_content(one: Snapshot, other: Snapshot) -> bool:
    """Whether schema and rows are the same, ids and versions of the rows included."""
    mine, theirs = one.manifest.message, other.manifest.message
    if one.location.uri == other.location.uri and content_digest(mine) == content_digest(theirs):
        return True
    if len(mine.fragments) != len(theirs.fragments) or [*mine.fields] != [*theirs.fields]:
        return False
    if dict(mine.schema_metadata) != dict(theirs.schema_metadata):
        return False
    locations: dict[tuple[str, bool], int] = {}
    pairs = zip(_Resolved(one, locations), _Resolved(other, locations), strict=True)
    return all(_same(one, here, other, there) for here, there in pairs)


def same_indices(one: ManifestHead, other: ManifestHead) -> bool:
    """Whether two versions have the same segments of the same indices."""
    mine, theirs = ({(each.name, each.uuid) for each in head.indices} for head in (one, other))
    return mine == theirs


@dataclass(frozen=True, slots=True)
class _Part:
    """One fragment: everything but its deletion file, the deletion file, and the whole as it was
    read."""

    body: bytes
    deletion: bytes
    fragment: Fragment


def _same(one: Snapshot, here: _Part, other: Snapshot, there: _Part) -> bool:
    if here.body != there.body:
        return False
    if here.deletion == there.deletion:
        return True
    if not here.deletion or not there.deletion:
        return False
    return one.deletions(here.fragment) == other.deletions(there.fragment)


class _Resolved:
    """The fragments of a version, with file roots replaced by numbers that both versions share."""

    def __init__(self, snapshot: Snapshot, locations: dict[tuple[str, bool], int]) -> None:
        self._snapshot = snapshot
        self._locations = locations
        self._known: dict[BaseId | None, int] = {}
        snapshot.location.settle(snapshot.manifest)

    def __iter__(self) -> Iterator[_Part]:
        manifest = self._snapshot.manifest
        for raw in manifest.message.fragments:
            fragment, deletion = decode_fragment(raw, manifest.name), b""
            for file in (*fragment.files, *(each.data_file for each in fragment.overlays)):
                file.base_id = self._number(file)
            if fragment.HasField("deletion_file"):
                fragment.deletion_file.base_id = self._number(fragment.deletion_file)
                deletion = fragment.deletion_file.SerializeToString(deterministic=True)
                fragment.ClearField("deletion_file")
            body = fragment.SerializeToString(deterministic=True)
            yield _Part(body, deletion, Fragment(decode_fragment(raw, manifest.name)))

    def _number(self, file: table_pb2.DataFile | table_pb2.DeletionFile) -> int:
        base_id = BaseId(file.base_id) if file.HasField("base_id") else None
        if base_id not in self._known:
            self._known[base_id] = self._locations.setdefault(
                self._spot(base_id), len(self._locations)
            )
        return self._known[base_id]

    def _spot(self, base_id: BaseId | None) -> tuple[str, bool]:
        location = self._snapshot.location
        if base_id is None:
            return location.uri, True
        base = find_base(self._snapshot.manifest.base_paths, base_id)
        return location.base_store(base).uri, base.is_dataset_root

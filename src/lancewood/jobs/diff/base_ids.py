"""The fragments of two versions in common terms: a file that both have is named alike.

The roots of two branches refer to a file differently: under the id of one base path here, of
another or none there. So the fragments of one version are shown with the base ids of the other. A
branch has a base path for every root that it comes from, so that nearly always ids are only added,
which is done for all fragments at once. Reads nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from lancewood.engine.snapshot import Snapshot
from lancewood.errors import UnsupportedError
from lancewood.format.inherited import inherited_fragments
from lancewood.model.ids import BaseId
from lancewood.model.manifest import decode_fragment
from lancewood.proto import table_pb2

_Ids: TypeAlias = Mapping[int | None, int | None]
"""Base ids of one version, by those of the other; None is the own root."""
_NOWHERE = -1


def in_common_terms(one: Snapshot, other: Snapshot) -> tuple[Sequence[bytes], Sequence[bytes]]:
    """The fragments of both as bytes, in their order, with the same base id for the same root."""
    mine, theirs = (list(each.manifest.message.fragments) for each in (one, other))
    if _own_root(one, other) is not None or one.location.uri == other.location.uri:
        return mine, _shown(other, one, theirs)
    return _shown(one, other, mine), theirs


def _shown(source: Snapshot, target: Snapshot, raws: Sequence[bytes]) -> Sequence[bytes]:
    ids = _ids(source, target)
    if all(here == there for here, there in ids.items()):
        return raws
    added = ids[None]
    if added is not None and all(here == there for here, there in ids.items() if here is not None):
        try:
            shown = inherited_fragments(source.manifest, BaseId(added))
        except UnsupportedError:
            pass
        else:
            return list(table_pb2.Manifest.FromString(shown).fragments)
    return [*_one_by_one(raws, ids, source.manifest.name)]


def _one_by_one(raws: Sequence[bytes], ids: _Ids, name: str) -> Iterator[bytes]:
    for raw in raws:
        fragment = decode_fragment(raw, name)
        deletions = [fragment.deletion_file] if fragment.HasField("deletion_file") else []
        overlays = (each.data_file for each in fragment.overlays)
        files: tuple[table_pb2.DataFile | table_pb2.DeletionFile, ...]
        files = (*fragment.files, *overlays, *deletions)
        for file in files:
            known = file.base_id if file.HasField("base_id") else None
            shown = ids.get(known, known)
            if shown is None:
                file.ClearField("base_id")
            else:
                file.base_id = shown
        yield fragment.SerializeToString()


def _ids(source: Snapshot, target: Snapshot) -> _Ids:
    """What the base ids of a version are called in the terms of another."""
    known = {each.id: each for each in target.manifest.base_paths}
    fresh = max(
        (each.id for side in (source, target) for each in side.manifest.base_paths), default=0
    )
    ids: dict[int | None, int | None] = {None: None}
    if source.location.uri != target.location.uri:
        own = _own_root(target, source)
        fresh += own is None
        ids[None] = fresh if own is None else own
    for base in source.manifest.base_paths:
        if known.get(base.id) == base:
            ids[base.id] = base.id
            continue
        shown = _called(source, base, target)
        fresh += shown == _NOWHERE
        ids[base.id] = fresh if shown == _NOWHERE else shown
    return ids


def _called(source: Snapshot, base: table_pb2.BasePath, target: Snapshot) -> int | None:
    """The base id under which another version has the root of a base path, or ``_NOWHERE``."""
    source.location.settle(source.manifest)
    root = source.location.base_store(base)
    if base.is_dataset_root and root.uri == target.location.store.uri:
        return None
    target.location.settle(target.manifest)
    for each in target.manifest.base_paths:
        if each.is_dataset_root == base.is_dataset_root and target.location.leads_to(each, root):
            return each.id
    return _NOWHERE


def _own_root(target: Snapshot, source: Snapshot) -> int | None:
    """The base id under which a version has the own root of another; None if under none."""
    target.location.settle(target.manifest)
    for each in target.manifest.base_paths:
        if each.is_dataset_root and target.location.leads_to(each, source.location.store):
            return each.id
    return None

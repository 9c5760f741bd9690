"""What follows from changes to a table's settings: its four maps, and its base paths. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from lancewood.errors import InvalidInputError
from lancewood.model.ids import FieldId
from lancewood.model.lines import LINE_KEY, MERGED_KEY
from lancewood.model.manifest import Manifest, ManifestHead
from lancewood.model.schema import check_metadata_change, mirror_metadata
from lancewood.model.transaction import (
    FieldMessages,
    HeadChanges,
    ManifestPatch,
    MapUpdate,
    UpdateBases,
    UpdateConfig,
)
from lancewood.proto import schema_pb2, table_pb2
from lancewood.rules.features import marks_of
from lancewood.rules.patching import make_patch


def apply_update_config(manifest: Manifest, operation: UpdateConfig) -> ManifestPatch:
    changes = HeadChanges(
        config=_config(operation.config, manifest.config) if operation.config else None,
        table_metadata=operation.table_metadata.applied_to(manifest.table_metadata)
        if operation.table_metadata
        else None,
        schema_metadata=_bytes_map(operation.schema_metadata, manifest.schema_metadata)
        if operation.schema_metadata
        else None,
        fields=_with_field_metadata(manifest, operation.field_metadata),
    )
    return make_patch(manifest, changes)


def _config(update: MapUpdate, old: Mapping[str, str]) -> dict[str, str]:
    """The settings after an update; replacing all of them still keeps the marks of loaded batches,
    and of which line it is and what it holds, since the rows stay."""
    new = update.applied_to(old)
    if not update.replace:
        return new
    kept = {key: old[key] for key in (LINE_KEY, MERGED_KEY) if key in old}
    return {**marks_of(old), **kept, **new}


def apply_update_bases(manifest: Manifest, operation: UpdateBases) -> ManifestPatch:
    return make_patch(
        manifest, HeadChanges(base_paths=with_bases(manifest.base_paths, operation.new_bases))
    )


def with_bases(
    old: tuple[table_pb2.BasePath, ...], new: tuple[table_pb2.BasePath, ...]
) -> tuple[table_pb2.BasePath, ...]:
    """Old and new bases together; a new one without an id gets the next, from 1."""
    bases = list(old)
    for each in new:
        base = table_pb2.BasePath()
        base.CopyFrom(each)
        if base.id == 0:
            base.id = max((known.id for known in bases), default=0) + 1
        for known in bases:
            if known.id == base.id or known.path == base.path or _same_name(known, base):
                raise InvalidInputError(
                    f"base path {base.path!r} (id {base.id}) repeats the id, name or path "
                    f"of {known.path!r} (id {known.id})"
                )
        bases.append(base)
    return tuple(bases)


def _same_name(one: table_pb2.BasePath, other: table_pb2.BasePath) -> bool:
    return one.HasField("name") and other.HasField("name") and one.name == other.name


def _bytes_map(update: MapUpdate, old: Mapping[str, bytes]) -> dict[str, bytes]:
    """``MapUpdate.applied_to`` for the maps whose values are bytes."""
    new = {} if update.replace else dict(old)
    for key, value in update.entries.items():
        if value is None:
            new.pop(key, None)
        else:
            new[key] = value.encode()
    return new


def _with_field_metadata(
    head: ManifestHead, updates: Mapping[FieldId, MapUpdate]
) -> FieldMessages | None:
    if not updates:
        return None
    known = {each.id for each in head.fields}
    missing = sorted(set(updates) - known)
    if missing:
        raise InvalidInputError(f"no field has the id {', '.join(map(str, missing))}")
    fields = []
    for each in head.fields:
        changed = schema_pb2.Field()
        changed.CopyFrom(each)
        update = updates.get(FieldId(each.id))
        if update:
            changed.ClearField("metadata")
            changed.metadata.update(_bytes_map(update, each.metadata))
            mirror_metadata(changed, each.metadata)
        fields.append(changed)
    check_metadata_change(head.fields, fields)
    return tuple(fields)

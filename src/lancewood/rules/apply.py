"""What follows from a transaction: (manifest head, transaction) → ManifestPatch.

Pure: no bytes, no clock, no store. Fragments that the transaction does not name are not looked
at. Fragment ids and row ids are handed out here, anew on every attempt, and never before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from lancewood.errors import (
    FormatError,
    InvalidInputError,
    RetryableConflictError,
    UnsupportedError,
)
from lancewood.model.field_keys import check_metadata_change, mirror_metadata
from lancewood.model.file_version import version_name
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FieldId, FragmentId, Version
from lancewood.model.manifest import FLAG_FIELD_IDS_NOT_REUSED, ManifestHead
from lancewood.model.operations import (
    Append,
    Delete,
    FieldMessages,
    MapUpdate,
    Overwrite,
    Project,
    ReserveFragments,
    Restore,
    UpdateBases,
    UpdateConfig,
    operation_name,
)
from lancewood.model.patch import HeadChanges, ManifestPatch
from lancewood.model.rowids import RowIdSequence, RowVersions
from lancewood.model.transaction import Transaction
from lancewood.proto import schema_pb2, table_pb2
from lancewood.rules.features import next_flags

MAX_FRAGMENT_ID = (1 << 32) - 1


def apply(
    head: ManifestHead, transaction: Transaction, restored: ManifestHead | None = None
) -> ManifestPatch:
    """The patch that turns ``head`` into the version after it.

    A Restore also needs the head of the version it names (``needed_version`` says which), and its
    patch is relative to that one. Raises UnsupportedError for an operation that Lancewood reads
    but does not carry out.
    """
    operation = transaction.operation
    if isinstance(operation, Restore):
        return _restore(head, operation, restored)
    rule = _RULES.get(type(operation))
    if rule is None:
        raise UnsupportedError(f"{operation_name(operation)} cannot be committed by Lancewood yet")
    return rule(head, operation)


def needed_version(transaction: Transaction) -> Version | None:
    """The version whose head ``apply`` needs besides the newest one."""
    operation = transaction.operation
    return operation.version if isinstance(operation, Restore) else None


def _append(head: ManifestHead, operation: Append) -> ManifestPatch:
    added, changes = _hand_out_ids(head, operation.fragments)
    return _patch(head, changes, add=added)


def _overwrite(head: ManifestHead, operation: Overwrite) -> ManifestPatch:
    _check_field_ids(head, operation.fields)
    added, marks = _hand_out_ids(head, operation.fragments)
    versions = {file.version for fragment in added for file in fragment.files}
    if len(versions) > 1:
        raise InvalidInputError(f"an overwrite mixes data file versions: {sorted(versions)}")
    file_version = version_name(versions.pop()) if versions else operation.file_version
    bases = head.base_paths
    if operation.initial_bases:
        if head.version:
            raise InvalidInputError("initial base paths are for new tables; use UpdateBases")
        bases = _with_bases(bases, operation.initial_bases)
    changes = HeadChanges(
        fields=operation.fields,
        schema_metadata=operation.schema_metadata,
        config={**head.config, **operation.config_upserts},
        base_paths=bases,
        indices=(),
        file_version=file_version,
        max_fragment_id=marks.max_fragment_id,
        next_row_id=marks.next_row_id,
        max_allocated_field_id=_field_mark(head, operation.fields),
    )
    return _patch(head, changes, keep=False, add=added)


def _delete(head: ManifestHead, operation: Delete) -> ManifestPatch:
    return _patch(
        head,
        HeadChanges(),
        changed={each.id: each for each in operation.updated_fragments},
        remove=frozenset(operation.deleted_fragment_ids),
    )


def _project(head: ManifestHead, operation: Project) -> ManifestPatch:
    live = frozenset(FieldId(each.id) for each in operation.fields)
    indices = tuple(each for each in head.indices if live.issuperset(each.fields))
    changes = HeadChanges(
        fields=operation.fields,
        indices=None if len(indices) == len(head.indices) else indices,
        max_allocated_field_id=_field_mark(head, operation.fields),
    )
    gone = {each.id for each in head.fields} - live
    return _patch(head, changes, live_fields=live if gone else None)


def _reserve_fragments(head: ManifestHead, operation: ReserveFragments) -> ManifestPatch:
    if operation.num_fragments < 1:
        raise InvalidInputError(f"cannot reserve {operation.num_fragments} fragments")
    last = _next_fragment_id(head) + operation.num_fragments - 1
    return _patch(head, HeadChanges(max_fragment_id=_check_fragment_id(last)))


def _update_config(head: ManifestHead, operation: UpdateConfig) -> ManifestPatch:
    changes = HeadChanges(
        config=operation.config.applied_to(head.config) if operation.config else None,
        table_metadata=operation.table_metadata.applied_to(head.table_metadata)
        if operation.table_metadata
        else None,
        schema_metadata=_bytes_map(operation.schema_metadata, head.schema_metadata)
        if operation.schema_metadata
        else None,
        fields=_with_field_metadata(head, operation.field_metadata),
    )
    return _patch(head, changes)


def _update_bases(head: ManifestHead, operation: UpdateBases) -> ManifestPatch:
    return _patch(head, HeadChanges(base_paths=_with_bases(head.base_paths, operation.new_bases)))


def _restore(
    head: ManifestHead, operation: Restore, restored: ManifestHead | None
) -> ManifestPatch:
    if restored is None or restored.version != operation.version:
        raise InvalidInputError(f"restoring version {operation.version} needs its manifest")
    if head.has_stable_row_ids and not restored.has_stable_row_ids:
        raise InvalidInputError(
            f"version {operation.version} has no stable row ids, the table has them now; "
            "restoring it would turn them off"
        )
    changes = HeadChanges(
        max_fragment_id=head.max_fragment_id,
        next_row_id=head.next_row_id,
        max_allocated_field_id=_field_mark(head, head.fields),
    )
    patch = _patch(restored, changes)
    sticky = head.writer_flags & FLAG_FIELD_IDS_NOT_REUSED
    return replace(patch, flags=(patch.flags[0], patch.flags[1] | sticky))


_Rule: TypeAlias = Callable[[ManifestHead, Any], ManifestPatch]

_RULES: Mapping[type, _Rule] = {
    Append: _append,
    Delete: _delete,
    Overwrite: _overwrite,
    Project: _project,
    ReserveFragments: _reserve_fragments,
    UpdateConfig: _update_config,
    UpdateBases: _update_bases,
}


def _patch(
    source: ManifestHead,
    changes: HeadChanges,
    *,
    keep: bool = True,
    add: tuple[Fragment, ...] = (),
    changed: Mapping[FragmentId, Fragment] | None = None,
    remove: frozenset[FragmentId] = frozenset(),
    live_fields: frozenset[FieldId] | None = None,
) -> ManifestPatch:
    changed = changed or {}
    flags = next_flags(source, changes, (*add, *changed.values()), keep=keep)
    return ManifestPatch(
        head=changes,
        flags=flags,
        keep=keep,
        add=add,
        replace=changed,
        remove=remove,
        live_fields=live_fields,
    )


def _hand_out_ids(
    head: ManifestHead, fragments: Iterable[Fragment]
) -> tuple[tuple[Fragment, ...], HeadChanges]:
    """New fragments with ids (and row ids, on a table that keeps them), and the new marks.

    Ids that they already carry are another table's or another attempt's, and are ignored. Rows
    are stamped with the version after ``head``, also where a detached manifest gets another number.
    """
    next_id, next_row_id = _next_fragment_id(head), head.next_row_id
    version = head.version + 1
    births: dict[int, RowVersions] = {}
    done = []
    for fragment in fragments:
        if fragment.deletion_file is not None:
            raise InvalidInputError(
                "a new fragment has a deletion file, whose name belongs to another fragment"
            )
        row_ids = birth = None
        if head.has_stable_row_ids:
            rows = fragment.physical_rows
            if rows == 0:
                raise FormatError(f"fragment {fragment.id} does not say how many rows it has")
            row_ids = RowIdSequence.from_range(next_row_id, rows)
            if rows not in births:
                births[rows] = RowVersions.uniform(version, rows)
            birth = births[rows]
            next_row_id += rows
        done.append(fragment.born(FragmentId(_check_fragment_id(next_id)), row_ids, birth))
        next_id += 1
    return tuple(done), HeadChanges(
        max_fragment_id=next_id - 1 if next_id else None,
        next_row_id=next_row_id if head.has_stable_row_ids else None,
    )


def _next_fragment_id(head: ManifestHead) -> int:
    return 0 if head.max_fragment_id is None else head.max_fragment_id + 1


def _check_fragment_id(number: int) -> int:
    if number > MAX_FRAGMENT_ID:
        raise UnsupportedError(
            f"the table has used all of its {MAX_FRAGMENT_ID + 1:,} fragment ids; "
            "copy it to a new one"
        )
    return number


def _check_field_ids(head: ManifestHead, fields: FieldMessages) -> None:
    """Raises if new field ids are taken already, on a table that never reuses one."""
    if not head.writer_flags & FLAG_FIELD_IDS_NOT_REUSED or not fields:
        return
    taken, lowest = head.message.max_allocated_field_id, min(each.id for each in fields)
    if lowest <= taken:
        raise RetryableConflictError(
            f"field ids up to {taken} were handed out since; run the overwrite again",
            max_allocated_field_id=taken,
        )


def _field_mark(head: ManifestHead, fields: FieldMessages) -> int | None:
    """The new mark of allocated field ids, where the table keeps one."""
    if not head.writer_flags & FLAG_FIELD_IDS_NOT_REUSED:
        return None
    return max((head.message.max_allocated_field_id, *(each.id for each in fields)))


def _with_bases(
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
    """The same as ``MapUpdate.applied_to`` for the maps whose values are bytes."""
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

"""What follows from a transaction: (manifest, transaction) → ManifestPatch.

Pure: no bytes, no clock, no store. A patch is always made for the newest version: a fragment that
an operation changes is taken from there, and only what the operation changes is replaced. Fragments
that the transaction does not name are not looked at, except where columns are dropped: each must
keep a file. Fragment ids and row ids are assigned here, again on every attempt, and never before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from lancewood.errors import InvalidInputError, RetryableConflictError, UnsupportedError
from lancewood.model.fragment import DataFile, Fragment, version_name
from lancewood.model.ids import FieldId, FragmentId, Version
from lancewood.model.lines import LINE_KEY, MERGED_KEY, encode_vector, held_by, line_of
from lancewood.model.manifest import FLAG_FIELD_IDS_NOT_REUSED, Manifest, ManifestHead
from lancewood.model.rowids import RowVersions
from lancewood.model.schema import check_metadata_change, mirror_metadata
from lancewood.model.table_config import (
    EXCLUSIVE_KEY,
    MANIFEST_STORE_KEY,
    PUBLISHED_KEY,
    RENAMED_KEY,
)
from lancewood.model.transaction import (
    Append,
    CreateIndex,
    DataReplacement,
    Delete,
    FieldMessages,
    HeadChanges,
    ManifestPatch,
    MapUpdate,
    Merge,
    Overwrite,
    Project,
    Replacement,
    ReserveFragments,
    Restore,
    Rewrite,
    Transaction,
    Update,
    UpdateBases,
    UpdateConfig,
    operation_name,
)
from lancewood.proto import schema_pb2, table_pb2
from lancewood.rules.apply_rows import apply_delete, apply_rewrite, apply_update
from lancewood.rules.features import marks_of
from lancewood.rules.indices import (
    changed_fields,
    check_no_fragment_reuse,
    on_live_fields,
    uncovered,
    with_relatives,
)
from lancewood.rules.numbering import (
    check_field_ids,
    check_fragment_id,
    check_row_mark,
    field_mark,
    hand_out_ids,
    next_fragment_id,
)
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


def apply_project(manifest: Manifest, operation: Project) -> ManifestPatch:
    """Another schema over the same files; a file that is left without columns is dropped."""
    live = _ids(operation.fields)
    indices = on_live_fields(manifest.indices, live)
    changes = HeadChanges(
        fields=operation.fields,
        indices=None if indices == manifest.indices else indices,
        max_allocated_field_id=field_mark(manifest, operation.fields),
    )
    gone = _ids(manifest.fields) - live
    if gone:
        _check_files_are_left(manifest, live)
    return make_patch(manifest, changes, live_fields=live if gone else None)


def apply_merge(manifest: Manifest, operation: Merge) -> ManifestPatch:
    """Another schema, and fragments with other files; all their rows count as updated.

    Fragments listed beyond those of the manifest are new rows, and get the next free ids.
    """
    old, new = _ids(manifest.fields), _ids(operation.fields)
    check_field_ids(manifest, new - old)
    last = max((each.id for each in manifest.fragments), default=-1)
    images = _images(manifest, [each for each in operation.fragments if each.id <= last])
    added, marks = _added(manifest, [each for each in operation.fragments if each.id > last])
    indices = on_live_fields(manifest.indices, new)
    stamps: dict[int, RowVersions] = {}
    rewritten: dict[frozenset[FieldId], list[FragmentId]] = {}
    changed = {}
    for now, image in zip(manifest.fragments, images, strict=True):
        if now.message.files == image.message.files:
            continue
        fragment = now.with_files(image.files)
        if manifest.has_stable_row_ids:
            rows = now.physical_rows
            if rows not in stamps:
                stamps[rows] = RowVersions.uniform(manifest.version + 1, rows)
            fragment = fragment.stamped(stamps[rows])
        changed[now.id] = fragment
        if indices:
            rewritten.setdefault(changed_fields(now, image), []).append(now.id)
    for fields, fragments in rewritten.items():
        indices = uncovered(indices, fragments, with_relatives(manifest.fields, fields))
    changes = HeadChanges(
        fields=operation.fields,
        schema_metadata=operation.schema_metadata,
        indices=None if indices == manifest.indices else indices,
        max_fragment_id=marks.max_fragment_id,
        next_row_id=marks.next_row_id,
        max_allocated_field_id=field_mark(manifest, operation.fields),
    )
    return make_patch(manifest, changes, changed=changed, add=added)


def apply_data_replacement(manifest: Manifest, operation: DataReplacement) -> ManifestPatch:
    """Whole columns of some fragments come from other files."""
    manifest.expect_lookups(len(operation.replacements))
    _check_replacements(manifest, operation.replacements)
    live = _ids(manifest.fields)
    written = frozenset(
        number for each in operation.replacements for number in each.new_file.fields
    )
    parents = _whole_parents(manifest.fields, written)
    changed = {}
    for each in operation.replacements:
        now = manifest.fragment(each.fragment_id)
        fragment = _with_file(now, each.new_file, parents).without_dead_files(live)
        if manifest.has_stable_row_ids:
            stamp = RowVersions.uniform(manifest.version + 1, now.physical_rows)
            fragment = fragment.stamped(stamp)
        changed[now.id] = fragment
    indices = uncovered(manifest.indices, changed, with_relatives(manifest.fields, written))
    changes = HeadChanges(indices=None if indices == manifest.indices else indices)
    return make_patch(manifest, changes, changed=changed)


def _check_files_are_left(manifest: Manifest, live: frozenset[FieldId]) -> None:
    """Check that every fragment keeps a file: without one it cannot be read, nor counted by
    pylance."""
    for each in manifest.fragments:
        if all(live.isdisjoint(file.fields) for file in each.message.files):
            raise RetryableConflictError(
                f"fragment {each.id} has none of the columns that stay, and would have no file "
                "left; run it again on the newest version, and write a file for it",
                fragment=each.id,
            )


def _added(
    manifest: Manifest, fragments: Sequence[Fragment]
) -> tuple[tuple[Fragment, ...], HeadChanges]:
    """New fragments with their ids, and the new marks."""
    if not fragments:
        return (), HeadChanges()
    check_row_mark(manifest)
    return hand_out_ids(manifest, fragments)


def _images(manifest: Manifest, images: Sequence[Fragment]) -> Sequence[Fragment]:
    """The given fragments in the manifest's order; raises InvalidInputError for a missing one."""
    if len(images) == manifest.fragment_count and all(
        image.id == now.id for image, now in zip(images, manifest.fragments, strict=True)
    ):
        return images
    given = {each.id: each for each in images}
    known = {each.id for each in manifest.fragments}
    if len(given) != len(images) or given.keys() != known:
        wrong = sorted(given.keys() ^ known)
        raise InvalidInputError(
            f"a Merge lists every fragment once: {len(images)} are given, the table has "
            f"{len(known)}" + (f"; fragment {wrong[0]} is on one side only" if wrong else "")
        )
    return [given[each.id] for each in manifest.fragments]


def _check_replacements(manifest: Manifest, replacements: Sequence[Replacement]) -> None:
    if len({each.new_file.fields for each in replacements}) > 1:
        raise InvalidInputError(
            "all files of a DataReplacement hold the same fields; commit one for each set of them"
        )
    times = Counter(each.fragment_id for each in replacements)
    for fragment, count in times.most_common(1):
        if count > 1:
            raise InvalidInputError(
                f"a DataReplacement names a fragment twice: {fragment}", fragment=fragment
            )
    live = _ids(manifest.fields)
    for each in replacements[:1]:
        unknown = sorted(frozenset(each.new_file.fields) - live)
        if unknown:
            raise InvalidInputError(
                f"no field of version {manifest.version} has the id {unknown[0]}"
            )


def _whole_parents(fields: FieldMessages, leaves: frozenset[FieldId]) -> frozenset[FieldId]:
    """The structs and lists all of whose leaves are among those given."""
    inner = {each.parent_id for each in fields}
    outside = {each.id for each in fields if each.id not in inner and each.id not in leaves}
    for each in reversed(fields):  # children come after their parents
        if each.id in outside and each.parent_id >= 0:
            outside.add(each.parent_id)
    return frozenset(FieldId(each) for each in inner if each >= 0 and each not in outside)


def _with_file(fragment: Fragment, new: DataFile, parents: frozenset[FieldId]) -> Fragment:
    """Replace the file that holds the same columns with the new one, or else add it."""
    for at, each in enumerate(fragment.files):
        if each.fields == new.fields and each.version == new.version:
            files = list(fragment.files)
            files[at] = new
            return fragment.with_files(files)
    return fragment.with_columns(new, parents)


def _ids(fields: FieldMessages) -> frozenset[FieldId]:
    return frozenset(FieldId(each.id) for each in fields)


def apply(
    manifest: Manifest, transaction: Transaction, restored: ManifestHead | None = None
) -> ManifestPatch:
    """The patch that turns ``manifest`` into the version after it.

    A Restore also needs the head of the version it names (``needed_version`` says which), and its
    patch is relative to that one. Raises UnsupportedError for an operation that Lancewood reads but
    does not carry out, and FormatError for duplicate fragments or row ids among those it changes.
    """
    operation = transaction.operation
    if isinstance(operation, Restore):
        return _restore(manifest, operation, restored)
    rule = _RULES.get(type(operation))
    if rule is None:
        raise UnsupportedError(f"{operation_name(operation)} cannot be committed by Lancewood")
    if isinstance(operation, _CHANGE_FRAGMENTS):
        manifest.check_unique_fragments()
    return rule(manifest, operation)


def needed_version(transaction: Transaction) -> Version | None:
    """The version whose head ``apply`` needs besides the newest one."""
    operation = transaction.operation
    return operation.version if isinstance(operation, Restore) else None


def _append(manifest: Manifest, operation: Append) -> ManifestPatch:
    check_row_mark(manifest)
    added, changes = hand_out_ids(manifest, operation.fragments)
    return make_patch(manifest, changes, add=added)


def _overwrite(manifest: Manifest, operation: Overwrite) -> ManifestPatch:
    check_field_ids(manifest, (each.id for each in operation.fields))
    added, marks = hand_out_ids(manifest, operation.fragments)
    versions = {file.version for fragment in added for file in fragment.files}
    if len(versions) > 1:
        raise InvalidInputError(f"an overwrite mixes data file versions: {sorted(versions)}")
    file_version = version_name(versions.pop()) if versions else operation.file_version
    bases = manifest.base_paths
    if operation.initial_bases:
        if manifest.version:
            raise InvalidInputError("initial base paths are for new tables; use UpdateBases")
        bases = with_bases(bases, operation.initial_bases)
    changes = HeadChanges(
        fields=operation.fields,
        schema_metadata=operation.schema_metadata,
        config={**manifest.config, **operation.config_upserts},
        base_paths=bases,
        indices=(),
        file_version=file_version,
        max_fragment_id=marks.max_fragment_id,
        next_row_id=marks.next_row_id,
        max_allocated_field_id=field_mark(manifest, operation.fields),
    )
    return make_patch(manifest, changes, keep=False, add=added)


def _create_index(manifest: Manifest, operation: CreateIndex) -> ManifestPatch:
    if operation.new_indices:
        check_no_fragment_reuse(manifest.indices, "a new index")
    replaced = {each.uuid for each in (*operation.removed_indices, *operation.new_indices)}
    kept = tuple(each for each in manifest.indices if each.uuid not in replaced)
    return make_patch(manifest, HeadChanges(indices=(*kept, *operation.new_indices)))


def _reserve_fragments(manifest: Manifest, operation: ReserveFragments) -> ManifestPatch:
    if operation.num_fragments < 1:
        raise InvalidInputError(f"cannot reserve {operation.num_fragments} fragments")
    last = next_fragment_id(manifest) + operation.num_fragments - 1
    return make_patch(manifest, HeadChanges(max_fragment_id=check_fragment_id(last)))


def _restore(
    manifest: Manifest, operation: Restore, restored: ManifestHead | None
) -> ManifestPatch:
    if restored is None or restored.version != operation.version:
        raise InvalidInputError(f"restoring version {operation.version} needs its manifest")
    if manifest.has_stable_row_ids and not restored.has_stable_row_ids:
        raise InvalidInputError(
            f"version {operation.version} has no stable row ids, the table has them now; "
            "restoring it would turn them off"
        )
    changes = HeadChanges(
        base_paths=operation.base_paths,
        config=_restored_config(manifest, operation, restored),
        max_fragment_id=manifest.max_fragment_id,
        next_row_id=manifest.next_row_id,
        max_allocated_field_id=field_mark(manifest, manifest.fields),
    )
    patch = make_patch(restored, changes)
    sticky = manifest.writer_flags & FLAG_FIELD_IDS_NOT_REUSED
    return replace(patch, flags=(patch.flags[0], patch.flags[1] | sticky))


def _restored_config(
    manifest: Manifest, operation: Restore, restored: ManifestHead
) -> Mapping[str, str] | None:
    """The configuration of a restored version; None if unchanged. Who may write to the table, and
    its line, are not restored, and stay as they are."""
    config = restored.config if operation.config is None else operation.config
    kept = {key: value for key, value in config.items() if key not in _NOT_RESTORED}
    kept |= {key: manifest.config[key] for key in _NOT_RESTORED if key in manifest.config}
    line = line_of(manifest).id
    if line_of(restored).id != line:  # the rows are those of an earlier life of the branch
        held = {each: reached for each, reached in held_by(restored).items() if each != line}
        kept[MERGED_KEY] = encode_vector(held)
    return operation.config if kept == config else kept


_NOT_RESTORED = (EXCLUSIVE_KEY, MANIFEST_STORE_KEY, LINE_KEY, PUBLISHED_KEY, RENAMED_KEY)
"""The keys of a configuration that say who may write to the table, and how, what its line is, and
that a branch is closed: a version of before a reset may be one that was published."""
_CHANGE_FRAGMENTS = (Delete, Update, Rewrite, Merge, Project, DataReplacement)
_Rule: TypeAlias = Callable[[Manifest, Any], ManifestPatch]

_RULES: Mapping[type, _Rule] = {
    Append: _append,
    Delete: apply_delete,
    Update: apply_update,
    Overwrite: _overwrite,
    CreateIndex: _create_index,
    Rewrite: apply_rewrite,
    Merge: apply_merge,
    Project: apply_project,
    ReserveFragments: _reserve_fragments,
    UpdateConfig: apply_update_config,
    DataReplacement: apply_data_replacement,
    UpdateBases: apply_update_bases,
}

"""What follows from a transaction: (manifest, transaction) → ManifestPatch.

Pure: no bytes, no clock, no store. A patch is always made for the newest version: a fragment that
an operation changes is taken from there, and only what the operation changes is replaced. Fragments
that the transaction does not name are not looked at, except where columns are dropped: each must
keep a file. Fragment ids and row ids are assigned here, again on every attempt, and never before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from lancewood.errors import InvalidInputError, UnsupportedError
from lancewood.model.fragment import version_name
from lancewood.model.ids import Version
from lancewood.model.lines import LINE_KEY, MERGED_KEY, encode_vector, held_by, line_of
from lancewood.model.manifest import FLAG_FIELD_IDS_NOT_REUSED, Manifest, ManifestHead
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
    HeadChanges,
    ManifestPatch,
    Merge,
    Overwrite,
    Project,
    ReserveFragments,
    Restore,
    Rewrite,
    Transaction,
    Update,
    UpdateBases,
    UpdateConfig,
    operation_name,
)
from lancewood.rules.apply_columns import apply_data_replacement, apply_merge, apply_project
from lancewood.rules.apply_rows import apply_delete, apply_rewrite, apply_update
from lancewood.rules.apply_settings import apply_update_bases, apply_update_config, with_bases
from lancewood.rules.indices import check_no_fragment_reuse
from lancewood.rules.numbering import (
    check_field_ids,
    check_fragment_id,
    check_row_mark,
    field_mark,
    hand_out_ids,
    next_fragment_id,
)
from lancewood.rules.patching import make_patch


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

"""What a version that no single operation describes is recorded as.

No operation of the format says "all of this". The recorded one makes other writers keep off
everything that was touched; if several would, it is the one that keeps them off more. The rest
(configuration, metadata, indices beside rows) is in the version but not in the operation. All of
this is computed again on every attempt, and nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lancewood.model.fragment import Fragment
from lancewood.model.ids import FieldId, FragmentId
from lancewood.model.index import Index
from lancewood.model.lines import LINE_KEY, MERGED_KEY
from lancewood.model.manifest import Manifest, ManifestHead
from lancewood.model.table_config import EXCLUSIVE_KEY, MANIFEST_STORE_KEY, PUBLISHED_KEY, RESET_KEY
from lancewood.model.transaction import (
    Append,
    CreateIndex,
    Delete,
    FieldMessages,
    HeadChanges,
    MapUpdate,
    Merge,
    Operation,
    Overwrite,
    Project,
    Update,
    UpdateBases,
    UpdateConfig,
)
from lancewood.proto import table_pb2
from lancewood.rules.indices import changed_fields
from lancewood.rules.three_way import same_structure

BRANCH_PROPERTY = "lancewood.branch"


BRANCH_VERSION_PROPERTY = "lancewood.branch_version"
"""Where the work of a version of the target comes from, for people."""


MARKS = frozenset(
    {PUBLISHED_KEY, RESET_KEY, EXCLUSIVE_KEY, MANIFEST_STORE_KEY, LINE_KEY, MERGED_KEY}
)
"""Configuration keys of the branch alone: who may write to it, where it was reset, and what it
holds."""


def open_config(head: ManifestHead) -> dict[str, str]:
    """The configuration without the marks, which belong to the branch alone."""
    return {key: value for key, value in head.config.items() if key not in MARKS}


@dataclass(frozen=True)
class Effect:
    """Everything that changes on the target."""

    newest: Manifest
    head: HeadChanges
    added: tuple[Fragment, ...]
    changed: Mapping[FragmentId, Fragment]
    removed: frozenset[FragmentId]
    replaces_all: bool
    """Whether the branch overwrote the table, or an id now means another column: then no change
    based on an older version may follow."""
    new_indices: tuple[Index, ...] = ()
    removed_indices: tuple[Index, ...] = ()
    new_bases: tuple[table_pb2.BasePath, ...] = ()


def recorded_as(effect: Effect) -> Operation:
    """The operation that the effect is recorded as."""
    newest, head = effect.newest, effect.head
    fields = newest.fields if head.fields is None else head.fields
    metadata = newest.schema_metadata if head.schema_metadata is None else head.schema_metadata
    touches_rows = bool(effect.added or effect.changed or effect.removed)
    if effect.replaces_all:
        return Overwrite(_final_fragments(effect), fields, metadata)
    if not same_structure(newest.fields, fields):
        preserves = _preserves_nullability(newest, fields)
        if not touches_rows:
            return Project(fields, preserves)
        return Merge(_final_fragments(effect), fields, metadata, preserves)
    if touches_rows:
        return _rows(effect)
    if effect.new_indices or effect.removed_indices:
        return CreateIndex(effect.new_indices, effect.removed_indices)
    if _maps(effect):
        return _config(effect, fields)
    return UpdateBases(effect.new_bases)


def _final_fragments(effect: Effect) -> tuple[Fragment, ...]:
    """All fragments of the next version."""
    kept = [
        effect.changed.get(each.id, each)
        for each in effect.newest.fragments
        if each.id not in effect.removed
    ]
    return tuple(sorted((*kept, *effect.added), key=lambda each: each.id))


def _rows(effect: Effect) -> Operation:
    rewritten: set[FieldId] = set()
    has_other_files = False
    for number, each in effect.changed.items():
        before = effect.newest.fragment(number)
        if before.files != each.files:
            has_other_files = True
            rewritten |= changed_fields(before, each)
    images = tuple(effect.changed.values())
    removed = tuple(sorted(effect.removed))
    if not effect.changed and not removed:
        return Append(effect.added)
    if not effect.added and not has_other_files:
        return Delete(images, removed)
    return Update(
        removed,
        images,
        effect.added,
        fields_modified=tuple(sorted(rewritten)),
        rewrites_columns=has_other_files,
    )


def _maps(effect: Effect) -> bool:
    head = effect.head
    maps = (head.fields, head.schema_metadata, head.table_metadata)
    changed = _difference(effect.newest.config, head.config).entries.keys()
    return any(each is not None for each in maps) or bool(changed - {MERGED_KEY})


def _config(effect: Effect, fields: FieldMessages) -> UpdateConfig:
    newest, head = effect.newest, effect.head
    before = {each.id: each for each in newest.fields}
    changed = {FieldId(each.id): each for each in fields if before.get(each.id) != each}
    return UpdateConfig(
        config=_difference(newest.config, head.config),
        table_metadata=_difference(newest.table_metadata, head.table_metadata),
        schema_metadata=_difference(
            _texts(newest.schema_metadata),
            None if head.schema_metadata is None else _texts(head.schema_metadata),
        ),
        field_metadata={
            number: _difference(_texts(before[number].metadata), _texts(each.metadata))
            for number, each in changed.items()
        },
    )


def _difference(old: Mapping[str, str], new: Mapping[str, str] | None) -> MapUpdate:
    if new is None:
        return MapUpdate()
    keys: Iterable[str] = sorted(old.keys() | new.keys())
    return MapUpdate({key: new.get(key) for key in keys if old.get(key) != new.get(key)})


def _texts(metadata: Mapping[str, bytes]) -> dict[str, str]:
    return {key: value.decode(errors="replace") for key, value in metadata.items()}


def _preserves_nullability(newest: ManifestHead, fields: FieldMessages) -> bool:
    """Whether rows written under the old schema have no null in fields that forbid it now."""
    strict = {each.id for each in newest.fields if not each.nullable}
    return all(each.nullable or each.id in strict for each in fields)

"""What a version that no single operation describes is recorded as.

No operation of the format says "all of this". The recorded one makes other writers keep off
everything that was touched; if several would, it is the one that keeps them off more. The rest
(configuration, metadata, indices beside rows) is in the version but not in the operation. All of
this is computed again on every attempt, and nothing is written.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lancewood.engine.commit import Composition
from lancewood.jobs.compose.files import FilesToCopy
from lancewood.jobs.runner import Runner
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FieldId, FragmentId, Version
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
from lancewood.rules.patching import make_patch
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

    @property
    def fields(self) -> FieldMessages:
        """The fields of the next version."""
        return self.newest.fields if self.head.fields is None else self.head.fields

    def composition(self) -> Composition:
        """The next version, and what it is recorded as."""
        live = frozenset(FieldId(column.id) for column in self.fields)
        loses_columns = any(column.id not in live for column in self.newest.fields)
        patch = make_patch(
            self.newest,
            self.head,
            add=self.added,
            changed=self.changed,
            remove=self.removed,
            live_fields=live if loses_columns else None,
        )
        return Composition(recorded_as(self), patch)


def recorded_as(effect: Effect) -> Operation:
    """The operation that the effect is recorded as."""
    newest, head, fields = effect.newest, effect.head, effect.fields
    metadata = newest.schema_metadata if head.schema_metadata is None else head.schema_metadata
    touches_rows = bool(effect.added or effect.changed or effect.removed)
    if effect.replaces_all:
        return Overwrite(_final_fragments(effect), fields, metadata)
    if not same_structure(newest.fields, fields):
        strict = {each.id for each in newest.fields if not each.nullable}
        preserves = all(each.nullable or each.id in strict for each in fields)
        if not touches_rows:
            return Project(fields, preserves)
        return Merge(_final_fragments(effect), fields, metadata, preserves)
    if touches_rows:
        return _rows(effect)
    if effect.new_indices or effect.removed_indices:
        return CreateIndex(effect.new_indices, effect.removed_indices)
    config = _difference(newest.config, head.config)
    maps = (head.fields, head.schema_metadata, head.table_metadata)
    if any(each is not None for each in maps) or config.entries.keys() - {MERGED_KEY}:
        return _config(effect, config)
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


def _config(effect: Effect, config: MapUpdate) -> UpdateConfig:
    newest, head = effect.newest, effect.head
    before = {each.id: each for each in newest.fields}
    changed = {FieldId(each.id): each for each in effect.fields if before.get(each.id) != each}
    return UpdateConfig(
        config=config,
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


class PlannedOnce(ABC):
    """A composer that plans once per version: the same plan is asked for repeatedly."""

    copies: FilesToCopy
    runner: Runner
    brought: int = 0
    """Number of files that were linked or copied."""
    _planned: tuple[Version, Composition] | None = None

    def plan(self, newest: Manifest) -> Composition:
        """Plan the version after ``newest`` without writing a file; ``compose`` brings the files
        that the plan needs."""
        if self._planned is None or self._planned[0] != newest.version:
            self._planned = newest.version, self._plan(newest)
        return self._planned[1]

    def compose(self, newest: Manifest) -> Composition:
        """The version after ``newest``, with all files that it needs in place."""
        composition = self.plan(newest)
        self.brought += self.copies.bring(self.runner)
        return composition

    @abstractmethod
    def _plan(self, newest: Manifest) -> Composition:
        """Plan the version after ``newest``, whether or not it was planned before."""


def columnless(fragments: Iterable[Fragment], fields: FieldMessages) -> Fragment | None:
    """The first of the fragments that has none of the columns in its files; None if all have
    some."""
    live = {column.id for column in fields}
    for fragment in fragments:
        if all(live.isdisjoint(file.fields) for file in fragment.message.files):
            return fragment
    return None

"""The numbers, base paths and operation that the work of a branch gets on its target.

If the target has handed out ids since the fork, everything created on the branch moves behind them,
all by the same distance. Ids from before the fork are the same on both sides, and so are row ids
that the branch handed out from a space of its own: those stay. Base ids of two roots
are unrelated, so places are compared by their uris; those unknown to the target are added.

No operation of the format says "all of this". The recorded one makes other writers keep off
everything that was touched; if several would, it is the one that keeps them off more. The rest
(configuration, metadata, indices beside rows) is in the version but not in the operation. All of
this is computed again on every attempt, and nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import TypeAlias

from pyroaring import BitMap

from lancewood.engine.location import Location, uri_of_base
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import UnsupportedError
from lancewood.format.layout import find_base
from lancewood.model.fragment import Fragment, Lineage
from lancewood.model.ids import BaseId, FieldId, FragmentId, Version
from lancewood.model.index import Index
from lancewood.model.lines import MERGED_KEY
from lancewood.model.manifest import Manifest, ManifestHead
from lancewood.model.rowids import RowVersions
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
from lancewood.rules.numbering import check_fragment_id, check_space, next_fragment_id
from lancewood.rules.three_way import same_structure


@dataclass(frozen=True)
class Numbering:
    """How numbers that the branch handed out change on the target."""

    first: ManifestHead
    """The branch as it began: its marks divide common ids from the branch's own."""
    head: ManifestHead
    added: tuple[FragmentId, ...]
    """New fragments of the branch that still exist."""
    fragment_shift: int
    row_shift: int
    fork: Version
    version: Version
    """The version that the work becomes."""
    row_mark: int
    """The mark of row ids after the work."""
    strays: dict[FragmentId, FragmentId] = field(default_factory=dict)
    """New fragments under ids that were reserved before the fork."""
    _stamped: dict[bytes, bytes] = field(default_factory=dict, repr=False)

    @property
    def is_shifted(self) -> bool:
        """Whether anything created on the branch gets another id."""
        return bool(self.fragment_shift or self.row_shift)

    @property
    def max_fragment_id(self) -> int | None:
        """The mark of fragment ids after the work; None if the branch handed out none."""
        last = next_fragment_id(self.head) - 1
        if last < next_fragment_id(self.first) and not self.strays:
            return None
        return check_fragment_id(max(last + self.fragment_shift, *self.strays.values(), 0))

    @property
    def next_row_id(self) -> int | None:
        """The mark of row ids after the work; None on a table without row ids."""
        return self.row_mark if self.head.has_stable_row_ids else None

    def fragment_id(self, number: FragmentId) -> FragmentId:
        """The id of a new fragment of the branch on the target."""
        if number in self.strays:
            return self.strays[number]
        return FragmentId(number + self.fragment_shift)

    def covered(self, fragments: BitMap) -> BitMap:
        """Ids on the target for fragments that an index covers, without removed ones, whose ids may
        mean others there."""
        if not self.fragment_shift:
            return fragments
        born = set(self.added)
        known = next_fragment_id(self.first)
        return BitMap(
            self.fragment_id(FragmentId(each)) if each in born else each
            for each in fragments
            if each in born or each < known
        )

    def lineage(self, fragment: Fragment) -> Fragment:
        """The fragment with the row ids and versions of the target."""
        if not self.head.has_stable_row_ids:
            return fragment
        ids = fragment.row_ids if self.row_shift else None
        message = table_pb2.DataFragment()
        message.CopyFrom(fragment.message)
        if ids is not None:
            moved = ids.shifted(self.first.next_row_id, self.row_shift)
            message.inline_row_ids = moved.encode()
        created = self._restamped(fragment, "created_at_versions")
        if created is not None:
            message.inline_created_at_versions = created
        updated = self._restamped(fragment, "last_updated_at_versions")
        if updated is not None:
            message.inline_last_updated_at_versions = updated
        return Fragment(message)

    def _restamped(self, fragment: Fragment, what: Lineage) -> bytes | None:
        """The new versions of the rows, cached: fragments of one write share the same bytes."""
        known = fragment.lineage(what)
        if known is None:
            return None
        if not isinstance(known, bytes):
            raise UnsupportedError(
                f"fragment {fragment.id} keeps its {what.replace('_', ' ')} outside the manifest, "
                "and cannot be published",
                fragment=fragment.id,
            )
        if known not in self._stamped:
            versions = RowVersions.decode(known, fragment.check_length)
            self._stamped[known] = versions.restamp(self.fork, self.version).encode()
        return self._stamped[known]


def number_work(
    first: ManifestHead,
    head: ManifestHead,
    added: Iterable[Fragment],
    newest: ManifestHead,
    fork: Version,
    least_shift: int = 0,
    row_mark: int | None = None,
) -> Numbering:
    """The numbering on ``newest``; fragments move by at least ``least_shift``, unless the target
    handed out no id. ``row_mark`` is where the target goes on if row ids stay; None if they are the
    same as the target's, and move."""
    row_shift = 0
    if row_mark is None:
        row_shift = newest.next_row_id - first.next_row_id
        row_mark = head.next_row_id + row_shift
        check_space(newest.next_row_id, row_mark)
    shift = next_fragment_id(newest) - next_fragment_id(first)
    shift = max(shift, least_shift) if shift else 0
    born = tuple(each.id for each in added)
    strays = [each for each in born if each < next_fragment_id(first)] if shift else []
    free = next_fragment_id(head) + shift
    return Numbering(
        first,
        head,
        born,
        shift,
        row_shift,
        fork,
        Version(newest.version + 1),
        row_mark,
        {each: FragmentId(free + at) for at, each in enumerate(strays)},
    )


class Own(Enum):
    """Places that need no base path."""

    TARGET = "target"
    BRANCH = "branch"


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A place that is neither the target's root nor the branch's."""

    uri: str
    is_dataset_root: bool
    base: table_pb2.BasePath


Spot: TypeAlias = Own | Elsewhere


@dataclass(frozen=True)
class Spots:
    """Where the base paths of a branch lead, as seen from its target."""

    head: Snapshot
    target: Location
    passed: frozenset[str] = frozenset()
    """Roots of other branches in between, which are treated like the branch's own."""

    @cached_property
    def _known(self) -> dict[BaseId, Spot]:
        self.head.location.settle(self.head.manifest)
        return {}

    def of(self, base_id: BaseId | None) -> Spot:
        """The place of a base id of the branch; None is the branch's root."""
        if base_id is None:
            return Own.BRANCH
        if base_id not in self._known:
            base = find_base(self.head.manifest.base_paths, base_id)
            self._known[base_id] = self._look(base)
        return self._known[base_id]

    def _look(self, base: table_pb2.BasePath) -> Spot:
        uri = self.head.location.base_store(base).uri
        if base.is_dataset_root and uri == self.target.uri:
            return Own.TARGET
        if base.is_dataset_root and (uri == self.head.location.uri or uri in self.passed):
            return Own.BRANCH
        return Elsewhere(uri, base.is_dataset_root, base)


class TargetBases:
    """The base paths of the target's next version."""

    def __init__(self, target: Location, newest: ManifestHead) -> None:
        self._target = target
        self._bases = list(newest.base_paths)
        self._old = len(self._bases)
        self._ids: dict[tuple[str, bool], BaseId] = {}
        self.is_referring = False
        """Whether another root of the same table is referred to."""
        target.settle(newest)

    @property
    def target_uri(self) -> str:
        return self._target.uri

    @property
    def added(self) -> tuple[table_pb2.BasePath, ...]:
        return tuple(self._bases[self._old :])

    @property
    def changed(self) -> tuple[table_pb2.BasePath, ...] | None:
        """All base paths; None if none was added."""
        return tuple(self._bases) if self.added else None

    def id_of(self, spot: Elsewhere) -> BaseId:
        """The id of a place, which is declared if necessary."""
        return self._declared(spot.uri, spot.is_dataset_root, spot.base)

    def id_of_root(self, uri: str, name: str) -> BaseId:
        """The id of another root of the same table."""
        self.is_referring = True
        base = table_pb2.BasePath(path=uri, is_dataset_root=True, name=name)
        return self._declared(uri, True, base)

    def uri_of(self, base_id: BaseId) -> str | None:
        """Where a base id leads; None if the target does not declare it."""
        for each in self._bases:
            if each.id == base_id:
                return uri_of_base(self._target, each)
        return None

    def declare_as(self, base_id: BaseId, uri: str, base: table_pb2.BasePath) -> bool:
        """Give a place this very id, even if it has another one too; False if the id leads to
        another place."""
        there = self.uri_of(base_id)
        if there is None:
            self._add(uri, base, base_id)
        return there is None or there == uri

    def declare(self, spot: Spot) -> None:
        if isinstance(spot, Elsewhere):
            self.id_of(spot)

    def _declared(self, uri: str, is_dataset_root: bool, base: table_pb2.BasePath) -> BaseId:
        key = uri, is_dataset_root
        if key not in self._ids:
            found = self._find(*key)
            self._ids[key] = self._add(uri, base, self._free_id()) if found is None else found
        return self._ids[key]

    def _find(self, uri: str, is_dataset_root: bool) -> BaseId | None:
        for each in self._bases:
            is_alike = each.is_dataset_root == is_dataset_root
            if is_alike and self._target.base_store(each).uri == uri:
                return BaseId(each.id)
        return None

    def _free_id(self) -> BaseId:
        return BaseId(max((each.id for each in self._bases), default=0) + 1)

    def _add(self, uri: str, base: table_pb2.BasePath, base_id: BaseId) -> BaseId:
        new = table_pb2.BasePath()
        new.CopyFrom(base)
        new.id = base_id
        new.path = uri
        if base.HasField("name") and base.name in {each.name for each in self._bases}:
            new.ClearField("name")
        self._bases.append(new)
        return base_id


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

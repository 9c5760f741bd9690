"""What is to be built, replaced and merged, so that an index is right afterwards.

New segments are built over fragments that no segment covers. For exact kinds that is not enough: a
segment that may hold one of their rows would answer for it. It is merged with the new ones, which
leaves out what it no longer covers, or, where merging keeps that, built anew together with them.
Reads records and manifests, no rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyroaring import BitMap

from lancewood.data.codec import StorageOptions, pylance_path
from lancewood.data.index_engine import (
    NUM_BITS,
    IndexModel,
    IndexSpec,
    VectorSpec,
    committed_model,
    told_options,
)
from lancewood.data.local_copy import readable_location
from lancewood.engine.rows import plan_scan
from lancewood.engine.schema import find_field
from lancewood.engine.snapshot import Snapshot, load_snapshot
from lancewood.errors import FormatError, InvalidInputError, NotFoundError, UnsupportedError
from lancewood.format.schema import to_arrow_field
from lancewood.jobs.index.choosing import usual_partitions
from lancewood.jobs.index.options import checked_options, options_of
from lancewood.jobs.index.records import FragmentRows, load_holdings, load_record
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FieldId, FragmentId
from lancewood.model.index import (
    INVERTED,
    SYSTEM_INDICES,
    Index,
    IndexKind,
    Merging,
    kind_of,
    metric_of,
    vector_details,
)
from lancewood.model.manifest import peek_fragment_id
from lancewood.rules.indices import changed_fields, with_relatives

UNREADABLE = (FormatError, NotFoundError, UnsupportedError)
"""What is raised for files of an index that are not as they should be."""
_FEW_TO_SCALE = 4096
"""Fewer vectors do not tell between which bounds scalar codes have to spread: they are built
together with the smallest segment."""


@dataclass(frozen=True)
class SegmentPlan:
    """New segments of one index, and what they replace."""

    spec: IndexSpec
    field: FieldId
    fragments: tuple[Fragment, ...]
    """The fragments from which segments are built."""
    removed: tuple[Index, ...] = ()
    merged: tuple[Index, ...] = ()
    """Removed segments that become one with what is built."""
    model_of: Index | None = None
    """A segment with the model to use; None: one is trained."""
    is_whole: bool = False
    """Built as one segment, by one task."""


@dataclass(frozen=True)
class Ground:
    """A state of a table, and the landed version of it that pylance can read.

    They differ in a transaction of a repository only. What that changed stays without an index
    until it has landed.
    """

    snapshot: Snapshot
    base: Snapshot

    @classmethod
    def of(cls, snapshot: Snapshot) -> Ground:
        """Raises InvalidInputError for a table that is not there before its transaction lands."""
        landed = snapshot.landed_version
        if landed is None:
            raise InvalidInputError(
                f"{snapshot.location.uri} comes into being with this transaction: index it "
                "afterwards"
            )
        if landed == snapshot.manifest.version:
            return cls(snapshot, snapshot)
        return cls(snapshot, load_snapshot(snapshot.location, version=landed))

    @cached_property
    def live(self) -> BitMap:
        """The ids of the fragments of the state."""
        manifest = self.snapshot.manifest
        return BitMap(peek_fragment_id(raw, manifest.name) for raw in manifest.message.fragments)

    @property
    def rows(self) -> int:
        """The rows of the state."""
        known = self.snapshot.manifest.row_count
        return plan_scan(self.snapshot).count() if known is None else known

    def readable(self, ids: BitMap, number: FieldId) -> Iterator[Fragment]:
        """The fragments with these ids of which pylance can read a column, in the order of the
        state."""
        manifest = self.snapshot.manifest
        if len(ids) == len(self.live):
            chosen: Iterable[Fragment] = manifest.fragments
        else:
            chosen = (manifest.fragment(FragmentId(each)) for each in ids)
        if self.base is self.snapshot:
            yield from chosen
            return
        fields = with_relatives(manifest.fields, (number,))
        then = self.base.manifest
        for now in chosen:
            if then.position_of(now.id) is not None:
                before = then.fragment(now.id)
                if has_same_values(before, now, fields):
                    yield before


def has_same_values(one: Fragment, other: Fragment, fields: frozenset[FieldId]) -> bool:
    """Whether two states of a fragment have the same values in some columns, deleted rows aside."""
    if one.message.overlays != other.message.overlays:
        return False
    if one.message.files == other.message.files:
        return True
    return fields.isdisjoint(changed_fields(one, other))


def find_segments(snapshot: Snapshot, name: str) -> tuple[Index, ...]:
    """The segments of an index; raises NotFoundError."""
    found = tuple(each for each in snapshot.manifest.indices if each.name == name)
    if found and name not in SYSTEM_INDICES:
        return found
    names = sorted({each.name for each in snapshot.manifest.indices} - {*SYSTEM_INDICES})
    others = f"it has {', '.join(map(repr, names))}" if names else "it has none"
    raise NotFoundError(
        f"index {name!r} not found in version {snapshot.manifest.version} of "
        f"{snapshot.location.uri}: {others}",
        index=name,
    )


def chosen_names(snapshot: Snapshot, name: str | None) -> list[str]:
    """The index of a name, or all that can be built here.

    Raises NotFoundError for a name that is not there, UnsupportedError for an index that pylance
    alone can build.
    """
    if name is None:
        found = dict.fromkeys(each.name for each in snapshot.manifest.indices)
        return [each for each in found if each not in SYSTEM_INDICES and is_known(snapshot, each)]
    if not is_known(snapshot, name):
        kind = find_segments(snapshot, name)[0].kind
        raise UnsupportedError(
            f"index {name!r} is of a kind that is not built here ({kind}): use pylance, or drop it",
            index=name,
        )
    return [name]


def is_known(snapshot: Snapshot, name: str) -> bool:
    """Whether the segments of an index are of one kind that is built here, on one column."""
    segments = find_segments(snapshot, name)
    kinds = {kind_of(each) for each in segments}
    return None not in kinds and len(kinds) == 1 and all(len(each.fields) == 1 for each in segments)


def plan_extension(ground: Ground, name: str) -> SegmentPlan | None:
    """What covers the rest of an index; None where nothing is left that could be covered."""
    segments = find_segments(ground.snapshot, name)
    number = segments[0].fields[0]
    covered = BitMap.union(BitMap(), *(each.fragments for each in segments))
    new = [*ground.readable(ground.live - covered, number)]
    if not new:
        return None
    kind, spec = _kind(segments[0]), spec_of(ground, segments)
    alive = [each for each in segments if each.fragments & ground.live]
    rows = FragmentRows(ground.snapshot, new)
    stale = [each for each in alive if kind.is_exact and may_hold(ground, each, rows)]
    is_small = spec.kind.codes == "SQ" and sum(each.physical_rows for each in new) < _FEW_TO_SCALE
    if spec.is_of_one_piece:
        stale = alive
    elif is_small:
        stale = alive and [min(alive, key=lambda each: len(each.fragments & ground.live))]
    plan = SegmentPlan(
        spec,
        number,
        tuple(new),
        removed=tuple(each for each in segments if each in stale or each not in alive),
        model_of=(alive or segments)[0] if kind.is_vector else None,
        is_whole=spec.is_of_one_piece or is_small,
    )
    if kind.is_exact and kind.merging is Merging.ALWAYS and _can_merge(ground, spec, stale):
        return replace(plan, merged=tuple(stale))
    again = BitMap.union(BitMap(), *(each.fragments for each in stale)) & ground.live
    fragments = sorted((*new, *ground.readable(again, number)), key=lambda each: each.id)
    return replace(plan, fragments=tuple(fragments))


def plan_optimization(ground: Ground, name: str) -> SegmentPlan | None:
    """What covers the rest of an index, and leaves one segment; None where that is so already."""
    segments = find_segments(ground.snapshot, name)
    plan = plan_extension(ground, name)
    if plan is None:
        spec = spec_of(ground, segments)
        model = segments[0] if spec.vectors is not None else None
        plan = SegmentPlan(spec, segments[0].fields[0], (), model_of=model)
    kept = [each for each in segments if each.fragments & ground.live and each not in plan.removed]
    if len(kept) < (1 if plan.fragments else 2):
        return plan if plan.fragments else None
    merged = (*plan.merged, *kept)
    if _can_merge(ground, plan.spec, merged):
        model = merged[0] if plan.spec.vectors is not None else None
        return replace(plan, removed=segments, merged=merged, model_of=model)
    fragments = tuple(ground.readable(ground.live, plan.field))
    is_whole = plan.spec.is_of_one_piece or plan.spec.kind.merging is Merging.NEVER
    plan = replace(plan, fragments=fragments, removed=segments, merged=(), is_whole=is_whole)
    return plan if fragments else None


def _can_merge(ground: Ground, spec: IndexSpec, kept: Sequence[Index]) -> bool:
    """Whether segments can become one with new ones, and the answers stay right."""
    kind = spec.kind
    if kind.merging not in (Merging.ALWAYS, Merging.CLEAN):
        return False
    is_sought_here = kind == INVERTED or kind.is_vector
    if is_sought_here and any(each.base_id is not None for each in kept):
        return False  # pylance 14 looks for files of these kinds in the own root only
    if ground.base is not ground.snapshot:
        before = {each.uuid: each.fragments for each in ground.base.manifest.indices}
        if any(before.get(each.uuid) != each.fragments for each in kept):
            return False
    if kind.is_vector:
        return _have_one_model(ground, spec, kept)
    if kind.merging is Merging.ALWAYS:
        return True
    rows = FragmentRows(ground.snapshot, ground.snapshot.manifest.fragments)
    return not any(may_hold(ground, each, rows, but=each.fragments) for each in kept)


def _have_one_model(ground: Ground, spec: IndexSpec, segments: Sequence[Index]) -> bool:
    """Whether segments put vectors into the same partitions; one that cannot be read does not."""
    try:
        first, *others = (load_model(ground.snapshot, spec, each) for each in segments)
    except UNREADABLE:
        return False
    return all(first.centroids.equals(each.centroids) for each in others)


def load_model(snapshot: Snapshot, spec: IndexSpec, segment: Index) -> IndexModel:
    """The model that a segment was built with; raises what is UNREADABLE, or StorageError."""
    return committed_model(spec, *_files_of(snapshot, segment))


def _files_of(snapshot: Snapshot, segment: Index) -> tuple[str, StorageOptions]:
    """Where the codec finds the files of a segment, and with which options."""
    location, head = snapshot.location, snapshot.manifest
    store, directory = location.index_directory(head, segment)
    return readable_location(store, directory), location.options_at(head, segment.base_id)


def may_hold(
    ground: Ground, segment: Index, rows: FragmentRows, *, but: BitMap | None = None
) -> bool:
    """Whether a segment may hold one of the rows, apart from those in some fragments."""
    holdings = load_holdings(ground.snapshot, segment)
    return holdings is None or rows.are_held(holdings, BitMap() if but is None else but)


def _kind(segment: Index) -> IndexKind:
    kind = kind_of(segment)
    assert kind is not None, "only known kinds are planned"
    return kind


def spec_of(ground: Ground, segments: Sequence[Index]) -> IndexSpec:
    """How an index of a table was built: new segments are built alike."""
    snapshot, first, kind = ground.snapshot, segments[0], _kind(segments[0])
    chain = find_field(snapshot.schema, first.fields[0])
    if chain is None:
        raise FormatError(
            f"index {first.name!r} is on field {first.fields[0]}, which is not in the schema of "
            f"version {snapshot.manifest.version} of {snapshot.location.uri}: drop the index",
            index=first.name,
        )
    vectors = _vectors(ground, first, to_arrow_field(chain[-1]).type) if kind.is_vector else None
    path = pylance_path(each.name for each in chain)
    spec = IndexSpec(first.name, path, kind, {}, vectors)
    return replace(spec, options=_told_options(snapshot, first, spec))


def _vectors(ground: Ground, segment: Index, arrow: pa.DataType) -> VectorSpec:
    details = vector_details(segment)
    product = details.product.num_sub_vectors if details.HasField("product") else None
    partitions = usual_partitions(_kind(segment), ground.rows)
    return VectorSpec(arrow.list_size, metric_of(segment), partitions, product)


def _told_options(snapshot: Snapshot, segment: Index, spec: IndexSpec) -> Mapping[str, Any]:
    """The options that a segment was built with, of those that its kind has."""
    known = options_of(spec.kind)
    record = load_record(snapshot, segment)
    if record is None and spec.vectors is None:
        told = told_options(spec.kind, *_files_of(snapshot, segment))
        return {key: value for key, value in told.items() if key in known}
    told = _told_of_vectors(segment) if record is None else record.options
    try:
        return checked_options(spec.kind, {each: told[each] for each in told if each in known})
    except InvalidInputError as cause:
        raise FormatError(
            f"index {segment.name!r} of {snapshot.location.uri} cannot have been built as it says "
            f"({cause}): build it anew",
            index=segment.name,
        ) from cause


def _told_of_vectors(segment: Index) -> Mapping[str, Any]:
    details = vector_details(segment)
    options: dict[str, Any] = {}
    for codes in (details.product, details.rabit):
        if codes.num_bits:
            options[NUM_BITS] = codes.num_bits
    if details.HasField("graph"):
        graph = details.graph
        told = {"m": graph.max_connections, "ef_construction": graph.construction_ef}
        told["max_level"] = graph.max_level
        options |= {key: value for key, value in told.items() if value}
    return options

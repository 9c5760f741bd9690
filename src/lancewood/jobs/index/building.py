"""Building segments in tasks, and committing them once.

Every task builds one segment over neighbouring fragments; where the kind allows it they become one
segment, in a task again. What was built is kept from one attempt to the next: after a compaction by
another writer only the segments of the fragments that it changed are built again. Directories that
no version refers to are removed at the end; if it is unknown whether the commit landed they stay.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from pyroaring import BitMap

from lancewood.data.index_engine import (
    DatasetAddress,
    IndexModel,
    IndexSpec,
    build_segment,
    merge_segments,
    train_model,
)
from lancewood.engine.commit import check_in_history
from lancewood.engine.location import NewFile
from lancewood.engine.snapshot import Snapshot, dataset_address
from lancewood.errors import CommitUnknownError, LancewoodError, StorageError
from lancewood.format.layout import INDICES_DIR
from lancewood.jobs.counts import IndexCounts
from lancewood.jobs.index.planning import (
    UNREADABLE,
    Ground,
    SegmentPlan,
    has_same_values,
    load_model,
    may_hold,
)
from lancewood.jobs.index.records import (
    FragmentRows,
    Holdings,
    Record,
    holdings_of,
    leave_record,
    load_record,
)
from lancewood.jobs.job import (
    TASKS_PER_SLOT,
    Change,
    CommitOptions,
    execute,
    pack_fragments,
    stored_bytes,
)
from lancewood.jobs.runner import Runner, for_small_work
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FragmentId
from lancewood.model.index import ZONEMAP, Index, Merging
from lancewood.model.transaction import CreateIndex
from lancewood.rules.indices import check_no_fragment_reuse, with_relatives

LEAST_BYTES = 4 << 20
"""Bytes in the data files of a task: less is not worth a segment of its own."""
ENOUGH_BYTES = 1 << 30
"""A slot with more has a few tasks: one that fails is built again as a whole."""
SMALL_BYTES = 4 << 20
"""Bytes of segments that are made one in less time than it takes to begin a job."""
SMALL_ZONED_BYTES = 64 << 20
"""Bytes of data files whose least and greatest values are found before a job has begun."""

T = TypeVar("T")
Plans = Callable[[Ground], Sequence[SegmentPlan]]


@dataclass(frozen=True)
class BuiltSegment:
    """The result of a task: a segment that nothing refers to yet."""

    segment: Index
    files: tuple[NewFile, ...]


@dataclass(frozen=True)
class _Part:
    """A segment and what it was built from."""

    fragments: tuple[Fragment, ...]
    built: BuiltSegment


@dataclass(frozen=True)
class _Bench:
    """The part of a task that all tasks of building segments share."""

    base: Snapshot
    """The version that is indexed; it may be bare."""
    address: DatasetAddress
    specs: Mapping[str, IndexSpec]
    models: Mapping[str, IndexModel] = field(default_factory=dict)


@dataclass(frozen=True)
class _Task:
    """Some fragments for the index of a name."""

    name: str
    ids: tuple[FragmentId, ...]
    fragments: tuple[Fragment, ...] = ()
    """The fragments of ``ids``; only for kinds of which it matters which rows they hold."""


@dataclass(frozen=True)
class _ModelTask:
    """An index that needs a model."""

    name: str
    rows: int
    """Number of rows from which the model learns."""
    model_of: Index | None
    """A segment that has it; None: it is trained."""


def run_plans(
    snapshot: Snapshot, plans: Plans, runner: Runner, commit_options: CommitOptions
) -> tuple[Snapshot, IndexCounts]:
    """The version after what is planned for it, or for a newer one where others were faster."""
    building = _Building(plans, runner, commit_options)
    try:
        after, counts = execute(snapshot, building.prepare, commit_options)
    except CommitUnknownError:
        raise
    except LancewoodError:
        building.discard(())
        raise
    building.discard(each.message.uuid.uuid for each in after.manifest.indices)
    return after, counts


def counted(plans: Sequence[SegmentPlan], built: Sequence[Index] = ()) -> IndexCounts:
    """What plans do; without what was built, as far as they know."""
    fragments = {each.id: each for plan in plans for each in plan.fragments}
    return IndexCounts(
        names=tuple(each.spec.name for each in plans),
        segments_added=len(built) or len(plans),
        segments_removed=sum(len(each.removed) for each in plans),
        fragments=len(fragments),
        rows=_rows(fragments.values()),
        bytes=sum(file.size for each in built for file in each.files),
    )


def _rows(fragments: Iterable[Fragment]) -> int:
    return sum(each.physical_rows - each.num_deleted_rows for each in fragments)


def check_indexable(snapshot: Snapshot) -> None:
    """Raise UnsupportedError, before any work is done, where no index can be added, and
    InvalidInputError for a version that nothing can follow."""
    snapshot.check_writable()
    check_in_history(snapshot.location, snapshot.manifest)
    dataset_address(snapshot)
    check_no_fragment_reuse(snapshot.manifest.indices, "a new index")


class _Building:
    """A change of indices under way, with what was built for it so far."""

    def __init__(self, plans: Plans, runner: Runner, commit_options: CommitOptions) -> None:
        self._plans = plans
        self._runner = runner
        self._commit_options = commit_options
        self._planned: dict[str, SegmentPlan] = {}
        self._models: dict[str, IndexModel] = {}
        self._parts: dict[str, list[_Part]] = {}
        self._made: list[BuiltSegment] = []
        self._where: Snapshot | None = None

    def prepare(self, snapshot: Snapshot) -> Change[IndexCounts]:
        """Build what one version needs."""
        try:
            return self._prepared(snapshot)
        except BaseException:
            self.discard(())  # no commit that names these files has landed
            raise

    def discard(self, kept: Iterable[bytes]) -> None:
        """Remove the directories of all segments that were built, except some by their uuids."""
        if self._where is None:
            return
        stay = {*kept}
        gone = [each for each in self._made if each.segment.message.uuid.uuid not in stay]
        discard_segments(self._where, gone)
        self._made = [each for each in self._made if each not in gone]

    def _prepared(self, snapshot: Snapshot) -> Change[IndexCounts]:
        check_indexable(snapshot)
        self._where = snapshot
        ground = Ground.of(snapshot)
        plans = [self._as_before(each) for each in self._plans(ground)]
        if not plans:
            return Change(None, IndexCounts())
        self._commit_options.policy.publisher.check_trust(snapshot.location.store)
        specs = {each.spec.name: each.spec for each in plans}
        bench = _Bench(ground.base.bare(), dataset_address(ground.base), specs)
        bench = replace(bench, models=self._found_models(bench, plans, ground.rows))
        self._build(bench, plans, ground)
        new = [self._finished(bench, ground, each) for each in plans]
        built = [each for some in new for each in some]
        removed = tuple(each for plan in plans for each in plan.removed)
        return Change(CreateIndex(tuple(built), removed), counted(plans, built))

    def _as_before(self, plan: SegmentPlan) -> SegmentPlan:
        """The plan with the settings of an earlier attempt, if what that built can be kept."""
        name, known = plan.spec.name, self._planned.get(plan.spec.name)
        if known is not None and _is_alike(known, plan):
            return replace(plan, spec=known.spec)
        self._parts.pop(name, None)
        self._models.pop(name, None)
        self._planned[name] = plan
        return plan

    def _found_models(
        self, bench: _Bench, plans: Sequence[SegmentPlan], rows: int
    ) -> Mapping[str, IndexModel]:
        """The model of each index on vectors: that of an earlier attempt, of the index as it is,
        or one that is trained now."""
        wanted = [
            _ModelTask(each.spec.name, rows, each.model_of)
            for each in plans
            if each.spec.vectors is not None
            and each.fragments
            and each.spec.name not in self._models
        ]
        if not wanted:
            return dict(self._models)
        found = self._runner.run(partial(find_model, bench), wanted, what="training")
        for task, each in zip(wanted, found, strict=True):
            if each.why is not None:
                warnings.warn(
                    f"the model of index {task.name!r} cannot be read, and new segments have "
                    f"one of their own: {each.why}",
                    stacklevel=2,
                )
            self._models[task.name] = each.model
        return dict(self._models)

    def _build(self, bench: _Bench, plans: Sequence[SegmentPlan], ground: Ground) -> None:
        """Build a segment for all fragments of the plans that no kept one has."""
        runner = for_small_work(self._runner) if _are_quick(plans) else self._runner
        groups: list[tuple[SegmentPlan, tuple[Fragment, ...]]] = []
        for plan in plans:
            name = plan.spec.name
            kept = self._parts[name] = [*self._still_right(plan, ground)]
            done = BitMap(each.id for part in kept for each in part.fragments)
            left = [each for each in plan.fragments if each.id not in done]
            groups += [(plan, each) for each in _packed(left, plan, runner)]
        tasks = [_task(*each) for each in groups]
        built = self._made_by(runner, partial(build_part, bench), tasks, what="indexing")
        for (plan, fragments), each in zip(groups, built, strict=True):
            self._parts[plan.spec.name].append(_Part(fragments, each))

    def _made_by(
        self, runner: Runner, work: Callable[[T], BuiltSegment], tasks: Sequence[T], *, what: str
    ) -> Iterator[BuiltSegment]:
        """Build segments on ``runner``, in task order, noting all that must go if one of them
        fails."""
        for each in runner.run(work, tasks, what=what, leftover=self._made.append):
            self._made.append(each)
            yield each

    def _still_right(self, plan: SegmentPlan, ground: Ground) -> Iterator[_Part]:
        """What an earlier attempt built and this plan needs as it is."""
        wanted = {each.id: each for each in plan.fragments}
        fields = with_relatives(ground.snapshot.manifest.fields, (plan.field,))
        for part in self._parts.get(plan.spec.name, ()):
            now = [wanted.get(each.id) for each in part.fragments]
            if all(
                other is not None and has_same_values(one, other, fields)
                for one, other in zip(part.fragments, now, strict=True)
            ) and not self._has_moved_rows(part, plan, ground):
                yield part

    def _has_moved_rows(self, part: _Part, plan: SegmentPlan, ground: Ground) -> bool:
        """Whether others may have moved rows of a part to fragments that were not there when it was
        built, and merging it would keep what they were."""
        if plan.spec.kind.merging is not Merging.CLEAN:
            return False
        known = BitMap(each.id for each in self._planned[plan.spec.name].fragments)
        known |= BitMap(each.id for each in part.fragments)
        added = [each for each in plan.fragments if each.id not in known]
        return may_hold(ground, part.built.segment, FragmentRows(ground.snapshot, added))

    def _finished(self, bench: _Bench, ground: Ground, plan: SegmentPlan) -> list[Index]:
        """The segments to commit."""
        parts = self._parts[plan.spec.name]
        version = ground.base.manifest.version
        old = [each.covering(each.fragments & ground.live) for each in plan.merged]
        sources = [*old, *(each.built.segment for each in parts)]
        is_merged = plan.spec.kind.merging is not Merging.NEVER and len(sources) > 1
        if not is_merged:
            return [
                _covering(each.built.segment, each.fragments).built_at(version) for each in parts
            ]
        work = partial(merge_parts, bench, plan.spec.name)
        runner = for_small_work(self._runner) if _are_small(sources) else self._runner
        (made,) = self._made_by(runner, work, [tuple(sources)], what="merging")
        own = BitMap(each.id for each in plan.fragments)
        covered = BitMap.union(own, *(each.fragments for each in old))
        return [made.segment.covering(covered).built_at(version)]


def _are_quick(plans: Sequence[SegmentPlan]) -> bool:
    """Whether what they build is sure to take less time than it takes to begin a job."""
    if any(each.spec.kind != ZONEMAP for each in plans):
        return False
    fragments = [each for plan in plans for each in plan.fragments]
    sizes = [file.file_size_bytes for each in fragments for file in each.message.files]
    return all(sizes) and sum(sizes) < SMALL_ZONED_BYTES


def _are_small(segments: Sequence[Index]) -> bool:
    """Whether segments are small by the sizes of files that they record."""
    sizes = [sum(file.size for file in each.files) for each in segments]
    return all(sizes) and sum(sizes) < SMALL_BYTES


def _covering(segment: Index, fragments: Sequence[Fragment]) -> Index:
    return segment.covering(BitMap(each.id for each in fragments))


def _task(plan: SegmentPlan, fragments: tuple[Fragment, ...]) -> _Task:
    ids = tuple(each.id for each in fragments)
    return _Task(plan.spec.name, ids, fragments if plan.spec.kind.is_exact else ())


def _is_alike(one: SegmentPlan, other: SegmentPlan) -> bool:
    """Whether what was built for one plan is right for another: with vectors the model is the
    same, and the index differs in the number of its partitions at most."""
    if one.spec.vectors is None or other.spec.vectors is None:
        return one.spec == other.spec
    models = [each.model_of and each.model_of.uuid for each in (one, other)]
    vectors = replace(other.spec.vectors, partitions=one.spec.vectors.partitions)
    return models[0] == models[1] and one.spec == replace(other.spec, vectors=vectors)


def _packed(
    fragments: Sequence[Fragment], plan: SegmentPlan, runner: Runner
) -> list[tuple[Fragment, ...]]:
    """The fragments of each task: one for each slot, since all that are built have to be merged,
    and if they are large a few, unless they stay apart and all of them are searched."""
    if plan.is_whole:
        return [tuple(fragments)] if fragments else []
    is_apart = plan.spec.kind.merging is Merging.NEVER
    is_large = stored_bytes(fragments) >= runner.slots * ENOUGH_BYTES
    per_slot = TASKS_PER_SLOT if is_large and not is_apart else 1
    return [*pack_fragments(fragments, runner.slots, per_slot=per_slot, least_bytes=LEAST_BYTES)]


@dataclass(frozen=True)
class FoundModel:
    """The model of an index, and why it is a new one although the index has one."""

    model: IndexModel
    why: str | None = None


def find_model(bench: _Bench, task: _ModelTask) -> FoundModel:
    """The task: read the model of an index, or train one."""
    spec, why = bench.specs[task.name], None
    if task.model_of is not None:
        try:
            return FoundModel(load_model(bench.base, spec, task.model_of))
        except UNREADABLE as error:
            why = error.message
    return FoundModel(train_model(bench.address, spec, task.rows), why)


def build_part(bench: _Bench, task: _Task) -> BuiltSegment:
    """The task: build a segment over some fragments, and leave a record of them."""
    spec = bench.specs[task.name]
    made = build_segment(bench.address, spec, bench.models.get(task.name), task.ids)

    def record() -> Record:
        if made.dataset_version != bench.address.version:
            raise StorageError(
                f"pylance built index {made.name!r} at version {made.dataset_version}, and "
                f"{bench.address} was asked for",
                index=made.name,
            )
        if not task.fragments:
            return Record(Holdings(BitMap(task.ids)), spec.options)
        return Record(holdings_of(bench.base, made, task.fragments), spec.options)

    return _recorded(bench, made, record)


def merge_parts(bench: _Bench, name: str, sources: Sequence[Index]) -> BuiltSegment:
    """The task: make one segment of several."""
    made = merge_segments(bench.address, bench.specs[name], sources)
    return _recorded(bench, made, lambda: _united(bench, sources))


def _united(bench: _Bench, sources: Sequence[Index]) -> Record | None:
    """The record of a segment that holds what several hold; None if one of them has none."""
    found = [load_record(bench.base, each) for each in sources]
    known = [each for each in found if each is not None]
    if len(known) != len(found):
        return None
    first, *others = known
    holdings = first.holdings.united(each.holdings for each in others)
    return Record(holdings, bench.specs[sources[-1].name].options)


def _recorded(bench: _Bench, made: Index, record: Callable[[], Record | None]) -> BuiltSegment:
    """A new segment with its record, durable."""
    base = bench.base
    try:
        found = record()
        if found is not None:
            made = leave_record(base, made, found)
        store, directory = base.location.index_directory(base.manifest, made)
        keys = [each.key for each in store.list(directory)]
        store.sync(keys)
    except BaseException:
        discard_segments(base, [BuiltSegment(made, ())])
        raise
    return BuiltSegment(made, tuple(map(NewFile, keys)))


def discard_segments(snapshot: Snapshot, built: Sequence[BuiltSegment]) -> None:
    """Remove the directories of segments that nothing refers to, best effort."""
    store = snapshot.location.store
    for each in built:
        directory = f"{INDICES_DIR}/{each.segment.uuid}"
        with suppress(StorageError):
            keys = [file.key for file in each.files] or [one.key for one in store.list(directory)]
            snapshot.discard(map(NewFile, keys))
            store.prune(directory)

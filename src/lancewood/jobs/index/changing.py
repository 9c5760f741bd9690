"""The changes of indices: create, extend, optimize, drop."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from lancewood.engine.snapshot import Snapshot
from lancewood.errors import InvalidInputError
from lancewood.jobs.counts import IndexCounts
from lancewood.jobs.index.building import check_indexable, counted, run_plans
from lancewood.jobs.index.choosing import IndexRequest
from lancewood.jobs.index.planning import (
    UNREADABLE,
    Ground,
    SegmentPlan,
    chosen_names,
    find_segments,
    is_known,
    plan_extension,
    plan_optimization,
    spec_of,
)
from lancewood.jobs.job import Change, CommitOptions, Job, LightJob
from lancewood.jobs.runner import Runner
from lancewood.model.index import kind_name
from lancewood.model.transaction import CreateIndex


class IndexJob(Job[IndexCounts]):
    """A change of indices for which segments are built."""

    runner: Runner

    @abstractmethod
    def plans(self, ground: Ground) -> Sequence[SegmentPlan]:
        """What is to be built; none where nothing is to be done."""

    def plan(self, snapshot: Snapshot) -> IndexCounts:
        check_indexable(snapshot)
        found = self.plans(Ground.of(snapshot))
        return counted(found) if found else IndexCounts()

    def run(
        self, snapshot: Snapshot, commit_options: CommitOptions
    ) -> tuple[Snapshot, IndexCounts]:
        return run_plans(snapshot, self.plans, self.runner, commit_options)


@dataclass(frozen=True)
class BuildIndex(IndexJob):
    """A new index over all fragments."""

    request: IndexRequest
    runner: Runner = field(repr=False)

    def plans(self, ground: Ground) -> Sequence[SegmentPlan]:
        snapshot, rows = ground.snapshot, ground.rows
        spec, number = self._request(ground).spec(snapshot, rows)
        fragments = tuple(ground.readable(ground.live, number))
        if not rows or not fragments:
            why = "has no rows" if not rows else "has only rows that are not committed yet"
            raise InvalidInputError(
                f"{snapshot.location.uri} {why}, and index {spec.name!r} is built of some: write "
                "them first; what comes later, extend adds",
                index=spec.name,
                rows_needed=1,
            )
        old = tuple(each for each in snapshot.manifest.indices if each.name == spec.name)
        whole = spec.is_of_one_piece
        return [SegmentPlan(spec, number, fragments, removed=old, is_whole=whole)]

    def _request(self, ground: Ground) -> IndexRequest:
        """What is asked for; an index that is built anew without a kind stays as it was."""
        request, snapshot = self.request, ground.snapshot
        segments = request.replaced(snapshot) if request.kind is None else []
        if not segments or not is_known(snapshot, segments[0].name):
            return request
        try:
            return request.like(spec_of(ground, segments))
        except UNREADABLE:  # that may be why it is built anew
            return replace(request, kind=kind_name(segments[0]))


@dataclass(frozen=True)
class CoverRest(IndexJob):
    """Segments over what no segment covers, of one index or of all."""

    name: str | None
    runner: Runner = field(repr=False)
    is_optimized: bool = False
    """Whether one segment is to be left of each index."""

    def plans(self, ground: Ground) -> Sequence[SegmentPlan]:
        plan = plan_optimization if self.is_optimized else plan_extension
        found = (plan(ground, each) for each in chosen_names(ground.snapshot, self.name))
        return [each for each in found if each is not None]


@dataclass(frozen=True)
class DropIndex(LightJob[IndexCounts]):
    """An index that is to go; its files stay for older versions until a cleanup."""

    name: str

    def prepare(self, snapshot: Snapshot) -> Change[IndexCounts]:
        segments = find_segments(snapshot, self.name)
        counts = IndexCounts(names=(self.name,), segments_removed=len(segments))
        return Change(CreateIndex((), segments), counts)

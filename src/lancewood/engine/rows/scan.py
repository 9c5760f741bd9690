"""Scan plans: which fragments, which of their rows, in which tasks.

A plan is checked when it is made and can be read any number of times; rows come out in table order.
How one fragment is read is up to ``fragment_scan``. Where an index tells which rows can pass, only
those are read (``candidate_scan``), and the fragments that it does not cover.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import groupby
from typing import Any, TypeVar

import pyarrow as pa

from lancewood.data.wanted import WantedColumns
from lancewood.engine.base import WORKERS, Task, as_list, check_number, in_order
from lancewood.engine.location import Bases, ids_to_read
from lancewood.engine.lookup import Offsets, index_section
from lancewood.engine.rows.candidate_scan import CandidateScan
from lancewood.engine.rows.fragment_scan import FragmentScan
from lancewood.engine.rows.group_scan import GroupScan, LateGroupScan
from lancewood.engine.rows.narrowing import Cut, Narrowed, clipped, narrow, why_not
from lancewood.engine.rows.nearness import FileRoots, chosen_roots_or_none, file_roots_text
from lancewood.engine.rows.prune import Pruner
from lancewood.engine.rows.row_shape import Fetching, RowShape
from lancewood.engine.schema import Columns, Parameters, Projection, project, row_schema
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import InvalidInputError
from lancewood.expr import Predicate, parse_predicate
from lancewood.model.fragment import Fragment
from lancewood.model.ids import BaseId, FragmentId
from lancewood.model.manifest import decode_fragment

_MOST_ROWS = (1 << 63) - 1
_MOST_BATCH_ROWS = 1 << 20
_MOST_KEPT = 64
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class ScanRequest:
    """What a caller asks a scan for."""

    columns: Columns = None
    where: str | None = None
    parameters: Parameters = field(default=None, repr=False)
    predicate: Predicate | None = None
    """The condition where no text is given for it."""
    limit: int | None = None
    offset: int = 0
    batch_rows: int | None = None
    with_row_id: bool = False
    with_row_address: bool = False
    fragments: Sequence[Fragment] | None = field(default=None, repr=False)
    """Only these fragments; None means all."""
    spans: Mapping[FragmentId, tuple[int, int]] = field(default_factory=dict, repr=False)
    """The physical rows to read of these fragments, from the first to before the second."""
    rows: Mapping[FragmentId, Offsets] = field(default_factory=dict, repr=False)
    """Single physical rows to read of these fragments, rising."""
    base_ids: frozenset[BaseId | None] | None = None
    """Only fragments that can be read from these roots alone; None means all."""
    fetching: Fetching = Fetching.AUTO
    use_indices: bool = True
    """Whether indices may tell which rows can pass."""


@dataclass(frozen=True)
class _Slice:
    """Rows of one fragment: live rows ``skip`` to ``skip + count`` (None: to the end)."""

    fragment: Fragment
    skip: int = 0
    count: int | None = None


@dataclass(frozen=True)
class ScanPlan:
    """A checked request against one snapshot. Making it reads no data file."""

    snapshot: Snapshot
    request: ScanRequest

    def __getstate__(self) -> dict[str, Any]:
        """The state without what can be derived again."""
        return {"snapshot": self.snapshot, "request": self.request}

    def __post_init__(self) -> None:
        _ = self.projection, self.predicate  # wrong names and filters raise now

    @cached_property
    def projection(self) -> Projection:
        return project(
            self.snapshot.schema,
            self.request.columns,
            with_row_id=self.request.with_row_id,
            with_row_address=self.request.with_row_address,
            parameters=self.request.parameters,
            rows=self._row_schema if isinstance(self.request.columns, Mapping) else None,
        )

    @cached_property
    def predicate(self) -> Predicate | None:
        where, parameters = self.request.where, self.request.parameters
        if where is None:
            return self.request.predicate
        if parameters is not None:
            return parse_predicate(where, self._row_schema, parameters)
        known = _derived(self.snapshot, "predicates", dict[str, Predicate])
        found = known.get(where)
        if found is None:
            if len(known) >= _MOST_KEPT:
                known.clear()
            found = known[where] = parse_predicate(where, self._row_schema)
        return found

    @property
    def schema(self) -> pa.Schema:
        """The schema of the batches."""
        return self._shape.schema

    @property
    def fragments(self) -> Sequence[Fragment]:
        """The fragments that the request covers, whether they can match or not."""
        chosen = self._chosen
        return self.snapshot.manifest.fragments if chosen is None else chosen

    @property
    def wanted(self) -> WantedColumns:
        """The stored columns that are returned or that the filter reads."""
        return self._shape.together

    def batches(self, workers: int = WORKERS) -> Iterator[pa.RecordBatch]:
        """The rows, without empty batches. With one worker no thread is started."""
        limit, offset = self.request.limit, self.request.offset
        if limit == 0:
            return
        slices = self._slices()
        skip, left = (offset, limit) if slices is None else (0, None)
        tasks = self._tasks() if slices is None else map(self._task, slices)
        for batch in in_order(tasks, workers=workers):
            if skip >= batch.num_rows:
                skip -= batch.num_rows
                continue
            batch, skip = batch.slice(skip), 0
            if left is not None:
                batch = batch.slice(0, left)
                left -= batch.num_rows
            yield batch
            if left == 0:
                return

    def _task(self, part: _Slice) -> Task[pa.RecordBatch]:
        return partial(FragmentScan(self._shape, part.fragment).batches, part.skip, part.count)

    def _tasks(self) -> Iterator[Task[pa.RecordBatch]]:
        """All fragments that can match: small ones together, others one by one."""
        is_late = self.predicate is not None and self._shape.late.schema.fields
        scan = LateGroupScan(self._shape) if is_late else GroupScan(self._shape)
        for group, cut in self._groups(scan):
            if len(group) == 1:
                yield from (each.batches for each in self._scans_of(group[0], cut))
            else:
                yield partial(scan.batches, group)

    def _counting(self) -> Iterator[Task[int]]:
        scan = GroupScan(self._shape, self._shape.filtering)
        for group, cut in self._groups(scan):
            if len(group) == 1:
                yield from (each.count for each in self._scans_of(group[0], cut))
            else:
                yield partial(scan.count, group)

    def _groups(self, scan: GroupScan) -> Iterator[tuple[tuple[Fragment, ...], Cut | None]]:
        """The fragments in groups; one of which only some rows are read is by itself, with them."""
        for is_cut, members in groupby(self._parts(), lambda part: part[1] is not None):
            if is_cut:
                yield from (((fragment,), cut) for fragment, cut in members)
            else:
                yield from ((each, None) for each in scan.groups(each for each, _ in members))

    def _scans_of(
        self, fragment: Fragment, cut: Cut | None
    ) -> Iterator[FragmentScan | CandidateScan]:
        """What reads the rows of a fragment, or those of a cut."""
        if cut is None:
            yield FragmentScan(self._shape, fragment)
        elif isinstance(cut, tuple):
            yield from (FragmentScan(self._shape, fragment, each) for each in cut)
        else:
            yield CandidateScan(self._shape, fragment, cut)

    def count(self, workers: int = WORKERS) -> int:
        """How many rows the scan returns; from the manifest alone where that is enough.

        With a filter, only its columns are read.
        """
        offset, limit = self.request.offset, self.request.limit
        if self.predicate is not None:
            total = sum(in_order(self._counting(), workers=workers))
        elif self._counts is not None:
            total = sum(self._counts)
        else:
            asked = self.request
            request = ScanRequest(
                columns=(), fragments=self._chosen, spans=asked.spans, rows=asked.rows
            )
            rows = ScanPlan(self.snapshot, request).batches(workers)
            total = sum(each.num_rows for each in rows)
        rest = max(total - offset, 0)
        return rest if limit is None else min(rest, limit)

    def explain(self) -> str:
        """What will be read, as text, and on further lines why indices are not used. Looks at every
        fragment, and into indices; opens no data file."""
        slices = self._slices()
        read = sum(1 for _ in self.matching()) if slices is None else len(slices)
        chosen = self.request.fragments
        total = self.snapshot.manifest.fragment_count if chosen is None else len(chosen)
        file_roots = self._file_roots
        besides = "" if file_roots is None else file_roots.partly_near_text(self._named)
        text = self.describe(f"{read} of {total} fragments{besides}, ")
        lines = [f"index {each}" for each in self.explain_indices()]
        if self._narrowed is not None:
            text += f", {lines.pop(0)}"
        return "\n".join([text, *lines])

    def explain_indices(self) -> Iterator[str]:
        """A line on the indices that are used, if any, and one on each other index on a column of
        the filter: why it is not."""
        if self._narrowed is not None:
            yield self._narrowed.explain(self._chosen)
        if self.predicate is not None and self._asks_indices:
            yield from why_not(self.snapshot, self.predicate)

    def describe(self, fragments: str = "") -> str:
        """What will be read, as text, without looking at any fragment."""
        snapshot, shape = self.snapshot, self._shape
        names = shape.together.schema.names
        text = (
            f"{snapshot.location.uri} version {snapshot.manifest.version}: {fragments}"
            f"columns {', '.join(names) or 'none'}"
        )
        if self.request.base_ids is not None:
            text += f", in {file_roots_text(snapshot.manifest.base_paths, self.request.base_ids)}"
        if self.request.where is not None:
            text += f", filter {self.request.where}"
            late = shape.late.schema.names
            if late:
                text += f", then for rows that pass {', '.join(late)}"
        if self.request.limit is not None or self.request.offset:
            text += f", rows {self.request.offset} to "
            end = self.request.limit
            text += "the end" if end is None else str(self.request.offset + end)
        return text

    @cached_property
    def _row_schema(self) -> pa.Schema:
        known = _derived(self.snapshot, "row schema", dict[str, pa.Schema])
        if "rows" not in known:
            known["rows"] = row_schema(self.snapshot.schema)
        return known["rows"]

    @cached_property
    def _shape(self) -> RowShape:
        limit, offset = self.request.limit, self.request.offset
        return RowShape(
            snapshot=self.snapshot,
            projection=self.projection,
            predicate=self.predicate,
            batch_rows=self.request.batch_rows,
            most_rows=None if limit is None else limit + offset,
            fetching=self.request.fetching,
        )

    @cached_property
    def _chosen(self) -> Sequence[Fragment] | None:
        """The fragments that the request names or whose roots it names; None means all."""
        file_roots = self._file_roots
        return self.request.fragments if file_roots is None else list(file_roots.near(self._named))

    @property
    def _named(self) -> Sequence[Fragment]:
        named = self.request.fragments
        return self.snapshot.manifest.fragments if named is None else named

    @property
    def _file_roots(self) -> FileRoots | None:
        base_ids, wanted = self.request.base_ids, self._shape.together.schema
        return chosen_roots_or_none(self.snapshot.manifest.base_paths, base_ids, wanted)

    def matching(self) -> Iterator[Fragment]:
        """The fragments that can hold a row that passes, judged by the manifest and by indices."""
        return (fragment for fragment, _ in self._parts())

    def _parts(self) -> Iterator[tuple[Fragment, Cut | None]]:
        """The fragments that can hold a passing row, each with its rows that can pass; None means
        all."""
        if self.predicate is None:
            return ((each, self._requested(each)) for each in self.fragments)
        pruner = Pruner(self.snapshot, self.predicate, self._shape.filtering)
        narrowed = self._narrowed
        if narrowed is None:
            found = pruner.pruned(self._chosen)
            return ((each, self._requested(each)) for each in found)
        if pruner.is_hopeless:
            return iter(())
        return self._narrowed_parts(narrowed, pruner)

    def _narrowed_parts(
        self, narrowed: Narrowed, pruner: Pruner
    ) -> Iterator[tuple[Fragment, Cut | None]]:
        for fragment, cut in narrowed.parts(self._chosen):
            if not pruner.can_match(fragment):
                continue
            span = self.request.spans.get(fragment.id)
            part = cut if span is None else clipped(cut, span)
            if part is None or len(part):
                yield fragment, part

    def index_section(self) -> bytes | None:
        """The indices for tasks that are given some of the fragments, and further conditions; None
        for none."""
        return index_section(self.snapshot) if self.request.use_indices else None

    @property
    def is_narrowed(self) -> bool:
        """Whether indices tell which rows can pass; asks them."""
        return self._narrowed is not None

    def stretches(self) -> Mapping[FragmentId, tuple[int, int]]:
        """Where in fragments the rows are that can pass, as far as indices tell; for a few of
        them, so that tasks can be told."""
        return {} if self._narrowed is None else self._narrowed.stretches()

    def _requested(self, fragment: Fragment) -> Cut | None:
        """The rows of a fragment that the request names; None means all."""
        span = self.request.spans.get(fragment.id)
        return self.request.rows.get(fragment.id) if span is None else (span,)

    @cached_property
    def _narrowed(self) -> Narrowed | None:
        """What indices leave to read; None where they are not asked, or do not help."""
        if self.predicate is None or not self._asks_indices:
            return None
        return narrow(self.snapshot, self.predicate)

    @property
    def _asks_indices(self) -> bool:
        return self.request.use_indices and not self.request.rows

    @cached_property
    def _counts(self) -> Sequence[int] | None:
        """The live rows of each fragment; None where a writer did not record one of them, or where
        only a part of a fragment is requested."""
        if self.request.spans or self.request.rows:
            return None
        if self._chosen is None:
            return self.snapshot.manifest.rows_by_fragment
        counts = [each.num_rows for each in self._chosen]
        known = [each for each in counts if each is not None]
        return known if len(known) == len(counts) else None

    def _slices(self) -> Sequence[_Slice] | None:
        """The slices that limit and offset leave; None where only reading would show."""
        limit, offset = self.request.limit, self.request.offset
        if self.predicate is not None or (limit is None and not offset) or self._counts is None:
            return None
        slices = []
        for at, rows in enumerate(self._counts):
            if offset >= rows:
                offset -= rows
                continue
            take = rows - offset if limit is None else min(rows - offset, limit)
            slices.append(_Slice(self._fragment_at(at), offset, take))
            offset = 0
            if limit is not None:
                limit -= take
                if limit == 0:
                    break
        return slices

    def _fragment_at(self, position: int) -> Fragment:
        """One fragment, without decoding the others."""
        if self._chosen is not None:
            return self._chosen[position]
        manifest = self.snapshot.manifest
        return Fragment(decode_fragment(manifest.message.fragments[position], manifest.name))


def plan_scan(
    snapshot: Snapshot,
    *,
    columns: Columns = None,
    where: str | None = None,
    parameters: Parameters = None,
    predicate: Predicate | None = None,
    limit: int | None = None,
    offset: int = 0,
    batch_rows: int | None = None,
    with_row_id: bool = False,
    with_row_address: bool = False,
    fragment_ids: Sequence[int] | None = None,
    bases: Bases = None,
    use_indices: bool = True,
) -> ScanPlan:
    """A plan for what a caller requests; raises InvalidInputError or NotFoundError at once."""
    chosen = None
    if fragment_ids is not None:
        ids = [
            check_number("a fragment id", each) for each in as_list("fragment_ids", fragment_ids)
        ]
        chosen = [snapshot.manifest.fragment(FragmentId(each)) for each in ids]
    if where is not None and not isinstance(where, str):
        raise InvalidInputError(f"where takes SQL text, got {where!r}")
    if parameters is not None and where is None and not isinstance(columns, Mapping):
        raise InvalidInputError("parameters are given, but neither where nor columns hold SQL text")
    if columns is not None:
        columns = dict(columns) if isinstance(columns, Mapping) else as_list("columns", columns)
    request = ScanRequest(
        columns=columns,
        where=where,
        parameters=parameters,
        predicate=predicate,
        limit=None if limit is None else min(check_number("limit", limit), _MOST_ROWS),
        offset=min(check_number("offset", offset), _MOST_ROWS),
        batch_rows=None
        if batch_rows is None
        else min(check_number("batch_rows", batch_rows, least=1), _MOST_BATCH_ROWS),
        with_row_id=with_row_id,
        with_row_address=with_row_address,
        fragments=chosen,
        base_ids=None
        if bases is None
        else ids_to_read(snapshot.location, snapshot.manifest, bases),
        use_indices=use_indices,
    )
    return ScanPlan(snapshot, request)


def _derived(snapshot: Snapshot, name: str, make: Callable[[], T]) -> T:
    """The value cached with the snapshot under a name; made on first use."""
    found: T = snapshot.derived.setdefault(name, make())
    return found

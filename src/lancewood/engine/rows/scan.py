"""Scan plans: which fragments, which of their rows, in which tasks.

A plan is checked when it is made and can be read any number of times; rows come out in table order.
How one fragment is read is up to ``fragment_scan``. A job that reads only nearby files names roots:
a fragment is near when every data file of it that holds a wanted column is in one of them; where it
holds none of the columns, when all its files are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property, partial
from itertools import groupby
from typing import Any, TypeVar

import pyarrow as pa

from lancewood.data.wanted import WantedColumns
from lancewood.engine.base import WORKERS, Task, as_list, check_number, in_order
from lancewood.engine.location import Bases, ids_to_read
from lancewood.engine.rows.fragment_scan import FragmentScan
from lancewood.engine.rows.group_scan import GroupScan, LateGroupScan
from lancewood.engine.rows.prune import Pruner
from lancewood.engine.rows.row_shape import Fetching, RowShape
from lancewood.engine.schema import Columns, Parameters, Projection, project, row_schema
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import InvalidInputError
from lancewood.expr import Predicate, parse_predicate
from lancewood.model.fragment import Fragment
from lancewood.model.ids import BaseId, FragmentId
from lancewood.model.manifest import decode_fragment
from lancewood.model.schema import Schema
from lancewood.proto import table_pb2


class Nearness(Enum):
    """How many of the files that would be read of a fragment are in the chosen roots."""

    ALL = "all"
    SOME = "some"
    NONE = "none"


def chosen_roots_or_none(
    declared: Iterable[table_pb2.BasePath],
    base_ids: frozenset[BaseId | None] | None,
    wanted: Schema,
) -> FileRoots | None:
    """The chosen roots; None if they are all, so that no fragment need be checked."""
    if base_ids is None or base_ids >= {None, *(each.id for each in declared)}:
        return None
    return FileRoots(wanted, base_ids)


def file_roots_text(
    declared: Iterable[table_pb2.BasePath], base_ids: frozenset[BaseId | None]
) -> str:
    """The chosen roots, as text."""
    names = ["the own root"] if None in base_ids else []
    names += [each.name or each.path for each in declared if each.id in base_ids]
    return " and ".join(names)


class FileRoots:
    """Chosen roots, matched against the fragments of one table."""

    def __init__(self, wanted: Schema, base_ids: frozenset[BaseId | None]) -> None:
        self._wanted = frozenset(each.id for top in wanted.fields for each in top.walk())
        self._base_ids = base_ids
        self._has_own = None in base_ids

    def near(self, fragments: Iterable[Fragment]) -> Iterator[Fragment]:
        """The fragments that can be read from the roots alone."""
        base_ids, has_own = self._base_ids, self._has_own
        for fragment in fragments:
            files = fragment.message.files
            if len(files) == 1:  # the common case, so it must be fast
                file = files[0]
                if file.base_id in base_ids if file.HasField("base_id") else has_own:
                    yield fragment
            elif self.nearness(fragment) is Nearness.ALL:
                yield fragment

    def partly_near_text(self, fragments: Iterable[Fragment]) -> str:
        """How many partly near fragments are left out, as text; empty for none."""
        partly = sum(
            1
            for each in fragments
            if len(each.message.files) > 1 and self.nearness(each) is Nearness.SOME
        )
        return f" ({partly} more, only partly in those roots, left out)" if partly else ""

    def nearness(self, fragment: Fragment) -> Nearness:
        """How many of the files that would be read are in the roots."""
        files = fragment.message.files
        read = [each for each in files if not self._wanted.isdisjoint(each.fields)] or files
        held = sum(map(self._holds, read))
        if held == len(read):
            return Nearness.ALL
        return Nearness.SOME if held else Nearness.NONE

    def _holds(self, file: table_pb2.DataFile) -> bool:
        return file.base_id in self._base_ids if file.HasField("base_id") else self._has_own


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
    limit: int | None = None
    offset: int = 0
    batch_rows: int | None = None
    with_row_id: bool = False
    with_row_address: bool = False
    fragments: Sequence[Fragment] | None = field(default=None, repr=False)
    """Only these fragments; None means all."""
    spans: Mapping[FragmentId, tuple[int, int]] = field(default_factory=dict, repr=False)
    """The physical rows to read of these fragments, from the first to before the second."""
    base_ids: frozenset[BaseId | None] | None = None
    """Only fragments that can be read from these roots alone; None means all."""
    fetching: Fetching = Fetching.AUTO


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
            return None
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
        scan = self._scan_of(part.fragment)
        return partial(scan.batches, part.skip, part.count)

    def _tasks(self) -> Iterator[Task[pa.RecordBatch]]:
        """All fragments that can match: small ones together, others one by one."""
        is_late = self.predicate is not None and self._shape.late.schema.fields
        scan = LateGroupScan(self._shape) if is_late else GroupScan(self._shape)
        for group in self._groups(scan):
            if len(group) == 1:
                yield self._task(_Slice(group[0]))
            else:
                yield from scan.tasks(group)

    def _counting(self) -> Iterator[Task[int]]:
        scan = GroupScan(self._shape, self._shape.filtering)
        for group in self._groups(scan):
            if len(group) == 1:
                yield self._scan_of(group[0]).count
            else:
                yield partial(scan.count, group)

    def _groups(self, scan: GroupScan) -> Iterator[tuple[Fragment, ...]]:
        """The fragments in groups; one of which only some rows are requested is by itself."""
        spans = self.request.spans
        if not spans:
            yield from scan.groups(self.matching())
            return
        for is_cut, members in groupby(self.matching(), lambda each: each.id in spans):
            if is_cut:
                yield from ((each,) for each in members)
            else:
                yield from scan.groups(members)

    def _scan_of(self, fragment: Fragment) -> FragmentScan:
        return FragmentScan(self._shape, fragment, self.request.spans.get(fragment.id))

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
            request = ScanRequest(columns=(), fragments=self._chosen, spans=self.request.spans)
            rows = ScanPlan(self.snapshot, request).batches(workers)
            total = sum(each.num_rows for each in rows)
        rest = max(total - offset, 0)
        return rest if limit is None else min(rest, limit)

    def explain(self) -> str:
        """What will be read, as text. Looks at every fragment, opens no data file."""
        slices = self._slices()
        read = sum(1 for _ in self.matching()) if slices is None else len(slices)
        chosen = self.request.fragments
        total = self.snapshot.manifest.fragment_count if chosen is None else len(chosen)
        file_roots = self._file_roots
        besides = "" if file_roots is None else file_roots.partly_near_text(self._named)
        return self.describe(f"{read} of {total} fragments{besides}, ")

    def describe(self, fragments: str = "") -> str:
        """The same without looking at any fragment."""
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
        """The fragments that can hold a row that passes, judged from the manifest alone."""
        if self.predicate is None:
            return iter(self.fragments)
        pruner = Pruner(self.snapshot, self.predicate, self._shape.filtering)
        return pruner.pruned(self._chosen)

    @cached_property
    def _counts(self) -> Sequence[int] | None:
        """The live rows of each fragment; None where a writer did not record one of them, or where
        only a part of a fragment is requested."""
        if self.request.spans:
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
    limit: int | None = None,
    offset: int = 0,
    batch_rows: int | None = None,
    with_row_id: bool = False,
    with_row_address: bool = False,
    fragment_ids: Sequence[int] | None = None,
    bases: Bases = None,
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
    )
    return ScanPlan(snapshot, request)


def _derived(snapshot: Snapshot, name: str, make: Callable[[], T]) -> T:
    """The value cached with the snapshot under a name; made on first use."""
    found: T = snapshot.derived.setdefault(name, make())
    return found

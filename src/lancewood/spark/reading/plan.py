"""Planning a read on the driver: which fragments, cut into which tasks.

Opens only the manifest, a data file or two if their sizes matter, and with a limit one deletion
file. Without a filter no fragment is decoded except a sample and those that are cut. With one, the
driver leaves out fragments that cannot match if that is quick or likely to leave few; otherwise
tasks do it. Where an index tells which rows can pass, tasks get the stretches that they are in. A
plan for 100,000 fragments of one file each takes 3 MB.

Tasks are cut by the estimated width of a row in memory, of the columns that are read. Types give
most of it; of texts, bytes and lists the statistics of a data file tell what they take. A cut is a
number of fragments: 3.5 is the middle of the fourth.

The columnar door takes a plan with what Spark may push into it. Spark's conditions are only about
columns of which our SQL and Spark think alike: plain values, and not those that have another form
in Spark, such as bfloat16, nor bytes and times.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

from lancewood.data.wanted import is_fixed_width, value_width
from lancewood.engine.rows import RowFacts, ScanPlan, ScanRequest, column_widths
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import FormatError, InvalidInputError, LancewoodError, UnsupportedError
from lancewood.expr import MAX_LENGTH
from lancewood.jobs.job import TASKS_PER_SLOT
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FragmentId
from lancewood.model.manifest import decode_fragment
from lancewood.model.schema import EXTENSION_NAME, SYSTEM_COLUMNS
from lancewood.model.segments import MAX_ROWS
from lancewood.spark.columnar import ColumnReference, PlannedRead
from lancewood.spark.reading.task import ReadWork, TablePortion, needs_lineage, without_lineage
from lancewood.spark.types import Reading

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
_SYSTEM_COLUMN = 8.0
_UNKNOWN_VALUE = 32.0
"""Bytes of a computed value that has no fixed width."""
OPENING = 256 << 10
"""The cost of opening a fragment, as bytes that could be read instead."""
LEAST = 24 << 20
"""Bytes in memory that make a task worth starting."""
MOST = 1 << 30
"""Bytes of a task, however few slots there are: a failed task is run again as a whole."""
MOST_TASKS = 100_000
"""However large a table is, or claims to be: Spark cannot run more in reasonable time."""
MOST_MESSAGE = 1 << 20
_WORTH_CUTTING = 0.5
_SMALLEST_PIECE = 0.25
"""Fractions of a task: a cost that is worth cutting, and the smallest piece."""
_FEW_FRAGMENTS = 10_000
"""Number of fragments that can be examined one by one in less than a tenth of a second."""
_SAMPLE = 32
_ALIGNMENT = 1_024
"""Fragments are cut at multiples of this number of rows."""


@dataclass(frozen=True)
class ReadPlan:
    """A checked read of one version."""

    work: ReadWork
    """What all tasks share; called with a message, it gives the rows of that task."""
    messages: list[bytes]
    """A message for each task, in table order."""
    limit: int | None = None
    """The asked number of rows, if the tasks together may give more."""
    scan: ScanPlan | None = field(default=None, repr=False)
    """The scan that was asked for, with all fragments."""
    rows: int | None = None
    """The rows of all messages before a filter; None if a writer did not record them."""
    size: float = 0.0
    """The estimated bytes of all rows that are read, before a filter."""
    pruned: int = 0
    """The fragments of which no row can meet the condition, and which no task reads."""

    @property
    def spark(self) -> StructType:
        """The schema of the rows."""
        return self.work.reading.spark


def plan_read(
    snapshot: Snapshot, request: ScanRequest, slots: int, *, most_bytes: int = MOST
) -> ReadPlan:
    """The tasks of a read, for a cluster that runs ``slots`` of them at once.

    No task reads much more than ``most_bytes``. Before any task runs, raises InvalidInputError for
    wrong names and filters, and UnsupportedError for types that Spark does not have and for a table
    that executors cannot reach.
    """
    check_reachable(snapshot)
    if request.offset or request.spans:
        raise InvalidInputError(
            "a read on Spark takes neither an offset nor spans: its tasks are cut by themselves"
        )
    scan = ScanPlan(snapshot, request)
    reading = Reading(scan.schema)
    chosen, limit = _Chosen.of(scan), request.limit
    if limit is not None and scan.predicate is None and chosen.rows is not None:
        chosen, limit = chosen.first(limit), None
    messages = [each.encode() for each in chosen.portions(slots, most_bytes)]
    shared = replace(request, fragments=None, base_ids=None, limit=limit, use_indices=False)
    rows = None if chosen.rows is None else sum(chosen.rows)
    work = ReadWork(snapshot.bare(), shared, reading, scan.index_section())
    size = chosen.row_count * chosen.width
    return ReadPlan(work, messages, limit, scan, rows, size, chosen.pruned)


def check_reachable(snapshot: Snapshot) -> None:
    """Raise UnsupportedError for a table that executors cannot read."""
    if snapshot.location.store.location("data") is None:
        raise UnsupportedError(
            f"{snapshot.location.uri} is in the memory of one process, where executors cannot read "
            "it; keep the table on a disk or in an object store"
        )


@dataclass(frozen=True)
class _Chosen:
    """The fragments to read, most of them undecoded."""

    scan: ScanPlan
    raw: Sequence[bytes]
    rows: Sequence[int] | None
    """The live rows of each fragment; None if a writer did not record them all."""
    last: int | None = None
    """Where the read ends in the last fragment, in physical rows; None for its end."""
    stretches: Mapping[int, tuple[FragmentId, tuple[int, int]]] = field(default_factory=dict)
    """The physical rows that can pass in some fragments, by the position of these in ``raw``."""
    pruned: int = 0
    """Number of requested fragments that are not read."""

    @classmethod
    def of(cls, scan: ScanPlan) -> _Chosen:
        """The fragments that the request names, without those that are pruned here."""
        if scan.request.limit == 0:
            return cls(scan, (), ())
        is_pruned, manifest = _is_pruned_here(scan), scan.snapshot.manifest
        is_all = scan.request.fragments is None and scan.request.base_ids is None
        if is_all and not is_pruned:
            return cls(scan, manifest.message.fragments, manifest.rows_by_fragment)
        found = list(scan.matching() if is_pruned else scan.fragments)
        rows = [each.num_rows for each in found]
        stretches: dict[int, tuple[FragmentId, tuple[int, int]]] = {}
        passing = scan.stretches() if is_pruned else {}
        for at, fragment in enumerate(found if passing else ()):
            if fragment.id in passing:
                start, stop = passing[fragment.id]
                stop = min(stop, fragment.physical_rows or stop)
                stretches[at] = fragment.id, (start, stop)
                rows[at] = stop - start
        known = [each for each in rows if each is not None]
        if max(known, default=0) > MAX_ROWS:
            name = manifest.name
            raise FormatError(f"{name}: a fragment has {max(known)} rows; the limit is {MAX_ROWS}")
        raw = [each.message.SerializeToString() for each in found]
        counts = known if len(known) == len(rows) else None
        asked = manifest.fragment_count if is_all else len(scan.fragments)
        return cls(scan, raw, counts, stretches=stretches, pruned=asked - len(found))

    def first(self, limit: int) -> _Chosen:
        """Only the first ``limit`` rows; may read the deletion file of one fragment."""
        assert self.rows is not None
        ends = np.cumsum(np.asarray(self.rows, np.int64))
        at = int(np.searchsorted(ends, limit))
        if at >= len(self.rows):
            return self
        fragment, kept = self._fragment(at), limit - int(ends[at]) + self.rows[at]
        _, last = RowFacts(self.scan.snapshot, fragment).physical_range(
            0, kept, fragment.physical_rows
        )
        return _Chosen(self.scan, self.raw[: at + 1], [*self.rows[:at], kept], last)

    @property
    def row_count(self) -> int:
        """The live rows of all fragments; where they are not known, the fragments."""
        return len(self.raw) if self.rows is None else sum(self.rows)

    @cached_property
    def width(self) -> float:
        """The estimated bytes of a row."""
        last = len(self.raw) - 1
        sample = np.unique(np.linspace(0, last, _SAMPLE).astype(int)).tolist() if self.raw else []
        return row_width(self.scan, map(self._fragment, sample), self.row_count)

    def portions(self, slots: int, most_bytes: int) -> Iterator[TablePortion]:
        """The fragments cut into tasks."""
        if not self.raw:
            return
        raw, name = self.raw, self.scan.snapshot.manifest.name
        if not needs_lineage(self.scan):
            raw = [without_lineage(each, name) for each in raw]
        sizes = np.fromiter(map(len, raw), np.int64, len(raw))
        rows = np.asarray([1] * len(raw) if self.rows is None else self.rows, np.int64)
        split = self.rows is not None and not self.stretches
        cuts = cut_fragments(rows, self.width, sizes, slots, split=split, most=most_bytes)
        locations = dict.fromkeys(map(self._location, cuts.tolist()))
        for (first, start), (last, stop) in pairwise(locations):
            spans: dict[FragmentId, tuple[int, int]] = {}
            if start:
                fragment = self._fragment(first)
                spans[fragment.id] = start, stop if first == last else self._end(first, fragment)
            if stop and not (start and first == last):
                spans[self._fragment(last).id] = 0, stop
            end = last + 1 if stop else last
            told = (self.stretches[at] for at in range(first, end) if at in self.stretches)
            yield TablePortion(raw[first:end], {**spans, **dict(told)})

    def _location(self, cut: float) -> tuple[int, int]:
        """A cut as a fragment and the number of its physical rows before the cut."""
        number = int(cut)
        if cut == len(self.raw) and self.last is not None:
            return number - 1, self.last
        if number == cut:
            return number, 0
        end = self._end(number, self._fragment(number))
        row = round((cut - number) * end / _ALIGNMENT) * _ALIGNMENT
        return self._location(number + 1) if row >= end else (number, row)

    def _end(self, number: int, fragment: Fragment) -> int:
        """The end of the read in a fragment, in physical rows."""
        is_last = number == len(self.raw) - 1
        return self.last if is_last and self.last is not None else fragment.physical_rows

    def _fragment(self, number: int) -> Fragment:
        return Fragment(decode_fragment(self.raw[number], self.scan.snapshot.manifest.name))


def _is_pruned_here(scan: ScanPlan) -> bool:
    """Whether the driver examines every fragment before it cuts tasks."""
    predicate, chosen = scan.predicate, scan.request.fragments
    if predicate is None:
        return False
    count = scan.snapshot.manifest.fragment_count if chosen is None else len(chosen)
    bounded = any(each.path[0] in SYSTEM_COLUMNS for each in predicate.bounds())
    return bounded or not predicate.columns or count <= _FEW_FRAGMENTS or scan.is_narrowed


def row_width(scan: ScanPlan, sample: Iterable[Fragment], rows: int) -> float:
    """The estimated bytes of a row in memory, at least one: of the columns that are returned or
    that the filter reads.

    Opens a data file only if types do not tell, and if so many rows may make more than one task,
    judged by the sizes of the files in the sample.
    """
    fixed, varying = scan.wanted.width
    width = max(fixed + _SYSTEM_COLUMN * len(scan.projection.system), 1.0)
    if not varying or rows * (width + _most_stored(sample)) <= LEAST:
        return width
    stored = column_widths(scan.snapshot)
    return width + sum(stored[each] for each in varying)


def column_bytes(scan: ScanPlan, rows: int) -> dict[str, float]:
    """The estimated bytes in memory of a value of each column that is read or returned.

    Opens what ``row_width`` opens; where it opens nothing, no column without a fixed width is
    taken for smaller than it is.
    """
    stored: Mapping[str, float] = {}
    other, fields = 0.0, [*scan.wanted.arrow, *scan.schema]
    if not all(is_fixed_width(each.type) for each in fields):
        name, raw = scan.snapshot.manifest.name, scan.snapshot.manifest.message.fragments
        other = _most_stored(Fragment(decode_fragment(each, name)) for each in raw[:1])
        if rows * other > LEAST:
            stored, other = column_widths(scan.snapshot), _UNKNOWN_VALUE
    widths: dict[str, float] = {}
    for each in fields:
        more = 0.0 if is_fixed_width(each.type) else stored.get(each.name, other)
        # A computed column may have the name of another one that is read.
        widths[each.name] = max(widths.get(each.name, 0.0), value_width(each.type) + more)
    return widths


def _most_stored(sample: Iterable[Fragment]) -> float:
    """The most bytes per row in the files of a fragment; infinite if a writer recorded no size."""
    try:
        return max((_stored(each) for each in sample), default=math.inf)
    except LancewoodError:  # left for the read to report
        return math.inf


def _stored(fragment: Fragment) -> float:
    sizes = [each.size for each in fragment.files]
    known = [each for each in sizes if each is not None]
    return sum(known) / max(fragment.physical_rows, 1) if len(known) == len(sizes) else math.inf


def count_tasks(cost: float, slots: int, most: int = MOST) -> int:
    """The number of tasks for ``cost`` bytes: a few per slot, none too small or too large.

    More than one per slot are a multiple of the slots, so that none is idle at the end.
    """
    slots = max(1, slots)
    wanted = math.ceil(cost / LEAST)
    if wanted > slots:
        wanted = min(TASKS_PER_SLOT, math.ceil(wanted / slots)) * slots
    return min(max(1, wanted, math.ceil(cost / most)), MOST_TASKS)


def cut_fragments(
    rows: Ints, width: float, sizes: Ints, slots: int, *, split: bool, most: int = MOST
) -> Floats:
    """Where the tasks begin, and the end of the last; ascending and distinct.

    ``rows`` and ``sizes`` are the rows of each fragment and its bytes in a message; ``width`` is
    the bytes of a row. Without ``split`` tasks have whole fragments. ``most`` is roughly the most
    bytes that a task reads.
    """
    costs = rows * width + OPENING
    ends = np.cumsum(costs)
    total = float(ends[-1]) if len(ends) else 0.0
    tasks = count_tasks(total, slots, most)
    share = total / tasks
    goals = total * np.arange(1, tasks) / tasks
    at = np.minimum(np.searchsorted(ends, goals), max(len(ends) - 1, 0))
    parts = (goals - (ends[at] - costs[at])) / costs[at]
    whole = np.round(parts)
    if split:
        least = _SMALLEST_PIECE * share
        is_cut = costs[at] > _WORTH_CUTTING * share
        is_cut &= (parts * costs[at] >= least) & ((1 - parts) * costs[at] >= least)
        parts = np.where(is_cut, parts, whole)
    else:
        parts = whole
    cuts = np.unique(np.concatenate(([0.0], at + parts, [float(len(ends))])))
    return _with_small_messages(cuts, np.concatenate(([0], np.cumsum(sizes))))


def _with_small_messages(cuts: Floats, held: Ints) -> Floats:
    """The cuts, and more where a message would be too large.

    ``held`` is the bytes before each fragment. A fragment that is too large by itself stays alone.
    """
    firsts, lasts = np.ceil(cuts[:-1]).astype(int), np.floor(cuts[1:]).astype(int)
    more: list[int] = []
    for task in np.flatnonzero(held[lasts] - held[firsts] > MOST_MESSAGE).tolist():
        at, last = int(firsts[task]), int(lasts[task])
        while held[last] - held[at] > MOST_MESSAGE:
            full = int(np.searchsorted(held, held[at] + MOST_MESSAGE, side="right")) - 1
            at = max(at + 1, full)
            more.append(at)
    return np.union1d(cuts, np.array(more, float))


_COMPARED = (
    pt.is_boolean,
    pt.is_integer,
    pt.is_floating,
    pt.is_decimal128,
    pt.is_string,
    pt.is_large_string,
    pt.is_date32,
    pt.is_timestamp,
)
_ROOM = 1_000
"""Characters that joining conditions takes."""


def columnar_read(plan: ReadPlan, scan: ScanPlan, slots: int) -> PlannedRead:
    """What the door needs to know of a plan, for a Spark that runs ``slots`` tasks at once."""
    rows, columns = plan.rows, scan.request.columns
    computed = columns if isinstance(columns, Mapping) else None
    references: dict[tuple[str, ...], ColumnReference] = {}
    for column in scan.schema:
        if computed is None or computed[column.name] == column.name:
            references |= _references(column, (), "")
    named = [*scan.projection.computed.items(), ("", scan.predicate)]
    read = [one for name, one in named if one is not None and one.column != (name,)]
    return PlannedRead(
        name=plan.work.name,
        schema=plan.spark.json(),
        work=pickle.dumps(plan.work),
        messages=plan.messages,
        rows=rows,
        is_counted=scan.predicate is None and plan.limit is None,
        pruned=plan.pruned,
        slots=slots,
        worthwhile=LEAST,
        most_condition=max(0, MAX_LENGTH - _ROOM - len(scan.request.where or "")),
        widths={} if rows is None else column_bytes(scan, rows),
        needed=list(dict.fromkeys(name for one in read for name in one.columns)),
        references=references,
    )


def _references(
    field: pa.Field, above: tuple[str, ...], prefix: str
) -> dict[tuple[str, ...], ColumnReference]:
    """What conditions call a column and the fields below it, by their paths."""
    is_extended = EXTENSION_NAME.encode() in (field.metadata or {})
    if is_extended or isinstance(field.type, pa.BaseExtensionType) or "\n" in field.name:
        return {}
    kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    path, sql = (*above, field.name), prefix + '"' + field.name.replace('"', '""') + '"'
    references = {path: ColumnReference(sql, any(each(kind) for each in _COMPARED))}
    for below in field.type if pa.types.is_struct(field.type) else ():
        references |= _references(below, path, f"{sql}.")
    return references

"""What became of the rows of tables that differ between two commits: counted, or as a diff.

Counting compares states of a table on whatever branches, and finds renamed columns. Values are read
where they are few: to tell which rows that were written hold other values, to pair rows that were
written anew by their primary key, and to find out that a small table was overwritten with the same
rows. Otherwise there is what row ids say, and where a state cannot be read, what the pins say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import UUID

from lancewood.catalog.pin import Pin
from lancewood.errors import InvalidInputError, LancewoodError, UnsupportedError
from lancewood.git.history import merge_bases
from lancewood.git.values import Hash
from lancewood.jobs.counts import RowCounts
from lancewood.model.fragment import DataFile, Fragment
from lancewood.model.index import SYSTEM_INDICES, kind_name
from lancewood.model.manifest import decode_fragment
from lancewood.repo.inspect.comparing import TableChange

if TYPE_CHECKING:
    import pyarrow as pa

    from lancewood.engine.snapshot import Snapshot
    from lancewood.jobs.diff import DiffPlan, DiffRequest, DiffRows
    from lancewood.model.schema import Field
    from lancewood.repo.context import RepoContext
    from lancewood.table.diffs import Diff

_MOST_READ = 16 << 20
"""About the most bytes on each side that are read to count or compare rows."""


def measured(context: RepoContext, changes: Iterable[TableChange]) -> tuple[TableChange, ...]:
    """Add to each change what is known about its rows."""
    return tuple(_measured(context, each) for each in changes)


def mark_unrelated(
    context: RepoContext, changes: Iterable[TableChange], one: Hash, other: Hash
) -> Iterator[TableChange]:
    """The changes between two commits, with those marked where both sides made the table: no merge
    base has it, and the two share no row."""
    bases = [context.tree(each) for each in merge_bases(context.git.objects, one, other)]
    for each in changes:
        is_old = any(base.blob_hash(each.name) is not None for base in bases)
        is_apart = each.kind == "changed" and not is_old and not _has_common_rows(each)
        yield replace(each, is_unrelated=True, counts=None) if is_apart else each


def _has_common_rows(change: TableChange) -> bool:
    counts, before = change.counts, change.before
    is_kept = counts is not None and before is not None and counts.deleted != before.rows
    return is_kept or change.is_same_rows


def _measured(context: RepoContext, change: TableChange) -> TableChange:
    from lancewood.repo.landing import pinned_state

    before, after = change.before, change.after
    if before is None or after is None:
        gone, new = (0 if each is None else each.rows for each in (before, after))
        if gone is None or new is None:
            return change
        return replace(change, counts=RowCounts(inserted=new, deleted=gone))
    try:
        if change.kind == "moved":
            states = (pinned_state(context, each) for each in (before, after))
            return _with_indices(replace(change, counts=RowCounts()), *states)
        return _between(context, change, before, after)
    except LancewoodError:  # status and fsck report a state that cannot be read
        return replace(change, counts=RowCounts()) if change.kind == "moved" else change


def _with_indices(change: TableChange, before: Snapshot, after: Snapshot) -> TableChange:
    """The change, with what became of indices."""
    old, new = _indices(before), _indices(after)
    return replace(
        change,
        added_indices=tuple(sorted(new.keys() - old.keys())),
        removed_indices=tuple(sorted(old.keys() - new.keys())),
        changed_indices=tuple(sorted(e for e in old.keys() & new.keys() if old[e] != new[e])),
    )


def _indices(state: Snapshot) -> dict[tuple[str, str], set[UUID]]:
    """The segments of indices, by name and kind."""
    found: dict[tuple[str, str], set[UUID]] = {}
    for each in state.manifest.indices:
        if each.name not in SYSTEM_INDICES:
            found.setdefault((each.name, kind_name(each)), set()).add(each.uuid)
    return found


def _between(context: RepoContext, change: TableChange, before: Pin, after: Pin) -> TableChange:
    from lancewood.jobs.diff import DiffRequest, DiffRows

    states = _states(context, before, after)
    plan = DiffRows.of(*states, DiffRequest(), is_key_needed=False).plan
    without_key = plan if plan.key is None else replace(plan, key=None)
    by_ids = _by_ids(without_key)
    counts, is_exact = _counts(plan, without_key, by_ids)
    is_rewritten = by_ids is None or by_ids.deleted == before.rows
    may_be_same = before.rows and before.rows == after.rows and before.schema == after.schema
    is_same = bool(is_rewritten and may_be_same) and _same_rows(plan.one, plan.other)
    renamed = tuple(
        (each.before.name, each.name) for each in plan.paired if each.before.name != each.name
    )
    change = replace(
        change,
        counts=counts,
        is_exact=is_exact,
        renamed_columns=renamed,
        is_same_rows=is_same,
    )
    return _with_indices(change, plan.one, plan.other)


def row_diff(
    context: RepoContext,
    before: Pin | None,
    after: Pin | None,
    request: DiffRequest,
) -> Diff:
    """The rows that differ between two pins; where one is None, all rows of the other. Two tables
    of one name that share no history have no row in common but by key."""
    from lancewood.jobs.diff import DiffRows
    from lancewood.table.diffs import Diff

    states = _states(context, before, after)
    return Diff(DiffRows.of(*states, request, is_key_needed=False))


def _states(
    context: RepoContext, before: Pin | None, after: Pin | None
) -> tuple[Snapshot, Snapshot]:
    """The states of two pins; of one that is None the state before the first version."""
    from lancewood.jobs.diff import nothing_before
    from lancewood.repo.landing import pinned_state

    one, other = (None if each is None else pinned_state(context, each) for each in (before, after))
    there = one or other
    assert there is not None, "a side has the table"
    return one or nothing_before(there), other or nothing_before(there)


def _by_ids(plan: DiffPlan) -> RowCounts | None:
    """At most how many rows differ, as far as it is known without values; None where rows moved,
    and have no ids by which they are known."""
    from lancewood.jobs.diff import DiffRows

    try:
        return DiffRows(plan).most()
    except UnsupportedError:
        return None


def _counts(
    plan: DiffPlan, without_key: DiffPlan, by_ids: RowCounts | None
) -> tuple[RowCounts | None, bool]:
    """How many rows differ, and whether this is exact; None if unknown."""
    from lancewood.jobs.diff import DiffRows

    size = max(map(_row_size, (plan.one, plan.other)))
    if plan.key is not None and _may_pair(plan, by_ids, size):
        try:
            return _exact(DiffRows(plan))
        except InvalidInputError:  # the key is not unique
            pass
    return (None, True) if by_ids is None else _exact(DiffRows(without_key))


def _may_pair(plan: DiffPlan, by_ids: RowCounts | None, size: float) -> bool:
    """Whether there may be rows to be paired by key, and they are few."""
    if by_ids is None:
        return _is_small(plan.one) and _is_small(plan.other)
    alone = by_ids.deleted, by_ids.inserted
    return all(alone) and max(alone) * size <= _MOST_READ


def _exact(rows: DiffRows) -> tuple[RowCounts, bool]:
    most = rows.most()
    if not most.updated:
        return most, True
    if _compared_bytes(rows) > _MOST_READ:
        return most, False
    found = rows.stat()
    return replace(most, updated=found["updated"]), True


def _compared_bytes(rows: DiffRows) -> float:
    """About how many bytes of a state are read to compare rows: those of the columns in which rows
    may differ."""
    one, other = rows.plan.one, rows.plan.other
    total = 0.0
    for comparison in rows.plan.comparisons():
        for doubt in comparison.doubts:
            sizes = (
                max(_value_size(one, each.before), _value_size(other, each.after))
                for each in rows.shape.compared_in(doubt)
            )
            total += doubt.after.row_count * min(sum(sizes), max(map(_row_size, (one, other))))
    return total


def _value_size(snapshot: Snapshot, field: Field) -> float:
    """About how many bytes a value of a column has: those of its type, or else as many as a row has
    in the files that hold the column."""
    from lancewood.format.schema import to_arrow_field

    width = _type_size(to_arrow_field(field).type)
    if width is not None:
        return width
    ids = {each.id for each in field.walk()}
    return _row_size(snapshot, lambda file: not ids.isdisjoint(file.fields))


def _type_size(kind: pa.DataType) -> float | None:
    """How many bytes each value of a type has; None where they differ."""
    import pyarrow as pa

    if pa.types.is_fixed_size_list(kind):
        inner = _type_size(kind.value_type)
        return None if inner is None else inner * kind.list_size
    return kind.bit_width / 8 if pa.types.is_primitive(kind) else None


def _row_size(snapshot: Snapshot, is_read: Callable[[DataFile], bool] = lambda _: True) -> float:
    """About how many bytes a row has in the data files that are read, judging by the first and the
    last fragment, of which one may be small, with more bytes for each row."""
    raws, name = snapshot.manifest.message.fragments, snapshot.manifest.name
    ends = (Fragment(decode_fragment(each, name)) for each in {*raws[:1], *raws[-1:]})
    return min((_row_size_in(each, is_read) for each in ends), default=0.0)


def _row_size_in(fragment: Fragment, is_read: Callable[[DataFile], bool]) -> float:
    sizes = [each.size or _MOST_READ for each in fragment.files if is_read(each)]
    return sum(sizes) / max(1, fragment.physical_rows)


def _same_rows(one: Snapshot, other: Snapshot) -> bool:
    """Whether two tables of equal length hold the same rows in the same order; False if comparing
    would cost too much."""
    from lancewood.table.table import Table

    if not (_is_small(one) and _is_small(other)):
        return False
    pairs = _aligned(Table(one).to_batches(), Table(other).to_batches())
    return all(_same_values(*each) for each in pairs)


def _aligned(
    one: Iterator[pa.RecordBatch], other: Iterator[pa.RecordBatch]
) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
    """The rows of two streams side by side."""
    here, there = next(one, None), next(other, None)
    while here is not None and there is not None:
        rows = min(here.num_rows, there.num_rows)
        yield here.slice(0, rows), there.slice(0, rows)
        here = here.slice(rows) if rows < here.num_rows else next(one, None)
        there = there.slice(rows) if rows < there.num_rows else next(other, None)


def _same_values(one: pa.RecordBatch, other: pa.RecordBatch) -> bool:
    """Compares values, then bytes: for Arrow, NaN is not equal to NaN."""
    return bool(one.equals(other) or one.serialize().equals(other.serialize()))


def _is_small(snapshot: Snapshot) -> bool:
    left = _MOST_READ
    for fragment in snapshot.manifest.fragments:
        for file in fragment.files:
            left -= file.size or _MOST_READ + 1
            if left < 0:
                return False
    return not any(each.is_blob for field in snapshot.schema.fields for each in field.walk())

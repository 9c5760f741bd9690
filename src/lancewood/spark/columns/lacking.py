"""Where a column has no values: in which fragments, in how many rows.

A fragment without a file for the column has none at all, and the manifest tells. A file whose name
is marked has been computed for all of its rows: a null in it is a value. Any other file is read,
by executors, and its nulls are counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from lancewood.engine.scan import ScanPlan, ScanRequest
from lancewood.engine.snapshot import Snapshot
from lancewood.jobs.packing import pack_fragments
from lancewood.jobs.runner import Runner
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FieldId, FragmentId

MARK = "-computed"
"""At the end of the names of files whose rows have all been computed."""
_MARKED = f"{MARK}.lance"


@dataclass(frozen=True, slots=True)
class Lacking:
    """A fragment, and how many of its live rows have no value."""

    fragment: Fragment
    rows: int
    is_partly: bool
    """Whether it has a file with the column, and other rows may have values there."""


def all_rows(snapshot: Snapshot) -> list[Lacking]:
    """Every fragment that has rows, as if none had a value."""
    return [Lacking(each, _rows(each), False) for each in _live(snapshot)]


def find_lacking(snapshot: Snapshot, name: str, runner: Runner) -> list[Lacking]:
    """The fragments in which a column lacks values, in the order of the table."""
    ids = frozenset(each.id for each in snapshot.schema.by_name[name].walk())
    live = list(_live(snapshot))
    held = {each.id: _names(each, ids) for each in live}
    unsure = [each for each in live if not all(name.endswith(_MARKED) for name in held[each.id])]
    nulls = dict(_counted(snapshot, name, unsure, runner))
    return [
        Lacking(each, nulls[each.id] if held[each.id] else _rows(each), bool(held[each.id]))
        for each in live
        if not held[each.id] or nulls.get(each.id)
    ]


def count_nulls(snapshot: Snapshot, name: str, fragments: Sequence[Fragment]) -> list[int]:
    """The task: how many live rows of each fragment have no value."""
    return [_nulls_in(snapshot, name, each) for each in fragments]


def _counted(
    snapshot: Snapshot, name: str, fragments: Sequence[Fragment], runner: Runner
) -> Iterator[tuple[FragmentId, int]]:
    if not fragments:
        return
    tasks = list(pack_fragments(fragments, runner.slots))
    work = partial(count_nulls, snapshot.bare(), name)
    done = runner.run(work, tasks, what=f"looking for rows without {name}")
    for group, counts in zip(tasks, done, strict=True):
        yield from zip((each.id for each in group), counts, strict=True)


def _nulls_in(snapshot: Snapshot, name: str, fragment: Fragment) -> int:
    plan = ScanPlan(snapshot, ScanRequest(columns=[name], fragments=[fragment]))
    return sum(each.column(0).null_count for each in plan.batches(1))


def _live(snapshot: Snapshot) -> Iterator[Fragment]:
    return (each for each in snapshot.manifest.fragments if each.num_rows != 0)


def _rows(fragment: Fragment) -> int:
    return fragment.num_rows or fragment.physical_rows


def _names(fragment: Fragment, ids: frozenset[FieldId]) -> list[str]:
    """The files that hold one of the fields."""
    return [each.path for each in fragment.message.files if not ids.isdisjoint(each.fields)]

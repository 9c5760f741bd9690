"""Updating rows: they move to new fragments with new values, or columns are rewritten in place.

Moving writes all columns of the rows that match; rewriting writes the columns that are set, for all
rows of the fragments in which one matches. Which is less is told from a few fragments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pyroaring import BitMap

from lancewood.engine.limits import check_choice
from lancewood.engine.projection import Parameters
from lancewood.engine.publish import PutIfAbsent
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import UnsupportedError
from lancewood.jobs.counts import RowCounts
from lancewood.jobs.execute import Change
from lancewood.jobs.gathering import gather
from lancewood.jobs.packing import pack_fragments
from lancewood.jobs.rows.assignments import Assignments
from lancewood.jobs.rows.matching import Matching
from lancewood.jobs.rows.moving import check_movable
from lancewood.jobs.rows.update_columns import rewrite_columns
from lancewood.jobs.rows.update_cost import Estimate, estimate, sample
from lancewood.jobs.rows.update_rows import move_rows
from lancewood.jobs.rows.updating import Portion, Rewriting, Updating
from lancewood.jobs.runner import Runner
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FragmentId
from lancewood.model.operations import Update

_LEAST_BYTES = 8 << 20
"""The rows that move out of so much data share new fragments, however many held them."""


@dataclass(frozen=True)
class UpdateRows:
    """What a caller wants to be updated, how, and who does it."""

    values: Mapping[str, Any] = field(repr=False)
    where: str | None
    parameters: Parameters = field(repr=False)
    rewrite: Rewriting
    runner: Runner = field(repr=False)

    def __post_init__(self) -> None:
        check_choice("rewrite", self.rewrite, Rewriting)

    def prepare(self, snapshot: Snapshot) -> Change[RowCounts]:
        """Find the rows of one version and write what they become.

        Raises InvalidInputError for what does not fit the table, before anything is read.
        """
        matching = Matching(snapshot, self.where, self.parameters)
        assignments = Assignments(snapshot.schema, self.values, self.parameters)
        snapshot.check_writable()
        rewrite = _possible(snapshot, assignments, self.rewrite)
        fragments = list(matching.fragments())
        if not fragments:
            return Change(None, RowCounts())
        PutIfAbsent().check_trust(snapshot.place.store)
        job = Updating(matching.bare(), self.values)
        known: dict[FragmentId, BitMap] = {}
        if rewrite == "auto":
            looked_at = sample(fragments)
            found: list[Estimate] = list(
                self.runner.run(partial(estimate, job), looked_at, what="looking at a sample")
            )
            known = {each.id: one.offsets for each, one in zip(looked_at, found, strict=True)}
            is_less = sum(each.columns for each in found) < sum(each.rows for each in found)
            rewrite = "columns" if is_less else "rows"
        return self._run(snapshot, job, fragments, known, rewrite)

    def _run(
        self,
        snapshot: Snapshot,
        job: Updating,
        fragments: Sequence[Fragment],
        known: Mapping[FragmentId, BitMap],
        rewrite: Rewriting,
    ) -> Change[RowCounts]:
        by_columns = rewrite == "columns"
        tasks = [
            Portion(each, {one.id: known[one.id] for one in each if one.id in known})
            for each in pack_fragments(
                fragments, self.runner.slots, least_bytes=0 if by_columns else _LEAST_BYTES
            )
        ]
        done = gather(
            self.runner,
            partial(rewrite_columns if by_columns else move_rows, job),
            tasks,
            what="updating rows",
            snapshot=snapshot,
        )
        changed = job.assignments.field_ids
        operation = Update(
            removed_fragment_ids=tuple(each for part in done for each in part.removed),
            updated_fragments=tuple(each for part in done for each in part.updated),
            new_fragments=tuple(each for part in done for each in part.new),
            fields_modified=changed if by_columns else (),
            fields_for_preserving_frag_bitmap=() if by_columns else changed,
            rewrites_columns=by_columns,
            updated_offsets={key: each for part in done for key, each in part.offsets.items()},
        )
        rows = sum(each.rows for each in done)
        return Change(
            operation if rows else None,
            RowCounts(updated=rows),
            tuple(key for each in done for key in each.files),
        )


def _possible(snapshot: Snapshot, assignments: Assignments, asked: Rewriting) -> Rewriting:
    """What was asked for, or the only way that there is.

    Blobs stay where they are if they can: they are large.
    """
    has_blobs = any(each.is_blob for each in snapshot.schema.fields)
    if assignments.sets_blobs and asked == "columns":
        raise UnsupportedError("a column of blobs cannot be rewritten in place: use rewrite='rows'")
    if asked == "columns" or (asked == "auto" and has_blobs and not assignments.sets_blobs):
        return "columns"
    try:
        check_movable(snapshot)
    except UnsupportedError as cause:
        if assignments.sets_blobs:
            raise
        if asked == "auto":
            return "columns"
        raise UnsupportedError(
            f"rows of this table cannot be moved: {cause.message}. rewrite='columns' leaves those "
            "columns alone",
            **cause.facts,
        ) from cause
    return "rows" if assignments.sets_blobs else asked

"""Finding the rows that a condition speaks of: which fragments can hold some, and where they are.

The condition is checked against the schema before anything is read. Reads its columns, and others
only for whole rows that match; never changes anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from lancewood.engine.addresses import offsets_of
from lancewood.engine.fragment_scan import FragmentScan
from lancewood.engine.group_scan import GroupScan
from lancewood.engine.projection import Parameters, project, row_schema
from lancewood.engine.prune import Pruner
from lancewood.engine.row_shape import RowShape, nameless
from lancewood.engine.rows import RowFacts
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import InvalidInputError
from lancewood.expr import Predicate, parse_predicate
from lancewood.jobs.rows.blob_values import with_blob_values
from lancewood.jobs.rows.moving import MovingRows
from lancewood.model.bitmap import bitmap_of
from lancewood.model.fragment import Fragment
from lancewood.model.schema import CREATED_AT, ROW_ADDRESS, ROW_ID


@dataclass(frozen=True)
class Matching:
    """A condition on one version of a table; with a bare snapshot it is sent to tasks."""

    snapshot: Snapshot
    where: str | None
    """None: every row."""
    parameters: Parameters = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.where is None:
            if self.parameters is not None and not isinstance(self.parameters, Mapping):
                raise InvalidInputError("a list of parameters is for where, which is not given")
        elif not isinstance(self.where, str):
            raise InvalidInputError(f"where takes SQL text, got {self.where!r}")
        _ = self.predicate  # a wrong name or type is told now

    def __getstate__(self) -> dict[str, Any]:
        """Without what is worked out again elsewhere."""
        return {"snapshot": self.snapshot, "where": self.where, "parameters": self.parameters}

    @cached_property
    def predicate(self) -> Predicate | None:
        if self.where is None:
            return None
        return parse_predicate(self.where, row_schema(self.snapshot.schema), self.parameters)

    def bare(self) -> Matching:
        """The same for tasks, whose fragments travel beside it."""
        return Matching(self.snapshot.bare(), self.where, self.parameters)

    @cached_property
    def is_every_row(self) -> bool:
        """Whether the condition reads no column and is true.

        Raises InvalidInputError if it cannot be computed.
        """
        if self.predicate is None:
            return True
        return not self.predicate.columns and bool(self.predicate.mask(nameless(1))[0].as_py())

    def fragments(self) -> Iterator[Fragment]:
        """The fragments that can hold a matching row, told from the manifest alone."""
        if self.predicate is None:
            return iter(self.snapshot.manifest.fragments)
        return self._pruner.pruned(None)

    def offsets(self, fragment: Fragment) -> BitMap:
        """The physical offsets of the live rows of a fragment that match.

        Raises FormatError where the manifest does not say how many rows there are.
        """
        fragment.check_counted()
        if self.is_every_row:
            deleted = RowFacts(self.snapshot, fragment).deleted
            return BitMap(range(fragment.physical_rows)) - deleted
        parts = [
            offsets_of(batch.column(0).to_numpy())
            for batch in FragmentScan(self._shape, fragment).batches()
        ]
        return bitmap_of(np.concatenate([np.empty(0, np.int64), *parts]))

    def groups(self, fragments: Sequence[Fragment]) -> Iterator[tuple[Fragment, ...]]:
        """The fragments, in groups that are best looked into together."""
        if self.is_every_row:
            return ((each,) for each in fragments)
        return self._scan.groups(fragments)

    def found(self, group: Sequence[Fragment]) -> Iterator[tuple[Fragment, BitMap, BitMap]]:
        """The fragments of a group of several in which rows match: the physical offsets of those
        rows, and of those that are deleted already."""
        read, positions = self._scan.found(group)
        assert positions is not None, "there is a condition"
        for number, places in read.by_fragment(positions):
            yield group[number], bitmap_of(places), read.facts(number).deleted

    def row_groups(self, fragments: Iterable[Fragment]) -> Iterator[tuple[Fragment, ...]]:
        """The fragments, in groups whose rows are best read together."""
        return self._row_scan.groups(fragments)

    def rows(self, group: Sequence[Fragment]) -> Iterator[MovingRows]:
        """The live rows of a group of fragments that match, found and read in one go.

        Raises FormatError where the manifest does not say how many rows there are.
        """
        if len(group) > 1:
            yield from map(self._moving, self._row_scan.batches(group))
            return
        (fragment,) = group
        fragment.check_counted()
        for batch in FragmentScan(self._whole_rows, fragment).batches():
            yield from map(self._moving, with_blob_values(self.snapshot, fragment, batch))

    def _moving(self, batch: pa.RecordBatch) -> MovingRows:
        ids = created = None
        if self.snapshot.manifest.has_stable_row_ids:
            ids = batch.column(ROW_ID).to_numpy()
            created = batch.column(CREATED_AT).to_numpy()
        rows = batch.select(self.snapshot.schema.names)
        return MovingRows(rows, batch.column(ROW_ADDRESS).to_numpy(), ids, created)

    @cached_property
    def _shape(self) -> RowShape:
        return self._shape_of([ROW_ADDRESS])

    @cached_property
    def _scan(self) -> GroupScan:
        return GroupScan(self._shape)

    @cached_property
    def _row_scan(self) -> GroupScan:
        return GroupScan(self._whole_rows)

    @cached_property
    def _whole_rows(self) -> RowShape:
        stays = (ROW_ID, CREATED_AT) if self.snapshot.manifest.has_stable_row_ids else ()
        return self._shape_of([*self.snapshot.schema.names, ROW_ADDRESS, *stays])

    def _shape_of(self, columns: Sequence[str]) -> RowShape:
        projection = project(self.snapshot.schema, columns)
        return RowShape(snapshot=self.snapshot, projection=projection, predicate=self.predicate)

    @cached_property
    def _pruner(self) -> Pruner:
        assert self.predicate is not None
        return Pruner(self.snapshot, self.predicate, self._shape.filtering)

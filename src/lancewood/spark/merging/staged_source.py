"""The source of a merge as files that its own executors wrote: rows by where they lie in them.

A position is an address in the staged files: the number of the file, then the row in it. Whoever
reads a row twice gets the same, however the frame behind it behaves. The files have the columns of
the version that was newest when they were written; they are fitted to a later one as they are read.
Nothing refers to them, and nothing here writes or deletes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancewood.data.align import Alignment, align_schema
from lancewood.data.wanted import WantedColumns
from lancewood.engine.addresses import addresses_in, offsets_by_fragment
from lancewood.engine.fragments import open_fragment
from lancewood.engine.homes import NewFile, new_data_files
from lancewood.engine.picking import pick_rows
from lancewood.engine.row_shape import nameless
from lancewood.engine.snapshot import Snapshot
from lancewood.format.arrow import to_arrow_schema
from lancewood.jobs.merging.keys import Key, Positions
from lancewood.jobs.merging.source import SourceRows, portion_rows, rows_at
from lancewood.jobs.rows.blob_values import with_blob_values
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FragmentId
from lancewood.model.manifest import decode_fragment
from lancewood.model.schema import Schema

_SAMPLED = 4 << 20
_SAMPLED_ROWS = 256


@dataclass(frozen=True)
class StagedFiles:
    """Where the rows of a source lie. Pickles."""

    snapshot: Snapshot
    """The version that they were staged for; bare."""
    columns: Schema
    """The columns of the files."""
    raw: tuple[bytes, ...]
    """The files as fragments; the n-th has the id n."""
    rows: tuple[int, ...]
    """How many are in each."""
    bytes: int
    """Of all files together."""

    @classmethod
    def of(cls, snapshot: Snapshot, columns: Schema, fragments: Sequence[Fragment]) -> StagedFiles:
        """The files that executors wrote, in the order of the frame."""
        numbered = [each.numbered(FragmentId(n)) for n, each in enumerate(fragments)]
        return cls(
            snapshot,
            columns,
            tuple(each.message.SerializeToString() for each in numbered),
            tuple(each.physical_rows for each in numbered),
            sum(file.file_size_bytes for each in numbered for file in each.message.files),
        )

    @property
    def row_count(self) -> int:
        return sum(self.rows)

    @property
    def files(self) -> tuple[NewFile, ...]:
        """What is to be removed in the end."""
        return new_data_files(map(self.fragment, range(len(self.raw))))

    def fragment(self, number: int) -> Fragment:
        return Fragment(decode_fragment(self.raw[number], self.snapshot.manifest.name))

    def addresses(self, number: int) -> Positions:
        """Those of all rows of a file."""
        offsets = np.arange(self.rows[number], dtype=np.int64)
        return addresses_in(FragmentId(number), offsets).astype(np.int64)


@dataclass(frozen=True)
class StagedSource(SourceRows):
    """The staged rows as rows of one version of the table. Positions are addresses. Pickles."""

    staged: StagedFiles
    table: Schema
    columns: Schema
    key: Key
    deleted: str | None = None
    """The staged column that says of a row that it deletes the one with its key."""

    def __getstate__(self) -> dict[str, Any]:
        """Without what is worked out again elsewhere."""
        return {each.name: self.__dict__[each.name] for each in fields(self)}

    def check_fit(self) -> None:
        """Raise InvalidInputError if the columns of the files are not those of the table."""
        self._part(self.columns.names)

    @cached_property
    def portion_rows(self) -> int:
        """Told from what rows take in the files, and from a few that are read."""
        width = self.staged.bytes / max(self.staged.row_count, 1)
        if self.staged.raw:
            first = self.staged.addresses(0)[: max(1, min(_SAMPLED_ROWS, int(_SAMPLED / width)))]
            first = first[~self.deletes(first)]
            width = max(width, self.at(first).nbytes / max(len(first), 1))
        return portion_rows(width)

    def at(self, positions: Positions, columns: Sequence[str] | None = None) -> pa.RecordBatch:
        part = self._part(self.columns.names if columns is None else columns)
        if not part.wanted.schema.fields:
            return nameless(len(positions))
        distinct, back = np.unique(positions, return_inverse=True)
        found: list[pa.RecordBatch] = []
        for number, offsets in offsets_by_fragment(distinct.astype(np.uint64)):
            found += self._picked(number, offsets, part)
        return rows_at(pa.Table.from_batches(found, part.alignment.arrow), back)

    def deletes(self, positions: Positions) -> npt.NDArray[np.bool_]:
        """Which of the rows at these positions delete."""
        if self.deleted is None:
            return np.zeros(len(positions), np.bool_)
        said = self.at(positions, [self.deleted]).column(0).fill_null(False)
        mask: npt.NDArray[np.bool_] = said.to_numpy(zero_copy_only=False)
        return mask

    def batches(self, number: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Some columns of all rows of one file, in order; no columns of blobs."""
        part, fragment = self._part(columns), self.staged.fragment(number)
        for batch in open_fragment(self.staged.snapshot, fragment, part.wanted).batches():
            yield part.alignment.cast(batch)

    def _picked(self, number: int, offsets: Positions, part: _Part) -> Iterator[pa.RecordBatch]:
        snapshot, fragment = self.staged.snapshot, self.staged.fragment(number)
        reader = open_fragment(snapshot, fragment, part.wanted)
        for batch in pick_rows(reader, part.wanted, offsets):
            for rows in with_blob_values(snapshot, fragment, batch):
                yield part.alignment.cast(rows)

    def _part(self, names: Sequence[str]) -> _Part:
        kept = frozenset(names)
        known = self._parts.get(kept)
        if known is None:
            stored = _cut(self.staged.columns, kept)
            arrow = to_arrow_schema(stored).remove_metadata()
            ours = () if self.deleted is None else (self.staged.columns.by_name[self.deleted],)
            now = _cut(Schema((*self.columns.fields, *ours)), kept)
            alignment = align_schema(now, arrow) if kept else Alignment(now, arrow)
            known = self._parts[kept] = _Part(WantedColumns(stored), alignment)
        return known

    @cached_property
    def _parts(self) -> dict[frozenset[str], _Part]:
        return {}


class _Part(NamedTuple):
    """Some columns: as they are read, and how they become columns of the table."""

    wanted: WantedColumns
    alignment: Alignment


def _cut(schema: Schema, names: frozenset[str]) -> Schema:
    return Schema(tuple(each for each in schema.fields if each.name in names))

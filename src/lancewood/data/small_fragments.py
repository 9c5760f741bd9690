"""Reading small fragments whole, one batch each, with as little work per file as possible.

A table of very many small fragments spends its time between the codec's calls, not in them. Only
ordinary small fragments are read here; everything else, errors included, is left to
``FragmentReader``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

import pyarrow as pa

from lancewood.data.open_files import OPEN_FILES, OpenFiles, find_file, is_on_disk
from lancewood.data.plan import ColumnPlan, FileProjection
from lancewood.data.reader import FragmentReader, Locate
from lancewood.data.wanted import Layout, WantedColumns, assembled, has_dictionary, layout_of
from lancewood.errors import LancewoodError
from lancewood.model.fragment import DataFile, Fragment


class SmallSizes(NamedTuple):
    """The most of a fragment that is small, and of several that are read as one batch."""

    rows: int
    stored: int
    held: int
    """The most bytes in memory of one fragment."""
    group_rows: int
    group_held: int


TO_READ = SmallSizes(16_384, 1 << 20, 2 << 20, 65_536, 8 << 20)
"""Below these sizes, reading a column along costs less than fetching some of its rows later."""
TO_COMPUTE = SmallSizes(1 << 17, 4 << 20, 8 << 20, 1 << 19, 16 << 20)
"""For batches over which DuckDB computes: a statement costs a millisecond, however few its rows."""
_EXPANSION = 4.0
"""Bytes in memory per stored byte of values of unknown width, until it is measured."""
_KEPT_OPEN = 32
"""Number of files whose readers are kept for the next scan; more would evict others."""


class SmallFragments:
    """Reads the same columns of many fragments. Thread-safe."""

    def __init__(
        self,
        wanted: WantedColumns,
        locate: Locate,
        open_fragment: Callable[[Fragment, WantedColumns], FragmentReader],
        *,
        sizes: SmallSizes = TO_READ,
        open_files: OpenFiles = OPEN_FILES,
    ) -> None:
        """``open_fragment`` makes the reader for unusual fragments."""
        self.sizes = sizes
        self._wanted = wanted
        self._locate = locate
        self._open_fragment = open_fragment
        self._open_files = open_files
        self._plans: dict[Layout, ColumnPlan] = {}
        self._may_keep = _KEPT_OPEN
        self._expansion = _EXPANSION

    @property
    def has_columns(self) -> bool:
        """Whether columns are to be read."""
        return bool(self._wanted.schema.fields)

    def is_near(self, fragment: Fragment) -> bool:
        """Whether its files are on this disk, where reads have no latency."""
        return all(is_on_disk(self._locate(each)[0]) for each in fragment.files)

    def size(self, fragment: Fragment) -> int | None:
        """About how many bytes the fragment takes in memory; None for one that is not small.

        How far values of unknown width expand is learned from the fragments that were read.
        """
        message = fragment.message
        rows = message.physical_rows
        if not 0 < rows <= self.sizes.rows or not self._are_joinable:
            return None
        stored = 0
        for each in message.files:
            if not each.file_size_bytes:
                return None
            stored += each.file_size_bytes
        width, of_unknown_width = self._wanted.width
        size = int(width * rows) + (int(stored * self._expansion) if of_unknown_width else 0)
        read = stored if of_unknown_width else min(stored, size)
        return size if read <= self.sizes.stored and size <= self.sizes.held else None

    def read(self, fragment: Fragment) -> pa.RecordBatch:
        """All physical rows; raises what ``FragmentReader.batches`` raises."""
        try:
            found = self._quickly(fragment)
        except LancewoodError:
            found = None
        found = self._thoroughly(fragment) if found is None else found
        stored = sum(each.file_size_bytes for each in fragment.message.files)
        self._expansion = max(self._expansion, found.nbytes / max(stored, 1))
        return found

    @cached_property
    def _are_joinable(self) -> bool:
        """Whether batches of several fragments can be joined: not with dictionaries, and blobs are
        large."""
        schema = self._wanted.schema
        return not any(
            field.is_blob or has_dictionary(arrow.type)
            for field, arrow in zip(schema.fields, self._wanted.arrow, strict=True)
        )

    def _quickly(self, fragment: Fragment) -> pa.RecordBatch | None:
        """All rows by the fast path; None for an unusual fragment."""
        message, wanted = fragment.message, self._wanted
        layout = layout_of(fragment)
        plan = self._plans.get(layout)
        if plan is None:
            plan = self._plans[layout] = wanted.plan(fragment, layout)
        rows = message.physical_rows
        sources: list[tuple[pa.RecordBatch, FileProjection]] = []
        for each in plan.files:
            file = message.files[each.index]
            location, options = self._locate(DataFile(file))
            located = find_file(location, options, file.file_size_bytes)
            guess = wanted.guess(each)
            is_kept = self._may_keep > 0
            if is_kept:
                self._may_keep -= 1
                reader = self._open_files.borrow(located, guess)
            else:
                reader = self._open_files.open(located, guess)
            facts = reader.facts
            projection = wanted.projection(each, facts, location)
            if projection.paths != guess or projection.transplanted or facts.num_rows != rows:
                return None
            batch = reader.read_whole()
            if batch is None:
                return None
            if is_kept:
                self._open_files.give_back(located, guess, reader)
            sources.append((batch, projection))
        return assembled(wanted, sources, rows)

    def _thoroughly(self, fragment: Fragment) -> pa.RecordBatch:
        reader = self._open_fragment(fragment, self._wanted)
        batches = list(reader.batches())
        return batches[0] if len(batches) == 1 else pa.concat_batches(batches)

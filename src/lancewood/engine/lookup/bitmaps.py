"""BITMAP: every value of a column once, with the rows that have it as a bitmap.

``bitmap_page_lookup.lance`` has the values, a null among them, and for each a tree of roaring
bitmaps: of row addresses, or of stable row ids.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from lancewood.engine.lookup.index_files import KEPT, IndexFile, open_index_file
from lancewood.engine.lookup.value_tests import Budget, Ints, ValueTests
from lancewood.engine.snapshot import Snapshot
from lancewood.model.bitmap import decode_bitmap_tree, numbers_in
from lancewood.model.index import Index

_Tree = Mapping[int, BitMap]
"""Numbers of 64 bits: their lower halves by their upper ones."""
_FILE = "bitmap_page_lookup.lance"
_KEYS, _BITMAPS = ("keys",), ("bitmaps",)
_MOST_VALUES = 4_096
"""Number of bitmaps that are read for one lookup at most."""


@dataclass(frozen=True)
class Bitmaps:
    """One segment of a BITMAP index."""

    file: IndexFile

    @classmethod
    def open(cls, snapshot: Snapshot, index: Index) -> Bitmaps | None:
        """The segment; None where the file is missing or not laid out as we know it."""
        file = open_index_file(snapshot, index, _FILE, (*_KEYS, *_BITMAPS))
        if file is None or file.type_of("keys") is None or file.type_of("bitmaps") != "binary":
            return None
        return cls(file)

    def find(self, tests: ValueTests, budget: Budget) -> npt.NDArray[np.uint64] | int | None:
        """The rows that may be wanted, in no order; if they are too many, how many there are at
        least, and None if values cannot be compared. Raises FormatError for a file that
        contradicts itself."""
        if not self.file.num_rows:
            return np.empty(0, np.uint64)
        keys = KEPT.made(self.file, "keys", self._load)
        if not tests.fit(keys.type):
            return None
        wanted = np.flatnonzero(tests.meet(keys))
        if len(wanted) > _MOST_VALUES:
            return len(wanted)
        trees = self._read(wanted)
        count = sum(len(lows) for each in trees for lows in each.values())
        if count > budget.named:
            return count
        return np.concatenate([np.empty(0, np.uint64), *map(_numbers, trees)])

    def _load(self) -> tuple[pa.Array, int]:
        keys = self.file.read(_KEYS, 0, self.file.num_rows).column(0)
        return keys, keys.nbytes

    def _read(self, wanted: Ints) -> list[_Tree]:
        known = {each: KEPT.get(self.file, each) for each in wanted.tolist()}
        missing = [each for each, tree in known.items() if tree is None]
        if missing:
            read = self.file.take(_BITMAPS, missing).column(0)
            for each, data in zip(missing, read, strict=True):
                raw = data.as_buffer() if data.is_valid else b""
                known[each] = decode_bitmap_tree(bytes(raw), f"a bitmap of {self.file.name}")
                KEPT.put(self.file, each, known[each], len(raw) if data.is_valid else 0)
        return list(known.values())


def _numbers(tree: _Tree) -> npt.NDArray[np.uint64]:
    parts = [
        numbers_in(lows).astype(np.uint64) + (np.uint64(high) << np.uint64(32))
        for high, lows in tree.items()
    ]
    return np.concatenate([np.empty(0, np.uint64), *parts])

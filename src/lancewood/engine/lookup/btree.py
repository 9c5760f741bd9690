"""BTREE: pages of sorted values with the rows that have them, and the ends of every page.

``page_lookup.lance`` has the least and the largest value of each page, how many of its values are
null and where it is; ``page_data.lance`` the values, nulls first, and for each the row address.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import starmap
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lancewood.engine.base import Addresses
from lancewood.engine.lookup.index_files import KEPT, IndexFile, open_index_file
from lancewood.engine.lookup.value_tests import (
    Budget,
    Ints,
    Numbers,
    Ranges,
    ValueTests,
    as_numbers,
)
from lancewood.engine.snapshot import Snapshot
from lancewood.model.index import Index

_LOOKUP, _DATA = "page_lookup.lance", "page_data.lance"
_ENDS = ("min", "max", "null_count", "page_idx")
_VALUES = ("values", "ids")
_PAGE_ROWS, _IN_FILES = "batch_size", "range_partitioned"
_MOST_PAGE_ROWS = 1 << 24
_FEW_PAGES = 16
_MOST_PAGES = 2
"""One of this many pages is read at most, or of those that the rows which are scanned otherwise
would fill: reading more costs as much as looking at all of them."""
_GAP = 2
"""Number of unwanted pages that are read along to save a call of the codec."""
_RUN = 32
"""Number of pages that are read with one call at most."""


class _Page(NamedTuple):
    values: pa.Array
    addresses: Addresses
    numbers: Numbers | None
    """The values as rising numbers, for a binary search; None where they are no whole numbers."""


@dataclass(frozen=True)
class _Pages:
    """What is known of the pages of a segment before one is read."""

    ranges: Ranges
    numbers: Ints
    """The position of each page in the data."""
    page_rows: int


@dataclass(frozen=True)
class BTree:
    """One segment of a BTREE index."""

    lookup: IndexFile
    data: IndexFile

    @classmethod
    def open(cls, snapshot: Snapshot, index: Index) -> BTree | None:
        """The segment; None where a file is missing or not laid out as we know it."""
        lookup = open_index_file(snapshot, index, _LOOKUP, _ENDS)
        data = None if lookup is None else open_index_file(snapshot, index, _DATA, _VALUES)
        if lookup is None or data is None:
            return None
        kind = data.type_of("values")
        if kind is None or data.type_of("ids") != "uint64":
            return None
        if lookup.facts.schema.metadata.get(_IN_FILES, b"false") != b"false":
            return None
        expected = (kind, kind, "uint32", "uint32")
        return cls(lookup, data) if tuple(map(lookup.type_of, _ENDS)) == expected else None

    @property
    def num_rows(self) -> int:
        """Number of rows that the segment names, gone ones included."""
        return self.data.num_rows

    def find(self, tests: ValueTests, budget: Budget) -> Addresses | int | None:
        """The rows that may be wanted, in no order; if they are too many, how many there are at
        least, and None if values cannot be compared. Raises FormatError for files that contradict
        themselves."""
        if not self.num_rows:
            return np.empty(0, np.uint64)
        pages = KEPT.made(self.lookup, "pages", self._load)
        if not tests.fit(pages.ranges.lows.type):
            return None
        wanted = np.flatnonzero(tests.reach(pages.ranges))
        # Between two values, all pages but those at the ends are wanted whole.
        within = 0 if tests.is_list else (len(wanted) - 2) * pages.page_rows
        scanned = min(len(pages.numbers), budget.scanned // pages.page_rows)
        if within > budget.named or len(wanted) > max(_FEW_PAGES, scanned // _MOST_PAGES):
            return max(within, len(wanted))
        found = self._rows(tests, pages, wanted)
        return found if len(found) <= budget.named else len(found)

    def _rows(self, tests: ValueTests, pages: _Pages, wanted: Ints) -> Addresses:
        found = [np.empty(0, np.uint64)]
        for page in self._read(pages, wanted):
            if tests.numbers is None or page.numbers is None:
                found.append(page.addresses[tests.meet(page.values)])
            else:
                found.append(page.addresses[_locations(page.numbers, tests.numbers)])
        return np.concatenate(found)

    def _load(self) -> tuple[_Pages, int]:
        lookup, rows = self.lookup, self.num_rows
        written = lookup.facts.schema.metadata.get(_PAGE_ROWS, b"")
        page_rows = int(written) if written.isdigit() else 0
        if not 0 < page_rows <= _MOST_PAGE_ROWS:
            raise lookup.broken(f"says that a page has {written!r} rows")
        count = -(-rows // page_rows)
        if lookup.num_rows != count:
            raise lookup.broken(f"has {lookup.num_rows} pages of {page_rows} rows for {rows} rows")
        lows, highs, nulls, numbers = lookup.read(_ENDS, 0, count).columns
        at = numbers.to_numpy().astype(np.int64)
        if not np.array_equal(np.sort(at), np.arange(count)):
            raise lookup.broken("does not name every page once")
        sizes = np.full(count, page_rows, np.int64)
        sizes[at == count - 1] = rows - (count - 1) * page_rows
        ranges = Ranges.of(lows, highs, sizes, nulls.to_numpy().astype(np.int64))
        return _Pages(ranges, at, page_rows), ranges.size + at.nbytes

    def _read(self, pages: _Pages, wanted: Ints) -> list[_Page]:
        """Pages, from what is kept or with as few calls of the codec as pay."""
        owners = dict(zip(pages.numbers[wanted].tolist(), wanted.tolist(), strict=True))
        known = {each: KEPT.get(self.data, each) for each in owners}
        missing = sorted(each for each, page in known.items() if page is None)
        for first, last in _runs(missing):
            known |= self._load_run(pages, first, last, owners)
        return list(known.values())

    def _load_run(
        self, pages: _Pages, first: int, last: int, owners: dict[int, int]
    ) -> dict[int, _Page]:
        """Read the pages from the first to the last, and keep those that are asked for."""
        size = pages.page_rows
        batch = self.data.read(_VALUES, first * size, min((last + 1) * size, self.num_rows))
        made = {}
        for number in range(first, last + 1):
            if number in owners:
                part = batch.slice((number - first) * size, size)
                values = part.column(0)
                page = _Page(values, part.column(1).to_numpy(), as_numbers(values))
                self._check(pages, owners[number], page)
                made[number] = page
                KEPT.put(self.data, number, page, part.nbytes)
        return made

    def _check(self, pages: _Pages, at: int, page: _Page) -> None:
        """Raise FormatError for a page that is not what the other file says of it."""
        ranges, values = pages.ranges, page.values
        ends = ((values[0], ranges.lows[at]), (values[-1], ranges.highs[at]))
        is_told = values.null_count == ranges.nulls[at] and all(starmap(_are_same, ends))
        if not is_told or (page.numbers is not None and not _rises(page.numbers)):
            raise self.data.broken(
                f"has a page {pages.numbers[at]} that is not the one in {self.lookup.name}"
            )


def _locations(numbers: Numbers, wanted: Numbers) -> Ints:
    """Where in a page there are wanted numbers; both rise."""
    low, high = np.searchsorted(wanted, numbers[0]), np.searchsorted(wanted, numbers[-1], "right")
    begins = np.searchsorted(numbers, wanted[low:high])
    ends = np.searchsorted(numbers, wanted[low:high], "right")
    return np.concatenate([np.empty(0, np.int64), *map(np.arange, begins, ends)])


def _rises(numbers: Numbers) -> bool:
    return bool((numbers[1:] >= numbers[:-1]).all())


def _are_same(one: pa.Scalar, other: pa.Scalar) -> bool:
    """Whether two values are equal, or both null or NaN."""
    return bool(one.equals(other)) or str(one) == str(other)


def _runs(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The first and last of pages that are read together."""
    first = last = None
    for each in numbers:
        if first is None or last is None:
            first = last = each
        elif each - last > _GAP + 1 or each - first >= _RUN:
            yield first, last
            first = last = each
        else:
            last = each
    if first is not None and last is not None:
        yield first, last

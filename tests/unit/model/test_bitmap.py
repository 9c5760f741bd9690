"""Bitmaps as stretches, without spelling out what a few bytes stand for."""

from __future__ import annotations

import tracemalloc
from random import Random

import pytest
from pyroaring import BitMap

from lancewood.errors import InvalidInputError
from lancewood.model.bitmap import bitmap_runs
from lancewood.model.rowids import RowIdSequence, RowVersions

BLOCK = 1 << 20


def runs(bitmap: BitMap) -> list[tuple[int, int]]:
    begins, ends = bitmap_runs(bitmap)
    return list(zip(begins.tolist(), ends.tolist(), strict=True))


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ([], []),
        ([0], [(0, 1)]),
        ([(1 << 32) - 1], [((1 << 32) - 1, 1 << 32)]),
        ([1, 2, 3, 7, 9, 10], [(1, 4), (7, 8), (9, 11)]),
        (
            [0, BLOCK - 1, BLOCK, BLOCK + 1, 5 * BLOCK],
            [(0, 1), (BLOCK - 1, BLOCK + 2), (5 * BLOCK, 5 * BLOCK + 1)],
        ),
        (range(3, 3 * BLOCK + 5), [(3, 3 * BLOCK + 5)]),
        (range(BLOCK), [(0, BLOCK)]),
        (range(BLOCK, 2 * BLOCK), [(BLOCK, 2 * BLOCK)]),
    ],
)
def test_stretches_are_found_wherever_they_lie(
    numbers: list[int], expected: list[tuple[int, int]]
) -> None:
    assert runs(BitMap(numbers)) == expected


def test_four_billion_numbers_are_one_stretch_and_little_memory() -> None:
    """Fuzzing found it: a deletion file of 900 kB was spelled out in 34 GB."""
    everything = BitMap(range(1 << 32))
    tracemalloc.start()
    try:
        assert runs(everything) == [(0, 1 << 32)]
        ids = RowIdSequence.from_range(5, 1 << 32)
        assert len(ids.without(everything)) == 0
        everything.discard(7)
        assert list(ids.without(everything)) == [12]
        assert RowVersions.uniform(3, 1 << 32).values_at([0, (1 << 32) - 1]).tolist() == [3, 3]
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("seed", range(20))
def test_dropping_a_bitmap_and_a_list_of_offsets_is_the_same(seed: int) -> None:
    rng = Random(seed)
    ids = RowIdSequence.from_values([rng.randrange(40) for _ in range(200)])
    gone = sorted({rng.randrange(200) for _ in range(rng.choice((0, 1, 60, 190)))})
    assert ids.without(BitMap(gone)) == ids.without(gone)


def test_an_offset_beyond_the_rows_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="row offset 5 asked of 5 rows"):
        RowIdSequence.from_range(0, 5).without(BitMap([5]))

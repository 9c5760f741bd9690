from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lancewood.model.rowids import RowIdSequence

IDS = st.lists(st.integers(0, 60), max_size=30, unique=True)
RUNS = st.builds(lambda start, count: list(range(start, start + count)), *[st.integers(0, 40)] * 2)


@given(IDS | RUNS, st.integers(0, 70), st.integers(0, 100))
def test_ids_from_one_on_grow_and_the_others_stay(ids: list[int], start: int, by: int) -> None:
    moved = RowIdSequence.from_values(ids).shifted(start, by)
    expected = [each + by if each >= start else each for each in ids]
    assert list(moved) == expected
    assert np.array_equal(RowIdSequence.decode(moved.encode()).to_numpy(), expected)


def test_a_sequence_that_is_not_touched_comes_back_as_it_is() -> None:
    ids = RowIdSequence.from_range(3, 5)
    assert ids.shifted(0, 0) is ids
    assert list(ids.shifted(8, 4)) == [3, 4, 5, 6, 7]

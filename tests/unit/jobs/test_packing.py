from __future__ import annotations

import pytest

from lancewood.jobs.job import chunks, shares


def test_chunks_hold_every_item_once_and_the_last_may_be_shorter() -> None:
    assert chunks("abcde", 2) == [("a", "b"), ("c", "d"), ("e",)]
    assert chunks([], 2) == []


@pytest.mark.parametrize(
    ("items", "slots", "most", "sizes"),
    [
        (0, 2, 10, []),
        (3, 2, 10, [1, 1, 1]),
        (16, 2, 10, [2] * 8),
        (17, 2, 10, [3, 3, 3, 3, 3, 2]),
        (100, 1, 10, [10] * 10),
        (3, 0, 10, [3]),
    ],
)
def test_shares_are_a_few_for_each_slot_and_never_too_large(
    items: int, slots: int, most: int, sizes: list[int]
) -> None:
    found = shares(range(items), slots, most)
    assert [len(each) for each in found] == sizes
    assert [each for some in found for each in some] == list(range(items))

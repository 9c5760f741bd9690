"""How the fragments of a read become tasks, and batches of a size that suits Spark."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancewood.spark.reading.plan import (
    LEAST,
    MOST,
    MOST_MESSAGE,
    MOST_TASKS,
    OPENING,
    count_tasks,
    cut_fragments,
)
from lancewood.spark.reading.task import FEW_BYTES, FEW_ROWS, MOST_BYTES, TablePortion, sized


def cuts(
    rows: list[int], width: float = 1.0, slots: int = 2, size: int = 100, split: bool = True
) -> list[float]:
    numbers, sizes = np.array(rows, np.int64), np.full(len(rows), size, np.int64)
    found: list[float] = cut_fragments(numbers, width, sizes, slots, split=split).tolist()
    return found


def test_little_work_is_one_task() -> None:
    assert cuts([10, 0, 20]) == [0, 3]
    assert cuts([]) == [0]


def test_one_large_fragment_feeds_every_slot() -> None:
    assert cuts([100_000_000], width=40, slots=16) == pytest.approx(np.arange(65) / 64)


def test_fragments_of_one_size_are_not_cut_without_need() -> None:
    assert cuts([10 * LEAST] * 8) == list(range(9))
    assert cuts([2 * LEAST] * 80) == list(range(0, 81, 10))


def test_tasks_have_whole_fragments_where_rows_are_not_known() -> None:
    found = cuts([100 * LEAST, 1, 1, 100 * LEAST], split=False)
    assert all(each == int(each) for each in found)
    assert (found[0], found[-1]) == (0, 4)


def test_many_tiny_fragments_are_few_tasks() -> None:
    found = cuts([10] * 100_000, slots=100)
    assert len(found) - 1 == 400


@pytest.mark.parametrize(
    ("megabytes", "slots", "tasks"),
    [(1, 4, 1), (70, 4, 3), (96, 4, 4), (97, 4, 8), (250, 4, 12), (5000, 4, 16), (5000, 100, 300)],
)
def test_tasks_beyond_the_slots_fill_whole_rounds(megabytes: int, slots: int, tasks: int) -> None:
    assert count_tasks(megabytes << 20, slots) == tasks


def test_a_huge_table_has_tasks_that_can_be_run_again() -> None:
    assert count_tasks(100 * MOST, slots=1) == 100


def test_a_table_that_claims_to_be_beyond_all_measure_is_not_cut_into_billions_of_tasks() -> None:
    assert len(cuts([1 << 32] * 10, width=float(1 << 63))) == MOST_TASKS + 1


def test_fragment_with_a_large_message_is_alone() -> None:
    sizes = np.array([10, 3 * MOST_MESSAGE, 10, 10], np.int64)
    found = cut_fragments(np.ones(4, np.int64), 1.0, sizes, 1, split=True)
    assert found.tolist() == [0, 1, 2, 4]


def test_message_is_bounded_however_small_the_fragments_are() -> None:
    found = cuts([1] * 10_000, slots=1, size=1_000, width=0.0)
    counts = np.diff(found)
    assert counts.max() * 1_000 <= MOST_MESSAGE + 1_000
    assert counts.sum() == 10_000


@given(
    rows=st.lists(st.integers(0, 10**9), max_size=40),
    width=st.floats(1, 10**5),
    slots=st.integers(1, 64),
    size=st.integers(1, 10**5),
    split=st.booleans(),
)
def test_cuts_ascend_from_the_first_fragment_to_the_end(
    rows: list[int], width: float, slots: int, size: int, split: bool
) -> None:
    found = cuts(rows, width, slots, size, split)
    assert (found[0], found[-1]) == (0, len(rows))
    assert all(a < b for a, b in pairwise(found))
    assert split or all(each == int(each) for each in found)
    cost = sum(each * width + OPENING for each in rows)
    held = len(rows) * size // MOST_MESSAGE
    assert len(found) - 1 <= count_tasks(cost, slots) + held


@given(rows=st.lists(st.integers(0, 10**9), min_size=1, max_size=40), slots=st.integers(1, 64))
def test_no_task_has_much_more_than_its_share(rows: list[int], slots: int) -> None:
    costs = np.array(rows, float) * 8 + OPENING
    ends = np.concatenate(([0.0], np.cumsum(costs)))
    found = cuts(rows, 8.0, slots)
    share = ends[-1] / count_tasks(ends[-1], slots)
    spans = np.diff(np.interp(found, np.arange(len(ends)), ends))
    assert spans.max() <= 2 * share + 1


def test_portion_survives_its_message() -> None:
    portion = TablePortion([b"one", b"", b"three" * 100], {7: (0, 12)})  # type: ignore[dict-item]
    assert TablePortion.decode(portion.encode()) == portion
    assert len(portion.encode()) < 300


# Batches


def stream(*sizes: int, width: int = 8) -> list[pa.RecordBatch]:
    """Batches of so many rows, each of ``width`` bytes, with running numbers."""
    made, at = [], 0
    for size in sizes:
        columns = {"n": pa.array(range(at, at + size), pa.int64())}
        if width > 8:
            columns["wide"] = pa.array([bytes(width - 8)] * size, pa.binary(width - 8))
        made.append(pa.record_batch(columns))
        at += size
    return made


def numbers(batches: list[pa.RecordBatch]) -> list[int]:
    return [each for batch in batches for each in batch["n"].to_pylist()]


def test_small_batches_are_joined() -> None:
    found = list(sized(iter(stream(*[100] * 200))))
    assert [each.num_rows for each in found] == [8200, 8200, 3600]
    assert numbers(found) == list(range(20_000))


def test_large_batch_is_cut_by_bytes_without_a_copy() -> None:
    (batch,) = stream(1000, width=20_000)
    found = list(sized(iter([batch])))
    assert len(found) == 5
    assert max(each.nbytes for each in found) <= MOST_BYTES
    assert found[1]["n"].buffers()[1].address == batch["n"].buffers()[1].address
    assert numbers(found) == list(range(1000))


def test_batch_of_a_good_size_stays_as_it_is() -> None:
    given = stream(FEW_ROWS, 50_000, FEW_ROWS)
    found = list(sized(iter(given)))
    assert all(a is b for a, b in zip(found, given, strict=True))


def test_few_wide_rows_are_not_held_back() -> None:
    asked = []

    def given() -> Iterator[pa.RecordBatch]:
        for batch in stream(4, 4, width=FEW_BYTES):
            asked.append(batch)
            yield batch

    found = next(sized(given()))
    assert len(asked) == 1
    assert found["n"].to_pylist() == [0, 1, 2, 3]


@given(
    sizes=st.lists(st.integers(0, 3 * FEW_ROWS), max_size=12),
    most=st.none() | st.integers(1, 20_000),
)
def test_rows_and_their_order_are_kept(sizes: list[int], most: int | None) -> None:
    given = stream(*sizes)
    found = list(sized(iter(given), most))
    assert numbers(found) == list(range(sum(sizes)))
    assert most is None or all(each.num_rows <= most for each in found)


def test_rows_without_a_column_pass() -> None:
    nothing = pa.RecordBatch.from_struct_array(
        pa.StructArray.from_buffers(pa.struct([]), 70_000, [None])
    )
    assert [each.num_rows for each in sized(iter([nothing, nothing]))] == [70_000, 70_000]
    assert sum(each.num_rows for each in sized(iter([nothing]), 30_000)) == 70_000

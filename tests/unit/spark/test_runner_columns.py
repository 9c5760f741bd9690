"""Rows that Spark has computed find back to their fragments, or are found out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from lancewood.errors import InvalidInputError
from lancewood.spark.columns.add import ComputedRows
from lancewood.spark.columns.expressions import HIDDEN, _check_row_by_row, _columns_in

SCHEMA = pa.schema([*zip(HIDDEN, (pa.binary(), pa.int64()), strict=True), ("c0", pa.int64())])


def batches(*rows: tuple[bytes | None, int, int, int], at_once: int = 2) -> Iterator[Any]:
    """Of each row the task, the fragment, the row in there, and the value."""
    placed = [(task, (fragment << 40) + row, value) for task, fragment, row, value in rows]
    for start in range(0, len(rows), at_once):
        columns = zip(*placed[start : start + at_once], strict=True)
        yield pa.RecordBatch.from_arrays(
            [pa.array(each, kind) for each, kind in zip(columns, SCHEMA.types, strict=True)],
            schema=SCHEMA,
        )


def values(rows: ComputedRows, number: int) -> list[int]:
    return [each for batch in rows.of_fragment(number) for each in batch["c0"].to_pylist()]


@pytest.mark.parametrize("at_once", [1, 2, 3, 10])
def test_rows_are_given_by_fragment_whatever_the_batches(at_once: int) -> None:
    rows = ComputedRows(
        batches(
            (b"first", 0, 0, 10),
            (None, 0, 1, 11),
            (None, 0, 2, 12),
            (None, 2, 0, 20),
            (b"second", 3, 0, 30),
            (None, 3, 1, 31),
            at_once=at_once,
        )
    )
    assert rows.next_task() == b"first"
    assert [values(rows, number) for number in (0, 1, 2)] == [[10, 11, 12], [], [20]]
    assert rows.next_task() == b"second"
    assert values(rows, 3) == [30, 31]
    assert rows.next_task() is None


@pytest.mark.parametrize(
    "mixed_up",
    [
        [(b"t", 0, 0, 1), (None, 0, 2, 3)],
        [(b"t", 0, 1, 2), (None, 0, 0, 1)],
        [(b"t", 0, 0, 1), (None, 0, 0, 1)],
    ],
)
def test_rows_that_were_lost_moved_or_doubled_are_found_out(mixed_up: Any) -> None:
    rows = ComputedRows(batches(*mixed_up))
    with pytest.raises(InvalidInputError, match="in another order"):
        values(rows, 0)


def test_partition_that_does_not_begin_with_a_task_is_found_out() -> None:
    with pytest.raises(InvalidInputError, match="in another order"):
        ComputedRows(batches((None, 0, 1, 2))).next_task()


def test_columns_are_found_in_a_plan_by_name() -> None:
    plan = "Project [(X#21 + cast(other name#3 as double)) AS c0#23]\n+- LogicalRDD [x#21, y#22]\n"
    assert list(_columns_in(plan, ["x", "y", "other name"])) == ["x", "other name"]


def test_plan_that_is_cut_short_may_read_every_column() -> None:
    plan = "Project [struct(a, a#1, ... 40 more fields) AS c0#23]\n+- LogicalRDD [a#1, b#2]\n"
    assert list(_columns_in(plan, ["a", "b"])) == ["a", "b"]


@pytest.mark.parametrize(
    ("plan", "node"),
    [
        ("Aggregate [sum(x#1) AS c0#2]\n+- LogicalRDD [x#1], false", "an Aggregate"),
        ("Project [c0#2]\n+- Generate explode(v#1)\n   +- LogicalRDD [v#1]", "a Generate"),
        ("Project [s#2 AS c0#3]\n:  +- Range (0, 3)\n+- LocalRelation <empty>, [x#1]", "a Range"),
    ],
)
def test_plan_with_more_than_a_projection_is_refused(plan: str, node: str) -> None:
    with pytest.raises(InvalidInputError, match=f"Spark plans {node} for it"):
        _check_row_by_row("new", plan)


def test_plan_of_projections_alone_is_row_by_row() -> None:
    _check_row_by_row(
        "new", "Project [f(x#1) AS c0#2]\n+- Project [x#1]\n   +- LocalRelation [x#1]"
    )

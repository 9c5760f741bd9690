"""Values of live rows at their places among all rows of a fragment."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, cast

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyroaring import BitMap

from lancewood.engine.rows import facts as module
from lancewood.engine.rows.facts import Portions, RowFacts, spread
from lancewood.engine.snapshot.snapshot import Snapshot
from lancewood.errors import InvalidInputError
from lancewood.format.schema import schema_from_arrow
from lancewood.model.fragment import Fragment
from lancewood.proto import table_pb2

ARROW = pa.schema(
    [
        pa.field("a", pa.int64()),
        pa.field("b", pa.string(), nullable=False),
        pa.field("p", pa.struct([("x", pa.int64())])),
    ]
)
FIELDS = schema_from_arrow(ARROW).fields


def facts_of(rows: int, deleted: set[int]) -> RowFacts:
    message = table_pb2.DataFragment(id=3, physical_rows=rows)
    if deleted:
        message.deletion_file.num_deleted_rows = len(deleted)
    facts = RowFacts(cast(Snapshot, None), Fragment(message))
    facts.__dict__["deleted"] = BitMap(deleted)
    return facts


def batches_of(numbers: list[int], cuts: list[int]) -> list[pa.RecordBatch]:
    columns = [
        pa.array(numbers, pa.int64()),
        pa.array([f"b{each}" for each in numbers]),
        pa.array([{"x": each} for each in numbers], pa.struct([("x", pa.int64())])),
    ]
    whole = pa.RecordBatch.from_arrays(columns, schema=ARROW)
    edges = sorted({0, len(numbers), *(min(each, len(numbers)) for each in cuts)})
    return [whole.slice(low, high - low) for low, high in pairwise(edges)]


@given(
    rows=st.integers(1, 40),
    deleted=st.sets(st.integers(0, 39)),
    cuts=st.lists(st.integers(0, 40), max_size=5),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_live_values_stand_at_their_places(
    monkeypatch: pytest.MonkeyPatch, rows: int, deleted: set[int], cuts: list[int]
) -> None:
    monkeypatch.setattr(module, "_WINDOW", 7)
    deleted = {each for each in deleted if each < rows}
    live = [each for each in range(rows) if each not in deleted]
    facts = facts_of(rows, deleted)
    if not live:
        with pytest.raises(InvalidInputError, match="all rows of fragment 3 are deleted"):
            list(spread(facts, batches_of(live, cuts), FIELDS))
        return
    got = pa.Table.from_batches(spread(facts, batches_of(live, cuts), FIELDS), ARROW)
    assert got.num_rows == rows
    for at, row in enumerate(got.to_pylist()):
        if at in deleted:
            assert row == {"a": None, "b": f"b{live[0]}", "p": {"x": live[0]}}
        else:
            assert row == {"a": at, "b": f"b{at}", "p": {"x": at}}


@pytest.mark.parametrize(("count", "word"), [(3, "fewer"), (5, "more")])
def test_more_or_fewer_values_than_live_rows_are_refused(count: int, word: str) -> None:
    with pytest.raises(InvalidInputError, match=f"fragment 3 are {word} than its live rows"):
        list(spread(facts_of(6, {0, 5}), batches_of(list(range(count)), []), FIELDS))


def test_portions_give_as_many_rows_as_are_asked_for() -> None:
    portions = Portions(batches_of(list(range(7)), [0, 2, 3]))

    def taken(rows: int) -> list[Any]:
        return [each for batch in portions.take(rows) for each in batch.column(0).to_pylist()]

    assert taken(1) == [0]
    assert taken(0) == []
    first = portions.peek()
    assert first is not None
    assert first.column(0).to_pylist() == [1]
    assert taken(4) == [1, 2, 3, 4]
    assert taken(9) == [5, 6]
    assert portions.peek() is None
    assert taken(1) == []

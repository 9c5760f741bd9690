"""Failing rows on executors: counted, shown in a few words, kept up to a size."""

from __future__ import annotations

import datetime as dt
import decimal
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lancewood as lw
from lancewood.pipeline.checks import kind as gathering
from lancewood.pipeline.checks.running import Keeping
from lancewood.pipeline.checks.tables import MOST_BYTES, cell_text, cut_cells

pytest.importorskip("pyspark", reason="the partition is asked of pyspark")


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (None, pa.int64(), "null"),
        (b"x" * 1234, pa.binary(), "1,234 bytes"),
        (b"x", pa.large_binary(), "1 byte"),
        (True, pa.bool_(), "true"),
        (1.5, pa.float32(), "1.5"),
        (decimal.Decimal("1.20"), pa.decimal128(5, 2), "1.20"),
        (dt.date(2026, 1, 2), pa.date32(), "2026-01-02"),
        (dt.datetime(2026, 1, 2, 3), pa.timestamp("us"), "2026-01-02 03:00:00"),
        ("two\nlines\x00", pa.string(), "two lines "),
        ("x" * 200, pa.string(), "x" * 79 + "…"),
        ([1, None], pa.list_(pa.int8()), "[1, null]"),
        (list(range(768)), pa.list_(pa.int16()), "[0, 1, 2, 3, 4, … 768 in all]"),
        ([0.5] * 8, pa.list_(pa.float32(), 8), "[0.5, 0.5, 0.5, 0.5, 0.5, … 8 in all]"),
        (
            {"a": 1, "b": [b"12"]},
            pa.struct({"a": pa.int8(), "b": pa.list_(pa.binary())}),
            "{a: 1, b: [2 bytes]}",
        ),
        ([("k", 1)], pa.map_(pa.string(), pa.int8()), "{k: 1}"),
        ([[[[1]]]], pa.list_(pa.list_(pa.list_(pa.list_(pa.int8())))), "[[[…]]]"),
    ],
)
def test_value_is_told_in_a_few_words(value: Any, kind: pa.DataType, text: str) -> None:
    assert cell_text(pa.array([value], kind)[0]) == text


def test_large_cells_are_cut_and_others_stay() -> None:
    long_text, many = "é" * MOST_BYTES, list(range(MOST_BYTES))
    rows = pa.record_batch(
        {
            "text": [long_text, "short", None],
            "bytes": [b"1" * (MOST_BYTES + 1), b"2", None],
            "list": [[1], many, None],
            "number": [1, 2, 3],
        }
    )
    kept = cut_cells(rows).to_pylist()
    assert len(kept[0]["text"].encode()) <= MOST_BYTES
    assert long_text.startswith(kept[0]["text"])
    assert [len(kept[0]["bytes"]), kept[0]["list"]] == [MOST_BYTES, [1]]
    assert kept[1] == {"text": "short", "bytes": b"2", "list": None, "number": 2}
    assert kept[2] == {"text": None, "bytes": None, "list": None, "number": 3}


def numbers(*values: int) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(values, pa.int64())})


def seen(partition: int, most: int, batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """What the task of a partition answers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gathering, "_partition", lambda: partition)
        return list(gathering._seen(most, "n", iter(batches)))


def joined(most: int, answers: list[pa.RecordBatch]) -> dict[str, Any]:
    (batch,) = gathering._joined(most, iter(answers))
    (answer,) = batch.to_pylist()
    kept = pa.ipc.open_stream(answer["kept"]).read_all() if answer["kept_rows"] else None
    return {**answer, "kept": [] if kept is None else kept["n"].to_pylist()}


@given(st.data(), st.integers(0, 30))
def test_rows_are_counted_exactly_and_the_first_are_kept_whoever_answers_first(
    data: st.DataObject, most: int
) -> None:
    parts = data.draw(
        st.lists(st.lists(st.lists(st.integers(0, 99), max_size=9), max_size=4), max_size=6)
    )
    answers = [
        each
        for at, part in enumerate(parts)
        for each in seen(at, most, [numbers(*values) for values in part])
    ]
    found = joined(most, data.draw(st.permutations(answers)))
    rows = [value for part in parts for values in part for value in values]
    assert (found["rows"], found["weight"]) == (len(rows), sum(rows))
    assert found["kept"] == rows[:most]
    assert json.loads(found["shown"]) == [[str(each)] for each in rows[: gathering.MOST_SHOWN]]


def test_wide_rows_are_kept_up_to_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "_MOST_BYTES_OF_A_TASK", 10_000)
    rows = pa.record_batch({"n": list(range(100)), "text": ["x" * 1000] * 100})
    (answer,) = seen(0, 100, [rows, rows])
    (told,) = answer.to_pylist()
    assert told["rows"] == 200
    assert 1 <= told["kept_rows"] <= 10


def test_kept_rows_are_a_table_whose_name_is_that_of_the_check(tmp_path: Path) -> None:
    keeping = Keeping(tmp_path)
    rows = pa.table({"n": [1, 2]})
    locations = [keeping.keep(each, rows) for each in ("photos.id unique", "a:b", "a*b", "A_b")]
    assert [Path(each).name for each in locations] == [
        "photos.id unique.lance",
        "a_b.lance",
        "a_b 2.lance",
        "A_b 3.lance",
    ]
    assert lw.open(locations[2]).scan().to_arrow() == rows
    keeping.clear()
    assert not list(tmp_path.iterdir())

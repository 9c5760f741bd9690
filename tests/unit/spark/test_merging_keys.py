"""Keys as Spark joins them, and the tasks that a merge is cut into."""

from __future__ import annotations

from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lancewood as lw
from lancewood.format.schema import schema_from_arrow
from lancewood.jobs.merge_into.keys import Key, KeyIndex, resolve_key
from lancewood.spark.merge_into import planning
from lancewood.spark.merge_into.keys import code_types, coded_ddl, coded_schema, encode_key
from lancewood.spark.merge_into.planning import plan_changes, source_messages, table_messages
from lancewood.spark.merge_into.staged_source import StagedFiles, StagedSource
from lancewood.spark.reading.task import TablePortion

_names = count()

KINDS = [
    pa.bool_(),
    pa.int8(),
    pa.uint8(),
    pa.int32(),
    pa.uint32(),
    pa.int64(),
    pa.uint64(),
    pa.string(),
    pa.large_string(),
    pa.binary(),
    pa.large_binary(),
    pa.binary(2),
    pa.date32(),
    pa.date64(),
    pa.time32("ms"),
    pa.time64("ns"),
    pa.timestamp("s"),
    pa.timestamp("ns", "Europe/Berlin"),
    pa.duration("us"),
    pa.decimal128(12, 3),
    pa.decimal256(50, 10),
    pa.dictionary(pa.int8(), pa.string()),
]


def some(kind: pa.DataType, numbers: list[int | None]) -> pa.Array:
    """Values of a type, one for each number, the ends of its range among them."""
    if pa.types.is_dictionary(kind):
        return some(pa.string(), numbers).dictionary_encode().cast(kind)
    if pa.types.is_decimal(kind):
        return pa.array(numbers, pa.int64()).cast(pa.decimal128(19, 0)).cast(kind)
    if pa.types.is_boolean(kind):
        return pa.array([None if n is None else n % 2 == 1 for n in numbers], kind)
    if pa.types.is_integer(kind):
        ends = np.iinfo(kind.to_pandas_dtype())
        values = {0: ends.min, 1: ends.max}
        return pa.array([None if n is None else int(values.get(n, n)) for n in numbers], kind)
    if pa.types.is_temporal(kind):
        whole = pa.int32() if kind.bit_width == 32 else pa.int64()
        step = 86_400_000 if kind == pa.date64() else 1
        return pa.array([None if n is None else n * step for n in numbers], whole).view(kind)
    if pa.types.is_fixed_size_binary(kind):
        return pa.array([None if n is None else bytes([n, 0]) for n in numbers], kind)
    texts = [None if n is None else "äA\0 "[: n % 5] + "é" * (n // 5) for n in numbers]
    return pa.array(texts, pa.large_string()).cast(kind)


def key_of(schema: pa.Schema) -> Key:
    return resolve_key(schema_from_arrow(schema), schema.names)


def coded(rows: pa.Table) -> list[Any]:
    """The coded keys, of exactly the types that Spark is told."""
    key = key_of(rows.schema)
    (array,) = encode_key(key, rows)
    assert array.type == coded_schema(key, "t").field(0).type
    found: list[Any] = array.to_pylist()
    return found


@settings(max_examples=60)
@given(
    st.sampled_from(KINDS),
    st.lists(st.one_of(st.none(), st.integers(0, 9)), max_size=12),
    st.lists(st.one_of(st.none(), st.integers(0, 9)), min_size=1, max_size=12),
)
def test_coded_keys_are_equal_exactly_where_keys_are(
    kind: pa.DataType, here: list[int | None], there: list[int | None]
) -> None:
    mine, theirs = (pa.table({"k": some(kind, each)}) for each in (here, there))
    key = key_of(mine.schema)
    told = KeyIndex(key.values(theirs)).find(key.values(mine))
    codes = coded(theirs)
    for row, found in zip(coded(mine), told, strict=True):
        expected = -1 if row is None or row not in codes else codes.index(row)
        assert expected == found


def test_numbers_travel_as_numbers_and_all_else_as_bytes() -> None:
    schema = pa.schema([("a", pa.timestamp("ns")), ("b", pa.string()), ("c", pa.uint64())])
    key = resolve_key(schema_from_arrow(schema), ["c", "b"])
    assert code_types(key) == ["binary", "bigint"]
    assert coded_ddl(key, "s") == "k0 binary, k1 bigint, s bigint"


def test_a_slice_of_rows_is_coded_like_the_rows_in_it() -> None:
    for kind in KINDS:
        rows = pa.table({"k": some(kind, [3, None, 0, 1, 4, 2])})
        assert coded(rows.slice(1, 4)) == coded(rows)[1:5], kind


def table_of(fragments: int, rows: int) -> lw.Table:
    data = pa.table({"k": range(fragments * rows)})
    uri = f"memory://codes/{next(_names)}.lance"
    return lw.create(uri, data, layout=lw.Layout(max_rows_per_file=rows))


def staged(rows: list[int]) -> StagedFiles:
    snapshot = table_of(1, 1)._snapshot
    return StagedFiles(snapshot, snapshot.schema, (b"",) * len(rows), tuple(rows), 1)


@pytest.mark.parametrize("slots", [1, 3, 100])
def test_every_fragment_is_in_one_task_that_reads_keys(
    slots: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "_LEAST_KEYS", 4)
    monkeypatch.setattr(planning, "MOST_FRAGMENTS", 5)
    table = table_of(23, 3)
    portions = [TablePortion.decode(each) for each in table_messages(table._snapshot, slots)]
    found = [each.id for part in portions for each in part.decoded("")]
    assert found == [each.id for each in table.fragments]
    assert max(len(each.fragments) for each in portions) <= 5
    assert len(portions) <= max(4 * slots, 23 // 5) + 6


def test_a_small_source_is_read_by_one_task() -> None:
    assert len(source_messages(staged([10, 20, 30]), 8)) == 1
    assert source_messages(staged([]), 8) == []
    assert len(source_messages(staged([1 << 20] * 64), 8)) == 32


def numbers(tasks: Any) -> list[list[int]]:
    """The fragments in the message of each task."""
    return [[each.id for each in TablePortion.decode(m).decoded("")] for m in tasks.messages]


def test_first_inserted_rows_go_with_the_last_that_move(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "_LEAST_MOVED", 10)
    monkeypatch.setattr(planning, "_LEAST_INSERTED", 10)
    snapshot = table_of(6, 20)._snapshot
    tasks = plan_changes(snapshot, {1: 8, 2: 8, 5: 3}, {0: 6, 1: 6, 4: 1}, slots=4)
    assert numbers(tasks) == [[1, 2], [5], []]
    assert tasks.targets == {1: 0, 2: 0, 5: 1}
    assert tasks.sources == {0: 1, 1: 1, 4: 2}


def test_tasks_without_moved_rows_only_insert() -> None:
    snapshot = table_of(2, 20)._snapshot
    tasks = plan_changes(snapshot, {}, {0: 6, 1: 600_000, 2: 900_000}, slots=1)
    assert numbers(tasks) == [[], []]
    assert tasks.sources == {0: 0, 1: 0, 2: 1}


def test_staged_rows_are_found_by_address_in_any_order_and_again() -> None:
    data = pa.table({"k": range(10), "v": [f"v{n}" for n in range(10)]})
    table = lw.create(
        f"memory://codes/{next(_names)}.lance", data, layout=lw.Layout(max_rows_per_file=4)
    )
    snapshot = table._snapshot
    files = StagedFiles.of(snapshot.bare(), snapshot.schema, table.fragments)
    source = StagedSource(
        files, snapshot.schema, snapshot.schema, resolve_key(snapshot.schema, "k")
    )
    asked = np.array([(2 << 32) + 1, 3, (1 << 32) + 2, 3, 0, (2 << 32) + 1])
    assert source.at(asked)["k"].to_pylist() == [9, 3, 6, 3, 0, 9]
    assert source.at(asked, ["v"]).to_pydict() == {"v": ["v9", "v3", "v6", "v3", "v0", "v9"]}
    assert source.at(asked[:0])["k"].to_pylist() == []
    assert source.at(asked, []).num_rows == 6
    whole = pa.Table.from_batches(source.whole_rows(np.array([1, 1 << 32])))
    assert whole.to_pydict() == {"k": [1, 4], "v": ["v1", "v4"]}

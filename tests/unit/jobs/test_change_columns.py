"""Dropping, renaming, casting and replacing columns of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.engine.versions.history import load_transaction
from lancewood.errors import (
    InvalidInputError,
    NotFoundError,
    RetryableConflictError,
    UnsupportedError,
)
from lancewood.jobs.runner import LocalRunner
from lancewood.model.transaction import DataReplacement, Merge, Project

ONE = LocalRunner(1)
VERSIONS = ["2.0", "2.1", "2.2"]
STRUCT = pa.struct([("x", pa.int64()), ("z", pa.string())])


def rows(first: int, count: int) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table(
        {
            "k": pa.array(numbers, pa.int64()),
            "s": [str(each) for each in numbers],
            "p": pa.array([{"x": each, "z": f"z{each}"} for each in numbers], STRUCT),
            "l": pa.array([[each] * (each % 3) for each in numbers], pa.list_(pa.int64())),
        }
    )


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return str(tmp_path / "t")


def create(uri: str, file_version: str = "2.2") -> lw.Table:
    """Fragments of 10, 10 and 5 rows, with 2 rows of the first and 1 of the last deleted."""
    made = lw.create(
        uri,
        rows(0, 25),
        layout=lw.Layout(max_rows_per_file=10, file_version=file_version),
        access=lw.Access(fsync=False),
    )
    return made.delete("k in (0, 5, 24)")


@pytest.fixture
def table(uri: str) -> lw.Table:
    return create(uri)


def files_in(table: lw.Table) -> set[str]:
    return {each.name for each in (Path(table.uri) / "data").iterdir()}


def operation(table: lw.Table) -> Any:
    snapshot = table._snapshot
    return load_transaction(snapshot.location.store, snapshot.manifest).operation


def test_a_drop_and_a_rename_touch_no_file(table: lw.Table) -> None:
    before = files_in(table)
    dropped = table.drop_columns(["s", "p.x"])
    assert isinstance(operation(dropped), Project)
    renamed = dropped.rename_column("k", "key").rename_column("p.z", "name")
    assert isinstance(operation(renamed), Project)
    assert operation(renamed).preserves_nullability
    assert files_in(renamed) == before
    assert renamed.schema.names == ["key", "p", "l"]
    assert renamed.head(1).to_pylist() == [{"key": 1, "p": {"name": "z1"}, "l": [1]}]
    assert table.to_arrow().schema.names == ["k", "s", "p", "l"], "the older version has them"


def test_names_to_drop_may_come_from_an_iterator(table: lw.Table) -> None:
    assert table.drop_columns(iter(["s", "l"])).schema.names == ["k", "p"]  # type: ignore[arg-type]


def test_a_rename_to_the_same_name_is_no_new_version(table: lw.Table) -> None:
    assert table.rename_column("k", "k").version == table.version


def test_a_drop_and_a_rename_follow_other_writers(table: lw.Table) -> None:
    table.append(rows(100, 2))
    assert table.rename_column("k", "key").count_rows() == 24
    assert table.drop_columns(["s"]).schema.names == ["key", "p", "l"]


@pytest.mark.parametrize("file_version", VERSIONS)
def test_rows_are_there_when_the_last_stored_column_was_dropped(
    uri: str, file_version: str
) -> None:
    table = create(uri, file_version)
    table = table.add_columns([pa.field("n", pa.int32()), pa.field("p.y", pa.int8())])
    table = table.drop_columns(["p.x", "p.z", "l"])
    assert table.scan(["p"]).to_arrow()["p"].to_pylist() == [{"y": None}] * 22
    assert table.drop_columns(["s", "k"]).count_rows() == 22
    last = table.latest().drop_columns(["p"])
    assert last.to_arrow().to_pylist() == [{"n": None}] * 22
    assert isinstance(operation(last), Merge)
    assert last.append(pa.table({"n": pa.array([1], pa.int32())})).count_rows() == 23


@pytest.mark.parametrize("file_version", VERSIONS)
def test_a_cast_writes_the_column_and_no_other(uri: str, file_version: str) -> None:
    table = create(uri, file_version)
    expected = table.to_arrow()
    before = files_in(table)
    after = table.cast_column("k", pa.float32())
    assert after.schema.field("k").type == pa.float32()
    assert after.schema.names == table.schema.names
    assert after.to_arrow() == expected.cast(after.schema)
    assert len(files_in(after) - before) == 3
    assert isinstance(operation(after), Merge)
    assert operation(after).preserves_nullability
    nested = after.cast_column("p.x", pa.string()).cast_column("l.item", pa.int8())
    assert nested.to_arrow() == expected.cast(nested.schema)


def test_a_cast_to_the_same_type_is_no_new_version(table: lw.Table) -> None:
    assert table.cast_column("k", pa.int64()).version == table.version


def test_a_fragment_that_does_not_hold_the_column_gets_no_file(table: lw.Table) -> None:
    table = table.append(pa.table({"k": [100]}))
    before = files_in(table)
    after = table.cast_column("s", pa.large_string())
    assert len(files_in(after) - before) == 3
    assert after.scan(["s"]).to_arrow()["s"].to_pylist()[-2:] == ["23", None]


def test_the_first_value_that_does_not_fit_is_named_and_nothing_is_left(table: lw.Table) -> None:
    table = table.update({"s": "'two'"}, "k = 12").update({"k": 1 << 40}, "k = 13")
    before = files_in(table)
    with pytest.raises(InvalidInputError, match=r"live row \d of fragment \d is 'two'"):
        table.cast_column("s", pa.int64(), runner=ONE)
    with pytest.raises(InvalidInputError, match=r"is 1099511627776: .*not in range"):
        table.cast_column("k", pa.int32(), runner=ONE)
    assert files_in(table) == before
    assert table.latest().version == table.version


def test_the_row_that_does_not_fit_is_the_first_of_its_fragment(uri: str) -> None:
    table = lw.create(
        uri, pa.table({"a": [1.0, 2.0, 3.5, 4.0, 5.5]}), access=lw.Access(fsync=False)
    )
    table = table.delete("a = 1")
    with pytest.raises(InvalidInputError) as raised:
        table.cast_column("a", pa.int64())
    assert raised.value.facts["row"] == 1
    assert "is 3.5" in str(raised.value)
    huge = table.add_columns({"b": "a * 1e300"})
    with pytest.raises(InvalidInputError, match="too large for float"):
        huge.cast_column("b", pa.float32())
    assert huge.cast_column("a", pa.float16()).to_arrow()["a"].to_pylist() == [2.0, 3.5, 4.0, 5.5]


def test_a_value_that_does_not_fit_does_not_matter_where_its_row_is_deleted(uri: str) -> None:
    table = lw.create(uri, pa.table({"a": [1, 1 << 40, 3]}), access=lw.Access(fsync=False)).delete(
        "a > 3"
    )
    assert table.cast_column("a", pa.int8()).to_arrow()["a"].to_pylist() == [1, 3]


def test_a_cast_follows_other_writers(table: lw.Table) -> None:
    table.append(rows(100, 2)).update({"k": "k + 1000"}, "k = 7")
    after = table.cast_column("k", pa.int32())
    assert sorted(after.to_arrow()["k"].to_pylist())[-3:] == [100, 101, 1007]


def test_a_column_that_may_not_be_null_is_cast_beside_deleted_rows(uri: str) -> None:
    schema = pa.schema([pa.field("a", pa.int64(), nullable=False)])
    table = lw.create(uri, pa.table({"a": range(10)}, schema=schema), access=lw.Access(fsync=False))
    after = table.delete("a < 3 or a = 6").cast_column("a", pa.int16())
    assert after.to_arrow()["a"].to_pylist() == [3, 4, 5, 7, 8, 9]
    assert not after.schema.field("a").nullable


def test_columns_of_some_fragments_are_replaced(table: lw.Table) -> None:
    before = files_in(table)
    ids = [2, 0]
    found = table.scan(["k", "s"], fragment_ids=ids).to_arrow()
    new = found.set_column(1, "s", pa.array([f"new {each}" for each in range(12)]))
    after = table.replace_columns(ids, new)
    columns = (after.schema.field("k"), after.schema.field("s"))
    assert after.counts == lw.ColumnCounts(columns, fragments=2, rows=12)
    assert after.scan(["k", "s"], fragment_ids=ids).to_arrow() == new
    assert after.scan(fragment_ids=[1]).to_arrow() == table.scan(fragment_ids=[1]).to_arrow()
    assert after.scan(["p", "l"]).to_arrow() == table.scan(["p", "l"]).to_arrow()
    assert len(files_in(after) - before) == 2
    assert isinstance(operation(after), DataReplacement)
    again = after.replace_columns(ids, new)
    assert [len(each.files) for each in again.fragments] == [2, 1, 2], "swapped, not stacked"


@pytest.mark.parametrize(
    ("ids", "data", "message"),
    [
        ([0], {"s": ["a"]}, "the data has 1 rows, the fragments have 8"),
        ([0], {"none": ["a"] * 8}, "no column of the table"),
        ([0], {"s": ["a"] * 8, "none": [1] * 8}, "'none' is not in the table"),
        ([0], {"s": [1] * 8}, "column 's' is int64, the table has string"),
        ([0], {"p": [{"x": 1}] * 8}, "'p.z' is missing"),
        ([], {"s": ["a"]}, "needs fragment ids"),
        ([0, 0], {"s": ["a"]}, "each once"),
        ([-1], {"s": ["a"]}, "a fragment id"),
        (0, {"s": ["a"]}, "takes a list"),
    ],
)
def test_a_replacement_that_cannot_be_is_refused_at_once(
    table: lw.Table, ids: Any, data: dict[str, list[Any]], message: str
) -> None:
    before = files_in(table)
    with pytest.raises(InvalidInputError, match=message):
        table.replace_columns(ids, pa.table(data))
    assert files_in(table) == before


def test_a_fragment_that_is_not_there_is_told(table: lw.Table) -> None:
    with pytest.raises(NotFoundError, match="fragment 9"):
        table.replace_columns([9], pa.table({"s": ["a"]}))


def test_a_stream_of_other_length_leaves_nothing(table: lw.Table) -> None:
    before = files_in(table)
    for count, message in ((7, "ends after 7"), (9, "more rows than the 8")):
        with pytest.raises(InvalidInputError, match=message):
            table.replace_columns([0], pa.table({"s": ["a"] * count}).to_reader())
    assert files_in(table) == before
    assert table.latest().version == table.version


def replaced_while(table: lw.Table, others: Callable[[], object]) -> lw.Table:
    data = pa.table({"s": ["new"] * 8})

    def batches() -> Iterator[pa.RecordBatch]:
        others()
        yield from data.to_batches()

    return table.replace_columns([0], pa.RecordBatchReader.from_batches(data.schema, batches()))


def test_a_replacement_follows_rows_that_were_added_and_deleted(table: lw.Table) -> None:
    def others() -> None:
        table.append(rows(100, 2)).delete("k = 7").add_columns({"n": "k"})

    after = replaced_while(table, others)
    got = after.scan(["k", "s", "n"], fragment_ids=[0]).to_arrow()
    assert got["k"].to_pylist() == got["n"].to_pylist() == [1, 2, 3, 4, 6, 8, 9]
    assert set(got["s"].to_pylist()) == {"new"}


@pytest.mark.parametrize(
    "others",
    [
        lambda table: table.update({"k": "k + 1000"}, "k = 7", rewrite="rows"),
        lambda table: table.update({"s": "'mine'"}, "k < 9", rewrite="columns"),
        lambda table: table.replace_columns([0], pa.table({"s": ["mine"] * 8})),
        lambda table: table.delete("k < 10"),
    ],
    ids=["moved", "in place", "replaced", "gone"],
)
def test_a_replacement_of_what_others_have_changed_is_a_conflict(
    table: lw.Table, others: Callable[[lw.Table], lw.Table]
) -> None:
    before: set[str] = set()

    def change() -> None:
        nonlocal before
        before = files_in(others(table))

    with pytest.raises(lw.ConflictError):
        replaced_while(table, change)
    assert files_in(table) == before


def test_a_conflict_over_values_says_what_to_do(table: lw.Table) -> None:
    with pytest.raises(RetryableConflictError, match="read them again and replace them"):
        replaced_while(table, lambda: table.replace_columns([0], pa.table({"s": ["mine"] * 8})))


def test_blobs_are_not_cast(uri: str) -> None:
    field = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    table = lw.create(
        uri,
        pa.table({"k": [1], "b": [b"x"]}, schema=pa.schema([("k", pa.int64()), field])),
        layout=lw.Layout(file_version="2.1"),
        access=lw.Access(fsync=False),
    )
    with pytest.raises(UnsupportedError, match="holds blobs"):
        table.cast_column("b", pa.binary())
    with pytest.raises(UnsupportedError, match="holds blobs"):
        table.add_columns({"c": "b"})
    assert table.drop_columns(["b"]).to_arrow().to_pylist() == [{"k": 1}]

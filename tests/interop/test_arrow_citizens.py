"""Arrow citizenship: every library reads a Table and a Scan by itself, and all can be written.

pylance says what really is in the files.
"""

from __future__ import annotations

import datetime
import decimal
import gc
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import lance
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pytest

import lancewood as lw
from lancewood.engine.base import fanout

ROWS = pa.table(
    {
        "id": pa.array(range(60), pa.int64()),
        "name": [None if n % 7 == 0 else f"row {n}" for n in range(60)],
        "tags": [[f"t{n}", None] for n in range(60)],
        "point": [{"x": n / 2, "y": None} for n in range(60)],
    },
    schema=pa.schema(
        [
            ("id", pa.int64()),
            ("name", pa.string()),
            ("tags", pa.list_(pa.string())),
            ("point", pa.struct([("x", pa.float64()), ("y", pa.int32())])),
        ]
    ),
)


@pytest.fixture
def table(uri: str) -> lw.Table:
    return lw.create(uri, ROWS, layout=lw.Layout(max_rows_per_file=25))


READERS: dict[str, Callable[[Any], pa.Table]] = {
    "pyarrow table": pa.table,
    "pyarrow reader": lambda each: pa.RecordBatchReader.from_stream(each).read_all(),
    "polars frame": lambda each: pl.DataFrame(each).to_arrow(),
    "polars from_arrow": lambda each: pl.from_arrow(each).to_arrow(),
    "pandas": lambda each: pa.Table.from_pandas(pd.DataFrame.from_arrow(each)),
    "duckdb from_arrow": lambda each: duckdb.from_arrow(each).to_arrow_table(),
}


@pytest.mark.parametrize("library", READERS)
def test_a_table_and_a_scan_are_read_directly(table: lw.Table, library: str) -> None:
    read = READERS[library]
    assert read(table).to_pylist() == ROWS.to_pylist()
    scan = table.scan(
        {"twice": "id * 2", "name": "name"}, where="id >= $low", parameters={"low": 50}
    )
    expected = [{"twice": n * 2, "name": ROWS["name"][n].as_py()} for n in range(50, 60)]
    assert read(scan).to_pylist() == expected
    assert read(scan).to_pylist() == expected


def test_duckdb_finds_a_table_by_the_name_of_the_variable(table: lw.Table) -> None:
    mine, even = table, table.scan(["id"], where="id % 2 = 0")
    found: Any = duckdb.sql("SELECT count(name), max(id) FROM mine")
    assert found.fetchall() == [(51, 59)]
    found = duckdb.sql("SELECT count(*) FROM even JOIN mine USING (id)")
    assert found.fetchall() == [(30,)]
    del mine, even


def test_a_lazy_frame_over_a_table_is_collected(table: lw.Table) -> None:
    frame = pl.DataFrame(table).lazy().filter(pl.col("id") > 57).select("id").collect()
    assert frame["id"].to_list() == [58, 59]


class Capsule:
    """An object that has nothing but the C stream, as nanoarrow's do."""

    def __init__(self, data: pa.Table) -> None:
        self._data = data

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._data.__arrow_c_stream__(requested_schema)


def test_types_that_are_asked_for_are_given_where_arrow_can(table: lw.Table) -> None:
    wanted = pa.schema([("id", pa.int32()), ("name", pa.large_string())])
    for source in (table.scan(["id", "name"]), lw.create("memory://t/1", ROWS.select([0, 1]))):
        capsule = source.__arrow_c_stream__(wanted.__arrow_c_schema__())
        found = pa.RecordBatchReader._import_from_c_capsule(capsule).read_all()
        assert found.schema == wanted
        assert found["name"].to_pylist() == ROWS["name"].to_pylist()


def test_a_schema_that_cannot_be_given_is_refused_by_name(table: lw.Table) -> None:
    wanted = pa.schema([("something", pa.int32())])
    with pytest.raises(lw.InvalidInputError, match=r"id, name, tags, point.*something"):
        table.__arrow_c_stream__(wanted.__arrow_c_schema__())


def batches() -> Iterator[pa.RecordBatch]:
    yield from ROWS.to_batches(max_chunksize=13)


SOURCES: dict[str, Callable[[], Any]] = {
    "pyarrow table": lambda: ROWS,
    "pyarrow chunks": lambda: pa.Table.from_batches(batches()),
    "pyarrow slice": lambda: pa.concat_tables([ROWS, ROWS]).combine_chunks().slice(60),
    "pyarrow batch": lambda: ROWS.combine_chunks().to_batches()[0],
    "pyarrow reader": lambda: pa.RecordBatchReader.from_batches(ROWS.schema, batches()),
    "pyarrow dataset": lambda: pyarrow.dataset.dataset(ROWS),
    "pyarrow scanner": lambda: pyarrow.dataset.dataset(ROWS).scanner(),
    "list of batches": lambda: list(batches()),
    "polars": lambda: pl.DataFrame(ROWS),
    "duckdb": lambda: duckdb.from_arrow(ROWS),
    "duckdb query": lambda: duckdb.sql("SELECT * FROM ROWS ORDER BY id"),
    "capsule": lambda: Capsule(ROWS),
    "table": lambda: lw.create("memory://t/2", ROWS),
}


@pytest.fixture(autouse=True)
def clean_memory() -> Iterator[None]:
    yield
    for number in (1, 2):
        if lw.exists(f"memory://t/{number}"):
            lw.drop(f"memory://t/{number}")


@pytest.mark.parametrize("library", SOURCES)
def test_what_a_library_holds_is_created_and_appended(uri: str, library: str) -> None:
    created = lw.create(uri, SOURCES[library]())
    if lw.exists("memory://t/2"):
        lw.drop("memory://t/2")
    appended = created.append(SOURCES[library]())
    assert appended.to_arrow().to_pylist() == ROWS.to_pylist() * 2
    assert lance.dataset(uri).to_table().to_pylist() == ROWS.to_pylist() * 2


def test_an_iterator_of_batches_needs_a_schema_to_create_with(uri: str) -> None:
    with pytest.raises(lw.InvalidInputError, match="needs schema="):
        lw.create(uri, batches())
    made = lw.create(uri, batches(), schema=ROWS.schema)
    assert made.append(batches()).count_rows() == 120


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (lambda: pl.LazyFrame({"a": [1]}), r"LazyFrame.*call collect\(\)"),
        (lambda: pl.Series("a", [1]), "Series is no table of rows"),
        (lambda: pd.Series([1]), "Series is no table of rows"),
        (lambda: pl.DataFrame({"a": pl.Series([object()], dtype=pl.Object)}), "Python objects"),
        (lambda: pd.DataFrame({"a": [1, "x"]}), "DataFrame is no table of rows: column 'a'"),
        (lambda: pd.DataFrame({"m": [1], "n": [2**70]}), "column 'n' cannot become Arrow.*large"),
        (lambda: pd.DataFrame([[1, 2]], columns=["a", "a"]), "Duplicate column names"),
        (lambda: pd.DataFrame({"a": [1]}, index=["x"]), "index of the frame has no name"),
        (lambda: np.arange(3), "must speak Arrow"),
        (lambda: pl.DataFrame({"a": pl.Series([1], dtype=pl.Int128)}), "no table of rows"),
    ],
)
def test_what_cannot_be_told_in_arrow_is_refused_before_a_file_is_written(
    uri: str, data: Callable[[], Any], problem: str
) -> None:
    with pytest.raises(lw.InvalidInputError, match=problem):
        lw.create(uri, data())
    assert not Path(uri).exists()


@pytest.mark.parametrize("sql", ["INTERVAL 1 DAY", "union_value(k := 1)"])
def test_a_type_that_lance_cannot_hold_is_refused_by_name(uri: str, sql: str) -> None:
    with pytest.raises(lw.UnsupportedError, match=r"column 'c'.*cast it"):
        lw.create(uri, duckdb.sql(f"SELECT {sql} AS c"))
    assert not lw.exists(uri)


KINDS_OF_POLARS = {
    "text": pl.Series(["x", None], dtype=pl.String),
    "bytes": pl.Series([b"x", None], dtype=pl.Binary),
    "category": pl.Series(["x", None], dtype=pl.Categorical),
    "enum": pl.Series(["x", None], dtype=pl.Enum(["x", "y"])),
    "list": pl.Series([["x"], None], dtype=pl.List(pl.String)),
    "array": pl.Series([[1, 2], None], dtype=pl.Array(pl.Int16, 2)),
    "struct": pl.Series([{"a": "x"}, {"a": None}]),
    "time": pl.Series([datetime.time(1, 2), None]),
    "duration": pl.Series([datetime.timedelta(1), None]),
    "moment": pl.Series([datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC), None]),
    "decimal": pl.Series([decimal.Decimal("1.50"), None], dtype=pl.Decimal(10, 2)),
    "nothing": pl.Series([None, None], dtype=pl.Null),
}


def test_every_kind_of_polars_column_comes_back(uri: str) -> None:
    frame = pl.DataFrame(KINDS_OF_POLARS)
    table = lw.create(uri, frame)
    assert table.append(frame).to_arrow().to_pylist() == frame.to_dicts() * 2
    assert pl.DataFrame(table).to_dicts() == frame.to_dicts()
    assert lance.dataset(uri).to_table().to_pylist() == frame.to_dicts() * 2


def test_nullable_and_categorical_columns_of_pandas_come_back(uri: str) -> None:
    frame = pd.DataFrame(
        {
            "n": pd.array([1, None], dtype="Int64"),
            "b": pd.array([True, None], dtype="boolean"),
            "s": pd.array(["x", None], dtype="string"),
            "c": pd.Categorical(["x", None], categories=["y", "x"]),
            "t": pd.to_datetime(["2024-01-01", None], utc=True),
        }
    )
    table = lw.create(uri, frame)
    assert table.schema.field("c").type.value_type == pa.large_string()
    pd.testing.assert_frame_equal(table.to_pandas(), frame)
    assert lance.dataset(uri).to_table()["n"].to_pylist() == [1, None]


def test_an_index_with_a_name_is_a_column_and_a_counting_one_is_nothing(tmp_path: Path) -> None:
    named = pd.DataFrame({"a": [1, 2]}, index=pd.Index([7, 9], name="key"))
    assert lw.create(tmp_path / "1.lance", named).to_arrow()["key"].to_pylist() == [7, 9]
    plain = pd.DataFrame({"a": [1, 2, 3]}).iloc[1:]
    table = lw.create(tmp_path / "2.lance", plain)
    assert table.schema.names == ["a"]
    assert table.append(plain).to_pandas()["a"].tolist() == [2, 3, 2, 3]
    assert table.latest().delete("a = 2").to_pandas().index.tolist() == [0, 1]


def test_a_counting_index_with_a_name_is_refused_because_it_would_be_lost(tmp_path: Path) -> None:
    frame = pd.DataFrame({"id": range(100, 105), "v": [0.0] * 5}).set_index("id")
    assert isinstance(frame.index, pd.RangeIndex)
    with pytest.raises(lw.InvalidInputError, match="index 'id' of the frame only counts"):
        lw.create(tmp_path / "t.lance", frame)
    assert lw.create(tmp_path / "t.lance", frame.reset_index()).schema.names == ["id", "v"]


def test_duckdb_enums_and_huge_numbers_come_back(uri: str) -> None:
    query = "SELECT 'a'::ENUM('b', 'a') AS e, (2**70)::HUGEINT AS h, MAP {'k': 1} AS m, [1] AS l"
    made = lw.create(uri, duckdb.sql(query))
    assert made.to_arrow().to_pylist() == [{"e": "a", "h": 2**70, "m": [("k", 1)], "l": [1]}]
    found: Any = duckdb.sql("SELECT e, h, m['k'] FROM made")
    assert found.fetchall() == [("a", 2**70, 1)]
    assert lance.dataset(uri).to_table()["h"].to_pylist() == [2**70]


def scan_threads() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name.startswith("lancewood-scan")]


def test_closing_a_reader_stops_the_scan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fanout, "_QUICK_SECONDS", 0.0)
    wide = pa.table({"a": pa.array([os.urandom(200_000) for _ in range(300)], pa.binary())})
    table = lw.create(tmp_path / "wide.lance", wide, layout=lw.Layout(max_rows_per_file=60))
    gc.disable()  # what is stopped must not be stopped by the collector
    try:
        reader = table.scan(batch_rows=1).to_reader()
        reader.read_next_batch()
        reader.read_next_batch()
        assert scan_threads() != []
        reader.close()
        assert scan_threads() == []
        with table.scan(batch_rows=1).to_reader() as reader:
            reader.read_next_batch()
        assert scan_threads() == []
        for _ in table.scan(batch_rows=1).to_batches():
            break
        assert scan_threads() == []
        assert len(pl.DataFrame(table)) == 300
        assert scan_threads() == []
    finally:
        gc.enable()


def test_duckdb_gives_moments_of_a_table_with_their_zone(tmp_path: Path) -> None:
    moment = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC)
    made = lw.create(
        tmp_path / "t.lance", pa.table({"taken": pa.array([moment], pa.timestamp("us", "UTC"))})
    )
    (row,) = duckdb.execute("SELECT taken FROM made").fetchall()
    assert row == (moment,)
    del made

"""The handle that people hold, on a table in memory or on a disk."""

from __future__ import annotations

import pickle
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.engine.commit.commit import CommitPolicy
from lancewood.model.ids import Version
from lancewood.model.transaction import Append, MapUpdate, Restore, UpdateConfig

ROWS = pa.table({"a": pa.array(range(100), pa.int64()), "s": [f"row {n}" for n in range(100)]})
_names = iter(range(10**6))


@pytest.fixture(params=["memory", "disk"])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "disk":
        return str(tmp_path / "t.lance")
    return f"memory://tables/{next(_names)}.lance"


@pytest.fixture
def table(uri: str) -> lw.Table:
    return lw.create(
        uri, ROWS, layout=lw.Layout(max_rows_per_file=30), access=lw.Access(fsync=False)
    )


def numbers(data: pa.Table) -> list[int]:
    return data.column("a").to_pylist()  # type: ignore[no-any-return]


def test_create_gives_a_handle_on_version_one(table: lw.Table) -> None:
    assert table.version == 1
    assert table.branch is None
    assert table.schema == ROWS.schema
    assert table.count_rows() == 100
    assert [each.num_rows for each in table.fragments] == [30, 30, 30, 10]
    assert table.to_arrow() == ROWS
    assert table.has_stable_row_ids
    assert table.base_paths == ()
    assert table.indices == ()
    assert abs(table.timestamp - datetime.now(UTC)) < timedelta(minutes=5)
    assert "version 1" in repr(table)


def test_figures_come_from_the_manifest(table: lw.Table) -> None:
    stats = table.stats()
    assert (stats.rows, stats.fragments, stats.data_files) == (100, 4, 4)
    assert (stats.deleted_rows, stats.deletion_files, stats.indices) == (0, 0, 0)
    assert stats.bytes is not None
    assert stats.bytes > 500


def test_a_write_leaves_the_old_handle_alone(table: lw.Table) -> None:
    newer = table.append(ROWS)
    assert (table.version, newer.version) == (1, 2)
    assert (table.count_rows(), newer.count_rows()) == (100, 200)
    assert table.latest().version == 2


def test_an_empty_table_is_made_from_a_schema(uri: str) -> None:
    table = lw.create(uri, ROWS.schema)
    assert table.count_rows() == 0
    assert table.to_arrow() == ROWS.schema.empty_table()
    assert table.take([]).num_rows == 0
    assert table.append(ROWS).count_rows() == 100


def test_creating_twice_is_refused(table: lw.Table, uri: str) -> None:
    with pytest.raises(lw.AlreadyExistsError, match="already"):
        lw.create(uri, ROWS)
    assert lw.open(uri).version == 1


def test_opening_nothing_says_so(uri: str) -> None:
    assert not lw.exists(uri)
    with pytest.raises(lw.NotFoundError, match="no table at"):
        lw.open(uri)
    with pytest.raises(lw.NotFoundError, match="nothing was dropped"):
        lw.drop(uri)


def test_drop_removes_what_the_format_owns_and_nothing_else(tmp_path: Path) -> None:
    uri = tmp_path / "t.lance"
    lw.create(uri, ROWS).append(ROWS)
    (uri / "notes.txt").write_text("mine")
    (uri / "data" / "holiday.jpg").write_text("mine")
    (uri / "data" / "deeper").mkdir()
    (uri / "data" / "deeper" / "x.lance").write_text("mine")
    lw.drop(uri)
    assert not lw.exists(uri)
    left = sorted(each.name for each in uri.rglob("*") if each.is_file())
    assert left == ["holiday.jpg", "notes.txt", "x.lance"]
    lw.create(tmp_path / "other.lance", ROWS)
    lw.drop(tmp_path / "other.lance")
    assert not (tmp_path / "other.lance").exists()
    assert lw.create(uri, ROWS).version == 1


def test_a_handle_on_a_dropped_table_writes_nothing_into_its_successor(uri: str) -> None:
    old = lw.create(uri, ROWS).append(ROWS)
    lw.drop(uri)
    with pytest.raises(lw.NotFoundError, match="dropped or replaced"):
        old.append(ROWS)
    assert not lw.exists(uri)
    lw.create(uri, ROWS)
    with pytest.raises(lw.NotFoundError, match="dropped or replaced"):
        old.set_config({"a": "b"})
    lw.open(uri).append(ROWS)
    with pytest.raises(lw.NotFoundError, match="dropped and made again"):
        old.append(ROWS)
    with pytest.raises(lw.NotFoundError, match="dropped and made again"):
        old.set_config({"a": "b"})
    assert lw.open(uri).version == 2
    assert lw.open(uri).to_arrow().num_rows == 200


def test_drop_refuses_a_table_with_named_versions(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    table = lw.create(uri, ROWS)
    table.lance().tags.create("v1", 1)
    with pytest.raises(lw.InvalidInputError, match="tag v1"):
        lw.drop(uri)
    lw.drop(uri, force=True)
    assert not lw.exists(uri)


class Stream:
    """Something that speaks Arrow and is nothing that anybody knows."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return ROWS.__arrow_c_stream__(requested_schema)


def many() -> Iterator[pa.RecordBatch]:
    yield from ROWS.to_batches(max_chunksize=7)


@pytest.mark.parametrize("kind", [pl.Categorical, pl.Enum(["x", "y"]), pl.String])
def test_categories_of_polars_are_kept(uri: str, kind: Any) -> None:
    frame = pl.DataFrame({"c": ["x", "y", None, "x"]}, schema={"c": kind})
    table = lw.create(uri, frame)
    assert table.append(frame).to_arrow().column("c").to_pylist() == ["x", "y", None, "x"] * 2


def test_a_column_of_nothing_fits_every_nullable_column(table: lw.Table) -> None:
    nothing = pa.table({"a": pa.nulls(2), "s": pa.nulls(2)})
    assert (
        table.append(nothing).scan(offset=100).to_arrow().to_pylist()
        == [{"a": None, "s": None}] * 2
    )


def test_the_index_of_a_pandas_frame_is_told_from_a_column(table: lw.Table) -> None:
    frame = pd.DataFrame({"a": [1], "s": ["x"]}, index=[7.5])
    with pytest.raises(lw.InvalidInputError, match="reset_index"):
        table.append(frame)
    assert table.append(frame.reset_index(drop=True)).count_rows() == 101


@pytest.mark.parametrize(
    ("path", "problem"),
    [("file", "cannot write data file|cannot be made"), ("file/deeper", "cannot")],
)
def test_a_place_that_is_no_directory_is_told(tmp_path: Path, path: str, problem: str) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(lw.StorageError, match=problem):
        lw.create(tmp_path / path, ROWS)


def test_a_table_without_columns_is_refused(uri: str) -> None:
    with pytest.raises(lw.InvalidInputError, match="at least one column"):
        lw.create(uri, pa.table({}))


def test_home_is_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert lw.create("~/t.lance", ROWS).uri == str(tmp_path / "t.lance")


SOURCES: dict[str, Any] = {
    "table": lambda: ROWS,
    "reader": lambda: pa.RecordBatchReader.from_batches(ROWS.schema, many()),
    "batch": lambda: ROWS.combine_chunks().to_batches()[0],
    "polars": lambda: pl.from_arrow(ROWS),
    "pandas": lambda: pd.DataFrame({"a": range(100), "s": ROWS["s"].to_pylist()}),
    "duckdb": lambda: duckdb.from_arrow(ROWS),
    "stranger": Stream,
    "slice": lambda: pa.concat_tables([ROWS, ROWS]).slice(100),
    "chunks": lambda: pa.Table.from_batches(many()),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_anything_that_speaks_arrow_is_written(table: lw.Table, kind: str) -> None:
    newer = table.append(SOURCES[kind]())
    assert newer.count_rows() == 200
    assert newer.scan(offset=100).to_arrow() == ROWS


def test_batches_without_a_stream_take_the_schema_of_the_table(table: lw.Table) -> None:
    assert table.append(list(many())).count_rows() == 200


@pytest.mark.parametrize("data", [{"a": [1]}, [{"a": 1}], [1, 2], "ab", {1, 2}])
def test_a_list_of_anything_but_batches_is_refused(table: lw.Table, data: object) -> None:
    with pytest.raises(lw.InvalidInputError, match=r"record batches|must speak Arrow"):
        table.append(data)
    assert table.latest().version == 1


@pytest.mark.parametrize("data", [17, "text", {"a": [1]}, None, [1, 2]])
def test_what_does_not_speak_arrow_is_refused(uri: str, data: object) -> None:
    with pytest.raises(lw.InvalidInputError, match="must speak Arrow"):
        lw.create(uri, data)
    assert not lw.exists(uri)


def test_other_libraries_read_a_table_and_a_scan(table: lw.Table) -> None:
    assert pa.table(table) == ROWS
    assert pl.DataFrame(table.scan(["a"])).to_arrow() == ROWS.select(["a"])
    assert len(pd.DataFrame.from_arrow(table)) == 100
    assert table.scan().to_pandas().shape == (100, 2)
    assert table.scan(["a"]).to_polars().to_arrow() == ROWS.select(["a"])
    assert table.to_polars().shape == (100, 2)
    relation = duckdb.from_arrow(table.scan(["s"]).to_reader())
    assert relation.aggregate("count(distinct s)").fetchall() == [(100,)]


def test_a_schema_may_be_given_for_the_data(uri: str) -> None:
    wanted = pa.schema([("s", pa.large_string()), ("a", pa.int64()), ("n", pa.float64())])
    table = lw.create(uri, ROWS, schema=wanted)
    assert table.schema == wanted
    assert table.head(1).to_pylist() == [{"s": "row 0", "a": 0, "n": None}]


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        (pa.table({"a": ["text"], "s": ["x"]}), "'a' is string, the table has int64"),
        (pa.table({"a": [1], "s": ["x"], "z": [1]}), "'z' is not in the table"),
        (pa.table({"z": [1]}), "'z' is not in the table"),
    ],
)
def test_rows_that_do_not_fit_are_refused_before_a_file_is_written(
    tmp_path: Path, bad: pa.Table, problem: str
) -> None:
    uri = tmp_path / "t.lance"
    table = lw.create(uri, ROWS)
    before = sorted(each.name for each in uri.rglob("*"))
    with pytest.raises(lw.InvalidInputError, match=problem):
        table.append(bad)
    assert sorted(each.name for each in uri.rglob("*")) == before


def test_an_error_in_the_stream_leaves_no_file_behind(tmp_path: Path) -> None:
    uri = tmp_path / "t.lance"
    table = lw.create(uri, ROWS)
    before = sorted(each.name for each in uri.rglob("*"))

    def broken() -> Iterator[pa.RecordBatch]:
        yield from many()
        raise RuntimeError("the source broke")

    with pytest.raises(RuntimeError, match="the source broke"):
        table.append(
            pa.RecordBatchReader.from_batches(ROWS.schema, broken()),
            layout=lw.Layout(max_rows_per_file=20),
        )
    assert sorted(each.name for each in uri.rglob("*")) == before


def test_files_are_cut_by_rows_and_by_bytes(uri: str) -> None:
    table = lw.create(uri, ROWS, layout=lw.Layout(max_rows_per_file=40, max_bytes_per_file=400))
    assert table.to_arrow() == ROWS
    assert len(table.fragments) > 4
    assert max(each.physical_rows for each in table.fragments) <= 40
    for bad in (0, -1, 1.5, True):
        with pytest.raises(lw.InvalidInputError, match="whole number from 1"):
            table.append(ROWS, layout=lw.Layout(max_rows_per_file=bad))  # type: ignore[arg-type]


def test_columns_come_in_the_order_asked_for(table: lw.Table) -> None:
    assert table.scan(["s", "a"]).schema.names == ["s", "a"]
    assert table.scan(["a"]).to_arrow() == ROWS.select(["a"])
    assert table.scan([]).count() == 100
    assert sum(each.num_rows for each in table.scan([]).to_batches()) == 100


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        (["b"], "column 'b' not found: the table has a, s"),
        (["a", "a"], "'a' is asked for twice"),
        ("a", "columns takes a list, got 'a'"),
        (5, "columns takes a list, got 5"),
        ([1], "takes a list of names, it holds 1"),
        (["a.x"], "'a.x' not found"),
    ],
)
def test_a_wrong_column_is_an_error_at_once(table: lw.Table, columns: Any, problem: str) -> None:
    with pytest.raises(lw.InvalidInputError, match=problem):
        table.scan(columns)


@pytest.mark.parametrize(
    ("offset", "limit"), [(0, 0), (0, 1), (0, 30), (29, 2), (30, 30), (95, 50), (100, 5), (250, 1)]
)
def test_limit_and_offset_cut_across_fragments(table: lw.Table, offset: int, limit: int) -> None:
    scan = table.scan(offset=offset, limit=limit)
    assert scan.to_arrow() == ROWS.slice(offset, limit)
    assert scan.count() == ROWS.slice(offset, limit).num_rows
    filtered = table.scan(where="a % 2 = 0", offset=offset, limit=limit)
    expected = list(range(0, 100, 2))[offset : offset + limit]
    assert numbers(filtered.to_arrow()) == expected
    assert filtered.count() == len(expected)


@pytest.mark.parametrize("name", ["limit", "offset", "batch_rows"])
def test_negative_numbers_are_refused(table: lw.Table, name: str) -> None:
    with pytest.raises(lw.InvalidInputError, match=name):
        table.scan(**{name: -1})  # type: ignore[arg-type]


def test_a_generator_of_names_is_as_good_as_a_list(table: lw.Table) -> None:
    assert table.scan(each for each in ["s", "a"]).to_arrow().schema.names == ["s", "a"]  # type: ignore[arg-type]


def test_numbers_beyond_every_table_are_no_trouble(table: lw.Table) -> None:
    assert table.scan(where="a >= 0", limit=2**63, batch_rows=10**30).to_arrow() == ROWS
    assert table.scan(offset=10**30).count() == 0
    assert table.append(ROWS, layout=lw.Layout(max_rows_per_file=10**30)).count_rows() == 200


commit_of: Any = lw.CommitOptions
layout_of: Any = lw.Layout
access_of: Any = lw.Access
BAD_CALLS: dict[str, Any] = {
    "offset": lambda t: t.scan(offset=None),
    "fragment_ids": lambda t: t.scan(fragment_ids=["a"]),
    "fragment_ids of a number": lambda t: t.scan(fragment_ids=0),
    "where": lambda t: t.scan(where=5),
    "commit": lambda t: t.commit(5),
    "a column": lambda t: t.append(ROWS["a"]),
    "message": lambda t: t.append(ROWS, message=123),
    "message that is no text": lambda t: t.append(ROWS, message="\ud800"),
    "properties": lambda t: t.append(ROWS, commit=commit_of(properties={"a": 1})),
    "properties of numbers": lambda t: t.overwrite(ROWS, commit=commit_of(properties={1: "a"})),
    "properties that are no map": lambda t: t.append(ROWS, commit=commit_of(properties="x")),
    "commit that is none": lambda t: t.append(ROWS, commit={"message": "x"}),
    "two messages": lambda t: t.append(ROWS, message="x", commit=commit_of(message="y")),
    "an app that loads nothing": lambda t: t.compact(commit=commit_of(app="a", batch=1)),
    "as_of": lambda t: t.checkout(as_of=datetime.min),
    "fragment_ids without end": lambda t: t.scan(fragment_ids=range(1 << 70)),
    "file_version": lambda t: t.overwrite(
        ROWS, layout=layout_of(file_version=pa.chunked_array([[1]]))
    ),
    "schema": lambda t: t.overwrite(ROWS, schema="x"),
    "uri": lambda t: lw.open(None),  # type: ignore[arg-type]
    "half a character": lambda t: lw.open("/tmp/\ud800"),
    "bytes": lambda t: lw.open(b"/tmp/x"),  # type: ignore[arg-type]
    "allowed_bases": lambda t: lw.open(t.uri, access=lw.Access(allowed_bases="/")),
    "allowed_bases of numbers": lambda t: lw.open(t.uri, access=access_of(allowed_bases=[5])),
    "zero-width binary": lambda t: t.overwrite(pa.table({"c": pa.array([b""], pa.binary(0))})),
    "metadata": lambda t: t.overwrite(
        pa.table({"c": [1]}, schema=pa.schema([pa.field("c", pa.int64(), metadata={"k": b"\xff"})]))
    ),
    "backtick": lambda t: t.overwrite(pa.table({"a`b": [1]})),
    "reserved": lambda t: t.overwrite(pa.table({"_rowoffset": [1]})),
}


@pytest.mark.parametrize("name", BAD_CALLS)
def test_a_bad_argument_is_told_before_anything_is_written(tmp_path: Path, name: str) -> None:
    table = lw.create(tmp_path / "t.lance", ROWS)
    before = sorted(each.name for each in tmp_path.rglob("*"))
    with pytest.raises((lw.InvalidInputError, lw.UnsupportedError)):
        BAD_CALLS[name](table)
    assert sorted(each.name for each in tmp_path.rglob("*")) == before


def test_an_error_that_is_kept_keeps_no_half_written_file(tmp_path: Path) -> None:
    hint = {"lance-encoding:structural-encoding": "nonsense"}
    bad = pa.table({"c": ["a"]}, schema=pa.schema([pa.field("c", pa.string(), metadata=hint)]))
    with pytest.raises(lw.LancewoodError) as kept:
        lw.create(tmp_path / "t.lance", bad, layout=lw.Layout(file_version="2.1"))
    assert kept.value
    assert not [each for each in tmp_path.rglob("*") if each.is_file()]


def test_two_thousand_columns_are_projected_in_one_pass(uri: str) -> None:
    wide = pa.table({f"c{n}": [n] for n in range(2000)})
    table = lw.create(uri, wide)
    assert table.to_arrow() == wide
    got = table.scan(["c1999", "c0"], "c7 = 7").to_arrow()
    assert got.to_pylist() == [{"c1999": 1999, "c0": 0}]


def test_filters_are_sql(table: lw.Table) -> None:
    assert numbers(table.scan(where="a > 95 and s <> 'row 97'").to_arrow()) == [96, 98, 99]
    assert table.count_rows("a in (1, 2, 300)") == 2
    assert table.scan(["s"], "a = 3").to_arrow().to_pylist() == [{"s": "row 3"}]
    assert table.count_rows("_rowid >= 98") == 2
    with pytest.raises(lw.InvalidInputError, match="b"):
        table.scan(where="b = 1")


def test_batches_have_the_size_asked_for(table: lw.Table) -> None:
    sizes = [each.num_rows for each in table.scan(batch_rows=8).to_batches()]
    assert max(sizes) == 8
    assert sum(sizes) == 100


def test_a_scan_can_be_left_early_and_read_again(table: lw.Table) -> None:
    scan = table.scan(batch_rows=1)
    first = next(iter(scan.to_batches()))
    assert numbers(pa.Table.from_batches([first])) == [0]
    assert scan.to_arrow() == ROWS
    assert not [each for each in threading.enumerate() if "lancewood-scan" in each.name]


def test_a_used_handle_and_its_scan_still_travel(table: lw.Table) -> None:
    scan = table.scan(["a"], "a > 90")
    expected = scan.to_arrow()
    table.take(row_ids=[1])
    assert table.stats().rows == 100
    again = pickle.loads(pickle.dumps(table))
    assert again.version == 1
    assert again.to_arrow() == ROWS
    assert pickle.loads(pickle.dumps(scan)).to_arrow() == expected


def test_explain_tells_what_will_be_read(table: lw.Table) -> None:
    text = table.scan(["a"], "s = 'x'", limit=5).explain()
    assert "4 of 4 fragments" in text
    assert "columns a, s" in text
    assert "filter s = 'x'" in text
    assert "1 of 4 fragments" in table.scan(limit=5).explain()


def test_take_keeps_order_and_repeats(table: lw.Table) -> None:
    positions = [99, 0, 31, 31, 5]
    assert numbers(table.take(positions)) == positions
    assert numbers(table.take(row_ids=positions)) == positions
    assert table.take([1], ["_rowid", "s"]).to_pylist() == [{"_rowid": 1, "s": "row 1"}]


@pytest.mark.parametrize("position", [100, -1, 2**62])
def test_take_refuses_a_position_that_is_not_there(table: lw.Table, position: int) -> None:
    with pytest.raises(lw.InvalidInputError, match=f"{position} does not exist"):
        table.take([0, position])


@pytest.mark.parametrize("kind", [list, tuple, np.array, pa.array])
def test_take_accepts_numbers_of_any_kind(table: lw.Table, kind: Any) -> None:
    for positions in ([0], [4, 0], []):
        assert numbers(table.take(kind(positions))) == positions
        assert numbers(table.take(row_ids=kind(positions))) == positions
    assert numbers(table.take(np.array([3], np.int8))) == [3]


@pytest.mark.parametrize("bad", [[-1], [1.7], ["1"], [2**64], [[1]], [None]])
def test_take_refuses_what_is_no_row_id(table: lw.Table, bad: Any) -> None:
    with pytest.raises(lw.InvalidInputError, match="row_ids"):
        table.take(row_ids=bad)


def test_take_needs_one_kind_of_number(table: lw.Table) -> None:
    with pytest.raises(lw.InvalidInputError, match="not both"):
        table.take([1], row_ids=[1])
    with pytest.raises(lw.InvalidInputError, match="not both"):
        table.take()
    with pytest.raises(lw.InvalidInputError, match="whole numbers"):
        table.take([1.5])  # type: ignore[list-item]
    with pytest.raises(lw.NotFoundError, match="row id 100 not found"):
        table.take(row_ids=[100])


def test_head_is_the_first_rows(table: lw.Table) -> None:
    assert table.head() == ROWS.slice(0, 5)
    assert table.head(2, ["a"]) == ROWS.select(["a"]).slice(0, 2)


def test_versions_are_newest_first_and_lazy(table: lw.Table) -> None:
    newer = table.append(
        ROWS, message="more", commit=lw.CommitOptions(properties={"by": "me"})
    ).set_config({"k": "v"})
    listed = list(newer.versions())
    assert [each.version for each in listed] == [3, 2, 1]
    assert [each.operation for each in listed] == ["UpdateConfig", "Append", "Overwrite"]
    assert listed[1].message == "more"
    assert listed[1].properties == {"by": "me"}
    assert [each.rows for each in listed] == [200, 200, 100]
    assert len(list(newer.versions(limit=2))) == 2
    with pytest.raises(lw.InvalidInputError, match="limit"):
        newer.versions(limit=-1)


def test_checkout_by_version_and_by_moment(table: lw.Table) -> None:
    second = table.append(ROWS)
    third = second.append(ROWS)
    assert third.checkout(version=1).count_rows() == 100
    for each in (table, second, third):
        assert third.checkout(as_of=each.timestamp).version == each.version
    assert third.checkout(as_of=third.timestamp + timedelta(days=1)).version == 3
    assert third.checkout(as_of=second.timestamp.astimezone(None)).version == 2
    with pytest.raises(lw.NotFoundError, match="is as old as"):
        third.checkout(as_of=table.timestamp - timedelta(seconds=1))
    with pytest.raises(lw.NotFoundError, match=r"version 9 of .* not found: the newest is 3"):
        third.checkout(version=9)


def test_a_moment_may_be_a_text(table: lw.Table) -> None:
    second = table.append(ROWS)
    day = second.timestamp.astimezone(None).date()
    for text in (table.timestamp.isoformat(), f" {second.timestamp.isoformat()} "):
        assert second.checkout(as_of=text).timestamp.isoformat() == text.strip()
    assert lw.open(table.uri, as_of=str(day + timedelta(days=1))).version == 2
    with pytest.raises(lw.NotFoundError, match="is as old as"):
        lw.open(table.uri, as_of=str(day))
    for wrong in ("yesterday", "", "2026-13-01"):
        with pytest.raises(lw.InvalidInputError, match="write it as '2026-05-04'"):
            lw.open(table.uri, as_of=wrong)


def test_without_polars_its_name_is_told(table: lw.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(lw.UnsupportedError, match="pip install polars"):
        table.to_polars()


def test_a_moment_means_the_highest_version_not_later_even_if_clocks_ran_back(uri: str) -> None:
    table = lw.create(uri, ROWS)
    base = int(table.timestamp.timestamp()) * 10**9
    snapshot = table._snapshot
    for seconds in (100, 50, 200):
        policy = CommitPolicy(clock=lambda s=seconds: base + s * 10**9)  # type: ignore[misc]
        transaction = lw.Table(snapshot).transaction(Append(()))
        snapshot = snapshot.commit(transaction, policy)
    latest = lw.Table(snapshot)
    start = datetime.fromtimestamp(base / 1e9, UTC)
    assert latest.checkout(as_of=start + timedelta(seconds=120)).version == 3
    assert latest.checkout(as_of=start + timedelta(seconds=60)).version == 3
    assert latest.checkout(as_of=start + timedelta(seconds=40)).version == 1


@pytest.mark.parametrize("version", [0, -1, True, 1.0])
def test_versions_count_from_one(table: lw.Table, version: int) -> None:
    with pytest.raises(lw.InvalidInputError, match="whole number from 1"):
        table.checkout(version=version)


def test_checkout_needs_exactly_one_wish(table: lw.Table) -> None:
    with pytest.raises(lw.InvalidInputError, match="needs branch=, version=, tag=, as_of= or at="):
        table.checkout()
    with pytest.raises(lw.InvalidInputError, match="version= and as_of= each say"):
        table.checkout(version=1, as_of=table.timestamp)
    with pytest.raises(lw.InvalidInputError, match="version must be a whole number"):
        table.checkout(version="1")  # type: ignore[arg-type]
    with pytest.raises(lw.InvalidInputError, match="takes a datetime"):
        table.checkout(as_of=20260504)  # type: ignore[arg-type]


def test_restore_makes_an_old_version_the_newest(table: lw.Table) -> None:
    newer = table.append(ROWS).overwrite(pa.table({"x": [1]}))
    restored = newer.restore(1, message="back")
    assert restored.version == 4
    assert restored.to_arrow() == ROWS
    assert table.restore().version == 5
    with pytest.raises(lw.NotFoundError, match="version 77"):
        newer.restore(77)


def test_restore_takes_a_tag_or_a_revision_of_its_branch(table: lw.Table) -> None:
    table.tags.create("first")
    branch = table.branches.create("exp").append(ROWS)
    branch.tags.create("done")
    newer = table.append(ROWS)
    for said in ({"tag": "first"}, {"at": "first"}, {"at": 1}, {"at": ":1"}):
        newer = newer.restore(**said).append(ROWS)
        assert newer.count_rows() == 2 * len(ROWS)
    assert branch.append(ROWS).restore(tag="done").to_arrow() == branch.to_arrow()
    with pytest.raises(lw.InvalidInputError, match="version 2 is on branch 'exp', and main"):
        newer.restore(tag="done")
    with pytest.raises(lw.InvalidInputError, match="and branch 'exp' is to be restored"):
        branch.restore(at="main")
    with pytest.raises(lw.InvalidInputError, match="version= and tag= each say"):
        newer.restore(1, tag="first")


def test_config_and_metadata_are_set_and_removed(table: lw.Table) -> None:
    table = table.set_config({"a": "1", "b": "2"}).set_metadata({"owner": "me"})
    assert table.config == {"a": "1", "b": "2"}
    assert table.metadata == {"owner": "me"}
    assert table.set_config({"a": None}).config == {"b": "2"}
    assert table.latest().set_config({"c": "3"}, replace=True).config == {"c": "3"}
    assert table.latest().set_config({"lance.auto_cleanup.interval": "9"}).version == 6


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"lance.nonsense": "1"}, "reserved"),
        ({"k": 1}, "must be a text"),
        ({"": "x"}, "not be empty"),
        ({"k": "\ud800"}, "not valid text"),
        (None, "a map of texts"),
        ([("a", "b")], "a map of texts"),
        ({}, "nothing to change"),
    ],
)
def test_a_wrong_setting_is_refused(table: lw.Table, values: Any, problem: str) -> None:
    with pytest.raises(lw.InvalidInputError, match=problem):
        table.set_config(values)
    assert table.latest().version == 1


def test_work_can_be_shared_by_fragments(table: lw.Table) -> None:
    ids = [each.id for each in table.fragments]
    parts = [numbers(table.scan(["a"], fragment_ids=[each]).to_arrow()) for each in ids]
    assert [each for part in parts for each in part] == list(range(100))
    assert table.scan(fragment_ids=[]).count() == 0
    with pytest.raises(lw.NotFoundError, match="fragment 9 not found"):
        table.scan(fragment_ids=[9])


def test_fragments_travel_and_one_commit_names_them_all(table: lw.Table) -> None:
    written = [pickle.loads(pickle.dumps(table.write_fragments(ROWS))) for _ in range(3)]
    assert table.latest().version == 1
    together = tuple(each for part in written for each in part)
    newer = table.commit(table.transaction(Append(together), message="three at once"))
    assert newer.version == 2
    assert newer.count_rows() == 400


def test_a_transaction_lands_once_however_often_it_is_committed(table: lw.Table) -> None:
    first, second = table.write_fragments(ROWS), table.write_fragments(ROWS)
    transaction = table.transaction(Append(first), Append(second))
    once = table.commit(transaction)
    once.append(ROWS)
    twice = table.commit(transaction)
    assert (once.version, twice.version) == (3, 3)
    assert twice.count_rows() == 300
    assert table.latest().version == 4


def test_a_list_is_whole_or_not_begun(table: lw.Table) -> None:
    change = UpdateConfig(config=MapUpdate({"a": "1"}))
    with pytest.raises(lw.NotFoundError):
        table.commit(table.transaction(change, Restore(Version(99))))
    assert table.latest().version == 1


def test_fragments_of_a_table_are_not_appended_under_their_old_ids(table: lw.Table) -> None:
    newer = table.commit(table.transaction(Append((table.fragments[1],))))
    assert [each.id for each in newer.fragments] == [0, 1, 2, 3, 4]
    ids = newer.scan(["_rowid"]).to_arrow().column(0).to_pylist()
    assert ids == list(range(130))


def test_file_versions_can_be_chosen(uri: str) -> None:
    table = lw.create(uri, ROWS, layout=lw.Layout(file_version="2.0"))
    assert table.file_version == "2.0"
    assert table.append(ROWS).file_version == "2.0"
    assert (
        table.latest().overwrite(ROWS.schema, layout=lw.Layout(file_version="2.2")).file_version
        == "2.2"
    )
    newer = table.latest().overwrite(ROWS, layout=lw.Layout(file_version="2.1"))
    assert newer.file_version == "2.1"
    assert newer.to_arrow() == ROWS
    for bad in ("1.0", "2.3", "stable", ""):
        with pytest.raises(lw.InvalidInputError, match="cannot be written"):
            table.overwrite(ROWS, layout=lw.Layout(file_version=bad))


def test_a_transaction_on_a_version_that_is_gone_is_refused(table: lw.Table) -> None:
    transaction = replace(table.transaction(Append(())), read_version=Version(77))
    with pytest.raises(lw.NotFoundError, match=r"built on version 77 .* build it again"):
        table.commit(transaction)


def test_pylance_is_not_handed_a_table_in_memory() -> None:
    with pytest.raises(lw.UnsupportedError, match="in this process only"):
        lw.create("memory://alone/t", ROWS).lance()


def test_pylance_is_handed_exactly_this_version(tmp_path: Path) -> None:
    table = lw.create(tmp_path / "t.lance", ROWS)
    table.append(ROWS)
    assert table.lance().version == 1
    assert table.lance().count_rows() == 100


def test_a_path_of_any_kind_names_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lw.create(Path("t.lance"), ROWS)
    for uri in ("t.lance", "./t.lance/", tmp_path / "t.lance", f"file://{tmp_path}/t.lance"):
        assert lw.open(uri).uri == str(tmp_path / "t.lance")


def test_rows_taken_without_columns_are_still_as_many(uri: str) -> None:
    table = lw.create(uri, ROWS)
    assert table.take([0, 5, 5], columns=[]).num_rows == 3
    assert table.take(row_ids=[7, 2], columns=[]).num_rows == 2
    with pytest.raises(lw.InvalidInputError):
        table.take([10**6], columns=[])


def test_changes_take_a_revision_in_every_way_that_open_does(tmp_path: Path) -> None:
    table = lw.create(tmp_path / "t", pa.table({"a": [1]}))
    table.tags.create("v1")
    moment = table.timestamp
    second = table.append(pa.table({"a": [2]}))
    second.branches.create("exp")
    third = second.append(pa.table({"a": [3]}))
    for since in (1, "v1", ":1", "tag:v1", moment):
        assert third.changes(since).counts.inserted == 2
        assert third.changes(since, ":2").counts.inserted == 1
    branch = table.checkout(branch="exp").append(pa.table({"a": [4]}))
    assert branch.changes("v1").counts.inserted == 2
    with pytest.raises(lw.InvalidInputError, match="not known to be in the past"):
        third.changes("exp:3")
    assert third.follows(second)
    assert not third.follows(branch)


def test_branches_and_tags_are_asked_by_name(uri: str) -> None:
    table = lw.create(uri, pa.table({"a": [1]}))
    table.branches.create("exp")
    table.branches.create("b/c")
    table.tags.create("v1")
    assert [*table.branches] == ["b/c", "exp"]
    assert (len(table.branches), len(table.tags)) == (2, 1)
    assert table.branches["exp"] == table.branches.get("exp")
    assert table.tags["v1"].version == 1
    assert "exp" in table.branches
    assert "v1" in table.tags
    for missing in ("none", "main", "a..b", "", 7):
        assert missing not in table.branches
        assert missing not in table.tags
    with pytest.raises(lw.NotFoundError, match="tag 'v2'"):
        table.tags["v2"]

"""Scans: which fragments are opened, which columns are read, and what comes out."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import lance
import numpy as np
import pyarrow as pa
import pytest
from tests.small_sizes import small_sizes

import lancewood as lw
from lancewood.data import open_files
from lancewood.data.codec import FileReader, open_reader
from lancewood.data.wanted import is_fixed_width
from lancewood.engine.rows import fragment_scan
from lancewood.engine.rows.fragment_scan import locations_in
from lancewood.engine.rows.picking import Wanted, runs_in, savings
from lancewood.engine.rows.row_shape import Fetching
from lancewood.engine.rows.scan import ScanPlan, ScanRequest, plan_scan
from lancewood.expr import Predicate

ROWS = 100
FRAGMENTS = 4


def rows(first: int, count: int = ROWS, **more: Any) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table(
        {
            "n": pa.array(numbers, pa.int64()),
            "s": [f"row {each}" for each in numbers],
            "wide": [bytes([each % 256]) * 100 for each in numbers],
            **more,
        }
    )


@pytest.fixture
def table(uri: str) -> lw.Table:
    """Four fragments, one a version."""
    made = lw.create(uri, rows(0))
    for number in range(1, FRAGMENTS):
        made = made.append(rows(number * ROWS))
    return made


@pytest.fixture
def asked(
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[list[tuple[str, tuple[str, ...] | None]]]:
    """What was asked of data files: which file was opened, and for which columns."""
    seen: list[tuple[str, tuple[str, ...] | None]] = []
    honest = open_reader

    def opened(location: str, paths: Sequence[str] | None, options: Any) -> FileReader:
        seen.append((Path(location).name, None if paths is None else tuple(paths)))
        return honest(location, paths, options)

    open_files.OPEN_FILES.close()
    monkeypatch.setattr(open_files, "open_reader", opened)
    monkeypatch.setattr(fragment_scan, "_SMALL", 0)
    with small_sizes(stored=0):
        yield seen


def numbers(plan: ScanPlan) -> list[int]:
    found = pa.Table.from_batches(plan.batches(), plan.schema)
    return found.column("n").to_pylist()  # type: ignore[no-any-return]


def plan(table: lw.Table, **request: Any) -> ScanPlan:
    return plan_scan(table._snapshot, **request)


def file_of(table: lw.Table, position: int) -> str:
    return table.fragments[position].files[0].path


def test_other_columns_are_opened_only_where_a_row_passes(
    table: lw.Table, asked: list[tuple[str, tuple[str, ...] | None]]
) -> None:
    assert numbers(plan(table, where="n = 250")) == [250]
    filters = [each for each in asked if each[1] == ("n",)]
    assert sorted(each[0] for each in filters) == sorted(file_of(table, at) for at in range(4))
    assert [each for each in asked if each not in filters] == [(file_of(table, 2), ("s", "wide"))]


def test_counting_reads_the_columns_of_the_filter_only(
    table: lw.Table, asked: list[tuple[str, tuple[str, ...] | None]]
) -> None:
    assert plan(table, where="n % 2 = 0", columns=["wide"]).count() == 200
    assert {paths for _, paths in asked} == {("n",)}


def test_a_limit_stops_before_the_other_fragments_are_opened(
    table: lw.Table, asked: list[tuple[str, tuple[str, ...] | None]]
) -> None:
    assert numbers(plan(table, where="n > 3", limit=5)) == [4, 5, 6, 7, 8]
    assert {name for name, _ in asked} == {file_of(table, 0)}


def test_a_small_file_is_read_in_one_go(
    table: lw.Table,
    asked: list[tuple[str, tuple[str, ...] | None]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fragment_scan, "_SMALL", 1 << 20)
    assert numbers(plan(table, where="n < 5")) == [0, 1, 2, 3, 4]
    assert (file_of(table, 0), ("n", "s", "wide")) in asked


def calls_of_the_codec(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, tuple[str, ...], int]]:
    """What is asked of the codec from now on: how, for which columns, how many rows."""
    calls: list[tuple[str, tuple[str, ...], int]] = []
    for verb in ("read", "take"):
        honest: Callable[..., Iterator[pa.RecordBatch]] = getattr(FileReader, verb)

        def spied(
            reader: FileReader,
            *call: Any,
            honest: Callable[..., Iterator[pa.RecordBatch]] = honest,
            verb: str = verb,
        ) -> Iterator[pa.RecordBatch]:
            batches = list(honest(reader, *call))
            names = tuple(batches[0].schema.names)
            calls.append((verb, names, sum(each.num_rows for each in batches)))
            return iter(batches)

        monkeypatch.setattr(FileReader, verb, spied)
    return calls


def test_wide_columns_are_fetched_row_by_row_and_narrow_ones_are_read_through(
    table: lw.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fragment_scan, "_SMALL", 0)
    monkeypatch.setattr(fragment_scan, "CALL", 0.0)
    noise = random.Random(7)
    wide = pa.array([noise.randbytes(50_000) for _ in range(ROWS)], pa.binary())
    other = table.overwrite(rows(0, wide=wide, m=pa.array(range(ROWS), pa.int64())))
    calls = calls_of_the_codec(monkeypatch)
    with small_sizes(stored=0):
        found = numbers(plan(other, where="n % 9 = 3", columns=["n", "m", "wide"]))
    assert found == [*range(3, ROWS, 9)]
    assert calls == [("read", ("n",), ROWS), ("read", ("m",), 91), ("take", ("wide",), 11)]


@pytest.mark.parametrize(
    ("where", "fragments"),
    [
        ("_rowaddr = 4294967301", [1]),
        ("_rowaddr IN (5, 8589934592, 99999999999999)", [0, 2]),
        ("_rowaddr > 12884901900", [3]),
        ("_rowaddr < 4294967296", [0]),
        ("_rowaddr <= 4294967296", [0, 1]),
        ("_rowaddr >= 12884901987", [3]),
        ("_rowaddr >= 12884901988", []),
        ("_rowid = 105", [1]),
        ("_rowid <> 105", [0, 1, 2, 3]),
        ("_rowid BETWEEN 150 AND 250", [1, 2]),
        ("_rowid IN (1, 399, 400)", [0, 3]),
        ("_rowid IS NULL", []),
        ("_rowid IS NOT NULL AND _rowid < 10", [0]),
        ("_row_created_at_version = 3", [2]),
        ("_row_created_at_version <> 3 AND _row_last_updated_at_version > 2", [3]),
        ("_row_created_at_version > 9", []),
        ("n = 5 AND _row_last_updated_at_version <= 2", [0, 1]),
        ("n = 5 OR _row_last_updated_at_version <= 2", [0, 1, 2, 3]),
        ("1 = 2", []),
        ("NULL", []),
        ("1 = 1", [0, 1, 2, 3]),
    ],
)
def test_fragments_that_cannot_match_are_left_out(
    table: lw.Table, where: str, fragments: list[int]
) -> None:
    found = plan(table, where=where)
    assert [each.id for each in found.matching()] == fragments
    assert f"{len(fragments)} of 4 fragments" in found.explain()
    everything = plan(table, columns=["n"])
    kept = plan(table, columns=["n"], where=where, fragment_ids=fragments)
    assert numbers(found) == numbers(kept)
    assert len(numbers(everything)) == 400


def test_without_stable_row_ids_a_row_id_names_its_fragment(tmp_path: Path) -> None:
    made = lw.create(
        tmp_path / "u.lance",
        rows(0, 400),
        layout=lw.Layout(max_rows_per_file=100, stable_row_ids=False),
        access=lw.Access(fsync=False),
    )
    assert [each.id for each in plan(made, where="_rowid = 4294967301").matching()] == [1]
    assert numbers(plan(made, where="_rowid = 4294967301")) == [105]


def test_an_address_does_not_make_all_fragments_be_decoded(table: lw.Table) -> None:
    fresh = lw.open(table.uri)
    assert numbers(plan(fresh, where="_rowaddr = 4294967301")) == [105]
    assert "fragments" not in fresh._snapshot.manifest.__dict__


@pytest.mark.parametrize(
    ("where", "fragments"),
    [
        ("late > 3", [1]),
        ("late IS NULL", [0, 1, 2]),
        ("late IS NOT NULL", [1]),
        ("late IS NULL AND n < 5", [0, 1, 2]),
        ("late = 1 OR n = 5", [0, 1, 2]),
        ("coalesce(late, 7) = 7", [0, 1, 2]),
        ("coalesce(late, 7) = 8", [1]),
        ("late IN (1, 2) AND n > 0", [1]),
        ("p.x = 1", [1]),
        ("p.x IS NULL", [0, 1, 2]),
        ("p IS NOT NULL", [1]),
        ("NOT (late IS NULL)", [1]),
    ],
)
def test_a_column_that_no_file_holds_is_null_without_looking(
    uri: str, where: str, fragments: list[int], asked: list[tuple[str, tuple[str, ...] | None]]
) -> None:
    whole = rows(0, late=pa.array(range(ROWS)), p=pa.array([{"x": each} for each in range(ROWS)]))
    made = lw.create(uri, whole.schema)
    for each in (rows(0), whole, rows(2 * ROWS)):
        made = made.append(each)
    found = plan(made, where=where, columns=["n"])
    assert [each.id for each in found.matching()] == fragments
    expected = lance.dataset(uri).to_table(filter=where, columns=["n"])
    assert numbers(found) == expected.column("n").to_pylist()
    assert {name for name, _ in asked} <= {file_of(made, at) for at in fragments}


def test_a_filter_is_not_asked_about_deleted_rows(uri: str) -> None:
    lw.create(uri, pa.table({"n": [1, 2, 3], "t": ["1", "two", "3"]}))
    lance.dataset(uri).delete("n = 2")
    made = lw.open(uri)
    for how in Fetching:
        request = ScanRequest(where="CAST(t AS BIGINT) > 0", fetching=how)
        assert numbers(ScanPlan(made._snapshot, request)) == [1, 3]
    with pytest.raises(lw.InvalidInputError, match="TRY_CAST"):
        lw.open(uri, version=1).count_rows("CAST(t AS BIGINT) > 0")


def test_expressions_are_computed_for_rows_that_pass(table: lw.Table) -> None:
    found = table.scan(
        {"twice": "n * 2", "text": "upper(s)", "id": "_rowid", "seven": "7"}, where="n >= 398"
    )
    assert found.schema.names == ["twice", "text", "id", "seven"]
    assert found.schema.types == [pa.int64(), pa.string(), pa.uint64(), pa.int32()]
    assert found.to_arrow().to_pylist() == [
        {"twice": 796, "text": "ROW 398", "id": 398, "seven": 7},
        {"twice": 798, "text": "ROW 399", "id": 399, "seven": 7},
    ]
    assert table.head(1, {"one": "n + 1"}).to_pylist() == [{"one": 1}]
    assert table.scan({}).to_arrow().num_columns == 0
    assert table.scan({"n": "n"}, with_row_id=True).schema.names == ["n", "_rowid"]


def test_an_expression_cannot_fail_on_rows_that_do_not_pass(uri: str) -> None:
    made = lw.create(uri, pa.table({"n": [1, 2, 3], "t": ["1", "two", "3"]}))
    for how in Fetching:
        request = ScanRequest(columns={"n": "CAST(t AS BIGINT)"}, where="n <> 2", fetching=how)
        assert numbers(ScanPlan(made._snapshot, request)) == [1, 3]


def test_a_column_under_another_name_keeps_its_field(uri: str) -> None:
    field = pa.field("v", pa.list_(pa.float32(), 2), nullable=False, metadata={"unit": "m"})
    made = lw.create(uri, pa.table({"v": [[1.0, 2.0]]}, schema=pa.schema([field])))
    schema = made.scan({"w": "v"}).schema
    assert schema.field("w").equals(made.schema.field("v").with_name("w"), check_metadata=True)
    assert made.scan({"w": "v"}).to_arrow().schema.equals(schema, check_metadata=True)


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ({"x": "missing + 1"}, r"column 'x': .*missing"),
        ({"x": "n +"}, "column 'x'"),
        ({"x": "s + 1"}, "column 'x'"),
        ({"x": "n = $low"}, "there is no parameter 'low'"),
        ({"x": 5}, "names with SQL text"),
        ({"": "n"}, "names with SQL text"),
        ({"_rowid": "n"}, "cannot be called '_rowid'"),
    ],
)
def test_a_wrong_expression_is_told_at_once(table: lw.Table, columns: Any, problem: str) -> None:
    with pytest.raises(lw.InvalidInputError, match=problem):
        table.scan(columns)


def test_parameters_fill_in_filters_and_expressions(table: lw.Table) -> None:
    found = table.scan(
        {"n": "n + $more"}, "n BETWEEN $low AND $high", parameters={"low": 3, "high": 4, "more": 10}
    )
    assert found.to_arrow()["n"].to_pylist() == [13, 14]
    assert table.count_rows("n >= ? AND n < ?", parameters=[10, 30]) == 20
    assert table.scan({"n": "n"}, "n = ?", parameters=[5]).count() == 1
    assert pickle.loads(pickle.dumps(found._plan)).count() == 2


@pytest.mark.parametrize(
    ("request_", "problem"),
    [
        ({"parameters": {"a": 1}}, "neither where nor columns"),
        ({"where": "n = $a", "parameters": {"b": 1}}, "no parameter 'a'"),
        ({"where": "n = ?", "parameters": [1, 2]}, "2 parameters are given"),
        ({"where": "n = ?", "parameters": 5}, "a mapping for .name, or a list"),
    ],
)
def test_wrong_parameters_are_told_at_once(
    table: lw.Table, request_: dict[str, Any], problem: str
) -> None:
    with pytest.raises(lw.InvalidInputError, match=problem):
        table.scan(**request_)


def test_take_computes_nothing(table: lw.Table) -> None:
    with pytest.raises(lw.InvalidInputError, match="use scan"):
        table.take([1], {"x": "n"})  # type: ignore[arg-type]


def test_explain_tells_what_is_read_late(table: lw.Table) -> None:
    text = table.scan(["s", "n"], where="n > 5").explain()
    assert "4 of 4 fragments" in text
    assert "then for rows that pass s" in text
    assert "then for rows" not in table.scan(["n"], where="n > 5").explain()


def test_a_scan_describes_itself_without_looking_at_fragments(table: lw.Table) -> None:
    fresh = lw.open(table.uri)
    assert "filter n > 5" in repr(fresh.scan(where="n > 5"))
    assert "fragments" not in fresh._snapshot.manifest.__dict__


@pytest.mark.parametrize("how", list(Fetching))
def test_dictionaries_of_several_batches_stay_apart(uri: str, how: Fetching) -> None:
    kind = pa.dictionary(pa.int8(), pa.string())
    parts = [
        pa.table(
            {
                "n": range(at, at + 100),
                "d": pa.array([f"v{each}" for each in range(at, at + 100)]).cast(kind),
            }
        )
        for at in (0, 100)
    ]
    made = lw.create(uri, parts[0]).append(parts[1])
    for where in ("n % 3 = 0", "d <> 'v7'"):
        request = ScanRequest(where=where, columns=["d", "n"], fetching=how, batch_rows=30)
        found = pa.Table.from_batches(ScanPlan(made._snapshot, request).batches())
        expected = [n for n in range(200) if (n % 3 == 0 if "3" in where else n != 7)]
        assert found["d"].to_pylist() == [f"v{n}" for n in expected]


def test_fragments_of_unknown_length_are_read_to_their_end(table: lw.Table) -> None:
    message = table.fragments[1].message
    copy = type(message)()
    copy.CopyFrom(message)
    copy.physical_rows = 0
    unknown = replace(table.fragments[1], message=copy)
    request = ScanRequest(where="_rowaddr >= 4294967396 OR n = 120", fragments=[unknown])
    assert numbers(ScanPlan(table._snapshot, request)) == [120]


def test_positions_of_true_bits_are_found_in_slices_too() -> None:
    mask = pa.array([True, False, True, True, False, False, True, False, True, True, False])
    for start in range(len(mask)):
        piece = mask.slice(start)
        assert locations_in(piece).tolist() == np.flatnonzero(piece.to_pylist()).tolist()


def test_a_list_of_parameters_is_for_the_condition_and_columns_say_so() -> None:
    table = lw.create("memory://listed/t", pa.table({"a": [1, 2, 3]}))
    assert table.count_rows("a > ?", parameters=[1]) == 2
    with pytest.raises(lw.InvalidInputError, match="columns take them by name"):
        table.scan({"b": "a + ?"}, parameters=[1])
    assert table.scan({"b": "a + $n"}, parameters={"n": 1}).to_arrow()["b"].to_pylist() == [2, 3, 4]


def test_what_one_fragment_shows_is_read_along_in_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, noise = 200_000, np.random.default_rng(3)
    made = lw.create(
        tmp_path / "t",
        pa.table(
            {
                "v": noise.random(2 * rows),
                "n": range(2 * rows),
                "wide": pa.FixedSizeBinaryArray.from_buffers(
                    pa.binary(16), 2 * rows, [None, pa.py_buffer(noise.bytes(32 * rows))]
                ),
            }
        ),
        layout=lw.Layout(max_rows_per_file=rows),
    )
    calls = calls_of_the_codec(monkeypatch)
    found = made.scan(["n", "wide"], where="v < 0.01").to_arrow()
    assert found.equals(lance.dataset(made.uri).to_table(["n", "wide"], filter="v < 0.01"))
    probed = fragment_scan._FIRST_STAGE
    assert [each for each in calls if "v" in each[1]] == [
        ("read", ("v",), probed),
        ("read", ("v", "n", "wide"), rows - probed),
        ("read", ("v", "n", "wide"), rows),
    ]


def test_rows_of_several_stages_are_fetched_together_where_they_are_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = 120_000
    texts = [f"text number {number}" for number in range(rows)]
    made = lw.create(tmp_path / "t", pa.table({"n": range(rows), "t": texts}))
    monkeypatch.setattr(fragment_scan, "_SMALL", 0)
    calls = calls_of_the_codec(monkeypatch)
    found = made.scan(["t"], where="n % 60000 = 7").to_arrow()
    assert found["t"].to_pylist() == [texts[7], texts[60_007]]
    assert [each[:2] for each in calls] == [
        ("read", ("n",)),
        ("read", ("n",)),
        ("take", ("t",)),
    ]


@pytest.fixture
def wide(tmp_path: Path) -> lw.Table:
    """Ten fragments of 20 rows, in files that are not small."""
    noise = random.Random(8)
    payload = pa.array([noise.randbytes(60_000) for _ in range(200)], pa.binary())
    rows = pa.table({"n": range(200), "m": range(200, 400), "payload": payload})
    return lw.create(tmp_path / "wide", rows, layout=lw.Layout(max_rows_per_file=20))


def test_filters_of_neighbours_are_judged_at_once_and_rows_fetched_from_each(
    wide: lw.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged: list[int] = []
    honest = Predicate.mask

    def mask(predicate: Predicate, batch: pa.RecordBatch) -> pa.BooleanArray:
        judged.append(batch.num_rows)
        return honest(predicate, batch)

    monkeypatch.setattr(Predicate, "mask", mask)
    calls = calls_of_the_codec(monkeypatch)
    where = "n IN (3, 5, 61, 199)"
    found = wide.scan(where=where, with_row_address=True).to_arrow()
    assert judged == [200]
    assert [each[1:] for each in calls] == [(("m", "payload"), rows) for rows in (2, 1, 1)]
    expected = lance.dataset(wide.uri).scanner(filter=where, with_row_address=True).to_table()
    assert found.equals(expected.select(found.schema.names))
    assert numbers(plan(wide, where="n >= 30", limit=40, offset=5)) == [*range(35, 75)]
    assert numbers(plan(wide.delete("n < 198"), where="m > 0")) == [198, 199]


def test_a_broken_file_fails_only_the_scan_that_needs_it(wide: lw.Table) -> None:
    lost = Path(wide.uri) / "data" / file_of(wide, 6)
    lost.unlink()
    assert numbers(plan(wide, where="n >= 10", limit=5)) == [*range(10, 15)]
    batches = plan(wide, where="n % 20 = 1").batches()
    assert [next(batches)["n"].to_pylist() for _ in range(6)] == [[20 * n + 1] for n in range(6)]
    with pytest.raises(lw.NotFoundError, match=lost.name):
        next(batches)


# The cost of reading on, and of fetching rows alone


def saving(kind: pa.DataType, width: float, rows: int, span: int, runs: int | None = None) -> float:
    wanted = Wanted(rows, span, rows if runs is None else runs)
    return savings({"c": width}, () if is_fixed_width(kind) else ("c",), wanted)["c"]


@pytest.mark.parametrize(
    ("kind", "width", "rows", "reads_on"),
    [
        (pa.int64(), 2.9, 100, False),
        (pa.int64(), 2.9, 10_000, True),
        (pa.string(), 8.5, 10_000, False),
        (pa.string(), 8.5, 200_000, True),
        (pa.binary(), 20_488.0, 100_000, False),
        (pa.list_(pa.float32(), 768), 3_072.0, 10_000, False),
    ],
)
def test_few_rows_among_a_million_are_fetched_alone_and_many_are_read_through(
    kind: pa.DataType, width: float, rows: int, reads_on: bool
) -> None:
    assert (saving(kind, width, rows, 1_000_000) > 0) is reads_on


def test_neighbours_are_fetched_alone_though_they_are_many() -> None:
    assert saving(pa.int64(), 2.9, 10_000, 1_000_000, runs=3) < 0
    assert saving(pa.string(), 8.5, 200_000, 1_000_000, runs=3) < 0
    assert saving(pa.string(), 8.5, 200_000, 200_000, runs=1) >= 0


@pytest.mark.parametrize(
    ("offsets", "runs"), [([], 0), ([7], 1), ([3, 4, 5], 1), ([0, 2, 3, 9], 3)]
)
def test_runs_of_neighbours_are_counted(offsets: list[int], runs: int) -> None:
    assert runs_in(np.array(offsets, np.int64)) == runs


@pytest.mark.parametrize(
    ("where", "columns", "asked_of"),
    [
        ("n % 9 = 3", ["n"], [60_000]),
        ("n % 9 = 3", ["n", "s"], [60_000]),
        ("n % 9 = 3", {"m": "n + 1"}, [60_000]),
        ("n > 59_990", ["n"], [20_000, 20_000, 20_000]),  # pyarrow decides it
    ],
)
def test_a_statement_is_asked_for_the_rows_of_several_fragments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, columns: Any, asked_of: list[int]
) -> None:
    rows = pa.table({"n": range(60_000), "s": [str(each) for each in range(60_000)]})
    made = lw.create(tmp_path / "t.lance", rows, layout=lw.Layout(max_rows_per_file=20_000))
    seen: list[int] = []
    honest = Predicate.mask

    def mask(self: Predicate, batch: pa.RecordBatch) -> pa.BooleanArray:
        seen.append(batch.num_rows)
        return honest(self, batch)

    monkeypatch.setattr(Predicate, "mask", mask)
    found = made.scan(columns, where=where).to_arrow()
    assert seen == asked_of
    selected = "n + 1 AS m" if isinstance(columns, dict) else ", ".join(columns)
    expected = duckdb.sql(f"SELECT {selected} FROM rows WHERE {where} ORDER BY n")
    assert expected is not None
    assert found.to_pylist() == expected.to_arrow_table().to_pylist()

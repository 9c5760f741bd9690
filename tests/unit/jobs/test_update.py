"""Updating rows, both ways: what they become, what is written, and what is refused."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

import lance
import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.engine.write.column_file import mark_deleted
from lancewood.errors import InvalidInputError, StorageError, UnsupportedError
from lancewood.jobs.counts import RowCounts
from lancewood.jobs.job import execute
from lancewood.jobs.rows import update as update_rows
from lancewood.jobs.rows.matching import Matching
from lancewood.jobs.rows.update import UpdateRows, move_rows, rewrite_columns
from lancewood.jobs.rows.updating import Portion, Updating, sample
from lancewood.jobs.runner import LocalRunner
from lancewood.model.fragment import Fragment
from lancewood.model.transaction import Update
from lancewood.store.base import Store

T = TypeVar("T")
R = TypeVar("R")
WAYS = ["rows", "columns"]
PRICES = pa.schema([("price", pa.decimal128(19, 2)), ("small", pa.int8())])
LINEAGE = ["_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
STRUCT = pa.struct(
    [
        pa.field("x", pa.int64()),
        pa.field("deep", pa.struct([("y", pa.float64()), ("z", pa.string())])),
        pa.field("sure", pa.int8(), nullable=False),
    ]
)
SCHEMA = pa.schema(
    [
        pa.field("a", pa.int64(), nullable=False),
        ("s", pa.string()),
        ("small", pa.int8()),
        ("f", pa.float32()),
        ("in", STRUCT),
        ("v", pa.list_(pa.float32(), 2)),
        ("kind", pa.dictionary(pa.int8(), pa.string())),
        ("day", pa.date32()),
    ]
)


def rows(first: int, count: int) -> pa.Table:
    numbers = range(first, first + count)
    structs = [
        None
        if each % 5 == 0
        else {"x": each, "deep": {"y": each / 2, "z": str(each)}, "sure": each % 7}
        for each in numbers
    ]
    return pa.table(
        [
            numbers,
            [f"row {each}" for each in numbers],
            [each % 100 for each in numbers],
            [each / 4 for each in numbers],
            structs,
            [[each, each] for each in numbers],
            [f"kind {each % 3}" for each in numbers],
            [None] * count,
        ],
        schema=SCHEMA,
    )


@pytest.fixture(params=["2.0", "2.1", "2.2"])
def version(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return str(tmp_path / "t")


@pytest.fixture
def table(uri: str) -> lw.Table:
    """Fragments of 30, 30, 30 and 10 rows."""
    return lw.create(
        uri, rows(0, 100), layout=lw.Layout(max_rows_per_file=30), access=lw.Access(fsync=False)
    )


class Sent:
    """A runner that sends tasks and results as another process would get them."""

    slots = 2

    def __init__(self) -> None:
        self.tasks: list[Any] = []

    def run(
        self,
        work: Callable[[T], R],
        tasks: Sequence[T],
        *,
        what: str,
        leftover: Callable[[R], object] | None = None,
    ) -> Iterator[R]:
        for task in tasks:
            self.tasks.append(task)
            there = pickle.loads(pickle.dumps(work))
            yield pickle.loads(pickle.dumps(there(pickle.loads(pickle.dumps(task)))))


def by_number(table: lw.Table, columns: Sequence[str] | None = None) -> dict[int, dict[str, Any]]:
    """Every row by the row number that it was born with."""
    names = [*(table.schema.names if columns is None else columns), *LINEAGE]
    return {each["_rowid"]: each for each in table.scan(names).to_arrow().to_pylist()}


def store_of(table: lw.Table) -> Store:
    return table._snapshot.location.store


def files(table: lw.Table) -> set[str]:
    return {each.key for each in store_of(table).list()}


@pytest.mark.parametrize("rewrite", [*WAYS, "auto"])
def test_rows_that_match_get_new_values_and_keep_their_ids(table: lw.Table, rewrite: Any) -> None:
    table = table.append(rows(100, 10))
    before = by_number(table)
    after = table.update(
        {"s": "s || '!'", "small": "a % 10", "f": None}, "a % 4 = 1", rewrite=rewrite
    )
    assert after.version == 3
    assert after.counts == RowCounts(updated=28)
    found = by_number(after)
    assert found.keys() == before.keys()
    for number, old in before.items():
        new = dict(old)
        if number % 4 == 1:
            new |= {"s": old["s"] + "!", "small": number % 10, "f": None}
            new["_row_last_updated_at_version"] = 3
        assert found[number] == new


@pytest.mark.parametrize("rewrite", WAYS)
def test_expressions_see_the_old_row(table: lw.Table, rewrite: Any) -> None:
    after = table.update({"a": "small", "small": "a % 50"}, "a >= 60", rewrite=rewrite)
    assert by_number(after)[75]["a"] == 75
    assert by_number(after)[75]["small"] == 25


@pytest.mark.parametrize("rewrite", WAYS)
def test_without_a_condition_every_row_is_updated(table: lw.Table, rewrite: Any) -> None:
    table = table.delete("a = 7")
    after = table.update({"s": "'same'"}, rewrite=rewrite)
    assert after.counts == RowCounts(updated=99)
    found = by_number(after)
    assert {each["s"] for each in found.values()} == {"same"}
    assert 7 not in found
    assert {each["_row_last_updated_at_version"] for each in found.values()} == {3}


@pytest.mark.parametrize("rewrite", WAYS)
def test_deleted_rows_are_no_rows(table: lw.Table, rewrite: Any) -> None:
    """An expression must not fail on what a deleted row, or one that does not match, holds."""
    table = table.update({"s": "CAST(a AS VARCHAR)"}).update({"s": "'no number'"}, "a in (3, 4)")
    table = table.delete("a = 3")
    after = table.update({"a": "CAST(s AS INT) + 1"}, "a <> 4", rewrite=rewrite)
    assert after.counts == RowCounts(updated=98)
    assert by_number(after)[50]["a"] == 51
    assert by_number(after)[4]["s"] == "no number"


@pytest.mark.parametrize("rewrite", WAYS)
def test_a_field_of_a_struct_is_set_and_its_neighbours_stay(
    uri: str, rewrite: Any, version: str
) -> None:
    data = rows(0, 100)
    if version == "2.0":  # such files hold no null structs
        data = data.filter(data.column("in").is_valid())
    table = lw.create(
        uri,
        data,
        layout=lw.Layout(max_rows_per_file=30, file_version=version),
        access=lw.Access(fsync=False),
    )
    old = {each["a"]: each["in"] for each in table.to_arrow().to_pylist()}
    after = table.update({"in.deep.y": '"in".x + 0.5', "in.x": 7}, "a < 70", rewrite=rewrite)
    after = after.update({"in.deep.z": "'z'"}, "a < 50", rewrite=rewrite)
    found = {each["a"]: each["in"] for each in after.to_arrow().to_pylist()}
    for number, was in old.items():
        if was is not None and number < 70:
            z = "z" if number < 50 else was["deep"]["z"]
            was = {"x": 7, "deep": {"y": was["x"] + 0.5, "z": z}, "sure": was["sure"]}
        assert found[number] == was


def test_a_field_is_written_alone_where_files_allow_it(uri: str) -> None:
    table = lw.create(uri, rows(0, 20), access=lw.Access(fsync=False))
    after = table.update({"in.x": 1}, "a = 1", rewrite="columns")
    old, new = after.fragments[0].files
    names = {each.id: each.name for each in table._snapshot.schema.walk()}
    assert [names[each] for each in new.fields] == ["x"]
    assert set(old.fields) & set(new.fields) == set()


def test_in_2_0_files_the_whole_struct_is_written(uri: str) -> None:
    data = rows(1, 4)
    table = lw.create(
        uri, data, layout=lw.Layout(file_version="2.0"), access=lw.Access(fsync=False)
    )
    after = table.update({"in.x": 1}, "a = 1", rewrite="columns")
    names = {each.id: each.name for each in table._snapshot.schema.walk()}
    assert [names[each] for each in after.fragments[0].files[1].fields] == [
        "in",
        "x",
        "deep",
        "y",
        "z",
        "sure",
    ]


def test_a_struct_without_a_field_is_known_to_be_there(uri: str) -> None:
    """A fragment that was written without the field tells by its other files which rows have the
    struct at all."""
    table = lw.create(uri, rows(1, 4), access=lw.Access(fsync=False))
    narrow = pa.struct([STRUCT.field("x"), STRUCT.field("sure")])
    data = pa.table({"a": [100, 101], "in": pa.array([{"x": 1, "sure": 1}, None], narrow)})
    data = data.cast(pa.schema([SCHEMA.field("a"), pa.field("in", narrow)]))
    after = table.append(data).update({"in.deep": {"y": 1.5}}, rewrite="columns")
    found = {each["a"]: each["in"] for each in after.to_arrow().to_pylist()}
    assert found[100] == {"x": 1, "deep": {"y": 1.5, "z": None}, "sure": 1}
    assert found[101] is None


@pytest.mark.parametrize("rewrite", WAYS)
def test_columns_that_a_fragment_does_not_have_can_be_set(table: lw.Table, rewrite: Any) -> None:
    data = pa.table({"a": [500, 501]}, schema=pa.schema([SCHEMA.field("a")]))
    grown = table.append(data)
    after = grown.update({"s": "'new'", "v": [1, 2]}, "a = 501", rewrite=rewrite)
    found = {each["a"]: each for each in after.to_arrow().to_pylist()}
    assert found[500]["s"] is None
    assert found[501]["s"] == "new"
    assert found[501]["v"] == [1.0, 2.0]
    assert found[501]["in"] is None


@pytest.mark.parametrize("rewrite", WAYS)
def test_every_kind_of_value_can_be_set(table: lw.Table, rewrite: Any) -> None:
    values = {
        "v": [0.5, 1],
        "kind": "'kind 9'",
        "day": "'2024-02-29'",
        "in": {"x": 1, "deep": None, "sure": 3},
        "s": "$name",
        "f": "1 / 3.0",
    }
    after = table.update(values, "a = $n", parameters={"name": "O'Neil", "n": 33}, rewrite=rewrite)
    assert after.counts == RowCounts(updated=1)
    (row,) = after.scan(where="a = 33").to_arrow().to_pylist()
    assert row["v"] == [0.5, 1.0]
    assert row["kind"] == "kind 9"
    assert str(row["day"]) == "2024-02-29"
    assert row["in"] == {"x": 1, "deep": None, "sure": 3}
    assert row["s"] == "O'Neil"
    assert row["f"] == pytest.approx(1 / 3)
    assert by_number(after)[34]["kind"] == "kind 1"


@pytest.mark.parametrize("rewrite", WAYS)
def test_system_columns_can_be_read_but_not_set(table: lw.Table, rewrite: Any) -> None:
    after = table.update(
        {"a": "_rowid * 2", "small": "_rowaddr // 4294967296"}, "_rowid > 95", rewrite=rewrite
    )
    assert by_number(after)[97]["a"] == 194
    assert by_number(after)[97]["small"] == 3
    with pytest.raises(InvalidInputError, match="'_rowid' cannot be set"):
        table.update({"_rowid": 1})


@pytest.mark.parametrize("rewrite", [*WAYS, "auto"])
def test_nothing_to_update_is_no_new_version(table: lw.Table, rewrite: Any) -> None:
    before = files(table)
    for where in ("a > 1000", "false", "_rowid = 1000"):
        after = table.update({"s": None}, where, rewrite=rewrite)
        assert after.version == 1
        assert after.counts == RowCounts()
    assert files(table) == before


def test_an_empty_table_has_nothing_to_update(uri: str) -> None:
    assert lw.create(uri, SCHEMA, access=lw.Access(fsync=False)).update({"a": 1}).version == 1


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "set takes names"),
        ("a = 1", "set takes names"),
        ({5: 1}, "set takes names"),
        ({"nope": 1}, "'nope' not found"),
        ({"in.nope": 1}, "'in.nope' not found"),
        ({"v.item": 1}, "'v.item' not found"),
        ({"in": None, "in.x": 1}, "part of the other"),
        ({"in.deep.y": 1, "in.deep": None}, "part of the other"),
        ({"s": "b + 1"}, "column 's': .*no column 'b'"),
        ({"s": "a +"}, "column 's': cannot read"),
        ({"s": ""}, "column 's': .*empty"),
        ({"s": "a"}, "column 's': a is int64, the column is string; cast it"),
        ({"a": "s"}, "column 'a': s is string"),
        ({"a": "a > 1"}, "column 'a': .* is bool"),
        ({"a": None}, "column 'a': it may not be null"),
        ({"a": "NULL"}, "column 'a': it may not be null"),
        ({"in.sure": None}, "column 'in.sure': it may not be null"),
        ({"small": 300}, "column 'small': .*300"),
        ({"small": "300"}, "column 'small'"),
        ({"small": 1.5}, "column 'small': .*1.5"),
        ({"small": "CAST('x' AS INT)"}, "column 'small': .*cannot be computed"),
        ({"day": "'tomorrow'"}, "column 'day': 'tomorrow'"),
        ({"v": [1, 2, 3]}, "column 'v'"),
        ({"s": "$missing"}, "no parameter 'missing'"),
    ],
)
def test_what_does_not_fit_is_told_before_anything_is_written(
    table: lw.Table, values: Any, message: str
) -> None:
    before = files(table)
    with pytest.raises(InvalidInputError, match=message):
        table.update(values)
    assert files(table) == before


@pytest.mark.parametrize("text", ["12345678901234567.89", "3", "-1.5", "$v", "1e3", "small * 2"])
def test_a_number_becomes_the_decimal_that_equals_it(tmp_path: Path, text: str) -> None:
    rows = pa.table({"price": [Decimal("1.00")], "small": [2]}, PRICES)
    made = lw.create(tmp_path / "prices.lance", rows)
    value = Decimal("9007199254740993.01")
    after = made.update({"price": text}, parameters={"v": value} if "$" in text else None)
    expected = {"$v": value, "small * 2": Decimal(4)}.get(text) or Decimal(text)
    assert lance.dataset(after.uri).to_table()["price"].to_pylist() == [expected]


@pytest.mark.parametrize("text", ["1.567", "1e20", "$v", "1.5 + 0.067", "small * 0.3333"])
def test_a_number_is_not_rounded_to_a_decimal(tmp_path: Path, text: str) -> None:
    rows = pa.table({"price": [Decimal("1.00")], "small": [2]}, PRICES)
    made = lw.create(tmp_path / "prices.lance", rows)
    with pytest.raises(InvalidInputError, match="column 'price'"):
        made.update({"price": text}, parameters={"v": 1.567} if "$" in text else None)
    assert made.latest().version == 1


def test_conditions_and_ways_are_checked_too(table: lw.Table) -> None:
    with pytest.raises(InvalidInputError, match="no column 'b'"):
        table.update({"a": 1}, "b = 1")
    with pytest.raises(InvalidInputError, match="where takes SQL text"):
        table.update({"a": 1}, 5)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="rewrite is"):
        table.update({"a": 1}, rewrite="cells")  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="a list of parameters is for where"):
        table.update({"a": 1}, parameters=[1])


@pytest.mark.parametrize("rewrite", WAYS)
@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"small": "a * 2"}, "'small'"),
        ({"a": '"in".x'}, "'a' may not be null"),
        ({"in.sure": "small - small + NULLIF(small, 1)"}, "'in.sure' may not be null"),
        ({"a": "CAST(s AS INT)"}, "column 'a'"),
    ],
)
def test_a_value_that_does_not_fit_stops_the_update_and_leaves_no_file(
    table: lw.Table, rewrite: Any, values: Any, message: str
) -> None:
    before = files(table)
    with pytest.raises(InvalidInputError, match=message):
        table.update(values, rewrite=rewrite, runner=LocalRunner(1))
    assert files(table) == before
    assert table.latest().version == 1


@pytest.mark.parametrize("rewrite", [*WAYS, "auto"])
def test_tasks_and_results_travel(table: lw.Table, rewrite: Any) -> None:
    runner = Sent()
    after = table.update(
        {"s": "$t", "v": [1, 2]}, "a % 2 = 0", parameters={"t": "x"}, rewrite=rewrite, runner=runner
    )
    assert after.counts == RowCounts(updated=50)
    assert by_number(after)[4]["s"] == "x"
    job = Updating(Matching(table._snapshot.bare(), "a > 1"), {"s": "'x'"})
    assert len(pickle.dumps((job, runner.tasks[-1]))) < 20_000


@pytest.mark.parametrize("task", [move_rows, rewrite_columns])
def test_a_task_that_runs_twice_leaves_spare_files_and_no_more(table: lw.Table, task: Any) -> None:
    job = Updating(Matching(table._snapshot.bare(), "a = 1"), {"s": "'x'"})
    portion = Portion((table.fragments[0],))
    one, other = task(job, portion), task(job, portion)
    assert set(one.files).isdisjoint(other.files)
    assert {each.key for each in one.files} <= files(table)
    assert table.latest().version == 1


def test_rows_of_many_small_fragments_share_a_new_one(uri: str) -> None:
    table = lw.create(
        uri, rows(0, 60), layout=lw.Layout(max_rows_per_file=2), access=lw.Access(fsync=False)
    )
    after = table.update({"s": "'x'"}, "a % 2 = 0", rewrite="rows")
    assert len(table.fragments) == 30
    assert len(after.fragments) == 31
    assert after.fragments[-1].physical_rows == 30


def test_a_fragment_that_all_rows_leave_goes(table: lw.Table) -> None:
    after = table.update({"s": "'x'"}, "a < 31", rewrite="rows")
    assert [each.id for each in after.fragments] == [1, 2, 3, 4]


def test_rows_stay_in_place_when_columns_are_rewritten(table: lw.Table) -> None:
    addresses = table.scan(["_rowaddr"]).to_arrow()
    after = table.update({"s": "'x'"}, "a = 40", rewrite="columns")
    assert after.scan(["_rowaddr"]).to_arrow() == addresses
    assert [len(each.files) for each in after.fragments] == [1, 2, 1, 1]


def way(table: lw.Table, values: dict[str, Any], where: str | None) -> str:
    job = UpdateRows(values, where, None, "auto", LocalRunner(1))
    operation = job.prepare(table._snapshot).operation
    assert isinstance(operation, Update)
    return "columns" if operation.rewrites_columns else "rows"


def test_the_way_that_writes_less_is_taken(uri: str) -> None:
    count = 50_000
    data = pa.table(
        {
            "a": range(count),
            "b": [each % 100 for each in range(count)],
            "wide": [str(each) * 20 for each in range(count)],
        }
    )
    table = lw.create(
        uri, data, layout=lw.Layout(max_rows_per_file=count // 2), access=lw.Access(fsync=False)
    )
    assert way(table, {"b": "b + 1"}, None) == "columns"
    assert way(table, {"b": "b + 1"}, "a >= 10000") == "columns"
    assert way(table, {"b": "b + 1"}, "b = 7") == "rows"
    assert way(table, {"b": "b + 1"}, "a = 1") == "rows"
    assert way(table, {"wide": "wide || '!'", "a": "a", "b": "b"}, "a % 2 = 0") == "rows"


def test_a_sample_is_small_and_from_all_over_the_table() -> None:
    def some(count: int) -> list[Fragment]:
        return [Fragment.make([], each) for each in range(count)]

    for count in (1, 3, 4, 5, 100, 1000):
        found = [each.physical_rows for each in sample(some(count))]
        assert len(found) <= 4
        assert found == sorted(set(found))
        assert found[0] == 0
        assert found[-1] >= count // 2 or count < 4


def test_an_error_after_rows_were_written_leaves_no_file(
    table: lw.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files(table)

    def failing(snapshot: Any, fragment: Fragment, offsets: Any) -> Fragment | None:
        if fragment.id == 2:
            raise StorageError("the disk is full")
        return mark_deleted(snapshot, fragment, offsets)

    monkeypatch.setattr(update_rows, "mark_deleted", failing)
    with pytest.raises(StorageError, match="disk is full"):
        table.update({"s": None}, "a % 3 = 0", rewrite="rows")
    assert files(table) == before


@pytest.mark.parametrize("rewrite", WAYS)
def test_ctrl_c_leaves_nothing_behind(uri: str, rewrite: Any) -> None:
    table = lw.create(
        uri, rows(0, 100), layout=lw.Layout(max_rows_per_file=30), access=lw.Access(fsync=False)
    )
    before = files(table)

    def interrupt(what: str, done: int, total: int) -> None:
        if what == "updating rows" and done == total:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        table.update({"s": None}, rewrite=rewrite, runner=LocalRunner(1, interrupt))
    assert files(table) == before
    assert table.latest().version == 1


@pytest.mark.parametrize("rewrite", WAYS)
def test_rows_that_another_changed_meanwhile_are_updated_again_from_what_they_are_now(
    table: lw.Table, rewrite: Any
) -> None:
    seen: list[int] = []
    job = UpdateRows({"a": "a * 10"}, "a < 3", None, rewrite, LocalRunner(1))

    def prepare(snapshot: Any) -> Any:
        change = job.prepare(snapshot)
        if not seen:
            table.latest().update({"a": "a + 1"}, "a = 1", rewrite="rows")
        seen.append(snapshot.manifest.version)
        return change

    after, counts = execute(table._snapshot, prepare)
    assert seen == [1, 2]
    assert counts == RowCounts(updated=3)
    found = by_number(table.latest())
    assert after.manifest.version == 3
    assert [found[each]["a"] for each in range(4)] == [0, 20, 20, 3]


def test_updates_of_different_rows_of_one_fragment_both_land(table: lw.Table) -> None:
    table.update({"s": "'one'"}, "a = 1", rewrite="rows")
    after = table.update({"s": "'two'"}, "a = 2", rewrite="rows")
    found = by_number(after)
    assert (found[1]["s"], found[2]["s"]) == ("one", "two")
    assert after.count_rows() == 100


def test_a_serializable_update_does_not_follow_another_commit(table: lw.Table) -> None:
    table.append(rows(100, 1))
    with pytest.raises(lw.ConflictError):
        table.update({"a": 1}, commit=lw.CommitOptions(serializable=True))


@pytest.mark.parametrize("rewrite", WAYS)
def test_a_table_in_memory_can_be_updated(rewrite: Any, tmp_path: Path) -> None:
    table = lw.create(f"memory://updates/{tmp_path.name}", rows(0, 10))
    after = table.update({"s": "'x'"}, "a > 4", rewrite=rewrite)
    assert [each["s"] == "x" for each in by_number(after).values()].count(True) == 5


def blobs(version: str, uri: str) -> lw.Table:
    field = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    schema = pa.schema([("n", pa.int64()), field])
    data = pa.table([range(4), [b"a", None, b"c" * 1000, b""]], schema=schema)
    return lw.create(
        uri, data, layout=lw.Layout(file_version=version), access=lw.Access(fsync=False)
    )


def contents(table: lw.Table) -> dict[int, bytes | None]:
    positions = list(range(table.count_rows()))
    found = [None if each is None else each.read() for each in table.take_blobs("b", positions)]
    return dict(zip(table.to_arrow().column("n").to_pylist(), found, strict=True))


@pytest.mark.parametrize("version", ["2.0", "2.1"])
@pytest.mark.parametrize("rewrite", [*WAYS, "auto"])
def test_blobs_survive_an_update(uri: str, version: str, rewrite: Any) -> None:
    after = blobs(version, uri).update({"n": "n + 10"}, "n >= 2", rewrite=rewrite)
    assert contents(after) == {0: b"a", 1: None, 12: b"c" * 1000, 13: b""}
    assert len(after.fragments) == (2 if rewrite == "rows" else 1)


def test_blobs_can_be_set_where_they_can_be_written(uri: str) -> None:
    table = blobs("2.1", uri)
    after = table.update({"b": b"new", "n": "n"}, "n < 2")
    assert contents(after) == {0: b"new", 1: b"new", 2: b"c" * 1000, 3: b""}
    with pytest.raises(UnsupportedError, match="rewritten in place"):
        table.update({"b": None}, rewrite="columns")
    with pytest.raises(UnsupportedError, match="cannot compute with 'b'"):
        table.update({"n": "b.size"})


@pytest.mark.parametrize(
    ("column", "value", "told"),
    [
        ("f", "1e300 + id * 0", r"1e\+300 is too large for float"),
        ("f", "f * 1e300", r"1e\+300 is too large for float"),
        ("f", "CASE WHEN id = 1 THEN 1e300 ELSE f END", r"1e\+300 is too large for float"),
        ("f", "CAST(id * 1e300 AS FLOAT)", "out of range"),
        ("f", "1e400", "1e400 is too large for a DOUBLE"),
        ("f", 1e300, r"1e\+300 is too large for float"),
        ("h", "1e10", r"10000000000.0 is too large for halffloat"),
        ("h", "id * 100000", "100000.0 is too large for halffloat"),
        ("h", "CAST(id * 99999 AS DECIMAL(12, 2))", "99999.0 is too large for halffloat"),
        ("l", "wide", "1e\\+300 is too large for float"),
    ],
)
def test_a_number_too_large_for_a_float_column_is_refused_and_never_infinite(
    tmp_path: Path, column: str, value: object, told: str
) -> None:
    rows = {
        "id": pa.array([1], pa.int64()),
        "f": pa.array([1], pa.float32()),
        "h": pa.array([1], pa.float16()),
        "l": pa.array([[1.0]], pa.list_(pa.float32())),
        "wide": [[1e300]],
    }
    table = lw.create(tmp_path / "t.lance", pa.table(rows))
    with pytest.raises(InvalidInputError, match=told):
        table.update({column: value})
    assert lw.open(table.uri).version == 1


def test_infinity_that_was_asked_for_is_stored(tmp_path: Path) -> None:
    rows = {"x": [1.0, float("inf")], "f": pa.array([1, 2], pa.float32())}
    table = lw.create(tmp_path / "t.lance", pa.table(rows))
    table.update({"f": "x"})
    assert lw.open(table.uri).to_arrow()["f"].to_pylist() == [1.0, float("inf")]
    table.update({"f": "CAST('-inf' AS DOUBLE)"})
    assert lw.open(table.uri).to_arrow()["f"].to_pylist() == [float("-inf")] * 2

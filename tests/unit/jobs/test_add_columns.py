"""Adding columns: what is computed, what is written, and what happens when others are faster."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.engine.versions.history import load_transaction
from lancewood.errors import InvalidInputError, RetryableConflictError, UnsupportedError
from lancewood.jobs.runner import LocalRunner
from lancewood.model.transaction import Merge, Project

T = TypeVar("T")
R = TypeVar("R")
ONE = LocalRunner(1)


def rows(first: int, count: int) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table(
        {
            "k": pa.array(numbers, pa.int64()),
            "s": [f"s{each}" for each in numbers],
            "p": pa.array(
                [{"x": each} if each % 3 else None for each in numbers],
                pa.struct([("x", pa.int64())]),
            ),
        }
    )


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return str(tmp_path / "t")


@pytest.fixture
def table(uri: str) -> lw.Table:
    """Fragments of 10, 10 and 5 rows, with 2 rows of the first and 1 of the last deleted."""
    made = lw.create(
        uri, rows(0, 25), layout=lw.Layout(max_rows_per_file=10), access=lw.Access(fsync=False)
    )
    return made.delete("k in (0, 5, 24)")


def files_in(table: lw.Table) -> set[str]:
    return {each.name for each in (Path(table.uri) / "data").iterdir()}


def operation(table: lw.Table) -> Any:
    snapshot = table._snapshot
    return load_transaction(snapshot.location.store, snapshot.manifest).operation


class Counted:
    """A function that notes the rows it was called for."""

    def __init__(self, then: Callable[[], object] | None = None) -> None:
        self.seen: list[int] = []
        self._then = then
        self._lock = Lock()

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        keys = batch.column("k").to_pylist()
        with self._lock:
            self.seen += keys
            then, self._then = self._then, None
        if then is not None:
            then()
        return pa.record_batch({"n": pa.array([each * 2 for each in keys], pa.int64())})


def doubled(table: lw.Table) -> bool:
    got = table.scan(["k", "n"]).to_arrow()
    return bool(got["n"].to_pylist() == [each * 2 for each in got["k"].to_pylist()])


def test_expressions_are_computed_for_every_row(table: lw.Table) -> None:
    before = files_in(table)
    old = [each.files[0].path for each in table.fragments]
    after = table.add_columns({"n": "k * 2", "t": "upper(s)"})
    assert doubled(after)
    assert after.scan(["t"]).to_arrow()["t"][0].as_py() == "S1"
    assert len(files_in(after) - before) == 3, "one file a fragment, both columns in it"
    assert [each.files[0].path for each in after.fragments] == old
    assert [len(each.files) for each in after.fragments] == [2, 2, 2]
    assert after.count_rows() == 22
    merge = operation(after)
    assert isinstance(merge, Merge)
    assert merge.preserves_nullability


def test_columns_of_nulls_write_no_file_and_name_no_fragment(table: lw.Table) -> None:
    before = files_in(table)
    field = pa.field("n", pa.int32(), metadata={"unit": "m"})
    after = table.add_columns(field)
    assert files_in(after) == before
    assert isinstance(operation(after), Project)
    assert after.schema.field("n").metadata == {b"unit": b"m"}
    assert after.scan(["n"]).to_arrow()["n"].null_count == 22
    more = after.add_columns([pa.field("m", pa.string()), pa.field("p.y", pa.int8())])
    assert more.to_arrow()["p"].to_pylist()[:3] == [{"x": 1, "y": None}, {"x": 2, "y": None}, None]
    assert more.add_columns(pa.schema([("o", pa.int8())])).schema.names[-1] == "o"


def test_columns_of_nulls_follow_an_append_that_came_first(table: lw.Table) -> None:
    table.append(rows(100, 3))
    after = table.add_columns(pa.field("n", pa.int32()))
    assert after.count_rows() == 25


def test_a_function_sees_each_live_row_once(table: lw.Table) -> None:
    function = Counted()
    after = table.add_columns(function, columns_read=["k"], batch_rows=4)
    assert sorted(function.seen) == [each for each in range(24) if each not in (0, 5)]
    assert doubled(after)


def test_a_function_is_given_the_columns_it_reads(table: lw.Table) -> None:
    seen: list[list[str]] = []

    def function(batch: pa.RecordBatch) -> pa.RecordBatch:
        seen.append(batch.schema.names)
        return pa.record_batch({f"c{len(batch.schema)}": pa.array(range(batch.num_rows))})

    after = table.add_columns(function).add_columns(function, columns_read=["_rowid", "p.x"])
    assert seen[0] == ["k", "s", "p"]
    assert seen[-1] == ["_rowid", "p"]
    assert after.schema.names[-2:] == ["c3", "c2"]


def test_the_result_of_a_function_has_the_given_schema(table: lw.Table) -> None:
    schema = pa.schema([pa.field("n", pa.large_string(), nullable=False)])
    after = table.add_columns(
        lambda batch: pa.record_batch({"n": pa.array(["x"] * batch.num_rows)}), schema=schema
    )
    assert after.schema.field("n") == schema.field("n")
    merge = operation(after)
    assert not merge.preserves_nullability


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda batch: batch.to_pydict(), "must return a pyarrow.RecordBatch.*dict"),
        (lambda batch: batch.slice(1), "given 8 rows and returned 7"),
        (lambda batch: batch.select(["k"]), "'k' exists already"),
        (lambda batch: pa.record_batch({"n": pa.nulls(len(batch))}), "give schema="),
    ],
)
def test_a_function_that_returns_something_else_is_refused(
    table: lw.Table, function: Callable[[pa.RecordBatch], Any], message: str
) -> None:
    before = files_in(table)
    with pytest.raises(InvalidInputError, match=message):
        table.add_columns(function, runner=ONE)
    assert files_in(table) == before
    assert table.latest().version == table.version


def test_a_null_for_a_column_that_may_not_be_null_leaves_nothing(table: lw.Table) -> None:
    before = files_in(table)
    schema = pa.schema([pa.field("n", pa.int64(), nullable=False)])

    def late(batch: pa.RecordBatch) -> pa.RecordBatch:
        keys = batch.column("k").to_pylist()
        return pa.record_batch({"n": pa.array([None if each == 22 else each for each in keys])})

    with pytest.raises(InvalidInputError, match="may not be null, but 1"):
        table.add_columns(late, schema=schema, runner=ONE)
    assert files_in(table) == before


def test_an_error_of_the_function_is_the_callers_and_leaves_nothing(table: lw.Table) -> None:
    before = files_in(table)

    def broken(batch: pa.RecordBatch) -> pa.RecordBatch:
        if batch.column("k")[0].as_py() >= 20:
            raise KeyboardInterrupt
        return pa.record_batch({"n": batch.column("k")})

    with pytest.raises(KeyboardInterrupt):
        table.add_columns(broken, runner=ONE)
    assert files_in(table) == before
    assert table.latest().version == table.version


def test_a_function_that_stops_an_iteration_does_not_end_the_rows(table: lw.Table) -> None:
    calls = []

    def exhausted(batch: pa.RecordBatch) -> pa.RecordBatch:
        calls.append(batch.num_rows)
        return next(iter([]))

    with pytest.raises(RuntimeError, match="StopIteration"):
        table.add_columns(exhausted, runner=ONE)
    assert len(calls) == 1, "nor is it taken for an empty fragment"
    assert table.latest().version == table.version


def test_an_empty_table_needs_the_schema_of_a_function(uri: str) -> None:
    empty = lw.create(uri, pa.schema([("k", pa.int64())]), access=lw.Access(fsync=False))
    with pytest.raises(InvalidInputError, match="no row to call the function with"):
        empty.add_columns(Counted())
    after = empty.add_columns(Counted(), schema=pa.schema([("n", pa.int64())]))
    assert after.append(pa.table({"k": [1], "n": [2]})).count_rows() == 1
    assert empty.latest().add_columns({"m": "k + 1"}).schema.names == ["k", "n", "m"]


def test_rows_are_matched_by_position_in_the_order_of_a_scan(table: lw.Table) -> None:
    keys = table.scan(["k"]).to_arrow()["k"]
    batches = pa.table({"n": [each * 2 for each in keys.to_pylist()]}).to_batches(max_chunksize=3)
    stream = pa.RecordBatchReader.from_batches(batches[0].schema, iter(batches))
    assert doubled(table.add_columns(stream))


@pytest.mark.parametrize(("count", "message"), [(21, "ends after 21 rows"), (23, "more rows")])
def test_a_stream_with_more_or_fewer_rows_is_refused(
    table: lw.Table, count: int, message: str
) -> None:
    before = files_in(table)
    data = pa.table({"n": list(range(count))})
    with pytest.raises(InvalidInputError, match=f"the data has {count} rows, the table 22"):
        table.add_columns(data)
    with pytest.raises(InvalidInputError, match=message):
        table.add_columns(data.to_reader())
    assert files_in(table) == before
    assert table.latest().version == table.version


def test_a_stream_for_an_empty_table_must_be_empty(uri: str) -> None:
    empty = lw.create(uri, pa.schema([("k", pa.int64())]), access=lw.Access(fsync=False))
    with pytest.raises(InvalidInputError, match="more rows"):
        empty.add_columns(pa.table({"n": [1]}).to_reader())
    assert empty.add_columns(pa.table({"n": pa.array([], pa.int8())})).schema.names == ["k", "n"]


def test_rows_are_joined_by_key(table: lw.Table) -> None:
    source = pa.table(
        {"s": ["s9", None, "s1", "s99"], "n": [9, -1, 1, 99], "t": ["a", "b", "c", "d"]}
    )
    after = table.add_columns(source, on="s")
    got = after.scan(["k", "n", "t"]).to_arrow()
    found = {
        k: (n, t) for k, n, t in zip(*map(pa.ChunkedArray.to_pylist, got.columns), strict=True)
    }
    assert {k: each for k, each in found.items() if each != (None, None)} == {
        1: (1, "c"),
        9: (9, "a"),
    }


def test_rows_are_joined_by_several_columns(table: lw.Table) -> None:
    source = pa.table({"k": [1, 2, 2], "s": ["s1", "s2", "no"], "n": [10, 20, 30]})
    got = table.add_columns(source, on=["k", "s"]).scan(["n"], where="n is not null").to_arrow()
    assert got["n"].to_pylist() == [10, 20]


@pytest.mark.parametrize(
    ("source", "on", "message"),
    [
        ({"k": [1, 1], "n": [1, 2]}, "k", "have the same key k = 1"),
        ({"x": [1], "n": [1]}, "k", "no column 'k' to be joined on"),
        ({"k": [1], "n": [1]}, "x", "'x' not found"),
        ({"k": ["one"], "n": [1]}, "k", "not of the table's type"),
        ({"k": [1]}, "k", "no column to add"),
        ({"k": [1], "n": [1]}, [], "names no column"),
        ({"k": [1], "n": [1]}, "p.x", "names of columns"),
    ],
)
def test_a_join_that_cannot_be_is_refused(
    table: lw.Table, source: dict[str, list[Any]], on: Any, message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        table.add_columns(pa.table(source), on=on)


def test_a_field_is_added_to_a_struct_and_stays_null_where_that_is(table: lw.Table) -> None:
    after = table.add_columns({"p.y": "k + 1", "p.z": "s"})
    got = after.scan(["k", "p"]).to_arrow().to_pylist()
    assert got[0] == {"k": 1, "p": {"x": 1, "y": 2, "z": "s1"}}
    assert got[2] == {"k": 3, "p": None}
    assert [len(each.files[1].fields) for each in after.fragments] == [2, 2, 2]


def test_the_nulls_of_a_struct_are_found_where_a_fragment_stores_them(table: lw.Table) -> None:
    later = table.add_columns(pa.field("p.late", pa.int8()))
    later = later.drop_columns(["p.x"])
    later = later.append(
        pa.table({"k": [100], "p": pa.array([{"late": 1}], pa.struct([("late", pa.int8())]))})
    )
    got = later.add_columns({"p.w": "k"}).to_arrow()["p"].to_pylist()
    assert got[:3] == [{"late": None, "w": 1}, {"late": None, "w": 2}, None]
    assert got[-1] == {"late": 1, "w": 100}


@pytest.mark.parametrize(
    ("new", "options", "message"),
    [
        ({}, {}, "no column to add"),
        ([], {}, "no column to add"),
        ({"n": "nope + 1"}, {}, "nope"),
        ({"n": 3}, {}, "SQL text"),
        ({"k": "1"}, {}, "'k' exists already"),
        ({"_rowid": "1"}, {}, "_rowid"),
        ({"a.b": "1"}, {}, "there is no struct 'a'"),
        ({"\ud800": "1"}, {}, "cannot be written as UTF-8"),
        (3, {}, "must speak Arrow"),
        ({"n": "k"}, {"on": "k"}, "no on= with SQL"),
        ({"n": "k"}, {"repeatable": True}, "no repeatable= with SQL"),
        (Counted(), {"on": "k"}, "no on= with a function"),
        (Counted(), {"columns_read": ["nope"]}, "'nope' not found"),
        (Counted(), {"columns_read": "k"}, "takes a list"),
        (Counted(), {"batch_rows": 0}, "batch_rows"),
        (Counted(), {"schema": {"n": "int"}}, "takes a pyarrow.Schema"),
        (pa.field("n", pa.int8()), {"schema": pa.schema([])}, "no schema= with columns of nulls"),
        (pa.table({"n": [1]}), {"columns_read": ["k"]}, "no columns_read= with rows"),
    ],
)
def test_arguments_that_cannot_be_are_refused_at_once(
    table: lw.Table, new: Any, options: dict[str, Any], message: str
) -> None:
    before = files_in(table)
    with pytest.raises(InvalidInputError, match=message):
        table.add_columns(new, **options)
    assert files_in(table) == before


def test_a_type_that_cannot_be_stored_is_refused_before_a_file_is_written(table: lw.Table) -> None:
    before = files_in(table)
    schema = pa.schema([("n", pa.month_day_nano_interval())])
    with pytest.raises(UnsupportedError, match="'n'"):
        table.add_columns(Counted(), schema=schema)
    assert files_in(table) == before


def test_an_id_of_a_dropped_column_that_is_still_in_files_is_not_used_again(
    table: lw.Table,
) -> None:
    after = table.drop_columns(["s"]).add_columns({"n": "k"})
    dead = {number for each in table.fragments for number in each.files[0].fields}
    assert after._snapshot.schema.by_name["n"].id not in dead


# Somebody else is faster


def test_what_was_computed_is_used_again_after_an_append(table: lw.Table) -> None:
    function = Counted(lambda: table.append(rows(100, 3)))
    after = table.add_columns(function, columns_read=["k"], runner=ONE)
    assert doubled(after)
    assert sorted(function.seen) == sorted(after.scan(["k"]).to_arrow()["k"].to_pylist())
    assert len(function.seen) == len(set(function.seen)) == 25
    assert files_in(after) == {file.path for each in after.fragments for file in each.files}, (
        "no file is left over"
    )


def test_what_was_computed_is_used_again_after_a_delete(table: lw.Table) -> None:
    function = Counted(lambda: table.delete("k = 7 or k >= 20"))
    before = files_in(table)
    after = table.add_columns(function, columns_read=["k"], runner=ONE)
    assert doubled(after)
    assert after.count_rows() == 17
    assert len(function.seen) == len(set(function.seen))
    assert len(files_in(after) - before) == 2, "the file of a fragment that is gone was removed"


def test_what_was_computed_is_used_again_beside_another_new_column(table: lw.Table) -> None:
    function = Counted(lambda: table.add_columns({"other": "k + 1"}))
    after = table.add_columns(function, columns_read=["k"], runner=ONE)
    assert doubled(after)
    assert after.schema.names[-2:] == ["other", "n"]
    assert len(function.seen) == len(set(function.seen))
    ids = [each.id for each in after._snapshot.schema.walk()]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("how", ["rows", "columns"])
def test_a_function_that_is_not_repeatable_is_not_called_for_rows_that_were_updated(
    table: lw.Table, how: Any
) -> None:
    before = files_in(table)

    def others() -> None:
        nonlocal before
        before = files_in(table.update({"k": "k + 1000"}, "k = 7", rewrite=how))

    function = Counted(others)
    with pytest.raises(RetryableConflictError, match=r"repeatable=True"):
        table.add_columns(function, columns_read=["k"], runner=ONE)
    assert len(function.seen) == len(set(function.seen))
    left = files_in(table)
    assert len(left - before) == 0, "what was computed is removed"


def test_a_repeatable_function_is_called_again_for_what_changed(table: lw.Table) -> None:
    function = Counted(lambda: table.update({"k": "k + 1000"}, "k = 7"))
    after = table.add_columns(function, columns_read=["k"], runner=ONE, repeatable=True)
    assert doubled(after)
    assert 1007 in function.seen


def test_expressions_are_computed_again_for_what_changed(table: lw.Table) -> None:
    stale = table
    table.update({"k": "k + 1000"}, "k < 10")
    assert doubled(stale.add_columns({"n": "k * 2"}))


def test_a_column_that_another_writer_adds_under_the_same_name_is_told(table: lw.Table) -> None:
    before = files_in(table)
    function = Counted(lambda: table.add_columns(pa.field("n", pa.int8())))
    with pytest.raises(lw.LancewoodError):
        table.add_columns(function, columns_read=["k"], runner=ONE)
    assert files_in(table) == before


def test_a_stream_that_was_read_serves_again_after_a_delete_but_not_for_new_rows(
    table: lw.Table,
) -> None:
    def values(then: Callable[[], object]) -> pa.RecordBatchReader:
        data = pa.table({"n": [each * 2 for each in table.scan(["k"]).to_arrow()["k"].to_pylist()]})

        def batches() -> Iterator[pa.RecordBatch]:
            then()
            yield from data.to_batches()

        return pa.RecordBatchReader.from_batches(data.schema, batches())

    deleted = table.add_columns(values(lambda: table.delete("k = 7")))
    assert doubled(deleted)
    assert deleted.count_rows() == 21
    table = deleted.drop_columns(["n"])
    before = files_in(table)
    with pytest.raises(RetryableConflictError, match="rows now for which the data has no values"):
        table.add_columns(values(lambda: table.append(rows(100, 3))))
    assert len(files_in(table) - before) == 1, "the file of the append"


def test_a_serializable_addition_is_executed_once(table: lw.Table) -> None:
    function = Counted(lambda: table.append(rows(100, 3)))
    with pytest.raises(lw.ConflictError):
        table.add_columns(
            function, columns_read=["k"], runner=ONE, commit=lw.CommitOptions(serializable=True)
        )
    assert len(function.seen) == 22


class Sent:
    """A runner that sends tasks and results as another process would get them."""

    slots = 2

    def __init__(self) -> None:
        self.largest = 0

    def run(
        self,
        work: Callable[[T], R],
        tasks: Sequence[T],
        *,
        what: str,
        leftover: Callable[[R], object] | None = None,
    ) -> Iterator[R]:
        for task in tasks:
            there, sent = pickle.dumps(work), pickle.dumps(task)
            self.largest = max(self.largest, len(there), len(sent))
            yield pickle.loads(pickle.dumps(pickle.loads(there)(pickle.loads(sent))))


def triple(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.record_batch({"m": pa.array([3 * each for each in batch.column("k").to_pylist()])})


def test_tasks_travel_to_other_processes(table: lw.Table) -> None:
    runner = Sent()
    after = table.add_columns({"n": "k * 2", "p.y": "k"}, runner=runner)
    after = after.add_columns(triple, schema=pa.schema([("m", pa.int64())]), runner=runner)
    after = after.add_columns(pa.table({"k": [1], "j": [9]}), on="k", runner=runner)
    assert doubled(after)
    assert after.scan(["m"]).to_arrow()["m"].to_pylist()[:2] == [3, 6]
    assert after.scan(where="j = 9").to_arrow()["k"].to_pylist() == [1]
    assert runner.largest < 20_000


def test_message_and_properties_are_kept_with_the_version(table: lw.Table) -> None:
    table.add_columns({"n": "k"}, message="why", commit=lw.CommitOptions(properties={"job": "7"}))
    (newest, *_) = table.latest().versions(limit=1)
    assert newest.message == "why"

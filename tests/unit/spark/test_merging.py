"""Merging frames: what becomes of the table, told by ``Table.merge`` of the same rows.

There is no Spark here: ``local_join`` does the part that is Spark's.
"""

from __future__ import annotations

import functools
import pickle
import random
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import count
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.breadth import daily
from tests.unit.spark.local_join import Frame, LocalJoin

import lancewood as lw
from lancewood.engine.versions.history import load_transaction
from lancewood.engine.write import column_file as deletions
from lancewood.errors import InvalidInputError, RetryableConflictError
from lancewood.jobs.counts import RowCounts
from lancewood.jobs.job import CommitOptions, execute
from lancewood.jobs.merge_into.source import Choices
from lancewood.jobs.runner import LocalRunner
from lancewood.model.transaction import Delete, Operation, Update
from lancewood.spark.merge_into import planning
from lancewood.spark.merge_into.merge import FrameMerge

pytest.importorskip("pyspark", reason="pyspark is not installed")

_names = count()

SCHEMA = pa.schema(
    [
        pa.field("k", pa.int64()),
        pa.field("v", pa.string()),
        pa.field("w", pa.float64()),
        pa.field("p", pa.struct([pa.field("x", pa.int64()), pa.field("y", pa.string())])),
    ]
)


def old_rows(keys: Sequence[int | None]) -> pa.Table:
    rows = [
        {"k": k, "v": f"old {at}", "w": at / 2, "p": {"x": k, "y": f"y{at}"}}
        for at, k in enumerate(keys)
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def new_rows(keys: Sequence[int | None], v: str = "new") -> pa.Table:
    """The key and one more column."""
    values = [f"{v} {at}" for at in range(len(keys))]
    return pa.table({"k": pa.array(keys, pa.int64()), "v": pa.array(values, pa.string())})


def new_table(data: pa.Table, **options: Any) -> lw.Table:
    options = {"max_rows_per_file": 5} | options
    return lw.create(f"memory://frames/{next(_names)}.lance", data, layout=lw.Layout(**options))


def merge(
    table: lw.Table,
    rows: pa.Table | Frame,
    on: str | Sequence[str] | None = "k",
    *,
    partitions: int = 2,
    join: LocalJoin | None = None,
    commit_options: CommitOptions | None = None,
    **choices: Any,
) -> lw.Table:
    """What ``merge_frame`` does."""
    frame: Any = Frame(rows, partitions) if isinstance(rows, pa.Table) else rows
    job = FrameMerge(frame, table._snapshot, Choices(on=on, **choices), join or LocalJoin())
    try:
        after, counts = execute(table._snapshot, job.prepare, commit_options)
    finally:
        job.close()
    return lw.Table(after, counts)


def both(data: pa.Table, new: pa.Table, on: Any = "k", **choices: Any) -> tuple[lw.Table, lw.Table]:
    """The same merge by frame and by table, on two tables alike."""
    mine, other = new_table(data), new_table(data)
    return merge(mine, new, on, **choices), other.merge(new, on, **choices)


def operation(table: lw.Table) -> Operation:
    snapshot = table._snapshot
    return load_transaction(snapshot.location.store, snapshot.manifest).operation


def everything(table: lw.Table) -> list[dict[str, Any]]:
    """All rows with their ids and versions, in an order that tells nothing."""
    marks = ["_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
    found: list[dict[str, Any]] = table.scan([*table.schema.names, *marks]).to_arrow().to_pylist()
    return sorted(found, key=repr)


def files(table: lw.Table) -> set[str]:
    return {each.key for each in table._snapshot.location.store.list("")}


def test_an_upsert_updates_what_matches_and_inserts_the_rest() -> None:
    table = new_table(old_rows(range(12)))
    after = merge(table, new_rows([3, 100, 7]))
    assert after.counts == RowCounts(inserted=1, updated=2)
    assert after.version == table.version + 1
    found = {row["k"]: row for row in after.scan().to_arrow().to_pylist()}
    assert found[3] == {"k": 3, "v": "new 0", "w": 1.5, "p": {"x": 3, "y": "y3"}}
    assert found[100] == {"k": 100, "v": "new 1", "w": None, "p": None}
    assert found[4]["v"] == "old 4"


def test_a_small_upsert_makes_one_fragment_of_moved_rows_and_then_new_ones() -> None:
    after = merge(new_table(old_rows(range(12))), new_rows([100, 7, 101, 3]))
    last = after.scan(["k"], fragment_ids=[after.fragments[-1].id]).to_arrow()
    assert last["k"].to_pylist() == [3, 7, 100, 101]


def test_the_frame_is_computed_once_and_nothing_of_it_stays() -> None:
    table = new_table(old_rows(range(12)))
    frame = Frame(new_rows([3, 100, 7]), partitions=3)
    after = merge(table, frame)
    assert frame.computed == [["k", "v"]]
    data = {each for each in files(table) if each.startswith("data/")}
    named = {f"data/{file.path}" for each in after.fragments for file in each.files}
    assert data == named


def test_a_merge_that_only_deletes_stages_only_keys() -> None:
    frame = Frame(new_rows([3, 100, 7]))
    after = merge(new_table(old_rows(range(12))), frame, matched="delete", not_matched="ignore")
    assert frame.computed == [["k"]]
    assert after.counts == RowCounts(deleted=2)
    assert isinstance(operation(after), Delete)


def test_columns_whose_names_differ_in_case_alone_are_told_apart() -> None:
    rows = pa.table({"k": [1, 2, 3], "K": [3, 2, 1]})
    frame = Frame(rows.slice(0, 1))
    after = merge(new_table(rows), frame, "K", matched="delete", not_matched="ignore")
    assert frame.computed == [["K"]]
    assert after.to_arrow().to_pylist() == [{"k": 2, "K": 2}, {"k": 3, "K": 1}]


def test_what_a_condition_reads_is_staged_beside_the_key() -> None:
    frame = Frame(old_rows([3, 100, 7]))
    after = merge(
        new_table(old_rows(range(12))),
        frame,
        matched="delete",
        not_matched="ignore",
        matched_where="source.v <> 'old 0' and target.p.y = 'y7'",
    )
    assert frame.computed == [["k", "v"]]
    assert after.counts == RowCounts(deleted=1, unchanged=1)


@pytest.mark.parametrize("where", [None, "source.v <> 'new 1' and target.w < 5"])
def test_columns_are_rewritten_in_place_when_told_so(where: str | None) -> None:
    choices = {"not_matched": "ignore", "rewrite": "columns", "matched_where": where}
    after, expected = both(old_rows(range(12)), new_rows([3, 11, 4, 100]), **choices)
    made, wanted = operation(after), operation(expected)
    assert isinstance(made, Update)
    assert isinstance(wanted, Update)
    assert made.rewrites_columns
    assert made.updated_offsets == wanted.updated_offsets
    assert after.counts == expected.counts
    assert everything(after) == everything(expected)


@pytest.mark.parametrize(("step", "in_place"), [(1, True), (500, False)])
def test_the_way_that_writes_less_is_taken(step: int, in_place: bool) -> None:
    wide = pa.array([random.Random(n).randbytes(1_000) for n in range(2_000)], pa.binary())
    table = new_table(
        pa.table({"k": range(2_000), "n": range(2_000), "wide": wide}), max_rows_per_file=1_000
    )
    keys = range(0, 2_000, step)
    after = merge(table, pa.table({"k": list(keys), "n": [-each for each in keys]}))
    made = operation(after)
    assert isinstance(made, Update)
    assert made.rewrites_columns is in_place
    found = after.scan(["k", "n"]).to_arrow().to_pydict()
    expected = {n: -n if n % step == 0 else n for n in range(2_000)}
    assert dict(zip(found["k"], found["n"], strict=True)) == expected


@pytest.mark.parametrize("rewrite", ["rows", "columns"])
def test_a_condition_that_no_pair_meets_makes_no_version(rewrite: str) -> None:
    table = new_table(old_rows(range(12)))
    before = files(table)
    same = merge(
        table,
        new_rows([3, 7]),
        not_matched="ignore",
        matched_where="source.v = target.v",
        rewrite=rewrite,
    )
    assert (same.counts, same.version) == (RowCounts(unchanged=2), table.version)
    assert files(table) == before


def test_inserted_keys_are_told_as_a_merge_of_a_table_tells_them() -> None:
    after, expected = both(old_rows(range(5)), new_rows([3, None, 100, 101, 102]))
    made, wanted = operation(after), operation(expected)
    assert isinstance(made, Update)
    assert isinstance(wanted, Update)
    assert made.inserted_rows == wanted.inserted_rows
    assert made.inserted_rows is not None
    assert made.fields_for_preserving_frag_bitmap == wanted.fields_for_preserving_frag_bitmap


def test_many_rows_are_shared_out_over_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_LEAST_MOVED", "_LEAST_INSERTED", "_LEAST_KEYS"):
        monkeypatch.setattr(planning, name, 3)
    data, new = old_rows(range(40)), new_rows(range(20, 60))
    expected = new_table(data).merge(new, "k")
    join = LocalJoin(slots=4)
    mine = new_table(data)
    after = merge(mine, new, partitions=6, join=join)
    made = operation(after)
    assert isinstance(made, Update)
    assert len(made.new_fragments) > 4
    assert after.counts == expected.counts == RowCounts(inserted=20, updated=20)
    by_key = {row.pop("k"): row for row in everything(after)}
    assert by_key == {row.pop("k"): row for row in everything(expected)}


def test_a_table_without_rows_takes_all_and_a_frame_without_rows_changes_nothing() -> None:
    empty = new_table(old_rows([]))
    after = merge(empty, new_rows([1, 2]))
    assert after.counts == RowCounts(inserted=2)
    same = merge(after, new_rows([]))
    assert (same.counts, same.version) == (RowCounts(), after.version)
    bare = merge(after, new_rows([]), not_matched_by_source="delete")
    assert bare.counts == RowCounts(deleted=2)
    assert bare.count_rows() == 0


def test_a_conflict_is_met_on_the_newest_version_with_the_rows_that_were_staged() -> None:
    table = new_table(old_rows(range(12)))
    frame, join = Frame(new_rows([3, 100])), LocalJoin()
    join.before_writing.append(functools.partial(table.append, old_rows([100])))
    after = merge(table, frame, join=join)
    assert join.searches == 2
    assert frame.computed == [["k", "v"]]
    assert after.counts == RowCounts(updated=2)
    assert after.version == table.version + 2
    assert after.count_rows() == 13
    assert len([each for each in files(table) if each.startswith("data/")]) == 3 + 1 + 1


def test_upserts_of_other_keys_and_rows_both_land_as_they_are() -> None:
    table = new_table(old_rows(range(12)))
    join = LocalJoin()
    rival = functools.partial(merge, table, new_rows([4, 50], "theirs"))
    join.before_writing.append(rival)
    after = merge(table, new_rows([3, 60], "mine"), join=join)
    assert join.searches == 1
    found = {row["k"]: row["v"] for row in after.scan().to_arrow().to_pylist()}
    told = [found[each] for each in (3, 4, 50, 60)]
    assert told == ["mine 0", "theirs 0", "theirs 1", "mine 1"]


def test_a_serializable_merge_leaves_a_conflict_to_its_caller() -> None:
    table = new_table(old_rows(range(12)))
    join = LocalJoin()
    join.before_writing.append(functools.partial(table.append, old_rows([77])))
    before = files(table)
    with pytest.raises(RetryableConflictError):
        merge(
            table,
            new_rows([50]),
            join=join,
            commit_options=CommitOptions(serializable=True),
        )
    assert {each for each in files(table) - before if each.startswith("data/")} == {
        f"data/{file.path}" for each in table.latest().fragments[-1:] for file in each.files
    }


def test_a_column_that_somebody_adds_meanwhile_is_null_in_new_rows() -> None:
    table = new_table(old_rows(range(12)))
    join = LocalJoin()

    def intervene() -> None:
        table.append(old_rows([100])).add_columns({"more": "k + 1"})

    join.before_writing.append(intervene)
    after = merge(table, new_rows([3, 100, 200]), join=join)
    found = {row["k"]: row for row in after.scan().to_arrow().to_pylist()}
    assert [found[each]["more"] for each in (3, 100, 200)] == [4, 101, None]
    assert [found[each]["v"] for each in (3, 100, 200)] == ["new 0", "new 1", "new 2"]


def test_a_frame_that_no_longer_fits_after_a_conflict_is_refused_and_leaves_no_file() -> None:
    table = new_table(old_rows(range(12)))
    join = LocalJoin()

    def intervene() -> None:
        table.append(old_rows([77])).drop_columns(["v"])

    join.before_writing.append(intervene)
    with pytest.raises(InvalidInputError, match="'v' is not in the table"):
        merge(table, new_rows([77]), join=join)
    assert len([each for each in files(table) if each.startswith("data/")]) == 3 + 1


@pytest.mark.parametrize(
    ("data", "options", "words"),
    [
        (pa.table({"v": ["a"]}), {}, "has no column 'k', which is part of the key"),
        (new_rows([1]).append_column("q", pa.array([1])), {}, "'q' is not in the table"),
        (pa.table({"k": [1], "v": [5.5]}), {}, "column 'v'"),
        (new_rows([1]), {"on": "z"}, "'z' not found"),
        (new_rows([1]), {"on": None}, "primary key"),
        (new_rows([1]), {"on": "w"}, "cannot be a key"),
        (new_rows([1]), {"matched": "replace"}, "matched is one of"),
        (new_rows([1]), {"rewrite": "columns"}, "neither insert nor delete"),
        (new_rows([1]), {"matched_where": "k = 1"}, "source.x and target.x"),
        (new_rows([1]), {"matched_where": "source.w = 1"}, "no field 'w'"),
        (pa.table({"k": [1], "p": [{"x": 1}]}), {}, "without its field 'y'"),
        (pa.table({"p": [{"y": "a"}]}), {"on": "p.x"}, "no column 'p.x'"),
    ],
)
def test_what_cannot_be_merged_is_refused_before_the_frame_is_computed(
    data: pa.Table, options: dict[str, Any], words: str
) -> None:
    table = new_table(old_rows(range(12)))
    before, frame = files(table), Frame(data)
    with pytest.raises(InvalidInputError) as caught:
        merge(table, frame, **options)
    assert words in str(caught.value)
    assert frame.computed == []
    assert files(table) == before


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (new_rows([1, 2, 5, 1, 1]), "two rows of the source have the same key k = 1"),
        (new_rows([1]).set_column(1, "v", pa.array([None], pa.string())), "may not be null"),
    ],
)
def test_rows_that_cannot_be_merged_change_nothing_and_leave_no_file(
    data: pa.Table, words: str
) -> None:
    schema = pa.schema([pa.field("k", pa.int64()), pa.field("v", pa.string(), False)])
    table = new_table(pa.table({"k": [1], "v": ["a"]}, schema=schema))
    before = files(table)
    with pytest.raises(InvalidInputError) as caught:
        merge(table, data)
    assert words in str(caught.value)
    assert files(table) == before


def test_the_key_that_occurs_twice_is_told() -> None:
    table = new_table(old_rows(range(3)))
    with pytest.raises(InvalidInputError) as caught:
        merge(table, old_rows([7, 8, 7]), ["k", "p.x"])
    assert caught.value.facts["key"] == {"k": 7, "p.x": 7}


def test_a_missing_column_that_may_not_be_null_is_fine_if_nothing_is_inserted() -> None:
    fields = [("k", pa.int64(), True), ("must", pa.string(), False), ("v", pa.string(), True)]
    schema = pa.schema([pa.field(*each) for each in fields])
    table = new_table(pa.table({"k": [1], "must": ["m"], "v": ["a"]}, schema=schema))
    with pytest.raises(InvalidInputError, match="'must' is missing"):
        merge(table, new_rows([1]))
    after = merge(table, new_rows([1]), not_matched="ignore")
    assert after.to_arrow().to_pylist() == [{"k": 1, "must": "m", "v": "new 0"}]


def test_an_error_while_rows_are_written_leaves_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    table = new_table(old_rows(range(12)))
    before = files(table)
    mark, calls = deletions.mark_deleted, count()

    def failing(*args: Any) -> Any:
        if next(calls) == 1:
            raise KeyboardInterrupt
        return mark(*args)

    monkeypatch.setattr("lancewood.jobs.merge_into.rows.mark_deleted", failing)
    with pytest.raises(KeyboardInterrupt):
        merge(table, new_rows([1, 6, 11]))
    assert files(table) == before


def test_values_of_all_sorts_come_through_staged_files() -> None:
    vector, texts = pa.list_(pa.float32(), 3), pa.large_list(pa.string())
    schema = pa.schema(
        [
            pa.field("k", pa.int64()),
            pa.field("vector", vector),
            pa.field("tag", pa.dictionary(pa.int8(), pa.string())),
            pa.field("blob", pa.large_binary(), metadata={"lance-encoding:blob": "true"}),
            pa.field("moment", pa.timestamp("ns")),
            pa.field("small", pa.uint8()),
            pa.field("list", texts),
        ]
    )

    def rows(keys: range, word: str) -> pa.Table:
        tags = pa.array([f"{word}{k % 2}" for k in keys]).dictionary_encode()
        blobs = [None if k % 4 == 0 else f"{word}{k}".encode() * 50 for k in keys]
        columns = [
            pa.array(keys, pa.int64()),
            pa.array([None if k % 3 == 0 else [k, k + 1, k + 2] for k in keys], vector),
            tags.cast(schema.field("tag").type),
            pa.array(blobs, pa.large_binary()),
            pa.array([k * 1000 for k in keys], pa.timestamp("ns")),
            pa.array([k % 256 for k in keys], pa.uint8()),
            pa.array([[word] * (k % 3) for k in keys], texts),
        ]
        return pa.Table.from_arrays(columns, schema=schema)

    in_spark = [pa.int64(), pa.list_(pa.float32()), pa.string(), pa.binary()]
    in_spark += [pa.timestamp("us"), pa.int16(), pa.list_(pa.string())]
    new = rows(range(8, 20), "new")
    names = zip(schema.names, in_spark, strict=True)
    frame = pa.table({name: new[name].cast(kind) for name, kind in names})
    mine, other = (new_table(rows(range(12), "old"), file_version="2.1") for _ in range(2))
    after, expected = merge(mine, frame, partitions=3), other.merge(new, "k")
    assert after.counts == expected.counts == RowCounts(inserted=8, updated=4)
    plain = [each for each in schema.names if each != "blob"]
    found, wanted = (
        each.scan([*plain, "_rowid"]).to_arrow().to_pylist() for each in (after, expected)
    )
    assert found == wanted
    blobs, same = (
        [None if each is None else each.readall() for each in table.take_blobs("blob", range(20))]
        for table in (after, expected)
    )
    assert blobs == same


def test_a_merge_on_a_branch_leaves_main_alone_and_no_staged_file() -> None:
    main = new_table(old_rows(range(12)))
    main.branches.create("exp")
    branch = main.checkout(branch="exp")
    after = merge(branch, new_rows([3, 100]), partitions=1)
    assert after.branch == "exp"
    assert after.counts == RowCounts(inserted=1, updated=1)
    assert after.count_rows() == 13
    assert everything(main.latest()) == everything(main)
    named = {f"data/{file.path}" for each in after.fragments for file in each.files}
    assert {each for each in files(main) if "data/" in each} == named


def test_what_travels_with_every_task_does_not_grow_with_the_table() -> None:
    sizes: list[int] = []

    class Weighing(LocalJoin):
        def run(self, work: Any, tasks: Any, **options: Any) -> list[Any]:
            if options["what"] == "writing rows":
                sizes.append(len(pickle.dumps(work)))
            return super().run(work, tasks, **options)

    for rows in (50, 2_000):
        table = new_table(old_rows(range(rows)))
        merge(table, new_rows([1, 2]), join=Weighing())
    assert abs(sizes[0] - sizes[1]) < 100


KEYS: dict[str, tuple[pa.DataType, Callable[[int], Any]]] = {
    "int32": (pa.int32(), lambda n: n - 3),
    "text": (pa.string(), lambda n: "aA ä".ljust(n, "x")),
    "bytes": (pa.binary(), lambda n: bytes([0, n, 255])),
    "decimal": (pa.decimal128(20, 3), lambda n: Decimal(n - 3) / 8),
    "day": (pa.date32(), lambda n: date(1969, 12, 28 + n % 4) if n < 4 else date(2024, 2, n)),
    "moment": (pa.timestamp("us", "UTC"), lambda n: datetime(1960 + n, 1, 1, 0, 0, 0, n, UTC)),
    "truth": (pa.bool_(), lambda n: bool(n % 2)),
}


@st.composite
def merges(draw: st.DrawFn) -> tuple[pa.Table, pa.Table, list[str], dict[str, Any], int]:
    """Rows of a table, rows of a source, the key, the choices, and rows of the table to delete."""
    kind, value = draw(st.sampled_from(list(KEYS.values())))
    shape = draw(st.sampled_from(["one", "two", "inside"]))
    numbers = st.one_of(st.none(), st.integers(0, 9))
    pairs = st.tuples(numbers, st.one_of(st.none(), st.integers(0, 2)))
    if shape != "two":
        pairs = numbers.map(lambda each: (each, 0))

    def keyed(keys: Sequence[tuple[int | None, int | None]], column: str) -> pa.Table:
        first = pa.array([None if n is None else value(n) for n, _ in keys], kind)
        second = pa.array([m for _, m in keys], pa.int64())
        v = pa.array([f"{column} {at}" for at in range(len(keys))], pa.string())
        w = pa.array([float(at) for at in range(len(keys))], pa.float64())
        if shape == "inside":
            s = pa.StructArray.from_arrays([first, second], names=["a", "b"])
            return pa.table({"s": s, "v": v, "w": w})
        return pa.table({"a": first, "b": second, "v": v, "w": w})

    on = {"one": ["a"], "two": ["b", "a"], "inside": ["s.a"]}[shape]
    there = keyed(draw(st.lists(pairs, max_size=14)), "old")
    given = draw(st.lists(pairs, max_size=10))
    distinct = {
        (None if n is None else repr(value(n)), m if shape == "two" else 0): (n, m)
        for n, m in given
        if n is not None and m is not None
    }
    nulls = [each for each in given if None in each]
    new = keyed([*distinct.values(), *nulls], "new")
    if draw(st.booleans()):
        new = new.drop_columns(["w"])
    choices: dict[str, Any] = {
        "matched": draw(st.sampled_from(["update", "update", "ignore", "delete"])),
        "not_matched": draw(st.sampled_from(["insert", "ignore"])),
        "not_matched_by_source": draw(st.sampled_from(["keep", "keep", "delete"])),
    }
    if choices["matched"] != "ignore" and draw(st.booleans()):
        choices["matched_where"] = draw(
            st.sampled_from(
                [
                    "source.v < $limit and target.w > 1",
                    "target._rowid <> 2",
                    "source.v <> 'new 0'",
                    "$limit = 'nothing'",
                ]
            )
        )
        choices["parameters"] = {"limit": "new 3"}
        if "$limit" not in choices["matched_where"]:
            del choices["parameters"]
    return there, new, on, choices, draw(st.integers(0, 3))


@settings(max_examples=daily(15, of=60), deadline=None)
@given(merges(), st.booleans(), st.integers(1, 3))
def test_a_frame_is_merged_as_a_table_of_the_same_rows_is(
    case: tuple[pa.Table, pa.Table, list[str], dict[str, Any], int], stable: bool, partitions: int
) -> None:
    there, new, on, choices, gone = case
    mine, other = (
        new_table(there, stable_row_ids=stable, max_rows_per_file=4).delete(f"w < {gone}")
        for _ in range(2)
    )
    expected = other.merge(new, on, runner=LocalRunner(1), **choices)
    found = merge(mine, new, on, partitions=partitions, **choices)
    assert found.counts == expected.counts
    assert found.version == expected.version
    assert everything(found) == everything(expected)
    assert len(files(mine)) == len(files(other)), "staged files are left"

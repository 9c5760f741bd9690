"""Merging rows by key, on tables in memory."""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.engine.rows import scan
from lancewood.engine.snapshot.snapshot import Snapshot
from lancewood.engine.versions.history import load_transaction
from lancewood.engine.write import column_file as deletions
from lancewood.errors import InvalidInputError, RetryableConflictError
from lancewood.jobs.counts import RowCounts
from lancewood.jobs.merge_into import rows as merge_rows
from lancewood.jobs.merge_into import search as merge_search
from lancewood.jobs.runner import LocalRunner
from lancewood.model.transaction import Delete, Operation, Update

T = TypeVar("T")
R = TypeVar("R")
_names = count()

SCHEMA = pa.schema(
    [
        pa.field("k", pa.int64()),
        pa.field("v", pa.string()),
        pa.field("w", pa.float64()),
        pa.field("p", pa.struct([pa.field("x", pa.int32()), pa.field("y", pa.string())])),
    ]
)


def row(k: int | None, v: str | None = None, w: float | None = None) -> dict[str, Any]:
    return {"k": k, "v": v, "w": w, "p": None if k is None else {"x": k, "y": v}}


def rows(*some: dict[str, Any], schema: pa.Schema = SCHEMA) -> pa.Table:
    return pa.Table.from_pylist(list(some), schema=schema)


def source(keys: Sequence[int | None], v: str = "new") -> pa.Table:
    """The key and one more column."""
    return pa.table({"k": pa.array(keys, pa.int64()), "v": pa.array([v] * len(keys), pa.string())})


def new_table(data: pa.Table | None = None, **options: Any) -> lw.Table:
    if data is None:
        data = rows(*(row(n, f"old {n}", n / 2) for n in range(12)))
    options = {"max_rows_per_file": 5} | options
    return lw.create(f"memory://merges/{next(_names)}.lance", data, layout=lw.Layout(**options))


def values(table: lw.Table, *columns: str) -> dict[Any, Any]:
    """Rows by key: one column, or several as a tuple."""
    found = table.scan(["k", *columns]).to_arrow().to_pydict()
    parts = [found[each] for each in columns]
    return dict(
        zip(found["k"], parts[0] if len(parts) == 1 else zip(*parts, strict=True), strict=True)
    )


def operation(table: lw.Table) -> Operation:
    snapshot = table._snapshot
    return load_transaction(snapshot.location.store, snapshot.manifest).operation


def files(table: lw.Table) -> set[str]:
    return {each.key for each in table._snapshot.location.store.list("")}


class CountingRunner(LocalRunner):
    """Counts how often keys are looked for, and can make others come first."""

    def __init__(self, before_writing: Sequence[Callable[[], object]] = ()) -> None:
        super().__init__(workers=2)
        self.searches = 0
        self._interventions = list(before_writing)

    def run(
        self,
        work: Callable[[T], R],
        tasks: Sequence[T],
        *,
        what: str,
        leftover: Callable[[R], object] | None = None,
    ) -> Iterator[R]:
        self.searches += what == "matching keys"
        if what == "writing rows" and self._interventions:
            self._interventions.pop(0)()
        return super().run(work, tasks, what=what)


@pytest.fixture(params=[True, False], ids=["stable ids", "addresses"])
def table(request: pytest.FixtureRequest) -> lw.Table:
    return new_table(stable_row_ids=request.param)


def test_an_upsert_updates_what_matches_and_inserts_the_rest(table: lw.Table) -> None:
    after = table.merge(source([3, 100, 7]), "k")
    assert after.counts == RowCounts(inserted=1, updated=2)
    assert after.version == table.version + 1
    assert values(after, "v") == {
        **{n: f"old {n}" for n in range(12)},
        3: "new",
        7: "new",
        100: "new",
    }
    assert values(after, "w", "p")[3] == (1.5, {"x": 3, "y": "old 3"})
    assert values(after, "w", "p")[100] == (None, None)


def test_moved_rows_come_before_inserted_ones_in_one_new_fragment(table: lw.Table) -> None:
    after = table.merge(source([100, 7, 101, 3]), "k")
    made = operation(after)
    assert isinstance(made, Update)
    assert not made.rewrites_columns
    assert [each.physical_rows for each in made.new_fragments] == [4]
    last = after.scan(["k"], fragment_ids=[after.fragments[-1].id]).to_arrow()
    assert last["k"].to_pylist() == [3, 7, 100, 101]


def test_updated_rows_keep_their_ids_and_first_version() -> None:
    table = new_table(stable_row_ids=True)
    names = ["_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
    after = table.merge(source([3, 100]), "k")
    again = after.merge(source([100, 101]), "k")
    assert values(again, *names)[3] == (3, 1, 2)
    assert values(again, *names)[4] == (4, 1, 1)
    assert values(again, *names)[100] == (12, 2, 3)
    assert values(again, *names)[101] == (13, 3, 3)


def test_all_columns_of_the_source_are_taken() -> None:
    new = rows(row(3, "n", 9.0), row(50, "m", 8.0))
    after = new_table().merge(new, "k")
    assert values(after, "v", "w", "p")[3] == ("n", 9.0, {"x": 3, "y": "n"})
    assert values(after, "v", "w", "p")[50] == ("m", 8.0, {"x": 50, "y": "m"})


def test_ignored_matches_are_counted_and_stay(table: lw.Table) -> None:
    after = table.merge(source([3, 100]), "k", matched="ignore")
    assert after.counts == RowCounts(inserted=1, unchanged=1)
    assert values(after, "v")[3] == "old 3"
    made = operation(after)
    assert isinstance(made, Update)
    assert made.updated_fragments == ()


def test_matches_can_be_deleted(table: lw.Table) -> None:
    after = table.merge(source([3, 100, 4]), "k", matched="delete", not_matched="ignore")
    assert after.counts == RowCounts(deleted=2)
    assert set(values(after, "v")) == {0, 1, 2, *range(5, 12)}
    assert isinstance(operation(after), Delete)


def test_matches_can_be_deleted_while_others_are_inserted(table: lw.Table) -> None:
    after = table.merge(source([3, 100]), "k", matched="delete")
    assert after.counts == RowCounts(inserted=1, deleted=1)
    assert set(values(after, "v")) == {*range(12), 100} - {3}


def test_rows_that_no_source_row_matches_can_be_deleted() -> None:
    table = new_table(rows(row(None, "null"), *(row(n, f"old {n}") for n in range(12))))
    after = table.merge(source([3, 100]), "k", not_matched_by_source="delete")
    assert after.counts == RowCounts(inserted=1, updated=1, deleted=12)
    assert values(after, "v") == {3: "new", 100: "new"}


def test_a_source_without_rows_deletes_all_if_told_so(table: lw.Table) -> None:
    after = table.merge(source([]), "k", not_matched_by_source="delete")
    assert after.counts == RowCounts(deleted=12)
    assert after.count_rows() == 0
    assert len(after.fragments) == 0


def test_fragments_lose_moved_and_unmatched_rows_in_one_deletion_file(table: lw.Table) -> None:
    after = table.merge(source([0, 1]), "k", not_matched_by_source="delete", matched="update")
    assert after.counts == RowCounts(updated=2, deleted=10)
    assert len(after.fragments) == 1
    assert values(after, "v") == {0: "new", 1: "new"}


def test_null_keys_match_nothing_and_are_inserted() -> None:
    table = new_table(rows(row(None, "old"), row(1, "old")))
    after = table.merge(source([None, None, 1]), "k")
    assert after.counts == RowCounts(inserted=2, updated=1)
    assert sorted(after.to_arrow()["v"].to_pylist()) == ["new", "new", "new", "old"]


def test_every_row_of_the_table_with_a_key_is_updated() -> None:
    table = new_table(rows(*(row(n % 3, f"old {n}") for n in range(12))))
    after = table.merge(source([1, 9]), "k")
    assert after.counts == RowCounts(inserted=1, updated=4)
    found = after.to_arrow()
    assert found["v"].to_pylist().count("new") == 5
    assert found.num_rows == 13


def test_a_condition_keeps_matched_rows_and_does_not_insert_theirs(table: lw.Table) -> None:
    after = table.merge(
        source([2, 8, 100], "zz"),
        "k",
        matched_where="target.w > $least AND source.v > target.v AND target.p.x < 100",
        parameters={"least": 2},
    )
    assert after.counts == RowCounts(inserted=1, updated=1, unchanged=1)
    assert values(after, "v")[8] == "zz"
    assert values(after, "v")[2] == "old 2"
    assert after.count_rows() == 13


def test_a_condition_that_is_null_is_not_met(table: lw.Table) -> None:
    after = table.merge(source([2]), "k", matched_where="source.k > NULL")
    assert after.counts == RowCounts(unchanged=1)
    assert after.version == table.version


def test_a_condition_decides_which_matches_are_deleted(table: lw.Table) -> None:
    after = table.merge(
        source([2, 8]),
        "k",
        matched="delete",
        not_matched="ignore",
        matched_where="source.k = target.k AND target.w > 2",
    )
    assert after.counts == RowCounts(deleted=1, unchanged=1)
    assert set(values(after, "v")) == set(range(12)) - {8}


def test_a_key_may_have_several_columns_and_lie_in_a_struct() -> None:
    table = new_table()
    new = rows(row(3, "old 3", 99.0), row(4, "other", 98.0))
    after = table.merge(new, ["p.y", "k"])
    assert after.counts == RowCounts(inserted=1, updated=1)
    assert values(after, "w")[3] == 99.0
    found = after.scan(["k", "w"], where="k = 4").to_arrow().to_pylist()
    assert sorted(each["w"] for each in found) == [2.0, 98.0]


def test_no_name_takes_the_primary_key_of_the_schema() -> None:
    key = {b"lance-schema:unenforced-primary-key": b"true"}
    schema = pa.schema([pa.field("v", pa.string()), pa.field("k", pa.int64(), False, key)])
    table = new_table(rows(row(1, "a"), row(2, "b"), schema=schema))
    after = table.merge(source([2, 3]))
    assert after.counts == RowCounts(inserted=1, updated=1)
    assert values(after, "v") == {1: "a", 2: "new", 3: "new"}


@pytest.mark.parametrize(
    "keys",
    [
        pa.array(["a", "b", None]).dictionary_encode(),
        pa.array([b"a", b"b", None], pa.binary(1)),
        pa.array([1, 2, None], pa.timestamp("us", "UTC")),
        pa.array([True, False, None]),
        pa.array(["1.5", "2.5", None]).cast(pa.decimal128(5, 2)),
        pa.array([1, 2, None], pa.uint8()),
        pa.array(["a", "b", None], pa.large_string()),
        pa.array([1, 2, None], pa.date32()),
    ],
)
def test_keys_of_many_types_are_matched(keys: pa.Array) -> None:
    table = new_table(pa.table({"k": keys, "n": [1, 2, 3]}), max_rows_per_file=2)
    after = table.merge(pa.table({"k": keys.slice(1), "n": [20, 30]}), "k")
    assert after.counts == RowCounts(inserted=1, updated=1)
    assert sorted(after.to_arrow()["n"].to_pylist()) == [1, 3, 20, 30]
    made = operation(after)
    assert isinstance(made, Update)
    assert made.inserted_rows is not None


def test_a_stream_is_read_once_and_survives_a_conflict() -> None:
    table = new_table()
    once = pa.RecordBatchReader.from_batches(
        source([]).schema, iter(source([3, 100]).to_batches(max_chunksize=1))
    )
    rival = functools.partial(table.append, rows(row(100, "theirs")))
    runner = CountingRunner([rival])
    after = table.merge(once, "k", runner=runner)
    assert runner.searches == 2
    assert after.counts == RowCounts(updated=2)
    assert after.version == table.version + 2
    assert values(after, "v")[100] == "new"
    assert after.count_rows() == 13


def test_of_two_upserts_that_insert_one_key_the_second_becomes_an_update(table: lw.Table) -> None:
    rival = functools.partial(table.merge, source([50], "theirs"), "k")
    runner = CountingRunner([rival])
    after = table.merge(source([50], "mine"), "k", runner=runner)
    assert runner.searches == 2
    assert after.counts == RowCounts(updated=1)
    assert values(after, "v")[50] == "mine"
    assert after.count_rows() == 13


def test_upserts_that_insert_other_keys_and_change_other_rows_both_land_as_they_are(
    table: lw.Table,
) -> None:
    rival = functools.partial(table.merge, source([4, 50], "theirs"), "k")
    runner = CountingRunner([rival])
    after = table.merge(source([3, 60], "mine"), "k", runner=runner)
    assert runner.searches == 1
    assert after.counts == RowCounts(inserted=1, updated=1)
    found = values(after, "v")
    assert [found[each] for each in (3, 4, 50, 60)] == ["mine", "theirs", "theirs", "mine"]
    assert after.count_rows() == 14


def test_a_serializable_merge_leaves_a_conflict_to_its_caller(table: lw.Table) -> None:
    runner = CountingRunner([functools.partial(table.append, rows(row(77)))])
    with pytest.raises(RetryableConflictError):
        table.merge(source([50]), "k", runner=runner, commit=lw.CommitOptions(serializable=True))
    assert 50 not in values(table.latest(), "v")


def test_a_source_that_no_longer_fits_after_a_conflict_is_refused_and_leaves_no_file() -> None:
    table = new_table()

    def intervene() -> None:
        table.append(rows(row(77)))
        table.latest().drop_columns(["v"])

    runner = CountingRunner([intervene])
    with pytest.raises(InvalidInputError, match="'v' is not in the table"):
        table.merge(source([50]), "k", runner=runner)
    latest = table.latest()
    assert 50 not in latest.to_arrow()["k"].to_pylist()
    assert {each for each in files(latest) if each.startswith("data/")} == {
        f"data/{file.path}" for each in latest.fragments for file in each.files
    }


def test_nothing_to_do_makes_no_version(table: lw.Table) -> None:
    before = files(table)
    for after in (
        table.merge(source([]), "k"),
        table.merge(source([100]), "k", not_matched="ignore"),
        table.merge(source([3]), "k", matched="ignore"),
    ):
        assert after.version == table.version
    assert files(table) == before


def test_a_fragment_that_loses_all_rows_goes(table: lw.Table) -> None:
    first = table.fragments[0].id
    after = table.merge(source(range(5)), "k")
    made = operation(after)
    assert isinstance(made, Update)
    assert made.removed_fragment_ids == (first,)
    assert first not in {each.id for each in after.fragments}


def test_columns_are_rewritten_in_place_when_told_so(table: lw.Table) -> None:
    after = table.merge(source([3, 11, 100]), "k", not_matched="ignore", rewrite="columns")
    assert after.counts == RowCounts(updated=2)
    made = operation(after)
    assert isinstance(made, Update)
    assert made.rewrites_columns
    assert made.new_fragments == ()
    assert made.fields_modified == (1,)
    assert [each.id for each in made.updated_fragments] == [0, 2]
    assert values(after, "v") == {**{n: f"old {n}" for n in range(12)}, 3: "new", 11: "new"}
    assert [each.num_deleted_rows for each in after.fragments] == [0, 0, 0]


def test_rows_that_a_rewrite_of_columns_leaves_alone_keep_their_version() -> None:
    table = new_table(stable_row_ids=True)
    after = table.merge(source([3]), "k", not_matched="ignore", rewrite="columns")
    found = values(after, "_row_last_updated_at_version")
    assert found[3] == 2
    assert found[2] == found[4] == 1


def test_deleted_rows_stay_deleted_when_columns_are_rewritten(table: lw.Table) -> None:
    before = table.delete("k = 2 OR k = 4")
    after = before.merge(source([3]), "k", not_matched="ignore", rewrite="columns")
    assert values(after, "v")[3] == "new"
    assert set(values(after, "v")) == set(range(12)) - {2, 4}


def wide_table() -> lw.Table:
    letters = np.random.default_rng(7).integers(0, 256, 2_000 * 600, np.uint8).tobytes()
    wide = [letters[600 * n : 600 * n + 600] for n in range(2_000)]
    data = {"k": range(2_000), "n": range(2_000), "wide": wide}
    return new_table(pa.table(data), max_rows_per_file=1_000)


@pytest.mark.parametrize(("step", "in_place"), [(1, True), (500, False)])
def test_the_way_that_writes_less_is_taken(step: int, in_place: bool) -> None:
    table = wide_table()
    keys = list(range(0, 2_000, step))
    new = pa.table({"k": keys, "n": [-each for each in keys]})
    after = table.merge(new, "k")
    made = operation(after)
    assert isinstance(made, Update)
    assert made.rewrites_columns is in_place
    assert values(after, "n") == {n: -n if n % step == 0 else n for n in range(2_000)}


def test_a_rewrite_of_rows_can_be_forced() -> None:
    table = wide_table()
    new = pa.table({"k": range(2_000), "n": range(2_000)})
    made = operation(table.merge(new, "k", rewrite="rows"))
    assert isinstance(made, Update)
    assert not made.rewrites_columns


def test_only_changed_fields_bar_an_index_unless_rows_are_new(table: lw.Table) -> None:
    moved = operation(table.merge(source([3]), "k", rewrite="rows"))
    assert isinstance(moved, Update)
    assert moved.fields_for_preserving_frag_bitmap == (1,)
    grown = operation(table.latest().merge(source([3, 50]), "k"))
    assert isinstance(grown, Update)
    assert grown.fields_for_preserving_frag_bitmap == (0, 1, 2, 3, 4, 5)


@pytest.mark.parametrize(
    ("data", "options", "words"),
    [
        (source([1, 2, 1]), {}, "rows 0 and 2 of the source have the same key k = 1"),
        (pa.table({"v": ["a"]}), {}, "has no column 'k', which is part of the key"),
        (source([1]).append_column("q", pa.array([1])), {}, "'q' is not in the table"),
        (pa.table({"k": ["a"]}), {}, "column 'k' is string"),
        (pa.table({"k": [1], "v": [5]}), {}, "column 'v' is int64"),
        (source([1]), {"on": "z"}, "'z' not found"),
        (source([1]), {"on": None}, "primary key"),
        (source([1]), {"on": "w"}, "cannot be a key"),
        (source([1]), {"matched": "replace"}, "matched is one of"),
        (source([1]), {"not_matched": "keep"}, "not_matched is one of"),
        (source([1]), {"not_matched_by_source": "x"}, "not_matched_by_source is one of"),
        (source([1]), {"rewrite": "some"}, "rewrite is one of"),
        (source([1]), {"rewrite": "columns"}, "neither insert nor delete"),
        (source([1]), {"matched_where": "k = 1"}, "source.x and target.x"),
        (source([1]), {"matched_where": "source.w = 1"}, "no field 'w'"),
        (source([1]), {"matched_where": "target IS NULL"}, "whole row"),
        (source([1]), {"matched_where": "source.k"}, "not a condition"),
        (source([1]), {"matched_where": 7}, "takes SQL text"),
        (source([1]), {"parameters": {"a": 1}}, "no matched_where"),
        (source([1]), {"matched_where": "source.k = 1", "matched": "ignore"}, "ignored"),
        (
            pa.table({"k": [1], "p": [{"x": 1}]}).cast(
                pa.schema([("k", pa.int64()), ("p", pa.struct([("x", pa.int32())]))])
            ),
            {},
            "without its field 'y'",
        ),
        ([1, 2], {}, "holds record batches"),
        ([*source([1]).to_batches(), *rows(row(2)).to_batches()], {}, "another schema"),
    ],
)
def test_what_cannot_be_merged_is_refused_before_anything_is_written(
    data: Any, options: dict[str, Any], words: str
) -> None:
    table = new_table()
    before = files(table)
    with pytest.raises(InvalidInputError) as caught:
        table.merge(data, **({"on": "k"} | options))
    assert words in str(caught.value)
    assert files(table) == before


def test_a_missing_column_that_may_not_be_null_is_refused_unless_nothing_is_inserted() -> None:
    schema = pa.schema([pa.field("k", pa.int64()), pa.field("must", pa.string(), False), "v"][:2])
    schema = schema.append(pa.field("v", pa.string()))
    table = new_table(pa.table({"k": [1], "must": ["m"], "v": ["a"]}, schema=schema))
    before = files(table)
    with pytest.raises(InvalidInputError, match="'must' is missing"):
        table.merge(source([1]), "k")
    assert files(table) == before
    after = table.merge(source([1]), "k", not_matched="ignore")
    assert after.to_arrow().to_pylist() == [{"k": 1, "must": "m", "v": "new"}]


def test_a_null_where_none_may_be_is_refused_before_anything_is_written() -> None:
    schema = pa.schema([pa.field("k", pa.int64()), pa.field("v", pa.string(), False)])
    table = new_table(pa.table({"k": [1], "v": ["a"]}, schema=schema))
    before = files(table)
    with pytest.raises(InvalidInputError, match="may not be null"):
        table.merge(pa.table({"k": [1], "v": pa.array([None], pa.string())}), "k")
    assert files(table) == before


def test_an_error_while_writing_leaves_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    table = new_table()
    before = files(table)
    mark = deletions.mark_deleted
    calls = count()

    def failing(*args: Any) -> Any:
        if next(calls) == 1:
            raise KeyboardInterrupt
        return mark(*args)

    monkeypatch.setattr(merge_rows, "mark_deleted", failing)
    with pytest.raises(KeyboardInterrupt):
        table.merge(source([1, 7, 50]), "k")
    assert files(table) == before
    assert table.latest().version == table.version


def test_tasks_and_results_travel() -> None:
    table = new_table()
    seen: list[int] = []

    class Travelling(LocalRunner):
        def run(
            self,
            work: Callable[[T], R],
            tasks: Sequence[T],
            *,
            what: str,
            leftover: Callable[[R], object] | None = None,
        ) -> Iterator[R]:
            for each in tasks:
                sent = pickle.dumps((work, each))
                seen.append(len(sent))
                again, task = pickle.loads(sent)
                yield pickle.loads(pickle.dumps(again(task)))

    after = table.merge(source([3, 100]), "k", matched_where="target.w > 0", runner=Travelling())
    assert after.counts == RowCounts(inserted=1, updated=1)
    assert len(seen) >= 2


def test_portions_that_end_within_fragments_change_nothing(
    table: lw.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merge_search, "_LEAST_PORTION", 1)
    monkeypatch.setattr(merge_search, "_MOST_PORTION", 1)
    monkeypatch.setattr(merge_search, "_CONDITION_ROWS", 1)
    after = table.merge(
        source([1, 3, 4, 11, 50]),
        "k",
        matched_where="source.k <> 4",
        not_matched_by_source="delete",
    )
    assert after.counts == RowCounts(inserted=1, updated=3, deleted=8, unchanged=1)
    assert values(after, "v") == {1: "new", 3: "new", 4: "old 4", 11: "new", 50: "new"}


def test_many_inserted_rows_are_shared_out_over_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_rows, "_LEAST_INSERTED", 10)
    monkeypatch.setattr(merge_rows, "_MOST_INSERTED", 10)
    table = new_table()
    after = table.merge(source(range(5, 45)), "k", runner=LocalRunner(2))
    assert after.counts == RowCounts(inserted=33, updated=7)
    made = operation(after)
    assert isinstance(made, Update)
    assert [each.physical_rows for each in made.new_fragments] == [17, 10, 10, 3]
    assert len(values(after, "v")) == 45


def test_fragments_without_the_key_column_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    table = new_table(pa.table({"k": pa.array([1, 2], pa.int64()), "v": ["a", "b"]}))
    table = table.append(pa.table({"v": ["c", "d"]}))
    asked: list[int] = []
    plan = scan.ScanPlan

    def noting(snapshot: Snapshot, request: Any) -> Any:
        asked.extend(each.id for each in request.fragments)
        return plan(snapshot, request)

    monkeypatch.setattr(merge_search, "ScanPlan", noting)
    after = table.merge(source([2]), "k")
    assert after.counts == RowCounts(updated=1)
    assert asked == [0]
    swept = after.merge(source([2]), "k", matched="ignore", not_matched_by_source="delete")
    assert swept.counts == RowCounts(deleted=3, unchanged=1)


def test_messages_and_properties_go_into_the_commit(table: lw.Table) -> None:
    after = table.merge(
        source([3]), "k", message="nightly", commit=lw.CommitOptions(properties={"job": "7"})
    )
    found = next(after.versions())
    assert found.message == "nightly"

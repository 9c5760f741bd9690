"""Targets that load rows: what stands on the run's branch afterwards, as pylance sees it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from tests.spark.pipeline.loading_scene import FakeFrames, new_context, rows_of, target

from lancewood.errors import InvalidInputError
from lancewood.pipeline.loading.load import load_target, plan_target, without_duplicates

pytestmark = pytest.mark.spark


def test_append_adds_rows_on_the_branch_and_nothing_on_main(spark: Any, tmp_path: Path) -> None:
    context = new_context(tmp_path)
    new = spark.createDataFrame(
        [(5, "five", "x"), (6, "six", "y")], "id long, title string, z string"
    )
    facts = load_target(
        spark,
        context,
        target("photos", "append", "new", columns_left_out=("z",), partitions=1),
        FakeFrames({"new": new}),
    )
    found = context.on_branch("photos")
    assert [each["id"] for each in rows_of(found)] == [1, 2, 3, 4, 5, 6]
    assert found.schema.names == ["id", "title"]
    assert (facts.rows_before, facts.rows_after, facts.inserted) == (4, 6, 2)
    assert (facts.files, facts.version) == (1, found.version)
    assert facts.bytes > 0
    assert len(context.on_main("photos")) == 4


def test_append_of_nothing_makes_no_version(spark: Any, tmp_path: Path) -> None:
    context = new_context(tmp_path)
    nothing = spark.createDataFrame([], "id long, title string")
    location = context.location("photos")
    before = context.on_branch("photos").version
    facts = load_target(
        spark, context, target("photos", "append", "nothing"), FakeFrames({"nothing": nothing})
    )
    assert location.branch == context.branch
    assert context.on_branch("photos").version == before == facts.version
    assert (facts.inserted, facts.files, facts.rows_after) == (0, 0, 4)


@pytest.mark.parametrize("mode", ["append", "overwrite", "merge"])
def test_a_table_that_is_not_there_is_made_with_its_types(
    spark: Any, tmp_path: Path, mode: str
) -> None:
    context = new_context(tmp_path)
    frame = spark.createDataFrame([(1, [0.5, 1.5]), (2, [2.5, 3.5])], "id long, v array<float>")
    wanted = target(
        "vectors",
        mode,
        "new",
        types={"v": "fixed_size_list<float>[2]"},
        on=("id",) if mode == "merge" else (),
    )
    facts = load_target(spark, context, wanted, FakeFrames({"new": frame}))
    found = context.on_branch("vectors")
    assert found.schema.field("v").type == pa.list_(pa.float32(), 2)
    assert rows_of(found) == [{"id": 1, "v": [0.5, 1.5]}, {"id": 2, "v": [2.5, 3.5]}]
    assert (facts.rows_before, facts.rows_after, facts.inserted) == (None, 2, 2)
    assert not context.has("vectors")


def test_overwrite_replaces_rows_and_columns(spark: Any, tmp_path: Path) -> None:
    context = new_context(tmp_path)
    frame = spark.createDataFrame([(9, 1.5)], "id long, size double")
    facts = load_target(
        spark, context, target("photos", "overwrite", "new"), FakeFrames({"new": frame})
    )
    assert rows_of(context.on_branch("photos")) == [{"id": 9, "size": 1.5}]
    assert (facts.inserted, facts.deleted, facts.replaced) == (1, 0, 4)
    assert facts.columns_added == ("size",)


def test_changes_of_a_feed_delete_update_and_insert_in_one_version(
    spark: Any, tmp_path: Path
) -> None:
    context = new_context(tmp_path)
    context.location("photos")
    before = context.on_branch("photos").version
    feed = spark.createDataFrame(
        [(1, "ONE", "u"), (2, None, "d"), (7, "seven", "c"), (8, None, "d"), (3, "three!", None)],
        "id long, title string, op string",
    )
    facts = load_target(
        spark,
        context,
        target("photos", "merge", "feed", on=("id",), deleted="op = 'd'", columns_left_out=("op",)),
        FakeFrames({"feed": feed}),
    )
    found = context.on_branch("photos")
    assert found.version == before + 1
    assert {each["id"]: each["title"] for each in rows_of(found)} == {
        1: "ONE",
        3: "three!",
        4: "four",
        7: "seven",
    }
    assert (facts.inserted, facts.updated, facts.deleted) == (1, 2, 1)
    assert (facts.rows_before, facts.rows_after) == (4, 4)
    assert facts.files > 0
    assert facts.bytes > 0


def test_a_feed_with_nothing_but_deletes(spark: Any, tmp_path: Path) -> None:
    context = new_context(tmp_path)
    feed = spark.createDataFrame([(2, True), (99, True)], "id long, gone boolean")
    merging = target(
        "photos", "merge", "feed", on=("id",), deleted="gone", columns_left_out=("gone",)
    )
    facts = load_target(spark, context, merging, FakeFrames({"feed": feed}))
    assert [each["id"] for each in rows_of(context.on_branch("photos"))] == [1, 3, 4]
    assert (facts.inserted, facts.updated, facts.deleted, facts.files) == (0, 0, 1, 0)


def test_rows_that_delete_may_lack_what_the_table_needs(spark: Any, tmp_path: Path) -> None:
    context = new_context(tmp_path)
    strict = pa.schema([pa.field("id", pa.int64(), False), pa.field("name", pa.string(), False)])
    with context.repository.transaction(context.branch, "strict") as changes:
        changes.create_table("strict", pa.table([[1, 2], ["a", "b"]], schema=strict))
    rows = [(1, None, True), (3, "c", False)]
    feed = spark.createDataFrame(rows, "id long, name string, gone boolean")
    merging = target(
        "strict", "merge", "feed", on=("id",), deleted="gone", columns_left_out=("gone",)
    )
    load_target(spark, context, merging, FakeFrames({"feed": feed}))
    found = rows_of(context.on_branch("strict"))
    assert found == [{"id": 2, "name": "b"}, {"id": 3, "name": "c"}]
    wrong = spark.createDataFrame([(2, None, False)], "id long, name string, gone boolean")
    with pytest.raises(InvalidInputError, match="name"):
        load_target(spark, context, merging, FakeFrames({"feed": wrong}))
    assert rows_of(context.on_branch("strict")) == found


def test_a_key_that_is_updated_and_deleted_is_told(spark: Any, tmp_path: Path) -> None:
    context = new_context(tmp_path)
    feed = spark.createDataFrame(
        [(2, "a", True), (2, "b", False)], "id long, title string, d boolean"
    )
    merging = target("photos", "merge", "feed", on=("id",), deleted="d", columns_left_out=("d",))
    with pytest.raises(InvalidInputError, match="the same key id = 2"):
        load_target(spark, context, merging, FakeFrames({"feed": feed}))
    assert len(rows_of(context.on_branch("photos"))) == 4


def test_rows_that_the_frame_does_not_have_go_where_asked_for(spark: Any, tmp_path: Path) -> None:
    context = new_context(tmp_path)
    frame = spark.createDataFrame(
        [(1, "ONE", False), (2, "", True)], "id long, title string, d boolean"
    )
    merging = target(
        "photos",
        "merge",
        "all",
        on=("id",),
        deleted="d",
        columns_left_out=("d",),
        not_matched_by_source="delete",
    )
    facts = load_target(spark, context, merging, FakeFrames({"all": frame}))
    assert rows_of(context.on_branch("photos")) == [{"id": 1, "title": "ONE"}]
    assert (facts.updated, facts.deleted) == (1, 3)


def test_two_targets_may_write_one_table(spark: Any, tmp_path: Path) -> None:
    context = new_context(tmp_path)
    frames = FakeFrames({"a": spark.sql("SELECT 1L id"), "b": spark.sql("SELECT 2L id")})
    first = load_target(spark, context, target("both", "append", "a"), frames)
    context.repository.commit("first", branch=context.branch)
    second = load_target(spark, context, target("both", "append", "b"), frames)
    assert rows_of(context.on_branch("both")) == [{"id": 1}, {"id": 2}]
    assert (first.rows_before, second.rows_before, second.rows_after) == (None, 1, 2)


def test_a_published_load_leaves_no_base_path(spark: Any, tmp_path: Path) -> None:
    context = new_context(tmp_path)
    frame = spark.sql("SELECT 5L id, 'five' title")
    load_target(spark, context, target("photos", "append", "new"), FakeFrames({"new": frame}))
    context.publish()
    found = lance.dataset(context.root("photos"))
    assert found.count_rows() == 5
    assert not context.open("photos").base_paths


ORDERED = "id long, title string, at int, tags map<string, int>"


@pytest.mark.sliced(2)
@pytest.mark.parametrize(
    ("keep", "titles"), [("last", ["b", "d", "x", "y"]), ("first", ["a", "d", "x", "y"])]
)
def test_of_rows_with_one_key_the_first_or_the_last_counts(
    spark: Any, tmp_path: Path, keep: str, titles: list[str]
) -> None:
    context = new_context(tmp_path)
    rows = [
        (7, "a", None, None),
        (7, "b", 3, {"x": 1}),
        (7, "c", 2, None),
        (8, "d", 1, None),
        (8, "d", 1, None),
        (None, "x", 1, None),
        (None, "y", 1, None),
    ]
    frame = spark.createDataFrame(rows, ORDERED).repartition(3)
    into = target(
        *("sorted", "merge", "orders"),
        on=("id",),
        keep=keep,
        order_by=("at",),
        columns_left_out=("at", "tags"),
    )
    frames = FakeFrames({"orders": frame})
    plan_target(spark, context, into, frames)
    facts = load_target(spark, context, into, frames)
    assert (facts.inserted, facts.duplicates) == (4, 3)
    assert sorted(each["title"] for each in rows_of(context.on_branch("sorted"))) == titles


def test_rows_that_only_their_content_tells_apart_give_the_same_table_in_any_order(
    spark: Any,
) -> None:
    rows = [(7, chr(97 + number), 1, {chr(97 + number): 1}) for number in range(20)]
    into = target(*("sorted", "merge", "orders"), on=("id",), keep="last", order_by=("at",))
    found = {
        without_duplicates(spark.createDataFrame(part, ORDERED).repartition(n), into)
        .collect()[0]
        .title
        for n, part in ((1, rows), (3, rows[::-1]), (5, rows[7:] + rows[:7]))
    }
    assert len(found) == 1


def test_a_key_that_occurs_twice_is_refused_and_keep_is_named(spark: Any, tmp_path: Path) -> None:
    context = new_context(tmp_path)
    frame = spark.createDataFrame([(7, "a"), (7, "b")], "id long, title string")
    into = target(*("sorted", "merge", "orders"), on=("id",))
    with pytest.raises(
        InvalidInputError, match=r'same key id = 7: .*keep = "last" or "first" with'
    ):
        load_target(spark, context, into, FakeFrames({"orders": frame}))


def test_order_by_names_columns_of_the_frame_that_have_an_order(spark: Any, tmp_path: Path) -> None:
    context = new_context(tmp_path)
    frame = spark.createDataFrame([], ORDERED)
    for order_by, why in (("att", "`att`"), ("tags", "order")):
        into = target(*("sorted", "merge", "orders"), on=("id",), keep="last", order_by=(order_by,))
        with pytest.raises(InvalidInputError, match=rf"targets\[0\].order_by: .*{why}"):
            plan_target(spark, context, into, FakeFrames({"orders": frame}))

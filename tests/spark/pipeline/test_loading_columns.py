"""Targets that add columns: computed once for each row, also for rows that come later."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.spark.pipeline.loading_scene import (
    FakeFrames,
    LoadingContext,
    new_context,
    rows_of,
    target,
)

from lancewood.pipeline.loading.load import load_target
from lancewood.pipeline.report.facts import TargetFacts

pytestmark = pytest.mark.spark

LOUD, QUIET = "upper(title)", "lower(title)"


def fill(spark: Any, context: LoadingContext, expression: str = LOUD, **said: Any) -> TargetFacts:
    adding = target("photos", "add-columns", columns={"shout": expression}, **said)
    return load_target(spark, context, adding, FakeFrames())


def shouts(context: LoadingContext) -> dict[int, str | None]:
    return {each["id"]: each["shout"] for each in rows_of(context.on_branch("photos"))}


def data_files(context: LoadingContext) -> set[str]:
    return {each.name for each in (Path(context.root("photos")) / "data").iterdir()}


def test_only_the_new_column_is_written_and_a_second_run_has_nothing_to_do(
    spark: Any, tmp_path: Path
) -> None:
    context = new_context(tmp_path)
    before = data_files(context)
    facts = fill(spark, context)
    assert shouts(context) == {1: "ONE", 2: "TWO", 3: "THREE", 4: "FOUR"}
    assert (facts.columns_added, facts.updated, facts.files) == (("shout",), 4, 1)
    assert before < data_files(context)
    assert len(data_files(context) - before) == 1
    context.publish()
    context.begin("r2")
    again = fill(spark, context)
    assert (again.columns_added, again.updated, again.files, again.bytes) == ((), 0, 0, 0)
    assert again.version == context.on_branch("photos").version
    assert not context.repository.commit("nothing", branch=context.branch).is_new


def test_rows_that_came_later_are_filled_and_others_left_alone(spark: Any, tmp_path: Path) -> None:
    context = new_context(tmp_path)
    fill(spark, context)
    context.publish()
    with context.repository.transaction("main", "day 2") as changes:
        changes.table("photos").append(pa.table({"id": [5, 6], "title": ["Five", "Six"]}))
    with context.repository.transaction("main", "day 3") as changes:
        news = pa.table({"id": [1, 7], "title": ["Uno", "Seven"]})
        changes.table("photos").merge(news, on="id")
    context.begin("r2")
    facts = fill(spark, context, QUIET)
    assert shouts(context) == {
        1: "ONE",
        2: "TWO",
        3: "THREE",
        4: "FOUR",
        5: "five",
        6: "six",
        7: "seven",
    }
    assert facts.updated == 3
    context.publish()
    context.begin("r3")
    assert fill(spark, context, QUIET).files == 0


def test_all_rows_are_computed_anew_where_the_file_says_so(spark: Any, tmp_path: Path) -> None:
    context = new_context(tmp_path)
    fill(spark, context)
    facts = fill(spark, context, QUIET, overwrite=True)
    assert shouts(context) == {1: "one", 2: "two", 3: "three", 4: "four"}
    assert (facts.updated, facts.files, facts.columns_added) == (4, 1, ())


def test_a_value_that_comes_out_as_null_is_not_tried_again_but_one_taken_away_is(
    spark: Any, tmp_path: Path
) -> None:
    context = new_context(tmp_path)
    fill(spark, context, "if(id = 2, null, upper(title))")
    assert shouts(context)[2] is None
    assert fill(spark, context, QUIET).updated == 0
    context.repository.commit("filled", branch=context.branch)
    table = context.repository.prepare("photos", branch=context.branch)
    table.update({"shout": "NULL"}, where="id = 3", rewrite="columns")
    facts = fill(spark, context, QUIET)
    assert shouts(context) == {1: "ONE", 2: "two", 3: "three", 4: "FOUR"}
    assert facts.updated == 2


def test_a_vector_of_a_python_function_beside_another_column(spark: Any, tmp_path: Path) -> None:
    from pyspark.sql.types import ArrayType, FloatType

    def embed(text: str) -> list[float]:
        return [float(len(text)), 0.5]

    spark.udf.register("embed", embed, ArrayType(FloatType()))
    context = new_context(tmp_path)
    fill(spark, context)
    adding = target(
        "photos",
        "add-columns",
        columns={"v": "embed(title)", "shout": LOUD, "size": "length(title)"},
        types={"v": "fixed_size_list<float>[2]"},
    )
    facts = load_target(spark, context, adding, FakeFrames())
    found = context.on_branch("photos")
    assert found.schema.field("v").type == pa.list_(pa.float32(), 2)
    assert rows_of(found)[2] == {
        "id": 3,
        "title": "three",
        "shout": "THREE",
        "v": [5.0, 0.5],
        "size": 5,
    }
    assert (facts.columns_added, facts.files) == (("v", "size"), 1)


def test_a_column_and_rows_that_others_append_meanwhile_both_land(
    spark: Any, tmp_path: Path
) -> None:
    context = new_context(tmp_path)
    fill(spark, context)
    with context.repository.transaction("main", "meanwhile") as changes:
        changes.table("photos").append(pa.table({"id": [5], "title": ["five"]}))
    context.publish()
    found = {each["id"]: each["shout"] for each in context.on_main("photos")}
    assert found == {1: "ONE", 2: "TWO", 3: "THREE", 4: "FOUR", 5: None}
    assert not context.open("photos").base_paths
    context.begin("r2")
    assert fill(spark, context).updated == 1
    context.publish()
    assert context.on_main("photos")[4]["shout"] == "FIVE"


def test_a_row_that_a_merge_updates_is_computed_anew(spark: Any, tmp_path: Path) -> None:
    fresh = new_context(tmp_path)
    news = spark.createDataFrame([(1, "Uno"), (9, "Nine")], "id LONG, title STRING")
    merging = target("photos", "merge", "news", on=("id",))
    adding = target("photos", "add-columns", columns={"shout": LOUD, "size": "length(title)"})
    context = fresh.with_targets(merging, adding)
    load_target(spark, context, adding, FakeFrames())
    load_target(spark, context, merging, FakeFrames({"news": news}))
    assert shouts(context) == {1: None, 2: "TWO", 3: "THREE", 4: "FOUR", 9: None}
    load_target(spark, context, adding, FakeFrames())
    assert shouts(context) == {1: "UNO", 2: "TWO", 3: "THREE", 4: "FOUR", 9: "NINE"}

"""Targets are checked before anything is written: every refusal says where in the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.spark.pipeline.loading_scene import FakeFrames, LoadingContext, new_context, target

import lancewood as lw
from lancewood.errors import InvalidInputError
from lancewood.pipeline.loading.load import plan_target, plan_targets

pytestmark = pytest.mark.spark

ROWS = "id long, title string"


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> LoadingContext:
    made = new_context(tmp_path_factory.mktemp("plan"))
    with made.repository.transaction("main", message="more") as changes:
        schema = pa.schema([pa.field("id", pa.int64(), False), ("v", pa.list_(pa.float32(), 2))])
        changes.create_table("vectors", schema)
        changes.create_table("floats", pa.table({"x": [0.5]}))
    made.begin("r2")
    return made


@pytest.fixture(scope="module")
def frames(spark: Any) -> FakeFrames:
    kinds = {
        "rows": ROWS,
        "wide": f"{ROWS}, op string",
        "vectors": "id long, v array<float>",
        "texts": "id string, title string",
        "floats": "x double",
    }
    return FakeFrames({name: spark.createDataFrame([], kind) for name, kind in kinds.items()})


REFUSED = {
    "a column that the table does not have": (
        target("photos", "append", "wide"),
        "targets[0]: the frame does not fit the table: column 'op'",
    ),
    "a column to leave out that is not there": (
        target("photos", "append", "rows", columns_left_out=("ops",)),
        "targets[0].leave_out: leave_out names 'ops', which the frame does not have",
    ),
    "values of another type": (target("photos", "append", "texts"), "targets[0]: the frame does"),
    "a type that the table does not have": (
        target("vectors", "append", "vectors", types={"v": "fixed_size_list<float>[3]"}),
        "targets[0].types: column 'v' is to be fixed_size_list<item: float>[3], and the table has",
    ),
    "a type that values cannot have": (
        target("fresh", "append", "rows", types={"title": "fixed_size_list<float>[3]"}),
        "targets[0]: the frame does not fit the table: column 'title'",
    ),
    "a type of a column that is not there": (
        target("fresh", "append", "rows", types={"tilte": "string"}),
        "targets[0]: types names 'tilte', which the frame does not have; did you mean 'title'?",
    ),
    "a text that is no type": (
        target("fresh", "append", "rows", types={"title": "txet"}),
        "targets[0].types: type 'txet' is not known",
    ),
    "a key that the table does not have": (
        target("photos", "merge", "rows", on=("idd",)),
        "targets[0].on: ",
    ),
    "a key of floats": (
        target("floats", "merge", "floats", on=("x",)),
        "targets[0].on: column 'x'",
    ),
    "a key that the frame does not have": (
        target("photos", "merge", "rows", on=("id",), columns_left_out=("id",)),
        "targets[0]: ",
    ),
    "a word that is no choice": (
        target("photos", "merge", "rows", on=("id",), matched="replace"),
        "targets[0]: matched",
    ),
    "a predicate that does not parse": (
        target("photos", "merge", "wide", on=("id",), deleted="op == = 'd'"),
        "targets[0].deleted: ",
    ),
    "a predicate over a column that is not there": (
        target("photos", "merge", "wide", on=("id",), deleted="opp = 'd'"),
        "targets[0].deleted: A column, variable, or function parameter with name `opp`",
    ),
    "a predicate that is none": (
        target("photos", "merge", "wide", on=("id",), deleted="upper(op)"),
        "targets[0].deleted: 'upper(op)' is string; it must be true or false for a row",
    ),
    "columns for a table that is not there": (
        target("fresh", "add-columns", columns={"a": "1"}),
        "targets[0]: there is no table 'fresh'",
    ),
    "an expression that does not parse": (
        target("photos", "add-columns", columns={"ok": "id", "shout": "upper(titel)"}),
        "targets[0].columns.shout: column 'shout' cannot be computed as 'upper(titel)'",
    ),
    "an expression over all rows": (
        target("photos", "add-columns", columns={"most": "max(id) over ()"}),
        "targets[0].columns.most: column 'most' cannot be computed row by row",
    ),
    "values that do not fit a column that is there": (
        target("photos", "add-columns", columns={"id": "title"}),
        "targets[0].columns.id: ",
    ),
    "another type than that of a column that is there": (
        target("photos", "add-columns", columns={"id": "id"}, types={"id": "int32"}),
        "targets[0].columns.id: column 'id' is to be int32, and the table has it already as int64",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused_with_its_spot(
    spark: Any, context: LoadingContext, frames: FakeFrames, case: str
) -> None:
    asked, why = REFUSED[case]
    with pytest.raises(InvalidInputError) as refused:
        plan_target(spark, context, asked, frames)
    text = str(refused.value)
    assert text.removeprefix("p.toml line 7: ").removeprefix("p.toml: ").startswith(why)
    assert "\n" not in text
    assert refused.value.__cause__ is None


@pytest.mark.parametrize(
    ("rules", "why"),
    [
        ({"tittle": "ours"}, "columns of resolve names 'tittle', which is no column"),
        ({"title": "ours.id + theirs.id"}, "the rule for 'title'"),
    ],
)
def test_rules_for_conflicts_are_checked_against_what_the_table_will_have(
    spark: Any, context: LoadingContext, frames: FakeFrames, rules: Any, why: str
) -> None:
    def asked(rules: Any) -> LoadingContext:
        said = {"on_conflict": rules}
        return context.with_targets(
            target("photos", "merge", "rows", on=("id",), **said),
            target("photos", "add-columns", columns={"size": "length(title)"}, **said),
        )

    plan_targets(spark, asked({"size": "greatest(ours.size, theirs.size)"}), frames)
    with pytest.raises(InvalidInputError, match=why) as refused:
        plan_targets(spark, asked(rules), frames)
    assert refused.value.facts["key"].endswith(".on_conflict")


def test_the_plan_knows_what_earlier_targets_make(
    spark: Any, context: LoadingContext, frames: FakeFrames
) -> None:
    later = context.with_targets(
        target("fresh", "append", "vectors", types={"v": "fixed_size_list<float>[2]"}),
        target("fresh", "add-columns", columns={"w": "v[0]"}),
        target("fresh", "merge", "vectors", on=("id",)),
        target("photos", "overwrite", "vectors"),
        target("photos", "add-columns", columns={"n": "size(v)"}),
    )
    planned = plan_targets(spark, later, frames)
    vector = pa.list_(pa.float32(), 2)
    assert planned["fresh"].types == [pa.int64(), vector, pa.float32()]
    assert planned["photos"].names == ["id", "v", "n"]
    assert not context.has("fresh", revision=context.branch)


def test_a_table_with_other_columns_is_no_quarantine(
    spark: Any, tmp_path: Path, frames: FakeFrames
) -> None:
    context = new_context(tmp_path, table="photos")
    with pytest.raises(InvalidInputError, match=r"^p.toml: quarantine.table: table 'photos' is no"):
        plan_targets(spark, context, frames)


def test_tables_of_a_repository_that_keeps_them_are_refused(
    spark: Any, tmp_path: Path, frames: FakeFrames
) -> None:
    context = new_context(tmp_path)
    context.repository.exclusive(True)
    with pytest.raises(InvalidInputError, match=r"^p.toml line 7: targets\[0\]: table 'photos'"):
        plan_target(spark, context, target("photos", "append", "rows"), frames)


def test_tables_are_made_ready_before_the_first_is_written(tmp_path: Path) -> None:
    context = new_context(tmp_path).with_targets(
        target("photos", "append", "rows"), target("fresh", "append", "rows")
    )
    context.prepare_targets()
    assert [*lw.open(context.root("photos")).branches.list()] == [context.branch]

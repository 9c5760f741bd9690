"""Indices of targets: built and extended by executors, published with the rows; pylance searches
them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import numpy as np
import pytest
from tests.spark.pipeline.loading_scene import FakeFrames, LoadingContext, new_context, target
from tests.spark.pipeline.run_scene import At

import lancewood as lw
from lancewood.errors import InvalidInputError
from lancewood.pipeline import run
from lancewood.pipeline.definition.model import Spot, TargetIndex
from lancewood.pipeline.loading.load import load_target, plan_target
from lancewood.pipeline.report.facts import Ending, RunFacts

pytestmark = pytest.mark.spark

FILE = """
[pipeline]
name = "zoo"
repository = "repo"

[sources.animals]
format = "csv"
path = "in"
schema = "id LONG, name STRING"
options = { header = "true" }
incremental = true

[[targets]]
table = "animals"
from = "animals"
mode = "append"
index = [
  { column = "id", kind = "BTREE" },
  { column = "name", kind = "INVERTED", name = "words" },
]

[[targets]]
table = "animals"
mode = "add-columns"
columns = { v = "array(float(id), float(id * id % 7))" }
types = { v = "fixed_size_list<float>[2]" }
index = [{ column = "v", kind = "IVF_FLAT", name = "near" }]

[[checks]]
table = "animals"
not_null = ["v"]
"""


def give(folder: Path, name: str, ids: range) -> None:
    (folder / "in").mkdir(exist_ok=True)
    lines = [f"{each},{'owl' if each % 10 == 0 else 'ant'} number{each}" for each in ids]
    (folder / "in" / f"{name}.csv").write_text("\n".join(["id,name", *lines, ""]))


def pylance(folder: Path) -> lance.LanceDataset:
    found = lance.dataset(str(folder / "repo" / "tables" / "animals.lance"))
    found.validate()
    return found


def check_searched(dataset: lance.LanceDataset, ids: range) -> None:
    """The answers of pylance by its indices, against what the rows say."""
    assert dataset.count_rows() == len(ids)
    point = dataset.scanner(columns=["id"], filter=f"id = {ids[-1]}")
    assert "ScalarIndexQuery" in point.explain_plan()
    assert point.to_table()["id"].to_pylist() == [ids[-1]]
    owls = dataset.to_table(columns=["id"], full_text_query="owl", fast_search=True)
    assert sorted(owls["id"].to_pylist()) == [each for each in ids if each % 10 == 0]
    query = np.array([ids[-1] + 0.25, 3.0], np.float32)
    nearest = {"column": "v", "q": query, "k": 5, "nprobes": 10}
    found = dataset.to_table(columns=["id"], nearest=nearest, fast_search=True)
    vectors = np.array([(each, each * each % 7) for each in ids], np.float32)
    order = np.argsort(((vectors - query) ** 2).sum(axis=1), kind="stable")[:5]
    assert sorted(found["id"].to_pylist()) == sorted(ids[each] for each in order)


def indices_of(facts: RunFacts) -> list[tuple[tuple[str, ...], ...]]:
    return [
        (each.indices_created, each.indices_extended, each.indices_waiting)
        for each in facts.targets
    ]


def test_indices_are_built_extended_published_and_searched(spark: Any, tmp_path: Path) -> None:
    file = tmp_path / "zoo.toml"
    file.write_text(FILE)
    give(tmp_path, "a", range(1, 61))
    first = run(file, run_id="r1", spark=spark)
    assert first.ending is Ending.PUBLISHED
    assert indices_of(first) == [(("id_idx", "words"), (), ()), (("near",), (), ())]
    check_searched(pylance(tmp_path), range(1, 61))
    give(tmp_path, "b", range(61, 81))
    second = run(file, run_id="r2", spark=spark)
    assert second.ending is Ending.PUBLISHED
    assert indices_of(second) == [((), ("id_idx", "words"), ()), ((), ("near",), ())]
    assert all(each.indices_left_out == () for each in second.targets)
    check_searched(pylance(tmp_path), range(1, 81))
    table = lw.open(tmp_path / "repo" / "tables" / "animals.lance")
    assert [(each.name, each.kind, each.rows_uncovered) for each in table.indices.list()] == [
        ("id_idx", "BTREE", 0),
        ("words", "INVERTED", 0),
        ("near", "IVF_FLAT", 0),
    ]
    text = (Path(second.folder) / "report.html").read_text()
    assert "index extended:" in text
    assert run(file, run_id="r3", spark=spark).ending is Ending.NOTHING_NEW
    repository = lw.Repository.open(tmp_path / "repo")
    assert repository.fsck(deep=True).is_ok
    assert table.base_paths == ()


def test_what_others_append_meanwhile_keeps_new_segments_out_and_the_next_run_builds_them(
    spark: Any, tmp_path: Path
) -> None:
    file = tmp_path / "zoo.toml"
    file.write_text(FILE.partition("[[checks]]")[0])
    give(tmp_path, "a", range(1, 61))
    run(file, run_id="r1", spark=spark)
    repository = lw.Repository.open(tmp_path / "repo")

    def meddle() -> None:
        rows = repository.at("main").table("animals").take([0])
        with repository.transaction("main", "meanwhile") as changes:
            changes.table("animals").append(rows)

    give(tmp_path, "b", range(61, 81))
    second = run(file, run_id="r2", spark=spark, listener=At("begun publish", meddle))
    assert second.ending is Ending.PUBLISHED
    assert [each.indices_left_out for each in second.targets] == [("id_idx", "words"), ("near",)]
    dataset = pylance(tmp_path)
    found = dataset.to_table(columns=["id"], filter="id in (1, 70)")["id"].to_pylist()
    assert sorted(found) == [1, 1, 70]
    give(tmp_path, "c", range(81, 91))
    third = run(file, run_id="r3", spark=spark)
    assert indices_of(third) == [((), ("id_idx", "words"), ()), ((), ("near",), ())]
    table = lw.open(tmp_path / "repo" / "tables" / "animals.lance")
    assert [each.rows_uncovered for each in table.indices.list()] == [0, 0, 0]
    owls = pylance(tmp_path).to_table(columns=["id"], full_text_query="owl", fast_search=True)
    assert sorted(owls["id"].to_pylist()) == [*range(10, 91, 10)]


def index(column: str, **said: Any) -> TargetIndex:
    spot = Spot("p.toml", "targets[0].index[0]", 9)
    return TargetIndex(said.pop("name", f"{column}_idx"), column, spot, **said)


def test_a_table_with_too_few_rows_gets_its_index_later(spark: Any, tmp_path: Path) -> None:
    context = new_context(tmp_path)
    empty = spark.createDataFrame([], "id LONG, title STRING")
    said = (index("id"),)
    heard = At()
    asked = target("fresh", "append", "rows", indices=said)
    facts = load_target(spark, context, asked, FakeFrames({"rows": empty}), heard)
    assert (facts.indices_created, facts.indices_waiting) == ((), ("id_idx",))
    assert heard.texts[0].startswith("index id_idx of fresh waits: ")
    rows = spark.createDataFrame([(1, "a"), (2, "b")], "id LONG, title STRING")
    facts = load_target(spark, context, asked, FakeFrames({"rows": rows}))
    assert facts.indices_created == ("id_idx",)
    assert facts.version == context.on_branch("fresh").version
    again = load_target(spark, context, asked, FakeFrames({"rows": empty}))
    assert (again.indices_extended, again.version) == ((), facts.version)
    codes = index("v", kind="IVF_PQ")
    vectors = target(
        "fresh",
        "add-columns",
        columns={"v": "array(float(id), 1.0F)"},
        types={"v": "fixed_size_list<float>[2]"},
        indices=(codes,),
    )
    assert load_target(spark, context, vectors, FakeFrames()).indices_waiting == ("v_idx",)


def test_what_was_made_beside_the_repository_is_extended_by_the_run_after_the_next(
    spark: Any, tmp_path: Path
) -> None:
    context = new_context(tmp_path)
    lw.open(context.root("photos")).indices.create("title", "BTREE")
    asked = target("photos", "append", "rows", indices=(index("title"), index("id")))
    empty = spark.createDataFrame([], "id LONG, title STRING")
    facts = load_target(spark, context, asked, FakeFrames({"rows": empty}))
    assert (facts.indices_created, facts.indices_waiting) == (("id_idx",), ("title_idx",))
    rows = spark.createDataFrame([(5, "five")], "id LONG, title STRING")
    facts = load_target(spark, context, asked, FakeFrames({"rows": rows}))
    assert (facts.indices_extended, facts.indices_waiting) == (("id_idx",), ("title_idx",))
    context.publish()
    context.begin("r2")
    facts = load_target(spark, context, asked, FakeFrames({"rows": rows}))
    assert facts.indices_extended == ("title_idx", "id_idx")
    context.publish()
    found = lw.open(context.root("photos")).indices.list()
    assert [(each.name, each.rows_covered, each.rows_uncovered) for each in found] == [
        ("title_idx", 6, 0),
        ("id_idx", 6, 0),
    ]
    dataset = lance.dataset(context.root("photos"))
    for each in ("title = 'five'", "id = 5"):
        assert dataset.count_rows(filter=each) == 2


def test_an_overwrite_builds_its_indices_anew(spark: Any, tmp_path: Path) -> None:
    context = new_context(tmp_path)
    rows = spark.createDataFrame([(each, f"t{each}") for each in range(9)], "id LONG, title STRING")
    asked = target("photos", "overwrite", "rows", indices=(index("title", kind="BITMAP"),))
    for _ in range(2):
        facts = load_target(spark, context, asked, FakeFrames({"rows": rows}))
        assert facts.indices_created == ("title_idx",)
    found = context.on_branch("photos").to_table(filter="title = 't4'")
    assert found["id"].to_pylist() == [4]


REFUSED = {
    "a column that is not there": (index("tilte"), ": column 'tilte'"),
    "a kind for another type": (index("title", kind="IVF_PQ"), ": column 'title' is string"),
    "an option of another kind": (
        index("id", kind="BTREE", options={"stem": True}),
        ": an index of kind BTREE has no option 'stem'",
    ),
    "another index of that name": (
        index("id", name="title_idx"),
        ".column: the table has an index 'title_idx' with the column 'title', not 'id'",
    ),
    "an index of that name and another kind": (
        index("title", kind="INVERTED"),
        ".kind: the table has an index 'title_idx' with the kind 'BTREE', not 'INVERTED'",
    ),
}


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> LoadingContext:
    context = new_context(tmp_path_factory.mktemp("indexed"))
    table = lw.open(context.root("photos")).delete("id = 4")
    table.indices.create("title", "BTREE")
    context.repository.commit("indexed")
    context.begin("r2")
    return context


@pytest.mark.parametrize("case", REFUSED)
def test_an_index_that_does_not_fit_is_refused_before_anything_is_loaded(
    spark: Any, indexed: LoadingContext, case: str
) -> None:
    asked, why = REFUSED[case]
    rows = FakeFrames({"rows": spark.createDataFrame([], "id LONG, title STRING")})
    with pytest.raises(InvalidInputError) as refused:
        plan_target(spark, indexed, target("photos", "append", "rows", indices=(asked,)), rows)
    text = refused.value.message
    assert text.partition("targets[0].index[0]")[2].startswith(why), text


def test_one_index_of_vectors_is_enough(spark: Any, indexed: LoadingContext) -> None:
    adding = target(
        "photos",
        "add-columns",
        columns={"v": "array(float(id), 1.0F)"},
        types={"v": "fixed_size_list<float>[2]"},
        indices=(index("v", kind="IVF_FLAT"), index("v", name="more", kind="search")),
    )
    with pytest.raises(InvalidInputError, match="'v' have the index 'v_idx'"):
        plan_target(spark, indexed, adding, FakeFrames())

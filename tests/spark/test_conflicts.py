"""Conflicts of a merge on a local Spark: those that ``branches.conflicts`` finds, and frames that
decide them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.pylance import lance
from tests.spark.needs import needs
from tests.spark.test_diff import plain, told

import lancewood as lw
from lancewood.errors import InvalidInputError, NotFoundError, UnsupportedError

pytest.importorskip("pyspark", reason="pyspark is not installed")

from lancewood.spark import conflicts, runner
from lancewood.spark.abilities import ARROW_FRAMES
from lancewood.spark.tasks import arrow_of

pytestmark = [
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]

COUNT = 3_000


def made(uri: Path) -> lw.Table:
    """A table with a key, and a branch ``exp``: both changed every sixth row, and a few that the
    other deleted, or inserted under the same key."""
    numbers = range(COUNT)
    schema = pa.schema(
        [
            pa.field("id", pa.int64(), False, {"lance-schema:unenforced-primary-key": "true"}),
            ("s", pa.string()),
            ("u", pa.uint64()),
            ("v", pa.list_(pa.float32(), 2)),
        ]
    )
    data = {"id": numbers, "s": ["s"] * COUNT, "u": numbers, "v": [[n, 0.5] for n in numbers]}
    table = lw.create(
        uri,
        pa.table(data, schema=schema),
        layout=lw.Layout(max_rows_per_file=700),
        access=lw.Access(fsync=False),
    )
    exp = table.branches.create("exp")
    exp.update({"s": "'there'", "u": "u + 1"}, "id % 3 = 0").delete("id % 100 = 1").append(
        pa.table({"id": [COUNT], "s": ["new there"], "u": [1], "v": [[1, 2]]}, schema=schema)
    )
    table = table.update({"s": "'here'"}, "id % 2 = 0").update({"u": "u + 5"}, "id = 701")
    return table.append(
        pa.table({"id": [COUNT], "s": ["new here"], "u": [1], "v": [[1, 2]]}, schema=schema)
    )


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> lw.Table:
    return made(tmp_path_factory.mktemp("conflicts") / "t.lance")


@pytest.fixture
def small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few rows are worth a task, as thousands are elsewhere."""
    monkeypatch.setattr("lancewood.jobs.merge.row_tasks._LEAST_ROWS", 50)


@pytest.mark.usefixtures("small_tasks")
@pytest.mark.parametrize(
    ("asked", "count"),
    [
        ({}, 502),
        ({"detect": "rows"}, 502),
        ({"resolve": {"s": "ours.s || theirs.s"}}, 1),
        ({"resolve": lw.Resolve(winner="theirs.id < 1500")}, 1),
        ({"resolve": "theirs"}, 0),
    ],
)
def test_conflicts_are_those_found_here(
    spark: Any, table: lw.Table, asked: Any, count: int
) -> None:
    frame = conflicts(spark, table.uri, "exp", **asked)
    here = table.branches.conflicts("exp", **asked).to_arrow()
    assert frame.rdd.getNumPartitions() > 2
    assert told(arrow_of(frame)) == told(here)
    assert here.num_rows == count


def test_conflicts_are_the_rows_that_pylance_shows_on_both_branches(
    spark: Any, table: lw.Table
) -> None:
    main = lance.dataset(table.uri)
    sides = {
        name: {row["id"]: row for row in dataset.to_table().to_pylist()}
        for name, dataset in {
            "base": lance.dataset(table.uri, version=1),
            "ours": main,
            "theirs": main.checkout_version(("exp", None)),
        }.items()
    }
    found = [plain(each) for each in arrow_of(conflicts(spark, table.uri, "exp")).to_pylist()]
    assert {each["key"]["id"] for each in found} == {*range(0, COUNT, 6), 701, COUNT}
    for each in found:
        for name, rows in sides.items():
            assert each[name] == rows.get(each["key"]["id"])
    kinds = {each["key"]["id"]: (each["_kind"], each["_columns"]) for each in found}
    assert kinds[6] == ("update/update", ["s"])
    assert kinds[701][0] == "update/delete"
    assert kinds[COUNT] == ("insert/insert", ["s"])


@needs(ARROW_FRAMES)
def test_frame_of_decisions_decides_where_executors_merge(spark: Any, tmp_path: Path) -> None:
    table = made(tmp_path / "t.lance")
    frame = conflicts(spark, table.uri, "exp")
    decided = frame.where("key.id < 1500").selectExpr(
        "*", "'theirs' AS take", "CAST(ours.u + theirs.u AS DECIMAL(20, 0)) AS u"
    )
    left = conflicts(spark, table.uri, "exp", resolve=decided)
    assert left.count() == frame.where("key.id >= 1500").count()
    with pytest.raises(lw.MergeConflictError) as refused:
        table.branches.merge("exp", resolve=decided, runner=runner(spark))
    assert refused.value.facts["conflicts"] == left.count()
    assert table.latest().version == table.version

    resolve = lw.Resolve(decisions=decided, rows="ours")
    merged = table.branches.merge("exp", resolve=resolve, runner=runner(spark))
    dataset = lance.dataset(table.uri)
    dataset.validate()
    rows = {row["id"]: row for row in dataset.to_table().to_pylist()}
    assert (rows[12]["s"], rows[12]["u"]) == ("there", 25)
    assert (rows[1506]["s"], rows[1506]["u"]) == ("here", 1507)
    assert rows[COUNT]["s"] == "new here"
    assert 701 not in rows
    assert isinstance(merged.counts, lw.Merged)
    assert merged.counts.resolved == 502
    assert conflicts(spark, table.uri, "exp").isEmpty()


def test_the_uri_or_into_says_which_branch_is_merged_into(spark: Any, table: lw.Table) -> None:
    expected = told(table.branches.conflicts("main", into="exp").to_arrow())
    assert told(arrow_of(conflicts(spark, table.uri, "main", "exp"))) == expected
    assert told(arrow_of(conflicts(spark, f"{table.uri}@exp", "main"))) == expected


def test_columns_have_the_types_of_a_read_also_without_anything_to_merge(
    spark: Any, tmp_path: Path
) -> None:
    table = lw.create(tmp_path / "t.lance", pa.table({"id": [1], "s": ["a"]}))
    table.branches.create("exp")
    frame = conflicts(spark, table.uri, "exp")
    row = "struct<id:bigint,s:string>"
    assert frame.schema.simpleString() == (
        "struct<_conflict:string,_kind:string,_rowid:bigint,_columns:array<string>,"
        f"base:{row},ours:{row},theirs:{row}>"
    )
    assert frame.isEmpty()


def test_blobs_are_in_conflict_and_not_shown(spark: Any, tmp_path: Path) -> None:
    schema = pa.schema(
        [
            ("id", pa.int64()),
            pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"}),
        ]
    )
    data = pa.table({"id": [1, 2, 3], "b": [b"a", b"b", b"c"]}, schema=schema)
    table = lw.create(tmp_path / "t.lance", data, layout=lw.Layout(file_version="2.1"))
    exp = table.branches.create("exp")
    for each, value in ((exp, b"there"), (table, b"here")):
        news = pa.table({"id": [2, 3], "b": [value, b"same"]}, schema=schema)
        each.merge(news, on="id")
    found = conflicts(spark, table.uri, "exp").collect()
    assert [(row._columns, row.ours.asDict()) for row in found] == [(["b"], {"id": 2})]
    merged = table.branches.merge("exp", resolve={"b": "theirs"}, runner=runner(spark))
    dataset = lance.dataset(merged.uri)
    at = dataset.to_table(columns=["id"])["id"].to_pylist().index(2)
    (blob,) = dataset.take_blobs("b", indices=[at])
    assert blob.read() == b"there"


@needs(ARROW_FRAMES)
def test_what_is_wrong_is_said_before_a_task_runs(spark: Any, table: lw.Table) -> None:
    with pytest.raises(NotFoundError, match="'nope'"):
        conflicts(spark, table.uri, "nope")
    with pytest.raises(InvalidInputError, match="cannot be merged into itself"):
        conflicts(spark, table.uri, "main")
    with pytest.raises(InvalidInputError, match="nope"):
        conflicts(spark, table.uri, "exp", resolve={"nope": "ours"})
    with pytest.raises(InvalidInputError, match="_conflict"):
        conflicts(spark, table.uri, "exp", resolve=spark.range(3))
    memory = lw.create("memory://conflicts", pa.table({"id": [1]}))
    memory.branches.create("exp")
    with pytest.raises(UnsupportedError, match="in the memory of one process"):
        conflicts(spark, memory.uri, "exp")

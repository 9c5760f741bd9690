"""Merging frames on a real Spark: as ``Table.merge`` of the same rows does, and pylance agrees."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.errors import InvalidInputError
from lancewood.format.schema import schema_from_arrow
from lancewood.jobs.counts import RowCounts
from lancewood.jobs.merge_into.keys import resolve_key
from lancewood.jobs.merge_into.source import Choices
from lancewood.spark import write
from lancewood.spark.merge_into import key_join, merge
from lancewood.spark.merge_into.key_join import KeyJoin
from lancewood.spark.merge_into.merge import FrameMerge
from lancewood.spark.tasks import arrow_of
from lancewood.spark.types import spark_schema

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

MARKS = ["_rowid", "_row_created_at_version", "_row_last_updated_at_version"]


def old_rows(keys: pa.Array) -> pa.Table:
    n = len(keys)
    v = [f"old {at}" for at in range(n)]
    return pa.table({"k": keys, "n": range(n), "v": v, "w": [at / 2 for at in range(n)]})


def new_rows(keys: pa.Array) -> pa.Table:
    """Without the column ``w``."""
    return pa.table(
        {"v": [f"new {at}" for at in range(len(keys))], "n": range(len(keys)), "k": keys}
    )


def framed(spark: Any, rows: pa.Table) -> Any:
    return spark.createDataFrame(rows.to_pylist(), spark_schema(rows.schema))


def everything(table: lw.Table) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.scan([*table.schema.names, *MARKS]).to_arrow().to_pylist()
    return sorted(found, key=repr)


def check_pylance(table: lw.Table) -> None:
    """pylance finds nothing wrong, and reads the same rows."""
    theirs = lance.dataset(table.uri)
    theirs.validate()
    assert theirs.version == table.version
    assert theirs.count_rows() == table.count_rows()
    rows = theirs.to_table(with_row_id=True).to_pylist()
    ours = table.scan([*table.schema.names, "_rowid"]).to_arrow().to_pylist()
    assert sorted(rows, key=repr) == sorted(ours, key=repr)


def data_files(root: Path) -> set[str]:
    return {each.name for each in (root / "data").iterdir()}


def referenced(*tables: lw.Table) -> set[str]:
    return {file.path for table in tables for each in table.fragments for file in each.files}


def texts(count: int, seed: int) -> pa.Array:
    """Texts that some collation or other would take for equal."""
    words = ["a", "A", "a ", "ä", "a\u0308", "ss", "ß", ""]
    rng = random.Random(seed)
    made = {f"{rng.choice(words)}{rng.randrange(40) or ''}" for _ in range(count)}
    return pa.array([*sorted(made), None])


def decimals(count: int, seed: int) -> pa.Array:
    rng = random.Random(seed)
    made = {Decimal(rng.randrange(-80, 80)) / 4 for _ in range(count)}
    return pa.array([*sorted(made), None], pa.decimal128(9, 2))


def structs(count: int, seed: int) -> pa.Array:
    rng = random.Random(seed)
    days = sorted({date(1969, 12, 1 + rng.randrange(31)) for _ in range(count)})
    made = [{"day": each, "x": at} for at, each in enumerate(days)]
    return pa.array([*made, None], pa.struct([("day", pa.date32()), ("x", pa.int64())]))


def numbers(count: int, seed: int) -> pa.Array:
    return pa.array(random.Random(seed).sample(range(2 * count), count), pa.int64())


CASES: dict[str, tuple[Callable[[int, int], pa.Array], int, Any, bool, dict[str, Any]]] = {
    "upsert": (numbers, 1_000, "k", True, {}),
    "texts, the rest deleted": (texts, 150, "k", False, {"not_matched_by_source": "delete"}),
    "decimals, on a condition": (
        decimals,
        100,
        "k",
        True,
        {"matched_where": "source.n % 2 = $odd and target.w < 40", "parameters": {"odd": 1}},
    ),
    "a day in a struct, deleted": (structs, 20, "k.day", True, {"matched": "delete"}),
    "two columns, in place": (
        numbers,
        800,
        ["n", "k"],
        True,
        {"not_matched": "ignore", "rewrite": "columns"},
    ),
}


SHUFFLED = ("upsert", "texts, the rest deleted")
"""Cases that are tried in the way of large sources, too."""


@pytest.mark.parametrize(
    ("case", "shuffled"), [*((each, False) for each in CASES), *((each, True) for each in SHUFFLED)]
)
def test_a_frame_is_merged_as_a_table_of_the_same_rows_is(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str, shuffled: bool
) -> None:
    make, count, on, stable, choices = CASES[case]
    if shuffled:
        monkeypatch.setattr(merge, "FEW_ROWS", 0)
        monkeypatch.setattr(key_join, "FEW_PAIRS", 0)
    there, new = old_rows(make(count, 1)), new_rows(make(count, 2))
    mine, other = (
        lw.create(
            tmp_path / name,
            there,
            layout=lw.Layout(stable_row_ids=stable, max_rows_per_file=count // 4),
        )
        for name in ("mine.lance", "other.lance")
    )
    mine, other = (each.delete("n % 7 = 3") for each in (mine, other))
    if case.startswith("two"):
        new = there.select(["n", "k"]).append_column("v", pa.array(["new"] * there.num_rows))
        new = new.slice(3, count // 2)
    frame = framed(spark, new).repartition(3)
    after, counts = FrameMerge(frame, mine._snapshot, Choices(on=on, **choices)).run()
    source = pa.Table.from_batches(arrow_of(frame).to_batches()).cast(new.schema)
    expected = other.merge(source, on, **choices)
    assert counts == expected.counts
    assert counts.updated + counts.deleted > 0
    found = lw.open(tmp_path / "mine.lance")
    assert found.version == after.manifest.version == expected.version
    assert everything(found) == everything(expected)
    check_pylance(found)
    assert data_files(tmp_path / "mine.lance") == referenced(mine, found), "staged files are left"


def test_two_rows_with_one_key_are_refused_and_a_null_too_and_nothing_changes(
    spark: Any, tmp_path: Path
) -> None:
    schema = pa.schema([pa.field("k", pa.int64()), pa.field("v", pa.string(), False)])
    table = lw.create(tmp_path / "t.lance", pa.table({"k": [1], "v": ["a"]}, schema=schema))
    before = data_files(tmp_path / "t.lance")
    twice = spark.range(100).selectExpr("id % 99 + 5 as k", "'x' as v").repartition(4)
    with pytest.raises(InvalidInputError, match="two rows of the source have the same key k = 5"):
        FrameMerge(twice, table._snapshot, Choices(on="k")).run()
    nulls = spark.range(100).selectExpr("id as k", "if(id = 77, null, 'x') as v").repartition(4)
    with pytest.raises(InvalidInputError, match="'v' may not be null"):
        FrameMerge(nulls, table._snapshot, Choices(on="k")).run()
    assert data_files(tmp_path / "t.lance") == before
    assert table.latest().version == 1


def test_a_frame_that_answers_differently_each_time_is_asked_once(
    spark: Any, tmp_path: Path
) -> None:
    def moody(batches: Iterator[Any]) -> Iterator[Any]:
        import random

        import pyarrow as pa

        for batch in batches:
            keys = [each for each in batch.column(0).to_pylist() if random.random() < 0.5]
            mood = [random.random() for _ in keys]
            yield pa.RecordBatch.from_pydict({"k": keys, "v": mood, "w": mood})

    columns = {"k": range(1_000), "v": [-1.0] * 1_000, "w": [-1.0] * 1_000}
    table = lw.create(
        tmp_path / "t.lance", pa.table(columns), layout=lw.Layout(max_rows_per_file=300)
    )
    frame = spark.range(0, 2_000, 1, 3).mapInArrow(moody, "k bigint, v double, w double")
    after, counts = FrameMerge(frame, table._snapshot, Choices(on="k")).run()
    rows = lance.dataset(table.uri).to_table().to_pylist()
    touched = [each for each in rows if each["v"] >= 0]
    assert len(touched) == counts.updated + counts.inserted
    assert counts.inserted == sum(each["k"] >= 1_000 for each in rows)
    assert all(each["v"] == each["w"] for each in rows)
    assert len({each["k"] for each in rows}) == len(rows) == 1_000 + counts.inserted
    assert data_files(tmp_path / "t.lance") == referenced(table, lw.Table(after))


def test_a_conflict_is_met_on_the_newest_version(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lw.create(tmp_path / "t.lance", old_rows(pa.array(range(50))))
    rivals = [lambda: table.append(old_rows(pa.array([100])))]
    run = KeyJoin.run

    def late(join: KeyJoin, *args: Any, **options: Any) -> Any:
        if rivals:
            rivals.pop()()
        return run(join, *args, **options)

    monkeypatch.setattr(KeyJoin, "run", late)
    frame = framed(spark, new_rows(pa.array([3, 100, 200])))
    after, counts = FrameMerge(frame, table._snapshot, Choices(on="k")).run()
    assert counts == RowCounts(inserted=1, updated=2)
    assert after.manifest.version == 3
    found = lw.Table(after)
    assert found.count_rows() == 52
    check_pylance(found)
    assert data_files(tmp_path / "t.lance") == referenced(
        table, lw.open(table.uri, version=2), found
    )


def test_the_keys_of_a_table_never_go_to_every_executor(spark: Any) -> None:
    """Spark takes what Python gives for as small as what Python got, which is one message."""

    def nothing(batches: Iterator[Any]) -> Iterator[Any]:
        yield from ()

    key = resolve_key(schema_from_arrow(pa.schema([("k", pa.string())])), "k")
    join = KeyJoin(spark)
    try:
        assert join.read_source(key, nothing, [b"a"], is_small=False) is None
        assert join.match(nothing, [b"b"], keeps_unmatched=False) == {}
        plan = join._joined._jdf.queryExecution().executedPlan().toString()
        assert "SortMergeJoin" in plan
        assert "BroadcastHashJoin" not in plan
    finally:
        join.close()


def test_rows_that_delete_need_a_boolean_column_and_matched_rows_that_update(
    spark: Any, tmp_path: Path
) -> None:
    uri = tmp_path / "t.lance"
    lw.create(uri, pa.table({"k": [1]}))
    df = spark.sql("SELECT 1L k, true gone")
    with pytest.raises(InvalidInputError, match="deleted names column 'k', which is bigint"):
        write(df, uri, "merge", on="k", deleted="k")
    with pytest.raises(InvalidInputError, match="deleted names column 'went', which is not there"):
        write(df, uri, "merge", on="k", deleted="went")
    with pytest.raises(InvalidInputError, match="deleted goes with matched='update'"):
        write(df, uri, "merge", on="k", deleted="gone", matched="ignore")
    lw.create(tmp_path / "b.lance", pa.table({"k": [1], "gone": [False]}))
    with pytest.raises(InvalidInputError, match="'gone', which the table has too"):
        write(df, tmp_path / "b.lance", "merge", on="k", deleted="gone")
    with pytest.raises(InvalidInputError, match="deleted is not for mode 'append'"):
        write(df, uri, "append", deleted="gone")
    with pytest.raises(InvalidInputError, match="skip_empty is for mode 'append'"):
        write(df, uri, "merge", on="k", deleted="gone", skip_empty=True)
    assert write(df, uri, "merge", on="k", deleted="gone").counts == RowCounts(deleted=1)

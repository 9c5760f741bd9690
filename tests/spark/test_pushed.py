"""What Spark pushes into a read does not change an answer: random queries through every door, and
the same queries over the same rows in Parquet files of which all is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest
from tests.breadth import EVERY_CASE, daily

pytest.importorskip("pyspark", reason="pyspark is not installed")

from tests.spark.pushed_queries import PushedQueries
from tests.spark.pushed_scene import DOORS, SQL, Doors, Judge, Relation, make_relations
from tests.spark.ways import COLUMNAR, PYTHON, WAYS, by_way, configured

from lancewood.spark.tasks import arrow_of

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

BLOCK = daily(4, of=10)
"""So many queries have the same settings."""
CASES = [
    *((COLUMNAR, block) for block in range(daily(2, of=100))),
    *((PYTHON, block) for block in range(2, daily(3, of=23))),
]
"""Blocks of queries, and the way in which they are read."""
ZONES = ("UTC", "America/Los_Angeles", "Asia/Kathmandu")
COMPILED = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
ALL_IS_READ = {
    "spark.sql.parquet.filterPushdown": "false",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
}
PUSHED = (
    *("k > 3", "k IN (1, 2)", "NOT (k = 1)", "k IS NULL", "k <=> 2", "k = 1 OR label = 'cat'"),
    *("label = 'it\\'s'", "label >= 'é'", "price < 1.50", "ok", "box.y = 'cat'", "uu > 3"),
    *("d < 0.5", "d > 0.5", "f = 0.5", "day >= DATE '2024-02-29'", "box.inside.z = 3"),
    *("moment < TIMESTAMP '2024-03-10 10:00:00'", "clock = TIMESTAMP_NTZ '2024-03-10 02:30:00'"),
)
"""What Spark leaves to us."""
KEPT = ("isnan(d)", "upper(label) = 'DOG'", "get(tags, 0) = 'cat'", "id % 4 = 1", "raw = X'00'")
"""What it does itself."""


frame_doors = pytest.mark.parametrize("door", [each for each in DOORS if each != SQL])


@pytest.fixture(scope="module")
def relations(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Relation]:
    return make_relations(tmp_path_factory.mktemp("pushed"))


@pytest.fixture(scope="module")
def judge(
    spark: Any, relations: dict[str, Relation], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Judge]:
    with configured(spark, ALL_IS_READ):
        yield Judge(spark, relations, tmp_path_factory.mktemp("judged"))


@pytest.fixture(scope="module")
def doors_of(spark: Any, relations: dict[str, Relation]) -> Callable[[str], Doors]:
    """The doors by the way behind them; to be asked for in that way."""
    return cache(lambda way: Doors(spark, relations, way))


def answer(frame: Any, *, is_sorted: bool) -> tuple[str, list[str]]:
    """The types and the rows, in their order if they have one."""
    found = arrow_of(frame)
    rows = [*map(repr, zip(*(each.to_pylist() for each in found.columns), strict=True))]
    return frame.schema.simpleString(), rows if is_sorted else sorted(rows)


def settings_of(block: int) -> dict[str, str]:
    """Of a block of queries: zones in turn, and Spark compiles every other one, or a third."""
    zone = {"spark.sql.session.timeZone": ZONES[block % len(ZONES)]}
    return zone | (COMPILED if block % daily(3, of=2) == 1 else {})


@pytest.mark.parametrize(("way", "block"), CASES)
def test_random_queries_answer_as_if_everything_were_read(
    spark: Any, judge: Judge, doors_of: Callable[[str], Doors], way: str, block: int
) -> None:
    queries = PushedQueries(block)
    with by_way(spark, way), configured(spark, settings_of(block)):
        doors = doors_of(way)
        for number in range(BLOCK):
            query = queries.draw()
            expected = answer(judge.ask(query.text), is_sorted=query.is_sorted)
            for door in DOORS if EVERY_CASE else [DOORS[number % len(DOORS)]]:
                found = answer(doors.ask(door, query.text), is_sorted=query.is_sorted)
                assert found == expected, f"{door}: {query.text}"


@pytest.mark.parametrize("way", WAYS)
@frame_doors
@pytest.mark.sliced(4)
def test_filter_of_one_query_does_not_reach_another(
    spark: Any, judge: Judge, doors_of: Callable[[str], Doors], door: str, way: str
) -> None:
    low, high, odd = "k < 3", "k >= 3", "id % 2 = 1"

    def counts(each: Any) -> list[int]:
        united = each.where(low).union(each.where(high)).union(each)
        joined = each.where(odd).alias("a").join(each.where(low).alias("b"), "id")
        few = each.where(low).limit(4)
        asked = [each.where(low), each, each.where(high), united, joined, few, each]
        return [one.count() for one in asked]

    with by_way(spark, way):
        frame = doors_of(way).frame(door, "photos")
        expected = counts(judge.frame("photos"))
        assert counts(frame) == expected
        assert len({*expected}) == 6
        kept = frame.where(low).cache()
        try:
            assert [kept.count(), frame.count()] == expected[:2]
        finally:
            kept.unpersist()


def plan_of(frame: Any) -> str:
    """The physical plan as Spark prints it."""
    return str(frame._jdf.queryExecution().executedPlan().toString())


@frame_doors
def test_columns_conditions_limits_and_counts_are_in_the_plan_of_the_read(
    spark: Any, doors_of: Callable[[str], Doors], door: str
) -> None:
    with by_way(spark, COLUMNAR):
        frame = doors_of(COLUMNAR).frame(door, "photos")
    for condition in PUSHED:
        plan = plan_of(frame.where(condition).select("id"))
        assert "WHERE" in plan, condition
        assert "Filter " not in plan, f"{condition}\n{plan}"
        (scan,) = [each for each in plan.splitlines() if "BatchScan" in each]
        assert scan.count("#") == 1, "columns that only the condition needs are not handed over"
    for condition in KEPT:
        plan = plan_of(frame.where(condition).select("id"))
        assert "Filter " in plan, condition
        both = plan_of(frame.where(f"k > 3 AND {condition}"))
        assert '"k" > 3' in both, condition
        assert "Filter " in both, condition
    assert "LIMIT 5" in plan_of(frame.limit(5))
    assert "LocalTableScan" in plan_of(frame.groupBy().count())

"""What Spark pushes into a read does not change an answer: random queries through every door, and
the same queries over the same rows in Parquet files of which all is read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.breadth import EVERY_CASE, daily

pytest.importorskip("pyspark", reason="pyspark is not installed")

from tests.spark.pushed_queries import PushedQueries
from tests.spark.pushed_scene import Doors, make_relations

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

QUERIES = daily(40, of=1000)
ZONES = ("UTC", "America/Los_Angeles", "Asia/Kathmandu")
COMPILED = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
ALL_IS_READ = {
    "spark.sql.parquet.filterPushdown": "false",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
}
BLOCK = 10
"""So many queries have the same settings."""


@pytest.fixture(scope="module")
def doors(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    with configured(spark, ALL_IS_READ):
        where = tmp_path_factory.mktemp("pushed")
        yield Doors(spark, make_relations(where), where)


class configured:
    """Settings of the session for a while."""

    def __init__(self, spark: Any, settings: dict[str, str]) -> None:
        self._spark = spark
        self._settings = settings

    def __enter__(self) -> None:
        self._before = {name: self._spark.conf.get(name, None) for name in self._settings}
        for name, value in self._settings.items():
            self._spark.conf.set(name, value)

    def __exit__(self, *failure: object) -> None:
        for name, value in self._before.items():
            if value is None:
                self._spark.conf.unset(name)
            else:
                self._spark.conf.set(name, value)


def answer(frame: Any, *, is_sorted: bool) -> tuple[str, list[str]]:
    """The types and the rows, in their order if they have one."""
    found = frame.toArrow()
    rows = [*map(repr, zip(*(each.to_pylist() for each in found.columns), strict=True))]
    return frame.schema.simpleString(), rows if is_sorted else sorted(rows)


def settings_of(block: int) -> dict[str, str]:
    """Of a block of queries: zones in turn; every other block is compiled in a campaign, one of
    four every day."""
    is_compiled = block % (2 if EVERY_CASE else 4) == 1
    zone = {"spark.sql.session.timeZone": ZONES[block % len(ZONES)]}
    return zone | (COMPILED if is_compiled else {})


@pytest.mark.parametrize("block", range(QUERIES // BLOCK))
def test_random_queries_answer_as_if_everything_were_read(
    spark: Any, doors: Doors, block: int
) -> None:
    queries = PushedQueries(block)
    names = [*doors.ask]
    with configured(spark, settings_of(block)):
        for number in range(BLOCK):
            query = queries.draw()
            expected = answer(doors.judge(query.text), is_sorted=query.is_sorted)
            chosen = names if EVERY_CASE else [names[(block + number) % len(names)]]
            for name in chosen:
                found = answer(doors.ask[name](query.text), is_sorted=query.is_sorted)
                assert found == expected, f"{name}: {query.text}"


@pytest.mark.parametrize("door", ["fast", "familiar"])
def test_filter_of_one_query_does_not_reach_another(doors: Doors, door: str) -> None:
    frame, judge = doors.frames[f"{door}_photos"], doors.frames["judge_photos"]
    low, high, odd = "k < 3", "k >= 3", "id % 2 = 1"

    def counts(each: Any) -> list[int]:
        united = each.where(low).union(each.where(high)).union(each)
        joined = each.where(odd).alias("a").join(each.where(low).alias("b"), "id")
        few = each.where(low).limit(4)
        asked = [each.where(low), each, each.where(high), united, joined, few, each]
        return [one.count() for one in asked]

    expected = counts(judge)
    assert counts(frame) == expected
    assert len({*expected}) == 6
    kept = frame.where(low).cache()
    try:
        assert [kept.count(), frame.count()] == expected[:2]
    finally:
        kept.unpersist()

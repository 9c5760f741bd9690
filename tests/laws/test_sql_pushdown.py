"""Random queries answer the same on what is read of each table as on whole tables, and the same
in the words that ``lancewood.sql`` finds for DuckDB as in their own.

DuckDB executes all of them, so that hundreds of queries take seconds; ``tests/spark`` asks Spark.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from tests.breadth import daily
from tests.sql_scene import Queries, make_tables

import lancewood as lw
from lancewood.engine.snapshot import Snapshot
from lancewood.query.answer import answer as answered_here
from lancewood.query.names import with_names
from lancewood.query.plan import QueryPlan, plan_query
from lancewood.query.reads import Read
from lancewood.query.settings import Settings
from lancewood.query.sources import Sources

QUERIES = daily(40, of=3_000)
SEED = int(os.environ.get("LANCEWOOD_SQL_SEED", "0"))


class NoSession:
    """Knows our tables only."""

    def moment(self, expression: str) -> datetime:
        raise AssertionError(expression)

    def has_table(self, name: str) -> bool:
        return False


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return make_tables(tmp_path_factory.mktemp("sql"))


@pytest.fixture(scope="module")
def database() -> Iterator[Any]:
    found = duckdb.connect(config={"threads": 1})
    found.execute("SET TimeZone = 'UTC'")
    yield found
    found.close()


def rows_of(read: Read) -> pa.Table:
    """What a frame would hold."""
    if read.known_rows is not None:
        return pa.table({"__row": pa.array([True] * read.known_rows)})
    names = read.columns
    assert isinstance(read.source, Snapshot)
    columns = list(read.source.arrow_schema.names[:1] if names == () else names or ()) or None
    scan = lw.Table(read.source).scan(
        columns, read.where, parameters=dict(read.parameters) or None, limit=read.limit
    )
    return scan.to_arrow()


def sorted_rows(found: pa.Table) -> list[str]:
    """As texts; UTC has two names."""
    lines = zip(*(each.to_pylist() for each in found.columns), strict=True)
    return sorted(repr(each).replace("Etc/UTC", "UTC") for each in lines)


def answer(database: Any, planned: QueryPlan, reads: dict[Any, Read]) -> list[str]:
    names = {each: f"t{at}" for at, each in enumerate(reads)}
    with database.cursor() as cursor:
        for each, name in names.items():
            cursor.register(name, rows_of(reads[each]))
        return sorted_rows(cursor.sql(with_names(planned.query, names)).to_arrow_table())


def test_random_queries_answer_the_same_on_what_is_read_as_on_whole_tables(
    tables: dict[str, str], database: Any
) -> None:
    queries, settings = Queries(SEED, spark=False), Settings()
    sources = Sources(tables, None, None, None, settings)
    done = conditions = fewer = counted = 0
    for _ in range(QUERIES):
        query = queries.draw()
        planned = plan_query(query, sources, settings, NoSession())
        try:
            wanted = answer(database, planned, planned.whole_reads)
        except duckdb.Error:  # an ambiguous name, or a join that DuckDB does not have
            continue
        assert answer(database, planned, planned.reads) == wanted, f"{query}\n{planned.explain()}"
        assert sorted_rows(answered_here(planned).to_arrow()) == wanted, query
        done += 1
        conditions += sum(len(each.as_written) for each in planned.reads.values())
        fewer += sum(each.columns is not None for each in planned.reads.values())
        counted += sum(each.known_rows is not None for each in planned.reads.values())
    assert done > QUERIES * 0.6
    assert conditions > QUERIES * 0.5
    assert fewer > QUERIES * 0.8
    assert counted

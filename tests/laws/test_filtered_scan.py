"""A filtered scan gives what reading everything and filtering in memory gives, however it reads.

duckdb is the judge: it filters, computes and cuts the rows of the whole table, read without any
filter and with the columns that are not stored.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import duckdb
import lance
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.breadth import daily
from tests.small_sizes import small_sizes

import lancewood as lw
from lancewood.data import reader
from lancewood.engine.base import fanout
from lancewood.engine.rows import fragment_scan
from lancewood.engine.rows import group_scan as fragment_group
from lancewood.engine.rows.row_shape import Fetching
from lancewood.engine.rows.scan import ScanPlan, plan_scan
from lancewood.model.schema import SYSTEM_COLUMNS

ROWS = 260
EXAMPLES = int(os.environ.get("LANCEWOOD_LAW_EXAMPLES", "5"))


def rows(first: int, *, extra: bool) -> pa.Table:
    numbers = range(first, first + ROWS)
    columns: dict[str, Any] = {
        "a": pa.array([None if n % 11 == 0 else n % 97 - 40 for n in numbers], pa.int64()),
        "f": pa.array([None if n % 13 == 0 else (n * 37 % 101) / 7 for n in numbers]),
        "s": pa.array([None if n % 5 == 0 else f"name {n % 23}" for n in numbers]),
        "b": pa.array([None if n % 9 == 0 else n % 3 == 0 for n in numbers]),
        "p": pa.array([{"x": n % 50, "y": f"y{n % 4}"} for n in numbers]),
        "w": pa.array([bytes([n % 251]) * (n % 400) for n in numbers], pa.binary()),
        "l": pa.array([list(range(n % 4)) for n in numbers], pa.list_(pa.int32())),
    }
    if extra:
        columns["late"] = pa.array([n % 6 for n in numbers], pa.int32())
    return pa.table(columns)


class World:
    """A table with deleted rows and a column that some fragments lack, and all of it in memory."""

    def __init__(self, uri: str, file_version: str, *, stable_row_ids: bool) -> None:
        table = lw.create(
            uri,
            rows(0, extra=True),
            layout=lw.Layout(
                file_version=file_version,
                stable_row_ids=stable_row_ids,
                max_rows_per_file=ROWS // 2,
            ),
        )
        table.append(rows(ROWS, extra=False)).append(rows(2 * ROWS, extra=True))
        lance.dataset(uri).delete("a % 7 = 3")
        lance.dataset(uri).delete("a < -30 AND late IS NULL")
        self.snapshot = lw.open(uri)._snapshot
        every = plan_scan(self.snapshot, columns=[*self.snapshot.schema.names, *SYSTEM_COLUMNS])
        self.everything = pa.Table.from_batches(every.batches(), every.schema)
        assert 0 < self.everything.num_rows < 3 * ROWS
        self.judge = duckdb.connect()
        self.judge.register("everything", self.everything)

    def expected(
        self, columns: dict[str, str], where: str, limit: int | None, offset: int
    ) -> list[dict[str, Any]]:
        chosen = ", ".join(f'({sql}) AS "{name}"' for name, sql in columns.items())
        bound = "" if limit is None else f"LIMIT {limit}"
        text = f"SELECT {chosen} FROM everything WHERE {where} {bound} OFFSET {offset}"
        found: list[dict[str, Any]] = self.judge.sql(text).to_arrow_table().to_pylist()
        return found


@pytest.fixture(scope="module", params=["2.0", "2.1", "2.2"])
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> World:
    uri = str(tmp_path_factory.mktemp("world") / f"{request.param}.lance")
    return World(uri, request.param, stable_row_ids=request.param != "2.1")


simple = st.one_of(
    st.builds("a {} {}".format, st.sampled_from(["<", ">=", "=", "<>"]), st.integers(-45, 60)),
    st.builds("f BETWEEN {} AND 9.5".format, st.integers(0, 12)),
    st.builds("s = 'name {}'".format, st.integers(0, 25)),
    st.builds("p.x > {}".format, st.integers(-1, 60)),
    st.builds("late = {}".format, st.integers(0, 7)),
    st.builds("_rowid % 10 >= {}".format, st.integers(0, 10)),
    st.builds("_rowaddr < {}".format, st.sampled_from([0, 1, 1 << 32, (2 << 32) + 9, 1 << 40])),
    st.builds("_row_created_at_version {}".format, st.sampled_from(["= 1", "> 1", "IN (2, 9)"])),
    st.builds("octet_length(w) < {}".format, st.integers(0, 400)),
    st.sampled_from(["b", "NOT b", "s IS NULL", "late IS NULL", "late IS NOT NULL"]),
    st.sampled_from(["s LIKE '%1_'", "p.y = 'y2'", "a IN (1, 5, 9)", "len(l) = 2"]),
    st.sampled_from(["coalesce(late, 9) = 9", "1 = 1", "NULL", "false"]),
)
conditions = st.recursive(
    simple,
    lambda inner: st.one_of(
        st.builds("({} AND {})".format, inner, inner),
        st.builds("({} OR {})".format, inner, inner),
        st.builds("(NOT {})".format, inner),
    ),
    max_leaves=4,
)
names = st.lists(
    st.sampled_from(["a", "f", "s", "b", "p", "w", "l", "late", *SYSTEM_COLUMNS]),
    unique=True,
    min_size=1,
)
expressions = st.dictionaries(
    st.sampled_from(["u", "v", "w", "a"]),
    st.one_of(
        st.sampled_from(
            ["a", "a + 1", "upper(s)", "p.x", "p", "late", "f * 2", "_rowid", "w", "7"]
        ),
        st.sampled_from(["coalesce(late, a)", "CASE WHEN b THEN s ELSE 'no' END"]),
    ),
    min_size=1,
)
limits = st.tuples(st.none() | st.integers(0, 300), st.sampled_from([0, 0, 1, 40, 500]))


def read(plan: ScanPlan, how: Fetching) -> list[dict[str, Any]]:
    forced = ScanPlan(plan.snapshot, replace(plan.request, fetching=how))
    batches = list(forced.batches())
    assert all(each.num_rows for each in batches)
    assert all(each.schema.equals(plan.schema, check_metadata=True) for each in batches)
    most = plan.request.batch_rows
    assert most is None or all(each.num_rows <= most for each in batches)
    found: list[dict[str, Any]] = pa.Table.from_batches(batches, plan.schema).to_pylist()
    return found


@contextmanager
def in_small_portions() -> Iterator[None]:
    """Let a small table be read as a large one is: in many batches and in mixed ways."""
    with (
        patch.multiple(fragment_scan, _SMALL=0, CALL=0.0, _PORTION_ROWS=20),
        patch.multiple(fragment_scan, _ONE_STAGE=25, _FIRST_STAGE=30, _LATER_STAGE=50, _GROWTH=2),
        patch.multiple(reader, _MIN_BATCH_ROWS=1, MAX_BATCH_ROWS=40, _STRETCH_BYTES=4_000),
        patch.object(reader, "_FEW_ROWS", 15),
        patch.object(fanout, "_QUICK_SECONDS", 0.0),
        small_sizes(stored=0),
    ):
        yield


@contextmanager
def in_small_groups() -> Iterator[None]:
    """Let small fragments be read in several groups, and some of them alone."""
    with (
        patch.object(fragment_group, "_MOST_FRAGMENTS", 3),
        small_sizes(rows=110, group_rows=150),
    ):
        yield


@contextmanager
def in_late_groups() -> Iterator[None]:
    """Let only columns of numbers be small, so that fragments are filtered together and the rest is
    fetched from each."""
    with (
        small_sizes(stored=8 * ROWS),
        patch.object(fragment_group, "_MOST_FRAGMENTS", 3),
    ):
        yield


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(names | expressions, conditions, limits, st.none() | st.sampled_from([1, 7, 100]))
def test_every_way_of_reading_gives_the_rows_that_duckdb_finds(
    world: World,
    columns: list[str] | dict[str, str],
    where: str,
    limits: tuple[int | None, int],
    batch_rows: int | None,
) -> None:
    limit, offset = limits
    asked = columns if isinstance(columns, dict) else {name: f'"{name}"' for name in columns}
    expected = world.expected(asked, where, limit, offset)
    plan = plan_scan(
        world.snapshot,
        columns=columns,
        where=where,
        limit=limit,
        offset=offset,
        batch_rows=batch_rows,
    )
    for how in Fetching:
        assert read(plan, how) == expected, how
    with in_small_portions():
        for how in Fetching:
            assert read(plan, how) == expected, how
    for grouped in (in_small_groups, in_late_groups):
        with grouped():
            assert read(plan, Fetching.AUTO) == expected, grouped
    assert plan.count() == len(expected)


@settings(
    max_examples=daily(10, of=20), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
@given(conditions, st.lists(st.sampled_from(["p.x", "p.y", "s", "l"]), unique=True, min_size=1))
def test_fields_of_structs_are_read_alone_beside_a_filter_on_others(
    world: World, where: str, columns: list[str]
) -> None:
    plan = plan_scan(world.snapshot, columns=columns, where=where)
    whole = plan_scan(world.snapshot, columns=sorted({each[0] for each in columns}), where=where)
    expected = read(whole, Fetching.TOGETHER)
    fields = {each[2:] for each in columns if each.startswith("p.")}
    for row in expected:
        if "p" in row and row["p"] is not None:
            row["p"] = {name: row["p"][name] for name in row["p"] if name in fields}
    for how in Fetching:
        assert read(plan, how) == expected, how

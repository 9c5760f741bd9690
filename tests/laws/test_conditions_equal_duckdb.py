"""What DuckDB says of its own table holds for ours: in scans with indices and without, queries,
counts, updates, deletes and computed columns.

A text that we refuse has no answer; it is counted, so that a law about nothing would be noticed.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from random import Random
from typing import Any, NamedTuple
from unittest.mock import patch
from uuid import UUID

import duckdb
import pyarrow as pa
import pytest
from lance.indices import IndexConfig
from tests.duckdb_conditions import COLUMNS, INDEXED, Draw, make_rows
from tests.pylance import lance

import lancewood as lw
from lancewood.engine.lookup import lookup
from lancewood.expr import parse_predicate, tree

ROWS = 90
EXAMPLES = int(os.environ.get("LANCEWOOD_LAW_EXAMPLES", "0")) or 30
OF_VALUES = ("Out of Range Error", "Conversion Error", "Division by zero")
KINDS = ("BTREE", "BITMAP", "ZONEMAP")


class Judge:
    """The rows as a table of DuckDB's own."""

    def __init__(self, rows: pa.Table) -> None:
        self._connection = duckdb.connect(config={"threads": 1})
        self._connection.execute("SET TimeZone='UTC'")
        at = rows.schema.get_field_index("h")
        given = rows.set_column(at, "h", rows["h"].cast(pa.float32()))  # DuckDB has no float16
        self._connection.register("given", given)
        self._connection.execute("CREATE TABLE rows AS FROM given")

    def asked(self, query: str, parameters: dict[str, Any]) -> list[tuple[Any, ...]] | None:
        """DuckDB's answer; None where it fails."""
        try:
            answer = self._connection.sql(query, params=parameters or None).to_arrow_table()
        except duckdb.Error:
            return None
        return list(zip(*(each.to_pylist() for each in answer.columns), strict=True))

    def keys(self, where: str, parameters: dict[str, Any]) -> list[int] | None:
        found = self.asked(f"SELECT k FROM rows WHERE ({where}\n)", parameters)
        return None if found is None else [key for (key,) in found]


class World(NamedTuple):
    kind: str
    table: lw.Table
    rows: pa.Table
    """What the table holds."""
    judge: Judge


@pytest.fixture(scope="module", params=KINDS)
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> World:
    """A table with indices, in several fragments and with deleted rows, and what is left of it."""
    rows = make_rows(Random(f"rows of {request.param}"), ROWS)
    uri = str(tmp_path_factory.mktemp("world") / "t.lance")
    lw.create(
        uri, rows, layout=lw.Layout(max_rows_per_file=ROWS // 3), access=lw.Access(fsync=False)
    )
    names = INDEXED if request.param != "BITMAP" else [each for each in INDEXED if each != "t"]
    for name in names:
        config = IndexConfig(
            request.param, {"rows_per_zone": 16} if request.param == "ZONEMAP" else {}
        )
        lance.dataset(uri).create_scalar_index(name, config)
    lw.open(uri).delete("k % 10 = 3")
    left = lw.open(uri).to_arrow()
    return World(request.param, lw.open(uri), left, Judge(left))


@pytest.fixture(autouse=True)
def always_look_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Indices are asked though the table is small."""
    monkeypatch.setattr(lookup, "_FEW_ROWS", 1 << 20)


def drawn(seed: str, count: int = EXAMPLES) -> Iterator[tuple[str, dict[str, Any]]]:
    for number in range(count):
        draw = Draw(Random(f"{seed} {number}"))
        yield draw.condition(), draw.parameters


def test_a_condition_keeps_the_rows_that_duckdb_keeps_of_its_own_table(
    world: World,
) -> None:
    kind, table, rows, judge = world
    judged = refused = by_trees = pushed = 0
    for where, parameters in drawn(kind):
        expected = judge.keys(where, parameters)
        told = f"{where} {parameters}"
        try:
            predicate = parse_predicate(where, rows.schema, parameters)
            found = rows.filter(predicate.mask(rows))["k"].to_pylist()
        except lw.InvalidInputError as error:
            refusal = f"{told}: {error}"
        else:
            refusal = ""
        if expected is None or refusal:
            refused += bool(refusal)
            # In which order AND is computed, and so which values fail, is DuckDB's to choose.
            assert expected is None or any(each in refusal for each in OF_VALUES), refusal
            continue
        judged += 1
        assert found == expected, told
        by_trees += predicate.is_exact
        for use_indices in (True, False):
            scan = table.scan(["k"], where, parameters=parameters or None, use_indices=use_indices)
            assert scan.to_arrow()["k"].to_pylist() == expected, told
        assert table.count_rows(where, parameters=parameters or None) == len(expected), told
        query = f"SELECT k FROM t WHERE ({where}\n) ORDER BY k"
        answer = lw.sql(query, tables={"t": table}, args=parameters or None)
        assert answer.to_arrow()["k"].to_pylist() == expected, told
        pushed += "  where    all rows" not in answer.explain()
        with patch.object(tree, "_offered", return_value=[]):
            untreed = parse_predicate(where, rows.schema, parameters)
            assert untreed.bounds() == ()
            assert rows.filter(untreed.mask(rows))["k"].to_pylist() == expected, told
    assert judged > 0.6 * EXAMPLES
    assert min(by_trees, pushed) >= EXAMPLES // 20
    print(f"{judged} judged, {refused} refused, {by_trees} by trees, {pushed} pushed down")


def test_updates_and_deletes_touch_the_rows_that_duckdb_finds(
    world: World, tmp_path_factory: pytest.TempPathFactory
) -> None:
    kind, _, rows, judge = world
    uri = str(tmp_path_factory.mktemp("copies") / "t.lance")
    copy = lw.create(
        uri,
        rows.append_column("hit", pa.nulls(len(rows), pa.int64())),
        access=lw.Access(fsync=False),
    )
    for number, (where, parameters) in enumerate(drawn(f"writes {kind}", max(EXAMPLES // 8, 4))):
        expected = judge.keys(where, parameters)
        if expected is None:
            continue
        told = f"{where} {parameters}"
        try:
            copy = copy.update({"hit": number}, where, parameters=parameters or None)
        except lw.InvalidInputError as refusal:
            if not any(each in str(refusal) for each in OF_VALUES):
                raise
            continue  # AND was computed in another order
        hit = copy.scan(["k"], f"hit = {number}").to_arrow()["k"].to_pylist()
        assert sorted(hit) == expected, told
        fresh = lw.create(f"memory://law/{kind}/{number}", rows)
        left = fresh.delete(where, parameters=parameters or None).to_arrow()["k"].to_pylist()
        gone = set(expected)
        assert left == [each for each in rows["k"].to_pylist() if each not in gone], told


def test_an_expression_has_the_values_that_duckdb_computes(
    world: World,
) -> None:
    kind, table, _, judge = world
    judged = 0
    for number in range(EXAMPLES):
        draw = Draw(Random(f"expression {kind} {number}"))
        text = draw.expression()
        expected = judge.asked(f"SELECT k, ({text}) AS v FROM rows", draw.parameters)
        with suppress(lw.InvalidInputError):
            scan = table.scan({"k": "k", "v": text}, parameters=draw.parameters or None)
            found = scan.to_arrow()
            if expected is None:
                continue
            judged += 1
            values = list(zip(found["k"].to_pylist(), found["v"].to_pylist(), strict=True))
            assert shown(values) == shown(expected), f"{text} {draw.parameters}"
    assert judged > 0.6 * EXAMPLES


def shown(values: Any) -> Any:
    """Values so that NaN equals NaN, and -0.0 is not 0.0."""
    if isinstance(values, pa.MonthDayNano) and not values.months:
        return timedelta(values.days, microseconds=values.nanoseconds // 1000)
    if isinstance(values, list | tuple):
        return [shown(each) for each in values]
    if isinstance(values, dict):
        return {key: shown(each) for key, each in values.items()}
    if isinstance(values, UUID):
        return str(values)
    if isinstance(values, float):
        return f"{values!r} {math.copysign(1, values)}" if not math.isnan(values) else "nan"
    return values


def test_every_column_of_the_law_is_in_the_table(world: World) -> None:
    assert set(world.table.schema.names) == {"k", *COLUMNS}

"""A condition through an index means what it means without, and what DuckDB says, whatever became
of the table since the index was made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

import duckdb
import pytest
from tests.breadth import daily
from tests.indexed import COLUMNS, KINDS, NAMES, OPS, Condition, condition, make_indexed, simple
from tests.indexed import rows as made_rows
from tests.pylance import lance

import lancewood as lw
from lancewood.engine.lookup import lookup

EACH = daily(7, of=150)
"""How many conditions are tried on each state."""


@pytest.fixture(autouse=True)
def _few_rows_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are looked up that would be read with all others elsewhere: there are so few."""
    monkeypatch.setattr(lookup, "_FEW_ROWS", 1 << 20)


class World:
    """One state of a table, all of it in memory for DuckDB."""

    def __init__(self, table: lw.Table) -> None:
        self.table = table
        self.judge = duckdb.connect(config={"threads": 1})
        everything = table.scan(use_indices=False, with_row_id=True, with_row_address=True)
        self.judge.register("everything", everything.to_arrow())

    def check(self, asked: Condition) -> None:
        how: dict[str, Any] = {"with_row_id": True, "with_row_address": True}
        columns = ["k", *COLUMNS]
        scan = self.table.scan(columns, asked.sql, parameters=asked.parameters, **how)
        without = self.table.scan(
            columns, asked.sql, parameters=asked.parameters, use_indices=False, **how
        )
        found = scan.to_arrow()
        assert str(found.to_pylist()) == str(without.to_arrow().to_pylist()), asked
        assert self.table.count_rows(asked.sql, parameters=asked.parameters) == found.num_rows
        text = f"SELECT _rowaddr FROM everything WHERE {asked.sql} ORDER BY _rowaddr"
        told = self.judge.execute(text, asked.parameters).fetchall()
        assert sorted(found["_rowaddr"].to_pylist()) == [each for (each,) in told], asked


def changes(uri: str) -> Iterator[tuple[str, Callable[[lw.Table], lw.Table]]]:
    """What happens to the table, one after the other."""
    renewed = {"i": "i + 1", "s": "'text 1'", "p.x": "5", "f": "0.0", "d": "DATE '1970-01-03'"}
    yield "nothing", lambda table: table
    yield "appended", lambda table: table.append(made_rows(1000, 50))
    yield "rows", lambda table: table.update(renewed, "k % 17 = 3", rewrite="rows")
    yield "others", lambda table: table.update({"other": "1"}, "k % 19 = 2", rewrite="rows")
    yield "columns", lambda table: table.update(renewed, "k % 71 = 5", rewrite="columns")
    yield "deleted", lambda table: table.delete("k % 7 = 1")
    yield "extended", lambda table: extended(uri)
    yield "more", lambda table: table.update(renewed, "k % 23 = 6", rewrite="rows")
    yield "compacted", lambda table: table.compact(target_rows=100)


def extended(uri: str) -> lw.Table:
    """With segments for what is not covered; pylance 14 cannot extend an index inside a struct."""
    names = {each.name for each in lw.open(uri).indices} - {"p_x_idx"}
    lance.dataset(uri).optimize.optimize_indices(num_indices_to_merge=0, index_names=list(names))
    return lw.open(uri)


@pytest.mark.sliced(3)
@pytest.mark.parametrize("stable", [True, False], ids=["stable ids", "addresses"])
@pytest.mark.parametrize("kind", KINDS)
def test_conditions_mean_the_same_through_an_index(uri: str, kind: str, stable: bool) -> None:
    rng = Random(f"{kind} {stable}")
    names = [*rng.sample(NAMES[:-2], daily(4, len(NAMES) - 2)), *NAMES[-2:]]
    make_indexed(uri, kind, names, stable=stable)
    table = lw.open(uri)
    for name, change in changes(uri):
        table = change(table)
        world = World(table)
        for _ in range(EACH):
            world.check(condition(rng, names))
        for op in OPS:
            world.check(simple(rng, rng.choice(names), op))
        if name != "compacted":
            assert "index dec_idx" in table.scan(where="dec > 1000").explain()
    check_elsewhere(table, rng, names)


def check_elsewhere(table: lw.Table, rng: Random, names: Sequence[str]) -> None:
    """On a branch, on a branch of that, and in a clone, with changes there."""
    uri = table.uri
    branch = table.branches.create("exp").update({"i": "7"}, "k % 29 = 4")
    deeper = branch.branches.create("exp/deeper").delete("k % 31 = 5")
    clone = table.clone(f"{uri}-clone").append(made_rows(2000, 20))
    for each in (branch, deeper, clone, clone.latest()):
        world = World(each)
        for _ in range(EACH):
            world.check(condition(rng, names))


def test_the_grid_would_notice_a_lost_row(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make_indexed(uri, "BTREE", ["i"])
    world = World(lw.open(uri))
    asked = Condition("i = $p0", {"p0": COLUMNS["i"].make(4)})
    world.check(asked)
    monkeypatch.setattr(lookup, "_are_in", lambda rows, fragments: rows != rows[0])
    with pytest.raises(AssertionError):
        world.check(asked)

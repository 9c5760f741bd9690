"""Diffs of any two revisions, on whatever branches, are what plain dicts say.

Random histories of a table and its branches, by both implementations: rows are appended, updated,
deleted, files are compacted, columns added, renamed and dropped, branches made of branches and
reset. A row of the model has an identity of its own, since branches give out the same row ids.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import count, product
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from tests.breadth import daily
from tests.histories.checks import check_diff
from tests.histories.model import KEY, Column, Row, State
from tests.pylance import lance

import lancewood as lw
from lancewood.jobs.diff import ranges

SEEDS = range(daily(3, of=60))
STEPS = 16
RENAMED = {"c": "e", "s": "t"}


class World:
    """A table with branches, and what each of its revisions must hold."""

    def __init__(self, uri: Path, random: Random) -> None:
        self.uri, self.random = str(uri), random
        self.keys, self.columns = count(), count(10)
        self.states: dict[tuple[str, int], State] = {}
        self.parents: dict[str, str] = {}
        self.heads = {"main": self.create()}

    def create(self) -> int:
        columns = (
            Column(0, KEY, pa.int64()),
            Column(1, "a", pa.int64()),
            Column(2, "s", pa.string()),
        )
        state = self.with_rows(State(columns), 9)
        table = lw.create(
            self.uri,
            self.data(state, state.rows),
            layout=lw.Layout(max_rows_per_file=4),
            access=lw.Access(fsync=False),
        )
        self.states["main", table.version] = state
        return table.version

    def with_rows(self, state: State, number: int) -> State:
        rows = dict(state.rows)
        for _ in range(number):
            key = next(self.keys)
            values = {each.number: self.value(each) for each in state.columns[1:]}
            rows[key] = Row(key, {0: key, **values}, 1, 1, 1, row_id=key)
        return replace(state, rows=rows)

    def value(self, column: Column) -> Any:
        number = self.random.randrange(5)
        return number if pa.types.is_integer(column.type) else self.random.choice(["x", "y", None])

    def data(self, state: State, keys: Any) -> pa.Table:
        rows = [state.rows[key].values for key in keys]
        return state.arrow(rows, [each.name for each in state.columns])

    def ours(self, branch: str) -> lw.Table:
        return lw.open(
            self.uri, branch=None if branch == "main" else branch, access=lw.Access(fsync=False)
        )

    def theirs(self, branch: str) -> Any:
        dataset = lance.dataset(self.uri)
        return dataset if branch == "main" else dataset.checkout_version((branch, None))

    def step(self) -> None:
        branch = self.random.choice(sorted(self.heads))
        verb = self.random.choice(
            ["append", "update", "update", "delete", "compact", "add", "rename", "drop", "branch"]
            + ["reset"] * (branch != "main")
        )
        state = self.states[branch, self.heads[branch]]
        after = getattr(self, verb)(branch, state)
        if after is not None:
            self.heads[branch] = self.ours(branch).version
            self.states[branch, self.heads[branch]] = after

    def append(self, branch: str, state: State) -> State:
        after = self.with_rows(state, self.random.randrange(1, 5))
        data = self.data(after, after.rows.keys() - state.rows.keys())
        if self.random.random() < 0.5:
            self.ours(branch).append(data)
        else:
            self.theirs(branch).insert(data)
        return after

    def some(self, state: State) -> list[int]:
        known = sorted(state.rows)
        return self.random.sample(known, self.random.randrange(len(known) + 1) // 2)

    def update(self, branch: str, state: State) -> State | None:
        keys, column = self.some(state), self.random.choice(state.columns[1:])
        value = self.value(column)
        if not keys:
            return None
        sql = "NULL" if value is None else repr(value)
        where = f"{KEY} IN ({', '.join(map(str, keys))})"
        if self.random.random() < 0.3:
            self.theirs(branch).update({column.name: sql}, where)
        else:
            is_whole = self.random.random() < 0.5
            self.ours(branch).update(
                {column.name: sql}, where, rewrite="rows" if is_whole else "columns"
            )
        rows = {
            key: replace(row, values={**row.values, column.number: value}) if key in keys else row
            for key, row in state.rows.items()
        }
        return replace(state, rows=rows)

    def delete(self, branch: str, state: State) -> State | None:
        keys = self.some(state)[:3]
        if not keys or len(keys) == len(state.rows):
            return None
        where = f"{KEY} IN ({', '.join(map(str, keys))})"
        if self.random.random() < 0.5:
            self.ours(branch).delete(where)
        else:
            self.theirs(branch).delete(where)
        return replace(state, rows={k: v for k, v in state.rows.items() if k not in keys})

    def compact(self, branch: str, state: State) -> State | None:
        if self.random.random() < 0.6:
            self.ours(branch).compact(target_rows=self.random.choice([5, 100]))
        else:
            self.theirs(branch).optimize.compact_files(target_rows_per_fragment=100)
        return state

    def add(self, branch: str, state: State) -> State | None:
        name = self.random.choice(["c", "d"])
        if state.column(name) is not None:
            return None
        self.ours(branch).add_columns({name: "CAST(a + 1 AS BIGINT)"})
        column = Column(next(self.columns), name, pa.int64())
        rows = {
            key: replace(row, values={**row.values, column.number: _plus_one(row.values[1])})
            for key, row in state.rows.items()
        }
        return replace(state, columns=(*state.columns, column), rows=rows)

    def rename(self, branch: str, state: State) -> State | None:
        for column in state.columns:
            new = RENAMED.get(column.name)
            if new is not None and state.column(new) is None:
                self.ours(branch).rename_column(column.name, new)
                return state.with_column(replace(column, name=new))
        return None

    def drop(self, branch: str, state: State) -> State | None:
        for column in state.columns[3:]:
            self.ours(branch).drop_columns([column.name])
            return state.with_columns(each for each in state.columns if each != column)
        return None

    def branch(self, branch: str, state: State) -> None:
        name = f"b{len(self.heads)}"
        if len(self.heads) < 4:
            made = self.ours(branch).branches.create(name)
            self.parents[name] = branch
            self.heads[name] = made.version
            self.states[name, made.version] = state

    def reset(self, branch: str, state: State) -> None:
        parent = self.parents[branch]
        made = self.ours("main").branches.reset(branch, force=True)
        self.heads[branch] = made.version
        self.states[branch, made.version] = self.states[parent, self.heads[parent]]


def _plus_one(value: int | None) -> int | None:
    return None if value is None else value + 1


@pytest.mark.parametrize("seed", SEEDS)
def test_a_diff_of_any_two_revisions_is_what_plain_dicts_say(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(seed)
    if seed % 2:  # very many rows are compared range by range
        monkeypatch.setattr(ranges, "MOST_STRETCHES", 6)
        monkeypatch.setattr(ranges, "_SAMPLE", 2)
    world = World(tmp_path / "t.lance", random)
    for _ in range(STEPS):
        world.step()
    known = sorted(world.states)
    table = lw.open(world.uri)
    for _ in range(40):
        one, other = random.choice(known), random.choice(known)
        first, second = (f"{branch}:{version}" for branch, version in (one, other))
        check_diff(table, first, second, world.states[one], world.states[other])


def made(seed: int, tmp_path: Path) -> tuple[World, list[tuple[str, int]]]:
    """A world with some history, and some of its revisions."""
    world = World(tmp_path / "t.lance", Random(seed))
    for _ in range(STEPS):
        world.step()
    return world, world.random.sample(sorted(world.states), min(5, len(world.states)))


@pytest.mark.parametrize("seed", range(daily(2, of=20)))
def test_laws_of_a_diff(seed: int, tmp_path: Path) -> None:
    world, revisions = made(100 + seed, tmp_path)
    table = lw.open(world.uri)
    texts = [f"{branch}:{version}" for branch, version in revisions]
    for x, y in product(texts, texts):
        found = table.diff(x, y)
        rows = found.to_arrow().to_pylist()
        if x == y:
            assert not rows
            assert not found.stat()
        assert applied(table.checkout(at=x), rows, found) == whole(table.checkout(at=y), found)
        mirror = table.diff(y, x).to_arrow().to_pylist()
        assert sorted(map(plain, mirror)) == sorted(plain(turned(row)) for row in rows)
        some = table.diff(x, y, columns=[KEY, "a"]).to_arrow().to_pylist()
        expected = [cut(row) for row in rows if has_a(row)]
        assert sorted(map(plain, some)) == sorted(map(plain, expected))
        chosen = table.diff(x, y, where=f"{KEY} % 2 = 0 AND _change <> 'deleted'")
        assert sorted(map(plain, chosen.to_arrow().to_pylist())) == sorted(
            plain(row) for row in rows if row["after"] is not None and row["after"][KEY] % 2 == 0
        )


def common(found: lw.Diff) -> list[tuple[str, str]]:
    """The columns that both have, by their earlier and later names."""
    added = {each.name for each in found.schema.added}
    earlier = {new: old for old, new in found.schema.renamed}
    after = [each.name for each in found.arrow_schema.field("after").type]
    return [(earlier.get(each, each), each) for each in after if each not in added]


def applied(table: lw.Table, rows: list[dict[str, Any]], found: lw.Diff) -> dict[int, list[Any]]:
    """The rows of the earlier revision after the diff, in the columns that both have."""
    names = common(found)
    left = {row[KEY]: [row[old] for old, _ in names] for row in table.to_arrow().to_pylist()}
    for row in rows:
        if row["before"] is not None:
            del left[row["before"][KEY]]
    for row in rows:
        if row["after"] is not None:
            left[row["after"][KEY]] = [row["after"][new] for _, new in names]
    return left


def whole(table: lw.Table, found: lw.Diff) -> dict[int, list[Any]]:
    rows = table.to_arrow().to_pylist()
    return {row[KEY]: [row[new] for _, new in common(found)] for row in rows}


def turned(row: dict[str, Any]) -> dict[str, Any]:
    kinds = {"deleted": "inserted", "inserted": "deleted", "updated": "updated"}
    return {**row, "_change": kinds[row["_change"]], "before": row["after"], "after": row["before"]}


def plain(row: dict[str, Any]) -> str:
    """What must be the same; of cells only how many, for columns may have other names back then."""
    cells = len(row["_columns"] or ())
    return f"{row['_change']} {cells} {row['before']} {row['after']}"


def has_a(row: dict[str, Any]) -> bool:
    return row["_columns"] is None or not {KEY, "a"}.isdisjoint(row["_columns"])


def cut(row: dict[str, Any]) -> dict[str, Any]:
    """A row with only the key and the first column."""
    sides = {
        side: None if row[side] is None else {name: row[side][name] for name in (KEY, "a")}
        for side in ("before", "after")
    }
    names = None if row["_columns"] is None else [n for n in row["_columns"] if n in (KEY, "a")]
    return {**row, **sides, "_columns": names}

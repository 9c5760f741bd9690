"""Blame agrees with a walk over all versions that compares plain scans.

Random histories of a table and its branches, as those of diffs, and besides: versions restored,
rows written over with equal values, columns cast, rows changed in place without marks, rows merged.
The walk reads every version with pylance and knows nothing of marks, files and places.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

import pyarrow as pa
import pytest
from tests.breadth import daily
from tests.histories.model import KEY, State
from tests.laws.test_diff import World
from tests.pylance import lance

import lancewood as lw

SEEDS = range(daily(6, of=150))
STEPS = 18
Revision: TypeAlias = tuple[str, int]


class BlamedWorld(World):
    """The same, with versions that are copies of others."""

    VERBS = (
        *("append", "update", "update", "delete", "compact", "add", "rename", "drop", "branch"),
        *("restore", "equal", "in_place", "in_place", "cast", "merge"),
    )

    def __init__(self, uri: Path, random: Random) -> None:
        self.copies: dict[Revision, Revision] = {}
        super().__init__(uri, random)

    def step(self) -> None:
        branch = self.random.choice(sorted(self.heads))
        verb = self.random.choice([*self.VERBS, *["reset"] * (branch != "main")])
        state = self.states[branch, self.heads[branch]]
        after = getattr(self, verb)(branch, state)
        if after is not None:
            self.heads[branch] = self.ours(branch).version
            self.states[branch, self.heads[branch]] = after

    def branch(self, branch: str, state: State) -> None:
        known = set(self.heads)
        super().branch(branch, state)
        for name in self.heads.keys() - known:
            self.copies[name, self.heads[name]] = branch, self.heads[branch]

    def reset(self, branch: str, state: State) -> None:
        super().reset(branch, state)
        parent = self.parents[branch]
        self.copies[branch, self.heads[branch]] = parent, self.heads[parent]

    def restore(self, branch: str, state: State) -> State | None:
        known = [each for each in self.states if each[0] == branch and each not in self.copies]
        if not known:
            return None
        source = self.random.choice(sorted(known))
        done = self.ours(branch).restore(version=source[1])
        self.copies[branch, done.version] = source
        return self.states[source]

    def equal(self, branch: str, state: State) -> State | None:
        keys, column = self.some(state), self.random.choice(state.columns[1:])
        if not keys:
            return None
        where = f"{KEY} IN ({', '.join(map(str, keys))})"
        is_whole = self.random.random() < 0.5
        self.ours(branch).update(
            {column.name: column.name}, where, rewrite="rows" if is_whole else "columns"
        )
        return state

    def in_place(self, branch: str, state: State) -> State | None:
        dataset = self.theirs(branch)
        fragment = self.random.choice(dataset.get_fragments())
        keys = fragment.to_table([KEY])[KEY].to_pylist()
        chosen = self.random.sample(keys, self.random.randrange(1, len(keys) + 1))
        values = [self.random.randrange(5) for _ in chosen]
        kind = state.column("a")
        if kind is None:
            return None
        part = pa.table({KEY: pa.array(chosen, pa.int64()), "a": pa.array(values, kind.type)})
        image, fields = fragment.update_columns(part, left_on=KEY, right_on=KEY)
        operation = lance.LanceOperation.Update(
            updated_fragments=[image], fields_modified=fields, update_mode="rewrite_columns"
        )
        lance.LanceDataset.commit(dataset, operation, read_version=dataset.version)
        return self.with_values(state, kind.number, dict(zip(chosen, values, strict=True)))

    def cast(self, branch: str, state: State) -> State | None:
        column = state.column("a")
        if column is None:
            return None
        other = pa.int32() if column.type == pa.int64() else pa.int64()
        self.ours(branch).cast_column("a", other)
        return state.with_column(replace(column, type=other))

    def merge(self, branch: str, state: State) -> State | None:
        keys, column = self.some(state), state.column("a")
        if not keys or column is None or len(state.columns) != 3:
            return None
        values = {key: self.random.randrange(5) for key in keys}
        after = self.with_values(state, column.number, values)
        data = self.data(after, keys)
        self.theirs(branch).merge_insert(KEY).when_matched_update_all().execute(data)
        return after

    def with_values(self, state: State, number: int, values: dict[int, Any]) -> State:
        rows = {
            key: replace(row, values={**row.values, number: values[key]}) if key in values else row
            for key, row in state.rows.items()
        }
        return replace(state, rows=rows)


@dataclass(frozen=True)
class Seen:
    """One version as pylance reads it."""

    columns: dict[str, int]
    """The ids of the columns, by name."""
    rows: dict[int, dict[str, Any]]


class Walk:
    """Every version, one after the other."""

    def __init__(self, world: BlamedWorld) -> None:
        self._world = world
        self.seen = cache(self._seen)

    def _seen(self, revision: Revision) -> Seen:
        branch, version = revision
        dataset: Any = lance.dataset(self._world.uri)
        dataset = dataset.checkout_version((None if branch == "main" else branch, version))
        rows = dataset.scanner(with_row_id=True).to_table().to_pylist()
        columns = {each.name(): each.id() for each in dataset.lance_schema.fields()}
        return Seen(columns, {row.pop("_rowid"): row for row in rows})

    def inserted(self, revision: Revision, row: int) -> Revision:
        """Who inserted a row."""
        while True:
            before = self._world.copies.get(revision, (revision[0], revision[1] - 1))
            is_copy = revision in self._world.copies
            if not is_copy and (not before[1] or row not in self.seen(before).rows):
                return revision
            revision = before

    def writers(self, revision: Revision, row: int) -> tuple[dict[str, Revision], Revision]:
        """Who wrote each cell of a row, and who last changed the row."""
        cells: dict[str, Revision] = {}
        changed = None
        names = {name: name for name in self.seen(revision).columns}
        while True:
            if revision in self._world.copies:
                revision = self._world.copies[revision]
                continue
            before = revision[0], revision[1] - 1
            now = self.seen(revision)
            then = self.seen(before) if before[1] else Seen({}, {})
            old, new, earlier = then.rows.get(row), now.rows[row], _pairs(then, now)
            for name, current in list(names.items()):
                source = earlier.get(current)
                if old is None or source is None:
                    cells.setdefault(name, revision)
                    del names[name]
                elif old[source] != new[current]:
                    cells.setdefault(name, revision)
                    changed = changed or revision
                    names[name] = source
                else:
                    names[name] = source
            if not names:
                return cells, changed or revision
            revision = before


def _pairs(then: Seen, now: Seen) -> dict[str, str]:
    """The names of columns, and what they were called before: by id, or else by name."""
    by_id = {number: name for name, number in then.columns.items()}
    found = {name: by_id[number] for name, number in now.columns.items() if number in by_id}
    taken = set(found.values())
    for name in now.columns:
        if name not in found and name in then.columns and name not in taken:
            found[name] = name
    return found


def _written(found: dict[str, Any]) -> Revision:
    assert found.get("exact", True)
    return found["branch"], found["version"]


@pytest.mark.parametrize("seed", SEEDS)
def test_blame_agrees_with_a_walk_over_all_versions(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    world = BlamedWorld(tmp_path / "t.lance", random)
    for _ in range(STEPS):
        world.step()
    walk = Walk(world)
    table = lw.open(world.uri)
    heads = sorted(world.heads.items())
    for branch, version in [*heads, *random.sample(sorted(world.states), 3)]:
        state = table.checkout(at=f"{branch}:{version}")
        rows = state.blame().to_arrow().to_pylist()
        cells = state.blame(cells=True).to_arrow().to_pylist()
        assert len(rows) == state.count_rows()
        expected = {row["_rowid"]: walk.writers((branch, version), row["_rowid"]) for row in rows}
        got = {row["_rowid"]: _written(row["_changed"]) for row in rows}
        assert got == {row: changed for row, (_, changed) in expected.items()}
        for row in rows:
            who = walk.inserted((branch, version), row["_rowid"])
            assert _written(row["_inserted"]) == who
        by_cell = {(each["_rowid"], each["_column"]): _written(each["_written"]) for each in cells}
        assert by_cell == {
            (row, name): who
            for row, (written, _) in expected.items()
            for name, who in written.items()
        }

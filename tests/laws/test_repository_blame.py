"""In a repository, blame agrees with a walk over all commits that compares plain scans.

Random histories of three branches that are merged into each other. The walk asks of each row, as
git does of lines: is it the same in a parent? pylance reads the rows of each commit.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from tests.breadth import daily
from tests.pylance import lance

import lancewood as lw

SEEDS = range(daily(3, of=60))
STEPS = 22
BRANCHES = ("main", "exp", "deep")
VALUES = ("v", "w")


class World:
    """A repository with one table."""

    def __init__(self, path: Path, random: Random) -> None:
        self.random, self.ids = random, count()
        self.repo = lw.Repository.init(path, fsync=False)
        with self.repo.transaction("main", "begin") as changes:
            changes.create_table("t", self.rows(6))
        for name in BRANCHES[1:]:
            self.repo.branches.create(name)

    def rows(self, number: int) -> pa.Table:
        ids = [next(self.ids) for _ in range(number)]
        columns = {
            name: pa.array([self.random.randrange(4) for _ in ids], pa.int64()) for name in VALUES
        }
        return pa.table({"id": pa.array(ids, pa.int64()), **columns})

    def step(self) -> None:
        verb = self.random.choice(
            ["append", "update", "update", "delete", "merge", "merge", "beside"]
        )
        with suppress(lw.ConflictError):  # work that was merged, and the like
            getattr(self, verb)(self.random.choice(BRANCHES))

    def some(self, branch: str) -> str:
        known = sorted(self.read(self.repo.at(branch).hash))
        chosen = self.random.sample(known, min(len(known), self.random.randrange(1, 4)))
        return f"id in ({', '.join(map(str, chosen or [-1]))})"

    def append(self, branch: str) -> None:
        with self.repo.transaction(branch, "append") as changes:
            changes.table("t").append(self.rows(self.random.randrange(1, 4)))

    def update(self, branch: str) -> None:
        where, value = self.some(branch), self.random.randrange(4)
        way, name = self.random.random() < 0.5, self.random.choice(VALUES)
        with self.repo.transaction(branch, "update") as changes:
            changes.table("t").update(
                {name: str(value)}, where, rewrite="rows" if way else "columns"
            )

    def delete(self, branch: str) -> None:
        if self.random.random() < 0.4:
            where = self.some(branch)
            with self.repo.transaction(branch, "delete") as changes:
                changes.table("t").delete(where)

    def merge(self, branch: str) -> None:
        other = self.random.choice([each for each in BRANCHES if each != branch])
        self.repo.merge(other, branch=branch)

    def beside(self, branch: str) -> None:
        """Somebody writes without the repository, and a commit takes it in."""
        if branch != "main" or self.repo.head.branch != "main":
            return
        uri = f"{self.repo.path}/tables/t.lance"
        lance.dataset(uri).update({"v": str(self.random.randrange(4))}, self.some(branch))
        self.repo.commit("beside")

    def read(self, commit: str) -> dict[int, tuple[int, ...]]:
        landed = self.repo.at(commit).landed("t")
        assert landed is not None
        dataset: Any = lance.dataset(landed.uri, version=landed.version)
        rows = dataset.to_table().to_pylist()
        return {row["id"]: tuple(row[name] for name in VALUES) for row in rows}


@pytest.mark.parametrize("seed", SEEDS)
def test_blame_agrees_with_a_walk_over_all_commits(seed: int, tmp_path: Path) -> None:
    world = World(tmp_path / "r", Random(seed))
    for _ in range(STEPS):
        world.step()
    repo, read = world.repo, cache(world.read)

    def brought(commit: str, row: int, columns: slice) -> str:
        """The commit that brought a row, or the values that it has in some columns."""
        for parent in repo.at(commit).commit.parents:
            before, now = read(parent), read(commit)
            if row in before and before[row][columns] == now[row][columns]:
                return brought(parent, row, columns)
        return commit

    for branch in BRANCHES:
        tip = repo.at(branch).hash
        rows = repo.blame("t", revision=branch, show=["id"]).to_arrow().to_pylist()
        assert {each["id"] for each in rows} == read(tip).keys()
        for each in rows:
            told = each["_inserted"]["commit"], each["_changed"]["commit"]
            expected = (
                brought(tip, each["id"], slice(0)),
                brought(tip, each["id"], slice(len(VALUES))),
            )
            assert told == expected, (branch, each)
        cells = repo.blame("t", revision=branch, show=["id"], cells=True, columns=VALUES)
        for each in cells.to_arrow().to_pylist():
            at = VALUES.index(each["_column"])
            expected_commit = brought(tip, each["id"], slice(at, at + 1))
            assert each["_written"]["commit"] == expected_commit, (branch, each)

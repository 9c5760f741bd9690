"""Rows that differ between any two commits of random histories, beside what pylance reads there."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from itertools import permutations
from random import Random
from typing import Literal

import lance
import pyarrow as pa
import pytest
from tests.breadth import EVERY_CASE
from tests.repo.locations import every_day, everywhere
from tests.repo.scene import ONE, Scene

import lancewood as lw
from lancewood.errors import IncompatibleConflictError, InvalidInputError
from lancewood.jobs.counts import RowCounts

BRANCHES = ("main", "left", "right")
STEPS = 12
_Rows = dict[int, int]
"""Values of rows by their keys: no two rows that were ever written have the same."""


@every_day
@everywhere
def test_rows_are_compared_wherever_the_repository_is(scene: Scene) -> None:
    repo = scene.repo
    repo.branches.create("exp")
    scene.both(7, branch="exp")
    with repo.transaction("main", message="here") as changes:
        changes.table(ONE).delete("id = 1")
    again = scene.again()
    found = again.diff("main...exp", rows=True)
    assert [each.to_arrow()["after"].to_pylist() for each in found.values()] == [[{"id": 7}]] * 2
    assert again.diff("main", "exp", table=ONE)[0].counts == RowCounts(inserted=2)
    scene.outside(50)
    standing = again.diff("HEAD", None, table=ONE, rows=True)
    assert standing.to_arrow()["after"].to_pylist() == [{"id": 50}]
    assert [each.changes[0].counts for each in again.history(ONE, "exp")] == [
        RowCounts(inserted=1),
        RowCounts(inserted=3),
    ]


class History:
    """Commits of one table on three branches, with what pylance reads of each."""

    def __init__(self, scene: Scene, random: Random) -> None:
        self.repo, self._random, self._next = scene.repo, random, 0
        with self.repo.transaction("main", message="table") as changes:
            changes.create_table("t", self._fresh(6))
        for each in BRANCHES[1:]:
            self.repo.branches.create(each)
        self.commits: dict[str, _Rows] = {}
        self._note()

    def run(self, *, crossing: bool) -> None:
        """Some steps; only with ``crossing`` merges and resets."""
        steps: list[Callable[[str], None]] = [self._write, self._write, self._beside]
        if crossing:
            steps += [self._merge, self._reset]
        for _ in range(STEPS):
            with suppress(IncompatibleConflictError, InvalidInputError):
                self._random.choice(steps)(self._random.choice(BRANCHES))
            self._note()

    def _fresh(self, most: int) -> pa.Table:
        keys = range(self._next, self._next + self._random.randint(1, most))
        self._next = keys.stop
        return pa.table({"key": pa.array(keys, pa.int64()), "value": pa.array([0] * len(keys))})

    def _some(self) -> str:
        return f"key % 4 = {self._random.randrange(4)}"

    def _write(self, branch: str) -> None:
        with self.repo.transaction(branch, message="write") as changes:
            for _ in range(self._random.randint(1, 3)):
                self._change(changes.table("t"))

    def _change(self, table: lw.Table) -> lw.Table:
        verb = self._random.randrange(4)
        if verb == 0:
            return table.append(self._fresh(3))
        if verb == 1:
            return table.delete(self._some())
        rewrite: Literal["rows", "columns"] = "rows" if verb == 2 else "columns"
        return table.update({"value": f"value + {self._next % 2}"}, self._some(), rewrite=rewrite)

    def _beside(self, branch: str) -> None:
        """Writers that do not know the repository, pylance among them, and a commit of that."""
        table = self.repo.prepare("t", branch=branch)
        for _ in range(self._random.randint(0, 2)):
            table = self._change(table)
        if self._random.random() < 0.5:
            table.compact()
        elif self._random.random() < 0.5:
            lance.write_dataset(self._fresh(2), table.uri, mode="append")
        self.repo.commit("beside", branch=branch)

    def _merge(self, branch: str) -> None:
        if branch != "main":
            self.repo.merge(branch, branch="main")
            self.repo.merge("main", branch=branch)

    def _reset(self, branch: str) -> None:
        if branch != "main":
            self.repo.reset(self._random.choice(sorted(self.commits)), branch=branch)

    def _note(self) -> None:
        for branch in BRANCHES:
            view = self.repo.at(branch)
            if view.hash not in self.commits:
                read = view.table("t").lance().to_table()
                keys, values = (read[each].to_pylist() for each in ("key", "value"))
                self.commits[view.hash] = dict(zip(keys, values, strict=True))


def expected(before: _Rows, after: _Rows) -> RowCounts:
    return RowCounts(
        inserted=len(after.keys() - before.keys()),
        updated=sum(before[key] != after[key] for key in before.keys() & after.keys()),
        deleted=len(before.keys() - after.keys()),
    )


def applied(before: _Rows, diff: lw.Diff) -> _Rows:
    found = dict(before)
    for row in diff.to_arrow().to_pylist():
        old, new = row["before"], row["after"]
        assert row["_change"] == (
            "inserted" if old is None else "deleted" if new is None else "updated"
        )
        if old is not None:
            assert found.pop(old["key"]) == old["value"]
        if new is not None:
            assert new["key"] not in found
            found[new["key"]] = new["value"]
    return found


@pytest.mark.sliced(2)
@pytest.mark.parametrize("crossing", [False, True], ids=["apart", "crossing"])
@pytest.mark.parametrize("seed", range(40 if EVERY_CASE else 3))
def test_diffs_of_random_histories_are_what_two_scans_say(
    scene: Scene, seed: int, crossing: bool
) -> None:
    random = Random(f"{seed} {crossing}")
    history = History(scene, random)
    history.run(crossing=crossing)
    repo, commits = scene.again(), history.commits
    pairs = list(permutations(commits, 2))
    for before, after in random.sample(pairs, min(len(pairs), 40)):
        one, other = commits[before], commits[after]
        by_key = repo.diff(before, after, table="t", rows=True, on="key")
        stat = by_key.stat()
        assert RowCounts(stat.inserted, stat.updated, stat.deleted) == expected(one, other)
        assert stat.unchanged == len(other) - stat.inserted - stat.updated
        by_id = repo.diff(before, after, table="t", rows=True)
        assert applied(one, by_id) == other
        counted = repo.diff(before, after, table="t")
        found = counted[0].counts if counted else RowCounts()
        assert found is not None
        if not crossing:
            assert found == expected(one, other)
        assert found.inserted - found.deleted == len(other) - len(one)

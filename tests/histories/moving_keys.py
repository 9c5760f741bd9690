"""Random histories of a table whose rows get keys of other rows, on two branches that are merged
under every rule: what a merge leaves has each key once, and no row is lost that neither side
deleted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import count
from random import Random
from typing import Any

import pyarrow as pa
from tests.pylance import judged

import lancewood as lw

MAIN, BRANCH = "main", "b"
RULES_OF_SIDES = (
    None,
    "ours",
    "theirs",
    lw.Resolve(deletes="lose"),
    lw.Resolve(deletes="lose", rows="theirs"),
    lw.Resolve(deletes="win", rows="ours"),
)
RULES = (
    *RULES_OF_SIDES,
    "base",
    lw.Resolve(deletes="lose", rows="base"),
    lw.Resolve(winner="ours.v < theirs.v", whole_rows=True, rows="theirs"),
)
_VERBS = {"insert": 2, "delete": 4, "move": 6, "change": 4, "again": 1, "compact": 1, "merge": 6}
_KEYS = pa.schema(
    [
        pa.field("k", pa.int64(), False, {"lance-schema:unenforced-primary-key": "true"}),
        pa.field("v", pa.int64()),
    ]
)


class MovingKeys:
    """One table and its branch."""

    def __init__(self, uri: str, random: Random, rules: Sequence[Any] = RULES) -> None:
        self.uri, self.random, self.rules = uri, random, rules
        self.done: Counter[str] = Counter()
        self.steps = list[str]()
        self._values = count(1)
        main = lw.create(
            uri,
            self._rows(*range(8)),
            layout=lw.Layout(max_rows_per_file=3),
            access=lw.Access(fsync=False),
        )
        main.branches.create(BRANCH)

    def run(self, steps: int) -> None:
        """Raises AssertionError with all steps."""
        try:
            for _ in range(steps):
                branch = self.random.choice([MAIN, BRANCH])
                verb = self.random.choices([*_VERBS], [*_VERBS.values()])[0]
                self.steps.append(f"{verb} on {branch}")
                getattr(self, verb)(self._table(branch))
                self.done[verb] += 1
        except BaseException as failure:
            failure.add_note("\n".join(self.steps))
            raise

    def insert(self, table: lw.Table) -> None:
        """A row with a key that is free on its branch, and perhaps not on the other one."""
        free = self._free(table)
        self.steps[-1] += f", {free}"
        table.append(self._rows(free))

    def delete(self, table: lw.Table) -> None:
        if table.count_rows() > 3:
            table.delete(self._some(table))

    def move(self, table: lw.Table) -> None:
        """A row gets a key that is free on its branch."""
        free = self._free(table)
        self.steps[-1] += f", to {free}"
        table.update({"k": str(free)}, self._some(table), rewrite="rows")

    def change(self, table: lw.Table) -> None:
        table.update({"v": str(next(self._values))}, self._some(table))

    def again(self, table: lw.Table) -> None:
        """A row is deleted, and another one is inserted with its key."""
        where = self._some(table)
        table.delete(where).append(self._rows(int(where.split()[-1])))

    def compact(self, table: lw.Table) -> None:
        table.compact()

    def merge(self, ours: lw.Table) -> None:
        theirs = self._table(BRANCH if ours.branch is None else MAIN)
        rule = self.random.choice(self.rules)
        self.steps[-1] += f", {rule}"
        kept = {*_keys(ours)} & {*_keys(theirs)}
        try:
            after = ours.branches.merge(theirs.branch or MAIN, resolve=rule)
        except (lw.MergeConflictError, lw.IncompatibleConflictError) as refused:
            self.steps[-1] += f", refused: {refused}"
            self.done["refused"] += 1
            return
        self.done["merged"] += 1
        found = _keys(after)
        twice = [key for key, rows in Counter(found.values()).items() if rows > 1]
        assert not twice, f"keys are there twice: {twice}"
        assert kept <= found.keys(), f"rows are lost: {kept - found.keys()}"

    def _table(self, branch: str) -> lw.Table:
        return lw.open(
            self.uri, branch=None if branch == MAIN else branch, access=lw.Access(fsync=False)
        )

    def _some(self, table: lw.Table) -> str:
        where = f"k = {self.random.choice([*_keys(table).values()])}"
        self.steps[-1] += f", {where}"
        return where

    def _free(self, table: lw.Table) -> int:
        taken = {*_keys(table).values()}
        return self.random.choice([key for key in range(12 + len(taken)) if key not in taken])

    def _rows(self, *keys: int) -> pa.Table:
        values = [next(self._values) for _ in keys]
        return pa.table({"k": keys, "v": values}, schema=_KEYS)


def _keys(table: lw.Table) -> dict[int, int]:
    """The keys by the ids of their rows, as pylance reads them."""
    rows = judged(table.uri, version=table.version).to_table(columns=["k"], with_row_id=True)
    return dict(zip(rows["_rowid"].to_pylist(), rows["k"].to_pylist(), strict=True))

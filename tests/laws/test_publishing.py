"""Whatever happens on a branch and on main: what is published is both, or it is refused.

The model is three maps from key to value: the table at the fork, the branch, and main. What the
branch added, removed and changed is done to main's map.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.pylance import judged

import lancewood as lw

EXAMPLES = int(os.environ.get("LANCEWOOD_LAW_EXAMPLES", "10"))
Model: TypeAlias = dict[int, int]
Step: TypeAlias = tuple[str, int]
START: Model = dict.fromkeys(range(24), 0)


def data(model: Model) -> pa.Table:
    return pa.table(
        {"k": pa.array(model.keys(), pa.int64()), "a": pa.array(model.values(), pa.int64())}
    )


class Side:
    """A branch, or main, and what it should hold. New keys and values are its own."""

    def __init__(self, table: lw.Table, first: int) -> None:
        self.table = table
        self.model = dict(START)
        self._next = first

    def do(self, step: Step) -> None:
        kind, number = step
        actions: dict[str, Callable[[int], lw.Table]] = {
            "append": self._append,
            "delete": self._delete,
            "update rows": lambda n: self._update(n, "rows"),
            "update columns": lambda n: self._update(n, "columns"),
            "compact": lambda n: self.table.compact(target_rows=4 + n),
            "config": lambda n: self.table.set_config({f"{self._next}-{n}": "x"}),
        }
        self.table = actions[kind](number)

    def _append(self, number: int) -> lw.Table:
        new = {self._next + each: -1 for each in range(number % 3 + 1)}
        self._next += len(new)
        self.model |= new
        return self.table.append(data(new))

    def _chosen(self, number: int) -> list[int]:
        """Some neighbours: a few rows of one or two fragments."""
        keys = sorted(self.model)
        return keys[number % max(1, len(keys)) :][: number % 4 + 1] or [-5]

    def _delete(self, number: int) -> lw.Table:
        chosen = self._chosen(number)
        for each in chosen:
            self.model.pop(each, None)
        return self.table.delete(f"k IN ({', '.join(map(str, chosen))})")

    def _update(self, number: int, rewrite: str) -> lw.Table:
        chosen = self._chosen(number)
        self._next += 1
        for each in chosen:
            if each in self.model:
                self.model[each] = self._next
        where = f"k IN ({', '.join(map(str, chosen))})"
        return self.table.update({"a": self._next}, where, rewrite=rewrite)  # type: ignore[arg-type]


def together(branch: Model, main: Model) -> Model:
    found = dict(main)
    for key in START.keys() | branch.keys():
        if START.get(key) == branch.get(key):
            continue
        if key in branch:
            found[key] = branch[key]
        else:
            found.pop(key, None)
    return found


def steps(most: int) -> st.SearchStrategy[Sequence[Step]]:
    kinds = ["append", "delete", "update rows", "update columns", "compact", "config"]
    return st.lists(st.tuples(st.sampled_from(kinds), st.integers(0, 30)), max_size=most)


@given(steps(4), steps(3), st.booleans())
@settings(
    max_examples=EXAMPLES,
    derandomize=EXAMPLES == 20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    database=None,
)
def test_what_is_published_is_both_or_it_is_refused(
    on_branch: Sequence[Step], on_main: Sequence[Step], stable: bool
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        uri = str(Path(directory, "t.lance"))
        table = lw.create(
            uri, data(START), layout=lw.Layout(max_rows_per_file=6, stable_row_ids=stable)
        )
        branch, main = Side(table.branches.create("exp"), 1_000), Side(table, 2_000)
        for each in on_branch:
            branch.do(each)
        for each in on_main:
            main.do(each)
        before = main.table.latest()
        try:
            after = before.branches.publish("exp")
            expected = together(branch.model, main.model)
        except lw.ConflictError:
            assert on_main
            after, expected = before.latest(), main.model
            assert after.version == before.version
        check(after, expected)
        if stable:
            check_changes(before, after, main.model, expected)


def check(table: lw.Table, expected: Model) -> None:
    found = judged(table.uri)
    rows = found.to_table(columns=["k", "a", "_rowid", "_row_last_updated_at_version"])
    assert dict(zip(rows["k"].to_pylist(), rows["a"].to_pylist(), strict=True)) == expected
    assert len(rows) == len(expected)
    assert len(set(rows["_rowid"].to_pylist())) == len(expected)
    assert all(each <= table.version for each in rows["_row_last_updated_at_version"].to_pylist())
    assert table.verify().problems == ()


def check_changes(before: lw.Table, after: lw.Table, old: Model, new: Model) -> None:
    told = after.changes(since=before.version)
    keys = [
        sorted(each.to_arrow()["k"].to_pylist())
        for each in (told.inserted, told.updated, told.deleted)
    ]
    updated = sorted(each for each in old.keys() & new.keys() if old[each] != new[each])
    assert keys == [sorted(new.keys() - old.keys()), updated, sorted(old.keys() - new.keys())]

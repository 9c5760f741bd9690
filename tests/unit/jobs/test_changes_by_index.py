"""Deletes, updates and merges that find their rows by an index do what they do without one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from tests.indexed import KINDS, make_indexed, rows

import lancewood as lw
from lancewood.engine.lookup import lookup
from lancewood.engine.rows import ScanPlan
from lancewood.jobs.runner import LocalRunner

NAMES = ["k", "i", "s", "p.x"]


@pytest.fixture(autouse=True)
def _few_rows_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are looked up that would be read with all others elsewhere: there are so few."""
    monkeypatch.setattr(lookup, "_FEW_ROWS", 1 << 20)


def cells(table: lw.Table) -> list[str]:
    """All rows, however they lie."""
    return sorted(map(str, table.scan(use_indices=False).to_arrow().to_pylist()))


def pair(uri: str, kind: str, *, stable: bool = True) -> tuple[lw.Table, lw.Table]:
    """Two tables with the same rows, of which some are changed and appended: one with indices."""
    made = []
    for name, indexed in ((uri, NAMES), (f"{uri}-2", [])):
        make_indexed(name, kind, indexed, stable=stable, count=600, per_file=100)
        table = lw.open(name).append(rows(1_000, 50)).delete("k % 13 = 2")
        made.append(table.update({"s": "'new'"}, "k % 17 = 3", rewrite="rows"))
    return made[0], made[1]


def source(*keys: int) -> pa.Table:
    return pa.table({"k": pa.array(keys, pa.int64()), "s": [f"merged {each}" for each in keys]})


CHANGES: dict[str, Callable[[lw.Table], lw.Table]] = {
    "delete one": lambda table: table.delete("k = 57"),
    "delete some": lambda table: table.delete("i IN (3, 4) AND s <> 'new'"),
    "delete none": lambda table: table.delete("k = 5000"),
    "delete in a struct": lambda table: table.delete("p.x = 5"),
    "delete nulls": lambda table: table.delete("i IS NULL"),
    "update rows": lambda table: table.update({"i": "i + 1"}, "s = 'new'", rewrite="rows"),
    "update columns": lambda table: table.update({"i": "0"}, "i = 3", rewrite="columns"),
    "update as is best": lambda table: table.update({"s": "'x'"}, "k IN (1, 599, 1001)"),
    "merge": lambda table: table.merge(source(5, 57, 1_001, 9_999), "k"),
    "merge only known": lambda table: table.merge(
        source(5, 57, 1_001, 9_999), "k", not_matched="ignore"
    ),
    "merge away": lambda table: table.merge(source(5, 9_999), "k", matched="delete"),
    "merge some": lambda table: table.merge(
        source(5, 57, 1_001, 9_999), "k", matched_where="target.i > 0"
    ),
    "merge all": lambda table: table.merge(
        source(5, 57), "k", not_matched_by_source="delete", not_matched="ignore"
    ),
    "merge by text": lambda table: table.merge(
        pa.table({"s": ["new", "text 5", None, "nobody"], "other": [1, 2, 3, 4]}), "s"
    ),
    "merge by two": lambda table: table.merge(
        pa.table({"k": [5, 57, 7], "s": ["text 84", "text 89", "nobody"], "other": [1, 2, 3]}),
        ["k", "s"],
    ),
    "merge nothing new": lambda table: table.merge(source(), "k"),
}


@pytest.mark.sliced(3)
@pytest.mark.parametrize("stable", [True, False], ids=["stable ids", "addresses"])
@pytest.mark.parametrize("kind", KINDS)
def test_changes_find_the_same_rows_by_an_index(uri: str, kind: str, stable: bool) -> None:
    indexed, plain = pair(uri, kind, stable=stable)
    assert cells(indexed) == cells(plain)
    for name, change in CHANGES.items():
        dry = (indexed.version, plain.version)
        indexed, plain = change(indexed), change(plain)
        assert cells(indexed) == cells(plain), name
        assert indexed.counts == plain.counts, name
        assert (indexed.version - dry[0], plain.version - dry[1]) in ((0, 0), (1, 1)), name
        indexed, plain = indexed.latest(), plain.latest()
    assert not indexed.verify().problems


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.delete("k = 57", dry_run=True),
        lambda table: table.update({"s": "'x'"}, "k = 57", dry_run=True),
        lambda table: table.merge(source(57), "k", dry_run=True),
    ],
    ids=["delete", "update", "merge"],
)
def test_only_the_rows_that_an_index_names_are_looked_at(
    uri: str, change: Callable[[lw.Table], lw.Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    make_indexed(uri, "BTREE", ["k"], count=600, per_file=100)
    told: list[Any] = []
    run = LocalRunner.run

    def noted(self: LocalRunner, work: Any, tasks: Any, **how: Any) -> Any:
        tasks = list(tasks)
        told.extend(each.id for some in tasks for each in some)
        return run(self, work, tasks, **how)

    monkeypatch.setattr(LocalRunner, "run", noted)
    counts = change(lw.open(uri)).counts
    assert counts is not None
    assert told == [0]


def test_a_large_source_is_not_looked_up(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from lancewood.jobs.merge_into import search

    make_indexed(uri, "BTREE", ["k"])
    monkeypatch.setattr(search, "_FEW_KEYS", 2)
    monkeypatch.setattr(search, "narrow_by_values", None)
    merged = lw.open(uri).merge(source(1, 2, 3), "k")
    assert merged.count_rows("s LIKE 'merged%'") == 3


def test_plans_tell_tasks_where_rows_are(uri: str) -> None:
    make_indexed(uri, "BTREE", ["k"], count=600, per_file=100)
    from lancewood.engine.rows import plan_scan

    plan: ScanPlan = plan_scan(lw.open(uri)._snapshot, where="k IN (105, 120, 399)")
    assert plan.stretches() == {1: (5, 21), 3: (99, 100)}

"""Merges by rows beside other writers: what is there afterwards is what one after the other would
have made, and no version merges twice.

Two of ours are stepped at every store call. pylance cannot be stepped: a merger is held before one
of its calls while others write. The model is plain dicts, and rows are read by pylance.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

import pyarrow as pa
import pytest
from tests.breadth import daily
from tests.faults.hurting import ONE, copied, through
from tests.metadata import SHARED
from tests.pylance import judged, lance

import lancewood as lw
from lancewood.engine.versions.finding import list_versions
from lancewood.engine.versions.history import load_transaction_of
from lancewood.engine.write import claims
from lancewood.format.layout import NamingScheme
from lancewood.jobs.compose.next_version import BRANCH_PROPERTY
from lancewood.jobs.merge import row_merge as plan
from lancewood.store.base import Store
from lancewood.store.disk import DiskStore
from lancewood.testing.faults import HeldStore
from lancewood.testing.schedule import ScheduleOutcome, explore

pytestmark = pytest.mark.usefixtures("no_waiting", "no_commit_under_way", "unlocked")

Rows: TypeAlias = dict[int, tuple[int, int]]
Step: TypeAlias = Callable[[Rows], Rows | None]
"""What becomes of the rows of main; None if it is refused."""
Writer: TypeAlias = Callable[[lw.Table], object]

MANY = daily(8, of=60)
"""How many orders of a case that has more are tried."""
EVERY = daily(5, of=1)
"""A merger is held before every fifth call every day, before every one in ``make campaigns``."""


def table_of(rows: Rows) -> pa.Table:
    columns = {
        "k": list(rows),
        "a": [a for a, _ in rows.values()],
        "b": [b for _, b in rows.values()],
    }
    return pa.table({name: pa.array(each, pa.int64()) for name, each in columns.items()})


BASE: Rows = {k: (k, k) for k in range(20)}
MORE: Rows = {k: (k, k) for k in range(30, 33)}
EXP: Rows = (
    {k: row for k, row in BASE.items() if k != 3}
    | {1: (91, 1), 2: (92, 2), 12: (93, 12)}
    | {k: (k, k) for k in range(100, 104) if k != 102}
)
OTHER: Rows = {k: row for k, row in BASE.items() if k != 5} | {2: (2, 82), 200: (200, 200)}
MAIN: Rows = BASE | {1: (1, 71), 15: (15, 71)}


@pytest.fixture
def unlocked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to Python 3.11 only one thread at a time works out a property of a class that is cached:
    a writer that is stepped there would stop the others."""
    modules = [each for name, each in sys.modules.items() if name.startswith("lancewood.")]
    classes = {
        each for module in modules for each in vars(module).values() if isinstance(each, type)
    }
    for each in (value for one in classes for value in vars(one).values()):
        if isinstance(each, cached_property) and hasattr(each, "lock"):
            monkeypatch.setattr(each, "lock", nullcontext())


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table with two branches, put aside: base paths are absolute, so it is always used at the
    same place."""
    monkeypatch.setattr(plan, "_FEW_ROWS", 2)
    uri = tmp_path / "t.lance"
    table = lw.create(uri, table_of(BASE), layout=lw.Layout(max_rows_per_file=10))
    exp = table.branches.create("exp").update(
        {"a": "CASE WHEN k = 12 THEN 93 ELSE 90 + k END"}, "k IN (1, 2, 12)", rewrite="rows"
    )
    exp.delete("k = 3").append(table_of({k: (k, k) for k in range(100, 104)})).delete("k = 102")
    other = table.branches.create("other").update({"b": 82}, "k = 2", rewrite="rows")
    other.delete("k = 5").append(table_of({200: (200, 200)}))
    table.update({"b": 71}, "k IN (1, 15)")
    assert [read(uri), read(uri / "tree/exp"), read(uri / "tree/other")] == [MAIN, EXP, OTHER]
    return shutil.copytree(uri, tmp_path / "kept")


def read(uri: str | Path) -> Rows:
    """The rows of a table, each once, with ids that no other row has."""
    dataset = judged(str(uri))
    found = dataset.to_table(columns=["k", "a", "b", "_rowid"]).to_pylist()
    rows = {row["k"]: (row["a"], row["b"]) for row in found}
    assert len(rows) == len(found) == len({row["_rowid"] for row in found})
    return rows


def merges(name: str) -> Writer:
    return lambda table: table.branches.merge(name, "main", runner=ONE).version


def merged(theirs: Rows) -> Step:
    """The model of a merge into main; no row of a base here was changed on both sides in one
    cell, unless it is refused."""

    def step(ours: Rows) -> Rows | None:
        found = dict[int, tuple[int, int]]()
        for k in sorted(BASE.keys() | ours.keys() | theirs.keys()):
            base, mine, yours = BASE.get(k), ours.get(k), theirs.get(k)
            if base == yours or mine == yours:
                row = mine
            elif base == mine:
                row = yours
            elif base is None or mine is None or yours is None:
                return None
            else:
                cells = [_cell(*each) for each in zip(base, mine, yours, strict=True)]
                if None in cells:
                    return None
                row = cells[0] or 0, cells[1] or 0
            if row is not None:
                found[k] = row
        return found

    return step


def _cell(base: int, mine: int, yours: int) -> int | None:
    if base == yours or mine == yours:
        return mine
    return yours if base == mine else None


def serial(*steps: Step) -> list[Rows]:
    """What one after the other makes, in both orders; who is refused changes nothing."""
    found = []
    for order in (steps, steps[::-1]):
        rows = MAIN
        for each in order:
            after = each(rows)
            rows = rows if after is None else after
        found.append(rows)
    return found


def merge_versions(uri: str | Path) -> list[int]:
    """The versions of main that are merges; not those that were cleaned up."""
    store = DiskStore(uri)
    return [
        version
        for version in list_versions(store).versions
        if version > 1
        and BRANCH_PROPERTY in load_transaction_of(store, version, NamingScheme.V2).properties
    ]


def orders(kept: Path, writers: Sequence[Writer], seed: int) -> Iterator[ScheduleOutcome]:
    """Runs of the writers in different orders of their calls; judge one before the next begins."""
    uri = kept.with_name("t.lance")

    def stepped(writer: Writer) -> Callable[[Store], object]:
        return lambda store: writer(through(uri, store))

    made = [stepped(each) for each in writers]
    yield from explore(lambda: copied(kept, uri), made, limit=MANY, seed=seed, verbs=SHARED)
    yield from explore(lambda: copied(kept, uri), made, limit=MANY // 4, seed=seed + 1)


def test_two_mergers_of_one_branch_merge_it_once(kept: Path) -> None:
    uri = kept.with_name("t.lance")
    for outcome in orders(kept, [merges("exp"), merges("exp")], 3):
        assert outcome.results == [3, 3], outcome
        assert read(uri) == merged(EXP)(MAIN)
        assert merge_versions(uri) == [3]


def test_mergers_of_two_branches_both_land(kept: Path) -> None:
    """Both change one row, in different cells."""
    uri = kept.with_name("t.lance")
    expected = serial(merged(EXP), merged(OTHER))
    assert expected[0] == expected[1]
    for outcome in orders(kept, [merges("exp"), merges("other")], 5):
        assert sorted(outcome.results) == [3, 4], outcome  # type: ignore[type-var]
        assert read(uri) == expected[0], outcome
        assert merge_versions(uri) == [4, 3]


def without(*keys: int) -> Step:
    return lambda rows: {k: row for k, row in rows.items() if k not in keys}


def setting(k: int, a: int) -> Step:
    return lambda rows: rows | ({k: (a, rows[k][1])} if k in rows else {})


BESIDE: dict[str, tuple[Writer, Step]] = {
    "append": (lambda table: table.append(table_of(MORE)), lambda rows: rows | MORE),
    "delete": (lambda table: table.delete("k IN (4, 14)"), without(4, 14)),
    "delete of a row that was updated": (lambda table: table.delete("k = 2"), without(2)),
    "delete of a row that was deleted": (lambda table: table.delete("k = 3"), without(3)),
    "update": (lambda table: table.update({"a": 66}, "k = 13"), setting(13, 66)),
    "update of the same cell": (lambda table: table.update({"a": 66}, "k = 2"), setting(2, 66)),
    "update in place": (
        lambda table: table.update({"a": 66}, "k = 13", rewrite="columns"),
        setting(13, 66),
    ),
    "compaction": (lambda table: table.compact(target_rows=100, runner=ONE), lambda rows: rows),
    "a branch": (lambda table: table.branches.create("new"), lambda rows: rows),
}
"""What else is done to main, and what that makes of its rows."""


def check_serial(uri: Path, done: object, step: Step, where: object) -> None:
    """A merge that made a version, or was refused, and another step: one after the other."""
    found, is_done = read(uri), isinstance(done, int)
    assert found in serial(merged(EXP), step), where
    assert is_done == (found != step(MAIN)), where
    left = list_versions(DiskStore(uri)).versions
    assert merge_versions(uri) == [each for each in left if each == done], where
    assert lw.open(uri).verify().problems == (), where


@pytest.mark.sliced(3)
@pytest.mark.parametrize("name", BESIDE)
def test_a_merger_beside_another_writer_goes_first_or_second(kept: Path, name: str) -> None:
    uri = kept.with_name("t.lance")
    write, step = BESIDE[name]
    for outcome in orders(kept, [merges("exp"), write], 11):
        done, other = outcome.results
        assert isinstance(done, int | lw.MergeConflictError), outcome
        assert isinstance(other, lw.Table), outcome
        check_serial(uri, done, step, outcome)


def by_pylance(uri: Path) -> lance.LanceDataset:
    return lance.dataset(str(uri))


def clean(uri: Path) -> None:
    """Main goes on, and only its newest version stays."""
    lw.open(uri).append(table_of(MORE))
    lw.open(uri).cleanup(keep_versions=1)


def clean_by_pylance(uri: Path) -> None:
    by_pylance(uri).insert(table_of(MORE))
    by_pylance(uri).cleanup_old_versions(
        older_than=timedelta(0), error_if_tagged_old_versions=False
    )


MEANWHILE: dict[str, tuple[Callable[[Path], object], Step]] = {
    "append": (lambda uri: by_pylance(uri).insert(table_of(MORE)), lambda rows: rows | MORE),
    "delete": (lambda uri: by_pylance(uri).delete("k IN (2, 14)"), without(2, 14)),
    "update": (
        lambda uri: by_pylance(uri).update({"a": "66"}, where="k = 13"),
        setting(13, 66),
    ),
    "update of the same cell": (
        lambda uri: by_pylance(uri).update({"a": "66"}, where="k = 2"),
        setting(2, 66),
    ),
    "compaction": (
        lambda uri: by_pylance(uri).optimize.compact_files(target_rows_per_fragment=100),
        lambda rows: rows,
    ),
    "index": (lambda uri: by_pylance(uri).create_scalar_index("a", "BTREE"), lambda rows: rows),
    "upsert": (
        lambda uri: (
            by_pylance(uri)
            .merge_insert("k")
            .when_matched_update_all()
            .when_not_matched_insert_all()
            .execute(table_of({13: (66, 13), 40: (40, 40)}))
        ),
        lambda rows: rows | {13: (66, 13), 40: (40, 40)},
    ),
    "cleanup": (clean, lambda rows: rows | MORE),
    "pylance's cleanup": (clean_by_pylance, lambda rows: rows | MORE),
}
"""What others do while a merger is held, most of it by pylance."""


@pytest.mark.sliced(3)
@pytest.mark.parametrize("name", MEANWHILE)
def test_a_held_merger_goes_first_or_second(kept: Path, name: str) -> None:
    uri = kept.with_name("t.lance")
    others, step = MEANWHILE[name]
    counted = HeldStore(copied(kept, uri))
    merges("exp")(through(uri, counted))
    for at in range(1, len(counted.calls) + 1, EVERY):
        store = HeldStore(copied(kept, uri), at, lambda: others(uri))
        try:
            done: object = merges("exp")(through(uri, store))
        except lw.MergeConflictError as error:
            done = error
        except lw.NotFoundError:
            if "cleanup" not in name or merge_versions(uri):
                raise
            # What it was about to open was gone already.
            done = merges("exp")(lw.open(uri))
        where = name, at, store.calls[at - 1], done
        check_serial(uri, done, step, where)


def test_two_that_claim_one_space_get_two(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever chooses at random would rarely choose the same."""

    class Same(Random):
        def randrange(self, *args: Any, **options: Any) -> int:
            return 0

    monkeypatch.setattr(claims, "_RANDOM", Same())
    uri = kept.with_name("t.lance")
    for outcome in orders(kept, [merges("exp"), BESIDE["a branch"][0]], 17):
        assert outcome.results[0] == 3, outcome
        here = lw.open(uri).append(table_of({300: (0, 0)}))
        there = lw.open(uri, branch="new").append(table_of({301: (0, 0)}))
        ids = [
            lance.dataset(each.uri).to_table(columns=["_rowid"], filter="k >= 300")["_rowid"]
            for each in (here, there)
        ]
        assert ids[0] != ids[1], outcome
        after = here.branches.merge("new")
        assert read(uri).keys() == read(here.uri).keys() | {300, 301}
        assert after.count_rows() == len(read(uri))

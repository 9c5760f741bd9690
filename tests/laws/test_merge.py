"""Laws of merges by rows, over random work on two branches of a table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.breadth import daily
from tests.counted import counts_of
from tests.histories.merges import MAIN, MergedHistory
from tests.histories.three_way import STRATEGIES, Strategy

import lancewood as lw
from lancewood.jobs.counts import Merged

SEEDS = range(daily(3, of=60))
DECIDING = [each for each in STRATEGIES if each.rows is not None]


@pytest.fixture
def history(seed: int, tmp_path: Path) -> MergedHistory:
    """A table with the branches ``one`` and ``two``."""
    uri, is_odd = str(tmp_path / "t.lance"), seed % 2 == 1
    return MergedHistory(uri, Random(seed), has_key=is_odd, by_pylance=not is_odd)


def values(history: MergedHistory, branch: str) -> list[Any]:
    """The rows without their ids, in the order of their keys."""
    return sorted(history.read(branch).values(), key=lambda row: row["k"])


def left_of(root: Path) -> dict[str, bytes]:
    """Every manifest below a root, and the names of all other files."""
    found = (each for each in root.rglob("*") if each.is_file())
    return {
        str(each.relative_to(root)): each.read_bytes() if each.suffix == ".manifest" else b""
        for each in found
    }


@pytest.mark.parametrize("seed", SEEDS)
def test_what_did_not_change_brings_nothing(history: MergedHistory) -> None:
    """merge(B, T, B) = T"""
    history.work(MAIN, 4)
    before = history.ours(MAIN)
    after = before.branches.merge("one")
    assert (after.version, counts_of(after, Merged).is_new) == (before.version, False)


@pytest.mark.parametrize("seed", SEEDS)
def test_into_what_did_not_change_all_comes(history: MergedHistory) -> None:
    """merge(B, B, S) = S"""
    history.work("one", 5)
    after = history.ours(MAIN).branches.merge("one")
    assert counts_of(after, Merged).is_fast_forward
    assert history.read(MAIN) == history.read("one")


@pytest.mark.parametrize("seed", SEEDS)
def test_both_directions_give_the_same_rows_or_the_same_conflicts(history: MergedHistory) -> None:
    both_worked(history)
    main, one = history.ours(MAIN), history.ours("one")
    main.branches.create("same")
    here, there = (conflicts_of(*each) for each in ((main, "one"), (one, "same")))
    assert here == {(row, turned(kind), columns) for row, kind, columns in there}
    if not here:
        main.branches.merge("one")
        one.branches.merge("same")
        assert values(history, MAIN) == values(history, "one")


def conflicts_of(table: lw.Table, theirs: str) -> set[tuple[Any, str, tuple[str, ...]]]:
    found = table.branches.conflicts(theirs).to_arrow().to_pylist()
    return {
        ((row["ours"] or row["theirs"])["k"], row["_kind"], (*row["_columns"],)) for row in found
    }


def turned(kind: str) -> str:
    """A kind of conflict, as the other side calls it."""
    return "/".join(reversed(kind.split("/")))


@pytest.mark.sliced(2)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("strategy", DECIDING, ids=lambda each: each.name)
def test_what_decides_all_leaves_no_conflict_and_nothing_for_a_second_time(
    history: MergedHistory, strategy: Strategy
) -> None:
    both_worked(history)
    asked: Any = {"resolve": strategy.resolve, "detect": strategy.detect}
    table = history.ours(MAIN)
    assert table.branches.conflicts("one", **asked).count() == 0
    after = table.branches.merge("one", **asked)
    assert after.branches.conflicts("one").count() == 0
    again = after.branches.merge("one")
    assert (again.version, counts_of(again, Merged).is_new) == (after.version, False)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_rehearsal_changes_nothing_and_says_the_same(history: MergedHistory) -> None:
    both_worked(history)
    root, table = Path(history.uri), history.ours(MAIN)
    before = left_of(root)
    said = counts_of(table.branches.merge("one", resolve="theirs", dry_run=True), Merged)
    assert left_of(root) == before
    done = counts_of(table.branches.merge("one", resolve="theirs"), Merged)
    assert said == replace(done, is_dry_run=True)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_branch_that_is_merged_is_never_touched(history: MergedHistory) -> None:
    both_worked(history)
    root = Path(history.uri) / "tree" / "one"
    before = left_of(root)
    history.ours(MAIN).branches.merge("one", resolve="theirs")
    assert left_of(root) == before


def both_worked(history: MergedHistory) -> None:
    for branch in (MAIN, "one"):
        history.work(branch, 4)

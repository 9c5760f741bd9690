"""Merges of three branches in every direction, the same every time; 5,100 of them in campaigns, and
proof that a wrong merge would be found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.breadth import daily
from tests.histories.merges import MAIN, MergedHistory
from tests.histories.moving_keys import MovingKeys
from tests.histories.three_way import STRATEGIES

import lancewood as lw
from lancewood.table.naming import Branches

_SEEDS = range(daily(4, of=340))
_MERGES = daily(9, of=15)


@pytest.mark.parametrize("seed", _SEEDS)
def test_every_merge_is_what_plain_dicts_say(seed: int, tmp_path: Path) -> None:
    MergedHistory(
        str(tmp_path / "t.lance"),
        Random(seed),
        has_key=seed % 2 == 1,
        by_pylance=seed % 4 > 1,
        changes_columns=seed % 3 == 1,
    ).run(_MERGES)


@pytest.mark.parametrize("seed", range(daily(2, of=200)))
def test_no_merge_leaves_a_key_twice_or_loses_a_row_whose_key_moved(
    seed: int, tmp_path: Path
) -> None:
    MovingKeys(str(tmp_path / "t.lance"), Random(seed)).run(30)


def lose_a_row(table: lw.Table) -> lw.Table:
    return table.delete("k = 1")


def change_a_cell(table: lw.Table) -> lw.Table:
    return table.update({"a": "99"}, "k = 1")


def give_a_row_another_id(table: lw.Table) -> lw.Table:
    row = table.scan(where="k = 1").to_arrow()
    return table.delete("k = 1").append(row)


@pytest.mark.parametrize("harm", [lose_a_row, change_a_cell, give_a_row_another_id])
def test_a_merge_that_does_harm_is_found(
    harm: Callable[[lw.Table], lw.Table], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    merge: Any = Branches.merge

    def harmful(branches: Any, *arguments: Any, **options: Any) -> lw.Table:
        after: lw.Table = merge(branches, *arguments, **options)
        if not options.get("dry_run"):
            harm(after)
        return after

    uri = str(tmp_path / "t.lance")
    history = MergedHistory(uri, Random(1), has_key=False, by_pylance=False)
    history.append("one")
    monkeypatch.setattr(Branches, "merge", harmful)
    with pytest.raises(AssertionError, match="row 1 is"):
        history.merge(MAIN, "one", STRATEGIES[0])

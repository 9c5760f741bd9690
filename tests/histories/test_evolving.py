"""Columns on three branches, changed in every way and merged in every direction, the same every
time; more of them in campaigns, and proof that a wrong merge would be found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.breadth import daily
from tests.histories.evolving import BRANCHES, SHAPES, evolving, swapping

import lancewood as lw
from lancewood.table.naming import Branches

_SEEDS = range(daily(len(SHAPES), of=400))
_STEPS = 40


@pytest.mark.parametrize("seed", _SEEDS)
def test_every_cell_of_every_column_is_where_plain_dicts_say(seed: int, tmp_path: Path) -> None:
    evolving(str(tmp_path / "t.lance"), seed).run(_STEPS)


@pytest.mark.parametrize("seed", range(daily(len(SHAPES), of=200)))
def test_so_they_are_where_columns_have_each_others_names(seed: int, tmp_path: Path) -> None:
    swapping(str(tmp_path / "t.lance"), seed).run(_STEPS)


def test_most_merges_are_made_and_of_most_the_model_is_sure(tmp_path: Path) -> None:
    done = Counter[str]()
    for seed in range(4):
        history = evolving(str(tmp_path / str(seed)), seed)
        for verb in ("append", "add", "update", "merge") * 10:
            history.take(verb, history.random.choice(BRANCHES))
        done.update(history.done)
    assert done["merged"] > 2 * done["refused, not merged"]
    assert done["merged without a doubt"] > done["merged"] / 2


def lose_a_row(table: lw.Table) -> lw.Table:
    return table.delete("k = 1")


def lose_a_cell(table: lw.Table) -> lw.Table:
    return table.update({table.schema.names[-1]: "NULL"}, "k = 1")


def lose_a_column(table: lw.Table) -> lw.Table:
    return table.drop_columns([table.schema.names[-1]])


def give_a_column_another_name(table: lw.Table) -> lw.Table:
    return table.rename_column(table.schema.names[-1], "other")


@pytest.mark.parametrize(
    "harm",
    [lose_a_row, lose_a_cell, lose_a_column, give_a_column_another_name],
)
def test_a_merge_that_does_harm_is_found(
    harm: Callable[[lw.Table], lw.Table], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    merge: Any = Branches.merge

    def harmful(branches: Any, *arguments: Any, **options: Any) -> lw.Table:
        after: lw.Table = merge(branches, *arguments, **options)
        return harm(after)

    history = evolving(str(tmp_path / "t.lance"), 0)
    for branch in BRANCHES:
        history.take("append", branch)
    monkeypatch.setattr(Branches, "merge", harmful)
    with pytest.raises(AssertionError, match=r"row 1 is|columns are"):
        history.take("merge", BRANCHES[0])

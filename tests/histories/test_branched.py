"""Indices on branches, the same histories every time; more of them in campaigns."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from tests.breadth import daily
from tests.histories.branched import IndexedBranches

_SEEDS = range(daily(2, of=120))
_STEPS = 30


@pytest.mark.parametrize("seed", _SEEDS)
def test_indices_of_every_branch_answer_what_its_rows_say(seed: int, tmp_path: Path) -> None:
    IndexedBranches(
        str(tmp_path / "t.lance"),
        Random(seed),
        is_stable=seed % 2 == 0,
        pylance_takes_part=seed % 4 > 1,
    ).run(_STEPS)

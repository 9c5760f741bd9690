"""Executors that are killed while they write items, and attempts that run beside each other: every
item has one snapshot of the run, and stock git is content with all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.interop.git_judge import check, git
from tests.spark.clusters.conftest import Faulty
from tests.spark.clusters.faults import Fault

from lancewood import items
from lancewood.items.folder import find_items

ITEMS = 40


def edits(spark: Any, content: str) -> Any:
    return spark.range(ITEMS).selectExpr(
        "concat('img-', id) AS item",
        "'edit.xmp' AS path",
        f"encode(concat('{content} ', id), 'UTF-8') AS content",
    )


def commits(folder: Path) -> dict[str, list[str]]:
    """What every item says of the runs that wrote it, oldest first; git has checked it."""
    found = {}
    for item in find_items(str(folder)):
        check(folder / item)
        said = git(
            folder / item, "log", "--reverse", "--format=%(trailers:key=Lancewood-Run,valueonly)"
        )
        found[item] = said.split()
    return found


@pytest.mark.campaign
@pytest.mark.spark
@pytest.mark.xdist_group("spark-standalone")
def test_killed_executors_and_stalled_attempts_leave_one_snapshot_for_each_item(
    speculating: Faulty, tmp_path: Path
) -> None:
    names = {f"img-{number}" for number in range(ITEMS)}
    speculating.faults.arm(Fault("item", "kill", under=str(tmp_path)))
    done = items.write(edits(speculating.spark, "first"), tmp_path, run="r1", partitions=4)
    assert speculating.faults.left() == 0
    assert done.items == done.written + done.already == ITEMS
    assert done.already, "the executor died after it had written an item"
    assert commits(tmp_path) == {each: ["r1"] for each in names}

    stall = Fault("item", "stall", partition=0, attempt=0, under=str(tmp_path))
    speculating.faults.arm(stall)
    again = items.write(edits(speculating.spark, "second"), tmp_path, run="r2", partitions=4)
    assert speculating.faults.left() == 0
    assert again.written + again.already == ITEMS
    assert again.already, "the attempt that stalled had written an item"
    third = items.write(edits(speculating.spark, "third"), tmp_path, run="r1", check=False)
    assert third.already == ITEMS
    assert commits(tmp_path) == {each: ["r1", "r2"] for each in names}

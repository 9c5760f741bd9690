"""Many processes on one repository, some of which are killed."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest
from tests.breadth import daily
from tests.repo.forks import Job, run
from tests.repo.locations import everywhere
from tests.repo.scene import ONE, TWO, Scene

PROCESSES = daily(6, of=16)
KILLED = -9
SEED = int(os.environ.get("LANCEWOOD_SEED", "1"))


def values_of(process: int, count: int = 2) -> list[int]:
    return [1000 * (process + 1) + number for number in range(count)]


def location_of(scene: Scene) -> dict[str, Any]:
    return {"path": scene.repo.uri, "storage": scene.where.options}


def count_of(scene: Scene) -> int:
    """A bucket's server here does one request after the other: fewer come to their turn there."""
    return PROCESSES if scene.where.is_on_disk else PROCESSES // 2


def jobs_on(scene: Scene, work: str) -> list[Job]:
    """Many processes: transactions on one table, on two, and commits of what stands."""
    location, made = location_of(scene), list[Job]()
    for process in range(count_of(scene)):
        values = values_of(process, 1 if work == "different tables" else 2)
        if work == "one table":
            tables = [ONE]
        elif work == "different tables":
            tables = [(ONE, TWO)[process % 2]]
        elif process % 4 == 0:
            made.append(Job("record", {**location, "table": ONE, "values": values}))
            continue
        else:
            tables = [(ONE, TWO)[process % 2]] if process % 4 else [ONE, TWO]
        made.append(Job("append", {**location, "tables": tables, "values": values}))
    return made


def expected(jobs: list[Job], table: str) -> list[int]:
    found = [1, 2, 3]
    for each in jobs:
        if table in each.given.get("tables", [each.given.get("table")]):
            found += each.given["values"]
    return sorted(found)


@everywhere
@pytest.mark.sliced(2)
@pytest.mark.parametrize("work", ["one table", "different tables", "mixed"])
def test_many_processes_commit_and_none_is_lost(scene: Scene, work: str) -> None:
    jobs = jobs_on(scene, work)
    assert run(jobs) == [0] * len(jobs)
    for table in (ONE, TWO):
        assert scene.values(table) == expected(jobs, table), "pylance sees each row once"
        assert scene.seen(name=table) == scene.values(table)
    assert scene.again().status().is_clean
    messages = [each.message for each in scene.again().log()]
    if work != "mixed":
        values = [value for each in jobs for value in each.given["values"]]
        assert sorted(messages) == sorted(["begin", *(f"value {value}" for value in values)])


@everywhere
def test_many_processes_of_which_one_is_killed_lose_nothing_that_was_committed(
    scene: Scene,
) -> None:
    chance = random.Random(SEED)
    jobs = jobs_on(scene, "mixed")
    victim = chance.choice([at for at, each in enumerate(jobs) if each.name == "append"])
    jobs[victim].dies_at = chance.randrange(20, 80)
    ends = run(jobs)
    assert [end for at, end in enumerate(ends) if at != victim] == [0] * (len(jobs) - 1)
    assert ends[victim] == KILLED
    committed = {each.message for each in scene.again().log()}
    theirs = jobs[victim].given
    theirs["values"] = [each for each in theirs["values"] if f"value {each}" in committed]
    assert len(theirs["values"]) < 2
    for table in (ONE, TWO):
        assert scene.seen(name=table) == expected(jobs, table)
    scene.both(7, repo=scene.again())
    for table in (ONE, TWO):
        assert scene.values(table) == scene.seen(name=table) == sorted([*expected(jobs, table), 7])


@everywhere
def test_many_processes_that_write_to_a_new_branch_share_its_beginning(scene: Scene) -> None:
    scene.repo.branches.create("exp")
    jobs = jobs_on(scene, "different tables")
    for each in jobs:
        each.given["branch"] = "exp"
    assert run(jobs) == [0] * len(jobs)
    for table in (ONE, TWO):
        assert scene.seen("exp", table) == expected(jobs, table)
        landed = scene.table(table).checkout(branch="exp").to_arrow()["id"].to_pylist()
        assert sorted(landed) == expected(jobs, table)
        assert scene.values(table) == [1, 2, 3]


@everywhere
def test_readers_only_ever_see_both_tables_moved_or_neither(scene: Scene, tmp_path: Path) -> None:
    chance = random.Random(SEED)
    given = {**location_of(scene), "tables": [ONE, TWO]}
    content = [str(tmp_path / f"content{number}") for number in range(2)]
    readers = [Job("read_together", {**given, "states": 12, "told": each}) for each in content]
    never = [str(tmp_path / "never")]
    mortals = [
        Job("append_until", {**given, "value": 100 + at, "until": never}, chance.randrange(30, 400))
        for at in range(4)
    ]
    survivor = Job("append_until", {**given, "value": 200, "until": content})
    assert run([*readers, *mortals, survivor]) == [0, 0, *[KILLED] * 4, 0]
    scene.both(7, repo=scene.again())
    assert scene.seen(name=ONE) == scene.values(ONE) == scene.values(TWO)

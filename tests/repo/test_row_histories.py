"""Random histories of three branches that are merged in every direction, against a plain model.

Each branch changes cells and rows of its own, so no merge has a conflict, and what a branch has of
an owner is the newest that it has heard of. Merges cross each other as they come.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from itertools import count

import pyarrow as pa
import pytest
from tests.repo.scene import Scene
from tests.repo.test_files_merged import ticking
from tests.repo.test_processes import SEED

from lancewood.repo.repository import Repository

OWNERS = ("main", "a", "b")
SHARED = range(6)


@dataclass(frozen=True)
class Known:
    """What a branch knows of an owner: how new it is, its cells of shared rows, and its rows."""

    age: int = 0
    cells: dict[int, int] = field(default_factory=dict)
    rows: dict[int, int] = field(default_factory=dict)


def expected(known: dict[str, Known]) -> list[tuple[int, ...]]:
    shared = [(at, *(known[owner].cells.get(at, 0) for owner in OWNERS)) for at in SHARED]
    own = [
        (row, *(value if each == owner else 0 for each in OWNERS))
        for owner in OWNERS
        for row, value in known[owner].rows.items()
    ]
    return sorted([*shared, *own])


def pylance_sees(repo: Repository, branch: str) -> list[tuple[int, ...]]:
    found = repo.at(branch).table("cells").lance()
    found.validate()
    return sorted(tuple(each.values()) for each in found.to_table().to_pylist())


@pytest.mark.parametrize("seed", [SEED, SEED + 1])
def test_branches_merged_in_every_direction_hold_what_they_heard_of(
    scene: Scene, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticking(monkeypatch)
    chance, repo, numbers = random.Random(seed), scene.repo, count(1000)
    zeros = {owner: [0] * len(SHARED) for owner in OWNERS}
    with repo.transaction("main", "cells") as changes:
        changes.create_table("cells", pa.table({"id": [*SHARED], **zeros}))
    for owner in OWNERS[1:]:
        repo.branches.create(owner)
    known = {branch: dict.fromkeys(OWNERS, Known()) for branch in OWNERS}

    def write(branch: str) -> None:
        mine = known[branch][branch]
        cells, rows = dict(mine.cells), dict(mine.rows)
        with repo.transaction(branch, "write") as changes:
            table = changes.table("cells")
            at, value = chance.choice(SHARED), chance.randrange(1, 99)
            cells[at] = value
            table = table.update({branch: f"{value}"}, f"id = {at}")
            if chance.random() < 0.6:
                row = next(numbers)
                rows[row] = value
                new = {owner: [value if owner == branch else 0] for owner in OWNERS}
                table = table.append(pa.table({"id": [row], **new}))
            if rows and chance.random() < 0.4:
                gone = chance.choice([*rows])
                del rows[gone]
                table.delete(f"id = {gone}")
        known[branch][branch] = Known(mine.age + 1, cells, rows)

    def merge(name: str, into: str) -> None:
        repo.merge(name, branch=into)
        for owner in OWNERS:
            newest = max(known[into][owner], known[name][owner], key=lambda each: each.age)
            known[into][owner] = newest
        assert pylance_sees(repo, into) == expected(known[into])

    for _ in range(14):
        write(chance.choice(OWNERS))
        if chance.random() < 0.7:
            merge(*chance.sample(OWNERS, 2))
    for name in OWNERS[1:]:
        merge(name, "main")
    assert repo.fsck(deep=True).is_ok

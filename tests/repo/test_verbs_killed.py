"""SIGKILL in the middle of merge, reset, revert, cherry-pick and a transaction in SQL, each in a
process of its own.

One step of each, drawn by a seed; with LANCEWOOD_EVERY_STEP=1 every one.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
from tests.interop import git_judge
from tests.repo.faults import EVERY_STEP, MOST_STEPS
from tests.repo.forks import Job, run
from tests.repo.locations import Where
from tests.repo.scene import Scene
from tests.repo.test_processes import KILLED, SEED
from tests.repo.test_verbs_hurt import TRANSACTION, prepared

AT_ONCE = 8
CALLS: dict[str, tuple[str, list[str], dict[str, str]]] = {
    "merge": ("merge", ["exp"], {}),
    "merge by rows": ("merge", ["exp"], {}),
    "move": ("merge", ["main"], {"branch": "exp"}),
    "reset": ("reset", ["HEAD~1"], {}),
    "reset to another branch of the tables": ("reset", ["exp~1"], {"branch": "exp"}),
    "revert": ("revert", ["HEAD"], {}),
    "revert by rows": ("revert", ["HEAD~1"], {}),
    "cherry-pick": ("cherry_pick", ["exp"], {}),
    "sql transaction": ("sql", [TRANSACTION], {}),
}


def chosen(name: str) -> list[int]:
    """The steps at which one dies; there are about a hundred of each verb."""
    if EVERY_STEP:
        return [*range(1, 10 * MOST_STEPS)]
    return random.Random(f"{SEED} {name}").sample(range(1, 60), 1)


@pytest.mark.parametrize("name", CALLS)
def test_a_verb_that_is_killed_is_done_or_not(scene: Scene, tmp_path: Path, name: str) -> None:
    verb, left = prepared(scene, name), chosen(name)
    called, args, options = CALLS[name]
    ends: list[int] = []
    while left and 0 not in ends:
        steps, left = left[:AT_ONCE], left[AT_ONCE:]
        locations = [tmp_path / f"work{step}" for step in steps]
        for each in locations:
            shutil.copytree(scene.path, each)
        given = [
            {"path": str(each), "storage": None, "verb": called, "args": args, "options": options}
            for each in locations
        ]
        ends = run([Job("call", each, step) for each, step in zip(given, steps, strict=True)])
        for each, end in zip(locations, ends, strict=True):
            verb.check(Scene.at(Where(each)), "done" if end == 0 else "dead")
            git_judge.check(each)
            shutil.rmtree(each)
    assert (0 in ends) if EVERY_STEP else (KILLED in ends)

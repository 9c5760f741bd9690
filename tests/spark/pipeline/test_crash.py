"""A driver that dies, and two that run at once, on a real Spark: every row exactly once.

What may happen between any two steps of a run is swept without Spark, in the unit tests.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.breadth import EVERY_CASE
from tests.spark.pipeline.run_scene import At, Died, Scene, ended, meet

from lancewood.pipeline.report.facts import Ending

ROWS = [(1, "APE"), (2, "BEE"), (3, "CAT")]


def scene_with_news(path: Path, **said: Any) -> Scene:
    scene = Scene.at(path, **said)
    scene.give("a", "1,ape", "2,bee", "3,cat")
    return scene


@pytest.mark.sliced(2)
@pytest.mark.parametrize("event", ["ended load animals", "ended remember", "ended publish"])
def test_a_run_that_died_is_done_once_by_the_next_with_its_id(
    spark: Any, tmp_path: Path, event: str
) -> None:
    scene = scene_with_news(tmp_path, incremental=event != "ended load animals")

    def die() -> None:
        raise Died(event)

    with pytest.raises(Died):
        scene.run(spark, "r1", listener=At(event, die))
    heard = At()
    again = scene.run(spark, "r1", listener=heard)
    is_late = event == "ended publish"
    assert again.ending is (Ending.ALREADY_PUBLISHED if is_late else Ending.PUBLISHED)
    assert "begun load animals" not in heard.events, "it goes on where it was"
    assert scene.rows("animals") == ROWS
    assert len(scene.rows("seen")) == 3
    scene.check_tidy()


@pytest.mark.campaign
def test_a_driver_that_is_killed_at_every_moment_loads_once(spark: Any, tmp_path: Path) -> None:
    scene = scene_with_news(tmp_path)
    for event in ("ended load animals", *(["begun publish"] * EVERY_CASE), "ended publish"):
        code, errors = ended(scene.process("r1", event))
        assert code == -9, errors
    assert scene.repo.at("main").commit.parents == ()
    assert scene.run(spark, "r1").ending is Ending.ALREADY_PUBLISHED
    assert scene.rows("animals") == ROWS
    assert len(scene.rows("seen")) == 3
    scene.check_tidy()


@pytest.mark.campaign
def test_two_runs_at_once_into_the_same_tables_both_land(spark: Any, tmp_path: Path) -> None:
    scene = scene_with_news(tmp_path, warn="warn = true", incremental=False)
    scene.run(spark, "r0")
    folder = tmp_path / "meeting"
    folder.mkdir()
    other = scene.process("theirs", f"meet:{folder}:theirs:ours")
    mine = At("begun publish", lambda: meet(folder, "ours", "theirs"))
    facts = scene.run(spark, "ours", listener=mine)
    code, errors = ended(other)
    assert code == 0, errors
    assert facts.ending is Ending.PUBLISHED
    assert scene.rows("animals") == ROWS
    assert len(scene.rows("seen")) == 9
    messages = [each.message.partition("\n")[0] for each in scene.repo.log("main")]
    assert sorted(messages) == ["zoo: run ours", "zoo: run r0", "zoo: run theirs"]
    scene.check_tidy()

"""What the history of the target says of runs: a reset loses them, a revert takes them back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.unit.pipeline.run_scene import Died, Points, Scene

from lancewood.errors import AlreadyExistsError
from lancewood.pipeline.report.facts import Ending
from lancewood.pipeline.running.runs import known_runs


@pytest.fixture(autouse=True)
def _unsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANCEWOOD_FSYNC", "0")


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """Three days of an incremental source, each with its tag."""
    scene = Scene.at(tmp_path, tag="zoo-{run}").incremental()
    scene.incoming.values.update(a=[1], b=[])
    scene.run("d1")
    for number in (2, 3):
        scene.incoming.values["a"].append(number)
        scene.run(f"d{number}")
    assert scene.landed("photos") == [1, 2, 3]
    return scene


def states(scene: Scene) -> dict[str, str]:
    return {each.run: each.state for each in known_runs(scene.repo)}


def test_a_run_that_was_reset_away_is_published_again_under_its_id(scene: Scene) -> None:
    lost = scene.repo.at("main").hash
    scene.repo.reset("zoo-d1")
    assert states(scene) == {"d1": "published", "d2": "reset away", "d3": "reset away"}
    listener = Points()
    facts = scene.run("d3", listener=listener)
    assert facts.ending is Ending.PUBLISHED
    assert scene.landed("photos") == [1, 2, 3], "what d2 had read is new again as well"
    assert scene.seen("zoo_a_files") == [1, 2, 3]
    assert facts.commit == scene.repo.at("main").hash != lost
    assert scene.repo.at("zoo-d3").hash == facts.commit, "its tag goes with it"
    assert f"run d3 was published by {lost[:12]}" in listener.texts[0]
    assert "reset: it runs again" in listener.texts[0]
    assert f"tag zoo-d3 was at {lost[:12]}" in listener.texts[1]
    assert states(scene) == {"d1": "published", "d2": "reset away", "d3": "published"}
    assert scene.run("d3").ending is Ending.ALREADY_PUBLISHED
    assert scene.run("d2").ending is Ending.NOTHING_NEW
    scene.check_tidy()


def test_a_dry_run_of_a_run_that_was_reset_away_is_one(scene: Scene) -> None:
    scene.repo.reset("zoo-d1")
    assert scene.run("d3", dry_run=True).ending is Ending.DRY_RUN
    assert scene.run("d1", dry_run=True).ending is Ending.ALREADY_PUBLISHED


@pytest.mark.parametrize("stage", ["tag", "record", "remove branch"])
def test_a_run_that_died_after_it_was_published_again_is_known(scene: Scene, stage: str) -> None:
    scene.repo.reset("zoo-d1")
    points = Points()
    scene.run("d3", listener=points)
    at = points.events.index(f"begun {stage}") + 1
    scene.repo.reset("zoo-d1")
    with pytest.raises(Died):
        scene.run("d3", listener=Points(at))
    scene.incoming.values["a"].append(4)
    assert scene.run("d4").ending is Ending.PUBLISHED
    facts = scene.run("d3")
    assert facts.ending is Ending.ALREADY_PUBLISHED
    assert scene.landed("photos") == [1, 2, 3, 4]
    assert scene.repo.at("zoo-d3").hash == facts.commit == scene.repo.at("main~1").hash
    assert states(scene)["d3"] == "published"


def test_a_run_that_was_reverted_says_so_and_loads_nothing(scene: Scene) -> None:
    published = scene.repo.at("main").hash
    report = scene.repo.path / "lancewood/runs/zoo/d3/report.json"
    before = report.read_bytes()
    reverting = scene.repo.revert("zoo-d3").hash
    assert reverting is not None
    for dry_run in (False, True):
        facts = scene.run("d3", dry_run=dry_run)
        assert (facts.ending, facts.commit) == (Ending.REVERTED, published)
        assert str(facts.error) == (
            f"run 'd3' was published by {published[:12]}, and {reverting[:12]} reverted that: "
            "nothing is loaded under this id. Another run id loads it again, and so does lw revert "
            "of the revert"
        )
        assert facts.what_next == [f"lw run {scene.pipeline.file}"]
    assert scene.landed("photos") == [1, 2]
    assert report.read_bytes() == before, "the report of the publication stays"
    assert states(scene)["d3"] == f"reverted by {reverting[:12]}"
    assert scene.run("d3-again").ending is Ending.PUBLISHED
    assert scene.landed("photos") == [1, 2, 3]
    assert scene.run("d3").ending is Ending.REVERTED, "also further back in the history"


def test_a_revert_that_was_reverted_leaves_the_run_published(scene: Scene) -> None:
    first = scene.repo.revert("zoo-d3").hash
    scene.repo.revert(str(first))
    assert scene.landed("photos") == [1, 2, 3]
    assert scene.run("d3").ending is Ending.ALREADY_PUBLISHED
    assert states(scene)["d3"] == "published"
    scene.incoming.values["a"].append(4)
    scene.run("d4")
    assert scene.run("d3").ending is Ending.ALREADY_PUBLISHED
    again = scene.repo.revert("zoo-d4").hash
    assert states(scene)["d4"] == f"reverted by {str(again)[:12]}"


def test_an_id_that_another_branch_has_is_refused_with_the_way_out(scene: Scene) -> None:
    report = scene.repo.path / "lancewood/runs/zoo/d3/report.json"
    before = report.read_bytes()
    scene.repo.branches.create("dev", at="zoo-d2")
    dev = scene.changed(branch="dev")
    assert dev.run("d2").ending is Ending.ALREADY_PUBLISHED, "the history of both has it"
    with pytest.raises(AlreadyExistsError, match=r"published into branch 'main'.*merge 'main', or"):
        dev.run("d3")
    assert report.read_bytes() == before
    assert dev.run("d3-dev").ending is Ending.PUBLISHED
    assert states(scene)["d3-dev"] == "published"
    scene.repo.reset("zoo-d1", branch="dev")
    assert states(scene)["d3-dev"] == "reset away"
    assert states(scene)["d3"] == "published"


def test_another_branch_that_is_published_into_takes_no_ref_away(scene: Scene) -> None:
    scene.repo.branches.create("dev", at="main")
    scene.repo.reset("zoo-d2")
    again = scene.run("d3")
    scene.incoming.values["a"].append(4)
    assert scene.changed(branch="dev").run("d4-dev").ending is Ending.PUBLISHED
    scene.run("d4")
    facts = scene.run("d3")
    assert (facts.ending, facts.commit) == (Ending.ALREADY_PUBLISHED, again.commit)
    assert scene.landed("photos") == [1, 2, 3, 4]


def test_an_entry_of_an_older_lancewood_names_no_branch_and_holds(scene: Scene) -> None:
    entry = json.loads(scene.repo.at("main").read("pipelines/zoo.json"))
    assert entry.pop("branch") == "main"
    text = json.dumps(entry).encode()
    with scene.repo.transaction("main", "as it was", files={"pipelines/zoo.json": text}):
        pass
    assert scene.run("d3").ending is Ending.ALREADY_PUBLISHED
    assert states(scene)["d3"] == "published"

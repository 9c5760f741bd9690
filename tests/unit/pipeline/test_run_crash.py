"""A run that dies anywhere: the target is before or after, and the same id loads exactly once."""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.breadth import daily
from tests.repo.faults import at_file_step
from tests.unit.pipeline.run_scene import SPOT, Died, Points, Scene, rows

from lancewood.pipeline.context import RunContext
from lancewood.pipeline.definition.model import Function, UniqueCheck
from lancewood.pipeline.report.facts import CheckFacts, Ending
from lancewood.repo.outcome import NotLandedWarning
from lancewood.testing.faults import Killed

CHECK = UniqueCheck("ids", SPOT, False, "photos", ("id",))


@pytest.fixture(autouse=True)
def _unsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANCEWOOD_FSYNC", "0")


def unique_ids(context: RunContext) -> list[CheckFacts]:
    found = context.open_now("photos").to_arrow()["id"].to_pylist()
    return [CheckFacts("ids", "unique", "photos", len(found) == len(set(found)))]


def first(path: Path) -> Scene:
    """Into a repository that is not there; bad rows and a tag."""
    scene = Scene.at(path, tag="v-{run}", checks=(CHECK,))
    scene.incoming.values["a"] = [1, -5, 2]
    return replace(scene, checks=unique_ids)


def second(path: Path) -> Scene:
    """Into tables that are there, one of them elsewhere on the target's own branch."""
    scene = first(path)
    scene.run("r0")
    scene.repo.branches.create("dev", at="main")
    scene.incoming.values.update(a=[7, -8, 9], b=[10])
    return scene.changed(branch="dev")


def incremental(path: Path) -> Scene:
    """After a first run, with news."""
    scene = first(path).incremental()
    scene.run("r0")
    scene.incoming.values["a"] += [7, -8, 9]
    return scene


def state(scene: Scene) -> tuple[object, ...]:
    """All that counts of a target."""
    branch = scene.pipeline.branch
    view = scene.repo.at(branch)
    bad = view.table("quarantine").to_arrow()["record"].to_pylist()
    entry = json.loads(view.read("pipelines/zoo.json"))
    return (
        scene.all_seen(branch),
        bad,
        entry["sources"],
        entry["tag"],
        scene.repo.tags.list().keys(),
    )


@pytest.mark.sliced(2)
@pytest.mark.parametrize("make", [first, second, incremental])
def test_a_run_that_died_at_any_event_is_done_once_by_the_next_with_its_id(
    tmp_path: Path, make: Callable[[Path], Scene]
) -> None:
    points = Points()
    clean = make(tmp_path / "clean")
    clean.run(listener=points)
    wanted, log = state(clean), len([*clean.repo.log(clean.pipeline.branch)])
    assert len(points.events) > 20
    (tmp_path / "begun").mkdir()
    begun = make(tmp_path / "begun")
    every = daily(4, of=1)
    for at, event in [*enumerate(points.events, 1)][::every]:
        path = tmp_path / f"at{at}"
        shutil.copytree(tmp_path / "begun", path)
        scene = replace(
            begun, path=path, pipeline=replace(begun.pipeline, repository=str(path / "repo"))
        )
        with pytest.raises(Died, match=event):
            scene.run(listener=Points(at))
        again = scene.run()
        expected = Ending.PUBLISHED
        if points.events.index("ended publish") < at:
            expected = Ending.ALREADY_PUBLISHED
        assert again.ending is expected, event
        assert state(scene) == wanted, event
        assert len([*scene.repo.log(scene.pipeline.branch)]) == log, event
        scene.check_tidy()
        assert (Path(again.folder) / "report.json").exists()
        shutil.rmtree(path)


def test_a_run_that_died_after_a_target_goes_on_with_the_next(tmp_path: Path) -> None:
    points = Points()
    first(tmp_path / "clean").run(listener=points)
    at = points.events.index("begun load labels") + 1
    scene = first(tmp_path / "scene")
    with pytest.raises(Died):
        scene.run(listener=Points(at))
    again = Points()
    facts = scene.run(listener=again)
    assert "begun load photos" not in again.events
    assert [each.table for each in facts.targets] == ["photos", "labels"]
    assert facts.targets[0].columns_added == ("id",)
    assert scene.all_seen() == {"photos": [1, 2], "labels": [3]}


@pytest.mark.parametrize("what", ["digest", "code", "target", "incremental"])
def test_a_run_begins_anew_if_something_that_counts_is_another(tmp_path: Path, what: str) -> None:
    points = Points()
    scene = incremental(tmp_path) if what == "incremental" else second(tmp_path)
    function = Function("f", SPOT, "zoo_steps:f", "int")
    scene = scene.changed(functions=(function,))
    scene.run("clean", listener=points)
    at = points.events.index("ended load labels") + 1
    if what != "incremental":
        scene.incoming.values["a"].clear()
    scene.incoming.values["a"].append(20)
    with pytest.raises(Died):
        scene.run("r5", listener=Points(at))
    if what == "digest":
        scene = scene.changed(digest="another")
    if what == "code":
        (tmp_path / "zoo_steps.py").write_text("def f(): return 1")
    if what == "target":
        with scene.repo.transaction(scene.pipeline.branch, "another") as changes:
            changes.table("labels").append(rows(30))
    scene.incoming.values["a"].append(21)
    again = Points()
    scene.run("r5", listener=again)
    assert "begun load photos" in again.events
    assert scene.seen("photos", scene.pipeline.branch) == [1, 2, 7, 9, 20, 21]
    scene.check_tidy()


@pytest.mark.parametrize(
    ("died_at", "came_since", "loaded_again"),
    [("begun load labels", [], ["load labels"]), ("begun publish", [21], [])],
    ids=["that gives the same", "everything is loaded"],
)
def test_a_run_with_an_incremental_source_goes_on_if(
    tmp_path: Path, died_at: str, came_since: list[int], loaded_again: list[str]
) -> None:
    points = Points()
    scene = incremental(tmp_path)
    scene.run("clean", listener=points)
    scene.incoming.values["a"].append(20)
    with pytest.raises(Died):
        scene.run("r5", listener=Points(points.events.index(died_at) + 1))
    scene.incoming.values["a"] += came_since
    again = Points()
    facts = scene.run("r5", listener=again)
    assert facts.ending is Ending.PUBLISHED
    begun = [each.removeprefix("begun ") for each in again.events if each.startswith("begun load")]
    assert begun == loaded_again
    assert [each.table for each in facts.targets] == ["photos", "labels"]
    assert scene.seen("photos", scene.pipeline.branch) == [1, 2, 7, 9, 20]
    next_one = scene.run("r6")
    assert next_one.ending is (Ending.PUBLISHED if came_since else Ending.NOTHING_NEW)
    assert scene.seen("photos", scene.pipeline.branch) == [1, 2, 7, 9, 20, *came_since]
    scene.check_tidy()


def test_a_run_that_ended_with_a_failure_begins_anew(tmp_path: Path) -> None:
    scene = first(tmp_path)
    scene.incoming.values["a"] = [1, 1]
    assert scene.run().ending is Ending.CHECKS_FAILED
    scene.incoming.values["a"] = [1]
    assert scene.run().ending is Ending.PUBLISHED
    assert scene.seen("photos") == [1]


def test_a_run_whose_branch_somebody_deleted_leaves_no_rows_behind(tmp_path: Path) -> None:
    scene = second(tmp_path)
    scene.incoming.values["a"] = [7, 7]
    assert scene.run().ending is Ending.CHECKS_FAILED
    scene.repo.branches.delete("run/r1", force=True)
    scene.incoming.values["a"] = [7]
    assert scene.run().ending is Ending.PUBLISHED
    assert scene.seen("photos", "dev") == [1, 2, 7]
    scene.check_tidy()


@pytest.mark.parametrize("start", range(2))
def test_a_run_that_died_at_a_change_to_the_files_of_the_repository(
    tmp_path: Path, start: int
) -> None:
    """Far finer than events: a few of the many steps of each test run, all of them by and by."""
    clean = second(tmp_path / "clean")
    clean.run()
    wanted = state(clean)
    begun = second(tmp_path / "begun")
    at, is_over = 5 + start * 31, False
    while not is_over:
        path = tmp_path / f"at{at}"
        shutil.copytree(tmp_path / "begun", path)
        pipeline = replace(begun.pipeline, repository=str(path / "repo"))
        scene = replace(begun, path=path, pipeline=pipeline)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotLandedWarning)
            with at_file_step(path / "repo", at, "kill") as steps:
                try:
                    scene.run()
                    is_over = True
                except Killed:
                    assert steps.is_dead
        if not is_over:
            shutil.rmtree(path / "repo" / "lancewood" / "runs" / ".claims", ignore_errors=True)
            assert scene.run().ending in (Ending.PUBLISHED, Ending.ALREADY_PUBLISHED), steps.calls
        assert state(scene) == wanted, steps.calls[-1:]
        scene.check_tidy()
        shutil.rmtree(path)
        at += 61

"""A run from claim to report: how it ends, and what it leaves."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import lance
import pytest
from tests.unit.pipeline.run_scene import SPOT, FakeFrames, FakeWork, Points, Scene, rows

import lancewood as lw
from lancewood.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidInputError,
    LancewoodError,
    RetryableConflictError,
    RunFailedError,
    StorageError,
)
from lancewood.pipeline import clean
from lancewood.pipeline.context import RunContext
from lancewood.pipeline.definition.model import (
    Mode,
    Quarantine,
    Secret,
    SqlCheck,
    Target,
    UniqueCheck,
)
from lancewood.pipeline.report.facts import CheckFacts, Ending
from lancewood.pipeline.report.page import page
from lancewood.pipeline.running import run as running
from lancewood.pipeline.running.run import start_session
from lancewood.pipeline.running.runs import RunFolder, claimed
from lancewood.repo.refs import Marks, Tags

UNIQUE = UniqueCheck("ids", SPOT, False, "photos", ("id",))


@pytest.fixture(autouse=True)
def _unsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANCEWOOD_FSYNC", "0")


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene.at(tmp_path)


def unique_ids(context: RunContext) -> list[CheckFacts]:
    found = context.open_now("photos").to_arrow()["id"].to_pylist()
    return [CheckFacts("ids", "unique", "photos", len(found) == len(set(found)))]


def test_a_first_run_publishes_one_commit_with_one_parent_and_leaves_nothing(scene: Scene) -> None:
    facts = scene.run()
    assert facts.ending is Ending.PUBLISHED
    assert scene.all_seen() == {"photos": [1, 2], "labels": [3]}
    assert (scene.landed("photos"), scene.landed("labels")) == ([1, 2], [3])
    assert [each.hash for each in scene.repo.log("main")] == [facts.commit]
    scene.check_tidy()
    assert lance.dataset(scene.uri("photos")).count_rows() == 2
    assert lw.open(scene.uri("photos")).base_paths == ()
    scene.incoming.values["a"] = [4]
    second = scene.run("r2")
    assert scene.repo.at("main").commit.parents == (facts.commit,)
    assert (second.base_commit, scene.seen("photos")) == (facts.commit, [1, 2, 4])
    assert [each.run for each in second.past] == ["r1", "r2"]
    assert [each.rows["photos"] for each in second.past] == [2, 3]
    assert [each.name for each in second.stages] == [
        "look back",
        "analyse",
        "branch",
        "load photos",
        "load labels",
        "quarantine",
        "remember",
        "publish",
        "record",
        "remove branch",
    ]
    scene.check_tidy()
    assert scene.repo.fsck().is_ok


def test_a_search_for_new_files_is_a_stage_and_every_stage_says_when_it_began(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(frames: FakeFrames) -> bool | None:
        time.sleep(0.05)
        return False

    monkeypatch.setattr(FakeFrames, "is_empty", slow)
    facts = scene.incremental().run()
    first = facts.stages[:4]
    names = ["look back", "look for what is new", "list what is new", "analyse"]
    assert [each.name for each in first] == names
    assert first[2].seconds >= 0.05
    ends = 0.0
    for each in facts.stages:
        assert each.begun is not None
        assert each.begun >= ends
        ends = each.begun + each.seconds


def test_a_stage_that_fails_is_in_the_timeline_and_nobody_hears_that_it_ended(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load_target(*_: object) -> NoReturn:
        time.sleep(0.05)
        raise RunFailedError("the disk is full")

    points = Points()
    monkeypatch.setattr(FakeWork, "load_target", staticmethod(load_target))
    with pytest.raises(RunFailedError) as caught:
        scene.run(listener=points)
    facts = caught.value.facts["run_facts"]
    *before, last = facts.stages
    assert (last.name, last.is_failed) == ("load photos", True)
    assert last.seconds >= 0.05
    assert not any(each.is_failed for each in before)
    assert "ended load photos" not in points.events
    told = json.loads((Path(facts.folder) / "report.json").read_text())
    assert told["stages"][-1]["is_failed"] is True


@pytest.mark.parametrize("kind", [InvalidInputError, RunFailedError])
def test_what_fails_in_a_load_names_the_target(
    scene: Scene, kind: type[LancewoodError], monkeypatch: pytest.MonkeyPatch
) -> None:
    def load_target(*_: object) -> NoReturn:
        raise kind("two rows have the same key", key=5)

    monkeypatch.setattr(FakeWork, "load_target", staticmethod(load_target))
    with pytest.raises(kind) as caught:
        scene.run()
    spot = scene.pipeline.targets[0].spot
    assert caught.value.message == f"{spot}: two rows have the same key"
    assert caught.value.facts["key"] == 5


def test_the_same_id_again_does_nothing(scene: Scene) -> None:
    first = scene.run()
    report = (Path(first.folder) / "report.json").read_text()
    again = scene.run()
    assert (again.ending, again.commit) == (Ending.ALREADY_PUBLISHED, first.commit)
    assert scene.seen("photos") == [1, 2]
    assert (Path(first.folder) / "report.json").read_text() == report
    scene.run("r2")
    assert scene.run().ending is Ending.ALREADY_PUBLISHED, "by its ref"
    assert scene.seen("photos") == [1, 1, 2, 2]


def test_the_report_and_the_ledger_say_what_happened(scene: Scene) -> None:
    facts = scene.changed(tag="v-{run}", parameters={"day": "1"}).run()
    told = json.loads((Path(facts.folder) / "report.json").read_text())
    assert (told["ending"], told["commit"], told["tag"]) == ("published", facts.commit, "v-r1")
    assert (Path(facts.folder) / "report.html").read_text() == page(facts)
    assert scene.repo.tags.list() == {"v-r1": facts.commit}
    entry = scene.repo.at("main").read("pipelines/zoo.json").decode()
    assert json.loads(entry)["run"] == "r1"
    assert '"day": "1"' in entry
    assert scene.repo.marks.find("runs/zoo/r1") == facts.commit


def test_stages_are_told_with_their_place_in_the_time_of_the_run(scene: Scene) -> None:
    facts = scene.run()
    at = 0.0
    for each in facts.stages:
        assert each.begun is not None
        assert at <= each.begun
        at = each.begun + each.seconds
    first = facts.stages[0].begun
    assert first is not None
    assert first <= facts.seconds


def test_a_report_that_cannot_be_written_does_not_make_a_published_run_fail(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError("the disk is full")

    points = Points()
    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "write", fail)
        facts = scene.run(listener=points)
    assert (facts.ending, scene.seen("photos")) == (Ending.PUBLISHED, [1, 2])
    assert points.texts == ["there is no report: the disk is full"]
    assert points.events[-1] == "over"
    assert (Path(scene.run().folder) / "report.json").exists(), "the same id again writes it"


def test_a_check_that_fails_leaves_the_target_and_keeps_the_branch(scene: Scene) -> None:
    scene.run()
    before = scene.repo.at("main").hash
    scene = replace(scene.changed(checks=(UNIQUE,)), checks=unique_ids)
    failed = scene.run("r2")
    assert failed.ending is Ending.CHECKS_FAILED
    assert scene.repo.at("main").hash == before
    assert scene.seen("photos", "run/r2") == [1, 1, 2, 2]
    scene.incoming.values["a"] = [7]
    fixed = scene.run("r2")
    assert (fixed.ending, scene.seen("photos")) == (Ending.PUBLISHED, [1, 2, 7])
    scene.check_tidy()


def test_a_warning_does_not_keep_a_run_from_publishing(scene: Scene) -> None:
    check = replace(UNIQUE, is_warning=True)
    told = CheckFacts("ids", "unique", "photos", is_passed=False, is_warning=True)
    found = replace(scene.changed(checks=(check,)), checks=lambda context: [told]).run()
    assert (found.ending, found.checks) == (Ending.PUBLISHED, [told])


def test_bad_rows_go_to_the_quarantine_and_too_many_end_the_run(scene: Scene) -> None:
    scene.incoming.values["a"] = [1, -2, 3]
    facts = scene.run()
    assert facts.quarantine is not None
    assert facts.quarantine.rows == 1
    assert scene.seen("photos") == [1, 3]
    assert scene.repo.at("main").table("quarantine").to_arrow()["record"].to_pylist() == ["a -2"]
    strict = scene.changed(quarantine=Quarantine(most_rows=0))
    beyond = strict.run("r2")
    assert beyond.ending is Ending.TOO_MANY_BAD_ROWS
    assert f"lw table cat tables/quarantine.lance@{beyond.run_branch}" in beyond.what_next
    assert scene.seen("photos") == [1, 3]
    assert scene.repo.at("run/r2").table("quarantine").count_rows() == 2


def test_a_run_without_news_makes_no_commit(scene: Scene) -> None:
    scene = scene.incremental()
    scene.incoming.values["b"] = []
    first = scene.run()
    none = scene.run("r2")
    assert (none.ending, scene.repo.at("main").hash) == (Ending.NOTHING_NEW, first.commit)
    assert none.folder == "", "one that is started every minute would fill the disk"
    assert [each.name for each in Path(first.folder).parent.iterdir()] == ["r1"]
    scene.check_tidy()
    scene.incoming.values["a"].append(9)
    assert scene.run("r3").ending is Ending.PUBLISHED
    assert scene.seen("photos") == [1, 2, 9]
    assert scene.seen("zoo_a_files") == [1, 2, 9]


def test_a_run_that_changes_nothing_makes_no_commit(scene: Scene) -> None:
    first = scene.run()
    scene.incoming.values.update(a=[], b=[])
    facts = scene.run("r2")
    assert facts.ending is Ending.NOTHING_NEW
    assert scene.repo.at("main").hash == first.commit
    scene.check_tidy()


def test_without_news_nobody_looks_at_what_the_sources_are_like(scene: Scene) -> None:
    scene = scene.incremental()
    scene.run()
    del scene.incoming.values["b"]
    assert scene.run("r2").ending is Ending.NOTHING_NEW
    scene.incoming.values["a"].append(9)
    with pytest.raises(InvalidInputError, match="cannot be read"):
        scene.run("r2")


def test_a_run_without_news_says_so_before_spark_starts(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = scene.incremental()
    scene.run()

    def start(_: object) -> NoReturn:
        raise AssertionError("Spark starts")

    monkeypatch.setattr(running, "start_session", start)
    facts = scene.run("r2", spark=None)
    assert facts.ending is Ending.NOTHING_NEW
    assert [each.name for each in facts.stages] == ["look back", "look for what is new"]
    assert "spark" not in facts.versions
    scene.incoming.values["a"].append(9)
    with pytest.raises(RunFailedError, match="Spark starts"):
        scene.run("r2", spark=None)


@pytest.mark.parametrize("said", [{}, {"master": "local[4]", "spark.x": "y"}])
def test_which_spark_a_run_takes_is_left_to_the_session_unless_the_file_says(
    scene: Scene, said: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(running, "session", lambda master, **more: asked.append((master, more)))
    start_session(scene.changed(spark=said).pipeline)
    conf = {key: value for key, value in said.items() if key != "master"}
    assert asked == [(said.get("master"), {"app_name": "lancewood zoo", "conf": conf})]


@pytest.mark.parametrize("verbose", [True, False])
def test_spark_logs_no_failing_tasks_during_a_run_unless_that_is_asked_for(
    scene: Scene, verbose: bool
) -> None:
    levels = dict.fromkeys(("Executor", "TaskSetManager", "MicroBatchExecution"), "ERROR")

    def named(name: str) -> str:
        return name.rpartition(".")[2]

    def logger(name: str) -> Any:
        return SimpleNamespace(getLevel=lambda: levels[named(name)])

    def set_level(name: str, level: str) -> None:
        levels[named(name)] = level

    configurator = SimpleNamespace(setLevel=set_level)
    logging = SimpleNamespace(
        LogManager=SimpleNamespace(getLogger=logger),
        Level=SimpleNamespace(OFF="OFF"),
        core=SimpleNamespace(config=SimpleNamespace(Configurator=configurator)),
    )
    apache = SimpleNamespace(logging=SimpleNamespace(log4j=logging))
    java = SimpleNamespace(org=SimpleNamespace(apache=apache))
    seen: list[set[str]] = []
    scene = scene.changed(checks=(UNIQUE,))
    scene.checks = lambda context: seen.append({*levels.values()}) or []  # type: ignore[func-returns-value]
    scene.run(spark=SimpleNamespace(version="none", _jvm=java), verbose=verbose)
    assert seen == [{"ERROR"} if verbose else {"OFF"}]
    assert {*levels.values()} == {"ERROR"}


@pytest.mark.parametrize("dry_run", [True, False])
def test_the_file_is_checked_before_spark_starts(
    scene: Scene, dry_run: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(context: RunContext) -> NoReturn:
        raise InvalidInputError(f"{context.pipeline.spot}: there is no such function")

    def start(_: object) -> NoReturn:
        raise AssertionError("Spark starts")

    scene.check_file = refuse
    monkeypatch.setattr(running, "start_session", start)
    with pytest.raises(InvalidInputError, match="no such function"):
        scene.run(spark=None, dry_run=dry_run)


@pytest.mark.parametrize("is_known", [True, False])
def test_the_file_is_checked_also_if_nothing_is_new(scene: Scene, is_known: bool) -> None:
    scene = scene.incremental()
    scene.run()
    scene.is_known_before_spark = is_known

    def refuse(context: RunContext) -> NoReturn:
        raise InvalidInputError(f"{context.pipeline.spot}: there is no such function")

    scene.check_file = refuse
    with pytest.raises(InvalidInputError, match="no such function"):
        scene.run("r2")
    scene.check_file = lambda _: None
    assert scene.run("r2").ending is Ending.NOTHING_NEW
    scene.check_tidy()


def test_a_dry_run_writes_nothing(scene: Scene) -> None:
    facts = scene.run(dry_run=True)
    assert (facts.ending, facts.folder) == (Ending.DRY_RUN, "")
    assert not Path(scene.pipeline.repository).exists()
    scene.run()
    before = sorted(each for each in scene.repo.path.rglob("*"))
    facts = scene.run("r2", dry_run=True)
    assert [each.rows_before for each in facts.targets] == [2, 1]
    assert sorted(each for each in scene.repo.path.rglob("*")) == before


def test_a_dry_run_finds_what_is_wrong(scene: Scene) -> None:
    del scene.incoming.values["b"]
    with pytest.raises(InvalidInputError, match=r"zoo.toml: pipeline.b: cannot be read"):
        scene.run(dry_run=True)


def test_a_dry_run_names_the_repository_of_the_file(scene: Scene) -> None:
    with pytest.raises(InvalidInputError, match=r"pipeline.branch: .* no branch 'dev'") as refused:
        scene.changed(branch="dev").run(dry_run=True)
    assert f"branch: {scene.pipeline.repository} has no" in refused.value.message


def test_what_is_wrong_is_found_before_a_branch_is_made(scene: Scene) -> None:
    del scene.incoming.values["b"]
    with pytest.raises(InvalidInputError, match="cannot be read") as failed:
        scene.run()
    facts = failed.value.facts["run_facts"]
    assert (facts.ending, facts.error) == (Ending.FAILED, "zoo.toml: pipeline.b: cannot be read")
    assert json.loads((Path(facts.folder) / "report.json").read_text())["ending"] == "failed"
    assert [*scene.repo.branches] == []


def test_a_tag_or_a_branch_that_cannot_be_is_refused_early(scene: Scene) -> None:
    scene.changed(tag="v1").run()
    with pytest.raises(InvalidInputError, match=r"zoo.toml: pipeline.tag: there is a tag 'v1'"):
        scene.changed(tag="v1").run("r2")
    with pytest.raises(InvalidInputError, match=r"zoo.toml: pipeline.branch: .* no branch 'dev'"):
        scene.changed(branch="dev").run("r2")
    for bad in ("a/b", "", "x..y", "a b", "a:b", "x" * 101, ".x", "x.lock"):
        with pytest.raises(InvalidInputError, match="run id"):
            scene.run(bad)


def test_an_error_tells_no_secret_and_carries_the_facts(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = Secret("${env:KEY}", "hunter2", (("KEY", "hunter2"),))
    scene = scene.changed(storage_options={"key": secret})

    def fail(self: FakeFrames) -> None:
        try:
            raise OSError("login hunter2 failed")
        except OSError as cause:
            raise RuntimeError("cannot connect with hunter2") from cause

    monkeypatch.setattr(FakeFrames, "check", fail)
    with pytest.raises(RunFailedError) as failed:
        scene.run()
    assert str(failed.value) == "the run failed: RuntimeError: cannot connect with ${env:KEY}"
    assert failed.value.__cause__ is None
    folder = Path(failed.value.facts["run_facts"].folder)
    assert "hunter2" not in (folder / "report.json").read_text()
    for each in scene.repo.path.rglob("*"):
        assert not each.is_file() or b"hunter2" not in each.read_bytes()


def test_the_same_id_does_not_run_twice_at_once(scene: Scene) -> None:
    scene.run("r0")
    with (
        claimed(scene.repo.path, "r1"),
        pytest.raises(RetryableConflictError, match=r"run 'r1' of .* at work already: process"),
    ):
        scene.run()
    assert not (scene.repo.path / "lancewood/runs/zoo/r1").exists()
    assert scene.run().ending is Ending.PUBLISHED


def test_a_run_into_another_branch_leaves_that_with_its_own_tables(scene: Scene) -> None:
    first = scene.run()
    repo = scene.repo
    repo.branches.create("dev", at="main")
    dev = scene.changed(branch="dev")
    extra = Target("new", SPOT, Mode.APPEND, source="a")
    dev = dev.changed(targets=(*dev.pipeline.targets, extra))
    facts = dev.run("r2")
    assert facts.ending is Ending.PUBLISHED
    assert scene.repo.at("dev").commit.parents == (first.commit,)
    assert scene.seen("photos", "dev") == [1, 1, 2, 2]
    assert (scene.seen("photos"), scene.repo.at("main").tables) == ([1, 2], ("labels", "photos"))
    assert {each: scene.repo.at("dev").pin(each).branch for each in scene.repo.at("dev")} == {
        "photos": "dev",
        "labels": "dev",
        "new": "dev",
    }
    scene.check_tidy()
    dev.run("r3")
    assert scene.seen("new", "dev") == [1, 1, 2, 2]
    assert scene.repo.fsck().is_ok


@pytest.mark.parametrize("is_there", [True, False])
def test_a_table_elsewhere_is_loaded_and_published(
    scene: Scene, tmp_path: Path, is_there: bool
) -> None:
    uri = str(tmp_path / "away.lance")
    if is_there:
        lw.create(uri, rows(0))
    away = Target("away", SPOT, Mode.APPEND, source="a", uri=uri)
    scene = scene.changed(targets=(away,))
    scene.run()
    assert scene.seen("away") == ([0, 1, 2] if is_there else [1, 2])
    scene.run("r2")
    assert sorted(lance.dataset(uri).to_table()["id"].to_pylist()) == scene.seen("away")
    assert not lance.dataset(uri).branches.list()
    assert not (scene.repo.path / "tables" / "away.lance").exists()


def test_a_table_that_is_written_twice_in_a_run_gets_both(scene: Scene) -> None:
    again = Target("photos", SPOT, Mode.MERGE, source="b", on=("id",))
    scene.changed(targets=(*scene.pipeline.targets, again)).run()
    assert scene.seen("photos") == [1, 2, 3]


def other_run(scene: Scene, run_id: str, **values: list[int]) -> None:
    """Another run of the same pipeline, from its beginning to its end."""
    another = replace(scene, incoming=type(scene.incoming)(values), before_publishing=[])
    assert another.run(run_id).ending is Ending.PUBLISHED


def with_check(scene: Scene) -> Scene:
    return replace(scene.changed(checks=(UNIQUE,)), checks=unique_ids)


def test_appends_of_two_runs_both_land_without_running_again(scene: Scene) -> None:
    scene.run("r0")
    quiet = scene.changed(checks=(replace(UNIQUE, is_warning=True),))
    quiet.incoming.values.update(a=[5], b=[])
    quiet.before_publishing.append(lambda: other_run(quiet, "r2", a=[6], b=[]))
    facts = quiet.run()
    assert (facts.ending, facts.attempts) == (Ending.PUBLISHED, 1)
    assert scene.seen("photos") == [1, 2, 5, 6]
    scene.check_tidy()


def test_a_run_whose_checks_did_not_see_what_another_published_runs_again(scene: Scene) -> None:
    scene.run("r0")
    checked = with_check(scene)
    checked.incoming.values.update(a=[5], b=[])
    checked.before_publishing.append(lambda: other_run(checked, "r2", a=[6], b=[]))
    facts = checked.run()
    assert (facts.ending, facts.attempts) == (Ending.PUBLISHED, 2)
    assert scene.seen("photos") == [1, 2, 5, 6]
    checked.incoming.values.update(a=[7], b=[])
    checked.before_publishing.append(lambda: other_run(checked, "r4", a=[7], b=[]))
    facts = checked.run("r3")
    assert (facts.ending, facts.attempts) == (Ending.CHECKS_FAILED, 2)
    assert scene.seen("photos") == [1, 2, 5, 6, 7]


def test_checks_of_other_tables_need_not_look_again(scene: Scene) -> None:
    scene.run("r0")
    checked = with_check(scene)
    checked.incoming.values.update(a=[5], b=[])

    def others() -> None:
        with scene.repo.transaction("main", "labels") as changes:
            changes.table("labels").append(rows(8))

    checked.before_publishing.append(others)
    assert checked.run().attempts == 1
    of_others = checked.changed(checks=(SqlCheck("q", SPOT, False, "select * from photos"),))
    of_others.incoming.values.update(a=[7], b=[])
    of_others.before_publishing.append(others)
    assert of_others.run("r3").attempts == 1
    by_sql = checked.changed(checks=(SqlCheck("q", SPOT, False, "select * from Labels"),))
    by_sql.incoming.values.update(a=[6], b=[])
    by_sql.before_publishing.append(others)
    assert by_sql.run("r2").attempts == 2
    assert scene.all_seen() == {"photos": [1, 2, 5, 6, 7], "labels": [3, 8, 8, 8]}


@pytest.mark.parametrize("when", ["before", "meanwhile"])
@pytest.mark.parametrize("branch", ["main", "dev"])
def test_rows_that_somebody_wrote_beside_the_repository_are_not_published_unchecked(
    scene: Scene, when: str, branch: str
) -> None:
    scene.run("r0")
    scene.repo.branches.create("dev", at="main")
    checked = with_check(scene).changed(branch=branch)
    checked.incoming.values.update(a=[5], b=[])
    checked.run("r1")
    before = scene.repo.at(branch).hash
    checked.incoming.values.update(a=[6], b=[])

    def outside() -> None:
        lance_branch = None if branch == "main" else branch
        lw.open(scene.uri("photos"), branch=lance_branch).append(rows(6))

    if when == "before":
        outside()
    else:
        checked.before_publishing.append(outside)
    points = Points()
    with pytest.raises(RetryableConflictError, match="wrote to table 'photos' beside"):
        checked.run("r2", listener=points)
    assert scene.repo.at(branch).hash == before
    assert ("begun load photos" in points.events) is (when == "meanwhile")
    quiet = checked.changed(checks=(replace(UNIQUE, is_warning=True),))
    assert quiet.run("r3").ending is Ending.PUBLISHED
    assert scene.seen("photos", branch) == [1, 2, 5, 6, 6]


def test_a_table_that_cannot_be_written_is_told_before_the_first_one_is_loaded(
    scene: Scene,
) -> None:
    scene.run("r0")
    lance.dataset(scene.uri("labels")).create_branch("run/r1")
    points = Points()
    with pytest.raises(ConflictError, match="'labels'"):
        scene.run(listener=points)
    assert "begun load photos" not in points.events


@pytest.mark.parametrize("stage", ["load photos", "load labels", "quarantine"])
def test_two_first_runs_that_make_the_same_tables_both_land(scene: Scene, stage: str) -> None:
    class Others(Points):
        def begun(self, name: str) -> None:
            super().begun(name)
            if self.events.count(f"begun {stage}") == 1 and name == stage:
                other_run(scene, "r2", a=[5, -5], b=[6])

    scene.incoming.values["a"].append(-1)
    facts = scene.run(listener=Others())
    assert (facts.ending, facts.attempts) == (Ending.PUBLISHED, 2)
    assert scene.all_seen() == {"photos": [1, 2, 5], "labels": [3, 6]}
    assert lw.open(scene.uri("quarantine")).count_rows() == 2
    scene.check_tidy()


def test_merges_of_two_runs_into_one_table_both_land(scene: Scene) -> None:
    target = Target("photos", SPOT, Mode.MERGE, source="a", on=("id",))
    scene = scene.changed(targets=(target,), checks=(replace(UNIQUE, is_warning=True),), attempts=3)
    scene.run("r0")
    scene.incoming.values["a"] = [2, 5]
    scene.before_publishing.append(lambda: other_run(scene, "r2", a=[2, 6], b=[]))
    facts = scene.run()
    assert facts.ending is Ending.PUBLISHED
    assert scene.seen("photos") == [1, 2, 5, 6]
    assert scene.landed("photos") == [1, 2, 5, 6]
    scene.check_tidy()


def test_two_runs_of_one_incremental_source_read_the_same_news_once(scene: Scene) -> None:
    scene = with_check(scene.incremental())
    scene.run("r0")
    scene.incoming.values["a"] += [7, 8]
    scene.incoming.values["b"] = []
    scene.before_publishing.append(lambda: other_run(scene, "r2", **scene.incoming.values))
    facts = scene.run()
    assert (facts.ending, facts.attempts) == (Ending.NOTHING_NEW, 2)
    assert scene.seen("photos") == [1, 2, 7, 8]
    scene.check_tidy()


def test_a_target_that_never_stands_still_ends_the_run_after_the_attempts(scene: Scene) -> None:
    scene.run("r0")
    checked = with_check(scene).changed(attempts=2)
    checked.incoming.values.update(a=[5], b=[])
    checked.before_publishing += [
        lambda: other_run(checked, "r2", a=[6], b=[]),
        lambda: other_run(checked, "r3", a=[7], b=[]),
    ]
    with pytest.raises(ConflictError, match="have to look again") as failed:
        checked.run()
    assert failed.value.facts["run_facts"].attempts == 2
    assert scene.seen("photos") == [1, 2, 6, 7]
    assert checked.run().ending is Ending.PUBLISHED
    assert scene.seen("photos") == [1, 2, 5, 6, 7]


def test_an_overwrite_that_meets_an_append_runs_again(scene: Scene) -> None:
    target = Target("photos", SPOT, Mode.OVERWRITE, source="a")
    scene.run("r0")
    over = scene.changed(targets=(target,), checks=(replace(UNIQUE, is_warning=True),))
    over.incoming.values["a"] = [9]

    def others() -> None:
        with scene.repo.transaction("main", "another") as changes:
            changes.table("photos").append(rows(8))

    over.before_publishing.append(others)
    facts = over.run()
    assert (facts.ending, scene.seen("photos")) == (Ending.PUBLISHED, [9])


def test_a_run_that_died_before_its_ref_is_known_after_the_next_one(scene: Scene) -> None:
    points = Points()
    scene.run("r0", listener=points)
    at = points.events.index("begun record") + 1
    scene.incoming.values.update(a=[5], b=[])
    with pytest.raises(BaseException, match="begun record"):
        scene.run("r1", listener=Points(at))
    assert scene.repo.marks.find("runs/zoo/r1") is None
    with scene.repo.transaction("main", "by hand") as changes:
        changes.table("labels").append(rows(8))
    scene.incoming.values.update(a=[6])
    scene.run("r2")
    published = scene.repo.at("main~2").hash
    assert scene.repo.marks.find("runs/zoo/r1") == published, "the next one set it"
    assert scene.run("r1").ending is Ending.ALREADY_PUBLISHED
    assert scene.seen("photos") == [1, 2, 5, 6]
    scene.check_tidy()


def test_branches_of_failed_runs_go_by_age_and_only_those_of_the_pipeline(scene: Scene) -> None:
    failing = replace(
        scene.changed(checks=(UNIQUE,)),
        checks=lambda context: [CheckFacts("ids", "unique", "photos", is_passed=False)],
    )
    failing.run("f1")
    failing.changed(name="other").run("f2")
    with claimed(scene.repo.path, "f1"):
        assert clean(scene.repo, older_than=timedelta(0)) == ("f2",)
    failing.changed(name="other").run("f2")
    assert clean(scene.repo) == ()
    assert clean(scene.repo.path, older_than=timedelta(0), dry_run=True) == ("f1", "f2")
    scene.changed(keep_failed=timedelta(0)).run()
    assert [*scene.repo.branches] == ["main", "run/f2"]
    assert clean(scene.repo, older_than=timedelta(0)) == ("f2",)
    scene.check_tidy()
    assert scene.all_seen() == {"photos": [1, 2], "labels": [3]}


def test_a_branch_that_no_run_has_made_is_left_alone(scene: Scene) -> None:
    scene.run("r0")
    scene.repo.branches.create("run/mine", at="main")
    with scene.repo.transaction("run/mine", "by hand") as changes:
        changes.table("photos").append(rows(9))
    assert clean(scene.repo, older_than=timedelta(0)) == ()
    with pytest.raises(AlreadyExistsError, match="that no run has made"):
        scene.run("mine")
    assert scene.seen("photos", "run/mine") == [1, 2, 9]
    assert scene.seen("photos") == [1, 2]


def test_the_branch_of_a_published_run_that_is_the_current_one_stays_and_is_told(
    scene: Scene,
) -> None:
    failing = replace(
        scene.changed(checks=(UNIQUE,)),
        checks=lambda context: [CheckFacts("ids", "unique", "photos", is_passed=False)],
    )
    scene.run("r0")
    repo = scene.repo
    points = Points()

    def look(context: RunContext) -> list[CheckFacts]:
        repo.switch("run/r2")
        return []

    facts = replace(failing, checks=look).run("r2", listener=points)
    assert facts.ending is Ending.PUBLISHED
    assert "run/r2 stays" in points.texts[0]
    repo.switch("main")
    assert failing.run("r2").ending is Ending.ALREADY_PUBLISHED
    assert "run/r2" not in scene.repo.branches


def test_a_run_id_of_another_pipeline_is_its_own(scene: Scene) -> None:
    scene.run()
    other: Mapping[str, list[int]] = {"a": [8], "b": []}
    facts = replace(scene.changed(name="other"), incoming=type(scene.incoming)(dict(other))).run()
    assert (facts.ending, scene.seen("photos")) == (Ending.PUBLISHED, [1, 2, 8])


def test_a_step_that_fails_after_the_commit_is_told_and_done_by_the_next_run(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise StorageError("the disk is full")

    scene = scene.changed(tag="v-{run}")
    points = Points()
    with monkeypatch.context() as patch:
        patch.setattr(Tags, "create", fail)
        patch.setattr(Marks, "set", fail)
        facts = scene.run(listener=points)
    assert (facts.ending, facts.tag) == (Ending.PUBLISHED, None)
    assert points.texts == [
        "tag v-r1 was not set: the disk is full",
        "the run got no ref yet: the disk is full",
    ]
    again = scene.run()
    assert (again.ending, again.tag) == (Ending.ALREADY_PUBLISHED, "v-r1")
    assert scene.repo.marks.find("runs/zoo/r1") == facts.commit
    scene.check_tidy()


def test_two_runs_into_a_branch_that_never_wrote_the_tables_both_land(scene: Scene) -> None:
    scene.run("r0")
    scene.repo.branches.create("dev", at="main")
    dev = scene.changed(branch="dev", checks=(replace(UNIQUE, is_warning=True),))
    dev.incoming.values.update(a=[5], b=[])
    dev.before_publishing.append(lambda: other_run(dev, "r2", a=[6], b=[]))
    assert dev.run().ending is Ending.PUBLISHED
    assert (scene.seen("photos", "dev"), scene.seen("photos")) == ([1, 2, 5, 6], [1, 2])
    on_dev = lance.dataset(scene.uri("photos")).checkout_version(("dev", None))
    assert sorted(on_dev.to_table()["id"].to_pylist()) == [1, 2, 5, 6]
    scene.check_tidy()
    assert scene.repo.fsck().is_ok

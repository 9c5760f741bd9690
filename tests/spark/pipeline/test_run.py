"""Runs of a pipeline file on a real Spark, from the file to what pylance and git see."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.interop.git_judge import git
from tests.spark.pipeline.run_scene import At, Scene

from lancewood.errors import InvalidInputError
from lancewood.pipeline.report.facts import Ending


def test_a_file_is_loaded_checked_published_and_tagged(spark: Any, tmp_path: Path) -> None:
    scene = Scene.at(tmp_path, more='tag = "v-{run}"')
    scene.give("a", "1,ape", "2,bee")
    assert scene.run(spark, "r0", dry_run=True).ending is Ending.DRY_RUN
    assert not (tmp_path / "repo").exists()
    heard = At()
    first = scene.run(spark, "r1", listener=heard)
    assert (first.ending, first.tag) == (Ending.PUBLISHED, "v-r1")
    assert scene.rows("animals") == [(1, "APE"), (2, "BEE")]
    assert [(each.kind, each.is_passed) for each in first.checks] == [("unique", True)]
    assert (Path(first.folder) / "report.html").read_text().startswith("<!doctype html>")
    assert heard.events[0] == "begun look back"
    scene.give("b", "2,bear", "3,cat", "x,broken")
    second = scene.run(spark, "r2")
    assert second.ending is Ending.PUBLISHED
    assert scene.rows("animals") == [(1, "APE"), (2, "BEAR"), (3, "CAT")]
    assert scene.rows("seen") == [(1, "ape"), (2, "bear"), (2, "bee"), (3, "cat")]
    assert second.quarantine is not None
    assert second.quarantine.rows == 1
    targets = {each.table: (each.inserted, each.updated) for each in second.targets}
    assert targets == {"animals": (1, 1), "seen": (2, 0)}
    assert scene.run(spark, "r2").ending is Ending.ALREADY_PUBLISHED
    assert scene.run(spark, "r3").ending is Ending.NOTHING_NEW
    scene.check_tidy()
    repo = tmp_path / "repo"
    assert git(repo, "log", "--format=%s %D", "main").splitlines() == [
        "zoo: run r2 HEAD -> main, tag: v-r2",
        "zoo: run r1 tag: v-r1",
    ]
    noted = git(repo, "for-each-ref", "--format=%(refname) %(objectname)", "refs/lancewood")
    assert noted.splitlines() == [
        f"refs/lancewood/runs/zoo/r1 {first.commit}",
        f"refs/lancewood/runs/zoo/r2 {second.commit}",
    ]
    assert json.loads(git(repo, "show", "main:pipelines/zoo.json"))["run"] == "r2"
    git(repo, "fsck", "--strict", "--no-progress")
    assert scene.repo.fsck(deep=True).is_ok


def test_bad_rows_beyond_the_limit_and_failing_checks_publish_nothing(
    spark: Any, tmp_path: Path
) -> None:
    scene = Scene.at(tmp_path, incremental=False)
    scene.give("a", "1,ape", "x,broken", "y,broken")
    beyond = scene.run(spark, "r1")
    assert beyond.ending is Ending.TOO_MANY_BAD_ROWS
    assert scene.repo.at("run/r1").table("quarantine").count_rows() == 2
    text = (tmp_path / "zoo.toml").read_text()
    file = tmp_path / "zoo.toml"
    file.write_text(text.replace('table = "animals"\nunique', 'table = "seen"\nunique'))
    scene.give("a", "1,ape", "2,bee")
    assert scene.run(spark, "r1").ending is Ending.PUBLISHED
    failed = scene.run(spark, "r2")
    assert (failed.ending, failed.checks[0].failing_rows) == (Ending.CHECKS_FAILED, 4)
    assert scene.rows("seen") == [(1, "ape"), (2, "bee")]
    assert (Path(failed.folder) / "failures").is_dir()
    assert scene.repo.at("run/r2").table("seen").count_rows() == 4
    file.write_text(text.replace("unique = [", "not_null = [").replace('"id"]\n', '"no"]\n', 2))
    with pytest.raises(InvalidInputError, match=r"^zoo\.toml line \d+: "):
        scene.run(spark, "r3")
    assert "run/r3" not in scene.repo.branches


@pytest.mark.campaign
def test_a_run_makes_again_what_a_reverted_one_had_made(spark: Any, tmp_path: Path) -> None:
    scene = Scene.at(tmp_path)
    scene.give("a", "1,ape", "2,bee")
    first = scene.run(spark, "r1")
    scene.repo.revert("main")
    assert scene.repo.at("main").tables == ()
    file = tmp_path / "zoo.toml"
    other = "lower(name) AS name, length(name) AS letters"
    file.write_text(file.read_text().replace("upper(name) AS name", other))
    scene.give("b", "3,bear")
    assert scene.run(spark, "r2").ending is Ending.PUBLISHED
    assert scene.rows("animals") == [(1, "ape"), (2, "bee"), (3, "bear")]
    assert scene.rows("seen") == [(1, "ape"), (2, "bee"), (3, "bear")]
    assert first.commit is not None
    assert scene.repo.at(first.commit).table("animals").schema.names == ["id", "name"]
    scene.check_tidy()
    assert scene.repo.fsck(deep=True).is_ok


@pytest.mark.campaign
def test_a_run_into_another_branch_leaves_main_alone(spark: Any, tmp_path: Path) -> None:
    scene = Scene.at(tmp_path)
    scene.give("a", "1,ape")
    scene.run(spark, "r1")
    main = scene.repo.at("main").hash
    scene.repo.branches.create("dev", at="main")
    file = tmp_path / "zoo.toml"
    file.write_text(file.read_text().replace('name = "zoo"', 'name = "zoo"\nbranch = "dev"'))
    scene.give("b", "2,bee")
    facts = scene.run(spark, "r2")
    assert (facts.ending, facts.base_commit) == (Ending.PUBLISHED, main)
    assert scene.repo.at("main").hash == main
    assert scene.repo.at("dev").table("animals").count_rows() == 2
    assert scene.repo.at("dev").pin("animals").branch == "dev"
    assert [*scene.pylance("animals").branches.list()] == ["dev"]
    on_dev = scene.pylance("animals").checkout_version(("dev", None))
    assert sorted(on_dev.to_table()["id"].to_pylist()) == [1, 2]

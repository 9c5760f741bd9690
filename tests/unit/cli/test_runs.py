"""``lw runs``: what a repository knows of runs, and how those go that nobody finished."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.pipeline.report.facts import RunFacts
from lancewood.pipeline.running.runs import RunFolder, claimed, clean, known_runs

Lw = Callable[..., Any]
KEYS = ["run", "pipeline", "state", "time", "branch", "commit", "report"]


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> lw.Repository:
    """One published run, one of each kind that was not, and a branch that no run has made."""
    repo = lw.Repository.init(tmp_path / "r")
    monkeypatch.chdir(repo.path)
    with repo.transaction("main", "one") as changes:
        changes.create_table("photos", pa.table({"id": [1]}))
    tip = repo.at("main").hash
    repo.marks.set("runs/photos/done", tip, why="test")
    RunFolder.of(repo.path, "photos", "done").path.mkdir(parents=True)
    RunFolder.of(repo.path, "photos", "done").page.touch()
    for run in ("cut", "failed", "held", "mine"):
        repo.branches.create(f"run/{run}")
        if run != "mine":
            RunFolder.of(repo.path, "photos", run).path.mkdir(parents=True)
    failed = RunFolder.of(repo.path, "photos", "failed")
    failed.data.write_text(json.dumps({"ending": "checks failed"}))
    failed.page.touch()
    return repo


def test_the_list_says_how_each_run_stands(lw_ok: Lw, repo: lw.Repository) -> None:
    with claimed(repo.path, "held"):
        lines = lw_ok("runs", "list", "--json").lines
    assert all(list(each) == KEYS for each in lines)
    assert {each["run"]: each["state"] for each in lines} == {
        "cut": "cut off",
        "failed": "checks failed",
        "held": "at work",
        "done": "published",
    }
    by_run = {each["run"]: each for each in lines}
    assert lines[-1]["run"] == "done"
    assert by_run["done"]["commit"] == repo.at("main").hash
    assert by_run["done"]["branch"] is None
    assert by_run["done"]["report"].endswith("photos/done/report.html")
    assert by_run["failed"]["branch"] == "run/failed"
    assert by_run["failed"]["report"].endswith("photos/failed/report.html")
    assert by_run["cut"]["report"] is None


def test_the_list_can_be_of_one_pipeline_and_short(lw_ok: Lw, repo: lw.Repository) -> None:
    repo.marks.set("runs/labels/done", repo.at("main").hash, why="test")
    of_labels = lw_ok("runs", "list", "--pipeline", "labels", "--json").lines
    assert [(each["pipeline"], each["run"]) for each in of_labels] == [("labels", "done")]
    assert len(lw_ok("runs", "list", "-n", "2", "--json").lines) == 2
    shown = lw_ok("runs", "list").out.splitlines()
    assert shown[0].split() == ["run", "pipeline", "state", "time", "at"]
    assert len(shown) == 6


REPORT = {
    "ending": "checks failed",
    "started": "2026-11-16T19:16:55+00:00",
    "seconds": 13.9,
    "targets": [
        {
            "table": "photos",
            "mode": "append",
            "rows_before": 47,
            "rows_after": 58,
            "columns_added": ["size"],
            "indices_created": ["words"],
        }
    ],
    "checks": [
        {"name": "ids", "kind": "unique", "table": "photos", "is_passed": True},
        {"name": "labels", "kind": "sql", "table": None, "is_passed": False, "found": "2 rows"},
    ],
}


def test_one_run_is_shown_with_what_it_loaded(lw_ok: Lw, repo: lw.Repository) -> None:
    folder = RunFolder.of(repo.path, "photos", "failed")
    folder.data.write_text(json.dumps(REPORT))
    told = {
        line[:8].strip(): line[10:] for line in lw_ok("runs", "show", "failed").out.splitlines()
    }
    assert told["run"] == "failed"
    assert told["pipeline"] == "photos"
    assert told["state"] == "checks failed"
    assert told["started"] == "2026-11-16T19:16:55+00:00"
    assert told["took"] == "13.9 s"
    assert told["branch"] == "run/failed"
    assert told["loaded"] == "photos  append  47 -> 58 rows  1 new column, index created: words"
    assert told["checks"] == "1 of 2 checks passed, 1 failed"
    assert told[""] == "failed  labels: 2 rows"
    assert told["report"] == str(folder.page)
    document = lw_ok("runs", "show", "failed", "--json").document
    assert document["seconds"] == 13.9
    assert [each["columns_added"] for each in document["targets"]] == [["size"]]
    assert [each["name"] for each in document["checks_failed"]] == ["labels"]


def test_a_run_without_a_report_or_without_a_branch_is_shown_as_far_as_it_is_known(
    lw_ok: Lw, repo: lw.Repository
) -> None:
    done = lw_ok("runs", "show", "done", "--json").document
    assert (done["state"], done["commit"]) == ("published", repo.at("main").hash)
    assert (done["seconds"], done["targets"]) == (None, [])
    repo.branches.delete("run/failed", force=True)
    RunFolder.of(repo.path, "photos", "failed").data.write_text(json.dumps(REPORT))
    gone = lw_ok("runs", "show", "failed", "--json").document
    assert (gone["state"], gone["branch"]) == ("checks failed", None)


def test_which_run_is_meant_has_to_be_clear(lw_ok: Lw, lw_run: Lw, repo: lw.Repository) -> None:
    repo.marks.set("runs/labels/done", repo.at("main").hash, why="test")
    assert "'done' of labels and photos" in lw_run("runs", "show", "done").err
    shown = lw_ok("runs", "show", "done", "--pipeline", "labels", "--json").document
    assert shown["pipeline"] == "labels"
    nobody = lw_run("runs", "show", "dome")
    assert nobody.code == 3
    assert "did you mean 'done'?" in nobody.err
    assert lw_run("runs", "show", "../done").code == 5


@pytest.mark.parametrize(
    "data",
    [
        "[]",
        "{}",
        '{"targets": 3, "checks": []}',
        '{"targets": [{"table": 1, "mode": "x"}], "checks": []}',
        '{"targets": [], "checks": ["x"]}',
        '{"targets": [{"table": "t", "mode": "x", "columns_added": [1]}], "checks": []}',
        '{"targets": [], "checks": [], "seconds": "long"}',
        '{"targets": [], "checks": [], "seconds": 1' + "0" * 400 + "}",
        "[" * 200_000,
        "\x00",
    ],
)
def test_a_report_that_no_run_has_written_is_refused(
    lw_run: Lw, repo: lw.Repository, data: str
) -> None:
    RunFolder.of(repo.path, "photos", "failed").data.write_text(data)
    ran = lw_run("runs", "show", "failed")
    assert ran.code == 10
    assert "failed/report.json: " in ran.err


def test_a_report_that_is_a_link_or_a_pipe_is_not_read(
    lw_run: Lw, repo: lw.Repository, tmp_path: Path
) -> None:
    report = RunFolder.of(repo.path, "photos", "failed").data
    secret = tmp_path / "secret.json"
    secret.write_text('{"ending": "hunter2", "targets": [], "checks": []}')
    report.unlink()
    leave: list[Callable[[], None]] = [lambda: report.symlink_to(secret), lambda: os.mkfifo(report)]
    for each in leave:
        each()
        shown, listed = lw_run("runs", "show", "failed"), lw_run("runs", "list")
        assert (shown.code, listed.code) == (10, 0)
        assert "hunter2" not in shown.out + shown.err + listed.out
        report.unlink()


def test_a_report_is_not_written_through_a_link(repo: lw.Repository, tmp_path: Path) -> None:
    folder = RunFolder.of(repo.path, "photos", "new")
    folder.begin()
    mine = tmp_path / "mine"
    mine.write_text("mine")
    for name in ("report.html", "report.json"):
        (folder.path / f".{name}.{os.getpid()}").symlink_to(mine)
    folder.write(RunFacts("photos", "new", "r", "main", "run/new", "2026-11-16"), "page")
    assert mine.read_text() == "mine"
    assert folder.page.read_text() == "page"
    assert not folder.page.is_symlink()


def test_old_branches_go_and_those_at_work_stay(lw_ok: Lw, repo: lw.Repository) -> None:
    assert lw_ok("runs", "clean").out == "nothing to remove\n"
    with claimed(repo.path, "held"):
        trial = lw_ok("runs", "clean", "--older-than", "0s", "--dry-run")
        assert "would remove the branches of 2 runs: cut, failed; nothing was" in trial.out
        assert len(repo.branches.list("run/")) == 4
        document = lw_ok("runs", "clean", "--older-than", "0s", "--json").document
    assert document == {"dry_run": False, "runs": ["cut", "failed"]}
    assert list(repo.branches.list("run/")) == ["run/held", "run/mine"]
    assert {each.run for each in known_runs(repo)} == {"held", "done"}
    assert clean(repo, older_than=timedelta(0), pipeline="photos") == ("held",)


def test_only_the_runs_of_one_pipeline_go(lw_ok: Lw, repo: lw.Repository) -> None:
    words = ["--older-than", "0s", "--pipeline", "labels", "--json"]
    assert lw_ok("runs", "clean", *words).document["runs"] == []


def test_an_age_that_is_none_is_refused(lw_run: Lw, repo: lw.Repository) -> None:
    assert lw_run("runs", "clean", "--older-than", "soon").code == 2


def test_a_place_without_a_repository_is_told(
    lw_run: Lw, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = lw_run("runs", "list")
    assert ran.code == 3
    assert "there is no repository" in ran.err

"""The benchmark of repositories, at sizes that only show that it runs and checks itself."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from bench import repository
from bench.git_program import GIT, GitProgram
from bench.histories import OurGit, make_history
from bench.places import Places
from bench.result import Least
from bench.scale import QUICK

pytestmark = pytest.mark.skipif(GIT is None, reason="there is no git to measure against")


def test_every_work_is_measured_against_git(tmp_path: Path) -> None:
    tiny = dataclasses.replace(QUICK, repository_tables=(20,), commit_passes=1, commits=60)
    found = repository.run(tiny, Places(tmp_path, tmp_path, "disk"))
    works = [each.work for each in found.rows]
    assert len(works) == len(set(works)) == 12
    assert all(each.ratio for each in found.rows)
    goals = [each.work for each in found.rows if each.target == Least(300.0)]
    assert goals == ["20 tables: commit, synced"]
    assert [*tmp_path.iterdir()] == []


def test_git_finds_the_same_texts_whoever_wrote_them(tmp_path: Path) -> None:
    pins = {"a.json": b"1\n", "b.json": b"2\n"}
    theirs = GitProgram.init(tmp_path / "git", pins, sync=False)
    ours = OurGit.init(tmp_path / "ours", pins, sync=False)
    theirs.commit("a.json", b"3\n")
    ours.commit("a.json", b"3\n")
    one, other = theirs, GitProgram(tmp_path / "ours")
    assert one.count() == other.count() == 2
    assert one.run("rev-parse", "main^{tree}") == other.run("rev-parse", "main^{tree}")


def test_a_lost_commit_is_not_passed_over(tmp_path: Path) -> None:
    make_history(tmp_path / "r", 5)
    with pytest.raises(RuntimeError, match="6 commits were made, git finds 5"):
        repository._check_count(tmp_path / "r", 6)

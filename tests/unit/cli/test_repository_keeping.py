"""The verbs of ``lw`` for files beside tables, for exclusive tables, and what upkeep tells."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.cli.failing import ExitCode
from lancewood.errors import StorageError
from lancewood.repo.outcome import NotLandedWarning

Lw = Callable[..., Any]
ROWS = pa.table({"id": [1, 2, 3]})


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> lw.Repository:
    """One table, one commit, and its directory the current one."""
    monkeypatch.setenv("LANCEWOOD_FSYNC", "0")
    made = lw.Repository.init(tmp_path / "r")
    monkeypatch.chdir(made.path)
    with made.transaction("main", "first photos") as changes:
        changes.create_table("photos", ROWS)
    return made


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Two files in a directory."""
    made = tmp_path / "files"
    (made / "edits").mkdir(parents=True)
    (made / "README").write_bytes(b"Zoo\n")
    (made / "edits" / "1.xmp").write_bytes(b"<crop/>")
    return made


def test_the_files_of_a_directory_become_a_commit(
    lw_ok: Lw, repo: lw.Repository, files: Path
) -> None:
    told = lw_ok("snapshot", str(files), "-m", "notes", "--author", "Bob <b@example.org>").out
    view = repo.at()
    assert told == f"[main] {view.hash[:12]} notes\n 2 files\n"
    assert (view.files, view.tables) == (("README", "edits/1.xmp"), ("photos",))
    assert view.read("edits/1.xmp") == b"<crop/>"
    assert view.commit.author.name == "Bob"
    again = lw_ok("snapshot", str(files), "-m", "again", "--json").document
    names = ["README", "edits/1.xmp"]
    assert again == {"branch": "main", "hash": view.hash, "new": False, "files": names}
    assert "the same" in lw_ok("snapshot", str(files), "-m", "again").out
    (files / "README").unlink()
    assert lw_ok("snapshot", str(files), "-m", "fewer", "--json").document["new"]
    assert repo.at().files == ("edits/1.xmp",)


def test_a_snapshot_without_a_message_or_a_directory_is_refused(
    lw_run: Lw, repo: lw.Repository, files: Path
) -> None:
    assert lw_run("snapshot", str(files)).code == ExitCode.USAGE
    assert lw_run("snapshot", "nowhere", "-m", "x").code == ExitCode.NOT_FOUND
    for here in (".", ".."):
        found = lw_run("snapshot", here, "-m", "x")
        assert found.code == ExitCode.INVALID_INPUT
        assert "the repository itself" in found.err
    assert len([*repo.log()]) == 1


def test_what_is_no_plain_file_is_named_and_nothing_is_recorded(
    lw_run: Lw, repo: lw.Repository, files: Path
) -> None:
    odd = files / "odd"
    for leads_to in (files / "README", files.parent, files / "nowhere", None):
        if leads_to is None:
            os.mkfifo(odd)
        else:
            odd.symlink_to(leads_to)
        found = lw_run("snapshot", str(files), "-m", "x")
        assert found.code == ExitCode.INVALID_INPUT
        assert str(odd) in found.err
        odd.unlink()
    assert len([*repo.log()]) == 1


def test_tables_are_kept_for_transactions_and_opened_again(
    lw_ok: Lw, lw_run: Lw, repo: lw.Repository
) -> None:
    assert lw_ok("exclusive").out == "open to all\n"
    would = lw_ok("exclusive", "on", "--dry-run").out.splitlines()
    assert (would[0], would[-1]) == ("open to all", "nothing was changed")
    told = lw_ok("exclusive", "on").out.splitlines()
    assert told == [
        "exclusive: only transactions write to the tables",
        f"[main {repo.at().hash[:12]}] photos",
    ]
    with pytest.raises(OSError, match="cannot be written"):
        lance.write_dataset(ROWS, "tables/photos.lance", mode="append")
    assert lw_ok("exclusive", "--json").document == {
        "exclusive": True,
        "commits": [],
        "dry_run": False,
    }
    done = lw_ok("exclusive", "off", "--json").document
    commit = {"branch": "main", "hash": repo.at().hash, "tables": ["photos"]}
    assert done == {"exclusive": False, "commits": [commit], "dry_run": False}
    lance.write_dataset(ROWS, "tables/photos.lance", mode="append")
    assert lw_run("exclusive", "perhaps").code == ExitCode.USAGE


def test_gc_tells_which_tables_were_told_where_the_repository_is(
    lw_ok: Lw, repo: lw.Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lw.create(tmp_path / "apart.lance", ROWS)
    repo.add("apart", tmp_path / "apart.lance")
    moved = tmp_path / "moved"
    monkeypatch.chdir(tmp_path)
    shutil.move(repo.path, moved)
    monkeypatch.chdir(moved)
    assert lw_ok("gc", "--json", "--dry-run").document["joined"] == ["apart"]
    told = lw_ok("gc", "--dry-run").out.splitlines()
    assert told == ["would be told where the repository is: apart", "nothing to remove"]
    assert lw_ok("gc").out.startswith("told where the repository is: apart\n")
    assert lw_ok("gc", "--json").document["joined"] == []


def test_cleanup_tells_what_landed_first(
    lw_ok: Lw, repo: lw.Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise StorageError("away")

    for kind in ("text", "json"):
        with monkeypatch.context() as patch:
            patch.setattr("lancewood.repo.commit.transaction.land", fail)
            changes = repo.transaction("main", kind)
            changes.table("photos").append(ROWS)
            with pytest.warns(NotLandedWarning):
                changes.commit()
        if kind == "text":
            told = lw_ok("table", "cleanup", "tables/photos.lance").out.splitlines()
            assert told[0] == "version 2 landed first: a commit had it waiting"
        else:
            found = lw_ok("table", "cleanup", "tables/photos.lance", "--json").document
            assert found["landed"] == [3]
    assert lance.dataset("tables/photos.lance").count_rows() == 9


def test_a_table_that_commits_need_is_dropped_by_force_alone(
    lw_run: Lw, lw_ok: Lw, repo: lw.Repository
) -> None:
    refused = lw_run("table", "drop", "tables/photos.lance", "--yes")
    assert refused.code == ExitCode.INVALID_INPUT
    assert f"the newest that changed it is {repo.at().hash[:12]}" in refused.err
    assert "--force" in refused.err
    lw_ok("remove", "photos", "-m", "no more")
    assert lw_run("table", "drop", "tables/photos.lance", "--yes").code == refused.code
    assert lw.exists("tables/photos.lance")
    lw_ok("table", "drop", "tables/photos.lance", "--yes", "--force")
    assert not lw.exists("tables/photos.lance")
    lw.create("tables/other.lance", ROWS)
    lw_ok("table", "drop", "tables/other.lance", "--yes")

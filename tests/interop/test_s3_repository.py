"""A repository in S3 as people use it: from the shell, with tables elsewhere, copied to and fro."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from tests.interop import git_judge
from tests.repo.locations import Where
from typer.testing import CliRunner

import lancewood as lw
from lancewood.catalog.membership import repositories_of
from lancewood.cli.main import app
from lancewood.errors import InvalidInputError, LancewoodError, NotFoundError
from lancewood.store.locate import open_store

SECRET = "planted-secret-of-the-tests"


@pytest.fixture(autouse=True)
def _me(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_AUTHOR_NAME", "Ada Lovelace")
    monkeypatch.setenv("GIT_AUTHOR_EMAIL", "ada@example.org")


@pytest.fixture
def where(s3_root: str, s3_options: dict[str, str]) -> Where:
    return Where(f"{s3_root}/zoo", s3_options)


def rows(*values: int) -> pa.Table:
    return pa.table({"id": pa.array(values, pa.int64())})


def run(where: Where, *words: str, exit_code: int = 0) -> str:
    """What ``lw -C s3://…`` says."""
    options = [f"--storage-option={key}={value}" for key, value in (where.options or {}).items()]
    done = CliRunner(env={"NO_COLOR": "1"}).invoke(app, ["-C", str(where.root), *words, *options])
    assert done.exit_code == exit_code, done.output
    assert SECRET not in done.output
    return str(done.output)


def test_the_verbs_of_the_shell_work_in_a_bucket(where: Where, tmp_path: Path) -> None:
    assert run(where, "init") == f"Initialized empty Lancewood repository in {where.root}/\n"
    assert "No commits yet" in run(where, "status")
    uri = f"{where.root}/tables/photos.lance"
    lw.create(uri, rows(1, 2, 3), access=lw.Access(storage_options=where.options))
    assert "photos" in run(where, "status")
    assert "3 rows" in run(where, "add", "photos", "-m", "day 1")
    assert f"{uri}@:1" in run(where, "tables")
    run(where, "switch", "-c", "exp")
    location = json.loads(run(where, "prepare", "--json"))
    assert location["uri"] == f"{uri}@exp"
    lw.open(location["uri"], access=lw.Access(storage_options=where.options)).append(rows(4))
    assert "modified" in run(where, "status")
    run(where, "commit", "-m", "day 2")
    run(where, "switch", "main")
    assert "1 row" in run(where, "merge", "exp")
    run(where, "tag", "v1")
    assert run(where, "branch", "--show-current") == "main\n"
    assert "Merge" in run(where, "log", "--graph", "--oneline")
    assert "photos" in run(where, "show", "v1")
    assert "photos" in run(where, "diff", "HEAD~1", "HEAD")
    run(where, "revert", "HEAD")
    run(where, "reset", "HEAD~1")
    told = [json.loads(each) for each in run(where, "reflog", "main", "--json").splitlines()]
    assert told[0]["why"].partition(":")[0] == "reset"
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "README").write_text("hello\n")
    run(where, "snapshot", str(tmp_path / "files"), "-m", "files")
    assert run(where, "show", "HEAD:README") == "hello\n"
    run(where, "branch", "-D", "exp")
    run(where, "gc")
    assert "no problem" in run(where, "fsck")
    assert lance.dataset(uri, storage_options=dict(where.options or {})).count_rows() == 4
    copy = tmp_path / "copy"
    where.download(copy)
    git_judge.check(copy)
    assert git_judge.git(copy, "branch", "--show-current") == "main"
    assert git_judge.git(copy, "show", "HEAD:README") == "hello"
    store = open_store(str(where.root), storage_options=where.options)
    assert not [each.key for each in store.list() if SECRET.encode() in store.get(each.key)]


def test_what_cannot_work_in_a_bucket_says_so(where: Where) -> None:
    assert "no repository at" in run(where, "log", exit_code=3)
    run(where, "init")
    done = CliRunner().invoke(app, ["-C", str(where.root), "table", "info", "x.lance"])
    assert done.exit_code != 0
    assert "-C with a uri is for the verbs on a repository" in done.output
    repo = lw.Repository.open(str(where.root), storage_options=where.options)
    assert repo.uri == where.root
    assert SECRET not in repr(repo)
    with pytest.raises(InvalidInputError, match="is in a bucket and has no path"):
        _ = repo.path
    with pytest.raises(LancewoodError) as told:
        lw.Repository.init("s3://no-such-bucket-anywhere/zoo", storage_options=where.options)
    assert SECRET not in str(told.value)
    assert SECRET not in repr(told.value.__dict__)


def test_a_repository_moves_from_a_disk_to_a_bucket_and_back(where: Where, tmp_path: Path) -> None:
    first = lw.Repository.init(tmp_path / "first")
    for number in range(3):
        with first.transaction(message=f"day {number}") as changes:
            if number:
                changes.table("photos").append(rows(number))
            else:
                changes.create_table("photos", rows(10, 11))
    first.tags.create("v1", "HEAD~1")
    git_judge.git(tmp_path / "first", "gc", "--quiet")
    git_judge.git(tmp_path / "first", "pack-refs", "--all")
    where.upload(tmp_path / "first")
    ours = lw.Repository.open(str(where.root), storage_options=where.options)
    assert [each.message for each in ours.log()] == ["day 2", "day 1", "day 0"]
    assert next(iter(ours.reflog("main"))).why == "commit: day 2"
    assert ours.at("v1").table("photos").count_rows() == 3
    with ours.transaction(message="day 3") as changes:
        changes.table("photos").append(rows(20))
    ours.tags.delete("v1")
    ours.gc()
    assert ours.fsck(deep=True).problems == ()
    back = Path(tmp_path / "back")
    where.download(back)
    git_judge.check(back)
    last = lw.Repository.open(back)
    assert [each.hash for each in last.log()] == [each.hash for each in ours.log()]
    assert last.at("HEAD~2").table("photos").count_rows() == 3
    with last.transaction(message="day 4") as changes:
        changes.table("photos").append(rows(30))
    assert last.at().table("photos").count_rows() == 6
    assert [*last.tags] == []


@pytest.mark.usefixtures("no_commit_under_way")
def test_tables_elsewhere_know_a_repository_in_a_bucket(
    where: Where, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"storage_options": where.options}
    repo = lw.Repository.init(str(where.root), **options)
    near, far = str(tmp_path / "near.lance"), f"{str(where.root).rpartition('/')[0]}/far.lance"
    for name, uri in (("near", near), ("far", far)):
        lw.create(uri, rows(1), access=lw.Access(**options))
        repo.add(name, uri)
        lw.open(uri, access=lw.Access(**options)).append(rows(2))
        repo.commit(f"more {name}")
        lw.open(uri, access=lw.Access(**options)).overwrite(rows(3))
        repo.commit(f"less {name}")
    for name, uri in (("near", near), ("far", far)):
        table = lw.open(uri, access=lw.Access(**options))
        (member,) = repositories_of(table._snapshot)
        assert (member.repository, member.names) == (repo.uri, (name,))
        table.cleanup(older_than=timedelta(0), keep_versions=1)
        assert repo.at(f"HEAD~{2 if name == 'far' else 5}").table(name).count_rows() == 1
    monkeypatch.setenv("AWS_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(NotFoundError, match="cannot be opened"):
        lw.open(near).cleanup(older_than=timedelta(0), keep_versions=1)
    assert repo.gc().stays == ()
    assert repo.fsck().problems == ()
    inside = f"{where.root}/tables/mine.lance"
    lw.create(inside, rows(7), access=lw.Access(**options))
    assert repo.add("mine", inside).tables == ("mine",)
    assert repo.at().pin("mine").uri == "tables/mine.lance"
    stray = f"{where.root}/elsewhere/x.lance"
    lw.create(stray, rows(7), access=lw.Access(**options))
    with pytest.raises(InvalidInputError, match="is inside the repository, but not at tables/"):
        repo.add("x", stray)

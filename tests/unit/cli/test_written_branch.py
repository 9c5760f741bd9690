"""Commands that write to a table below a repository whose HEAD is on another branch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.cli.failing import ExitCode

Lw = Callable[..., Any]
TABLE = "tables/orders.lance"
VERBS = {
    "delete": ["-w", "id = 1"],
    "update": ["--set", "id=id + 1"],
    "import": ["rows.csv", "--mode", "append"],
    "merge": ["rows.csv", "--on", "id"],
    "add-columns": ["--set", "twice=id * 2"],
    "replace-columns": ["rows.csv", "--fragment", "0"],
    "drop-columns": ["size"],
    "rename-column": ["size", "weight"],
    "cast-column": ["size", "int32"],
    "index create": ["id"],
    "index extend": [],
    "index optimize": [],
    "compact": [],
    "detach": [],
    "restore": ["1"],
    "config": ["owner=ada"],
    "base": ["--add", "cold"],
    "move": ["--back", "--all"],
    "merge-branch": ["exp"],
}


@pytest.fixture(autouse=True)
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> lw.Repository:
    """Table orders with two rows, also on its branch exp, on which HEAD is."""
    repo = lw.Repository.init(tmp_path / "shop", fsync=False)
    monkeypatch.chdir(tmp_path / "shop")
    with repo.transaction("main", message="one") as changes:
        changes.create_table("orders", pa.table({"id": [1, 2], "size": [5, 6]}))
    repo.switch("exp", create=True)
    repo.prepare("orders")
    Path("rows.csv").write_text("id\n1\n")
    return repo


@pytest.mark.parametrize("verb", VERBS)
def test_what_head_does_not_see_is_not_written_unless_it_is_named(lw_run: Lw, verb: str) -> None:
    command, options = ["table", *verb.split()], VERBS[verb]
    before = lw.open(TABLE).version
    ran = lw_run(*command, TABLE, *options)
    assert ran.code == ExitCode.INVALID_INPUT
    assert ran.err == (
        f"lw: {TABLE} is in a repository whose HEAD is on branch 'exp': a write to main of the "
        "table would not show up there. Say which of the two is meant: "
        f"lw table {verb} {TABLE}@exp …, or lw table {verb} {TABLE}@main …\n"
    )
    assert lw.open(TABLE).version == before


@pytest.mark.parametrize(
    "asked",
    [
        ["DELETE FROM orders WHERE id = 1", "--table", "orders={}"],
        ["BEGIN; UPDATE 'x' SET id = 1; COMMIT", "--table", "x={}"],
    ],
)
@pytest.mark.parametrize("is_link", [False, True])
def test_sql_on_a_path_is_asked_for_its_branch_too(
    lw_run: Lw, tmp_path: Path, asked: list[str], is_link: bool
) -> None:
    before, path = lw.open(TABLE).version, Path(TABLE).resolve()
    if is_link:
        (tmp_path / "link.lance").symlink_to(path)
        path = tmp_path / "link.lance"
    ran = lw_run("sql", *(each.format(path) for each in asked))
    assert ran.code == ExitCode.INVALID_INPUT
    assert "whose HEAD is on branch 'exp'" in ran.err
    assert lw.open(TABLE).version == before
    lw_run("sql", "DELETE FROM orders@main WHERE id = 1", "--table", f"orders={path}")
    assert lw.open(TABLE).count_rows() == 1


@pytest.mark.parametrize(("said", "branch"), [("@exp", "exp"), ("@main", "main")])
def test_either_of_the_two_commands_writes_and_says_where(
    lw_ok: Lw, shop: lw.Repository, said: str, branch: str
) -> None:
    ran = lw_ok("table", "delete", TABLE + said, "-w", "id = 1")
    there = lw.open(TABLE, branch=branch)
    assert there.count_rows() == 1
    assert ran.out == (
        f"deleted 1 row of {Path.cwd()}/{TABLE}, version {there.version} of {branch}\n"
    )
    assert shop.status().is_clean == (branch == "main")


def test_programs_are_told_the_branch(lw_ok: Lw) -> None:
    on = lw_ok("table", "delete", TABLE, "--branch", "exp", "-w", "id = 1", "--json").document
    assert (on["branch"], on["version"]) == ("exp", lw.open(TABLE, branch="exp").version)
    new = lw_ok("table", "create", "new.lance", "--column", "a:int8", "--json").document
    assert new["branch"] == "main"


def test_the_repository_is_that_around_the_table_and_not_around_the_directory(
    lw_run: Lw, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = lw_run("table", "delete", f"shop/{TABLE}", "-w", "id = 1")
    assert ran.code == ExitCode.INVALID_INPUT
    assert f"lw table delete shop/{TABLE}@exp …" in ran.err


def test_a_branch_that_the_table_does_not_have_yet_is_made_by_prepare(
    lw_run: Lw, lw_ok: Lw, shop: lw.Repository
) -> None:
    shop.switch("dev", create=True)
    ran = lw_run("table", "delete", TABLE, "-w", "id = 1")
    assert ran.err.endswith(
        f": lw prepare orders and then lw table delete {TABLE}@dev …, or lw table delete "
        f"{TABLE}@main …\n"
    )
    lw_ok("prepare", "orders")
    lw_ok("table", "delete", f"{TABLE}@dev", "-w", "id = 1")


def test_nothing_is_asked_where_head_is_on_main_or_detached_or_does_not_have_the_table(
    lw_ok: Lw, shop: lw.Repository
) -> None:
    lw.create("tables/new.lance", pa.table({"id": [1]}))
    lw_ok("table", "delete", "tables/new.lance", "-w", "id = 1")
    shop.detach("main")
    lw_ok("table", "delete", TABLE, "-w", "id = 1")
    shop.switch("main")
    lw_ok("table", "delete", TABLE, "-w", "id = 2")


def test_nothing_is_asked_of_a_table_in_a_git_repository_of_another_kind(
    lw_ok: Lw, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = tmp_path / "bare"
    (bare / "objects").mkdir(parents=True)
    (bare / "refs").mkdir()
    (bare / "HEAD").write_text("ref: refs/heads/exp\n")
    monkeypatch.chdir(bare)
    lw.create(TABLE, pa.table({"id": [1]}))
    lw_ok("table", "delete", TABLE, "-w", "id = 1")


def test_a_table_that_is_published_or_tagged_by_name_is_not_asked_about(lw_ok: Lw) -> None:
    lw_ok("table", "delete", f"{TABLE}@exp", "-w", "id = 1")
    lw_ok("table", "tag", TABLE, "v1", "--branch", "exp")
    lw_ok("table", "publish", TABLE, "exp")
    assert lw.open(TABLE).count_rows() == 1

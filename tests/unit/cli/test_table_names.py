"""Tables called by name, inside a repository."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.cli.failing import ExitCode

Lw = Callable[..., Any]


def orders(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


@pytest.fixture(autouse=True)
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> lw.Repository:
    """Table orders: 2 rows at tag d1, 3 at HEAD, 4 on branch exp, and one more written past the
    repository, to main; the table's own tag own is on its first version, its tag fork where exp
    begins."""
    repo = lw.Repository.init(tmp_path / "shop", fsync=False)
    monkeypatch.chdir(tmp_path / "shop")
    with repo.transaction("main", message="one") as changes:
        changes.create_table("orders", orders(1, 2))
    repo.tags.create("d1")
    with repo.transaction("main", message="two") as changes:
        changes.table("orders").append(orders(3))
    repo.branches.create("exp")
    with repo.transaction("exp", message="three") as changes:
        changes.table("orders").append(orders(4))
    table = lw.open("tables/orders.lance")
    table.tags.create("own", at=1)
    table.tags.create("fork", at=2)
    table.append(orders(5, 6))
    return repo


@pytest.mark.parametrize(
    ("said", "rows"),
    [
        (["orders"], 3),
        (["orders@d1"], 2),
        (["orders@main~1"], 2),
        (["orders@exp"], 4),
        (["orders", "--at", "d1"], 2),
        (["tables/orders.lance"], 5),
        (["tables/orders.lance@d1"], 2),
        (["tables/orders.lance", "--at", "exp"], 4),
        (["orders@own"], 2),
        (["orders@:1"], 2),
        (["orders", "--version", "1"], 2),
        (["orders", "--tag", "own"], 2),
        (["orders", "--branch", "main"], 5),
    ],
)
def test_a_name_is_read_as_the_repository_has_it(lw_ok: Lw, said: list[str], rows: int) -> None:
    assert int(lw_ok("table", "count", *said).out) == rows


@pytest.mark.parametrize("command", ["cat", "head", "info", "schema", "files", "verify", "config"])
def test_every_command_that_reads_takes_names(lw_ok: Lw, command: str) -> None:
    lw_ok("table", command, "orders@d1")


def test_files_are_written_of_a_name(lw_ok: Lw, tmp_path: Path) -> None:
    lw_ok("table", "export", "orders@d1", tmp_path / "x.csv")
    assert (tmp_path / "x.csv").read_text().split() == ['"id"', "1", "2"]
    assert len(lw_ok("table", "versions", "orders", "--json").lines) == 3


def test_a_name_works_from_anywhere_with_c(
    lw_ok: Lw, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert int(lw_ok("-C", "shop", "table", "count", "orders@d1").out) == 2


@pytest.mark.parametrize(("revision", "rows"), [("d1", 2), ("exp~1", 3)])
def test_revisions_of_the_repository_around_the_table_are_known_from_anywhere(
    lw_ok: Lw, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, revision: str, rows: int
) -> None:
    monkeypatch.chdir(tmp_path)
    path = f"shop/tables/orders.lance@{revision}"
    assert int(lw_ok("table", "count", path).out) == rows
    lw_ok("table", "export", path, tmp_path / "x.csv")
    assert len((tmp_path / "x.csv").read_text().split()) == rows + 1
    other = lw.Repository.init(tmp_path / "other", fsync=False)
    monkeypatch.chdir(other.path)
    assert int(lw_ok("table", "count", f"../{path}").out) == rows


def test_an_unknown_revision_is_told_with_those_of_the_repository_around_the_table(
    lw_run: Lw, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    failed = lw_run("table", "count", "shop/tables/orders.lance@d2")
    assert failed.code == ExitCode.NOT_FOUND
    assert "there is tag 'd1'" in failed.err


@pytest.mark.parametrize(
    ("said", "inserted"),
    [
        (["orders", "--since", "d1"], 1),
        (["orders", "--since", "own", "--until", "2"], 1),
        (["orders", "--since", "1"], 1),
        (["orders@exp", "--since", "d1"], 2),
        (["orders@exp", "--since", "main"], 1),
        (["orders@exp", "--since", "fork"], 1),
        (["orders@exp", "--since", "2"], 1),
        (["orders@exp", "--since", "1", "--until", "fork"], 1),
        (["tables/orders.lance@exp:", "--since", "fork"], 1),
        (["tables/orders.lance", "--since", "d1"], 3),
        (["tables/orders.lance", "--since", "main", "--until", "3"], 2),
    ],
)
def test_changes_are_told_since_a_revision(lw_ok: Lw, said: list[str], inserted: int) -> None:
    assert lw_ok("table", "changes", *said, "--count", "--json").document["inserted"] == inserted


def test_changes_since_another_branch_are_refused(lw_run: Lw) -> None:
    failed = lw_run("table", "changes", "orders", "--since", "exp")
    assert failed.code == ExitCode.INVALID_INPUT
    assert "none of main" in failed.err


@pytest.mark.parametrize("said", ["orders@nope", "nothing", "nothing@d1", "tables/orders.lance@no"])
def test_what_nobody_has_is_not_found(lw_run: Lw, said: str) -> None:
    assert lw_run("table", "count", said).code == ExitCode.NOT_FOUND


@pytest.mark.parametrize("branch", ["exp", "main"])
def test_a_path_with_a_branch_of_the_table_is_read_where_it_is_written(
    lw_ok: Lw, branch: str
) -> None:
    path = f"tables/orders.lance@{branch}"
    before = {each: _count(lw_ok, each) for each in (path, f"orders@{branch}")}
    lw_ok("table", "delete", path, "-w", "id = 1", "-y")
    assert _count(lw_ok, path) == before[path] - 1
    assert _count(lw_ok, "tables/orders.lance", "--at", branch) == before[path] - 1
    assert _count(lw_ok, f"orders@{branch}") == before[f"orders@{branch}"], "as it is committed"
    told = lw_ok("table", "changes", path, "--since", "1", "--count", "--json").document
    assert told["deleted"] == 1
    newest = lw_ok("table", "versions", path, "--json").lines[0]["version"]
    assert newest == told["until"]


def test_a_path_with_a_branch_that_only_the_repository_has_is_what_that_pins(
    lw_ok: Lw, shop: lw.Repository
) -> None:
    shop.branches.create("dev", at="d1")
    assert _count(lw_ok, "tables/orders.lance@dev") == 2


def _count(lw_ok: Lw, *said: str) -> int:
    return int(lw_ok("table", "count", *said).out.split()[0])


def test_a_command_that_writes_takes_places_only(lw_run: Lw) -> None:
    failed = lw_run("table", "delete", "orders", "-w", "id = 1", "-y")
    assert failed.code == ExitCode.NOT_FOUND
    assert "tables/orders.lance?" in failed.err


@pytest.mark.parametrize(
    "said",
    [
        ["cat", "orders@d2"],
        ["cat", "orders", "--at", "d2"],
        ["cat", "tables/orders.lance@d2"],
        ["info", "orders@d2"],
        ["versions", "orders@d2"],
        ["versions", "tables/orders.lance@d2"],
        ["changes", "orders", "--since", "d2"],
        ["changes", "orders@d2", "--since", "1"],
    ],
)
def test_an_unknown_revision_is_told_with_those_of_table_and_repository(
    lw_run: Lw, said: list[str]
) -> None:
    failed = lw_run("table", *said)
    assert failed.code == ExitCode.NOT_FOUND
    assert "orders.lance has no tag or branch called 'd2'" in failed.err
    assert "in the repository there are branches 'exp', 'main', there is tag 'd1'" in failed.err

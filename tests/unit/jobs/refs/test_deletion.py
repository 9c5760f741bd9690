"""Deleting branches: who stands in the way, what goes, and what nests beside it stays."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.jobs.refs import deletion
from lancewood.jobs.refs import records as intent
from lancewood.jobs.refs.deletion import find_files
from lancewood.jobs.refs.records import Intent, declare
from lancewood.store.disk import DiskStore

ROWS = pa.table({"a": [1, 2, 3]})


@pytest.fixture
def table(tmp_path: Path) -> lw.Table:
    return lw.create(tmp_path / "t.lance", ROWS, access=lw.Access(fsync=False)).append(ROWS)


def record(table: lw.Table, name: str) -> Path:
    return Path(table.uri) / "_refs" / "branches" / f"{name.replace('/', '%2F')}.json"


def below(table: lw.Table, directory: str = "tree") -> set[str]:
    root = Path(table.uri) / directory
    return {str(each.relative_to(root)) for each in root.rglob("*") if each.is_file()}


def test_a_branch_goes_with_its_files_and_its_empty_directories(table: lw.Table) -> None:
    table.branches.create("a/b/c").append(ROWS).delete("a = 1")
    data = below(table, "data")
    table.branches.delete("a/b/c")
    assert table.branches.list() == {}
    assert not (Path(table.uri) / "tree").exists()
    assert below(table, "data") == data, "data files in the main root are for the cleanup of main"
    assert table.to_arrow().num_rows == 6


def test_the_files_it_left_in_the_main_root_are_cleaned_up_with_main(
    table: lw.Table, no_commit_under_way: None
) -> None:
    before = below(table, "data")
    table.branches.create("exp").append(ROWS)
    table.branches.delete("exp")
    table.cleanup(in_flight=timedelta(0))
    assert below(table, "data") == before


def test_branches_that_came_from_it_are_named(table: lw.Table) -> None:
    parent = table.branches.create("p")
    parent.branches.create("child").branches.create("grandchild")
    for force in (False, True):
        with pytest.raises(lw.InvalidInputError) as refused:
            table.branches.delete("p", force=force)
        assert "branch 'child' came from it, branch 'grandchild' came from it" in str(refused.value)
    table.branches.delete("grandchild")
    table.branches.delete("child")
    table.branches.delete("p")


def test_a_grandchild_holds_it_after_its_child_was_lost(table: lw.Table) -> None:
    table.branches.create("p").branches.create("child").branches.create("grandchild")
    record(table, "child").unlink()
    with pytest.raises(lw.InvalidInputError, match="branch 'grandchild' came from it"):
        table.branches.delete("p")


def test_tags_on_it_are_named_and_go_with_force(table: lw.Table) -> None:
    table.branches.create("p").tags.create("on-it")
    table.tags.create("on-main")
    with pytest.raises(
        lw.InvalidInputError, match=r"tag 'on-it' names its version 2; .*force=True"
    ):
        table.branches.delete("p")
    table.branches.delete("p", force=True)
    assert list(table.tags.list()) == ["on-main"]


@pytest.mark.parametrize("guard", ["lw.clone.1", "lw.publish.1"])
def test_a_guard_on_it_holds_it_even_with_force(table: lw.Table, guard: str) -> None:
    table.branches.create("p").tags.create(guard, force=True)
    with pytest.raises(lw.InvalidInputError, match=f"tag '{guard}' says that a clone or another"):
        table.branches.delete("p", force=True)
    table.tags.delete(guard, force=True)
    table.branches.delete("p")


def test_a_base_path_of_main_into_it_holds_it(table: lw.Table) -> None:
    from lancewood.model.transaction import UpdateBases
    from lancewood.proto import table_pb2

    table.branches.create("p")
    base = table_pb2.BasePath(id=1, path=f"{table.uri}/tree/p/", is_dataset_root=True)
    based = table.commit(table.transaction(UpdateBases((base,))))
    with pytest.raises(lw.InvalidInputError, match="main has a base path there"):
        based.branches.delete("p")


def test_the_branch_of_the_handle_is_not_deleted(table: lw.Table) -> None:
    branch = table.branches.create("p")
    with pytest.raises(lw.InvalidInputError, match="through a handle that is on it"):
        branch.branches.delete("p")
    other = table.branches.create("q")
    other.branches.delete("p")
    with pytest.raises(lw.InvalidInputError, match="main cannot be deleted"):
        table.branches.delete("main")


@pytest.mark.parametrize("name", ["nope", "a..b", 7, ""])
def test_what_is_not_there_is_refused(table: lw.Table, name: Any) -> None:
    with pytest.raises((lw.NotFoundError, lw.InvalidInputError)):
        table.branches.delete(name, force=True)
    assert not (Path(table.uri) / "tree").exists()


@pytest.mark.parametrize(("first", "other"), [("p", "p/q"), ("p/q", "p"), ("p", "p/q/r")])
def test_branches_that_nest_do_not_harm_each_other(table: lw.Table, first: str, other: str) -> None:
    table.branches.create(first).append(ROWS).delete("a = 1")
    stays = table.branches.create(other).append(ROWS).delete("a = 2")
    rows = stays.to_arrow()
    table.branches.delete(first)
    assert table.checkout(branch=other).to_arrow() == rows
    again = table.branches.create(first)
    assert again.append(ROWS).count_rows() == 9
    table.branches.delete(other)
    table.branches.delete(first)
    assert not (Path(table.uri) / "tree").exists()


@pytest.mark.parametrize(
    "inner", ["_versions", "data", "_transactions", "_deletions", "_indices", "tree"]
)
def test_a_branch_inside_the_directories_of_another_stays(table: lw.Table, inner: str) -> None:
    """pylance allows such names, and then loses ``p`` when it deletes them."""
    table.branches.create("p").append(ROWS).delete("a = 1")
    odd = lw.Table(table._snapshot)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lancewood.model.refs.RESERVED_SEGMENTS", frozenset())
        rows = odd.branches.create(f"p/{inner}").append(ROWS).delete("a = 2").to_arrow()
    table.branches.delete("p")
    assert table.checkout(branch=f"p/{inner}").to_arrow() == rows
    again = table.branches.create("p").append(ROWS)
    table.branches.delete(f"p/{inner}")
    assert table.checkout(branch="p").to_arrow() == again.to_arrow()


def test_only_what_the_format_makes_is_removed(table: lw.Table) -> None:
    table.branches.create("p").append(ROWS)
    root = Path(table.uri) / "tree" / "p"
    index = f"_indices/{uuid4()}"
    theirs = [
        "notes.txt",
        "data/notes.txt",
        "deep/er/x",
        "_indices/other/x",
        f"{index}/data/x.lance",
    ]
    ours = [f"{index}/page.lance", "data/x.lance", "_versions/latest_version_hint.json"]
    for each in (*theirs, *ours):
        (root / each).parent.mkdir(parents=True, exist_ok=True)
        (root / each).write_text("x")
    table.branches.delete("p")
    assert below(table) == {f"p/{each}" for each in theirs}


def test_a_damaged_record_is_deleted_with_its_branch(table: lw.Table) -> None:
    table.branches.create("p")
    record(table, "p").write_text("{")
    table.branches.delete("p")
    assert table.branches.list() == {}
    record(table, "q").write_text("{")
    table.branches.create("p")
    with pytest.raises(lw.FormatError, match=r"q\.json"):
        table.branches.delete("p")


def test_what_a_cut_off_deletion_left_goes_with_force_or_when_it_is_old(
    table: lw.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    for old in (False, True):
        table.branches.create("p").append(ROWS)
        record(table, "p").unlink()
        declare(DiskStore(f"{table.uri}/tree/p"), Intent("delete"), None)
        with pytest.raises(lw.NotFoundError, match="it is being deleted, or that was cut off"):
            table.branches.delete("p")
        with pytest.raises(lw.RetryableConflictError, match="it is being deleted, or that was"):
            table.branches.create("p")
        if old:
            monkeypatch.setattr(intent, "ABANDONED", timedelta(0))
        table.branches.delete("p", force=not old)
        assert not (Path(table.uri) / "tree").exists()


def test_a_creation_beside_a_cut_off_deletion_clears_it_away_when_it_is_old(
    table: lw.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.branches.create("p").append(ROWS)
    record(table, "p").unlink()
    declare(DiskStore(f"{table.uri}/tree/p"), Intent("delete"), None)
    monkeypatch.setattr(intent, "ABANDONED", timedelta(0))
    again = table.branches.create("p", 1)
    assert [each.version for each in again.versions()] == [1]


@pytest.mark.parametrize("name", ["p", "q"])
def test_who_is_at_work_is_told_by_the_clock_of_the_store(
    table: lw.Table, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Whoever comes next has a clock that is a month ahead, and takes over from nobody: neither a
    deletion nor a first version that another has just put."""

    class Ahead:
        @staticmethod
        def now(tz: Any = None) -> datetime:
            return datetime.now(tz) + timedelta(days=30)

    monkeypatch.setattr("lancewood.store.clock.datetime", Ahead)
    table.append(ROWS).branches.create(name, 2)
    record(table, name).unlink()
    if name == "p":
        declare(DiskStore(f"{table.uri}/tree/p"), Intent("delete"), None)
    with pytest.raises(lw.RetryableConflictError, match="cannot be created now"):
        table.branches.create(name, 1)


def test_a_root_whose_manifests_are_gone_stops_neither_cleanup_nor_creation(
    table: lw.Table, no_commit_under_way: None
) -> None:
    table.branches.create("p").append(ROWS).delete("a = 1")
    record(table, "p").unlink()
    root = DiskStore(f"{table.uri}/tree/p")
    root.delete(find_files(root).manifests)
    table.cleanup(in_flight=timedelta(0))
    assert table.branches.create("p").count_rows() == 6


def test_versions_that_no_branch_names_keep_what_they_need(
    table: lw.Table, no_commit_under_way: None
) -> None:
    branch = table.branches.create("p").append(ROWS)
    rows = branch.to_arrow()
    record(table, "p").unlink()
    table.cleanup(keep_versions=1, in_flight=timedelta(0))
    assert lw.open(branch.uri).to_arrow() == rows
    with pytest.raises(lw.NotFoundError, match="no branch names them; force=True removes them"):
        table.branches.delete("p")


def test_a_long_deletion_notices_that_somebody_has_taken_over(
    table: lw.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.branches.create("p").append(ROWS)
    monkeypatch.setattr(deletion, "_HEARTBEAT", -1.0)
    monkeypatch.setattr(deletion, "MOST_KEYS", 1)
    table.branches.delete("p")
    table.branches.create("p").append(ROWS)
    monkeypatch.setattr("lancewood.jobs.refs.deletion.declare", _only_once())
    with pytest.raises(lw.RetryableConflictError, match="somebody else has taken over"):
        table.branches.delete("p")


def _only_once() -> Any:
    calls: list[bool] = []

    def once(*arguments: Any) -> bool:
        calls.append(True)
        return len(calls) == 1 and declare(*arguments)

    return once


Change = Callable[[lw.Table], lw.Table]


@pytest.mark.parametrize("how", ["made again", "reset"])
@pytest.mark.parametrize(
    "change",
    [
        lambda old: old.delete("a >= 200"),
        lambda old: old.update({"a": "a + 1"}, "a >= 200"),
        lambda old: old.append(ROWS),
        lambda old: old.overwrite(ROWS),
        lambda old: old.compact(),
        lambda old: old.detach(),
    ],
)
def test_a_handle_from_before_does_not_change_a_branch_that_is_new(
    table: lw.Table, change: Change, how: str
) -> None:
    """Both have a third fragment, and other rows in it."""
    old = table.branches.create("exp").append(pa.table({"a": [200, 201]}))
    table.append(pa.table({"a": [300, 301]})).append(ROWS)
    if how == "reset":
        made = table.latest().branches.reset("exp", force=True)
    else:
        table.branches.delete("exp")
        made = table.latest().branches.create("exp")
    rows = made.to_arrow()
    with pytest.raises(lw.IncompatibleConflictError, match="made anew or reset"):
        change(old)
    assert made.latest().version == made.version
    assert made.latest().to_arrow() == rows

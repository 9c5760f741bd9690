"""Renaming branches: everything comes along, nothing is lost, and it can be run again."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.format.layout import NamingScheme, manifest_key
from lancewood.jobs.refs import records as intent
from lancewood.jobs.refs import renaming
from lancewood.jobs.refs.records import INTENT_KEY, Intent, declare
from lancewood.model.ids import Version
from lancewood.model.refs import BranchName
from lancewood.store.disk import DiskStore

ROWS = pa.table({"a": [1, 2, 3]})


@pytest.fixture
def table(tmp_path: Path) -> lw.Table:
    return lw.create(tmp_path / "t.lance", ROWS, access=lw.Access(fsync=False)).append(ROWS)


@pytest.fixture
def branch(table: lw.Table) -> lw.Table:
    """Four versions: made, appended to, deleted from, configured."""
    made = table.branches.create("old", metadata={"by": "me"}).append(ROWS).delete("a = 1")
    return made.set_config({"k": "v", "l": "w"})


def roots(table: lw.Table) -> set[str]:
    return {each.name for each in (Path(table.uri) / "tree").iterdir()}


def test_versions_rows_and_record_come_along(table: lw.Table, branch: lw.Table) -> None:
    before = table.branches.get("old")
    rows = {
        each.version: branch.checkout(version=each.version).to_arrow() for each in branch.versions()
    }
    renamed = table.branches.rename("old", "new")
    assert (renamed.branch, renamed.version) == ("new", branch.version)
    assert {each: renamed.checkout(version=each).to_arrow() for each in rows} == rows
    assert [each.operation for each in renamed.versions()] == [
        "UpdateConfig",
        "Delete",
        "Append",
        "Clone",
    ]
    after = table.branches.list()
    assert list(after) == ["new"]
    assert after["new"].identifier == before.identifier
    assert after["new"].metadata == {"by": "me"}
    assert roots(table) == {"new"}
    assert not (Path(renamed.uri) / INTENT_KEY).exists()
    assert renamed.verify().ok
    assert renamed.append(ROWS).count_rows() == renamed.count_rows() + 3


def test_the_transaction_that_made_it_has_the_new_name(table: lw.Table, branch: lw.Table) -> None:
    renamed = table.branches.rename("old", "new")
    made = lance.dataset(table.uri).checkout_version(("new", 2)).read_transaction(2)
    assert made.operation.branch_name == "new"
    for file in (Path(renamed.uri) / "_transactions").iterdir():
        assert b"old" not in file.read_bytes()


def test_a_handle_on_it_may_rename_it_and_nested_names_do_not_meet(
    table: lw.Table, branch: lw.Table
) -> None:
    other = table.branches.create("old/inner").append(ROWS).to_arrow()
    rows = branch.to_arrow()
    assert branch.branches.rename("old", "old/deeper").to_arrow() == rows
    again = table.branches.rename("old/deeper", "old")
    assert again.to_arrow() == rows
    assert table.checkout(branch="old/inner").to_arrow() == other


def test_who_needs_it_is_named(table: lw.Table, branch: lw.Table) -> None:
    branch.branches.create("child")
    branch.tags.create("v1")
    with pytest.raises(lw.InvalidInputError) as refused:
        table.branches.rename("old", "new")
    assert "branch 'child' came from it" in str(refused.value)
    assert "tag 'v1' names its version 5" in str(refused.value)
    assert "force" not in str(refused.value)
    assert roots(table) == {"old", "child"}


def test_names_that_cannot_be(table: lw.Table, branch: lw.Table) -> None:
    table.branches.create("taken")
    with pytest.raises(lw.AlreadyExistsError, match=r"branch 'taken' of .* exists already"):
        table.branches.rename("old", "taken")
    with pytest.raises(lw.NotFoundError, match=r"branch 'nope' of .* not found"):
        table.branches.rename("nope", "new")
    for old, new in (
        ("main", "x"),
        ("old", "main"),
        ("old", "old"),
        ("old", "a..b"),
        ("old", "x/data"),
    ):
        with pytest.raises(lw.InvalidInputError):
            table.branches.rename(old, new)
    assert roots(table) == {"old", "taken"}
    assert table.checkout(branch="old").count_rows() == 6


def test_a_place_with_files_that_no_branch_names_is_not_taken(
    table: lw.Table, branch: lw.Table
) -> None:
    table.branches.create("new").append(ROWS)
    (Path(table.uri) / "_refs" / "branches" / "new.json").unlink()
    with pytest.raises(lw.InvalidInputError, match="delete 'new' with force=True, or take another"):
        table.branches.rename("old", "new")
    table.branches.delete("new", force=True)
    assert table.branches.rename("old", "new").count_rows() == 6


@pytest.mark.parametrize("step", ["_bring", "_note", "_record", "_finish", "_bring_late"])
def test_a_version_that_lands_under_the_old_name_meanwhile_comes_along(
    table: lw.Table, branch: lw.Table, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    landed = _before(monkeypatch, step, lambda: branch.latest().append(ROWS))
    renamed = table.branches.rename("old", "new")
    assert landed
    assert renamed.version == branch.version + 1
    assert renamed.count_rows() == 9
    assert roots(table) == {"new"}


def _before(monkeypatch: pytest.MonkeyPatch, step: str, act: Callable[[], object]) -> list[object]:
    """Let something happen before a step of a rename, once."""
    done: list[object] = []
    goes_on = getattr(renaming._Rename, step)

    def wrapped(self: Any, *arguments: Any) -> Any:
        if not done:
            done.append(act())
        return goes_on(self, *arguments)

    monkeypatch.setattr(renaming._Rename, step, wrapped)
    return done


def test_a_version_that_cannot_come_along_is_reported_and_stays(
    table: lw.Table, branch: lw.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody has gone on under the new name already."""

    def both() -> None:
        branch.append(ROWS)
        table.checkout(branch="new").delete("a = 2")

    _before(monkeypatch, "_finish", both)
    with pytest.raises(lw.IncompatibleConflictError, match=r"landed in .*tree/old while 'old' was"):
        table.branches.rename("old", "new")
    assert table.checkout(branch="new").count_rows() == 3
    assert lw.open(f"{table.uri}/tree/old").count_rows() == 9
    table.branches.delete("old", force=True)
    assert table.branches.list().keys() == {"new"}
    table.branches.delete("new")


def test_a_damaged_version_stops_it_and_leaves_the_branch_as_it_was(
    table: lw.Table, branch: lw.Table
) -> None:
    root = Path(table.uri) / "tree" / "old"
    key = manifest_key(Version(3), NamingScheme.V2)
    kept = (root / key).read_bytes()
    (root / key).write_bytes(kept[:-1])
    with pytest.raises(lw.FormatError, match=r"\.manifest"):
        table.branches.rename("old", "new")
    assert roots(table) == {"old"}
    assert not (root / INTENT_KEY).exists()
    (root / key).write_bytes(kept)
    assert table.branches.rename("old", "new").count_rows() == 6


def test_a_rename_to_somewhere_else_waits_for_the_first(table: lw.Table, branch: lw.Table) -> None:
    declare(DiskStore(f"{table.uri}/tree/old"), Intent("move out", BranchName("first")), None)
    declare(DiskStore(f"{table.uri}/tree/first"), Intent("move in", BranchName("old")), None)
    for act in (
        lambda: table.branches.rename("old", "second"),
        lambda: table.branches.delete("old"),
        lambda: table.branches.create("first"),
    ):
        with pytest.raises(lw.RetryableConflictError, match="is being renamed"):
            act()
    assert table.branches.rename("old", "first").count_rows() == 6
    assert roots(table) == {"first"}


def test_a_rename_that_never_reached_the_other_root_is_forgotten_when_it_is_old(
    table: lw.Table, branch: lw.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare(DiskStore(f"{table.uri}/tree/old"), Intent("move out", BranchName("first")), None)
    with pytest.raises(lw.RetryableConflictError, match="is being renamed to 'first'"):
        table.branches.rename("old", "second")
    monkeypatch.setattr(intent, "ABANDONED", timedelta(0))
    assert table.branches.rename("old", "second").count_rows() == 6


def test_a_base_path_to_its_own_root_follows(table: lw.Table, branch: lw.Table) -> None:
    """As the specification draws it: the own root is a base path, too."""
    from lancewood.model.transaction import UpdateBases
    from lancewood.proto import table_pb2

    own = table_pb2.BasePath(id=7, path=branch.uri, is_dataset_root=True)
    branch.commit(branch.transaction(UpdateBases((own,))))
    renamed = table.branches.rename("old", "new")
    assert {each.id: each.path for each in renamed.base_paths} == {0: table.uri, 7: renamed.uri}


def test_a_branch_of_pylance_is_renamed_with_its_data_files_and_indices(table: lw.Table) -> None:
    theirs = lance.dataset(table.uri).create_branch("old")
    theirs = lance.write_dataset(pa.table({"a": range(10, 50)}), theirs, mode="append")
    theirs.create_scalar_index("a", "BTREE")
    theirs.delete("a = 11")
    rows = theirs.to_table()
    renamed = table.branches.rename("old", "new")
    assert renamed.to_arrow().sort_by("a") == rows.sort_by("a")
    found = lance.dataset(table.uri).checkout_version(("new", None))
    found.validate()
    assert found.to_table() == rows
    assert found.to_table(filter="a = 20").num_rows == 1
    found.delete("a = 12")
    assert roots(table) == {"new"}


def test_who_still_holds_the_old_name_can_write_nothing_that_would_be_lost(
    table: lw.Table, branch: lw.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rename that was cut off before it removed the old root."""
    theirs = lance.dataset(table.uri).checkout_version(("old", None))

    def stop(*arguments: Any) -> None:
        raise lw.StorageError("the store is down")

    with monkeypatch.context() as patch:
        patch.setattr(renaming, "remove_files", stop)
        with pytest.raises(lw.StorageError):
            table.branches.rename("old", "new")
    with pytest.raises(lw.IncompatibleConflictError):
        branch.append(ROWS)
    with pytest.raises(lw.IncompatibleConflictError):
        branch.delete("a = 2")
    with pytest.raises(lw.IncompatibleConflictError, match="was renamed to 'new'; open it by that"):
        lw.open(branch.uri).append(ROWS)
    with pytest.raises(Exception, match=r"[Cc]onflict"):
        lance.write_dataset(ROWS, theirs, mode="append")
    assert table.checkout(branch="new").append(ROWS).count_rows() == 9
    assert table.branches.rename("old", "new").count_rows() == 9
    assert roots(table) == {"new"}
    assert list(table.branches.list()) == ["new"]


@pytest.mark.parametrize("harm", ["record", "versions"])
def test_a_branch_that_is_damaged_is_not_begun_with(
    table: lw.Table, branch: lw.Table, harm: str
) -> None:
    if harm == "record":
        (Path(table.uri) / "_refs" / "branches" / "old.json").write_text("{}")
    else:
        for each in (Path(branch.uri) / "_versions").iterdir():
            each.unlink()
    with pytest.raises((lw.FormatError, lw.NotFoundError), match="old"):
        table.branches.rename("old", "new")
    assert roots(table) == {"old"}
    table.branches.delete("old", force=True)
    assert table.branches.list() == {}


def test_a_commit_that_came_too_late_does_not_block_a_name(
    table: lw.Table, branch: lw.Table
) -> None:
    table.branches.rename("old", "new")
    with pytest.raises(lw.NotFoundError):
        branch.append(ROWS)
    renamed = table.branches.rename("new", "old")
    assert renamed.to_arrow() == branch.to_arrow()

"""Making branches: from anywhere, beside leftovers, and with every record that parents may have."""

from __future__ import annotations

import json
import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.engine.write.cloning import write_clone
from lancewood.jobs.refs import creation
from lancewood.jobs.refs import records as intent
from lancewood.jobs.refs.records import INTENT_KEY, Intent, declare
from lancewood.model.lines import LINE_KEY, MERGED_KEY
from lancewood.model.refs import BranchName
from lancewood.store.disk import DiskStore

ROWS = pa.table({"a": [1, 2, 3]})


@pytest.fixture
def table(tmp_path: Path) -> lw.Table:
    """Three versions, the last of which has a deletion."""
    made = lw.create(tmp_path / "t.lance", ROWS, access=lw.Access(fsync=False))
    return made.append(ROWS).delete("a = 1")


@pytest.fixture
def abandoned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is at work any more."""
    monkeypatch.setattr(intent, "ABANDONED", timedelta(0))


def record(table: lw.Table, name: str) -> Path:
    return Path(table.uri) / "_refs" / "branches" / f"{name}.json"


def forget(table: lw.Table, name: str) -> None:
    """What a crash between the first version and the record leaves."""
    record(table, name).unlink()


def files(table: lw.Table) -> set[str]:
    root = Path(table.uri)
    return {str(each.relative_to(root)) for each in root.rglob("*") if each.is_file()}


def test_a_branch_begins_as_the_version_it_was_made_from(table: lw.Table) -> None:
    branch = table.branches.create("exp")
    assert (branch.branch, branch.version) == ("exp", 3)
    assert branch.to_arrow() == table.to_arrow()
    assert branch.append(ROWS).version == 4
    assert table.latest().version == 3
    assert [each.operation for each in branch.versions()] == ["Append", "Clone"]


def test_a_branch_of_anything_that_names_a_version(table: lw.Table) -> None:
    table.tags.create("two", 2)
    rows = {
        "number": table.branches.create("number", 1),
        "tag": table.branches.create("tag", "two"),
        "main": table.branches.create("main-1", "main:1"),
        "moment": table.branches.create("moment", datetime.now(UTC)),
    }
    assert {each: found.count_rows() for each, found in rows.items()} == {
        "number": 3,
        "tag": 6,
        "main": 3,
        "moment": 4,
    }
    child = rows["tag"].append(ROWS).branches.create("tag/child")
    grandchild = table.branches.create("grand", "tag/child")
    assert child.count_rows() == grandchild.count_rows() == 9
    found = table.branches.list()
    assert found["grand"].parent_branch == "tag/child"
    descent = found["grand"].identifier or ()
    assert [each.version for each in descent] == [2, 3, 3]
    assert descent[:2] == found["tag/child"].identifier
    assert descent[:1] == found["tag"].identifier
    assert all(len(each.uuid) == 32 for each in descent)


def test_the_record_has_both_spellings(table: lw.Table) -> None:
    table.branches.create("exp", metadata={"by": "me"})
    found = json.loads(record(table, "exp").read_text())
    (manifest,) = (Path(table.uri) / "tree" / "exp" / "_versions").iterdir()
    assert found["manifestSize"] == found["manifest_size"] == manifest.stat().st_size
    assert found["parentVersion"] == found["parent_version"] == 3
    assert found["parentBranch"] is found["parent_branch"] is None
    assert found["createAt"] == found["create_at"]
    assert found["metadata"] == {"by": "me"}
    assert table.branches.get("exp").metadata == {"by": "me"}


def test_nothing_is_left_but_manifest_transaction_record_and_claim(table: lw.Table) -> None:
    before = files(table)
    table.branches.create("a/b")
    new = {each.rpartition("/")[0] for each in files(table) - before}
    own = {"tree/a/b/_versions", "tree/a/b/_transactions"}
    assert new == {"_refs/branches", "_refs/lancewood/rows", *own}
    assert len(files(table) - before) == 4


def test_a_branch_that_exists_is_not_made_again(table: lw.Table) -> None:
    table.branches.create("exp").append(ROWS)
    before = files(table)
    with pytest.raises(lw.AlreadyExistsError, match=r"branch 'exp' of .* exists already"):
        table.branches.create("exp", 1)
    record(table, "exp").write_text("{")
    with pytest.raises(lw.AlreadyExistsError):
        table.branches.create("exp")
    assert files(table) == before


@pytest.mark.parametrize("name", ["", "main", "a//b", "a..b", "x/data", "p/_versions", "a.lock", 7])
def test_a_name_that_is_not_allowed_writes_nothing(table: lw.Table, name: Any) -> None:
    before = files(table)
    with pytest.raises(lw.InvalidInputError, match="branch name"):
        table.branches.create(name)
    assert files(table) == before


def test_what_is_not_there_is_not_found(table: lw.Table) -> None:
    with pytest.raises(lw.NotFoundError, match=r"branch 'nope' of .* not found"):
        table.branches.get("nope")
    with pytest.raises(lw.NotFoundError, match="main is the table itself"):
        table.branches.get("main")
    with pytest.raises(lw.NotFoundError):
        table.branches.create("exp", 9)
    assert table.branches.list() == {}


def test_the_same_branch_is_finished_after_a_crash_before_its_record(table: lw.Table) -> None:
    first = table.branches.create("exp")
    made = files(table)
    forget(table, "exp")
    again = table.branches.create("exp", metadata={"second": "time"})
    assert again.config == first.config, "its line stays"
    assert again.to_arrow() == table.to_arrow()
    assert files(table) == made
    assert table.branches.get("exp").metadata == {"second": "time"}


def test_another_branch_of_that_name_waits_until_nobody_can_be_at_work(
    table: lw.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.branches.create("exp")
    forget(table, "exp")
    with pytest.raises(lw.RetryableConflictError, match="another version was put there"):
        table.branches.create("exp", 2)
    shutil.rmtree(Path(table.uri) / "tree" / "exp" / "_transactions")
    declare(DiskStore(Path(table.uri) / "tree" / "exp"), Intent("create", None, 3), None)
    with pytest.raises(lw.RetryableConflictError, match="being created from version 3 of main"):
        table.branches.create("exp", 1)
    monkeypatch.setattr(intent, "ABANDONED", timedelta(0))
    assert table.branches.create("exp", 1).count_rows() == 3
    assert table.branches.get("exp").parent_version == 1


@pytest.mark.usefixtures("abandoned")
def test_a_lone_first_version_of_another_branch_is_cleared_away(table: lw.Table) -> None:
    table.branches.create("exp")
    forget(table, "exp")
    branch = table.branches.create("exp", 2)
    assert branch.count_rows() == 6
    assert [each.version for each in branch.versions()] == [2]


@pytest.mark.usefixtures("abandoned")
def test_a_first_version_of_a_table_that_was_made_anew_is_not_taken_for_the_same(
    table: lw.Table,
) -> None:
    branch = table.branches.create("exp")
    left = f"{table.uri}/tree/exp"
    forget(table, "exp")
    shutil.copytree(left, f"{table.uri}.left")
    lw.drop(table.uri, force=True)
    other = pa.table({"a": [9]})
    again = lw.create(table.uri, other, access=lw.Access(fsync=False)).append(other).append(other)
    shutil.copytree(f"{table.uri}.left", left)
    assert again.branches.create("exp").to_arrow() == again.to_arrow()
    assert branch.version == again.version


@pytest.mark.usefixtures("abandoned")
def test_versions_that_no_branch_names_are_not_cleared_away(table: lw.Table) -> None:
    """As pylance leaves those of ``p`` when it deletes it beside ``p/q``."""
    table.branches.create("p").append(ROWS)
    forget(table, "p")
    before = files(table)
    with pytest.raises(lw.InvalidInputError, match="delete it with force=True, or take another"):
        table.branches.create("p")
    assert files(table) == before
    table.branches.delete("p", force=True)
    assert table.branches.create("p").count_rows() == 4


@pytest.mark.usefixtures("abandoned")
def test_a_lone_first_version_that_others_came_from_is_not_cleared_away(table: lw.Table) -> None:
    parent = table.branches.create("p")
    parent.branches.create("child")
    forget(table, "p")
    with pytest.raises(lw.InvalidInputError, match="holds versions of an earlier one"):
        table.branches.create("p", 2)
    assert table.checkout(branch="child").count_rows() == 4


def test_an_intent_that_says_nothing_is_named(table: lw.Table) -> None:
    file = Path(table.uri) / "tree" / "exp" / INTENT_KEY
    file.parent.mkdir(parents=True)
    file.write_text('{"verb": "conquer"}')
    with pytest.raises(lw.FormatError, match=r"lancewood-intent\.json: does not say what"):
        table.branches.create("exp")


def test_a_branch_whose_source_is_cleaned_up_meanwhile_is_taken_back(
    table: lw.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    def meanwhile(*arguments: Any, **more: Any) -> Any:
        os.unlink(Path(table.uri) / "_versions" / f"{2**64 - 1 - 1:020d}.manifest")
        return write_clone(*arguments, **more)

    monkeypatch.setattr(creation, "write_clone", meanwhile)
    with pytest.raises(lw.NotFoundError, match=r"version 1 of .* was removed while branch 'exp'"):
        table.branches.create("exp", 1)
    assert not (Path(table.uri) / "tree").exists()
    assert table.branches.list() == {}


@pytest.mark.parametrize("verb", ["delete", "move out"])
def test_a_branch_whose_parent_is_being_deleted_is_taken_back(
    table: lw.Table, verb: Any, tmp_path: Path
) -> None:
    parent = table.branches.create("p")
    declare(DiskStore(f"{table.uri}/tree/p"), Intent(verb, BranchName("new")), None)
    with pytest.raises(lw.NotFoundError, match="branch 'p' was deleted or renamed while"):
        parent.branches.create("child")
    with pytest.raises(lw.NotFoundError, match="branch 'p' was about to be deleted or renamed"):
        parent.tags.create("v1")
    assert list(table.branches.list()) == ["p"]
    assert table.tags.list() == {}
    assert not (Path(table.uri) / "tree" / "child").exists()


def test_a_branch_whose_parent_is_not_recorded_is_refused(table: lw.Table) -> None:
    parent = table.branches.create("p")
    forget(table, "p")
    with pytest.raises(lw.NotFoundError, match=r"branch 'p' of .* is not recorded"):
        parent.branches.create("child")


def test_a_parent_without_a_descent_gets_one_that_all_its_children_share(table: lw.Table) -> None:
    parent = table.branches.create("p")
    found = json.loads(record(table, "p").read_text())
    del found["identifier"]
    record(table, "p").write_text(json.dumps({**found, "newer": 1}))
    parent.branches.create("one")
    parent.branches.create("two")
    found = table.branches.list()
    descent = found["p"].identifier or ()
    assert [each.version for each in descent] == [0]
    assert (found["one"].identifier or ())[:1] == (found["two"].identifier or ())[:1] == descent
    assert found["p"].unknown == {"newer": 1}


def test_a_branch_of_a_closed_branch_is_open(table: lw.Table) -> None:
    table.branches.create("exp").append(ROWS).set_config({"kept": "1"})
    table.branches.publish("exp")
    closed = table.checkout(branch="exp")
    assert set(closed.config) > {"kept"}
    assert closed.branches.create("next").config.keys() == {"kept", LINE_KEY, MERGED_KEY}


def test_a_handle_on_a_branch_elsewhere_says_where_it_belongs(
    table: lw.Table, tmp_path: Path
) -> None:
    table.branches.create("exp")
    shutil.copytree(f"{table.uri}/tree/exp", tmp_path / "away")
    away = lw.open(tmp_path / "away")
    for act in (lambda: away.branches.list(), lambda: away.tags.create("v1")):
        with pytest.raises(lw.InvalidInputError, match="open it at its place"):
            act()

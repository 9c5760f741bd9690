"""``lw table publish``: the work on a branch comes to its parent, or is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.cli.failing import ExitCode
from lancewood.jobs.counts import Published

Lw = Callable[..., Any]
ROWS = pa.table({"id": [1, 2, 3, 4]})


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """Main at version 1; branch exp has lost row 1 and got row 9, at version 3."""
    location = str(tmp_path / "t.lance")
    table = lw.create(location, ROWS)
    table.branches.create("exp").delete("id = 1").append(pa.table({"id": [9]}))
    return location


def ids(uri: str) -> list[int]:
    dataset = lance.dataset(uri)
    dataset.validate()
    return sorted(dataset.to_table().column("id").to_pylist())


def test_a_branch_is_published(lw_ok: Lw, uri: str) -> None:
    ran = lw_ok("table", "publish", uri, "exp", "-m", "the experiment", "--property", "by=ann")
    assert ran.out == f"published version 3 of exp onto main, as it is: {uri}, version 2 of main\n"
    assert ran.err == ""
    assert ids(uri) == [2, 3, 4, 9]
    newest = next(lw.open(uri).versions())
    assert newest.message == "the experiment"
    assert newest.properties["by"] == "ann"


def test_a_branch_is_published_beside_others(lw_ok: Lw, uri: str) -> None:
    lw.open(uri).append(pa.table({"id": [5]}))
    done = lw_ok("table", "publish", uri, "exp", "--onto", "main", "--json").document
    assert done == {
        "uri": uri,
        "version": 3,
        "dry_run": False,
        "branch": "exp",
        "branch_version": 3,
        "onto": "main",
        "published": True,
        "fast_forward": False,
        "adopted_files": 1,
        "left_out_indices": [],
    }
    assert ids(uri) == [2, 3, 4, 5, 9]


def test_a_dry_run_says_what_would_be_published(lw_ok: Lw, lw_run: Lw, uri: str) -> None:
    before = sorted(Path(uri).rglob("*"))
    ran = lw_ok("table", "publish", uri, "exp", "--dry-run")
    assert ran.out == (
        "would publish version 3 of exp onto main, as it is: "
        f"{uri}, version 1 of main; nothing was changed\n"
    )
    told = lw_ok("table", "publish", uri, "exp", "--dry-run", "--json").document
    assert (told["dry_run"], told["published"], told["version"]) == (True, True, 1)
    assert sorted(Path(uri).rglob("*")) == before
    lw.open(uri).update({"id": "100"}, "id = 1")
    refused = lw_run("table", "publish", uri, "exp", "--dry-run")
    assert refused.code in (ExitCode.CONFLICT, ExitCode.CONFLICT_RETRY)
    assert "cannot be published onto main" in refused.err


def test_the_uri_says_which_branch_is_published(lw_ok: Lw, lw_run: Lw, uri: str) -> None:
    lw.open(uri).tags.create("first")
    ran = lw_run("table", "publish", f"{uri}@first")
    assert ran.code == ExitCode.INVALID_INPUT
    assert "a tag is not written to" in ran.err
    done = lw_ok("table", "publish", f"{uri}@exp", "--json").document
    assert (done["branch"], done["onto"], done["version"]) == ("exp", "main", 2)


def test_what_was_published_is_not_published_again(lw_ok: Lw, uri: str) -> None:
    lw_ok("table", "publish", uri, "exp")
    told = lw_ok("table", "publish", uri, "exp").out
    assert told == f"main has all of exp already: {uri}, version 2 of main\n"
    assert lw_ok("table", "publish", uri, "exp", "--json").document["published"] is False
    assert lw.open(uri).version == 2


def test_a_published_branch_is_closed_until_it_begins_anew(lw_ok: Lw, lw_run: Lw, uri: str) -> None:
    lw_ok("table", "publish", uri, "exp")
    ran = lw_run("table", "delete", f"{uri}@exp", "--where", "id = 2")
    assert ran.code == ExitCode.CONFLICT
    assert "(lw table branch URI --reset exp)" in ran.err
    lw_ok("table", "branch", uri, "--reset", "exp")
    lw_ok("table", "delete", f"{uri}@exp", "--where", "id = 2")
    lw_ok("table", "publish", uri, "exp")
    assert ids(uri) == [3, 4, 9]


def test_work_that_meets_other_work_is_refused(lw_run: Lw, uri: str) -> None:
    lw.open(uri).update({"id": "100"}, "id = 1")
    ran = lw_run("table", "publish", uri, "exp")
    assert ran.code in (ExitCode.CONFLICT, ExitCode.CONFLICT_RETRY)
    assert "exp" in ran.err
    assert ids(uri) == [2, 3, 4, 100]
    assert lw.open(uri, branch="exp").version == 3


def test_files_may_stay_where_they_are(lw_ok: Lw, lw_run: Lw, uri: str) -> None:
    done = lw_ok("table", "publish", uri, "exp", "--by-reference", "--json").document
    assert (done["published"], done["adopted_files"]) == (True, 0)
    assert ids(uri) == [2, 3, 4, 9]
    (guard,) = lw_ok("table", "tag", uri, "--pins", "--json").lines
    assert guard["name"].startswith("lw.publish.")
    ran = lw_run("table", "branch", uri, "-d", "exp", "--yes", "--force")
    assert ran.code == ExitCode.INVALID_INPUT


@pytest.mark.parametrize(
    ("args", "code", "told"),
    [
        (["exq"], ExitCode.NOT_FOUND, "there is branch 'exp'"),
        (["main"], ExitCode.INVALID_INPUT, "main has no parent"),
        (["exp", "--onto", "other"], ExitCode.INVALID_INPUT, "was made from main"),
        ([], ExitCode.USAGE, "BRANCH"),
    ],
)
def test_a_wrong_branch_has_its_code(
    lw_run: Lw, uri: str, args: list[str], code: ExitCode, told: str
) -> None:
    ran = lw_run("table", "publish", uri, *args)
    assert ran.code == code
    assert told in ran.err
    assert lw.open(uri).version == 1


def test_indices_that_stay_behind_are_named(
    lw_ok: Lw, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = Published("exp", 3, False, 1, left_out_indices=("id_idx", "other_idx"))
    monkeypatch.setattr(
        "lancewood.jobs.publish.publish.publish",
        lambda snapshot, *args, **more: (snapshot, counts),
    )
    ran = lw_ok("table", "publish", uri, "exp")
    assert ran.out == (
        f"published version 3 of exp onto main, beside what others did: {uri}, version 1 of main\n"
    )
    assert ran.err == (
        "indices whose parts did not come: id_idx, other_idx: lw table index extend covers the "
        "rows by an index that is here, create builds another one\n"
    )


def test_what_to_do_after_a_failure_is_told(
    lw_run: Lw, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object, **more: object) -> None:
        error = lw.StorageError("the store is down")
        error.add_note("branch 'exp' stays closed; publish it again to go on")
        raise error

    monkeypatch.setattr("lancewood.jobs.publish.publish.publish", fail)
    ran = lw_run("table", "publish", uri, "exp")
    assert ran.code == ExitCode.STORAGE
    assert ran.err == (
        "lw: the store is down; branch 'exp' stays closed; publish it again to go on\n"
    )

"""``lw merge``, ``conflicts``, ``resolve``, ``cherry-pick`` and ``revert`` by rows; pylance is the
judge of the tables, stock git of the history."""

from __future__ import annotations

import csv
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.cli.failing import ExitCode

Lw = Callable[..., Any]
REF = "refs/lancewood/merges/main/exp"
FIRST = pa.table(
    {"id": [1, 2, 3], "label": ["cat", "dog", "owl"], "views": pa.array([10, 20, 30], pa.int64())}
)


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> lw.Repository:
    """Branch exp changed the views of photo 1 and got photo 9; main changed the label of 1."""
    made = lw.Repository.init(tmp_path / "r")
    monkeypatch.chdir(made.path)
    with made.transaction("main", "first") as changes:
        changes.create_table("photos", FIRST)
        changes.create_table("birds", FIRST)
    made.branches.create("exp")
    with made.transaction("exp", "there") as changes:
        changes.table("photos").update({"views": "11"}, "id = 1")
        changes.table("photos").append(pa.table({"id": [9], "label": ["auk"], "views": [90]}))
    change(made, "main", "id = 1", label="'lion'")
    return made


@pytest.fixture
def conflicting(repo: lw.Repository) -> lw.Repository:
    """Both also changed the label and the views of 2, and exp changed 3, which main deleted."""
    change(repo, "exp", "id = 2", label="'wolf'", views="25")
    change(repo, "exp", "id = 3", label="'barn owl'")
    change(repo, "main", "id = 2", label="'fox'", views="21")
    with repo.transaction("main", "no owl") as changes:
        changes.table("photos").delete("id = 3")
    return repo


def change(
    repo: lw.Repository, branch: str, where: str, table: str = "photos", **values: str
) -> None:
    with repo.transaction(branch, f"{branch}: {', '.join(values.values())}") as changes:
        changes.table(table).update(values, where)


def rows(branch: str | None = None, table: str = "photos") -> list[tuple[Any, ...]]:
    """The rows as pylance reads them."""
    dataset = lance.dataset(f"tables/{table}.lance")
    dataset = dataset if branch is None else dataset.checkout_version((branch, None))
    dataset.validate()
    return sorted(tuple(each.values()) for each in dataset.to_table().to_pylist())


def git(*args: str) -> str:
    return subprocess.run(["git", *args], capture_output=True, text=True, check=True).stdout


def test_a_merge_by_rows_tells_what_came_and_what_was_put_together(
    lw_ok: Lw, repo: lw.Repository
) -> None:
    before = git("for-each-ref")
    assert lw_ok("merge", "exp", "--dry-run").out == (
        "would merge exp into main: photos (1 row inserted, 1 updated, 0 deleted, 1 with cells of "
        "both); nothing was changed\n"
    )
    assert git("for-each-ref") == before
    told = lw_ok("merge", "exp").out.splitlines()
    assert told == [
        f"Merge made by rows: {repo.at().hash[:12]}",
        " photos | 3 -> 4 rows (1 inserted, 1 updated), 2 -> 3 fragments; 1 with cells of both",
        " 1 table changed, 1 row more",
    ]
    assert rows() == [(1, "lion", 11), (2, "dog", 20), (3, "owl", 30), (9, "auk", 90)]
    assert lw_ok("merge", "exp").out == "Already up to date.\n"


def test_a_branch_with_work_of_its_own_gets_what_main_has(lw_ok: Lw, repo: lw.Repository) -> None:
    done = lw_ok("merge", "main", "--into", "exp", "--json").document
    assert (done["branch"], done["merged"], done["new"]) == ("exp", "main", True)
    assert done["done"] == {"photos": "merged"}
    assert done["rows"] == {
        "photos": {
            "inserted": 0,
            "updated": 1,
            "deleted": 0,
            "rewritten": 0,
            "joined": 1,
            "resolved": 0,
        }
    }
    assert rows("exp")[0] == (1, "lion", 11)
    assert rows()[0] == (1, "lion", 10)


def test_conflicts_end_with_a_code_of_their_own_and_a_line_for_each_table(
    lw_run: Lw, conflicting: lw.Repository
) -> None:
    for branch in ("main", "exp"):
        change(conflicting, branch, "id < 3", "birds", label=f"'{branch}'")
    refs, held = git("for-each-ref"), rows()
    ran = lw_run("merge", "exp")
    assert (ran.code, ran.out) == (ExitCode.MERGE_CONFLICT, "")
    assert ran.err.splitlines() == [
        "birds: 2 rows were changed on both sides (label 2)",
        "photos: 1 row was changed on both sides (label 1, views 1), 1 row was deleted here and "
        "changed there",
        "lw: 'exp' cannot be merged into 'main', and nothing has changed: 4 conflicts in 2 tables. "
        "lw conflicts exp shows them, lw resolve or --ours, --theirs, --rule, --winner, --deletes "
        "or --decisions decide them",
    ]
    ran = lw_run("merge", "exp", "--json")
    assert ran.error["exit_code"] == ExitCode.MERGE_CONFLICT
    assert "lw conflicts exp shows them" in ran.error["message"]
    assert (git("for-each-ref"), rows()) == (refs, held)


def test_rows_that_both_inserted_under_one_key_are_told(lw_run: Lw, repo: lw.Repository) -> None:
    key = {"lance-schema:unenforced-primary-key": "true"}
    schema = pa.schema([pa.field("id", pa.int64(), False, key), ("name", pa.string())])
    with repo.transaction("main", "keepers") as changes:
        changes.create_table("keepers", pa.table({"id": [1], "name": ["Ada"]}, schema))
    repo.branches.create("late", at="main")
    for branch in ("main", "late"):
        with repo.transaction(branch, "more") as changes:
            changes.table("keepers").append(pa.table({"id": [2], "name": [branch]}, schema))
    ran = lw_run("merge", "late")
    assert ran.code == ExitCode.MERGE_CONFLICT
    assert ran.err.startswith("keepers: 1 row was inserted on both sides (name 1)\n")
    (found,) = lw_run("conflicts", "late", "--json").lines
    assert (found["key"], found["_kind"]) == ({"id": 2}, "insert/insert")


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (["--theirs"], [(2, "wolf", 25), (3, "barn owl", 30)]),
        (["--ours"], [(2, "fox", 21)]),
        (["--base"], [(2, "dog", 20), (3, "owl", 30)]),
        (
            ["--rule", "views=ours.views + theirs.views - base.views", "--theirs"],
            [(2, "wolf", 26), (3, "barn owl", 30)],
        ),
        (["--winner", "theirs.views > ours.views", "--deletes", "win"], [(2, "wolf", 25)]),
        (["--whole-rows", "--ours"], [(2, "fox", 21)]),
    ],
)
def test_options_decide_conflicts(
    lw_ok: Lw, conflicting: lw.Repository, given: list[str], wanted: list[tuple[Any, ...]]
) -> None:
    told = lw_ok("merge", "exp", *given).out.splitlines()
    assert told[1].endswith("; 1 with cells of both, 2 conflicts decided")
    assert rows() == [(1, "lion", 11), *wanted, (9, "auk", 90)]
    git("fsck", "--strict", "--no-progress")


@pytest.mark.parametrize("what", ["rows", "tables"])
def test_rows_or_tables_can_be_what_both_may_not_change(
    lw_run: Lw, lw_ok: Lw, repo: lw.Repository, what: str
) -> None:
    before = git("for-each-ref")
    ran = lw_run("merge", "exp", "--detect", what)
    assert ran.code == ExitCode.MERGE_CONFLICT
    assert "photos" in ran.err
    assert git("for-each-ref") == before
    lw_ok("merge", "exp", "--detect", what, "--theirs")
    assert rows()[0][2] == 11


def test_tables_that_both_only_appended_to_are_a_conflict_if_tables_are(
    lw_run: Lw, repo: lw.Repository
) -> None:
    for number, branch in enumerate(("main", "exp")):
        with repo.transaction(branch, "a bird") as changes:
            changes.table("birds").append(pa.table({"id": [number], "label": ["x"], "views": [0]}))
    ran = lw_run("merge", "exp", "--detect", "tables")
    assert ran.code == ExitCode.MERGE_CONFLICT
    assert "tables 'birds', 'photos': both sides changed it, and --detect tables makes" in ran.err


def test_conflicts_are_shown_cell_by_cell_below_their_tables(
    lw_ok: Lw, lw_run: Lw, conflicting: lw.Repository
) -> None:
    change(conflicting, "main", "id = 1", "birds", label="'here'")
    change(conflicting, "exp", "id = 1", "birds", label="'there'")
    lines = [each.split()[:5] for each in lw_ok("conflicts", "exp").out.splitlines()]
    assert lines == [
        ["birds"],
        ["row", "column", "base", "ours", "theirs"],
        ["_rowid=0", "label", "cat", "here", "there"],
        [],
        ["photos"],
        ["row", "column", "base", "ours", "theirs"],
        ["_rowid=1", "label", "dog", "fox", "wolf"],
        ["_rowid=1", "views", "20", "21", "25"],
        ["_rowid=2", "(row)", "label=owl", "deleted", "label=barn"],
    ]
    found = lw_ok("conflicts", "exp", "--table", "photos", "--json").lines
    assert [(each["table"], each["_kind"]) for each in found] == [
        ("photos", "update/update"),
        ("photos", "delete/update"),
    ]
    left = lw_ok("conflicts", "exp", "--deletes", "win", "--json").lines
    assert [each["_kind"] for each in left] == ["update/update"] * 2
    assert lw_run("conflicts", "exp", "--exit-code").code == 1
    refused = lw_run("conflicts", "exp", "-o", "x.csv")
    assert refused.code == ExitCode.USAGE
    assert "say --table birds, or photos" in refused.err
    assert not Path("x.csv").exists()


def test_no_conflict_is_said(lw_run: Lw, repo: lw.Repository) -> None:
    ran = lw_run("conflicts", "exp", "--exit-code")
    assert (ran.code, ran.out, ran.err) == (0, "", "photos: no row is in conflict\n")
    repo.branches.create("same", at="main")
    ran = lw_run("conflicts", "same")
    assert (ran.code, ran.out, ran.err) == (0, "", "no row is in conflict\n")
    assert lw_run("conflicts", "nope").code == ExitCode.NOT_FOUND
    ran = lw_run("conflicts", "exp", "--table", "photo")
    assert ran.code == ExitCode.NOT_FOUND
    assert "there is no table 'photo' in these commits" in ran.err


def filled(path: Path, takes: dict[str, str]) -> None:
    """Fill in the column take, by kind of conflict."""
    with path.open() as file:
        found = list(csv.DictReader(file))
    for each in found:
        each["take"] = takes.get(each["_kind"], "")
    with path.open("w") as file:
        writer = csv.DictWriter(file, list(found[0]))
        writer.writeheader()
        writer.writerows(found)


@pytest.mark.parametrize("is_kept", [False, True])
def test_a_file_of_conflicts_is_filled_in_and_decides_them(
    lw_ok: Lw, lw_run: Lw, conflicting: lw.Repository, tmp_path: Path, is_kept: bool
) -> None:
    path = tmp_path / "decide.csv"
    assert lw_ok("conflicts", "exp", "-o", path).out == f"wrote 2 conflicts to {path}\n"
    filled(path, {"update/update": "theirs"})
    if is_kept:
        told = lw_ok("resolve", "exp", "photos", "--decisions", path).out
        assert told == f"photos: 1 conflict is left; git log {REF} shows what was decided\n"
        path.unlink()
        assert lw_run("merge", "exp").code == ExitCode.MERGE_CONFLICT
        lw_ok("conflicts", "exp", "-o", path)
    filled(path, {"update/update": "theirs", "delete/update": "delete"})
    lw_ok("merge", "exp", "--decisions", path)
    assert rows() == [(1, "lion", 11), (2, "wolf", 25), (9, "auk", 90)]


def test_several_people_decide_and_stock_git_shows_who(
    lw_ok: Lw, conflicting: lw.Repository
) -> None:
    by = ("--author", "Ada <ada@example.org>")
    told = lw_ok("resolve", "exp", "photos", "--theirs", "-w", "ours.id = 2", *by).out
    assert told == f"photos: 1 conflict is left; git log {REF} shows what was decided\n"
    by = ("--author", "Bob <bob@example.org>")
    done = lw_ok("resolve", "exp", "photos", "--deletes", "lose", *by, "--json").document
    assert done == {
        "branch": "main",
        "merging": "exp",
        "table": "photos",
        "hash": git("rev-parse", REF).strip(),
        "left": 0,
    }
    assert git("log", "--first-parent", "-2", "--format=%an: %s", REF).splitlines() == [
        "Bob: photos: deletes=lose",
        "Ada: photos: 1 conflict decided",
    ]
    assert '+    "deletes": "lose"' in git("show", REF)
    assert lw_ok("resolve", "exp", "--list").out.splitlines() == [
        "table   decision",
        "photos  1 conflict decided",
        "photos  deletes=lose",
    ]
    listed = lw_ok("resolve", "exp", "--list", "--json").lines
    assert listed[1] == {"table": "photos", "decision": {"rules": {"deletes": "lose"}}}
    git("fsck", "--strict", "--no-progress")
    told = lw_ok("merge", "exp").out.splitlines()
    assert told[1].endswith("2 conflicts decided")
    assert rows() == [(1, "lion", 11), (2, "wolf", 25), (3, "barn owl", 30), (9, "auk", 90)]
    git("fsck", "--strict", "--no-progress")
    assert git("log", "--graph", "--format=%s", "-1").splitlines()[0] == "*   Merge branch 'exp'"
    assert git("for-each-ref", REF) == ""
    assert lw_ok("resolve", "exp", "--list").err == "nothing was decided\n"


def test_decisions_on_conflicts_that_are_not_there_any_more_are_told(
    lw_ok: Lw, lw_run: Lw, conflicting: lw.Repository, tmp_path: Path
) -> None:
    path = tmp_path / "decide.csv"
    lw_ok("conflicts", "exp", "-o", path)
    filled(path, {"update/update": "theirs", "delete/update": "ours"})
    lw_ok("resolve", "exp", "photos", "--decisions", path)
    change(conflicting, "main", "id = 2", label="'dingo'")
    told = "1 decision did not apply: its conflict is not there any more"
    for args in (["conflicts", "exp"], ["conflicts", "exp", "--decisions", path]):
        assert lw_ok(*args).err.splitlines()[-1] == told
    assert told in lw_run("merge", "exp").err.splitlines()
    ran = lw_ok("merge", "exp", "--theirs", "--json")
    assert (ran.document["stale"], ran.err) == (1, f"{told}\n")
    assert rows()[1] == (2, "wolf", 25)


def test_what_was_decided_is_forgotten(lw_ok: Lw, conflicting: lw.Repository) -> None:
    lw_ok("resolve", "exp", "photos", "--rule", "*=theirs", "--deletes", "win")
    assert lw_ok("conflicts", "exp").err == "photos: no row is in conflict\n"
    told = lw_ok("resolve", "exp", "--forget").out
    assert told == "forgot what was decided about merging exp into main\n"
    assert len(lw_ok("conflicts", "exp", "--json").lines) == 2
    assert lw_ok("resolve", "exp", "--forget", "--json").document == {
        "branch": "main",
        "merging": "exp",
        "forgotten": False,
    }


@pytest.mark.parametrize("verb", ["merge", "cherry-pick", "conflicts"])
def test_rules_that_do_not_fit_are_invalid(
    lw_run: Lw, conflicting: lw.Repository, verb: str
) -> None:
    before = git("rev-parse", "main")
    ran = lw_run(verb, "exp", "--rule", "nope=ours")
    assert ran.code == ExitCode.INVALID_INPUT
    assert "'nope', which is no column" in ran.err
    assert git("rev-parse", "main") == before


@pytest.mark.parametrize(
    ("args", "code", "told"),
    [
        (["exp"], ExitCode.USAGE, "say which TABLE"),
        (["exp", "photos"], ExitCode.USAGE, "how its conflicts are decided"),
        (["exp", "--list", "--forget"], ExitCode.USAGE, "do not go together"),
        (["exp", "photos", "--list"], ExitCode.USAGE, "decide nothing"),
        (["exp", "--forget", "--ours"], ExitCode.USAGE, "decide nothing"),
        (["exp", "birds", "--ours"], ExitCode.INVALID_INPUT, "nothing to decide about table"),
        (["nope", "photos", "--ours"], ExitCode.NOT_FOUND, "nope"),
        (["exp", "nope", "--ours"], ExitCode.NOT_FOUND, "there is no table 'nope'"),
        (["exp", "photos", "--rule", "nope"], ExitCode.USAGE, "as in 'views=ours.views + 1'"),
        (["exp", "photos", "--rule", "nope=ours"], ExitCode.INVALID_INPUT, "no column"),
        (["exp", "photos", "--ours", "-w", "ours.id = 7"], ExitCode.INVALID_INPUT, "lw conflicts"),
        (["exp", "photos", "--ours", "-w", "nope = 7"], ExitCode.INVALID_INPUT, "nope"),
        (["exp", "photos", "--deletes", "win", "-w", "true"], ExitCode.INVALID_INPUT, "a side"),
    ],
)
def test_what_cannot_be_decided_is_refused_and_nothing_is_kept(
    lw_run: Lw, conflicting: lw.Repository, args: list[str], code: int, told: str
) -> None:
    before = git("for-each-ref")
    ran = lw_run("resolve", *args)
    assert (ran.code, ran.out) == (code, "")
    assert told in ran.err
    assert git("for-each-ref") == before


def test_columns_in_conflict_are_shown_and_decided_before_rows(
    lw_ok: Lw, lw_run: Lw, repo: lw.Repository
) -> None:
    for branch, name in (("main", "title"), ("exp", "name")):
        with repo.transaction(branch, "rename") as changes:
            changes.table("photos").rename_column("label", name)
    ran = lw_ok("conflicts", "exp")
    assert ran.out.splitlines()[2].split()[:2] == ["label", "column"]
    assert "--schema" in ran.err
    refused = lw_run("merge", "exp")
    assert refused.code == ExitCode.MERGE_CONFLICT
    assert "--schema decides that" in refused.err
    lw_ok("resolve", "exp", "photos", "--schema", "theirs")
    lw_ok("merge", "exp")
    assert lance.dataset("tables/photos.lance").schema.names == ["id", "name", "views"]


def test_a_commit_is_taken_back_by_rows_where_the_table_moved_since(
    lw_ok: Lw, lw_run: Lw, repo: lw.Repository
) -> None:
    change(repo, "main", "id = 2", views="21")
    told = lw_ok("revert", "HEAD~1").out.splitlines()
    assert told[0] == f"[main {repo.at().hash[:12]}] Revert \"main: 'lion'\""
    assert rows()[:2] == [(1, "cat", 10), (2, "dog", 21)]
    change(repo, "main", "id = 2", views="22")
    before = git("for-each-ref")
    refused = lw_run("revert", "HEAD~2")
    assert refused.code == ExitCode.MERGE_CONFLICT
    assert refused.err.splitlines() == [
        "photos: 1 row was changed on both sides (views 1)",
        "lw: 'HEAD~2' cannot be reverted, and nothing has changed: 1 conflict in 1 table. "
        "lw conflicts --revert 'HEAD~2' shows them, --ours, --theirs, --rule, --winner, --deletes "
        "or --decisions decide them",
    ]
    shown = lw_ok("conflicts", "--revert", "HEAD~2").out.splitlines()
    assert [each.split()[:5] for each in shown[2:]] == [["_rowid=1", "views", "21", "22", "20"]]
    assert git("for-each-ref") == before
    dry = lw_ok("revert", "HEAD~2", "--theirs", "--dry-run").out
    assert "1 conflict decided" in dry
    told = lw_ok("revert", "HEAD~2", "--theirs").out.splitlines()
    assert told[1].endswith("; 1 conflict decided")
    assert rows()[1] == (2, "dog", 20)


def test_a_commit_is_picked_by_rows_and_its_conflicts_are_decided(
    lw_ok: Lw, lw_run: Lw, conflicting: lw.Repository
) -> None:
    refused = lw_run("cherry-pick", "exp~1")
    assert refused.code == ExitCode.MERGE_CONFLICT
    assert "lw conflicts --cherry-pick 'exp~1' shows them, --ours" in refused.err
    (shown,) = lw_ok("conflicts", "--cherry-pick", "exp~1", "--json").lines
    assert (shown["_columns"], shown["theirs"]["views"]) == (["label", "views"], 25)
    assert lw_ok("conflicts", "--cherry-pick", "exp~1", "--theirs", "--exit-code").out == ""
    both = lw_run("conflicts", "--cherry-pick", "--revert", "exp")
    assert both.code == ExitCode.USAGE
    done = lw_ok("cherry-pick", "exp~1", "--rule", "label=theirs", "--ours", "--json").document
    assert done["rows"]["photos"]["resolved"] == 1
    assert rows()[1] == (2, "wolf", 21)


@pytest.mark.parametrize("verb", ["merge", "resolve", "cherry-pick"])
def test_a_text_that_looks_like_a_number_is_decided_in_a_file(
    lw_ok: Lw, conflicting: lw.Repository, tmp_path: Path, verb: str
) -> None:
    which = ["--cherry-pick", "exp~1"] if verb == "cherry-pick" else ["exp"]
    names = [each["_conflict"] for each in lw_ok("conflicts", *which, "--json").lines]
    path = tmp_path / "decide.csv"
    rest = "".join(f"{each},theirs,\n" for each in names[1:])
    path.write_text(f"_conflict,take,label\n{names[0]},theirs,1.10\n{rest}")
    if verb == "resolve":
        lw_ok("resolve", "exp", "photos", "--decisions", path)
        lw_ok("merge", "exp")
    else:
        lw_ok(verb, which[-1], "--decisions", path)
    assert [label for _, label, _ in rows()].count("1.10") == 1


def test_what_was_decided_about_a_merge_into_another_branch_is_its_own(
    lw_ok: Lw, conflicting: lw.Repository
) -> None:
    told = lw_ok("resolve", "main", "photos", "--ours", "--into", "exp").out
    assert "refs/lancewood/merges/exp/main" in told
    assert lw_ok("resolve", "exp", "--list").err == "nothing was decided\n"
    lw_ok("merge", "main", "--into", "exp")
    assert rows("exp") == [(1, "lion", 11), (2, "wolf", 25), (3, "barn owl", 30), (9, "auk", 90)]


def test_what_python_notes_of_a_merge_is_told_with_commands(
    lw_ok: Lw, conflicting: lw.Repository
) -> None:
    with conflicting.transaction("exp", "an index") as changes:
        changes.table("photos").indices.create("id", kind="BTREE", name="by_id")
    told = lw_ok("merge", "exp", "--theirs").err.splitlines()
    assert told == [
        "indices of photos whose parts did not come: by_id: lw table index extend covers the rows "
        "by an index that is here, create builds another one"
    ]

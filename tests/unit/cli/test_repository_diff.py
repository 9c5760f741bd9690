"""``lw diff`` and ``lw log --stat``: tables, rows and cells that differ between commits."""

from __future__ import annotations

import io
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lancewood as lw

Lw = Callable[..., Any]
BIRDS = pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]})


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> lw.Repository:
    """Two branches that both went on with birds; the one that is not current made eggs."""
    made = lw.Repository.init(tmp_path / "r", fsync=False)
    monkeypatch.chdir(made.path)
    with made.transaction("main", "day 1") as changes:
        changes.create_table("birds", BIRDS)
    made.branches.create("exp")
    with made.transaction("exp", "there") as changes:
        birds = changes.table("birds").append(pa.table({"id": [4], "name": ["d"]}))
        birds.update({"name": "'A'"}, "id = 1")
        changes.create_table("eggs", pa.table({"id": [7]}))
    with made.transaction("main", "here") as changes:
        changes.table("birds").delete("id = 2")
    return made


ROWS = """\
birds
   id  name
+   2  b
+   4  d
~   1  a -> A

eggs: new table
   id
+   7
"""


def test_rows_are_shown_below_the_names_of_their_tables(lw_ok: Lw, repo: lw.Repository) -> None:
    done = lw_ok("diff", "main", "exp", "--rows")
    assert (done.out, done.err) == (ROWS, "")
    assert lw_ok("diff", "main..exp", "--rows").out == ROWS
    gone = lw_ok("diff", "exp", "main", "--rows")
    assert gone.out.endswith("\neggs: table is gone\n   id\n-   7\n")


def test_the_rows_of_one_table_need_no_title(lw_ok: Lw, repo: lw.Repository) -> None:
    done = lw_ok("diff", "main", "exp", "--rows", "--table", "birds")
    table = lw_ok("table", "diff", "birds", "main", "exp")
    assert done.out == table.out == "   id  name\n+   2  b\n+   4  d\n~   1  a -> A\n"
    new = lw_ok("diff", "main", "exp", "--rows", "--table", "eggs")
    assert (new.out, new.err) == ("   id\n+   7\n", "new table\n")


def test_three_dots_are_since_the_merge_base(lw_ok: Lw, repo: lw.Repository) -> None:
    done = lw_ok("diff", "main...exp", "--rows", "--table", "birds")
    assert done.out.splitlines()[1:] == ["+   4  d", "~   1  a -> A"]
    base = subprocess.run(["git", "merge-base", "main", "exp"], capture_output=True, text=True)
    assert lw_ok("diff", base.stdout.strip(), "exp", "--rows", "--table", "birds").out == done.out
    summary = lw_ok("diff", "...exp").out
    assert " birds | 3 -> 4 rows (1 inserted, 1 updated), 1 -> 3 fragments\n" in summary
    assert lw_ok("diff", "main..exp").out == lw_ok("diff", "main", "exp").out


def test_the_summary_counts_where_both_branches_went_on(lw_ok: Lw, repo: lw.Repository) -> None:
    done = lw_ok("diff", "main", "exp")
    assert done.out == (
        " birds | 2 -> 4 rows (2 inserted, 1 updated), 1 -> 3 fragments\n"
        " eggs  | new, 1 row\n"
        " 2 tables changed, 3 rows more\n"
    )
    assert lw_ok("diff", "main", "exp", "--stat").out == done.out
    one = lw_ok("diff", "main", "exp", "--table", "eggs", "--json").document
    assert (one["table"], one["change"], one["inserted"], one["exact"]) == (
        "eggs",
        "added",
        1,
        True,
    )


def test_at_most_so_many_rows_are_said_where_values_were_not_read(
    lw_ok: Lw, repo: lw.Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lancewood.repo.inspect.measuring._MOST_READ", 10)
    assert "(1 inserted, at most 1 updated)" in lw_ok("diff", "main...exp").out
    assert lw_ok("diff", "main...exp", "--json").lines[0]["exact"] is False


def test_figures_of_each_table(lw_ok: Lw, repo: lw.Repository) -> None:
    done = lw_ok("diff", "main", "exp", "--rows", "--stat")
    assert done.out.splitlines() == [
        "birds: 2 rows inserted, 1 updated (name 1), 0 deleted, 1 unchanged",
        "eggs: 1 row inserted, 0 updated, 0 deleted, 0 unchanged",
        "eggs: new table",
    ]
    birds, eggs = lw_ok("diff", "main", "exp", "--rows", "--stat", "--json").lines
    assert birds == {
        "table": "birds",
        "change": "changed",
        "inserted": 2,
        "updated": 1,
        "deleted": 0,
        "unchanged": 1,
        "cells": {"name": 1},
        "columns": {"added": [], "dropped": [], "renamed": [], "retyped": []},
    }
    assert (eggs["change"], eggs["columns"]["added"]) == (
        "added",
        [{"name": "id", "type": "int64"}],
    )


def test_programs_get_the_table_with_each_row(lw_ok: Lw, repo: lw.Repository) -> None:
    lines = lw_ok("diff", "main", "exp", "--rows", "--json").lines
    assert [each["table"] for each in lines] == ["birds", "birds", "birds", "eggs"]
    assert list(lines[0]) == ["table", "_change", "_rowid", "_columns", "before", "after"]
    alone = lw_ok("diff", "main", "exp", "--rows", "--table", "birds", "--json").lines
    assert alone == lines[:3]
    (cell,) = lw_ok("diff", "main", "exp", "--rows", "--cells", "--json").lines
    assert cell["table"] == "birds"
    assert (cell["column"], cell["before"], cell["after"]) == ("name", '"a"', '"A"')


@pytest.mark.parametrize(
    ("asked", "signs"),
    [
        (["--only", "updated"], ["~"]),
        (["--where", "id > 2"], ["+", "+"]),
        (["--limit", "1"], ["+", "+"]),
        (["--columns", "id"], ["+", "+", "+"]),
        (["--on", "id"], ["+", "+", "~", "+"]),
    ],
)
def test_some_rows_of_every_table(
    lw_ok: Lw, repo: lw.Repository, asked: list[str], signs: list[str]
) -> None:
    lines = lw_ok("diff", "main", "exp", "--rows", *asked).out.splitlines()
    assert [each[0] for each in lines if each[:1] in ("+", "-", "~")] == signs


def test_a_file_can_be_written_of_one_table(lw_ok: Lw, lw_run: Lw, repo: lw.Repository) -> None:
    done = lw_ok("diff", "main", "exp", "--rows", "--table", "eggs", "--format", "parquet")
    assert pq.read_table(io.BytesIO(done.raw))["after"].to_pylist() == [{"id": 7}]
    refused = lw_run("diff", "main", "exp", "--rows", "--format", "parquet")
    assert refused.code == 2
    assert "--table" in refused.err


def test_tables_as_they_stand_are_shown(lw_ok: Lw, repo: lw.Repository) -> None:
    nothing = lw_ok("diff")
    assert (nothing.out, nothing.err) == ("", "no table differs\n")
    lw.open("tables/birds.lance").update({"name": "'x'"}, "id = 3")
    birds = lw.open("tables/birds.lance").add_columns(
        {"seen": "CAST(0 AS BIGINT)", "heard": "CAST(1.5 AS DOUBLE)"}
    )
    done = lw_ok("diff", "--rows")
    title = "birds: new column seen: int64; new column heard: double\n"
    assert done.out == f"{title}   id  name    seen  heard\n~   3  c -> x     0    1.5\n"
    repo.commit("more columns")
    birds.drop_columns(["heard"])
    done = lw_ok("diff", "--rows")
    assert done.out == "birds: dropped column heard: double\n"
    assert done.err == "birds: no row differs\n"


def test_a_clear_word_where_nothing_differs(lw_ok: Lw, repo: lw.Repository) -> None:
    assert lw_ok("diff", "main", "main", "--rows").err == "no table differs\n"
    assert lw_ok("diff", "main", "main", "--rows", "--table", "birds").err == "no row differs\n"
    compacted = lw.open("tables/birds.lance").append(BIRDS.slice(0, 0)).compact()
    assert compacted.version > 2
    same = lw_ok("diff", "--rows")
    assert (same.out, same.err) == ("", "birds: no row differs\n")
    for options in ([], ["--rows"], ["--rows", "--cells"]):
        none = lw_ok("diff", "main", "main", "--json", *options)
        assert (none.out, none.err) == ("", "")


def test_indices_that_came_and_went_are_named(lw_ok: Lw, repo: lw.Repository) -> None:
    lw.open("tables/birds.lance").indices.create("id", "ZONEMAP")
    assert "modified:   birds (version 3, only its indices)" in lw_ok("status").out
    assert lw_ok("status", "--json").document["tables"][0]["why"] == "only its indices"
    lines = lw_ok("diff").out.splitlines()
    assert lines[0].startswith(" birds | the same rows, main 2 ")
    assert lines[1:] == ["   + index id_idx (ZONEMAP)", " 1 table changed"]
    assert lw_ok("diff", "--json").document["added_indices"] == {"id_idx": "ZONEMAP"}
    repo.commit("an index")
    assert "   + index id_idx (ZONEMAP)\n" in lw_ok("show").out
    assert "   - index id_idx (ZONEMAP)\n" in lw_ok("diff", "HEAD", "HEAD~1").out
    words = "nothing to commit: HEAD changed indices, which"
    for flags in ([], ["--dry-run"]):
        done = lw_ok("revert", "HEAD", *flags).out
        assert done == f"{words} stay as they are: lw table index create and drop change them\n"
    assert lw_ok("cherry-pick", "HEAD").out.startswith(f"{words} are built anew: lw table index")
    assert [each.name for each in lw.open("tables/birds.lance").indices] == ["id_idx"]


def test_exit_code_is_that_of_git(lw_run: Lw, repo: lw.Repository) -> None:
    for options in ([], ["--rows"], ["--rows", "--stat"], ["--rows", "--limit", "0"]):
        assert lw_run("diff", "main", "exp", "--exit-code", *options).code == 1
        assert lw_run("diff", "main", "main", "--exit-code", *options).code == 0
    one = ("diff", "main", "exp", "--exit-code", "--rows", "--table")
    assert lw_run(*one, "eggs").code == 1
    assert lw_run(*one, "birds", "--only", "deleted").code == 0


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--cells"], 2, "--cells is for rows: say --rows as well"),
        (["--limit", "0"], 2, "--limit is for rows"),
        (["--format", "csv", "--table", "birds"], 2, "--format is for rows"),
        (["main..exp", "main"], 2, "names both sides"),
        (["main...nope"], 3, "revision 'nope' not found"),
        (["birds"], 3, "lw diff --table birds"),
        (["main", "exp", "--table", "bird"], 3, "did you mean birds?"),
        (["main", "exp", "--rows", "--columns", "nope"], 5, "nope"),
        (["main", "exp", "--rows", "--only", "changed"], 5, "deleted, inserted, updated"),
    ],
)
def test_what_cannot_be_is_told(
    lw_run: Lw, repo: lw.Repository, words: list[str], code: int, said: str
) -> None:
    done = lw_run("diff", *words)
    assert done.code == code
    assert said in " ".join(done.err.split())


def test_a_log_counts_rows_commit_by_commit(lw_ok: Lw, repo: lw.Repository) -> None:
    log = lw_ok("log", "--table", "birds", "--stat", "--oneline", "exp").out.splitlines()
    assert [line if line[0] == " " else line[13:] for line in log] == [
        "(exp) there",
        " birds | 3 -> 4 rows (1 inserted, 1 updated), 1 -> 3 fragments",
        " 1 table changed, 1 row more",
        "day 1",
        " birds | new, 3 rows",
        " 1 table changed, 3 rows more",
    ]
    whole = lw_ok("log", "--stat", "-n", "1", "exp").out.split("\n\n")
    assert whole[-1].splitlines()[1] == " eggs  | new, 1 row"
    first, second = lw_ok("log", "--table", "birds", "--stat", "--json", "exp").lines
    (change,) = first["changes"]
    assert (change["inserted"], change["updated"], change["deleted"]) == (1, 1, 0)
    assert second["changes"][0]["inserted"] == 3
    assert "changes" not in lw_ok("log", "--table", "birds", "--json").lines[0]
    graph = lw_ok("log", "--graph", "--stat", "--all").out
    assert "birds | 3 -> 2 rows (1 deleted), 1 -> 1 fragments" in graph

"""``lw sql``: answers and changes without Spark, what is found before one starts, how a plan is
told."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.cli.failing import ExitCode
from lancewood.spark.dialect.settings import Settings

Lw = Callable[..., Any]
ROWS = pa.table({"id": [1, 2, 3], "label": ["cat", "dog", None]})


@pytest.fixture(autouse=True)
def location(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)

    def started(*args: Any, **settings: Any) -> Any:
        raise AssertionError("Spark was started")

    monkeypatch.setattr("lancewood.cli.commands.sql.session", started)
    table = lw.create("photos.lance", ROWS, access=lw.Access(fsync=False))
    table.branches.create("exp").append(ROWS)
    return tmp_path


def test_a_plan_is_told_without_spark(lw_ok: Lw, location: Path) -> None:
    query = "SELECT id FROM photos@exp WHERE label = 'cat'"
    told = lw_ok("sql", query, "--table", "photos=photos.lance", "--explain").out
    assert told.splitlines() == [
        "photos@exp",
        f"  version  2 of branch 'exp', {location / 'photos.lance' / 'tree' / 'exp'}",
        "  columns  id, label (2 of 2)",
        "  where    all rows",
        "  DuckDB   decides label = 'cat'",
    ]
    document = lw_ok("sql", query, "-t", "photos=photos.lance", "--explain", "--json").out
    assert json.loads(document) == {"plan": told.rstrip("\n")}


def test_tables_of_the_repository_are_those_of_head_or_of_a_revision(lw_ok: Lw) -> None:
    repo = lw.Repository.init("repo", fsync=False)
    with repo.transaction("main", message="one") as changes:
        changes.create_table("labels", ROWS)
    repo.tags.create("v1")
    with repo.transaction("main", message="two") as changes:
        changes.table("labels").append(ROWS)
    query = "SELECT count(*) FROM labels"
    assert "rows     6," in lw_ok("-C", "repo", "sql", query, "--explain").out
    assert "rows     3," in lw_ok("-C", "repo", "sql", query, "--explain", "--at", "v1").out
    assert "rows     3," in lw_ok("-C", "repo", "sql", f"{query}@main~1", "--explain").out


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["SELECT * FROM photo"], ExitCode.NOT_FOUND, "did you mean 'photos'"),
        (["SELECT * FROM photos@no"], ExitCode.NOT_FOUND, "no tag or branch called 'no'"),
        (["DROP VIEW photos"], ExitCode.INVALID_INPUT, "expected TABLE, BRANCH or TAG"),
        (["VACUUM photos"], ExitCode.INVALID_INPUT, "a statement VACUUM"),
        (["DELETE photos"], ExitCode.INVALID_INPUT, "expected FROM, found 'photos'"),
        (["DELETE FROM photos@:1"], ExitCode.INVALID_INPUT, "only a branch can be changed"),
        (["SELECT 1", "-f", "x.sql"], ExitCode.USAGE, "give a query, or --file"),
        ([], ExitCode.USAGE, "give a query, or --file"),
        (["-f", "x.sql"], ExitCode.NOT_FOUND, "cannot read the script 'x.sql': No such file"),
        (["SELECT 1", "--csv", "--json"], ExitCode.USAGE, "two forms"),
        (["SELECT 1", "-t", "photos"], ExitCode.USAGE, "NAME=URI"),
        (["SELECT 1", "-t", "photos=x"], ExitCode.INVALID_INPUT, "twice"),
    ],
)
def test_what_is_wrong_is_told_before_spark_starts(
    lw_run: Lw, arguments: list[str], code: ExitCode, told: str
) -> None:
    failed = lw_run("sql", *arguments, "-t", "photos=photos.lance")
    assert failed.code == code
    assert told in failed.err


def test_without_a_repository_tables_are_named_or_are_paths(lw_run: Lw, lw_ok: Lw) -> None:
    failed = lw_run("sql", "SELECT * FROM photos")
    assert failed.code == ExitCode.NOT_FOUND
    assert "--table NAME=URI" in failed.err
    assert lw_ok("sql", "SELECT count(*) AS n FROM 'photos.lance@exp'", "--json").lines == [
        {"n": 6}
    ]


def test_a_query_is_answered_without_spark(lw_ok: Lw, lw_run: Lw) -> None:
    query = "SELECT label, id FROM photos WHERE id < 3 ORDER BY id DESC"
    asked = ("sql", query, "-t", "photos=photos.lance")
    assert lw_ok(*asked).out.splitlines() == ["label  id", "dog     2", "cat     1"]
    assert lw_ok(*asked, "--json", "-n", 1).lines == [{"label": "dog", "id": 2}]
    assert lw_ok(*asked, "--csv", "--no-pushdown").out.splitlines()[1:] == ['"dog",2', '"cat",1']
    assert lw_ok(*asked, "-n", 0).out.splitlines() == ["label  id"]
    failed = lw_run("sql", "SELECT nope(id) FROM photos", "-t", "photos=photos.lance")
    assert failed.code == ExitCode.INVALID_INPUT
    assert "nope" in failed.err
    failed = lw_run(*asked, "--spark", "--no-pushdown")
    assert failed.code == ExitCode.USAGE


PHOTOS = ("-t", "photos=photos.lance")


def test_a_script_changes_tables_and_says_what_it_did(lw_ok: Lw) -> None:
    script = "INSERT INTO photos VALUES (4, 'owl'); DELETE FROM photos WHERE id < 3"
    assert lw_ok("sql", script, *PHOTOS).out.splitlines() == [
        "statement  table   inserted  updated  deleted  version",
        "insert     photos         1        0        0        2",
        "delete     photos         0        0        2        3",
    ]
    assert sorted(lw.open("photos.lance").to_arrow()["id"].to_pylist()) == [3, 4]


def test_a_script_comes_from_a_file_or_from_stdin(lw_ok: Lw, location: Path) -> None:
    (location / "a.sql").write_text("-- ü\nUPDATE photos@exp SET label = 'x'\nWHERE id = 1;\n")
    (told,) = lw_ok("sql", "-f", "a.sql", *PHOTOS, "--json").lines
    assert (told["table"], told["updated"], told["version"]) == ("photos@exp", 2, 3)
    for how in (["-"], ["-f", "-"]):
        query = "DELETE FROM photos; SELECT count(*) AS n FROM photos; "
        assert lw_ok("sql", *how, *PHOTOS, "--json", input=query).lines == [{"n": 0}]


def test_the_answer_is_that_of_a_query_at_the_end(lw_ok: Lw) -> None:
    script = "DELETE FROM photos WHERE id = 1; SELECT id FROM photos ORDER BY id"
    assert lw_ok("sql", script, *PHOTOS, "-n", 1, "--csv").out.splitlines() == ['"id"', "2"]


def test_what_a_script_would_do_is_told(lw_ok: Lw, location: Path) -> None:
    script = "DELETE FROM photos WHERE id = 1; SELECT label FROM photos; EXPLAIN DELETE FROM photos"
    told = lw_ok("sql", script, *PHOTOS, "--explain").out
    assert told.splitlines() == [
        "would run DELETE FROM photos WHERE id = 1",
        "  photos: version 1 of main",
        "  0 rows inserted, 0 updated, 1 deleted",
        "photos",
        f"  version  1 of main, {location / 'photos.lance'}",
        "  columns  label (1 of 2)",
        "  where    all rows",
        "would run DELETE FROM photos",
        "  photos: version 1 of main",
        "  0 rows inserted, 0 updated, 3 deleted",
    ]
    assert lw.open("photos.lance").version == 1


def test_what_was_done_before_a_failure_is_told(lw_run: Lw) -> None:
    failed = lw_run("sql", "DELETE FROM photos WHERE id = 1; DELETE FROM nothing", *PHOTOS)
    assert failed.code == ExitCode.NOT_FOUND
    assert "table 'nothing' not found" in failed.err
    assert "what stands before it was done: delete" in failed.err
    assert lw.open("photos.lance").count_rows() == 2


def test_a_transaction_is_one_commit_of_the_repository(lw_ok: Lw, lw_run: Lw) -> None:
    repo = lw.Repository.init("repo", fsync=False)
    with repo.transaction("main", message="one") as changes:
        changes.create_table("a", ROWS)
        changes.create_table("b", ROWS)
    script = "BEGIN; DELETE FROM a WHERE id = 1; INSERT INTO b SELECT * FROM a; COMMIT 'two'"
    *_, last = lw_ok("-C", "repo", "sql", script, "--json").lines
    head = next(iter(repo.log()))
    assert (last["commit"], head.message.strip()) == (str(head.hash), "two")
    assert lw_ok("-C", "repo", "sql", "SELECT count(*) AS n FROM b", "--json").lines == [{"n": 5}]
    failed = lw_run("-C", "repo", "sql", "BEGIN; DELETE FROM a; DELETE FROM c; COMMIT 'no'")
    assert failed.code == ExitCode.NOT_FOUND
    assert "nothing that stands after BEGIN was done" in failed.err
    assert next(iter(repo.log())).hash == head.hash


@pytest.mark.parametrize("how", [["--spark"], ["--master", "local[2]"]])
def test_spark_answers_where_it_is_asked_for(lw_run: Lw, how: list[str]) -> None:
    for script in ("SELECT 1", "DELETE FROM photos"):
        assert "Spark was started" in lw_run("sql", script, *PHOTOS, *how).err


class Answered:
    """A frame, as far as the command looks at one."""

    def __init__(self, found: pa.Table | Exception) -> None:
        self.columns = found.column_names if isinstance(found, pa.Table) else []
        self.was_quiet = False
        self._found = found

    def toArrow(self) -> pa.Table:
        logger = pytest.importorskip("pyspark.logger").PySparkLogger
        self.was_quiet = logger.getLogger("SQLQueryContextLogger").disabled
        if isinstance(self._found, Exception):
            raise self._found
        return self._found


class Engine:
    """Spark, as far as the command looks at it."""

    identifiers = Settings()

    def __init__(self, frame: Answered) -> None:
        self._frame = frame

    def planned(self, sql: str, sources: Any) -> None:
        """Nothing, since every query has the same answer."""

    def answer(self, planned: None) -> Answered:
        return self._frame


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], Answered]:
    """Has every query answered so."""

    def answer(found: Any) -> Answered:
        frame = Answered(found)
        command = "lancewood.cli.commands.sql"
        monkeypatch.setattr(f"{command}.session", lambda master: None)
        monkeypatch.setattr(f"{command}.OnSpark", lambda spark, args: Engine(frame))
        return frame

    return answer


def test_json_loses_none_of_two_columns_of_one_name(
    lw_ok: Lw, lw_run: Lw, answered: Callable[[Any], Answered]
) -> None:
    answered(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["id", "id"]))
    query = "SELECT a.id, b.id FROM photos a, photos b WHERE a.id = 1 AND b.id = 2"
    asked = ("sql", query, "-t", "photos=photos.lance")
    assert lw_ok(*asked, "--json").lines == [{"id": 1, "id_1": 2}]
    failed = lw_run(*asked, "--spark", "--json")
    assert failed.code == ExitCode.INVALID_INPUT
    assert "2 columns 'id'" in failed.out + failed.err
    assert lw_ok(*asked, "--spark", "--csv").out.splitlines() == ['"id","id"', "1,2"]


def test_a_query_that_fails_is_told_by_us_alone(
    lw_run: Lw, answered: Callable[[Any], Answered]
) -> None:
    frame = answered(RuntimeError("divided by zero"))
    failed = lw_run("sql", "SELECT 1 / id FROM photos", "-t", "photos=photos.lance", "--spark")
    assert failed.code != ExitCode.OK
    assert "divided by zero" in failed.err
    assert frame.was_quiet

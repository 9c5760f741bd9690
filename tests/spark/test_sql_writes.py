"""SQL that writes on a local Spark; DuckDB is the judge of the rows.

``tests/unit/query/statements`` asks the same of one process, and more.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.merges.cases import Case, chosen
from tests.merges.outcomes import is_expected, on_spark, ours, recorded
from tests.spark.needs import needs
from tests.unit.query.statements.judged import SOURCE, TARGET, Judged
from tests.unit.query.statements.test_writing_rows import BY_SOURCE, MATCHED, NOT_MATCHED, counts
from typer.testing import CliRunner

import lancewood as lw
from lancewood.cli.failing import ExitCode
from lancewood.cli.main import app
from lancewood.errors import AlreadyExistsError, InvalidInputError

pytest.importorskip("pyspark", reason="pyspark is not installed")

from lancewood.spark import sql
from lancewood.spark.abilities import STRICT_SQL
from lancewood.spark.dialect.scripts import OnSpark
from lancewood.spark.tasks import arrow_of

CASES = chosen()
pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


@pytest.fixture
def judged(spark: Any, tmp_path: Path) -> Judged:
    return Judged(tmp_path, ask=lambda text, **given: arrow_of(sql(spark, text, **given)))


def data_files(judged: Judged) -> list[str]:
    return sorted(each.name for each in (Path(judged.uri) / "data").iterdir())


def test_rows_are_inserted_deleted_and_updated(judged: Judged) -> None:
    steps = {
        "INSERT INTO t VALUES (9, 'x', 1.25, 3), (10, NULL, NULL, NULL)": (2, 0, 0),
        "INSERT INTO t (label, id) SELECT upper(label), id + 100 FROM s WHERE id > 2": (4, 0, 0),
        "DELETE FROM t WHERE id IN (103, 106)": (0, 0, 2),
        "DELETE FROM t WHERE id IN (SELECT id + 100 FROM s) OR length(label) = 0": (0, 0, 2),
        "UPDATE t SET label = 'z', count = NULL WHERE id = 9": (0, 1, 0),
        "UPDATE t SET score = score * 2 + id, label = upper(label) WHERE id > 1": (0, 6, 0),
        "UPDATE t AS x SET count = (SELECT max(count) FROM s) WHERE x.id IS NULL": (0, 1, 0),
        "DELETE FROM t WHERE id = id + 1": (0, 0, 0),
        "UPDATE t SET count = 1 WHERE label NOT LIKE 'z%' AND label NOT ILIKE 'A%'": (0, 5, 0),
        "DELETE FROM t WHERE label NOT LIKE 'A%'": (0, 0, 6),
    }
    for text, expected in steps.items():
        found = judged.run(text)
        assert counts(found) == expected, text
        assert found["version"] == judged.version


@pytest.mark.sliced(16, at=6)
@pytest.mark.parametrize("matched", MATCHED, ids=range(len(MATCHED)))
@pytest.mark.parametrize("new", NOT_MATCHED, ids=range(len(NOT_MATCHED)))
@pytest.mark.parametrize("by_source", BY_SOURCE, ids=range(len(BY_SOURCE)))
def test_a_merge_does_what_its_clauses_say(
    judged: Judged, matched: str, new: str, by_source: str
) -> None:
    if matched or new or by_source:
        judged.run(f"MERGE INTO t USING s ON t.id = s.id {matched} {new} {by_source}")


@pytest.mark.sliced(80, at=3)
@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_a_merge_is_that_of_spark_with_iceberg(spark: Any, case: Case, tmp_path: Path) -> None:
    theirs = recorded()[case.name]["iceberg"]
    mine = ours(case, tmp_path, partial(on_spark, spark))
    assert is_expected(case, mine, theirs), (case.name, mine, theirs)


def test_a_merge_takes_any_source_and_any_condition(judged: Judged) -> None:
    for merge in (
        "USING (SELECT id, max(score) AS top FROM s GROUP BY id) AS u ON t.id = u.id "
        "WHEN MATCHED THEN UPDATE SET score = u.top",
        "USING s ON t.id + 5 = s.id WHEN MATCHED THEN UPDATE SET label = s.label "
        "WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)",
        "USING s ON t.id > 7 AND s.id = 7 WHEN MATCHED THEN DELETE",
    ):
        judged.run(f"MERGE INTO t {merge}")


def test_all_columns_come_from_the_source(spark: Any, judged: Judged) -> None:
    stars = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    found = sql(spark, f"MERGE INTO t USING s ON t.id = s.id {stars}", tables=judged.tables)
    assert found.columns == [
        *("statement", "table", "inserted", "updated", "deleted", "version", "commit")
    ]
    assert found.collect()[0][:5] == ("merge", "t", 3, 3, 0)
    kept = [each for each in TARGET.to_pylist() if each["id"] not in {2, 3, 6}]
    rows = sorted((tuple(e.values()) for e in [*kept, *SOURCE.to_pylist()]), key=repr)
    assert judged.ours() == rows


def test_a_row_that_two_of_the_source_match_is_an_error(spark: Any, tmp_path: Path) -> None:
    judged = Judged(tmp_path, source=pa.concat_tables([SOURCE, SOURCE.slice(0, 1)]))
    merge, before = "MERGE INTO t USING s ON t.id = s.id ", data_files(judged)
    with pytest.raises(InvalidInputError, match="several rows of the source match the same"):
        sql(spark, f"{merge} WHEN MATCHED THEN UPDATE SET label = s.label", tables=judged.tables)
    assert judged.version == 1
    assert data_files(judged) == before
    found = sql(spark, f"{merge} WHEN MATCHED THEN DELETE", tables=judged.tables).collect()[0]
    assert found["deleted"] == 3
    assert data_files(judged) == before


def test_rows_are_replaced_and_overwritten(spark: Any, judged: Judged) -> None:
    text = "INSERT INTO t REPLACE WHERE id > 2 SELECT * FROM s WHERE id > {}"
    assert sql(spark, text.format(2), tables=judged.tables).collect()[0][2:5] == (4, 0, 3)
    with pytest.raises(InvalidInputError, match="1 of the new rows do not meet the condition"):
        sql(spark, text.format(1), tables=judged.tables)
    sql(spark, "INSERT OVERWRITE t (id, score) SELECT id, 1.5 FROM s", tables=judged.tables)
    table = lw.open(judged.uri)
    assert table.schema.equals(TARGET.schema)
    assert table.count_rows("score = 1.5 AND label IS NULL") == 6


MERGE = "MERGE INTO t USING s ON t.id = s.id"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "UPDATE t SET score = score * 2 + id WHERE id > 1",
            "0 rows inserted, 4 updated, 0 deleted",
        ),
        (
            f"{MERGE} WHEN MATCHED AND s.id > 2 THEN UPDATE SET label = s.label WHEN NOT MATCHED "
            "THEN INSERT (id) VALUES (s.id) WHEN NOT MATCHED BY SOURCE AND t.id = 1 THEN DELETE",
            "3 rows inserted, 2 updated, 1 deleted",
        ),
        (
            "MERGE INTO t USING (SELECT 2 AS id UNION ALL SELECT 2) AS u ON t.id = u.id "
            "WHEN MATCHED THEN DELETE",
            "0 rows inserted, 0 updated, 1 deleted",
        ),
        (
            "INSERT INTO t REPLACE WHERE id > 2 SELECT * FROM s WHERE id > 2",
            "4 rows inserted, 0 updated, 3 deleted",
        ),
        ("DELETE FROM t WHERE id = id + 1", "0 rows inserted, 0 updated, 0 deleted"),
    ],
)
def test_explain_counts_and_writes_no_file(
    spark: Any, judged: Judged, text: str, expected: str
) -> None:
    folders = [Path(judged.uri), *(each for each in Path(judged.uri).rglob("*") if each.is_dir())]
    before = {each: each.stat().st_mtime_ns for each in folders}
    found = sql(spark, f"EXPLAIN {text}", tables=judged.tables).collect()
    assert found[-1]["plan"].strip() == expected
    assert {each: each.stat().st_mtime_ns for each in folders} == before


def test_explain_finds_what_would_be_refused(spark: Any, judged: Judged) -> None:
    twice = "USING (SELECT 2 AS id UNION ALL SELECT 2) AS u ON t.id = u.id"
    for text, why in {
        f"MERGE INTO t {twice} WHEN MATCHED THEN UPDATE SET score = 0": "several rows of the",
        "INSERT INTO t REPLACE WHERE id > 2 SELECT * FROM s": "new rows do not meet the condition",
    }.items():
        with pytest.raises(InvalidInputError, match=why):
            sql(spark, f"EXPLAIN {text}", tables=judged.tables)


def test_a_branch_is_written_by_its_name(spark: Any, judged: Judged) -> None:
    lw.open(judged.uri).branches.create("exp")
    sql(spark, "UPDATE t@exp SET score = id * 1.5 WHERE id < 3", tables=judged.tables)
    assert lw.open(judged.uri, branch="exp").count_rows("score = 3.0") == 1
    assert lw.open(judged.uri).version == 1


def test_a_statement_of_sparks_own_goes_to_it(spark: Any, judged: Judged) -> None:
    sql(spark, "CREATE OR REPLACE TEMP VIEW v AS SELECT 2 AS id")
    try:
        sql(spark, "DELETE FROM t WHERE id IN (SELECT id FROM v)", tables=judged.tables)
        assert lw.open(judged.uri).count_rows() == 5
    finally:
        sql(spark, "DROP VIEW v")


def test_another_writer_in_between_is_met(
    spark: Any, judged: Judged, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lancewood.spark.merge_into.addressed import ChangeByFrame

    prepare, left = ChangeByFrame.prepare, [True]

    def meddled(self: ChangeByFrame, snapshot: Any) -> Any:
        found = prepare(self, snapshot)
        if left:
            left.pop()
            lw.open(judged.uri).update({"score": "score + 100"}, "id = 2")
        return found

    monkeypatch.setattr(ChangeByFrame, "prepare", meddled)
    sql(spark, "UPDATE t SET score = score * 2 WHERE id * 1 = 2", tables=judged.tables)
    assert lw.open(judged.uri).count_rows("score = 205.0") == 1


@pytest.mark.parametrize("verb", ["INSERT OVERWRITE t", "CREATE OR REPLACE TABLE t AS"])
def test_an_overwrite_by_its_own_rows_loses_none_of_another_writer(
    spark: Any, judged: Judged, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    answer, left = OnSpark.answer, [True]

    def meddled(self: OnSpark, planned: Any) -> Any:
        found = answer(self, planned)
        if left:
            left.pop()
            lw.open(judged.uri).append(TARGET.slice(0, 1))
        return found

    monkeypatch.setattr(OnSpark, "answer", meddled)
    text = f"{verb} SELECT id, label, score + 1 AS score, count FROM t"
    assert sql(spark, text, tables=judged.tables).collect()[0]["inserted"] == 7
    assert lw.open(judged.uri).count_rows("id = 1 AND score = 2.5") == 2


def test_tables_are_made_and_shaped(spark: Any, judged: Judged, tmp_path: Path) -> None:
    new = str(tmp_path / "new.lance")
    script = """
        CREATE TABLE n AS SELECT id, score FROM t WHERE id > 2;
        ALTER TABLE n ADD COLUMN twice AS (id * 2);
        ALTER TABLE n ALTER COLUMN twice TYPE INT;
        CREATE BRANCH exp ON n;
        DELETE FROM n@exp;
        OPTIMIZE n;
        EXPLAIN MERGE INTO n USING s ON n.id = s.id WHEN MATCHED THEN DELETE
    """
    plan = sql(spark, script, tables={**judged.tables, "n": new}).collect()
    assert plan[-1]["plan"] == "  0 rows inserted, 0 updated, 2 deleted"
    assert sorted(lw.open(new).to_arrow()["twice"].to_pylist()) == [6, 8, 12]
    assert lw.open(new, branch="exp").count_rows() == 0
    with pytest.raises(InvalidInputError, match="statements take values for :name"):
        sql(spark, "DELETE FROM t WHERE id = ?", tables=judged.tables, args=[1])


def test_a_script_is_one_commit_of_a_repository(spark: Any, tmp_path: Path) -> None:
    repo = lw.Repository.init(tmp_path / "repo")
    with repo.transaction(message="begin") as changes:
        changes.create_table("t", TARGET)
        changes.create_table("s", SOURCE)
    script = """
        BEGIN;
        INSERT INTO t SELECT * FROM s WHERE id = 7;
        MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET label = s.label
            WHEN NOT MATCHED AND id = 8 THEN INSERT *;
        CREATE TABLE n AS SELECT count(*) AS rows, count(label) AS labels FROM t;
        COMMIT 'day 3'
    """
    found = sql(spark, script, repository=repo).collect()
    assert [each["statement"] for each in found] == ["insert", "merge", "create table", "commit"]
    assert [each.message.strip() for each in repo.log()] == ["day 3", "begin"]
    assert found[-1]["commit"] == str(repo.head.hash)
    view = repo.at("HEAD")
    assert view.table("n").to_arrow().to_pylist() == [{"rows": 8, "labels": 7}]
    assert view.table("t").count_rows("label = 'G'") == 1
    one = sql(spark, "DELETE FROM t WHERE id IN (SELECT id FROM s)", repository=repo).collect()
    assert one[0]["commit"] == str(repo.head.hash)
    assert repo.at("HEAD").table("t").count_rows() == 3


def test_a_table_is_replaced_with_its_columns_and_properties(spark: Any, tmp_path: Path) -> None:
    new = str(tmp_path / "new.lance")
    for number, script in enumerate(
        (
            "CREATE TABLE n (id BIGINT) COMMENT 'first' TBLPROPERTIES ('owner' = 'me')",
            "CREATE OR REPLACE TABLE n TBLPROPERTIES ('owner' = 'you') AS SELECT 'a' AS x, 2 AS y",
            "CREATE TABLE IF NOT EXISTS n (z INT)",
        )
    ):
        found = sql(spark, script, tables={"n": new}).collect()[0]
        assert found["version"] == min(number + 1, 2)
    table = lw.open(new)
    assert table.to_arrow().to_pylist() == [{"x": "a", "y": 2}]
    assert {"owner": "you", "comment": "first"}.items() <= table.config.items()
    with pytest.raises(AlreadyExistsError, match="CREATE OR REPLACE TABLE"):
        sql(spark, "CREATE TABLE n (z INT)", tables={"n": new})


@needs(STRICT_SQL)
def test_a_script_that_fails_in_the_middle_publishes_nothing(spark: Any, tmp_path: Path) -> None:
    repo = lw.Repository.init(tmp_path / "repo")
    with repo.transaction(message="begin") as changes:
        changes.create_table("t", TARGET)
    script = "BEGIN; DELETE FROM t WHERE id * 1 = 2; {}; COMMIT 'never'"
    for failing in ("UPDATE t SET count = 1 div (id - 3)", "INSERT INTO t SELECT 1 AS one"):
        with pytest.raises(Exception, match=r"zero|1 values for 4 columns") as caught:
            sql(spark, script.format(failing), repository=repo)
        assert "nothing that stands after BEGIN was done" in caught.value.__notes__
    assert [each.message.strip() for each in repo.log()] == ["begin"]
    assert repo.at("HEAD").table("t").count_rows() == 6


def test_a_field_of_a_struct_is_computed_alone(spark: Any, tmp_path: Path) -> None:
    boxes = pa.array([{"x": 1, "y": "a"}, None])
    uri = str(tmp_path / "t.lance")
    lw.create(uri, pa.table({"id": [1, 2], "box": boxes}))
    sql(spark, "UPDATE t SET box.x = box.x + id * 2", tables={"t": uri})
    assert _boxes(uri) == {1: {"x": 3, "y": "a"}, 2: {"x": None, "y": None}}
    lw.open(uri).update({"box": "NULL"}, "id = 2")
    sql(spark, "UPDATE t SET box.y = 'b'", tables={"t": uri})
    assert _boxes(uri) == {1: {"x": 3, "y": "b"}, 2: {"x": None, "y": "b"}}


def _boxes(uri: str) -> dict[int, Any]:
    return {each["id"]: each["box"] for each in lw.open(uri).to_arrow().to_pylist()}


def test_a_script_that_fails_on_executors_is_told_by_us_alone(
    spark: Any, judged: Judged, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lancewood.cli.commands.sql.session", lambda master: spark)
    failing = "(SELECT *, raise_error('no such day') AS why FROM s) AS u"
    for text in (
        f"INSERT INTO t (label) SELECT why FROM {failing}",
        f"MERGE INTO t USING {failing} ON t.id = u.id WHEN MATCHED THEN UPDATE SET label = u.why",
    ):
        named = ("-t", f"t={judged.uri}", "-t", f"s={judged.uri}")
        ran = CliRunner().invoke(app, ["sql", text, *named, "--spark"], prog_name="lw")
        assert ran.exit_code == ExitCode.INTERNAL
        assert ran.stderr.startswith("lw: the script failed on Spark: ")
        assert "no such day" in ran.stderr
        assert "\tat " not in ran.stderr

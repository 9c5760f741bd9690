"""Statements about tables as a whole, and scripts over a repository, in this process."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pyarrow as pa
import pytest
from tests.pylance import lance

import lancewood as lw
from lancewood.errors import (
    AlreadyExistsError,
    IncompatibleConflictError,
    InvalidInputError,
    NotFoundError,
    UnsupportedError,
)
from lancewood.query.statements.engine import Engine
from lancewood.query.statements.workplace import Workplace

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "label": ["a", "b", "c"]})


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return str(lw.create(tmp_path / "t.lance", ROWS, layout=lw.Layout(max_rows_per_file=1)).uri)


def run(sql: str, **given: Any) -> dict[str, Any]:
    found = lw.sql(sql, **given).to_arrow().to_pylist()
    return dict(found[-1])


def test_a_table_is_created_from_a_query(uri: str, tmp_path: Path) -> None:
    new = str(tmp_path / "new.lance")
    tables = {"t": uri, "n": new}
    made = run("CREATE TABLE n AS SELECT id, upper(label) AS name FROM t", tables=tables)
    assert (made["statement"], made["table"], made["version"]) == ("create table", "n", 1)
    assert lw.open(new).to_arrow().to_pydict() == {"id": [1, 2, 3], "name": ["A", "B", "C"]}
    with pytest.raises(AlreadyExistsError, match="CREATE OR REPLACE TABLE"):
        run("CREATE TABLE n AS SELECT 1 AS x", tables=tables)
    assert run("CREATE TABLE IF NOT EXISTS n AS SELECT 1 AS x", tables=tables)["version"] == 1
    assert run("CREATE OR REPLACE TABLE n AS SELECT 1 AS x", tables=tables)["version"] == 2
    assert lw.open(new).to_arrow().to_pydict() == {"x": [1]}


@pytest.mark.parametrize("what", ["ADD COLUMN LABEL INT", "RENAME COLUMN id TO Label"])
def test_names_that_no_query_could_tell_apart_are_refused(uri: str, what: str) -> None:
    with pytest.raises(InvalidInputError, match="upper and lower case"):
        run(f"ALTER TABLE t {what}", tables={"t": uri})
    run("ALTER TABLE t RENAME COLUMN label TO LABEL", tables={"t": uri})
    assert lw.open(uri).schema.names == ["id", "LABEL"]


def test_a_table_is_created_with_columns(tmp_path: Path) -> None:
    new = tmp_path / "new.lance"
    run(
        f"CREATE TABLE '{new}' (id BIGINT NOT NULL, v FLOAT[2], PRIMARY KEY (id)) "
        "WITH (comment = 'some vectors', 'owner' = 'me')"
    )
    table = lw.open(new)
    assert table.version == 1
    assert table.schema.field("v").type == pa.list_(pa.float32(), 2)
    assert not table.schema.field("id").nullable
    assert {"owner": "me", "comment": "some vectors"}.items() <= table.config.items()
    assert table.merge(pa.table({"id": [1]})).counts is not None
    with pytest.raises(InvalidInputError, match="it is not known where table 'x' is to be"):
        run("CREATE TABLE x (id INT)", tables={})


def test_a_table_is_created_at_a_location_whatever_its_name(tmp_path: Path) -> None:
    new = str(tmp_path / "new.lance")
    for key in ("location", "LOCATION"):
        run(f"CREATE OR REPLACE TABLE n (id INT) WITH ({key} = '{new}')", tables={})
    assert run(f"CREATE TABLE IF NOT EXISTS n (x INT) WITH (location = '{new}')")["version"] == 2
    with pytest.raises(AlreadyExistsError, match="CREATE OR REPLACE TABLE"):
        run(f"CREATE TABLE n (x INT) WITH (location = '{new}')")
    assert (lw.open(new).schema.names, lw.open(new).version) == (["id"], 2)


def test_a_property_that_cannot_be_is_told_before_a_table_is_made(tmp_path: Path) -> None:
    new = tmp_path / "new.lance"
    with pytest.raises(InvalidInputError, match="reserved for"):
        run(f"CREATE TABLE '{new}' (id INT) WITH ('lance.nope' = '1')")
    assert not new.exists()
    run(f"CREATE TABLE '{new}' (id INT) WITH ('owner' = 'me')")
    replaced = f"CREATE OR REPLACE TABLE '{new}' (x VARCHAR) WITH ('owner' = 'you')"
    assert run(replaced)["version"] == 2
    assert (lw.open(new).config["owner"], lw.open(new).schema.names) == ("you", ["x"])


def test_columns_are_added_dropped_renamed_and_cast(uri: str) -> None:
    tables = {"t": uri}
    steps = [
        "ALTER TABLE t ADD COLUMN score DOUBLE",
        "ALTER TABLE t ADD COLUMN tag VARCHAR",
        "ALTER TABLE t ADD COLUMN IF NOT EXISTS SCORE DOUBLE",
        "ALTER TABLE t RENAME COLUMN label TO name",
        "ALTER TABLE t ALTER COLUMN ID TYPE INT",
        "ALTER TABLE t DROP COLUMN IF EXISTS nope",
        "ALTER TABLE t DROP COLUMN tag",
    ]
    versions = [run(each, tables=tables)["version"] for each in steps]
    assert versions == [2, 3, 3, 4, 5, 5, 6]
    found = lw.open(uri).to_arrow()
    assert found.to_pydict() == {"id": [1, 2, 3], "name": ["a", "b", "c"], "score": [None] * 3}
    assert found.schema.field("id").type == pa.int32()
    with pytest.raises(InvalidInputError, match="no column 'nope'"):
        run("ALTER TABLE t DROP COLUMN nope", tables=tables)
    for added in ("score INT", "score AS id * 2"):
        with pytest.raises(InvalidInputError, match="'score' exists already: ADD COLUMNS IF NOT"):
            run(f"ALTER TABLE t ADD COLUMN {added}", tables=tables)
    assert lw.open(uri).version == 6


def test_a_new_column_is_computed_from_others(uri: str) -> None:
    table = lw.open(uri).delete("id = 2").append(ROWS.slice(0, 1))
    table.compact()
    run("ALTER TABLE t ADD COLUMN twice AS (id * 2 + length(label))", tables={"t": uri})
    for each in lw.open(uri).to_arrow().to_pylist():
        assert each["twice"] == each["id"] * 2 + 1


def test_branches_tags_and_older_versions(uri: str) -> None:
    tables = {"t": uri}
    run("CREATE TAG v1 ON t", tables=tables)
    run("CREATE BRANCH exp ON t", tables=tables)
    run("DELETE FROM t@exp WHERE id = 1", tables=tables)
    run("DELETE FROM t WHERE id > 1", tables=tables)
    assert run("CREATE TAG IF NOT EXISTS v1 ON t", tables=tables)["statement"] == "create tag"
    with pytest.raises(AlreadyExistsError):
        run("CREATE TAG v1 ON t", tables=tables)
    assert run("RESTORE TABLE t TO VERSION 1", tables=tables)["version"] == 3
    assert lw.open(uri).count_rows() == 3
    assert lw.open(uri, branch="exp").count_rows() == 2
    run("DROP BRANCH exp ON t", tables=tables)
    run("DROP TAG v1 ON t; DROP TAG IF EXISTS v1 ON t", tables=tables)
    assert not lw.open(uri).branches.list()
    assert not lw.open(uri).tags.list()


def test_a_branch_and_a_tag_are_replaced(uri: str) -> None:
    tables = {"t": uri}
    for kind in ("BRANCH", "TAG"):
        run(f"CREATE OR REPLACE {kind} {kind.lower()} ON t", tables=tables)
    run("DELETE FROM t WHERE id = 1", tables=tables)
    run("UPDATE t@branch SET label = 'lost'", tables=tables)
    assert run("CREATE OR REPLACE TAG tag ON t", tables=tables)["version"] == 2
    run("CREATE OR REPLACE BRANCH branch ON t", tables=tables)
    for name in ("tag", "branch"):
        found = lw.open(uri, at=name).to_arrow().to_pydict()
        assert found == {"id": [2, 3], "label": ["b", "c"]}, name
    run("CREATE OR REPLACE BRANCH branch ON t FROM VERSION 1", tables=tables)
    assert lw.open(uri, branch="branch").count_rows() == 3


def test_small_files_are_joined(uri: str) -> None:
    assert len(lw.open(uri).fragments) == 3
    assert run("OPTIMIZE t", tables={"t": uri})["version"] > 1
    assert len(lw.open(uri).fragments) == 1


@pytest.mark.parametrize(
    "given",
    [{"tables": {"t": "{uri}@:1"}}, {"tables": {"t": "{uri}"}, "revision": ":1"}],
    ids=["uri", "revision"],
)
@pytest.mark.parametrize("sql", ["DELETE FROM t", "INSERT INTO t SELECT 9, 'x'", "DROP TABLE t"])
def test_a_table_that_is_given_at_a_version_is_not_written(
    uri: str, sql: str, given: dict[str, Any]
) -> None:
    lw.open(uri).append(ROWS)
    given = {**given, "tables": {"t": given["tables"]["t"].format(uri=uri)}}
    assert run("SELECT count(*) AS n FROM t", **given) == {"n": 3}
    with pytest.raises(InvalidInputError, match=r"version 1, .*only a branch can be changed"):
        run(sql, **given)
    assert (lw.open(uri).version, lw.open(uri).count_rows()) == (2, 6)


@pytest.mark.parametrize(
    ("kind", "instead"),
    [
        ("VARINT", "VARCHAR"),
        ("TIMETZ", "VARCHAR"),
        ("STRUCT(id HUGEINT)[]", r"DECIMAL\(38,0\)"),
        ("MAP(VARCHAR, BIT)", "BLOB"),
    ],
)
def test_types_that_no_table_has_are_refused_with_one_that_may_do(
    tmp_path: Path, kind: str, instead: str
) -> None:
    with pytest.raises(InvalidInputError, match=f"{instead} may do"):
        run(f"CREATE TABLE n (a {kind})", tables={"n": str(tmp_path / "n.lance")})
    assert run("CREATE TABLE n (bit INT)", tables={"n": str(tmp_path / "n.lance")})["version"] == 1


@pytest.mark.parametrize(
    "wrong",
    [
        "OPTIMIZE t WHERE id > 1",
        "ALTER TABLE t ADD COLUMN a VARIANT",
        "ALTER TABLE t ALTER COLUMN id TYPE DECIMAL(99, 2)",
        "ALTER TABLE t ADD COLUMNS (a AS id + 1, b INT)",
        "CREATE TABLE n (id INT) OPTIONS (shards = 3)",
        "CREATE TABLE n (id INT) OPTIONS (stable_row_ids = 3)",
        "CREATE TAG v1 FROM VERSION 3",
        "BEGIN; CREATE BRANCH b; COMMIT",
        "SELECT 2 FROM WHERE x",
        "EXPLAIN SELECT",
        "SET threads = 1",
    ],
)
def test_what_is_wrong_in_a_script_is_found_before_any_of_it_runs(
    uri: str, tmp_path: Path, wrong: str
) -> None:
    tables = {"t": uri, "n": str(tmp_path / "n.lance")}
    with pytest.raises(InvalidInputError, match="at line 2"):
        lw.sql(f"DELETE FROM t;\n{wrong}", tables=tables)
    assert lw.open(uri).version == 1


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM t WHERE id * 2 = 2",
        "INSERT INTO t SELECT * FROM t",
        "UPDATE t SET label = upper(label)",
        "MERGE INTO t USING t AS s ON t.id = s.id WHEN MATCHED THEN DELETE",
        "ALTER TABLE t ADD COLUMN x INT",
        "ALTER TABLE t DROP COLUMN label",
        "ALTER TABLE t RENAME COLUMN label TO x",
        "ALTER TABLE t ALTER COLUMN id TYPE INT",
        "CREATE TABLE n AS SELECT * FROM t",
        "CREATE TAG v9 ON t",
        "CREATE BRANCH b9 ON t",
        "RESTORE TABLE t TO VERSION 1",
        "OPTIMIZE t",
    ],
)
def test_explain_changes_nothing(uri: str, tmp_path: Path, sql: str) -> None:
    tables = {"t": uri, "n": str(tmp_path / "n.lance")}
    before = sorted(str(each) for each in tmp_path.rglob("*"))
    plan = lw.sql(f"EXPLAIN {sql}", tables=tables).to_arrow()
    assert plan.column_names == ["plan"]
    assert plan["plan"][0].as_py().startswith("would ")
    assert sorted(str(each) for each in tmp_path.rglob("*")) == before


# Repositories


@pytest.fixture
def repo(tmp_path: Path) -> lw.Repository:
    found = lw.Repository.init(tmp_path / "repo")
    with found.transaction(message="begin") as changes:
        changes.create_table("photos", ROWS)
        changes.create_table("labels", pa.table({"label": ["a", "b"], "n": [0, 0]}))
    return found


def messages(repo: lw.Repository, branch: str = "main") -> list[str]:
    return [each.message.strip() for each in repo.log(branch)]


def test_one_statement_is_one_commit(repo: lw.Repository) -> None:
    found = run("DELETE FROM photos WHERE id * 2 = 2", repository=repo)
    assert found["commit"] == str(repo.head.hash)
    assert found["deleted"] == 1
    assert messages(repo)[0] == "DELETE FROM photos WHERE id * 2 = 2"
    assert repo.at("HEAD").table("photos").count_rows() == 2


def test_a_commit_of_a_long_statement_has_a_short_subject_and_the_statement_below(
    repo: lw.Repository,
) -> None:
    sql = (
        "UPDATE photos\n  SET label = CASE WHEN id > 2 THEN 'many' WHEN id > 1 THEN 'some' "
        "ELSE 'few' END\n  WHERE label IS NOT NULL"
    )
    run(sql, repository=repo)
    subject = "UPDATE photos SET label = CASE WHEN id > 2 THEN 'many' WHEN id > 1 THEN…"
    assert messages(repo)[0] == f"{subject}\n\n{sql}"
    assert len(subject) <= 72
    more = "DELETE FROM labels\nWHERE n = 0"
    lw.sql(f"BEGIN; {sql}; {more}; COMMIT", repository=repo)
    assert messages(repo)[0] == f"{subject}\n\n{sql};\n{more}"
    run("DELETE FROM photos\nWHERE id = 1", repository=repo)
    assert messages(repo)[0].split("\n")[:2] == ["DELETE FROM photos WHERE id = 1", ""]


def test_a_name_without_a_revision_means_head_beside_the_branch_that_is_written(
    repo: lw.Repository,
) -> None:
    repo.branches.create("exp")
    with repo.transaction("exp", message="more") as changes:
        changes.table("photos").append(ROWS)
        changes.create_table("only", ROWS)
    run("DELETE FROM photos WHERE id > 1", repository=repo)
    assert repo.at("main").table("photos").count_rows() == 1
    deleting = "DELETE FROM photos@exp WHERE id IN (SELECT id FROM photos)"
    plan = lw.sql(f"EXPLAIN {deleting}", repository=repo).to_arrow()["plan"].to_pylist()
    assert "0 rows inserted, 0 updated, 2 deleted" in "\n".join(plan)
    assert run(deleting, repository=repo)["deleted"] == 2
    assert repo.at("exp").table("photos").count_rows() == 4
    assert run("INSERT INTO photos@exp FROM photos", repository=repo)["inserted"] == 1
    assert run("DELETE FROM only@exp WHERE id = 1", repository=repo)["deleted"] == 1
    assert repo.at("main").table("photos").count_rows() == 1


def test_what_stands_between_begin_and_commit_is_one_commit(repo: lw.Repository) -> None:
    script = """
        BEGIN;
        INSERT INTO photos VALUES (4, 'b'), (5, 'b');
        UPDATE labels SET n = (SELECT count(*) FROM photos p WHERE p.label = labels.label);
        CREATE TABLE counts AS SELECT label, n FROM labels WHERE n > 1;
        ALTER TABLE counts RENAME COLUMN n TO many;
        MERGE INTO photos USING counts ON photos.label = counts.label
            WHEN MATCHED AND photos.id > 4 THEN DELETE;
        COMMIT 'day 3'
    """
    found = lw.sql(script, repository=repo).to_arrow().to_pylist()
    assert [each["statement"] for each in found] == [
        *("insert", "update", "create table", "alter table", "merge", "commit")
    ]
    assert messages(repo) == ["day 3", "begin"]
    assert found[-1]["commit"] == str(repo.head.hash)
    view = repo.at("HEAD")
    assert view.table("counts").to_arrow().to_pydict() == {"label": ["b"], "many": [3]}
    assert sorted(view.table("photos").to_arrow()["id"].to_pylist()) == [1, 2, 3, 4]
    assert {e["label"]: e["n"] for e in view.table("labels").to_arrow().to_pylist()} == {
        "a": 1,
        "b": 3,
    }


def test_an_error_leaves_nothing_of_a_transaction(repo: lw.Repository) -> None:
    script = "BEGIN; DELETE FROM photos; INSERT INTO labels VALUES (1); COMMIT 'never'"
    with pytest.raises(InvalidInputError) as caught:
        lw.sql(script, repository=repo)
    assert "nothing that stands after BEGIN was done" in caught.value.__notes__
    assert messages(repo) == ["begin"]
    assert lw.sql("SELECT count(*) AS n FROM photos", repository=repo).to_arrow()["n"][0].as_py()


def test_a_rollback_and_an_end_without_commit_change_nothing(repo: lw.Repository) -> None:
    found = lw.sql("BEGIN; DELETE FROM photos; ROLLBACK", repository=repo).to_arrow()
    assert found["statement"].to_pylist() == ["rollback"]
    with pytest.raises(InvalidInputError, match="COMMIT"):
        lw.sql("BEGIN; DELETE FROM photos", repository=repo)
    assert messages(repo) == ["begin"]
    assert repo.at("HEAD").table("photos").count_rows() == 3


def test_a_branch_of_the_repository_is_written_by_its_name(repo: lw.Repository) -> None:
    run("CREATE BRANCH exp", repository=repo)
    run("DELETE FROM photos@exp WHERE id = 1", repository=repo)
    script = "BEGIN; DELETE FROM photos@exp WHERE id = 2; INSERT INTO labels VALUES ('z', 1); "
    lw.sql(f"{script} COMMIT 'more'", repository=repo, revision="exp")
    assert repo.at("exp").table("photos").count_rows() == 1
    assert repo.at("exp").table("labels").count_rows() == 3
    assert repo.at("main").table("photos").count_rows() == 3
    assert messages(repo) == ["begin"]
    with pytest.raises(InvalidInputError, match="on another branch than the transaction"):
        lw.sql(f"{script} COMMIT 'more'", repository=repo)
    run("CREATE TAG v1", repository=repo)
    with pytest.raises(InvalidInputError, match="is no branch of the repository"):
        run("DELETE FROM photos@v1", repository=repo)
    run("DROP TAG v1", repository=repo)


def test_tables_elsewhere_are_no_part_of_a_transaction(repo: lw.Repository, uri: str) -> None:
    new = f"{uri}.new"
    for sql in ("DELETE FROM t", "CREATE TABLE n AS FROM photos"):
        with pytest.raises(InvalidInputError, match="is no table of the repository"):
            lw.sql(f"BEGIN; {sql}; COMMIT 'no'", repository=repo, tables={"t": uri, "n": new})
    assert not lw.exists(new)
    assert run("DELETE FROM t", repository=repo, tables={"t": uri})["commit"] is None
    with pytest.raises(InvalidInputError, match="only a repository has transactions"):
        lw.sql("BEGIN; DELETE FROM t; COMMIT 'no'", tables={"t": uri})
    with pytest.raises(NotFoundError, match="table 'nope' not found"):
        run("DELETE FROM nope", repository=repo)


def test_explain_leaves_a_repository_alone(repo: lw.Repository) -> None:
    before = messages(repo)
    plan = lw.sql("EXPLAIN UPDATE photos SET label = upper(label)", repository=repo).to_arrow()
    assert "3 updated" in plan["plan"].to_pylist()[-1]
    assert messages(repo) == before


def test_a_statement_meets_a_commit_of_another_writer(
    repo: lw.Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, left = Engine.answer, [True]

    def answer(self: Engine, planned: Any) -> Any:
        if left and "__lancewood_target" in planned._named.sql:
            left.pop()
            with lw.Repository.open(repo.path).transaction(message="other") as changes:
                changes.table("photos").update({"label": "'mine'"}, "id = 2")
        return asked(self, planned)

    monkeypatch.setattr(Engine, "answer", answer)
    run("UPDATE photos SET label = concat(label, '!') WHERE id * 1 = 2", repository=repo)
    assert messages(repo)[1:] == ["other", "begin"]
    labels = repo.at("HEAD").table("photos").to_arrow().to_pylist()
    assert {each["id"]: each["label"] for each in labels}[2] == "mine!"


@pytest.mark.parametrize("verb", ["INSERT OVERWRITE photos", "CREATE OR REPLACE TABLE photos AS"])
def test_an_overwrite_by_its_own_rows_meets_a_commit_of_another_writer(
    repo: lw.Repository, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    asked, left = Engine.answer, [True]

    def answer(self: Engine, planned: Any) -> Any:
        found = asked(self, planned)
        if left:
            left.pop()
            with lw.Repository.open(repo.path).transaction(message="other") as changes:
                changes.table("photos").append(ROWS.slice(0, 1))
        return found

    monkeypatch.setattr(Engine, "answer", answer)
    run(f"{verb} SELECT * FROM photos", repository=repo)
    assert messages(repo)[1:] == ["other", "begin"]
    assert repo.at("HEAD").table("photos").count_rows() == len(ROWS) + 1


def test_a_transaction_is_all_or_nothing_against_another(
    repo: lw.Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, left = Engine.answer, [True]

    def answer(self: Engine, planned: Any) -> Any:
        if left and "__lancewood_target" in planned._named.sql:
            left.pop()
            with lw.Repository.open(repo.path).transaction(message="other") as changes:
                changes.table("photos").overwrite(ROWS.slice(0, 1))
        return asked(self, planned)

    monkeypatch.setattr(Engine, "answer", answer)
    script = (
        "BEGIN; INSERT INTO labels VALUES ('q', 1); UPDATE photos SET id = id + 1 WHERE id * 1 = 2;"
        " COMMIT 'mine'"
    )
    with pytest.raises((IncompatibleConflictError, lw.RetryableConflictError)):
        lw.sql(script, repository=repo)
    assert messages(repo) == ["other", "begin"]
    assert repo.at("HEAD").table("labels").count_rows() == 2


def test_a_table_of_the_repository_is_replaced(repo: lw.Repository) -> None:
    made = run("CREATE OR REPLACE TABLE labels AS SELECT id AS n FROM photos", repository=repo)
    assert made["commit"] == str(repo.head.hash)
    assert (made["inserted"], len(messages(repo))) == (3, 2)
    assert repo.at("HEAD").table("labels").to_arrow().to_pydict() == {"n": [1, 2, 3]}
    assert repo.at("HEAD~1").table("labels").schema.names == ["label", "n"]
    run(
        "CREATE OR REPLACE TABLE labels (x INT); CREATE TABLE IF NOT EXISTS labels (y INT)",
        repository=repo,
    )
    assert repo.at("HEAD").table("labels").schema.names == ["x"]
    with pytest.raises(AlreadyExistsError, match="CREATE OR REPLACE TABLE"):
        run("CREATE TABLE labels (y INT)", repository=repo)


def test_a_branch_of_the_repository_is_not_moved(repo: lw.Repository) -> None:
    run("CREATE OR REPLACE BRANCH exp; CREATE OR REPLACE TAG v1", repository=repo)
    tip = repo.branches["exp"]
    run("DELETE FROM photos", repository=repo)
    for sql in ("CREATE OR REPLACE BRANCH exp", "CREATE OR REPLACE TAG v1"):
        with pytest.raises(UnsupportedError, match="drop it first"):
            run(sql, repository=repo)
    assert (repo.branches["exp"], repo.tags["v1"]) == (tip, tip)


def test_a_branch_with_work_of_its_own_is_not_dropped(repo: lw.Repository) -> None:
    run("CREATE BRANCH exp", repository=repo)
    run("DELETE FROM photos@exp", repository=repo)
    with pytest.raises(IncompatibleConflictError) as caught:
        run("DROP BRANCH exp", repository=repo)
    assert "force" not in str(caught.value)
    assert "lw branch -D exp" in str(caught.value)
    assert "exp" in repo.branches


@pytest.mark.parametrize("state", ["TO 'v1'", "'v1'", "TO 'main~2'", "TO VERSION {version}"])
def test_a_table_of_the_repository_is_restored(repo: lw.Repository, state: str) -> None:
    repo.tags.create("v1")
    landed = repo.at("HEAD").landed("photos")
    assert landed is not None
    run("DELETE FROM photos WHERE id = 1; DELETE FROM labels", repository=repo)
    done = run(f"RESTORE photos {state.format(version=landed.version)}", repository=repo)
    assert done["commit"] == str(repo.head.hash)
    assert repo.at("HEAD").table("photos").to_arrow().to_pydict() == ROWS.to_pydict()
    assert repo.at("HEAD").table("labels").count_rows() == 0
    assert len(messages(repo)) == 4


def test_a_script_restores_what_it_changed(repo: lw.Repository) -> None:
    repo.tags.create("v1")
    lw.sql("BEGIN; DELETE FROM photos; RESTORE photos TO 'v1'; COMMIT 'back'", repository=repo)
    assert repo.at("HEAD").table("photos").count_rows() == 3


# Two writers


SCRIPTS = {
    "other tables": ("UPDATE photos SET label = 'x'", "INSERT INTO labels VALUES ('z', 9)"),
    "other rows": ("INSERT INTO photos VALUES (8, 'y')", "INSERT INTO photos VALUES (9, 'z')"),
    "the same rows": (
        "UPDATE photos SET label = concat(label, 'x')",
        "UPDATE photos SET label = concat(label, 'y')",
    ),
    "columns": ("ALTER TABLE photos ADD COLUMN a INT", "DELETE FROM photos WHERE id * 1 = 1"),
}


@pytest.mark.parametrize("scripts", SCRIPTS.values(), ids=SCRIPTS)
def test_two_scripts_at_once_are_one_after_the_other_or_not_at_all(
    repo: lw.Repository, tmp_path: Path, scripts: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    twin = tmp_path / "twin"
    shutil.copytree(repo.path, twin)
    meeting, own_commit = Barrier(2, timeout=60), Workplace.commit

    def commit(self: Workplace) -> Any:
        meeting.wait()
        return own_commit(self)

    def script(number: int) -> str:
        return f"BEGIN; {scripts[number]}; CREATE TABLE n{number} (x INT); COMMIT '{number}'"

    def is_done(number: int) -> bool:
        try:
            lw.sql(script(number), repository=repo.path)
        except lw.ConflictError:
            return False
        return True

    with monkeypatch.context() as both, ThreadPoolExecutor(2) as pool:
        both.setattr(Workplace, "commit", commit)
        done = [number for number, each in enumerate(pool.map(is_done, (0, 1))) if each]
    landed = [int(each) for each in reversed(messages(repo)[:-1])]
    assert sorted(landed) == done != []
    for number in landed:
        lw.sql(script(number), repository=twin)
    assert rows_of(repo) == rows_of(lw.Repository.open(twin))


def rows_of(repo: lw.Repository) -> dict[str, list[str]]:
    view = repo.at("HEAD")
    return {name: sorted(map(str, view.table(name).to_arrow().to_pylist())) for name in view.tables}


# Files


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet", "arrow", "arrows"])
def test_rows_go_to_a_file_and_come_from_one(uri: str, tmp_path: Path, suffix: str) -> None:
    file, given = tmp_path / f"rows.{suffix}", dict[str, Any](tables={"t": uri}, files=True)
    done = run(f"COPY (SELECT * FROM t AT (VERSION => 1) WHERE id > 1) TO '{file}'", **given)
    assert (done["statement"], done["table"], done["inserted"]) == ("copy", str(file), 2)
    with pytest.raises(AlreadyExistsError, match="is already there"):
        run(f"COPY t TO '{file}'", **given)
    run(f"DELETE FROM t; COPY t FROM '{file}'", **given)
    assert lw.open(uri).to_arrow().to_pydict() == {"id": [2, 3], "label": ["b", "c"]}
    run(f"COPY t@main TO '{file}' (OVERWRITE); COPY t FROM '{file}'", **given)
    assert lw.open(uri).to_arrow()["id"].to_pylist() == [2, 3, 2, 3]
    assert lance.dataset(uri).count_rows() == 4


def test_a_file_is_read_as_its_options_say(uri: str, tmp_path: Path) -> None:
    file, given = tmp_path / "rows.txt", dict[str, Any](tables={"t": uri}, files=True)
    file.write_bytes("id|label\n7|\xe9\n8|-\n".encode("latin-1"))
    form = "FORMAT csv, DELIM '|', NULLSTR '-', ENCODING 'latin-1', HEADER"
    done = run(f"COPY t FROM '{file}' WITH ({form})", **given)
    assert (done["table"], done["inserted"], done["version"]) == ("t", 2, 2)
    assert lw.open(uri).to_arrow()["label"].to_pylist()[-2:] == ["\xe9", None]
    plan = lw.sql(f"EXPLAIN COPY t FROM '{file}' ({form})", **given).to_arrow()["plan"]
    assert plan[-1].as_py() == "  2 rows inserted, 0 updated, 0 deleted"
    assert lw.open(uri).version == 2


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("COPY t TO 'x.csv' (HEADER false)", "expected one of FORMAT, OVERWRITE, found 'HEADER'"),
        ("COPY t FROM 'x.csv' (QUOTE '|')", "expected one of FORMAT, HEADER, DELIMITER, NULLSTR"),
        ("COPY t FROM 'x.csv' (FORMAT excel)", "FORMAT 'excel' is not known"),
        ("COPY t FROM 'x.csv' (DELIMITER '||')", "DELIMITER is one character"),
        ("COPY t FROM 'x.csv' (HEADER maybe)", "HEADER is true or false, not 'maybe'"),
        ("COPY t TO 'rows'", "the format of 'rows' cannot be told"),
        ("COPY t TO '-' (FORMAT csv)", "takes the path of a file in quotes"),
        ("COPY t (id) TO 'x.csv'", "columns go by their names in the file"),
        ("COPY t@:1 FROM 'x.csv'", "only a branch can be changed"),
        ("COPY t", "expected TO or FROM"),
        ("COPY t TO 'x.csv' WITH", "expected options in parentheses"),
        ("COPY t TO", "expected a file in quotes"),
        ("BEGIN; COPY t TO 'x.csv'; COMMIT", "are no part of a transaction"),
    ],
)
def test_a_copy_that_cannot_be_is_refused(
    uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.csv").write_text("id,label\n1,a\n")
    with pytest.raises(InvalidInputError, match=told):
        run(text, tables={"t": uri}, files=True)
    assert lw.open(uri).version == 1
    assert {each.name for each in tmp_path.iterdir()} == {"t.lance", "x.csv"}


# Tables that go, and branches that come together


def test_a_table_is_dropped(uri: str) -> None:
    tables = {"t": uri}
    assert "would run DROP TABLE t" in str(lw.sql("EXPLAIN DROP TABLE t", tables=tables))
    assert run("DROP TABLE t", tables=tables)["statement"] == "drop table"
    assert not lw.exists(uri)
    assert run("DROP TABLE IF EXISTS t", tables=tables)["statement"] == "drop table"
    with pytest.raises(NotFoundError):
        run("DROP TABLE t", tables=tables)


def test_a_table_is_taken_out_of_a_repository_and_its_rows_stay(repo: lw.Repository) -> None:
    uri = repo.at("HEAD").table("photos").uri
    done = run("DROP TABLE photos", repository=repo)
    assert done["commit"] == str(repo.head.hash)
    assert "photos" not in repo.at("HEAD").tables
    assert repo.at("HEAD~1").table("photos").count_rows() == lw.open(uri).count_rows() == 3
    with pytest.raises(InvalidInputError, match="are no part of a transaction"):
        run("BEGIN; DROP TABLE labels; COMMIT", repository=repo)
    with pytest.raises(InvalidInputError, match="a table goes with all its branches"):
        run("DROP TABLE labels@exp", repository=repo)


def test_a_branch_of_a_table_is_merged(uri: str) -> None:
    tables = {"t": uri}
    run("CREATE BRANCH exp ON t; INSERT INTO t@exp VALUES (4, 'd')", tables=tables)
    run("DELETE FROM t WHERE id = 1", tables=tables)
    plan = lw.sql("EXPLAIN MERGE BRANCH exp ON t", tables=tables).to_arrow()["plan"].to_pylist()
    assert plan[-1] == "  1 rows inserted, 0 updated, 0 deleted"
    done = run("MERGE BRANCH exp INTO main ON t", tables=tables)
    assert (done["statement"], done["table"], done["inserted"]) == ("merge branch", "t", 1)
    assert lance.dataset(uri).to_table()["id"].to_pylist() == [2, 3, 4]


def test_a_branch_of_a_repository_is_merged(repo: lw.Repository) -> None:
    run("CREATE BRANCH exp; DELETE FROM photos@exp WHERE id = 1", repository=repo)
    run("INSERT INTO photos VALUES (9, 'z')", repository=repo)
    done = run("MERGE BRANCH exp", repository=repo)
    assert done["commit"] == str(repo.head.hash)
    assert sorted(repo.at("HEAD").table("photos").to_arrow()["id"].to_pylist()) == [2, 3, 9]
    with pytest.raises(NotFoundError, match="nope"):
        run("MERGE BRANCH nope", repository=repo)


def test_a_table_that_only_a_branch_has_is_named_there(tmp_path: Path) -> None:
    repository = lw.Repository.init(tmp_path / "shop")
    with repository.transaction("main", message="photos") as changes:
        changes.create_table("photos", ROWS)
    repository.branches.create("exp")
    given: dict[str, Any] = {"repository": repository}
    run("CREATE TABLE notes@exp AS SELECT 1 AS id", **given)
    assert run("SELECT id FROM Notes@exp", **given) == {"id": 1}
    run("UPDATE notes@exp SET id = 2", **given)
    assert run("SELECT after.id FROM diff('notes', 'exp~1', 'exp')", **given) == {"id": 2}
    assert run("INSERT INTO photos SELECT id, 'x' FROM notes@exp", **given)["inserted"] == 1
    with pytest.raises(NotFoundError, match="table 'notes' not found: there are photos here"):
        run("SELECT id FROM notes", **given)

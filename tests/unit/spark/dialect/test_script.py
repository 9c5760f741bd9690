"""From scripts to statements: what is known, what is passed on, what is refused, and where."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest
from tests.unit.spark.dialect.texts import EXP, KNOWN, PHOTOS, to

from lancewood.errors import InvalidInputError
from lancewood.query.statements.model import (
    Begin,
    Commit,
    Delete,
    Insert,
    Passed,
    Rollback,
    Statement,
    Update,
)
from lancewood.spark.dialect.script import parse_script
from lancewood.spark.dialect.settings import Settings
from lancewood.spark.dialect.text import check_not_ours


def parsed(text: str, settings: Settings | None = None) -> Statement | Passed:
    (found,) = parse_script(text, settings or Settings())
    return found


@pytest.mark.parametrize("text", KNOWN)
def test_a_text_becomes_a_statement(text: str) -> None:
    assert parsed(text) == KNOWN[text]


@pytest.mark.parametrize("text", KNOWN)
def test_comments_around_it_and_semicolons_after_it_change_nothing(text: str) -> None:
    found = parsed(f"-- a; b\n /* ; */ {text}\n;;\n")
    assert found == KNOWN[text]
    assert not isinstance(found, Passed)
    assert (found.sql, found.line) == (text.removesuffix(" -- all"), 2)


PASSED = [
    "SELECT 1",
    "SELECT * FROM photos@exp; ",
    "  -- a query\nWITH s AS (SELECT 'INSERT' AS a) SELECT * FROM s",
    "VALUES (1), (2)",
    "FROM s INSERT INTO a SELECT 1 INSERT INTO b SELECT 2",
    "CREATE TEMPORARY VIEW v AS SELECT 1",
    "CREATE TABLE t USING parquet PARTITIONED BY (a) AS SELECT 1 AS a",
    "CREATE TABLE t (a INT) STORED AS ORC",
    "CREATE EXTERNAL TABLE t (a INT)",
    "CREATE TABLE db.t (a INT)",
    "DROP TABLE photos",
    "INSERT INTO catalog.db.t SELECT 1",
    "INSERT OVERWRITE DIRECTORY '/x' SELECT 1",
    "INSERT INTO IDENTIFIER('a.b') SELECT 1",
    "DELETE FROM delta.`/data/events` WHERE date < '2017-01-01'",
    "ALTER TABLE photos SET TBLPROPERTIES ('a' = 'b')",
    "ALTER TABLE photos RENAME TO pictures",
    "ALTER TABLE photos ADD PARTITION (a = 1)",
    "ALTER TABLE photos WRITE ORDERED BY a",
    "ALTER VIEW v AS SELECT 1",
    "EXPLAIN FORMATTED SELECT 1",
    "SHOW TABLES",
    "SET spark.sql.ansi.enabled = true",
    "CALL system.rollback_to_snapshot('db.t', 1)",
    "VACUUM photos RETAIN 168 HOURS",
    "BEGIN DECLARE a INT DEFAULT 1; SET a = a + 1; SELECT a; END;",
    "",
    " -- nothing",
]


@pytest.mark.parametrize("text", PASSED)
def test_what_is_not_ours_is_passed_on_as_it_was_written(text: str) -> None:
    assert parsed(text) == Passed(text)


ENGINES = {
    "DROP TABLE IF EXISTS photos": "a table is dropped by lw table drop",
    "VACUUM photos RETAIN 168 HOURS": "lw table cleanup",
    "VACUUM photos@exp": "lw table cleanup",
    "describe history `photos`": "lw table versions",
    "DESC HISTORY photos": "lw table versions",
    "DESCRIBE TABLE EXTENDED photos": "lw table schema",
    "ALTER TABLE photos SET TBLPROPERTIES ('a' = 'b')": "lw table config",
}


@pytest.mark.parametrize("text", ENGINES)
def test_a_statement_that_only_engines_have_is_refused_for_a_table_of_ours(text: str) -> None:
    with pytest.raises(InvalidInputError, match=ENGINES[text]):
        check_not_ours(text, Settings(), lambda name: name == "photos")
    check_not_ours(text, Settings(), lambda _: False)


@pytest.mark.parametrize(
    "text",
    [
        *("VACUUM db.photos", "VACUUM '/photos'", "DROP VIEW photos", "DESCRIBE FUNCTION photos"),
        *("SHOW TABLES", "VACUUM", "DESCRIBE QUERY SELECT 1", "SELECT * FROM photos", ""),
        *("DELETE FROM delta.`photos`", "CREATE TABLE photos (a INT) USING delta"),
    ],
)
def test_what_names_no_table_of_ours_goes_on_to_the_engine(text: str) -> None:
    check_not_ours(text, Settings(), lambda name: name == "photos")


def test_a_script_is_many_statements() -> None:
    script = """
    -- photos; of today
    BEGIN TRANSACTION;
    INSERT INTO photos@exp
        VALUES (1, 'a;--b'), (2, "it's; so"), (3, `x;y`);;
    /* nothing /* ; */ here */
    SET a = b;
    UPDATE photos SET label = 'x' -- ; y
        WHERE id = 2;
    SELECT count(*) FROM photos;
    COMMIT 'it''s done';
    START TRANSACTION; DELETE FROM photos; ROLLBACK WORK
    """
    found = parse_script(script, Settings())
    assert found == (
        Begin(),
        Insert(EXP, """VALUES (1, 'a;--b'), (2, "it's; so"), (3, `x;y`)"""),
        Passed("SET a = b"),
        Update(PHOTOS, to(("label", "'x'")), "id = 2"),
        Passed("SELECT count(*) FROM photos"),
        Commit("it's done"),
        Begin(),
        Delete(PHOTOS),
        Rollback(),
    )
    assert [each.line for each in found] == [3, 4, 7, 8, 10, 11, 12, 12, 12]


def test_queries_alone_are_a_script_too() -> None:
    assert parse_script("SELECT 1; SELECT 2;", Settings()) == (
        Passed("SELECT 1"),
        Passed("SELECT 2"),
    )


def test_double_quotes_name_where_the_session_says_so() -> None:
    settings = Settings(double_quotes_name=True)
    assert parsed('DELETE FROM "photos@exp" WHERE "a" = 1', settings) == Delete(EXP, '"a" = 1')


def test_names_in_two_cases_are_two_where_the_session_says_so() -> None:
    text = "UPDATE photos SET a = 1, A = 2"
    with pytest.raises(InvalidInputError, match="'A' is given twice"):
        parsed(text)
    assert parsed(text, Settings(case_sensitive=True)) == Update(PHOTOS, to(("a", "1"), ("A", "2")))


STATE = "only a branch can be changed: write photos"
WRONG = {
    "MERGE INTO t USING s ON rand() < 0.5 WHEN MATCHED THEN DELETE": "rand() has another each time",
    "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED AND s.a > uuid() THEN DELETE": "uuid() has",
    "MERGE INTO t USING s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (t.box.x) VALUES (1)": (
        "INSERT gives whole columns"
    ),
    "DELETE photos": "line 1, column 8: expected FROM, found 'photos'",
    "DELETE FROM": "line 1, column 12: expected the name of a table, found the end",
    "DELETE FROM 3": "expected the name of a table, found '3'",
    "DELETE FROM photos WHERE": "line 1, column 25: expected a condition, found the end",
    "DELETE FROM photos\nWHERE a = = 3": "cannot read 'a = = 3' as SQL at line 2, column",
    "DELETE FROM photos p q": "expected WHERE, found 'q'",
    "DELETE FROM photos WHERE a, b": "cannot read 'a, b' as SQL at line 1",
    "DELETE FROM photos WHERE *": "expected a condition, found '*'",
    "DELETE FROM photos WHERE (DELETE FROM s)": "cannot read",
    "DELETE FROM photos@": "names no revision",
    "DELETE FROM photos@:12": f"photos@:12 is one state, and {STATE} or photos@branch; CREATE "
    "BRANCH fix ON photos FROM ':12'",
    "UPDATE photos@exp:7 SET a = 1": f"photos@exp:7 is one state, and {STATE}",
    "INSERT INTO photos@tag:v1 VALUES (1)": f"photos@tag:v1 is one state, and {STATE}",
    "INSERT INTO photos@main~1 VALUES (1)": f"photos@main~1 is one state, and {STATE}",
    "MERGE INTO photos@exp@{1} USING s ON a WHEN MATCHED THEN DELETE": STATE,
    "DELETE FROM photos VERSION AS OF 12": f"photos VERSION AS OF is one state, and {STATE}",
    "OPTIMIZE photos FOR SYSTEM_TIME AS OF '2026-11-15'": STATE,
    "DELETE FROM a.`b@exp`": "'a.b@exp' has a revision, and only tables of Lancewood",
    "DELETE FROM lance.`/a/b`": "a path stands in quotes, '/a/b'",
    "UPDATE photos a = 1": "expected SET, found '='",
    "UPDATE photos SET": "expected the name of a column, found the end",
    "UPDATE photos SET a": "expected = and a value, found the end",
    "UPDATE photos SET a = 1,\n  b = WHERE c": "line 2, column 7: expected a value, found 'WHERE'",
    "UPDATE photos SET a = DEFAULT": "columns have no DEFAULT: write a value, or NULL",
    "UPDATE photos SET a = 1, photos.a = 2": "'a' is given twice: give each column once",
    "UPDATE photos SET a = s.a FROM s": "UPDATE takes no FROM: write MERGE INTO",
    "UPDATE photos SET a = (1": "cannot read '(1' as SQL at line 1",
    "UPDATE photos SET a = 1) WHERE b": "expected WHERE, found ')'",
    "WITH s AS (SELECT 1) DELETE FROM photos": "WITH does not stand before DELETE",
    "INSERT photos VALUES (1)": "expected INTO or OVERWRITE, found 'photos'",
    "INSERT INTO photos": "expected a query or VALUES, found the end",
    "INSERT INTO photos SELEC 1": "expected a query or VALUES, found 'SELEC'",
    "INSERT INTO photos\nSELECT 1 FROM WHERE": "cannot read 'SELECT 1 FROM WHERE' as SQL at line 2",
    "INSERT INTO photos TABLE s": "write SELECT * FROM it",
    "INSERT INTO photos (a, A) VALUES (1, 2)": "'A' is given twice",
    "INSERT INTO photos (a VALUES (1)": "expected ), found 'VALUES'",
    "INSERT INTO photos VALUES (1, DEFAULT)": "columns have no DEFAULT",
    "INSERT INTO photos PARTITION (a = 1) SELECT 1": "tables have no partitions",
    "INSERT INTO photos REPLACE USING (a) SELECT 1": "expected WHERE: only INSERT INTO",
    "INSERT OVERWRITE photos REPLACE WHERE a SELECT 1": "OVERWRITE replaces all rows",
    "INSERT INTO photos REPLACE WHERE SELECT 1": "expected a condition, found 'SELECT'",
    "MERGE photos USING s": "expected INTO, found 'photos'",
    "MERGE INTO photos": "expected USING, found the end",
    "MERGE INTO photos USING ON a": "expected a table or a query in parentheses, found 'ON'",
    "MERGE INTO photos USING a JOIN b ON c WHEN MATCHED THEN DELETE": "expected one table, or one",
    "MERGE INTO photos USING a, b ON c WHEN MATCHED THEN DELETE": "expected one table, or one",
    "MERGE INTO photos USING s WHEN MATCHED THEN DELETE": "cannot read",
    "MERGE INTO photos USING s ON a": "expected WHEN MATCHED, WHEN NOT MATCHED or WHEN NOT MATCHED"
    " BY SOURCE, found the end",
    "MERGE INTO photos USING s ON a WHEN THEN DELETE": "expected WHEN MATCHED, WHEN NOT",
    "MERGE INTO photos USING s ON a WHEN MATCHED DELETE": "expected THEN, found 'DELETE'",
    "MERGE INTO photos USING s ON a WHEN MATCHED AND THEN DELETE": "expected a condition",
    "MERGE INTO photos USING s ON a WHEN MATCHED THEN INSERT *": "expected UPDATE or DELETE",
    "MERGE INTO photos USING s ON a WHEN NOT MATCHED THEN DELETE": "expected INSERT, since the",
    "MERGE INTO photos USING s ON a WHEN NOT MATCHED BY s THEN DELETE": "expected SOURCE or TARGET",
    "MERGE INTO photos USING s ON a WHEN NOT MATCHED BY SOURCE THEN UPDATE SET *": "the source has"
    " no such row",
    "MERGE INTO photos USING s ON a WHEN NOT MATCHED THEN INSERT VALUES (1)": "expected the columns"
    " in parentheses, or *",
    "MERGE INTO photos USING s ON a WHEN NOT MATCHED THEN INSERT (a, b) VALUES (1)": "INSERT names "
    "2 columns and gives 1 values",
    "MERGE INTO photos USING s ON a WHEN MATCHED THEN DELETE WHEN MATCHED THEN UPDATE SET *": "only"
    " the last one of a kind can go without",
    "MERGE BRANCH exp INTO main": "column 7: MERGE is about rows: branches are merged by lw merge",
    "CREATE TABLE photos": "expected columns in parentheses, or AS and a query, found the end",
    "CREATE TABLE photos ()": "expected the name of a column, found ')'",
    "CREATE TABLE photos (id)": "expected a type such as BIGINT, found ')'",
    "CREATE TABLE photos (id FOO)": "cannot read 'FOO' as SQL at line 1, column",
    "CREATE TABLE photos (id VARIANT)": "line 1, column 25: tables cannot hold the type VARIANT",
    "CREATE TABLE photos (id DECIMAL(99))": "'DECIMAL(99)' is no type: a decimal has at most",
    "CREATE TABLE photos (id INT) OPTIONS (a 1)": "OPTIONS has 'a', and takes file_version and",
    "CREATE TABLE photos (id INT) OPTIONS (stableRowIds 1)": "is true or false, not '1'",
    "CREATE TABLE photos (id INT, ID INT)": "'ID' is given twice",
    "CREATE TABLE photos (id INT DEFAULT 3)": "columns have no DEFAULT",
    "CREATE TABLE photos (id INT, b INT GENERATED ALWAYS AS (id + 1))": "are not generated",
    "CREATE TABLE photos (id INT, CHECK (id > 3))": "tables have no CHECK",
    "CREATE TABLE photos (id INT PRIMARY KEY, b INT PRIMARY KEY)": "one PRIMARY KEY",
    "CREATE TABLE photos (id INT, PRIMARY KEY (b))": "PRIMARY KEY names 'b', and there is no such",
    "CREATE TABLE photos (id INT) AS SELECT 1": "the columns are those of the query",
    "CREATE TABLE photos (id INT) PARTITIONED BY (id)": "leave PARTITIONED BY out",
    "CREATE TABLE photos (id INT) CLUSTERED BY (id) INTO 3 BUCKETS": "leave CLUSTERED BY out",
    "CREATE TABLE photos (id INT) CLUSTER BY (id)": "leave CLUSTER BY out",
    "CREATE TABLE photos (id INT) TBLPROPERTIES ('a' = b)": "expected a value for 'a'",
    "CREATE TABLE photos (id INT) TBLPROPERTIES ('a' = 1, 'a' = 2)": "'a' is given twice",
    "CREATE TABLE photos LIKE other": "CREATE TABLE takes no LIKE: write AS SELECT",
    "CREATE OR REPLACE TABLE IF NOT EXISTS photos AS SELECT 1": "contradict each other",
    "REPLACE TABLE photos AS SELECT 1": "write CREATE OR REPLACE TABLE",
    "ALTER TABLE photos@:3 ADD COLUMN a INT": STATE,
    "ALTER TABLE photos ADD COLUMN a": "expected a type such as BIGINT, found the end",
    "ALTER TABLE photos ADD COLUMN a INT FIRST": "columns are added at the end: leave FIRST out",
    "ALTER TABLE photos ADD COLUMNS (a INT AFTER b)": "leave AFTER out",
    "ALTER TABLE photos ADD COLUMN a AS b, c INT": "ADD COLUMNS computes whole columns, and all",
    "ALTER TABLE photos ADD COLUMN a.b AS c": "ADD COLUMNS computes whole columns, and all",
    "ALTER TABLE photos DROP COLUMN a, a": "'a' is given twice",
    "ALTER TABLE photos RENAME COLUMN a b": "expected TO, found 'b'",
    "ALTER TABLE photos RENAME COLUMN s.a TO t.b": "since a column stays in its struct, found '.'",
    "ALTER TABLE photos ALTER COLUMN a SET NOT NULL": "expected TYPE: only the type",
    "ALTER TABLE photos CHANGE COLUMN a b BIGINT": "expected TYPE: only the type",
    "ALTER TABLE photos ALTER COLUMN a TYPE": "expected a type such as BIGINT",
    "ALTER TABLE photos CREATE TAG v1 RETAIN 10 DAYS": "stay until they are dropped",
    "ALTER TABLE photos REPLACE BRANCH b AS OF VERSION 3": "write CREATE OR REPLACE BRANCH",
    "CREATE BRANCH": "expected the name of a branch, found the end",
    "CREATE BRANCH a$b": "one with other characters stands in backticks",
    "CREATE BRANCH a AS OF VERSION 3": "a repository has commits, not versions and times",
    "CREATE TAG a AS OF TIMESTAMP '2026-11-15'": "a repository has commits, not versions and times",
    "CREATE BRANCH a ON": "expected the name of a table, found the end",
    "CREATE BRANCH a ON photos AS OF 3": "expected VERSION or TIMESTAMP, found '3'",
    "CREATE BRANCH a ON photos AS OF VERSION 0": "of a version, of which the first is 1, or",
    "CREATE BRANCH a ON photos@exp FROM 'v1'": "photos@exp and AS OF or FROM each say where",
    "CREATE BRANCH a ON photos FROM v1": "expected a revision in quotes, found 'v1'",
    "DROP TAG v1 ON photos@exp": "are of a whole table: write photos",
    "RESTORE photos": "expected VERSION AS OF 12, TIMESTAMP AS OF '2026-11-15' or a revision",
    "RESTORE photos TO 12": "expected VERSION AS OF 12",
    "RESTORE photos@v1~1 TO 'v1'": STATE,
    "OPTIMIZE photos ZORDER BY (a)": "rows keep their order: leave ZORDER BY out",
    "OPTIMIZE photos WHERE a > 1": "files are joined by their size, whatever they hold",
    "INSERT WITH SCHEMA EVOLUTION INTO photos BY NAME SELECT 1 AS a": "leave WITH SCHEMA EVOLUTION",
    "INSERT INTO photos WITH SCHEMA EVOLUTION SELECT 1 AS a": "ALTER TABLE … ADD COLUMNS before",
    "MERGE WITH SCHEMA EVOLUTION INTO photos USING s ON true WHEN MATCHED THEN DELETE": (
        "leave WITH SCHEMA EVOLUTION out"
    ),
    "BEGIN DELETE FROM photos; COMMIT": "expected a semicolon, found 'DELETE'",
    "BEGIN": "'BEGIN' at line 1: no COMMIT follows",
    "BEGIN;\nBEGIN; COMMIT": "'BEGIN' at line 2: the transaction of line 1 has not ended yet",
    "DELETE FROM photos;\nCOMMIT 'x'": "at line 2: no BEGIN stands before it",
    "ROLLBACK": "no BEGIN stands before it",
    "BEGIN;\nDROP TAG v1; COMMIT": "'DROP TAG v1' at line 2: branches and tags, DROP TABLE",
    "BEGIN; COMMIT ''": "the message is empty",
    "BEGIN; COMMIT message": "expected a message in quotes, found 'message'",
    "EXPLAIN": "expected a statement or a query, found the end",
    "EXPLAIN BEGIN": "EXPLAIN is about one statement",
    "EXPLAIN EXPLAIN DELETE FROM photos": "expected a statement or a query, found 'EXPLAIN'",
    "EXPLAIN DELETE photos": "expected FROM, found 'photos'",
    "SELECT 1; DELETE photos": "line 1, column 18: expected FROM",
    "DELETE FROM photos -- all \\\n WHERE id = 3": "take the backslash away",
    "DELETE FROM photos WHERE a = 'b": "a quote or comment is not closed",
    "DELETE FROM photos WHERE " + "(" * 70 + "a" + ")" * 70: "nests too deeply",
}


@pytest.mark.parametrize("text", WRONG)
def test_what_is_wrong_is_said_before_anything_runs(text: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        parse_script(text, Settings())
    assert WRONG[text] in str(caught.value)


@pytest.mark.parametrize("text", [None, 3, b"SELECT 1"])
def test_a_script_is_text(text: object) -> None:
    with pytest.raises(InvalidInputError, match="SQL text, not"):
        parse_script(text, Settings())  # type: ignore[arg-type]


@pytest.mark.sliced(3)
@pytest.mark.parametrize("text", [*KNOWN, *PASSED])
def test_a_text_that_is_cut_is_an_error_of_ours_or_a_statement(text: str) -> None:
    for end in range(len(text)):
        _tried(text[:end])


def test_garbage_is_an_error_of_ours_or_a_statement() -> None:
    chance = random.Random(13)
    texts = list(KNOWN)
    for _ in range(1_500):
        words = chance.choice(texts).split(" ")
        for _ in range(chance.randint(1, 3)):
            at, other = chance.randrange(len(words)), chance.choice(texts).split(" ")
            words[at : at + chance.randint(0, 2)] = chance.choices(other, k=chance.randint(0, 2))
            words = words or ["("]
        _tried(" ".join(words))


def _tried(text: str) -> None:
    with suppress(InvalidInputError):
        assert parse_script(text, Settings())

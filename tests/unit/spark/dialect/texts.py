"""Texts of statements, and what each becomes: the forms of ours, of Spark, Delta and Iceberg."""

from __future__ import annotations

from lancewood.query.statements.model import (
    DELETED,
    INSERTED,
    UPDATED,
    Action,
    AddColumns,
    Assignment,
    ChangeType,
    Column,
    CreateRef,
    CreateTable,
    Delete,
    DropColumns,
    DropRef,
    Existing,
    Explain,
    Insert,
    Merge,
    MergeClause,
    Moment,
    Optimize,
    Passed,
    RenameColumn,
    Restore,
    Statement,
    Target,
    Update,
    When,
)

PHOTOS = Target("photos")
EXP = Target("photos", "exp")
ALL_OF_S = "SELECT * FROM s"
GONE = (MergeClause(When.MATCHED, Action(DELETED)),)


def to(*values: tuple[str, str]) -> tuple[Assignment, ...]:
    return tuple(Assignment(tuple(path.split(".")), value) for path, value in values)


INSERTS: dict[str, Insert] = {
    "INSERT INTO photos SELECT * FROM s": Insert(PHOTOS, ALL_OF_S),
    "insert into table photos select * from s": Insert(PHOTOS, "select * from s"),
    "INSERT INTO photos@exp VALUES (1, 'a;b')": Insert(EXP, "VALUES (1, 'a;b')"),
    "INSERT INTO `photos@exp` VALUES (1)": Insert(EXP, "VALUES (1)"),
    "INSERT INTO photos@`a#b` VALUES (1)": Insert(Target("photos", "a#b"), "VALUES (1)"),
    "INSERT INTO photos@exp: VALUES (1)": Insert(Target("photos", "exp:"), "VALUES (1)"),
    "INSERT INTO 'a/photos.lance@exp' VALUES (1)": Insert(
        Target("a/photos.lance", "exp"), "VALUES (1)"
    ),
    "INSERT INTO photos (id, label) VALUES (1, 'it''s'), (2, NULL)": Insert(
        PHOTOS, "VALUES (1, 'it''s'), (2, NULL)", ("id", "label")
    ),
    "INSERT INTO photos (id) (SELECT id FROM s)": Insert(PHOTOS, "(SELECT id FROM s)", ("id",)),
    "INSERT INTO photos (SELECT id FROM s)": Insert(PHOTOS, "(SELECT id FROM s)"),
    "INSERT INTO photos BY NAME SELECT 1 AS id": Insert(PHOTOS, "SELECT 1 AS id", by_name=True),
    "INSERT INTO photos FROM s SELECT id": Insert(PHOTOS, "FROM s SELECT id"),
    "INSERT INTO photos WITH s AS (SELECT 1 AS id) SELECT * FROM s": Insert(
        PHOTOS, "WITH s AS (SELECT 1 AS id) SELECT * FROM s"
    ),
    "WITH s AS (SELECT 1 AS id) INSERT INTO photos SELECT * FROM s": Insert(
        PHOTOS, "WITH s AS (SELECT 1 AS id) SELECT * FROM s"
    ),
    "INSERT OVERWRITE photos SELECT * FROM s": Insert(PHOTOS, ALL_OF_S, overwrite=True),
    "INSERT OVERWRITE TABLE photos BY NAME SELECT * FROM s": Insert(
        PHOTOS, ALL_OF_S, by_name=True, overwrite=True
    ),
    "INSERT INTO photos REPLACE WHERE a >= 3 AND b IS DISTINCT FROM 4 SELECT * FROM s": Insert(
        PHOTOS,
        ALL_OF_S,
        where="a >= 3 AND b IS DISTINCT FROM 4",
    ),
    "INSERT INTO TABLE photos REPLACE WHERE id = 1 VALUES (1, 'a')": Insert(
        PHOTOS, "VALUES (1, 'a')", where="id = 1"
    ),
}
ROWS: dict[str, Statement] = {
    "DELETE FROM photos": Delete(PHOTOS),
    "TRUNCATE TABLE photos@exp": Delete(EXP),
    "DELETE FROM photos WHERE label = 'x' -- all": Delete(PHOTOS, "label = 'x'"),
    "DELETE FROM photos@exp AS p WHERE p.id IN (SELECT id FROM s@v1.0)": Delete(
        EXP, "p.id IN (SELECT id FROM s@v1.0)", "p"
    ),
    "DELETE FROM photos p WHERE EXISTS (SELECT 1 FROM s WHERE s.id = p.id)": Delete(
        PHOTOS, "EXISTS (SELECT 1 FROM s WHERE s.id = p.id)", "p"
    ),
    "UPDATE photos SET score = score + 1": Update(PHOTOS, to(("score", "score + 1"))),
    "UPDATE photos@exp AS p SET p.a = CASE WHEN b THEN 1 ELSE 2 END, s.x = f(1, 2) WHERE c": Update(
        EXP, to(("a", "CASE WHEN b THEN 1 ELSE 2 END"), ("s.x", "f(1, 2)")), "c", "p"
    ),
    "UPDATE photos SET PHOTOS.label = 'SET x, WHERE', `a b` = `c``d`": Update(
        PHOTOS, to(("label", "'SET x, WHERE'"), ("a b", "`c``d`"))
    ),
    "UPDATE photos SET a = b IS DISTINCT FROM c WHERE d": Update(
        PHOTOS, to(("a", "b IS DISTINCT FROM c")), "d"
    ),
}
MERGES: dict[str, Merge] = {
    "MERGE INTO photos USING s ON photos.id = s.id WHEN MATCHED THEN DELETE": Merge(
        PHOTOS, ALL_OF_S, "photos.id = s.id", GONE, source_alias="s"
    ),
    "MERGE INTO photos@exp AS t USING photos@v1.0 ON t.id = photos.id WHEN MATCHED THEN DELETE": (
        Merge(EXP, "SELECT * FROM photos@v1.0", "t.id = photos.id", GONE, "t", "photos")
    ),
    "MERGE INTO photos t USING s VERSION AS OF 3 AS n ON t.id = n.id WHEN MATCHED THEN DELETE": (
        Merge(PHOTOS, "SELECT * FROM s VERSION AS OF 3 AS n", "t.id = n.id", GONE, "t", "n")
    ),
    "MERGE INTO photos t USING (SELECT id FROM s JOIN u ON s.a = u.a) n ON t.id = n.id "
    "WHEN MATCHED THEN DELETE": Merge(
        PHOTOS,
        "SELECT * FROM (SELECT id FROM s JOIN u ON s.a = u.a) n",
        "t.id = n.id",
        GONE,
        "t",
        "n",
    ),
    "MERGE INTO photos t USING (VALUES (1, 'a')) AS n(id, label) ON t.id = n.id "
    "WHEN MATCHED THEN DELETE": Merge(
        PHOTOS,
        "SELECT * FROM (VALUES (1, 'a')) AS n(id, label)",
        "t.id = n.id",
        GONE,
        "t",
        "n",
    ),
    "MERGE INTO photos t USING VALUES (1) AS n(id) ON t.id = n.id WHEN MATCHED THEN DELETE": Merge(
        PHOTOS, "SELECT * FROM VALUES (1) AS n(id)", "t.id = n.id", GONE, "t", "n"
    ),
    "WITH s AS (SELECT 1 AS id) MERGE INTO photos USING s ON true WHEN MATCHED THEN DELETE": Merge(
        PHOTOS,
        "WITH s AS (SELECT 1 AS id) SELECT * FROM s",
        "true",
        GONE,
        source_alias="s",
    ),
    """MERGE INTO photos AS t
    USING s
    ON t.id = s.id AND t.day = s.day
    WHEN MATCHED AND s.gone THEN DELETE
    WHEN MATCHED AND CASE WHEN s.a THEN true ELSE s.b END THEN
        UPDATE SET t.label = CASE WHEN s.c THEN 'WHEN' ELSE 'x' END, score = s.score
    WHEN MATCHED THEN UPDATE SET *
    WHEN NOT MATCHED BY TARGET AND s.id > 3 THEN
        INSERT (t.id, label) VALUES (s.id, coalesce(s.label, 'none'))
    WHEN NOT MATCHED THEN INSERT *
    WHEN NOT MATCHED BY SOURCE AND t.id < 3 THEN UPDATE SET label = 'lost'
    WHEN NOT MATCHED BY SOURCE THEN DELETE""": Merge(
        PHOTOS,
        ALL_OF_S,
        "t.id = s.id AND t.day = s.day",
        (
            MergeClause(When.MATCHED, Action(DELETED), "s.gone"),
            MergeClause(
                When.MATCHED,
                Action(
                    UPDATED,
                    to(
                        ("label", "CASE WHEN s.c THEN 'WHEN' ELSE 'x' END"),
                        ("score", "s.score"),
                    ),
                ),
                "CASE WHEN s.a THEN true ELSE s.b END",
            ),
            MergeClause(When.MATCHED, Action(UPDATED)),
            MergeClause(
                When.NOT_MATCHED,
                Action(INSERTED, to(("id", "s.id"), ("label", "coalesce(s.label, 'none')"))),
                "s.id > 3",
            ),
            MergeClause(When.NOT_MATCHED, Action(INSERTED)),
            MergeClause(
                When.NOT_MATCHED_BY_SOURCE, Action(UPDATED, to(("label", "'lost'"))), "t.id < 3"
            ),
            MergeClause(When.NOT_MATCHED_BY_SOURCE, Action(DELETED)),
        ),
        "t",
        "s",
    ),
}
TABLES: dict[str, Statement] = {
    "CREATE TABLE photos AS SELECT 1 AS id": CreateTable(PHOTOS, query="SELECT 1 AS id"),
    "CREATE TABLE photos USING lance SELECT 1 AS id": CreateTable(PHOTOS, query="SELECT 1 AS id"),
    "CREATE OR REPLACE TABLE photos USING LANCE AS (SELECT 1 AS id)": CreateTable(
        PHOTOS, query="(SELECT 1 AS id)", existing=Existing.REPLACE
    ),
    "CREATE TABLE photos@exp LOCATION 's3://b/p.lance' AS "
    "WITH s AS (SELECT 1 AS a) SELECT * FROM s": CreateTable(
        EXP, query="WITH s AS (SELECT 1 AS a) SELECT * FROM s", location="s3://b/p.lance"
    ),
    "CREATE TABLE IF NOT EXISTS photos (id BIGINT NOT NULL COMMENT 'key', v ARRAY<FLOAT>, "
    "m MAP<STRING, STRUCT<a: INT, b: ARRAY<DECIMAL(10, 2)>>>, CONSTRAINT k PRIMARY KEY (ID)) "
    "USING lance OPTIONS (file_version 2.1, 'stableRowIds' = false) COMMENT 'all' "
    "TBLPROPERTIES ('a.b' = 'x', c.d = 2, 'e' = TRUE)": CreateTable(
        PHOTOS,
        (
            Column(("id",), "BIGINT", nullable=False, comment="key"),
            Column(("v",), "ARRAY<FLOAT>"),
            Column(("m",), "MAP<STRING, STRUCT<a: INT, b: ARRAY<DECIMAL(10, 2)>>>"),
        ),
        existing=Existing.KEEP,
        options=(("file_version", "2.1"), ("stable_row_ids", False)),
        properties=(("a.b", "x"), ("c.d", "2"), ("e", "true")),
        primary_key=("id",),
        comment="all",
    ),
    "CREATE TABLE photos (id INT PRIMARY KEY NOT ENFORCED, at TIMESTAMP_NTZ)": CreateTable(
        PHOTOS, (Column(("id",), "INT"), Column(("at",), "TIMESTAMP_NTZ")), primary_key=("id",)
    ),
    "ALTER TABLE photos ADD COLUMN a INT": AddColumns(PHOTOS, (Column(("a",), "INT"),)),
    "ALTER TABLE photos@exp ADD COLUMNS (a INT COMMENT 'x', p.b STRING)": AddColumns(
        EXP, (Column(("a",), "INT", comment="x"), Column(("p", "b"), "STRING"))
    ),
    "ALTER TABLE photos ADD COLUMN IF NOT EXISTS a INT, b STRING": AddColumns(
        PHOTOS, (Column(("a",), "INT"), Column(("b",), "STRING")), if_not_exists=True
    ),
    "ALTER TABLE photos ADD COLUMN a AS f(b, 2) + 1, c DOUBLE AS d": AddColumns(
        PHOTOS,
        (Column(("a",), None, value="f(b, 2) + 1"), Column(("c",), "DOUBLE", value="d")),
    ),
    "ALTER TABLE photos DROP COLUMN a": DropColumns(PHOTOS, (("a",),)),
    "ALTER TABLE photos DROP COLUMNS IF EXISTS (a, b.c)": DropColumns(
        PHOTOS, (("a",), ("b", "c")), if_exists=True
    ),
    "ALTER TABLE photos RENAME COLUMN a TO b": RenameColumn(PHOTOS, ("a",), "b"),
    "ALTER TABLE photos RENAME COLUMN s.a TO b": RenameColumn(PHOTOS, ("s", "a"), "b"),
    "ALTER TABLE photos ALTER COLUMN s.a TYPE DECIMAL(12, 2)": ChangeType(
        PHOTOS, ("s", "a"), "DECIMAL(12, 2)"
    ),
    "ALTER TABLE photos CHANGE COLUMN a a BIGINT": ChangeType(PHOTOS, ("a",), "BIGINT"),
    "ALTER TABLE photos ALTER a SET DATA TYPE BIGINT": ChangeType(PHOTOS, ("a",), "BIGINT"),
    "RESTORE TABLE photos TO VERSION AS OF 12": Restore(PHOTOS, 12),
    "RESTORE photos VERSION AS OF 'v1.0'": Restore(PHOTOS, "v1.0"),
    "RESTORE photos@exp TO 'v1.0'": Restore(EXP, "v1.0"),
    "RESTORE TABLE photos TO TIMESTAMP AS OF current_timestamp() - INTERVAL 1 DAY": Restore(
        PHOTOS, Moment("current_timestamp() - INTERVAL 1 DAY")
    ),
    "OPTIMIZE photos": Optimize(PHOTOS),
    "OPTIMIZE TABLE photos@exp FULL": Optimize(EXP),
}
REFS: dict[str, Statement] = {
    "CREATE BRANCH exp": CreateRef("branch", "exp"),
    "CREATE BRANCH feature/x-1.2 ON photos": CreateRef("branch", "feature/x-1.2", PHOTOS),
    "CREATE OR REPLACE BRANCH exp ON photos AS OF VERSION 3": CreateRef(
        "branch", "exp", PHOTOS, 3, Existing.REPLACE
    ),
    "CREATE BRANCH IF NOT EXISTS `a b` ON photos FROM 'v1.0'": CreateRef(
        "branch", "a b", PHOTOS, "v1.0", Existing.KEEP
    ),
    "CREATE BRANCH exp FROM 'main~1'": CreateRef("branch", "exp", at="main~1"),
    "CREATE BRANCH exp ON photos@dev": CreateRef("branch", "exp", PHOTOS, "dev"),
    "CREATE BRANCH exp ON photos@:12": CreateRef("branch", "exp", PHOTOS, ":12"),
    "CREATE BRANCH exp ON photos AS OF TIMESTAMP '2026-11-15'": CreateRef(
        "branch", "exp", PHOTOS, Moment("'2026-11-15'")
    ),
    "CREATE BRANCH exp VERSION AS OF 'v1' ON photos": CreateRef("branch", "exp", PHOTOS, "v1"),
    "CREATE TAG v1.0 ON photos": CreateRef("tag", "v1.0", PHOTOS),
    "CREATE OR REPLACE TAG 'v1.0'": CreateRef("tag", "v1.0", existing=Existing.REPLACE),
    "ALTER TABLE photos CREATE BRANCH `audit-branch` AS OF VERSION 1234": CreateRef(
        "branch", "audit-branch", PHOTOS, 1234
    ),
    "ALTER TABLE photos CREATE OR REPLACE TAG v1": CreateRef(
        "tag", "v1", PHOTOS, existing=Existing.REPLACE
    ),
    "ALTER TABLE photos CREATE BRANCH IF NOT EXISTS exp": CreateRef(
        "branch", "exp", PHOTOS, existing=Existing.KEEP
    ),
    "DROP BRANCH exp": DropRef("branch", "exp"),
    "DROP BRANCH IF EXISTS exp ON photos": DropRef("branch", "exp", PHOTOS, if_exists=True),
    "ALTER TABLE photos DROP BRANCH exp": DropRef("branch", "exp", PHOTOS),
    "DROP TAG v1.0 ON photos": DropRef("tag", "v1.0", PHOTOS),
    "ALTER TABLE photos DROP TAG IF EXISTS v1": DropRef("tag", "v1", PHOTOS, if_exists=True),
    "EXPLAIN DELETE FROM photos@exp": Explain(Delete(EXP)),
    "EXPLAIN SELECT * FROM photos@exp": Explain(Passed("SELECT * FROM photos@exp")),
}
KNOWN: dict[str, Statement] = {**INSERTS, **ROWS, **MERGES, **TABLES, **REFS}

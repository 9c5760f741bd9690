"""EXPLAIN: what each statement would do, in words."""

from __future__ import annotations

import pytest
from tests.unit.spark.dialect.texts import KNOWN

from lancewood.query.statements.explain import explained
from lancewood.query.statements.model import Explain, Passed, Target
from lancewood.spark.dialect.script import parse_script
from lancewood.spark.dialect.settings import Settings


class Stood:
    """Tables that stand at version 12, and ``new``, which is not there."""

    def version(self, target: Target | None) -> str | None:
        if target is None:
            return "branch main"
        if target.name == "new":
            return None
        return f"version 12 on {target.revision or 'main'}"


PHOTOS = "photos, version 12 on main"
WORDS = {
    "DELETE FROM photos WHERE id = 3\n  AND a": f"delete rows of {PHOTOS}, where id = 3 AND a",
    "DELETE FROM photos@exp": "delete all rows of photos@exp, version 12 on exp",
    "UPDATE photos SET a = 1, b.c = d WHERE e": f"update rows of {PHOTOS}, where e: a = 1, b.c = d",
    "INSERT INTO photos VALUES (1)": f"add to {PHOTOS}: the rows of VALUES (1)",
    "INSERT INTO photos (a, b) SELECT 1, 2": f"add to {PHOTOS}: the rows of SELECT 1, 2 as a, b",
    "INSERT INTO photos BY NAME SELECT 1 AS a": f"add to {PHOTOS}: the rows of SELECT 1 AS a, by "
    "the names of their columns",
    "INSERT OVERWRITE photos SELECT 1": f"replace all rows of {PHOTOS}, by the rows of SELECT 1",
    "INSERT INTO photos REPLACE WHERE a = 1 SELECT 1": f"replace rows of {PHOTOS}, where a = 1, by "
    "the rows of SELECT 1",
    "CREATE TABLE new (id INT NOT NULL, b STRING, PRIMARY KEY (id))": "create table new, with the "
    "columns id INT not null, b STRING; its primary key is id",
    "CREATE TABLE new LOCATION 's3://b/n' AS SELECT 1 AS a": "create table new at s3://b/n, with "
    "the rows of SELECT 1 AS a",
    "CREATE OR REPLACE TABLE photos AS SELECT 1 AS a": "create table photos, or replace the one "
    "that is there, version 12 on main, with the rows of SELECT 1 AS a",
    "CREATE TABLE IF NOT EXISTS photos (a INT)": "create table photos, or keep the one that is "
    "there, version 12 on main, with the columns a INT",
    "ALTER TABLE photos ADD COLUMN a INT, b DATE": f"add to {PHOTOS}: a INT, b DATE",
    "ALTER TABLE photos ADD COLUMN a INT AS b, c AS d": f"add to {PHOTOS}: a INT as b, c as d",
    "ALTER TABLE photos DROP COLUMN IF EXISTS a": f"drop from {PHOTOS}: a, if they are there",
    "ALTER TABLE photos RENAME COLUMN s.a TO b": f"rename column s.a of {PHOTOS} to b",
    "ALTER TABLE photos ALTER COLUMN a TYPE INT": f"change column a of {PHOTOS} to INT",
    "CREATE BRANCH exp": "create branch exp of the repository, branch main",
    "CREATE OR REPLACE BRANCH exp ON photos AS OF VERSION 3": f"create branch exp of {PHOTOS}, at "
    "version 3, or move the one that is there",
    "CREATE TAG IF NOT EXISTS v1 ON photos FROM 'exp'": f"create tag v1 of {PHOTOS}, at exp, "
    "unless there is one",
    "DROP BRANCH IF EXISTS exp ON photos": f"drop branch exp of {PHOTOS}, if there is one",
    "DROP TAG v1": "drop tag v1 of the repository, branch main",
    "RESTORE photos TO VERSION AS OF 3": f"restore {PHOTOS}, to version 3",
    "RESTORE photos TO 'v1'": f"restore {PHOTOS}, to v1",
    "RESTORE photos TO TIMESTAMP AS OF '2026-11-15'": f"restore {PHOTOS}, to what it was at "
    "'2026-11-15'",
    "OPTIMIZE photos": f"compact the files of {PHOTOS}",
}


@pytest.mark.parametrize("text", WORDS)
def test_a_statement_is_told_in_words(text: str) -> None:
    assert _told(text) == f"would {WORDS[text]}"


def test_each_clause_of_a_merge_has_a_line() -> None:
    text = """MERGE INTO photos t USING s ON t.id = s.id
        WHEN MATCHED AND s.gone THEN DELETE
        WHEN MATCHED AND s.a THEN UPDATE SET a = s.a, b = 2
        WHEN MATCHED THEN UPDATE SET *
        WHEN NOT MATCHED AND s.a THEN INSERT (id) VALUES (s.id)
        WHEN NOT MATCHED THEN INSERT *
        WHEN NOT MATCHED BY SOURCE THEN DELETE"""
    assert _told(text).splitlines() == [
        f"would merge the rows of SELECT * FROM s into {PHOTOS}, on t.id = s.id:",
        "  matched and s.gone: delete the row",
        "  matched and s.a: update the row: a = s.a, b = 2",
        "  matched: update the row: all columns",
        "  not matched and s.a: insert a row: id = s.id",
        "  not matched: insert a row: all columns",
        "  not matched by source: delete the row",
    ]


@pytest.mark.parametrize("text", [each for each in KNOWN if not each.startswith("EXPLAIN")])
def test_every_statement_has_words(text: str) -> None:
    assert _told(text).startswith("would ")


def _told(text: str) -> str:
    (found,) = parse_script(f"EXPLAIN {text}", Settings())
    assert isinstance(found, Explain)
    assert not isinstance(found.statement, Passed)
    return explained(found.statement, Stood())

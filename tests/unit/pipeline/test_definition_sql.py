"""Which names a query has: those of frames, and not those of CTEs, aliases and functions."""

from __future__ import annotations

import pytest

from lancewood.errors import InvalidInputError
from lancewood.pipeline.definition.load import frames_in
from lancewood.pipeline.definition.names import (
    MOST_SQL_CHARACTERS,
    RESERVED,
    check_expression,
    checked_frame,
    parsed_query,
    qualified_name,
    tables_in,
)


def names(sql: str) -> list[str]:
    return [qualified_name(each) for each in tables_in(parsed_query(sql))]


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("SELECT 1", []),
        ("SELECT * FROM a;", ["a"]),
        ("SELECT * FROM a; -- the end", ["a"]),
        ("SELECT * FROM a AS b JOIN `c` d ON b.id = d.id", ["a", "c"]),
        ("SELECT * FROM a, a", ["a", "a"]),
        ("(SELECT * FROM a) UNION ALL (SELECT * FROM b)", ["a", "b"]),
        ("SELECT * FROM (SELECT * FROM a) b", ["a"]),
        ("SELECT * FROM (a JOIN b USING (id))", ["a", "b"]),
        ("SELECT (SELECT max(x) FROM b), c.d FROM a WHERE x IN (SELECT y FROM e)", ["a", "b", "e"]),
        ("SELECT * FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.x = a.x)", ["a", "b"]),
        ("WITH b AS (SELECT * FROM a) SELECT * FROM b", ["a"]),
        ("WITH a AS (SELECT * FROM a) SELECT * FROM a", ["a"]),
        ("WITH A AS (SELECT 1) SELECT * FROM a", []),
        ("WITH x AS (SELECT 1), y AS (SELECT * FROM x) SELECT * FROM y, z", ["z"]),
        ("WITH y AS (SELECT * FROM x), x AS (SELECT 1) SELECT * FROM y", ["x"]),
        ("WITH x AS (WITH y AS (SELECT * FROM z) SELECT * FROM y) SELECT * FROM x, y", ["y", "z"]),
        ("SELECT * FROM (WITH x AS (SELECT 1) SELECT * FROM x), x", ["x"]),
        ("WITH x AS (SELECT 1) SELECT * FROM a WHERE id IN (SELECT * FROM x)", ["a"]),
        (
            "WITH RECURSIVE x AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM x) SELECT * FROM x",
            [],
        ),
        ("WITH x AS (SELECT 1) (SELECT * FROM x) UNION SELECT * FROM y", ["y"]),
        ("SELECT * FROM a LATERAL VIEW explode(xs) t AS x", ["a"]),
        ("SELECT * FROM a, LATERAL (SELECT * FROM b WHERE b.id = a.id)", ["a", "b"]),
        ("SELECT * FROM range(10), a", ["a"]),
        ("SELECT * FROM VALUES (1, 2) AS t(x, y)", []),
        ("SELECT /*+ BROADCAST(x) */ * FROM a x", ["a"]),
        ("SELECT transform(xs, x -> x + 1) FROM a", ["a"]),
        ("SELECT * FROM a TABLESAMPLE (10 PERCENT)", ["a"]),
        ("SELECT * FROM a PIVOT (count(*) FOR y IN (1, 2))", ["a"]),
        ("SELECT * FROM b.a", ["b.a"]),
        ("WITH a AS (SELECT 1) SELECT * FROM b.a", ["b.a"]),
        ("SELECT * FROM parquet.`/tmp/x`", ["parquet./tmp/x"]),
        ("FROM a SELECT x", ["a"]),
    ],
)
def test_the_names_of_a_query_are_found(sql: str, found: list[str]) -> None:
    assert sorted(names(sql)) == found


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("SELECT * FROM IDENTIFIER('a')", "makes a name out of a text"),
        ("SELECT * FROM a VERSION AS OF 3", "asks for a version"),
        ("SELECT * FROM a TIMESTAMP AS OF '2026-01-01'", "asks for a version"),
        ("SELECT * INTO b FROM a", "SELECT INTO"),
        ("", "found nothing"),
        ("SELECT 1;;SELECT 2", "found 2 statements"),
        ("SHOW TABLES", "is something else"),
        ("EXPLAIN SELECT 1", "is something else"),
        ("CREATE TABLE a AS SELECT 1", "is something else"),
        ("MERGE INTO a USING b ON a.x = b.x WHEN MATCHED THEN DELETE", "is something else"),
        ("SELECT * FROM", "as SQL"),
        ("SELECT 'a", "is not closed"),
        ("SELECT " + "(" * 5_000 + "1" + ")" * 5_000, "nests too deeply"),
        ("SELECT '" + "x" * MOST_SQL_CHARACTERS + "'", "100,000 are allowed"),
    ],
    ids=range(14),
)
def test_what_is_no_query_is_refused(sql: str, told: str) -> None:
    with pytest.raises(InvalidInputError, match=told) as caught:
        names(sql)
    assert len(caught.value.message) < 500


def test_frames_are_found_whatever_their_case() -> None:
    assert frames_in("SELECT * FROM FILES JOIN files JOIN Other", ["Files", "other"]) == (
        "Files",
        "Files",
        "other",
    )
    with pytest.raises(InvalidInputError, match="there are Files"):
        frames_in("SELECT * FROM zzz", ["Files"])


@pytest.mark.parametrize("sql", ["a = 1", "thumb(image)", "x IS NULL OR y", "CAST(a AS LONG)", "^"])
def test_expressions_are_left_to_spark(sql: str) -> None:
    check_expression(sql)


@pytest.mark.parametrize(
    "sql",
    ["a, b", "a FROM t", "a; b", "(SELECT 1)", "id IN (SELECT id FROM t)", "1 UNION SELECT 2"],
)
def test_what_is_no_expression_over_one_row_is_refused(sql: str) -> None:
    with pytest.raises(InvalidInputError):
        check_expression(sql)


def test_a_name_that_is_allowed_is_found_in_sql() -> None:
    words = ["user", "files", "time", "data", "label", "stream", "filter", "date", "key", "value"]
    for word in words:
        assert names(f"SELECT {word}.x FROM {word} JOIN b ON b.id = {word}.id") == [
            checked_frame(word),
            "b",
        ]


@pytest.mark.parametrize("word", sorted(RESERVED))
def test_a_word_of_sql_is_no_name_of_a_frame(word: str) -> None:
    with pytest.raises(InvalidInputError, match="it is a word of SQL"):
        checked_frame(word.upper())

"""What a translation does not read of a query is refused, and never passed over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.errors import UnsupportedError
from lancewood.query import aggregates, expressions, functions
from lancewood.query.predicates import Conditions, Constants
from lancewood.query.readable import READ, check_read, unread
from lancewood.query.settings import Settings
from lancewood.query.text import parse_query

ROWS = pa.table({"id": range(5), "label": ["cat", "Cow", "dog", "Cat", None]})
QUERY = (
    "WITH w AS (SELECT label AS l FROM t VERSION AS OF 1 LIMIT 9) "
    "SELECT count(*) AS n, sum(id) OVER (PARTITION BY label ORDER BY id DESC "
    "ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s, CASE WHEN id IN (1, 2) THEN 1 ELSE -1 END "
    "FROM t AS a LEFT JOIN w ON a.label = w.l WHERE NOT label LIKE 'c%' OR id BETWEEN 1 AND 2 "
    "OR label IS NULL GROUP BY label HAVING max(id) / 2 > 1 ORDER BY 1 LIMIT 3 OFFSET 1"
)


def labels(where: str, tmp_path: Path) -> list[str | None]:
    made = lw.create(tmp_path / "t.lance", ROWS)
    found = lw.sql(f"SELECT label FROM t WHERE {where} ORDER BY id", tables={"t": made})
    return found.to_arrow()["label"].to_pylist()  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("label NOT LIKE 'c%'", ["Cow", "dog", "Cat"]),
        ("label NOT LIKE '%t'", ["Cow", "dog"]),
        ("label NOT ILIKE 'c%'", ["dog"]),
        ("NOT label NOT ILIKE 'c%'", ["cat", "Cow", "Cat"]),
        ("label NOT LIKE 'c%' AND id NOT IN (2) AND id NOT BETWEEN 3 AND 9", ["Cow"]),
        ("label IS NULL OR label NOT LIKE 'C%'", ["cat", "dog", None]),
    ],
)
def test_a_negated_condition_finds_the_rows_that_do_not_match(
    where: str, expected: list[str | None], tmp_path: Path
) -> None:
    assert labels(where, tmp_path) == expected


@pytest.mark.parametrize("node", range(len(list(parse_query(QUERY, Settings()).tree.walk()))))
def test_an_argument_that_nothing_reads_is_refused_wherever_it_stands(node: int) -> None:
    tree = parse_query(QUERY, Settings()).tree
    assert unread(tree) is None
    list(tree.walk())[node].set("meant_otherwise", True)
    with pytest.raises(UnsupportedError, match="with MEANT OTHERWISE is answered by Spark alone"):
        check_read(tree)


def test_a_condition_that_says_more_than_is_read_is_not_asked_of_a_scan() -> None:
    column = pa.field("label", pa.string())
    conditions = Conditions(lambda node: column, Constants(Settings(), frozenset()))
    where = parse_query("SELECT 1 WHERE NOT label LIKE 'c%'", Settings()).tree.args["where"].this
    assert conditions.translate(where) is not None
    where.this.set("meant_otherwise", True)
    assert conditions.translate(where) is None


def test_whatever_can_be_translated_can_be_read() -> None:
    of_values: dict[str, Any] = functions._CALLS
    named = {*of_values, *aggregates.AGGREGATES, *aggregates.WINDOWED}
    named |= {*expressions._COMPARISONS, *expressions._ARITHMETIC}
    assert named - READ.keys() == set()
    handlers = [each for each in dir(expressions.Expressions) if each.startswith("_compile_")]
    kinds = {f"_compile_{each.lower()}" for each in READ}
    assert {each for each in handlers if each != "_compile_query"} - kinds == set()

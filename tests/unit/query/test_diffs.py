"""``diff('photos', 'v1', 'main')`` in FROM: what it means, what is read for it, what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from tests.pylance import lance

import lancewood as lw
from lancewood.errors import InvalidInputError, NotFoundError, UnsupportedError
from lancewood.query.diffs import TableDiff
from lancewood.query.plan import plan_query
from lancewood.query.reads import Read
from lancewood.query.settings import Settings
from lancewood.query.sources import Sources

ROWS = pa.table(
    {
        "id": [1, 2, 3, 4],
        "Label": ["cat", "dog", "owl", None],
        "price": [1.5, 2.5, None, 4.5],
        "box": pa.array([{"x": 1}] * 4, pa.struct([("x", pa.int32())])),
    }
)
Tables = dict[str, Any]


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    photos = lw.create(tmp_path / "photos.lance", ROWS, max_rows_per_file=2)
    photos.tags.create("v1")
    photos.branches.create("exp").update({"price": "9"}, "id = 4")
    photos = photos.update({"price": "price + 1", "Label": "'new'"}, "id = 2").delete("id = 1")
    more = ROWS.slice(0, 1).set_column(0, "id", pa.array([7]))
    labels = pa.table({"label": ["cat", "new"], "n": [1, 2]})
    return {
        "photos": photos.append(more).uri,
        "labels": lw.create(tmp_path / "labels.lance", labels),
    }


def rows(query: str, tables: Tables | None, **settings: Any) -> list[dict[str, Any]]:
    """The answer, which does not depend on what was pushed down."""
    found = lw.sql(query, tables=tables, **settings).to_arrow().to_pylist()
    whole = lw.sql(query, tables=tables, pushdown=False, **settings).to_arrow().to_pylist()
    assert sorted(map(str, found)) == sorted(map(str, whole))
    return found  # type: ignore[no-any-return]


class Session:
    """Has one view."""

    def moment(self, expression: str) -> datetime:
        raise AssertionError(expression)

    def has_table(self, name: str) -> bool:
        return name == "view"


def reads(query: str, tables: Tables) -> Iterator[Read]:
    settings = Settings()
    sources = Sources(tables, None, None, None, settings)
    yield from plan_query(query, sources, settings, Session()).reads.values()


def narrow(query: str, tables: Tables) -> tuple[tuple[str, ...], list[str], list[str]]:
    """What is asked of the only diff of a query: kinds, and fields of both states."""
    (source,) = (each.source for each in reads(query, tables) if isinstance(each.source, TableDiff))
    before, after = (source.arrow_schema.field(each).type for each in ("before", "after"))
    return source.diff._rows.kinds, [each.name for each in before], [each.name for each in after]


def test_rows_that_differ_stand_in_from(tables: Tables) -> None:
    query = "SELECT * FROM diff('photos', 'v1', 'main') ORDER BY _rowid"
    old, new = (
        {"id": 2, "Label": label, "price": price, "box": {"x": 1}}
        for label, price in (("dog", 2.5), ("new", 3.5))
    )
    assert rows(query, tables) == [
        {
            "_change": "deleted",
            "_rowid": 0,
            "_columns": None,
            "before": {"id": 1, "Label": "cat", "price": 1.5, "box": {"x": 1}},
            "after": None,
        },
        {
            "_change": "updated",
            "_rowid": 1,
            "_columns": ["Label", "price"],
            "before": old,
            "after": new,
        },
        {
            "_change": "inserted",
            "_rowid": 4,
            "_columns": None,
            "before": None,
            "after": {"id": 7, "Label": "cat", "price": 1.5, "box": {"x": 1}},
        },
    ]


def test_rows_are_those_of_a_full_join_in_duckdb(tables: Tables) -> None:
    with duckdb.connect() as connection:
        for name, version in (("old", 1), ("new", 4)):
            connection.register(name, lance.dataset(tables["photos"], version=version).to_table())
        joined = connection.sql(
            "SELECT old.id AS was, new.id AS is_, old.price AS cost, new.price AS costs "
            "FROM old FULL JOIN new USING (id) WHERE old IS DISTINCT FROM new"
        )
        wanted = joined.to_arrow_table().to_pylist()
    query = (
        "SELECT before.id AS was, after.id AS is_, before.price AS cost, after.price AS costs "
        "FROM diff('photos', 1)"
    )
    assert len(wanted) == 3
    assert sorted(map(str, rows(query, tables))) == sorted(map(str, wanted))


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (
            "SELECT after.price, before.price AS was FROM diff('photos', 'v1') d "
            "WHERE _change = 'updated'",
            [{"price": 3.5, "was": 2.5}],
        ),
        (
            "SELECT DIFF.after.id FROM Diff('photos', 'v1') WHERE after.price < 2",
            [{"id": 7}],
        ),
        (
            "SELECT n, d.after.label AS l FROM diff('photos', 'v1') AS d JOIN labels ON "
            "labels.label = d.after.Label ORDER BY n",
            [{"n": 1, "l": "cat"}, {"n": 2, "l": "new"}],
        ),
        (
            "WITH d AS (SELECT * FROM diff('photos', 'v1')) SELECT x._change AS a, y._change AS b "
            "FROM d x JOIN d y ON x._rowid = y._rowid - 1",
            [{"a": "deleted", "b": "updated"}],
        ),
        (
            "SELECT id FROM photos WHERE id IN (SELECT after.id FROM diff('photos', 'v1') WHERE "
            "array_contains(_columns, 'price'))",
            [{"id": 2}],
        ),
        (
            "SELECT _change, count(*) AS n FROM (SELECT _change FROM diff('photos', 'v1') UNION "
            "ALL SELECT _change FROM diff('photos', 'exp')) GROUP BY _change ORDER BY n, 1",
            [
                {"_change": "deleted", "n": 2},
                {"_change": "inserted", "n": 2},
                {"_change": "updated", "n": 3},
            ],
        ),
        ("SELECT count(*) AS n FROM diff('photos', 'v1', ':1')", [{"n": 0}]),
        ("SELECT count(*) AS n FROM diff('photos', 2, 4)", [{"n": 2}]),
        ("SELECT b.x FROM (SELECT after.box AS b FROM diff('photos', 'v1', 'exp'))", [{"x": 1}]),
        (
            "SELECT c, d.e.id FROM diff('photos', 'v1') AS d(c, r, n, b, e) WHERE c = 'inserted'",
            [{"c": "inserted", "id": 7}],
        ),
        (
            "SELECT after FROM diff('photos', 'v1') after WHERE _change = 'deleted'",
            [{"after": None}],
        ),
    ],
)
def test_a_diff_is_a_table_like_others(
    tables: Tables, query: str, expected: list[dict[str, Any]]
) -> None:
    assert rows(query, tables) == expected


def test_rows_without_ids_in_common_are_paired_by_a_key(tables: Tables) -> None:
    lw.open(tables["photos"]).overwrite(ROWS.slice(1))
    query = "SELECT _change, after.id, after.price AS p FROM diff('photos', ':4', on => ' id ')"
    assert sorted(map(str, rows(query, tables))) == [
        "{'_change': 'deleted', 'id': None, 'p': None}",
        "{'_change': 'updated', 'id': 2, 'p': 2.5}",
    ]


def test_a_path_may_be_compared_where_no_tables_are_given(tables: Tables) -> None:
    uri = tables["photos"]
    assert len(rows(f"SELECT * FROM diff('{uri}', 'v1')", None)) == 3
    with pytest.raises(NotFoundError, match="a path is given a name"):
        rows(f"SELECT * FROM diff('{uri}', 'v1')", tables)


def test_in_a_repository_revisions_are_those_of_commits(tmp_path: Path) -> None:
    repo = lw.Repository.init(tmp_path / "shop")
    with repo.transaction("main", message="first") as changes:
        changes.create_table("photos", ROWS)
    repo.tags.create("v1.0")
    repo.branches.create("exp")
    with repo.transaction("exp", message="more") as changes:
        changes.table("photos").update({"price": "0"}, where="id < 3")
    with repo.transaction("main", message="less") as changes:
        changes.table("photos").delete("id = 4")
    query = "SELECT _change, coalesce(before.id, after.id) AS id FROM diff('photos', {}) ORDER BY 2"
    for revisions, expected in (
        ("'main', 'exp'", [("updated", 1), ("updated", 2), ("inserted", 4)]),
        ("'v1.0', 'exp'", [("updated", 1), ("updated", 2)]),
        ("'HEAD~1'", [("deleted", 4)]),
    ):
        found = rows(query.format(revisions), None, repository=repo)
        assert [tuple(each.values()) for each in found] == expected


def test_only_what_a_query_uses_is_read(tables: Tables) -> None:
    every = ["id", "Label", "price", "box"]
    kinds = ("deleted", "inserted", "updated")
    wanted = {
        "SELECT after.price FROM diff('photos', 'v1')": (kinds, [], ["price"]),
        "SELECT d.after.LABEL, before.id FROM diff('photos', 'v1') d WHERE _change = 'updated'": (
            ("updated",),
            ["id"],
            ["Label"],
        ),
        "SELECT count(*) FROM diff('photos', 'v1') WHERE _change IN ('deleted', 'updated')": (
            ("deleted", "updated"),
            [],
            [],
        ),
        "SELECT after.box.x FROM diff('photos', 'v1') WHERE _change <> 'deleted'": (
            ("inserted", "updated"),
            [],
            ["box"],
        ),
        "SELECT after FROM diff('photos', 'v1') WHERE before.id = 3 OR _change = 'deleted'": (
            kinds,
            ["id"],
            every,
        ),
        "SELECT * FROM diff('photos', 'v1') WHERE _change = 'moved'": ((), every, every),
        "SELECT n FROM labels LEFT JOIN diff('photos', 'v1') d ON n = d.after.id AND _change = "
        "'updated'": (("updated",), [], ["id"]),
        "SELECT n FROM labels LEFT JOIN diff('photos', 'v1') d ON n = d.after.id WHERE _change IS "
        "NULL": (kinds, [], ["id"]),
    }
    assert {query: narrow(query, tables) for query in wanted} == wanted


def test_the_plan_says_what_is_compared(tables: Tables) -> None:
    query = "SELECT after.price FROM diff('photos',  'v1') d WHERE _change = 'updated'"
    uri = tables["photos"]
    assert lw.sql(query, tables=tables).explain().splitlines() == [
        "diff('photos', 'v1') as d",
        f"  from     version 1 of main, {uri}",
        f"  to       version 4 of main, {uri}",
        "  columns  _change, after.price (2 of 5)",
        "  where    _change = 'updated'",
    ]


@pytest.mark.parametrize(
    ("call", "kind", "told"),
    [
        ("diff('photos')", InvalidInputError, "one or two revisions"),
        ("diff()", InvalidInputError, "one or two revisions"),
        ("diff(1, 2)", InvalidInputError, "the name of a table"),
        ("diff('photos', 'v1', 'main', 'exp')", InvalidInputError, "one or two revisions"),
        ("diff('photos', concat('v', '1'))", InvalidInputError, "neither a text in quotes nor"),
        ("diff(photos, 'v1')", InvalidInputError, "photos is neither a text in quotes nor"),
        ("diff('photos', :at)", InvalidInputError, ":at is neither"),
        ("diff('photos', 0)", InvalidInputError, "0 is neither"),
        ("diff('photos', 1.5)", InvalidInputError, "1.5 is neither"),
        ("diff('photos@v1', 'main')", InvalidInputError, "revisions are the arguments after it"),
        ("diff('photos', 'v1') VERSION AS OF 2", InvalidInputError, "has no versions"),
        ("diff('photos', 'v1', key => 'id')", InvalidInputError, "found key => 'id'"),
        ("diff('photos', on => 'id', 'v1')", InvalidInputError, "on comes last"),
        ("diff('photos', 'v1', on => id)", InvalidInputError, "on takes names of columns"),
        ("diff('photos', 'v1', on => 'nope')", InvalidInputError, "'nope' not found"),
        ("diff('phots', 'v1')", NotFoundError, "did you mean 'photos'"),
        ("diff('photos', 'v9')", NotFoundError, "'v9'"),
        ("diff('photos', 99)", NotFoundError, "version 99"),
        ("x.diff('photos', 'v1')", UnsupportedError, "its dot says so"),
    ],
)
def test_what_is_no_diff_is_told(
    tables: Tables, call: str, kind: type[Exception], told: str
) -> None:
    with pytest.raises(kind, match=told.replace(".", r"\.")):
        lw.sql(f"SELECT * FROM {call}", tables=tables)


def test_a_wrong_field_is_told_with_all_that_there_are(tables: Tables) -> None:
    with pytest.raises(InvalidInputError, match=r"'prise' is no field of struct<id: .* price: "):
        lw.sql("SELECT after.prise, before.id FROM diff('photos', 'v1')", tables=tables)


def test_a_diff_is_no_value(tables: Tables) -> None:
    with pytest.raises(InvalidInputError, match="stands in FROM"):
        lw.sql("SELECT diff('photos', 'v1')", tables=tables)


def test_a_view_of_the_session_has_no_revisions_to_compare(tables: Tables) -> None:
    with pytest.raises(InvalidInputError, match="'view' is a table or view of the session"):
        list(reads("SELECT * FROM diff('view', 'v1')", tables))


def test_what_cannot_be_compared_is_told_when_rows_are_asked_for(tmp_path: Path) -> None:
    table = lw.create(tmp_path / "t.lance", ROWS, stable_row_ids=False)
    table.update({"price": "0"}, "id = 1")
    answer = lw.sql("SELECT count(*) FROM diff('t', 1)", tables={"t": table.uri})
    with pytest.raises(UnsupportedError, match="has no stable row ids"):
        answer.to_arrow()

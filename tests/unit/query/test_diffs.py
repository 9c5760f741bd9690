"""``diff('photos', 'v1', 'main')`` in FROM: what it means, what is read for it, what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from tests.pylance import lance

import lancewood as lw
from lancewood.errors import InvalidInputError, NotFoundError, UnsupportedError
from lancewood.table.diffs import Diff

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
    photos = lw.create(tmp_path / "photos.lance", ROWS, layout=lw.Layout(max_rows_per_file=2))
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
            "FROM d x JOIN d y ON x._rowid + 1 = y._rowid",
            [{"a": "deleted", "b": "updated"}],
        ),
        (
            "SELECT id FROM photos WHERE id IN (SELECT after.id FROM diff('photos', 'v1') WHERE "
            "list_contains(_columns, 'price'))",
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


def test_only_the_kinds_of_changes_that_a_query_asks_for_are_read(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[tuple[list[str], list[str]]] = []
    narrowed = Diff._narrowed

    def recorded(self: Diff, kinds: Any, before: Any, after: Any) -> Diff:
        sides = [side for side, names in (("before", before), ("after", after)) if names]
        read.append((sides, list(kinds)))
        return narrowed(self, kinds, before, after)

    every = ["deleted", "inserted", "updated"]
    for query, asked in {
        "SELECT after.price FROM diff('photos', 'v1')": (["after"], every),
        "SELECT before.id FROM diff('photos', 'v1') WHERE _change = 'updated'": (
            ["before"],
            ["updated"],
        ),
        "SELECT count(*) FROM diff('photos', 'v1') WHERE _change IN ('deleted', 'updated')": (
            [],
            ["deleted", "updated"],
        ),
        "SELECT count(*) FROM diff('photos', 'v1') WHERE _change = 'moved'": ([], []),
    }.items():
        answer = lw.sql(query, tables=tables)
        with monkeypatch.context() as patch:
            patch.setattr(Diff, "_narrowed", recorded)
            answer.to_arrow()
        assert read == [asked], query
        read.clear()


def test_the_plan_says_what_is_compared(tables: Tables) -> None:
    query = "SELECT after.price FROM diff('photos',  'v1') d WHERE _change = 'updated'"
    uri = tables["photos"]
    assert lw.sql(query, tables=tables).explain().splitlines() == [
        "diff('photos', 'v1')",
        f"  from     version 1 of main, {uri}",
        f"  to       version 4 of main, {uri}",
        "  columns  after.price (1 of 5)",
        "  where    _change = 'updated'",
    ]


@pytest.mark.parametrize(
    ("call", "kind", "told"),
    [
        ("diff('photos')", InvalidInputError, "one or two revisions"),
        ("diff()", InvalidInputError, "one or two revisions"),
        ("diff(1, 2)", InvalidInputError, "one or two revisions"),
        ("diff('photos', 'v1', 'main', 'exp')", InvalidInputError, "one or two revisions"),
        ("diff('photos', concat('v', '1'))", InvalidInputError, "one or two revisions"),
        ("diff(photos, 'v1')", InvalidInputError, "one or two revisions"),
        ("diff('photos', $at)", InvalidInputError, "one or two revisions"),
        ("diff('photos', 0)", InvalidInputError, "one or two revisions"),
        ("diff('photos', 1.5)", InvalidInputError, "one or two revisions"),
        ("diff('photos@v1', 'main')", InvalidInputError, "revisions are the arguments after it"),
        ("diff('photos', 'v1', key => 'id')", InvalidInputError, "one or two revisions"),
        ("diff('photos', on => 'id', 'v1')", InvalidInputError, "on comes last"),
        ("diff('photos', 'v1', on => id)", InvalidInputError, "one or two revisions"),
        ("diff('photos', 'v1', on => 'nope')", InvalidInputError, "'nope' not found"),
        ("diff('phots', 'v1')", NotFoundError, "did you mean 'photos'"),
        ("diff('photos', 'v9')", NotFoundError, "'v9'"),
        ("diff('photos', 99)", NotFoundError, "version 99"),
    ],
)
def test_what_is_no_diff_is_told(
    tables: Tables, call: str, kind: type[Exception], told: str
) -> None:
    with pytest.raises(kind, match=told.replace(".", r"\.")):
        lw.sql(f"SELECT * FROM {call}", tables=tables)


def test_a_wrong_field_is_told(tables: Tables) -> None:
    with pytest.raises(InvalidInputError, match="prise"):
        lw.sql("SELECT after.prise, before.id FROM diff('photos', 'v1')", tables=tables)


def test_what_cannot_be_compared_is_told_when_rows_are_asked_for(tmp_path: Path) -> None:
    table = lw.create(tmp_path / "t.lance", ROWS, layout=lw.Layout(stable_row_ids=False))
    table.update({"price": "0"}, "id = 1")
    answer = lw.sql("SELECT count(*) FROM diff('t', 1)", tables={"t": table.uri})
    with pytest.raises(UnsupportedError, match="has no stable row ids"):
        answer.to_arrow()

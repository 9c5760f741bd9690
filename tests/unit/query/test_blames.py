"""``blame('photos', 'exp')`` in FROM: what it means, what is read for it, what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.errors import InvalidInputError, NotFoundError, UnsupportedError
from lancewood.jobs.blame import BlameRows

ROWS = pa.table(
    {
        "id": [1, 2, 3],
        "Label": ["cat", "dog", "owl"],
        "price": [1.5, 2.5, None],
        "box": pa.array([{"x": 1}] * 3, pa.struct([("x", pa.int32())])),
        "much": pa.array([1, 2, 3], pa.decimal256(60, 2)),
    }
)
Tables = dict[str, Any]


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    photos = lw.create(tmp_path / "photos.lance", ROWS, layout=lw.Layout(max_rows_per_file=2))
    photos.tags.create("v1")
    photos = photos.update({"price": "9"}, "id = 2", message="dearer")
    photos.branches.create("exp").update({"Label": "'emu'"}, "id = 3")
    notes = pa.table({"version": [2], "note": ["prices"]})
    notes = lw.create(tmp_path / "notes.lance", notes)
    return {"photos": photos.append(ROWS.slice(0, 1)).uri, "notes": notes}


def rows(query: str, tables: Tables | None, **settings: Any) -> list[dict[str, Any]]:
    """The answer, which does not depend on what was pushed down."""
    found = lw.sql(query, tables=tables, **settings).to_arrow().to_pylist()
    whole = lw.sql(query, tables=tables, pushdown=False, **settings).to_arrow().to_pylist()
    assert sorted(map(str, found)) == sorted(map(str, whole))
    return found  # type: ignore[no-any-return]


def test_rows_are_those_of_the_verb_with_the_columns_that_duckdb_has(tables: Tables) -> None:
    shown = ["id", "Label", "price", "box"]
    verb = lw.open(tables["photos"]).blame(show=shown).to_arrow()
    assert rows("SELECT * FROM blame('photos')", tables) == verb.to_pylist()
    assert verb["_changed"].combine_chunks().field("version").to_pylist() == [1, 1, 2, 3]
    verb = lw.open(tables["photos"], at="exp").blame(columns=["price"], show=shown).to_arrow()
    query = "SELECT * FROM blame('photos', 'exp', columns => ' price ')"
    assert [each["_changed"] for each in rows(query, tables)] == verb["_changed"].to_pylist()


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (
            "SELECT id, _changed.message AS m FROM blame('photos') WHERE id = 2",
            [{"id": 2, "m": "dearer"}],
        ),
        ("SELECT BLAME.id FROM Blame('photos') WHERE _changed.version = 3", [{"id": 1}]),
        (
            "SELECT b.id, b._changed.branch AS at FROM blame('photos', 'exp') AS b "
            "WHERE b.label = 'emu'",
            [{"id": 3, "at": "exp"}],
        ),
        (
            "SELECT note, b.id FROM blame('photos') b JOIN notes n ON b._changed.version = "
            "n.version",
            [{"note": "prices", "id": 2}],
        ),
        ("SELECT count(*) AS n FROM blame('photos', 'v1')", [{"n": 3}]),
        (
            "SELECT count(*) AS n FROM blame('photos', 2) WHERE _inserted.version = "
            "_changed.version AND price IS NOT NULL",
            [{"n": 1}],
        ),
        (
            "WITH b AS (FROM blame('photos')) SELECT _changed.version AS v, count(*) AS n FROM b "
            "GROUP BY ALL ORDER BY ALL",
            [{"v": 1, "n": 2}, {"v": 2, "n": 1}, {"v": 3, "n": 1}],
        ),
        (
            "SELECT d._change AS c, b._changed.version AS v FROM diff('photos', 'v1') d JOIN "
            "blame('photos') b USING (_rowid) ORDER BY 1, 2",
            [{"c": "inserted", "v": 3}, {"c": "updated", "v": 2}],
        ),
    ],
)
def test_a_blame_is_a_table_like_others(
    tables: Tables, query: str, expected: list[dict[str, Any]]
) -> None:
    assert rows(query, tables) == expected


def test_a_path_may_be_blamed_where_no_tables_are_given(tables: Tables) -> None:
    uri = tables["photos"]
    assert len(rows(f"SELECT id, _changed FROM blame('{uri}', 'v1')", None)) == 3
    with pytest.raises(NotFoundError, match="a path is given a name"):
        rows(f"SELECT id FROM blame('{uri}')", tables)


def test_in_a_repository_revisions_are_those_of_commits(tmp_path: Path) -> None:
    repo = lw.Repository.init(tmp_path / "shop")
    with repo.transaction("main", message="first") as changes:
        changes.create_table("photos", ROWS.drop_columns(["much"]))
    repo.tags.create("v1.0")
    with repo.transaction("main", message="more") as changes:
        changes.table("photos").update({"price": "0"}, where="id < 3")
    query = "SELECT _changed.operation AS o, count(*) AS n FROM blame('photos', {}) GROUP BY o"
    for revision, expected in (("'v1.0'", {3}), ("'HEAD'", {1, 2}), ("'main'", {1, 2})):
        found = rows(query.format(revision), None, repository=repo)
        assert {each["n"] for each in found} == expected


def test_only_rows_and_columns_that_a_query_asks_for_are_followed(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[tuple[tuple[str, ...], bool]] = []
    batches = BlameRows.batches

    def recorded(self: BlameRows) -> Any:
        read.append((self.shown, self.predicate is not None))
        return batches(self)

    monkeypatch.setattr(BlameRows, "batches", recorded)
    for query, asked in {
        "SELECT id, _changed FROM blame('photos') WHERE price > 3": (("id",), True),
        "SELECT _inserted FROM blame('photos') WHERE _changed.version > 1": ((), False),
    }.items():
        read.clear()
        lw.sql(query, tables=tables).to_arrow()
        assert read == [asked], query
    read.clear()
    assert rows("SELECT count(*) AS n FROM blame('photos')", tables) == [{"n": 4}]
    assert not read


def test_the_plan_says_what_is_read(tables: Tables) -> None:
    query = "SELECT id, _changed.version FROM blame('photos',  'v1') WHERE id = 2"
    assert lw.sql(query, tables=tables).explain().splitlines() == [
        "blame('photos', 'v1')",
        f"  version  1 of main, {tables['photos']}",
        "  columns  id, _changed.version (2 of 7)",
        "  where    id = 2",
    ]


@pytest.mark.parametrize(
    ("call", "kind", "told"),
    [
        ("blame()", InvalidInputError, "perhaps a revision"),
        ("blame(1)", InvalidInputError, "perhaps a revision"),
        ("blame('photos', 'v1', 'main')", InvalidInputError, "perhaps a revision"),
        ("blame(photos)", InvalidInputError, "perhaps a revision"),
        ("blame('photos', on => 'id')", InvalidInputError, "perhaps a revision"),
        ("blame('photos@v1')", InvalidInputError, "revisions are the arguments after it"),
        ("blame('photos', columns => 'id', 'v1')", InvalidInputError, "columns comes last"),
        ("blame('photos', columns => '')", InvalidInputError, "columns => 'id'"),
        ("blame('photos', columns => 'nope')", InvalidInputError, "'nope' not found"),
        ("blame('phots')", NotFoundError, "did you mean 'photos'"),
        ("blame('photos', 'v9')", NotFoundError, "'v9'"),
        ("blame('photos') WITH ORDINALITY", InvalidInputError, "no numbers"),
    ],
)
def test_what_is_no_blame_is_told(
    tables: Tables, call: str, kind: type[Exception], told: str
) -> None:
    with pytest.raises(kind, match=told.replace(".", r"\.")):
        lw.sql(f"SELECT * FROM {call}", tables=tables)


def test_a_table_without_stable_row_ids_is_told(tmp_path: Path) -> None:
    table = lw.create(tmp_path / "t.lance", ROWS, layout=lw.Layout(stable_row_ids=False))
    with pytest.raises(UnsupportedError, match="has no stable row ids"):
        lw.sql("FROM blame('t')", tables={"t": table})

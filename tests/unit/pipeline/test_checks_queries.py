"""What SQL of a check reads: names with and without ``published.``, and only the columns needed."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancewood.pipeline.checks.running import tables_seen
from lancewood.pipeline.checks.sql import (
    QueryColumns,
    TableName,
    allowed_names,
    table_names,
    without_qualifiers,
)
from lancewood.pipeline.definition.model import ReferenceCheck, Spot, SqlCheck
from lancewood.pipeline.definition.names import parsed_query, qualified_name, tables_in

SPOT = Spot("zoo.toml", "checks[0]")
PHOTOS = pa.schema(
    {
        "id": pa.int64(),
        "label": pa.string(),
        "image": pa.binary(),
        "vector": pa.list_(pa.float32(), 4),
        "meta": pa.struct({"width": pa.int32()}),
    }
)
SMALL = ["id", "label", "meta"]


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        ("SELECT id FROM photos WHERE label = 'x'", ["id", "label"]),
        ("SELECT ID FROM photos WHERE length(`Image`) = 0", ["id", "image"]),
        ("SELECT meta.width FROM photos", ["meta"]),
        ("SELECT image_id FROM photos", ["id"]),
        ("SELECT count(*) FROM photos HAVING count(*) < 3", ["id"]),
        ("SELECT * FROM photos WHERE id < 0", SMALL),
        ("SELECT p.* FROM photos p JOIN photos q USING (id)", SMALL),
        ("SELECT * EXCEPT (vector) FROM photos", ["id", "label", "vector", "meta"]),
        ("WITH bad AS (SELECT id FROM photos) SELECT * FROM bad", SMALL),
    ],
)
def test_columns_that_are_not_mentioned_are_left_out(sql: str, columns: list[str]) -> None:
    assert QueryColumns(sql).of(PHOTOS) == columns


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT DISTINCT * FROM photos",
        "SELECT * FROM photos GROUP BY ALL",
        "SELECT * FROM photos EXCEPT SELECT * FROM published.photos",
        "SELECT id FROM (SELECT DISTINCT * FROM photos)",
        "SELECT id FROM photos WHERE hash(*) = 1",
        "SELECT count(p.*) FROM photos p",
        "SELECT id FROM photos NATURAL JOIN published.photos",
        "SELECT * FROM photos PIVOT (count(id) FOR label IN ('x', 'y'))",
        "SELECT a FROM photos AS p (a, b, c, d, e)",
        "FROM photos |> WHERE id = 1 |> AGGREGATE count(*) GROUP BY label",
    ],
)
def test_query_that_means_all_columns_gets_them(sql: str) -> None:
    assert QueryColumns(sql).of(PHOTOS) == PHOTOS.names


def test_published_tables_get_names_of_their_own_and_the_rest_stays() -> None:
    sql = (
        "SELECT published.photos.id, old.id, 'published.photos' -- published.photos\n"
        "FROM Published . photos JOIN published.`a-b` AS old ON photos.id = old.id, photos AS now"
    )
    assert without_qualifiers(sql) == (
        "SELECT photos.id, old.id, 'published.photos' -- published.photos\n"
        "FROM `published.photos` AS `photos` JOIN `published.a-b` AS old "
        "ON photos.id = old.id, photos AS now"
    )
    assert table_names(sql) == [
        TableName("photos", True),
        TableName("a-b", True),
        TableName("photos", False),
    ]


def test_sampled_table_gets_no_alias_where_none_can_stand() -> None:
    sql = "SELECT id FROM published.photos TABLESAMPLE (5 ROWS)"
    assert without_qualifiers(sql) == "SELECT id FROM `published.photos` TABLESAMPLE (5 ROWS)"


@given(
    st.lists(
        st.tuples(st.sampled_from(["photos", "`a-b`", "c"]), st.booleans(), st.booleans()),
        min_size=1,
        max_size=4,
    )
)
def test_no_qualifier_is_left_and_every_name_is_one_that_will_be_bound(
    parts: list[tuple[str, bool, bool]],
) -> None:
    named = [
        f"{'published.' if is_published else ''}{name}{f' t{number}' if has_alias else ''}"
        for number, (name, is_published, has_alias) in enumerate(parts)
    ]
    sql = f"SELECT 1 FROM {' CROSS JOIN '.join(named)}"
    bound = {each.bound for each in table_names(sql)}
    tables = tables_in(parsed_query(without_qualifiers(sql)))
    assert {qualified_name(each) for each in tables} == bound
    assert not any(each.db for each in tables)


def test_check_knows_the_tables_that_it_sees() -> None:
    sql = "WITH x AS (SELECT 1) SELECT * FROM x, photos, published.labels"
    assert tables_seen(SqlCheck("a", SPOT, False, sql)) == {"photos", "labels"}
    check = ReferenceCheck("a", SPOT, False, "labels", ("photo",), "photos", ("id",))
    assert tables_seen(check) == {"photos", "labels"}


def test_names_of_a_result_become_names_of_columns() -> None:
    asked = ["id", "ID", "a.b", "", "_rowid", "id_2", "count(1)"]
    assert allowed_names(asked) == [
        "id",
        "ID_2",
        "column_3",
        "column_4",
        "column_5",
        "id_2_2",
        "count(1)",
    ]

"""Rows that bring columns, and rows in the place of others: pylance is the judge."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.jobs.counts import RowCounts

pytestmark = pytest.mark.usefixtures("pages_decoded_here")

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "s": pa.array([{"a": 1}, {"a": 2}, None])})
WIDER = pa.table(
    {
        "n": pa.array([0.5]),
        "id": pa.array([4], pa.int64()),
        "s": pa.array([{"b": "x", "a": 4}]),
    }
)


def rows(table: lw.Table) -> list[dict[str, Any]]:
    """What is there, as pylance and we both see it."""
    dataset = lance.dataset(table.uri, version=table.version)
    dataset.validate()
    found: list[dict[str, Any]] = dataset.to_table().to_pylist()
    assert table.to_arrow().to_pylist() == found
    assert not table.verify(deep=True).problems
    return found


@pytest.fixture(params=[True, False], ids=["row ids", "no row ids"])
def table(tmp_path: Path, request: pytest.FixtureRequest) -> lw.Table:
    return lw.create(
        tmp_path / "t.lance",
        ROWS,
        layout=lw.Layout(stable_row_ids=request.param, max_rows_per_file=2),
    )


OLD = [
    {"id": 1, "s": {"a": 1, "b": None}, "n": None},
    {"id": 2, "s": {"a": 2, "b": None}, "n": None},
    {"id": 3, "s": None, "n": None},
]
NEW = {"id": 4, "s": {"a": 4, "b": "x"}, "n": 0.5}


def test_new_columns_and_fields_of_structs_come_with_the_rows_in_one_version(
    table: lw.Table,
) -> None:
    with pytest.raises(lw.InvalidInputError, match="merge_schema"):
        table.append(WIDER)
    after = table.append(WIDER, merge_schema=True, message="wider")
    assert after.version == table.version + 1
    assert after.counts == RowCounts(inserted=1)
    assert rows(after) == [*OLD, NEW]
    assert [each.message for each in after.versions(1)] == ["wider"]
    again = after.append(WIDER, merge_schema=True)
    assert rows(again) == [*OLD, NEW, NEW]
    assert again.schema.equals(after.schema)


def test_row_ids_go_on_after_rows_that_brought_columns(tmp_path: Path) -> None:
    table = lw.create(tmp_path / "t.lance", ROWS).append(WIDER, merge_schema=True).append(WIDER)
    assert table.scan(with_row_id=True).to_arrow()["_rowid"].to_pylist() == [0, 1, 2, 3, 4]
    found = lance.dataset(table.uri).to_table(with_row_id=True)["_rowid"].to_pylist()
    assert found == [0, 1, 2, 3, 4]


def test_an_append_with_columns_goes_after_whatever_came_first(table: lw.Table) -> None:
    table.append(ROWS.slice(0, 1)).delete("id = 2")
    after = table.append(WIDER, merge_schema=True)
    assert [each["id"] for each in rows(after)] == [1, 3, 1, 4]
    with pytest.raises(lw.RetryableConflictError, match="columns"):
        table.append(WIDER.drop_columns(["s"]), merge_schema=True)
    with pytest.raises(lw.RetryableConflictError):
        after.latest().append(ROWS).checkout(version=after.version).append(
            pa.table({"more": [1]}), merge_schema=True, commit=lw.CommitOptions(serializable=True)
        )
    files = list(Path(table.uri).glob("data/*.lance"))
    named = {Path(file.path).name for each in after.latest().fragments for file in each.files}
    assert {each.name for each in files} == named, "what failed left no file"


def test_columns_without_rows_are_added_too(table: lw.Table) -> None:
    after = table.append(WIDER.slice(0, 0), merge_schema=True)
    assert rows(after) == OLD
    assert after.counts == RowCounts()


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ({"ID": [1]}, "'id'"),
        ({"id": [1], "a.b": [1]}, r"'\.'"),
        ({"id": ["text"], "n": [1]}, "int64"),
        ({"id": [1], "_rowid": [1]}, "_rowid"),
    ],
)
def test_columns_that_cannot_be_added_are_refused_before_anything_is_written(
    table: lw.Table, data: dict[str, Any], why: str
) -> None:
    before = sorted(Path(table.uri).rglob("*"))
    with pytest.raises(lw.InvalidInputError, match=why):
        table.append(pa.table(data), merge_schema=True)
    assert sorted(Path(table.uri).rglob("*")) == before


def test_an_overwrite_with_merge_schema_keeps_columns_and_adds_others(table: lw.Table) -> None:
    after = table.overwrite(WIDER.drop_columns(["s"]), merge_schema=True)
    assert rows(after) == [{"id": 4, "s": None, "n": 0.5}]
    assert after.overwrite(WIDER.select(["n"])).schema.names == ["n"]


def test_rows_that_meet_a_condition_are_replaced_in_one_version(table: lw.Table) -> None:
    with pytest.raises(lw.InvalidInputError, match="'id': 4"):
        table.overwrite(pa.table({"id": [2, 4]}), replace_where="id < 3")
    planned = table.overwrite(pa.table({"id": [2]}), replace_where="id < 3", dry_run=True)
    after = table.overwrite(pa.table({"id": [2]}), replace_where="id < 3")
    assert planned.counts == after.counts == RowCounts(inserted=1, deleted=2)
    assert after.version == table.version + 1
    assert rows(after) == [{"id": 3, "s": None}, {"id": 2, "s": None}]
    added = after.overwrite(pa.table({"id": [7]}), replace_where="id = 7")
    assert added.counts == RowCounts(inserted=1)
    emptied = added.overwrite(ROWS.slice(0, 0), replace_where="s is null")
    assert rows(emptied) == []
    same = emptied.overwrite(ROWS.slice(0, 0), replace_where="true")
    assert same.version == emptied.version


def test_a_row_whose_condition_is_null_does_not_meet_it(table: lw.Table) -> None:
    with pytest.raises(lw.InvalidInputError, match="replace_where"):
        table.overwrite(pa.table({"id": [9]}), replace_where="s.a > 0")
    with pytest.raises(lw.InvalidInputError, match="no_column"):
        table.overwrite(ROWS, replace_where="no_column = 1")


def test_replacing_rows_is_judged_by_what_landed_meanwhile(table: lw.Table) -> None:
    table.append(pa.table({"id": [8]})).delete("id = 1")
    after = table.overwrite(pa.table({"id": [2]}), replace_where="id < 3")
    assert [each["id"] for each in rows(after)] == [3, 8, 2]
    after.overwrite(ROWS)
    with pytest.raises(lw.IncompatibleConflictError):
        after.overwrite(pa.table({"id": [2]}), replace_where="id < 3")


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"merge_schema": True, "replace_where": "true"}, "merge_schema"),
        ({"schema": ROWS.schema, "replace_where": "true"}, "schema"),
        ({"merge_schema": 1}, "True or False"),
        ({"replace_where": 7}, "SQL"),
    ],
)
def test_what_does_not_go_together_is_refused(
    table: lw.Table, said: dict[str, Any], why: str
) -> None:
    with pytest.raises(lw.InvalidInputError, match=why):
        table.overwrite(ROWS, **said)


def test_columns_of_a_branch_are_published_with_their_rows(table: lw.Table) -> None:
    table.branches.create("exp").append(WIDER, merge_schema=True)
    if table.has_stable_row_ids:
        table.append(ROWS.slice(0, 1))
        table.branches.merge("exp")
    else:
        table.branches.publish("exp")
    found = rows(table.latest())
    assert [each["n"] for each in found if each["id"] == 4] == [0.5]
    assert [each["n"] for each in found if each["id"] < 4] == [None] * (len(found) - 1)

"""What columns say before there is a table, and what versions say about each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.errors import InvalidInputError, NotFoundError, UnsupportedError
from lancewood.table import (
    check_index,
    check_key,
    check_rules,
    check_where,
    files_added,
    index_kind,
    is_column_name,
    scanned_schema,
)

COLUMNS = pa.schema({"id": pa.int64(), "name": pa.string()})
ROWS = pa.table({"id": [1, 2], "name": ["ant", "bee"]})


def test_a_scan_is_known_by_the_columns_alone(tmp_path: Path) -> None:
    table = lw.create(tmp_path / "t.lance", ROWS)
    assert scanned_schema(COLUMNS, ["name", "id"]) == table.scan(["name", "id"]).schema
    assert scanned_schema(COLUMNS) == table.scan().schema
    with pytest.raises(InvalidInputError, match="nme"):
        scanned_schema(COLUMNS, ["nme"])
    with pytest.raises(UnsupportedError):
        scanned_schema(pa.schema({"x": pa.month_day_nano_interval()}))


def test_a_condition_and_a_key_are_checked_against_columns() -> None:
    check_where(COLUMNS, "id > ? AND name LIKE 'a%'", [1])
    with pytest.raises(InvalidInputError):
        check_where(COLUMNS, "id > 'ant'")
    check_key(COLUMNS, ["id"])
    with pytest.raises(InvalidInputError):
        check_key(COLUMNS, ["legs"])
    blobs = COLUMNS.append(
        pa.field("song", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    )
    check_rules(blobs, {"id": "ours.id + theirs.id", "song": "theirs", "*": "ours"})
    for wrong in ({"legs": "ours"}, {"name": "ours.id + 1"}, {"song": "theirs.song"}, "mine"):
        with pytest.raises(InvalidInputError):
            check_rules(blobs, wrong)
    assert is_column_name("legs")
    assert not is_column_name("_rowid")


def test_earlier_versions_are_found_across_branches_and_known_by_their_transactions(
    tmp_path: Path,
) -> None:
    first = lw.create(tmp_path / "t.lance", ROWS)
    work = first.append(ROWS).branches.create("work").append(ROWS)
    assert work.earlier(1).count_rows() == 2
    assert work.transaction_of(1).uuid == first.transaction_of(1).uuid != ""
    assert work.transaction_of(2).uuid != first.transaction_of(1).uuid
    assert not work.is_detached
    with pytest.raises(NotFoundError):
        first.earlier(9)


def test_added_files_are_counted_with_their_bytes(tmp_path: Path) -> None:
    before = lw.create(tmp_path / "t.lance", ROWS)
    after = before.append(ROWS).append(ROWS)
    added = {*(tmp_path / "t.lance" / "data").iterdir()}
    sizes = sorted(each.stat().st_size for each in added)
    files, size = files_added(before, after)
    assert (files, size) == (2, sum(sizes) - sizes[0])
    assert files_added(after, after.delete("id = 1")) == (0, 0)


VECTORS = pa.schema({"id": pa.int64(), "text": pa.string(), "v": pa.list_(pa.float32(), 8)})


def test_an_index_is_checked_against_columns_before_there_are_rows() -> None:
    assert not check_index(VECTORS, "id")
    assert not check_index(VECTORS, "text", "search", options={"with_position": True})
    assert check_index(VECTORS, "v", "IVF_PQ", metric="cosine", partitions=500, sub_vectors=4)


@pytest.mark.parametrize(
    ("column", "kind", "settings", "told"),
    [
        ("idd", None, {}, "'idd'"),
        ("id", "INVERTED", {}, "column 'id' is int64, on which no INVERTED index"),
        ("text", "IVF_PQ", {}, "is string"),
        ("v", "lookup", {}, "no index for lookup"),
        ("v", "search", {"sub_vectors": 4}, "sub_vectors is for product codes"),
        ("v", "IVF_PQ", {"sub_vectors": 3}, "cannot be cut into 3"),
        ("v", "IVF_PQ", {"options": {"num_bits": "8"}}, "num_bits of IVF_PQ must be one of 4, 8"),
        ("v", "IVF_PQ", {"metric": "hamming"}, "not by hamming"),
        ("id", "BTREE", {"partitions": 4}, "partitions is for vectors"),
        ("id", "BTREE", {"options": {"with_position": True}}, "has no option"),
        ("id", "BTREE", {"name": "__lance_frag_reuse"}, "cannot be called"),
    ],
)
def test_an_index_that_no_such_table_can_have_is_refused(
    column: str, kind: str | None, settings: dict[str, Any], told: str
) -> None:
    with pytest.raises(InvalidInputError, match=told):
        check_index(VECTORS, column, kind, **settings)


def test_kinds_of_indices_go_by_one_name() -> None:
    words = ["btree", "FTS", "ivf_pq", "Search", "lookup"]
    assert [index_kind(each) for each in words] == [
        "BTREE",
        "INVERTED",
        "IVF_PQ",
        "search",
        "lookup",
    ]
    with pytest.raises(InvalidInputError, match="there is no index of kind 'trie'"):
        index_kind("trie")

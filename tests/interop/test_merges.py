"""Merges by key against pylance: the same outcome, readable by it, and safe beside it.

Checklist lines 43, 45, 46, 47, 62 and 63, as far as they are about merges.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import lance
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.counted import counts_of
from tests.manifests import newest_manifest
from tests.pylance import LINEAGE, judged

import lancewood as lw
from lancewood.engine.versions.history import load_transaction
from lancewood.jobs.counts import RowCounts
from lancewood.model.transaction import Update
from lancewood.proto.transaction_pb2 import KeyExistenceFilter

pytestmark = pytest.mark.sliced(4)

EXAMPLES = int(os.environ.get("LANCEWOOD_LAW_EXAMPLES", "12"))
PRIMARY = {b"lance-schema:unenforced-primary-key": b"true"}
SCHEMA = pa.schema([pa.field("k", pa.int64()), pa.field("v", pa.string()), pa.field("n", "int32")])


def rows(keys: Sequence[int | None], v: str, n: int = 0, schema: pa.Schema = SCHEMA) -> pa.Table:
    found = [{"k": each, "v": v, "n": n} for each in keys]
    return pa.Table.from_pylist(found, schema=schema)


def write(uri: str, *, stable: bool = True, schema: pa.Schema = SCHEMA) -> None:
    """Sixteen rows in fragments of five, one of them deleted."""
    data = pa.Table.from_pylist(
        [{"k": k, "v": f"v{k}", "n": k % 4} for k in range(16)], schema=schema
    )
    dataset = lance.write_dataset(data, uri, max_rows_per_file=5, enable_stable_row_ids=stable)
    dataset.delete("k = 6")


def upsert(dataset: Any) -> Any:
    return dataset.merge_insert("k").when_matched_update_all().when_not_matched_insert_all()


def check(uri: str) -> pa.Table:
    """Both read the same, and pylance finds nothing wrong."""
    dataset = judged(uri)
    names = [*dataset.schema.names, *LINEAGE]
    theirs = dataset.scanner(columns=names, with_row_address=True).to_table()
    mine = lw.open(uri).scan(names, with_row_address=True).to_arrow()
    assert mine.to_pylist() == theirs.to_pylist()
    assert dataset.count_rows() == mine.num_rows
    return mine


def by_key(uri: str, *names: str) -> dict[Any, Any]:
    found = check(uri).to_pydict()
    columns = [found[each] for each in names]
    return dict(zip(found["k"], zip(*columns, strict=True), strict=True))


def inserted_keys(uri: str) -> KeyExistenceFilter | None:
    snapshot = lw.open(uri)._snapshot
    found = load_transaction(snapshot.location.store, snapshot.manifest).operation
    assert isinstance(found, Update)
    return found.inserted_rows


@pytest.mark.parametrize("stable", [True, False])
def test_line_43_each_merge_decodes_to_the_same_operation(uri: str, stable: bool) -> None:
    write(uri, stable=stable)
    table = lw.open(uri).merge(rows([3, 50], "new"), "k")
    found: Any = lance.dataset(uri).read_transaction(table.version)
    assert isinstance(found.operation, lance.LanceOperation.Update)
    assert found.operation.update_mode == "rewrite_rows"
    assert [each.physical_rows for each in found.operation.new_fragments] == [2]
    some = rows([3, 4], "newer").select(["k", "v"])
    table = table.merge(some, "k", not_matched="ignore", rewrite="columns")
    found = lance.dataset(uri).read_transaction(table.version)
    assert found.operation.update_mode == "rewrite_columns"
    assert found.operation.fields_modified == [1]
    table = table.merge(rows([3], ""), "k", matched="delete")
    found = lance.dataset(uri).read_transaction(table.version)
    assert isinstance(found.operation, lance.LanceOperation.Delete)
    check(uri)


@pytest.mark.parametrize("stable", [True, False])
def test_line_45_lineage_is_the_same_after_merges_of_both(uri: str, stable: bool) -> None:
    write(uri, stable=stable)
    lw.open(uri).merge(rows([3, 9, 50, 51], "mine"), "k")
    check(uri)
    upsert(lance.dataset(uri)).execute(rows([3, 4, 50, 60], "theirs"))
    check(uri)
    lw.open(uri).merge(rows([60, 4], "mine again", 7), "k", not_matched_by_source="delete")
    assert set(by_key(uri, "v").values()) == {("mine again",)}
    lance.dataset(uri).optimize.compact_files()
    check(uri)
    lw.open(uri).merge(rows([60, 61], "last"), "k")
    assert {key: each[0] for key, each in by_key(uri, "v").items()} == {
        4: "mine again",
        60: "last",
        61: "last",
    }


def test_line_46_inserted_rows_get_fresh_ids(uri: str) -> None:
    write(uri)
    before = newest_manifest(uri).next_row_id
    table = lw.open(uri).merge(rows([3, 50, 51], "new"), "k")
    assert newest_manifest(uri).next_row_id == before + 2
    found = by_key(uri, *LINEAGE)
    assert found[50] == (before, table.version, table.version)
    assert found[51] == (before + 1, table.version, table.version)


@pytest.mark.parametrize("way", ["rows", "columns"])
def test_line_47_updated_rows_keep_their_ids(uri: str, way: Literal["rows", "columns"]) -> None:
    write(uri)
    before = by_key(uri, "_rowid", "_rowaddr")
    some = rows([3, 9], "new").select(["k", "v"])
    table = lw.open(uri).merge(some, "k", not_matched="ignore", rewrite=way)
    found = by_key(uri, *LINEAGE, "v", "n")
    for key in (3, 9):
        assert found[key] == (before[key][0], 1, table.version, "new", key % 4)
    assert found[4] == (before[4][0], 1, 1, "v4", 0)
    moved = by_key(uri, "_rowaddr")[3][0] != before[3][1]
    assert moved is (way == "rows")
    ids = [before[each][0] for each in (9, 3)]
    taken: Any = lance.dataset(uri)._take_rows(ids).to_pydict()
    assert taken["v"] == ["new", "new"]


def test_pylance_goes_on_after_merges_of_ours(uri: str) -> None:
    write(uri)
    table = lw.open(uri).merge(rows([3, 50], "mine"), "k")
    some = rows([1, 2], "in place").select(["k", "v"])
    table.merge(some, "k", not_matched="ignore", rewrite="columns")
    dataset: Any = lance.dataset(uri)
    dataset.update({"v": "'updated'"}, where="k = 2 OR k = 50")
    dataset.delete("k = 1")
    dataset.add_columns({"twice": "k * 2"})
    upsert(dataset).execute(rows([3, 70], "theirs").append_column("twice", pa.array([0, 1])))
    dataset.optimize.compact_files()
    lw.open(uri).merge(rows([70, 71], "mine"), "k")
    found = by_key(uri, "v", "twice")
    assert found[2] == ("updated", 4)
    assert found[70] == ("mine", 1)
    assert found[71] == ("mine", None)
    assert 1 not in found


@pytest.mark.parametrize("stable", [True, False])
@pytest.mark.parametrize("kind", ["BTREE", "BITMAP", "ZONEMAP"])
def test_lines_62_and_63_indices_answer_right_after_merges(
    uri: str, kind: str, stable: bool
) -> None:
    write(uri, stable=stable)
    for column in ("k", "v", "n"):
        dataset: Any = lance.dataset(uri)
        dataset.create_scalar_index(column, kind)

    def agree() -> None:
        dataset = lance.dataset(uri)
        everything = check(uri).to_pylist()
        asked = (("v", "new"), ("v", "v3"), ("k", 50), ("k", 3), ("n", 3), ("n", 9))
        for column, value in asked:
            expected = sorted(each["k"] for each in everything if each[column] == value)
            found = dataset.to_table(filter=f"{column} = {value!r}")["k"].to_pylist()
            assert sorted(found) == expected, (column, value)

    some = rows([3, 4], "new").select(["k", "v"])
    lw.open(uri).merge(some, "k", not_matched="ignore", rewrite="rows")
    agree()
    lw.open(uri).merge(rows([3, 50], "new", 9), "k")
    agree()
    narrow = rows([7, 8, 9], "new", 3).select(["k", "n"])
    lw.open(uri).merge(narrow, "k", not_matched="ignore", rewrite="columns")
    agree()
    lw.open(uri).merge(rows([3, 7, 8], "v3", 9), "k", not_matched_by_source="delete")
    agree()


@pytest.mark.parametrize("way", ["rows", "columns"])
@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_tables_with_a_past_are_merged_into(
    uri: str, version: str, way: Literal["rows", "columns"]
) -> None:
    """Columns in several files, renamed, missing in a fragment, nested, of many types."""
    first = pa.table(
        {
            "id": pa.array(range(8), pa.int64()),
            "p": [{"x": n, "y": f"y{n}"} for n in range(8)],
            "l": [[n] * (n % 3) for n in range(8)],
            "d": pa.array([f"d{n % 2}" for n in range(8)]).dictionary_encode(),
            "gone": range(8),
        }
    )
    dataset: Any = lance.write_dataset(
        first, uri, max_rows_per_file=4, data_storage_version=version, enable_stable_row_ids=True
    )
    dataset.alter_columns({"path": "id", "name": "k"})
    dataset.drop_columns(["gone"])
    dataset.add_columns({"late": "k * 10"})
    rest = pa.table({"k": [8, 9], "p": [{"x": 8, "y": "y8"}] * 2, "late": [80, 90]})
    lance.write_dataset(rest, uri, mode="append")
    dataset = lance.dataset(uri)
    dataset.delete("k = 2")
    some = pa.table(
        {
            "k": [3, 9, 99],
            "d": pa.array(["e", None, "d1"]).dictionary_encode(),
            "p": [{"x": 30, "y": None}, {"x": 90, "y": "ninety"}, {"x": 0, "y": ""}],
            "l": [[7, 7], None, []],
        }
    )
    options: Any = {"not_matched": "ignore"} if way == "columns" else {}
    after = lw.open(uri).merge(some, "k", rewrite=way, **options)
    assert after.counts == RowCounts(inserted=int(way == "rows"), updated=2)
    found = by_key(uri, "p", "l", "d", "late")
    assert found[3] == ({"x": 30, "y": None}, [7, 7], "e", 30)
    assert found[9] == ({"x": 90, "y": "ninety"}, None, None, 90)
    assert found[4] == ({"x": 4, "y": "y4"}, [4], "d0", 40)
    if way == "rows":
        assert found[99] == ({"x": 0, "y": ""}, [], "d1", None)
    lance.dataset(uri).optimize.compact_files()
    check(uri)


@pytest.mark.parametrize("way", ["rows", "columns"])
def test_json_and_blobs_survive_a_merge(uri: str, way: Literal["rows", "columns"]) -> None:
    blob = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    schema = pa.schema([("k", pa.int64()), ("v", pa.string()), ("j", pa.json_()), blob])
    data = pa.table(
        {
            "k": range(4),
            "v": list("abcd"),
            "j": pa.array([f'{{"n":{n}}}' for n in range(4)], pa.json_()),
            "b": pa.array([bytes([n]) * 100_000 for n in range(4)], pa.large_binary()),
        },
        schema=schema,
    )
    lance.write_dataset(data, uri, data_storage_version="2.1")
    some = pa.table({"k": [1, 3], "j": pa.array(['{"m":1}', None], pa.json_())})
    lw.open(uri).merge(some, "k", not_matched="ignore", rewrite=way)
    dataset = judged(uri)
    found = dataset.to_table(columns=["k", "v", "j"]).sort_by("k").to_pydict()
    assert found == {
        "k": [0, 1, 2, 3],
        "v": list("abcd"),
        "j": ['{"n":0}', '{"m":1}', '{"n":2}', None],
    }
    order = dataset.to_table(columns=["k"])["k"].to_pylist()
    blobs = dataset.take_blobs("b", indices=range(4))
    assert {k: each.readall()[:1] for k, each in zip(order, blobs, strict=True)} == {
        n: bytes([n]) for n in range(4)
    }


def test_blobs_are_merged_with_their_rows_and_not_in_place(uri: str) -> None:
    blob = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    schema = pa.schema([("k", pa.int64()), blob])
    data = pa.table({"k": range(3), "b": [b"old", None, b"older"]}, schema=schema)
    lance.write_dataset(data, uri, data_storage_version="2.1")
    new = pa.table({"k": [1, 2, 9], "b": [b"new", None, b"newest"]}, schema=schema)
    with pytest.raises(lw.UnsupportedError, match="in place"):
        lw.open(uri).merge(new, "k", not_matched="ignore", rewrite="columns")
    lw.open(uri).merge(new, "k")
    dataset = judged(uri)
    assert dataset.to_table(columns=["k"])["k"].to_pylist() == [0, 1, 2, 9]
    blobs = lw.open(uri).take_blobs("b", range(4))
    found = [None if each is None else each.readall() for each in blobs]
    assert found == [b"old", b"new", None, b"newest"]


def keyed(kind: pa.DataType, *more: pa.Field) -> pa.Schema:
    return pa.schema([pa.field("k", kind, False, PRIMARY), *more, pa.field("v", pa.string())])


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        (pa.int64(), [5, -7, 2**62]),
        (pa.int32(), [5, -7, 2**30]),
        (pa.uint64(), [5, 2**63 + 1]),
        (pa.uint32(), [5, 2**31 + 1]),
        (pa.string(), ["", "a", "something longer than thirty-two bytes, by far"]),
        (pa.large_string(), ["ä", "b" * 31, "c" * 32, "d" * 33]),
        (pa.binary(), [b"", b"\0\1", b"x" * 100]),
        (pa.large_binary(), [b"q" * 64]),
    ],
)
def test_inserted_keys_are_told_byte_for_byte_as_pylance_tells_them(
    tmp_path: Path, kind: pa.DataType, keys: list[Any]
) -> None:
    schema = keyed(kind)
    first = pa.table({"k": pa.array([keys[0]], kind), "v": ["a"]}, schema=schema).slice(1)
    new = pa.table({"k": pa.array(keys, kind), "v": ["b"] * len(keys)}, schema=schema)
    theirs, mine = str(tmp_path / "theirs"), str(tmp_path / "mine")
    for location in (theirs, mine):
        lance.write_dataset(first, location)
    upsert(lance.dataset(theirs)).execute(new)
    lw.open(mine).merge(new)
    assert inserted_keys(mine) == inserted_keys(theirs)


def test_inserted_keys_of_several_columns_are_told_as_pylance_tells_them(tmp_path: Path) -> None:
    def at(position: int) -> dict[bytes, bytes]:
        name = b"lance-schema:unenforced-primary-key:position"
        return PRIMARY | {name: str(position).encode()}

    schema = pa.schema(
        [pa.field("a", pa.int32(), False, at(2)), pa.field("b", pa.string(), False, at(1))]
    )
    new = pa.table({"a": pa.array([1, 2], pa.int32()), "b": ["x", "yy"]}, schema=schema)
    theirs, mine = str(tmp_path / "theirs"), str(tmp_path / "mine")
    for location in (theirs, mine):
        lance.write_dataset(new.slice(2), location)
    builder: Any = lance.dataset(theirs).merge_insert(["b", "a"])
    builder.when_matched_update_all().when_not_matched_insert_all().execute(new)
    lw.open(mine).merge(new, ["a", "b"])
    assert inserted_keys(mine) == inserted_keys(theirs) != None  # noqa: E711


@pytest.mark.parametrize("kind", [pa.int64(), pa.string(), pa.int16(), pa.date32()])
@pytest.mark.parametrize("mine_first", [True, False])
def test_of_two_upserts_of_one_key_the_second_becomes_an_update(
    uri: str, kind: pa.DataType, mine_first: bool
) -> None:
    """Also where pylance leaves keys of the type out of its own filter."""
    schema = keyed(kind)

    def some(keys: list[int], v: str) -> pa.Table:
        cast = pa.array(keys, pa.int32()).cast(kind)
        return pa.table({"k": cast, "v": [v] * len(keys)}, schema=schema)

    dataset = lance.write_dataset(some([1, 2], "old"), uri)
    table = lw.open(uri)
    if mine_first:
        table.merge(some([1, 50], "mine"))
        upsert(dataset).execute(some([2, 50], "theirs"))
    else:
        upsert(dataset).execute(some([2, 50], "theirs"))
        after = table.merge(some([1, 50], "mine"))
        assert after.counts == RowCounts(updated=2)
    check(uri)
    last = "theirs" if mine_first else "mine"
    found = lw.open(uri).to_arrow()
    assert sorted(found["v"].to_pylist()) == sorted(["mine", "theirs", last])
    assert len(set(found["k"].to_pylist())) == found.num_rows == 3


@pytest.mark.parametrize("mine_first", [True, False])
def test_upserts_of_other_keys_land_beside_each_other_without_a_second_try(
    uri: str, mine_first: bool
) -> None:
    schema = keyed(pa.int64())

    def some(keys: list[int], v: str) -> pa.Table:
        return pa.table({"k": keys, "v": [v] * len(keys)}, schema=schema)

    dataset = lance.write_dataset(some([1, 2], "old"), uri)
    table = lw.open(uri)
    if mine_first:
        table.merge(some([50], "mine"))
        upsert(dataset).conflict_retries(0).execute(some([60], "theirs"))
    else:
        upsert(dataset).execute(some([60], "theirs"))
        table.merge(some([50], "mine"))
    check(uri)
    found = lw.open(uri).to_arrow().to_pydict()
    assert dict(zip(found["k"], found["v"], strict=True)) == {
        1: "old",
        2: "old",
        50: "mine",
        60: "theirs",
    }


def test_an_upsert_of_many_keys_makes_a_concurrent_one_of_pylance_try_again(uri: str) -> None:
    schema = keyed(pa.int64())
    dataset = lance.write_dataset(pa.table({"k": [0], "v": ["old"]}, schema=schema), uri)
    many = pa.table({"k": range(1, 5_000), "v": ["mine"] * 4_999}, schema=schema)
    lw.open(uri).merge(many)
    told = inserted_keys(uri)
    assert told is not None
    assert told.WhichOneof("keys") == "exact"
    new = pa.table({"k": [4_999, 5_000], "v": ["theirs"] * 2}, schema=schema)
    counts = upsert(dataset).execute(new)
    assert counts["num_updated_rows"] == counts["num_inserted_rows"] == 1
    assert check(uri).num_rows == 5_001


KEYS = st.lists(st.one_of(st.none(), st.integers(0, 12)), max_size=10)
VALUES = st.sampled_from(["a", "b", "c"])
CONDITIONS = (
    None,
    "source.v > target.v",
    "target.n IS NULL OR source.n >= target.n",
    "source.k % 2 = 0 AND target.v <> 'a'",
)


def table_of(draw: st.DrawFn, keys: list[int | None]) -> pa.Table:
    found = [
        {"k": key, "v": draw(VALUES), "n": draw(st.one_of(st.none(), st.integers(0, 3)))}
        for key in keys
    ]
    return pa.Table.from_pylist(found, schema=SCHEMA)


@st.composite
def cases(draw: st.DrawFn) -> dict[str, Any]:
    target = draw(st.lists(st.one_of(st.none(), st.integers(0, 7)), min_size=1, max_size=9))
    source = draw(KEYS)
    unique: list[int | None] = list(dict.fromkeys(each for each in source if each is not None))
    unique += [None] * source.count(None)
    return {
        "target": table_of(draw, target),
        "source": table_of(draw, unique),
        "stable": draw(st.booleans()),
        "matched": draw(st.sampled_from(["update", "ignore", "delete"])),
        "not_matched": draw(st.sampled_from(["insert", "ignore"])),
        "orphans": draw(st.sampled_from(["keep", "delete"])),
        "where": draw(st.sampled_from(CONDITIONS)),
        "file_rows": draw(st.sampled_from([2, 4, 100])),
        "deleted": draw(st.integers(0, 8)),
    }


def is_possible(case: dict[str, Any]) -> bool:
    """pylance refuses a merge that does nothing, and fails on one that only deletes, both ways."""
    choices = (case["matched"], case["not_matched"], case["orphans"])
    return choices not in (("ignore", "ignore", "keep"), ("delete", "ignore", "delete"))


@given(cases().filter(is_possible))
@settings(deadline=None, max_examples=EXAMPLES)
def test_merges_end_as_those_of_pylance_do(case: dict[str, Any]) -> None:
    where = case["where"] if case["matched"] == "update" else None
    with tempfile.TemporaryDirectory() as directory:
        theirs, mine = f"{directory}/theirs", f"{directory}/mine"
        for location in (theirs, mine):
            made: Any = lance.write_dataset(
                case["target"],
                location,
                max_rows_per_file=case["file_rows"],
                enable_stable_row_ids=case["stable"],
            )
            made.delete(f"k = {case['deleted']}")
        builder: Any = lance.dataset(theirs).merge_insert("k")
        if case["matched"] == "update":
            builder = builder.when_matched_update_all(where)
        elif case["matched"] == "delete":
            builder = builder.when_matched_delete()
        if case["not_matched"] == "insert":
            builder = builder.when_not_matched_insert_all()
        if case["orphans"] == "delete":
            builder = builder.when_not_matched_by_source_delete()
        counts = builder.execute(case["source"])
        after = lw.open(mine).merge(
            case["source"],
            "k",
            matched=case["matched"],
            not_matched=case["not_matched"],
            not_matched_by_source=case["orphans"],
            matched_where=where,
        )
        check(mine)
        assert in_order(mine, case["stable"]) == in_order(theirs, case["stable"])
        assert (
            counts_of(after, lw.RowCounts).inserted,
            counts_of(after, lw.RowCounts).updated,
            counts_of(after, lw.RowCounts).deleted,
        ) == (
            counts["num_inserted_rows"],
            counts["num_updated_rows"],
            counts["num_deleted_rows"],
        )


def in_order(uri: str, stable: bool) -> list[str]:
    """The rows without regard to their order; ids of inserted rows may be shared out otherwise."""
    names = ["k", "v", "n", *(LINEAGE[1:] if stable else [])]
    found: Any = lance.dataset(uri).scanner(columns=names).to_table()
    return sorted(repr(each) for each in found.to_pylist())

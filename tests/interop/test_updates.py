"""Checklist lines 45 to 47 for updates: ids, row versions and values, with pylance as the judge."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.breadth import daily
from tests.counted import counts_of
from tests.manifests import (
    decode_fragments,
    edit_manifest,
    newest_manifest,
    put_fragments,
)
from tests.pylance import LINEAGE, lance

import lancewood as lw
from lancewood.errors import UnsupportedError
from lancewood.jobs.counts import RowCounts
from lancewood.proto import table_pb2

pytestmark = pytest.mark.sliced(6)

WAYS = ["rows", "columns"]


def rows(first: int, count: int, *, null_structs: bool = True) -> pa.Table:
    numbers = range(first, first + count)
    structs = [
        None
        if null_structs and each % 5 == 0
        else {"x": each, "deep": {"y": each / 2, "z": str(each)}}
        for each in numbers
    ]
    return pa.table(
        {
            "k": pa.array(numbers, pa.int64()),
            "v": [f"value {each}" for each in numbers],
            "in": structs,
            "tags": [["even"] if each % 2 == 0 else ["odd", "x"] for each in numbers],
            "vec": pa.array([[each, 1.0] for each in numbers], pa.list_(pa.float32(), 2)),
        }
    )


def scanned(table: lw.Table) -> pa.Table:
    names = [*table.schema.names, "_rowaddr", *(LINEAGE if table.has_stable_row_ids else [])]
    return table.scan(names).to_arrow()


def agree(uri: str) -> lw.Table:
    """Our table at the newest version, after pylance has validated it and read the same rows."""
    dataset, table = lance.dataset(uri), lw.open(uri)
    dataset.validate()
    ours = scanned(table)
    theirs = dataset.scanner(columns=ours.schema.names).to_table()
    assert ours.to_pylist() == theirs.to_pylist()
    assert dataset.count_rows() == table.count_rows()
    return table


def by_id(table: lw.Table) -> dict[int, dict[str, Any]]:
    return {each["_rowid"]: each for each in scanned(table).to_pylist()}


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.parametrize("stable", [True, False])
@pytest.mark.parametrize("rewrite", WAYS)
def test_line_45_after_our_updates_pylance_reads_the_same_and_goes_on(
    uri: str, version: str, stable: bool, rewrite: Any
) -> None:
    data = rows(0, 60, null_structs=version != "2.0")
    lw.create(
        uri,
        data,
        layout=lw.Layout(max_rows_per_file=25, file_version=version, stable_row_ids=stable),
        access=lw.Access(fsync=False),
    )
    agree(uri).update({"v": "v || '!'", "in.x": "k * 2"}, "k % 3 = 0", rewrite=rewrite)
    lance.dataset(uri).delete("k in (1, 3, 30)")
    agree(uri).update({"in.deep.y": '"in".x + 0.5'}, "k > 20", rewrite=rewrite)
    lance.dataset(uri).update({"v": "'theirs'"}, where="k % 4 = 0")
    agree(uri).update({"tags": ["new"], "vec": [0, 0.5]}, "k < 40", rewrite=rewrite)
    agree(uri).update({"in": None} if version != "2.0" else {"v": None}, "k = 7", rewrite=rewrite)
    lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=1000)
    table = agree(uri)
    assert table.count_rows() == 57
    agree(uri).update({"v": "'last'"}, rewrite=rewrite)
    lance.dataset(uri).merge_insert("k").when_matched_update_all().execute(
        rows(50, 3, null_structs=version != "2.0")
    )
    agree(uri)


def test_line_46_an_update_hands_out_no_new_row_ids(uri: str) -> None:
    table = lw.create(uri, rows(0, 20))
    for rewrite in WAYS:
        table = table.update({"v": "'x'"}, "k < 10", rewrite=rewrite)  # type: ignore[arg-type]
        assert newest_manifest(uri).next_row_id == 20
    lance.write_dataset(rows(20, 5), uri, mode="append")
    assert newest_manifest(uri).next_row_id == 25
    assert sorted(by_id(agree(uri))) == list(range(25))


def test_line_47_pylance_finds_a_moved_row_under_its_old_id_at_a_new_address(uri: str) -> None:
    table = lw.create(uri, rows(0, 20), layout=lw.Layout(max_rows_per_file=8)).append(rows(20, 4))
    before = by_id(table)
    after = table.update({"v": "'moved'"}, "k in (3, 9, 21)", rewrite="rows")
    assert after.counts == RowCounts(updated=3)
    names = ["k", "v", "_rowaddr", *LINEAGE]
    found = {
        each["_rowid"]: each
        for each in lance.dataset(uri).scanner(columns=names).to_table().to_pylist()
    }
    for number in (3, 9, 21):
        assert found[number]["v"] == "moved"
        assert found[number]["_rowaddr"] != before[number]["_rowaddr"]
        assert found[number]["_row_last_updated_at_version"] == 3
        created = before[number]["_row_created_at_version"]
        assert found[number]["_row_created_at_version"] == created
    taken = lance.dataset(uri)._take_rows([21, 3], columns=["k"])
    assert taken.column("k").to_pylist() == [21, 3]
    agree(uri)


def test_line_47_rows_that_stay_in_place_are_stamped_and_their_neighbours_are_not(
    uri: str,
) -> None:
    table = lw.create(uri, rows(0, 20), layout=lw.Layout(max_rows_per_file=8))
    before = by_id(table)
    table.update({"v": "'set'"}, "k in (3, 9)", rewrite="columns")
    found = by_id(agree(uri))
    for number, row in found.items():
        stamped = 2 if number in (3, 9) else 1
        assert row["_row_last_updated_at_version"] == stamped
        assert row["_rowaddr"] == before[number]["_rowaddr"]


@pytest.mark.parametrize("rewrite", WAYS)
def test_pylance_decodes_our_updates(uri: str, rewrite: str) -> None:
    table = lw.create(uri, rows(0, 20), layout=lw.Layout(max_rows_per_file=10))
    table.update({"v": "'x'"}, "k < 3", rewrite=rewrite)  # type: ignore[arg-type]
    operation = lance.dataset(uri).read_transaction(2).operation
    assert isinstance(operation, lance.LanceOperation.Update)
    assert operation.update_mode == f"rewrite_{rewrite}"
    assert [each.id for each in operation.updated_fragments] == [0]
    assert len(operation.new_fragments) == (1 if rewrite == "rows" else 0)
    modified = operation.fields_modified or operation.fields_for_preserving_frag_bitmap
    assert modified == [1]


@pytest.mark.parametrize("rewrite", WAYS)
@pytest.mark.parametrize("stable", [True, False])
@pytest.mark.parametrize(
    ("column", "kind", "filters"),
    [
        ("k", "BTREE", ["k = 3", "k = 30", "k >= 100", "k in (1, 2, 103)"]),
        ("k", "BITMAP", ["k = 3", "k = 103", "k is null"]),
        ("v", "BTREE", ["v = 'value 3'", "v = 'value 7'", "v = 'x'"]),
        ("tags", "LABEL_LIST", ["array_has(tags, 'even')", "array_has(tags, 'new')"]),
    ],
)
def test_indices_of_pylance_answer_right_after_our_updates(
    uri: str, rewrite: Any, stable: bool, column: str, kind: str, filters: list[str]
) -> None:
    lw.create(uri, rows(0, 60), layout=lw.Layout(max_rows_per_file=25, stable_row_ids=stable))
    lance.dataset(uri).create_scalar_index(column, kind)
    changes: list[tuple[dict[str, Any], str]] = [
        ({"k": "k + 100"}, "k % 10 = 3"),
        ({"v": "'x'"}, "k % 10 = 7"),
        ({"tags": ["new"]}, "k > 40"),
        ({"in.x": 5}, "k > 10"),
    ]
    for values, where in changes:
        lw.open(uri).update(values, where, rewrite=rewrite)
        dataset = lance.dataset(uri)
        for each in filters:
            indexed = dataset.to_table(filter=each, columns=["k", "v"])
            plain = dataset.scanner(
                filter=each, columns=["k", "v"], use_scalar_index=False
            ).to_table()
            assert indexed.sort_by("k") == plain.sort_by("k"), each
    agree(uri)


@pytest.mark.parametrize("rewrite", WAYS)
def test_columns_that_pylance_renamed_added_or_cast_are_updated(uri: str, rewrite: Any) -> None:
    dataset = lance.write_dataset(
        rows(0, 30), uri, max_rows_per_file=12, enable_stable_row_ids=True
    )
    dataset.add_columns({"twice": "k * 2"})
    dataset.alter_columns({"path": "v", "name": "text"}, {"path": "twice", "data_type": pa.int32()})
    dataset.add_columns(pa.field("later", pa.float32()))
    table = lw.open(uri)
    after = table.update(
        {"text": "text || '?'", "twice": "twice + 1", "later": "k / 2.0"},
        "k >= 20",
        rewrite=rewrite,
    )
    found = by_id(after)
    assert found[25]["text"] == "value 25?"
    assert found[25]["twice"] == 51
    assert found[25]["later"] == 12.5
    assert found[3]["later"] is None
    agree(uri)


@pytest.mark.parametrize("rewrite", WAYS)
def test_a_struct_that_is_split_over_files_is_compacted_by_pylance(uri: str, rewrite: Any) -> None:
    lw.create(uri, rows(0, 30), layout=lw.Layout(max_rows_per_file=12))
    agree(uri).update({"in.x": 1}, "k < 20", rewrite="columns")
    agree(uri).update({"in.deep.z": "'z'"}, "k > 5", rewrite="columns")
    table = agree(uri).update({"in.deep.y": '"in".x'}, "k > 10", rewrite=rewrite)
    expected = {key: row["in"] for key, row in by_id(table).items()}
    lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=1000)
    assert {key: row["in"] for key, row in by_id(agree(uri)).items()} == expected


@pytest.mark.parametrize("rewrite", WAYS)
@pytest.mark.parametrize("versions", [("2.0", "2.2"), ("2.2", "2.0"), ("2.1", "2.2")])
def test_fragments_of_other_file_versions_are_updated(
    uri: str, rewrite: Any, versions: tuple[str, str]
) -> None:
    """Files of version 2.0 list structs, too: what is replaced must leave that list."""
    first, second = versions
    lance.write_dataset(rows(0, 4, null_structs=False), uri, data_storage_version=first)
    more = rows(4, 4, null_structs=False)
    lance.write_dataset(more, uri, data_storage_version=second, mode="append")
    changes: list[dict[str, Any]] = [{"in.x": "k * 100"}, {"v": "'x'"}]
    if first != "2.0":
        changes += [{"in.deep": None}, {"in": None}]
    for index, values in enumerate(changes):
        agree(uri).update(values, f"k < {6 - index}", rewrite=rewrite)
    found = {each["k"]: each["in"] for each in agree(uri).to_arrow().to_pylist()}
    assert found[5]["x"] == 500
    assert found[7] == {"x": 7, "deep": {"y": 3.5, "z": "7"}}
    if first != "2.0":
        assert found[2] is None
        assert found[3] == {"x": 300, "deep": None}


@pytest.mark.parametrize("rewrite", WAYS)
@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_a_dictionary_with_nulls_is_updated_in_some_rows(
    uri: str, version: str, rewrite: Any
) -> None:
    words = ["a", None, "b", "a", None]
    kind = pa.dictionary(pa.int8(), pa.string())
    columns = {
        "k": pa.array(range(5), pa.int64()),
        "d": pa.array(words, kind),
        "in": pa.array([{"d": each} for each in words], pa.struct([("d", kind)])),
    }
    table = lw.create(uri, pa.table(columns), layout=lw.Layout(file_version=version))
    after = table.update({"d": "'new'", "in.d": "'new'"}, "k in (0, 1)", rewrite=rewrite)
    assert after.counts == RowCounts(updated=2)
    expected = {0: "new", 1: "new", 2: "b", 3: "a", 4: None}
    for found in (after.scan().to_arrow(), lance.dataset(uri).to_table()):
        assert {row["k"]: row["d"] for row in found.to_pylist()} == expected
        assert {row["k"]: row["in"]["d"] for row in found.to_pylist()} == expected


def test_blobs_of_the_second_layout_stay_where_they_are(tmp_path: Path) -> None:
    values = [b"a", None, b"c" * 100_000, b""]
    schema = pa.schema([("n", pa.int64()), lance.blob_field("b")])
    data = pa.table([pa.array(range(4)), lance.blob_array(values)], schema=schema)
    lance.write_dataset(data, tmp_path, data_storage_version="2.2")
    table = lw.open(tmp_path)
    with pytest.raises(UnsupportedError, match=r"'b' is a blob.*rewrite='columns'"):
        table.update({"n": 1}, rewrite="rows")
    after = table.update({"n": "n + 10"}, "n > 1")
    assert after.to_arrow().column("n").to_pylist() == [0, 1, 12, 13]
    for blobs in (
        after.take_blobs("b", [0, 1, 2, 3]),
        lance.dataset(tmp_path).take_blobs("b", indices=[0, 1, 2, 3]),
    ):
        assert [None if each is None else each.read() for each in blobs] == values
    with pytest.raises(UnsupportedError, match="'b' is a blob"):
        table.update({"b": b"new"})


def move_ids_out(uri: str) -> None:
    """Move row ids and first versions into a file of their own, as the specification allows."""
    out = bytearray()

    def change(manifest: table_pb2.Manifest) -> None:
        fragments = decode_fragments(manifest)
        for each in fragments:
            for what in ("row_ids", "created_at_versions"):
                data = getattr(each, f"inline_{what}")
                location = getattr(each, f"external_{what}")
                location.path, location.offset, location.size = (
                    "_lineage/all.bin",
                    len(out),
                    len(data),
                )
                out.extend(data)
        put_fragments(manifest, fragments)

    edit_manifest(uri, change)
    path = Path(uri) / "_lineage" / "all.bin"
    path.parent.mkdir()
    path.write_bytes(out)


@pytest.mark.parametrize("rewrite", WAYS)
def test_rows_whose_ids_are_outside_the_manifest_keep_them(uri: str, rewrite: Any) -> None:
    lw.create(uri, rows(0, 20), layout=lw.Layout(max_rows_per_file=8))
    move_ids_out(uri)
    table = lw.open(uri)
    before = by_id(table)
    after = table.update({"v": "'x'"}, "k in (3, 9)", rewrite=rewrite).delete("k = 10")
    found = by_id(after)
    assert found.keys() == before.keys() - {10}
    assert {key for key, row in found.items() if row["v"] == "x"} == {3, 9}
    assert found[9]["_row_created_at_version"] == 1
    assert found[9]["_row_last_updated_at_version"] == 2


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["delete", "rows", "columns", "auto", "theirs", "compact"]),
        st.integers(0, 11),
        st.integers(1, 6),
    ),
    min_size=1,
    max_size=5,
)


@given(steps=STEPS, stable=st.booleans())
@settings(
    max_examples=daily(6, of=12),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_any_order_of_deletes_and_updates_gives_what_plain_dicts_give(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int, int]], stable: bool
) -> None:
    uri = str(tmp_path_factory.mktemp("law") / "t")
    lw.create(uri, rows(0, 24), layout=lw.Layout(max_rows_per_file=7, stable_row_ids=stable))
    model = {each["k"]: each for each in rows(0, 24).to_pylist()}
    for kind, low, step in steps:
        where = f"k >= {low} and k % {step} = 0"
        hit = [key for key in model if key >= low and key % step == 0]
        if kind == "delete":
            assert counts_of(lw.open(uri).delete(where), lw.RowCounts).deleted == len(hit)
            for key in hit:
                del model[key]
        elif kind == "compact":
            lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=10)
        elif kind == "theirs":
            lance.dataset(uri).update({"v": "'theirs'"}, where=where)
            for key in hit:
                model[key]["v"] = "theirs"
        else:
            after = lw.open(uri).update(
                {"v": "v || '.'", "in.x": "k + 1"},
                where,
                rewrite=kind,  # type: ignore[arg-type]
            )
            assert counts_of(after, lw.RowCounts).updated == len(hit)
            for key in hit:
                model[key]["v"] += "."
                if model[key]["in"] is not None:
                    model[key]["in"]["x"] = key + 1
        found = {each["k"]: each for each in agree(uri).to_arrow().to_pylist()}
        assert found == model

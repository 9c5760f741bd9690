"""Compaction and index coverage, judged by pylance: its scans, its ids, its indexed answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance as pylance
import numpy as np
import pyarrow as pa
import pytest
from tests.counted import counts_of

import lancewood as lw
from lancewood.jobs.counts import CompactionCounts

lance: Any = pylance

LINEAGE = ["_rowid", "_row_created_at_version", "_row_last_updated_at_version"]


def rows(first: int, count: int) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table(
        {
            "k": pa.array(numbers, pa.int64()),
            "s": [f"text {each % 7}" for each in numbers],
            "l": [[f"t{each % 3}"] for each in numbers],
            "vec": pa.FixedSizeListArray.from_arrays(
                pa.array(np.arange(first * 4, (first + count) * 4) % 13, pa.float32()), 4
            ),
        }
    )


def everything(uri: str) -> list[dict[str, Any]]:
    """A full scan by pylance, with what it knows of every row, by id."""
    dataset = lance.dataset(uri)
    dataset.validate()
    found: list[dict[str, Any]] = dataset.to_table(
        columns=[*dataset.schema.names, *LINEAGE]
    ).to_pylist()
    return sorted(found, key=lambda each: each["_rowid"])


def lived(uri: str, *, stable: bool = True, **options: Any) -> None:
    """A table that pylance has appended to, updated, deleted from and given a column."""
    lance.write_dataset(
        rows(0, 40), uri, enable_stable_row_ids=stable, max_rows_per_file=6, **options
    )
    lance.write_dataset(rows(40, 10), uri, mode="append")
    lance.dataset(uri).update({"s": "'updated'"}, where="k % 9 = 0")
    lance.dataset(uri).add_columns({"twice": "k * 2"})
    lance.write_dataset(
        rows(50, 5).append_column("twice", pa.array(range(5), pa.int64())), uri, mode="append"
    )
    lance.dataset(uri).delete("k in (3, 4, 17, 41)")


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_pylance_finds_every_row_with_its_id_and_versions_after_our_compaction(
    uri: str, version: str
) -> None:
    lived(uri, data_storage_version=version)
    before, fragments = everything(uri), len(lw.open(uri).fragments)
    table = lw.open(uri).compact(message="tidy")
    assert everything(uri) == before
    assert len(table.fragments) == 1
    assert table.fragments[0].deletion_file is None
    assert counts_of(table, lw.CompactionCounts).fragments_removed == fragments
    assert (
        counts_of(table, lw.CompactionCounts).fragments_added
        == counts_of(table, lw.CompactionCounts).files_added
        == 1
    )
    assert counts_of(table, lw.CompactionCounts).files_removed > fragments, (
        "deletion files and added columns count"
    )
    assert table.to_arrow().to_pylist() == lance.dataset(uri).to_table().to_pylist()
    assert [each.operation for each in table.versions(2)] == ["Rewrite", "ReserveFragments"]
    assert next(table.versions()).message == "tidy"


def test_pylance_goes_on_from_our_compaction(uri: str) -> None:
    lived(uri)
    lw.open(uri).compact()
    before = everything(uri)
    lance.dataset(uri).delete("k = 20")
    lance.dataset(uri).update({"s": "'again'"}, where="k = 21")
    lance.write_dataset(
        rows(90, 3).append_column("twice", pa.array([0, 0, 0], pa.int64())), uri, mode="append"
    )
    lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=1_000)
    after = everything(uri)
    kept = {each["_rowid"]: each for each in before if each["k"] not in (20, 21)}
    assert {each["_rowid"]: each for each in after if each["_rowid"] in kept} == kept


def test_line_43_pylance_decodes_our_rewrite(uri: str) -> None:
    lived(uri)
    version = lw.open(uri).version
    table = lw.open(uri).compact()
    rewrite = lance.dataset(uri).read_transaction(table.version)
    assert type(rewrite.operation).__name__ == "Rewrite"
    assert rewrite.read_version == version
    (group,) = rewrite.operation.groups
    assert [each.id for each in group.new_fragments] == [table.fragments[0].id]


def test_without_stable_ids_rows_keep_their_order_and_indices_lose_them(uri: str) -> None:
    lived(uri, stable=False)
    dataset = lance.dataset(uri)
    dataset.create_scalar_index("k", "BTREE")
    dataset.create_scalar_index("s", "BITMAP")
    before = lance.dataset(uri).to_table().to_pylist()
    table = lw.open(uri).compact()
    dataset = lance.dataset(uri)
    dataset.validate()
    assert dataset.to_table().to_pylist() == before
    assert [list(each.fragments) for each in table.indices] == [[], []]
    for where in ("k = 21", "s = 'updated'", "k > 45 AND s != 'updated'"):
        assert_indexed_answer_is_right(uri, where)


def assert_indexed_answer_is_right(uri: str, where: str) -> None:
    dataset = lance.dataset(uri)
    by_index = dataset.to_table(columns=["k"], filter=where).column("k").to_pylist()
    by_scan = dataset.to_table(columns=["k"], filter=where, use_scalar_index=False)
    assert sorted(by_index) == sorted(by_scan.column("k").to_pylist())


def make_indices(uri: str) -> dict[str, str]:
    """One index of each kind that pylance can make here, by name."""
    dataset = lance.dataset(uri)
    kinds = {
        "btree": ("k", "BTREE"),
        "zones": ("k", "ZONEMAP"),
        "bloom": ("k", "BLOOMFILTER"),
        "bitmap": ("s", "BITMAP"),
        "labels": ("l", "LABEL_LIST"),
        "words": ("s", "INVERTED"),
        "grams": ("s", "NGRAM"),
    }
    for name, (column, kind) in kinds.items():
        dataset.create_scalar_index(column, kind, name=name)
    dataset.create_index("vec", "IVF_FLAT", num_partitions=1, name="vectors")
    return {**{name: kind for name, (_, kind) in kinds.items()}, "vectors": "IVF_FLAT"}


IN_ROW_IDS = {"bitmap", "labels", "words", "grams", "vectors"}


def test_the_kinds_of_index_that_hold_row_ids_are_those_that_pylance_does_not_rewrite(
    uri: str,
) -> None:
    """When pylance compacts, an index that names rows by stable id covers the new fragment with
    the files that it has; any other one is written anew, or loses the rows. Should pylance change
    its mind, ``Index.holds_row_ids`` must follow."""
    lance.write_dataset(rows(0, 40), uri, enable_stable_row_ids=True, max_rows_per_file=10)
    make_indices(uri)
    before = {each.name: each.uuid for each in lw.open(uri).indices}
    lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=1_000)
    after = {each.name: each for each in lw.open(uri).indices}
    (fragment,) = [each.id for each in lw.open(uri).fragments]
    follows = {
        name
        for name, uuid in before.items()
        if after[name].uuid == uuid and list(after[name].fragments) == [fragment]
    }
    assert follows == IN_ROW_IDS
    assert {each.name for each in after.values() if each.holds_row_ids} == IN_ROW_IDS


@pytest.mark.parametrize("version", [1, 2, 3])
def test_every_version_of_a_full_text_index_follows_in_pylance(
    uri: str, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANCE_FTS_FORMAT_VERSION", str(version))
    dataset = lance.write_dataset(
        rows(0, 40), uri, enable_stable_row_ids=True, max_rows_per_file=10
    )
    dataset.create_scalar_index("s", "INVERTED", name="words")
    (before,) = lw.open(uri).indices
    assert (before.message.index_version, before.holds_row_ids) == (version, True)
    lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=1_000)
    (after,) = lw.open(uri).indices
    assert (after.uuid, list(after.fragments)) == (before.uuid, [4])


@pytest.mark.parametrize("kind", ["IVF_PQ", "IVF_SQ", "IVF_RQ", "IVF_HNSW_SQ"])
def test_every_vector_index_that_pylance_writes_is_of_a_known_version(uri: str, kind: str) -> None:
    values = np.random.default_rng(1).random(256 * 16).astype(np.float32)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(values), 16)
    dataset: Any = lance.write_dataset(pa.table({"v": vectors}), uri, enable_stable_row_ids=True)
    more = {"num_sub_vectors": 4} if kind == "IVF_PQ" else {}
    dataset.create_index("v", kind, num_partitions=1, **more)
    (index,) = lw.open(uri).indices
    assert index.holds_row_ids


def test_an_index_on_another_column_follows_an_update_of_pylance_only_in_row_ids(uri: str) -> None:
    lance.write_dataset(rows(0, 40), uri, enable_stable_row_ids=True)
    make_indices(uri)
    lance.dataset(uri).add_columns({"other": "k"})
    lance.dataset(uri).update({"other": "-1"}, where="k < 5")
    covered = {each.name for each in lw.open(uri).indices if list(each.fragments) == [0, 1]}
    assert covered == IN_ROW_IDS


def test_with_stable_ids_indices_that_hold_them_cover_our_new_fragments(uri: str) -> None:
    lance.write_dataset(rows(0, 40), uri, enable_stable_row_ids=True, max_rows_per_file=10)
    make_indices(uri)
    lance.write_dataset(rows(40, 10), uri, mode="append")
    lance.dataset(uri).delete("k in (7, 8, 22)")
    nearest = {"column": "vec", "q": [1.0, 2.0, 3.0, 4.0], "k": 9}
    before = everything(uri)
    table = lw.open(uri).compact()
    assert everything(uri) == before
    appended, compacted = (each.id for each in table.fragments)
    assert appended == 4, "rows without an index are not joined with those that have one"
    covered = {each.name: list(each.fragments) for each in table.indices}
    assert {name for name, fragments in covered.items() if fragments == [compacted]} == IN_ROW_IDS
    assert all(not fragments for name, fragments in covered.items() if name not in IN_ROW_IDS)
    for where in (
        "k = 21",
        "k in (7, 9, 45)",
        "s = 'text 3'",
        "array_has_any(l, ['t1'])",
        "contains(s, 'ext 4')",
    ):
        assert_indexed_answer_is_right(uri, where)
    dataset = lance.dataset(uri)
    for options in ({}, {"fast_search": True}):
        found = dataset.to_table(columns=["k"], nearest=nearest, **options).column("k").to_pylist()
        if not options:
            nearest_by_scan = dataset.to_table(
                columns=["k"], nearest={**nearest, "use_index": False}
            )
            scanned = nearest_by_scan.column("k").to_pylist()
            assert sorted(found) == sorted(scanned)
        assert not {7, 8, 22} & set(found)
    words = dataset.to_table(columns=["k"], full_text_query="3").column("k").to_pylist()
    assert sorted(words) == sorted(
        each["k"] for each in before if each["s"].split() == ["text", "3"]
    )


def test_the_example_of_the_specification(uri: str) -> None:
    """One fragment, a scalar index on a string and a vector index; one vector is updated. The
    scalar index then answers for both fragments, the vector index for the rows that stayed."""
    lance.write_dataset(rows(1, 3), uri, enable_stable_row_ids=True)
    dataset = lance.dataset(uri)
    dataset.create_scalar_index("s", "BITMAP", name="str")
    dataset.create_index("vec", "IVF_FLAT", num_partitions=1, name="vec")
    table = lw.open(uri).update({"vec": [9.0, 9.0, 9.0, 9.0]}, "k = 2")
    scalar, vector = table.index_mask("str"), table.index_mask("vec")
    assert list(scalar.fragments) == [0, 1]
    assert not scalar.uncovered
    assert scalar.row_count == 3
    assert scalar.allows([0, 1, 2, 3]).tolist() == [True, True, True, False]
    assert list(vector.fragments) == [0]
    assert list(vector.uncovered) == [1]
    assert vector.row_count == 2
    assert vector.allows([0, 1, 2, 3]).tolist() == [True, False, True, False]
    assert list(vector.runs()) == [(0, 1), (2, 1)]
    assert_indexed_answer_is_right(uri, "s = 'text 2'")


def test_line_64_a_compaction_with_deferred_remapping_is_left_to_pylance(uri: str) -> None:
    lance.write_dataset(rows(0, 40), uri, max_rows_per_file=10)
    dataset = lance.dataset(uri)
    dataset.create_scalar_index("k", "BTREE")
    dataset.optimize.compact_files(target_rows_per_fragment=1_000, defer_index_remap=True)
    lance.write_dataset(rows(40, 10), uri, mode="append")
    files = sorted((Path(uri) / "data").iterdir())
    table = lw.open(uri)
    with pytest.raises(lw.UnsupportedError, match="__lance_frag_reuse"):
        table.compact()
    assert sorted((Path(uri) / "data").iterdir()) == files
    with pytest.raises(lw.UnsupportedError, match="__lance_frag_reuse"):
        table.index_mask("k_idx")


def test_a_clone_is_compacted_into_its_own_root(uri: str, tmp_path: Path) -> None:
    lived(uri)
    clone = str(tmp_path / "clone.lance")
    lance.dataset(uri).shallow_clone(clone, lance.dataset(uri).version)
    before = everything(clone)
    there = sorted((Path(uri) / "data").iterdir())
    table = lw.open(clone).compact()
    assert everything(clone) == before
    assert [file.base_id for each in table.fragments for file in each.files] == [None]
    assert sorted((Path(uri) / "data").iterdir()) == there


def test_changing_dictionaries_are_carried_along(uri: str) -> None:
    def of(words: list[str]) -> pa.Table:
        return pa.table({"d": pa.array(words).dictionary_encode()})

    lance.write_dataset(of(["a", "b", "a"]), uri, enable_stable_row_ids=True)
    lance.write_dataset(of(["c", "b", "d", "c"]), uri, mode="append")
    lw.open(uri).compact()
    lance.dataset(uri).validate()
    expected = ["a", "b", "a", "c", "b", "d", "c"]
    assert lance.dataset(uri).to_table().column("d").to_pylist() == expected
    assert lw.open(uri).to_arrow().column("d").to_pylist() == expected


def test_blobs_of_the_first_layout_are_written_anew_with_their_bytes(uri: str) -> None:
    field = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    values = [b"one", None, b"", b"x" * 300_000, b"five", b"six"]
    table = pa.table([range(6), values], schema=pa.schema([("k", pa.int64()), field]))
    lance.write_dataset(
        table, uri, data_storage_version="2.1", enable_stable_row_ids=True, max_rows_per_file=2
    )
    lance.dataset(uri).delete("k = 4")
    after = lw.open(uri).compact()
    assert len(after.fragments) == 1
    dataset = lance.dataset(uri)
    dataset.validate()
    found = dataset.take_blobs("b", indices=[0, 2, 3, 4])
    assert [each.readall() for each in found] == [b"one", b"", b"x" * 300_000, b"six"]


def test_blobs_of_the_second_layout_are_refused_before_anything_is_read(uri: str) -> None:
    schema = pa.schema([("k", pa.int64()), lance.blob_field("b")])
    table = pa.table([range(4), lance.blob_array([b"a", b"b", b"c", b"d"])], schema=schema)
    lance.write_dataset(table, uri, data_storage_version="2.2", max_rows_per_file=1)
    with pytest.raises(lw.UnsupportedError, match="second layout"):
        lw.open(uri).compact()
    assert lw.open(uri).version == 1


def test_many_types_survive(uri: str) -> None:
    table = pa.table(
        {
            "i": pa.array([1, None, 3, 4], pa.int16()),
            "struct": [{"a": 1, "b": ["x"]}, None, {"a": None, "b": []}, {"a": 4, "b": None}],
            "map": pa.array([[("k", 1)], None, [], [("q", 2)]], pa.map_(pa.string(), pa.int32())),
            "json": pa.array(['{"a": [1, 2.5, "x"]}', None, "3", "[]"], pa.json_()),
            "time": pa.array([0, 1, None, 3], pa.timestamp("us", "UTC")),
            "dec": pa.array([None, 1, 2, 3], pa.decimal128(20, 3)),
            "fsb": pa.array([b"ab", None, b"cd", b"ef"], pa.binary(2)),
            "none": pa.nulls(4),
            "big": pa.array(["a", "b", None, "d"], pa.large_string()),
        }
    )
    lance.write_dataset(table, uri, enable_stable_row_ids=True, max_rows_per_file=1)
    lance.dataset(uri).delete("i = 3")
    before = everything(uri)
    assert lw.open(uri).compact().counts == CompactionCounts(3, 1, 3, 1)
    assert everything(uri) == before

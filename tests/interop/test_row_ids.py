"""Checklist lines 45, 46 and 49: stable row ids and row versions."""

from __future__ import annotations

from typing import Any

import lance
import pyarrow as pa
import pytest
from tests.manifests import (
    decode_fragments,
    edit_manifest,
    newest_manifest,
    put_fragments,
)
from tests.pylance import LINEAGE, judged

import lancewood as lw
from lancewood.proto import table_pb2


def rows(start: int, stop: int) -> pa.Table:
    return pa.table({"k": pa.array(range(start, stop), pa.int64()), "v": ["x"] * (stop - start)})


def check(uri: str) -> None:
    dataset: Any = lance.dataset(uri)
    expected = dataset.scanner(columns=["k", "v", *LINEAGE], with_row_address=True).to_table()
    got = lw.open(uri).scan(["k", "v", *LINEAGE], with_row_address=True).to_arrow()
    assert got.to_pylist() == expected.to_pylist()
    table = lw.open(uri)
    ids = got.column("_rowid").to_pylist()
    assert (
        table.take(row_ids=ids[::-1], columns=["k"]).column("k").to_pylist()
        == (got.column("k").to_pylist()[::-1])
    )


@pytest.mark.parametrize("stable", [True, False])
def test_line_45_lineage_is_the_same_after_every_operation_of_pylance(
    uri: str, stable: bool
) -> None:
    dataset: Any = lance.write_dataset(
        rows(0, 20), uri, enable_stable_row_ids=stable, max_rows_per_file=7
    )
    check(uri)
    dataset = lance.write_dataset(rows(20, 30), dataset, mode="append")
    check(uri)
    dataset.update({"v": "'updated'"}, where="k % 5 = 0")
    check(uri)
    dataset.delete("k in (3, 4, 17)")
    check(uri)
    dataset.merge_insert("k").when_matched_update_all().when_not_matched_insert_all().execute(
        rows(28, 34)
    )
    check(uri)
    lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=100)
    check(uri)
    dataset = lance.dataset(uri)
    dataset.delete("k > 30")
    check(uri)


def test_line_46_our_appends_hand_out_ids_that_pylance_validates(uri: str) -> None:
    table = lw.create(uri, rows(0, 10), layout=lw.Layout(max_rows_per_file=4))
    assert newest_manifest(uri).next_row_id == 10
    table = table.append(rows(10, 15))
    assert newest_manifest(uri).next_row_id == 15
    lance.write_dataset(rows(15, 18), uri, mode="append")
    table = table.append(rows(18, 20))
    assert newest_manifest(uri).next_row_id == 20
    dataset = judged(uri)
    check(uri)
    got = dataset.scanner(columns=["k", *LINEAGE]).to_table()
    assert got.column("_rowid").to_pylist() == list(range(20))
    assert (
        got.column("_row_created_at_version").to_pylist() == [1] * 10 + [2] * 5 + [3] * 3 + [4] * 2
    )
    dataset.update({"v": "'u'"}, where="k in (0, 12)")
    dataset.optimize.compact_files()
    check(uri)


def test_line_46_ids_go_on_after_an_overwrite(uri: str) -> None:
    table = lw.create(uri, rows(0, 10)).overwrite(rows(0, 3))
    assert table.scan(["_rowid"]).to_arrow().column(0).to_pylist() == [10, 11, 12]
    lance.dataset(uri).validate()
    check(uri)


def test_line_49_no_version_of_ours_lacks_a_sequence(uri: str) -> None:
    table = lw.create(uri, pa.schema([("k", pa.int64()), ("v", pa.string())]))
    table = table.append(rows(0, 3)).append(rows(3, 5)).restore(2).append(rows(5, 6))
    for version in (each.version for each in table.versions()):
        for fragment in lw.open(uri, version=version).fragments:
            assert fragment.row_ids is not None
            assert len(fragment.row_ids) == fragment.physical_rows
        lance.dataset(uri, version=version).validate()


def test_line_49_a_missing_sequence_is_refused(uri: str) -> None:
    lw.create(uri, rows(0, 3))

    def forget(message: table_pb2.Manifest) -> None:
        (fragment,) = decode_fragments(message)
        fragment.ClearField("inline_row_ids")
        put_fragments(message, [fragment])

    edit_manifest(uri, forget)
    with pytest.raises(Exception, match="row id"):
        lance.dataset(uri).to_table()
    with pytest.raises(lw.FormatError, match="has no row ids"):
        lw.open(uri).scan(with_row_id=True).to_arrow()


def test_taking_an_id_that_is_gone_is_an_error(uri: str) -> None:
    lw.create(uri, rows(0, 5))
    lance.dataset(uri).delete("k = 2")
    with pytest.raises(lw.NotFoundError, match="row id 2 not found"):
        lw.open(uri).take(row_ids=[1, 2])


@pytest.mark.parametrize("file_version", ["2.0", "2.1", "2.2"])
def test_deletion_files_of_both_kinds_are_applied(uri: str, file_version: str) -> None:
    lance.write_dataset(rows(0, 20_000), uri, data_storage_version=file_version)
    dataset = lance.dataset(uri)
    dataset.delete("k % 7 = 3 and k < 100")
    assert lw.open(uri).to_arrow() == lance.dataset(uri).to_table()
    dataset.delete("k % 3 = 0")
    table = lw.open(uri)
    expected = lance.dataset(uri).to_table()
    assert table.count_rows() == expected.num_rows
    assert table.to_arrow() == expected
    assert table.scan(limit=50, offset=4321).to_arrow() == expected.slice(4321, 50)
    positions = [0, 5, 13_000, 5, 1]
    assert table.take(positions) == expected.take(positions)
    assert table.scan(batch_rows=1000).to_arrow() == expected


def test_a_number_of_deleted_rows_that_is_unknown_is_found_in_the_file(uri: str) -> None:
    lance.write_dataset(rows(0, 10), uri)
    lance.dataset(uri).delete("k < 5")

    def forget(message: table_pb2.Manifest) -> None:
        (fragment,) = decode_fragments(message)
        fragment.deletion_file.num_deleted_rows = 0
        put_fragments(message, [fragment])

    edit_manifest(uri, forget)
    table = lw.open(uri)
    assert table.count_rows() == lance.dataset(uri).count_rows() == 5
    assert table.head(8).column("k").to_pylist() == [5, 6, 7, 8, 9]
    assert table.take([4]).column("k").to_pylist() == [9]
    with pytest.raises(lw.InvalidInputError, match="5 does not exist"):
        table.take([5])


def test_a_fragment_mark_that_is_too_low_is_raised(uri: str) -> None:
    lw.create(uri, rows(0, 10), layout=lw.Layout(max_rows_per_file=4))

    def lower(message: table_pb2.Manifest) -> None:
        message.max_fragment_id = 0

    edit_manifest(uri, lower)
    table = lw.open(uri).append(rows(10, 12))
    assert [each.id for each in table.fragments] == [0, 1, 2, 3]
    lance.dataset(uri).validate()


def test_a_missing_fragment_mark_is_found_in_the_fragments(uri: str) -> None:
    lw.create(uri, rows(0, 10), layout=lw.Layout(max_rows_per_file=4))

    def forget(message: table_pb2.Manifest) -> None:
        message.ClearField("max_fragment_id")

    edit_manifest(uri, forget)
    table = lw.open(uri).append(rows(10, 12))
    assert [each.id for each in table.fragments] == [0, 1, 2, 3]
    lance.dataset(uri).validate()


@pytest.mark.parametrize("stable", [True, False])
def test_row_counts_that_a_writer_left_out_are_found_in_the_files(uri: str, stable: bool) -> None:
    lance.write_dataset(rows(0, 20), uri, max_rows_per_file=8, enable_stable_row_ids=stable)
    lance.dataset(uri).delete("k in (3, 12)")

    def forget(message: table_pb2.Manifest) -> None:
        fragments = decode_fragments(message)
        for each in fragments:
            each.physical_rows = 0
            for file in each.files:
                file.file_size_bytes = 0
        put_fragments(message, fragments)

    expected, lineage = lw.open(uri).to_arrow(), lw.open(uri).scan(LINEAGE).to_arrow()
    edit_manifest(uri, forget)
    table = lw.open(uri)
    assert table.stats().rows is None
    assert table.count_rows() == 18
    assert table.to_arrow() == expected
    assert table.scan(limit=4, offset=9).to_arrow() == expected.slice(9, 4)
    assert table.take([17, 2]) == expected.take([17, 2])
    assert table.scan(LINEAGE).to_arrow() == lineage

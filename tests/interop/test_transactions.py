"""Checklist lines 33, 36, 39 to 44: what happens when two writers meet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance.commit import CommitConflictError
from tests.manifests import add_version, newest_manifest
from tests.pylance import judged

import lancewood as lw
from lancewood.model.ids import Version
from lancewood.model.transaction import (
    Append,
    MapUpdate,
    Operation,
    Overwrite,
    ReserveFragments,
    Restore,
    UpdateBases,
    UpdateConfig,
)
from lancewood.proto import table_pb2, transaction_pb2

ROWS = pa.table({"a": [1, 2, 3]})
MORE = pa.table({"a": [4]})


@pytest.mark.parametrize("stable", [True, False])
def test_line_33_two_appends_on_one_version_both_land(uri: str, stable: bool) -> None:
    ours = lw.create(uri, ROWS, layout=lw.Layout(stable_row_ids=stable))
    theirs = lance.dataset(uri)
    lance.write_dataset(pa.table({"a": [5, 6]}), theirs, mode="append")
    ours.append(MORE)
    lance.write_dataset(pa.table({"a": [7]}), theirs, mode="append")
    dataset = judged(uri)
    assert sorted(dataset.to_table().column("a").to_pylist()) == [1, 2, 3, 4, 5, 6, 7]
    ids = dataset.scanner(with_row_id=True).to_table().column("_rowid").to_pylist()
    assert len(set(ids)) == 7
    assert [each.fragment_id for each in dataset.get_fragments()] == [0, 1, 2, 3]


def test_line_36_an_append_does_not_survive_an_overwrite(uri: str) -> None:
    ours = lw.create(uri, ROWS)
    lance.write_dataset(pa.table({"b": [1.5]}), uri, mode="overwrite")
    with pytest.raises(
        lw.IncompatibleConflictError, match=r"Append built on version 1 .*Overwrite in version 2"
    ):
        ours.append(MORE)
    assert lance.dataset(uri).version == 2
    assert len(list((Path(uri) / "data").iterdir())) == 2


def test_line_36_and_the_other_way_round(uri: str) -> None:
    table = lw.create(uri, ROWS)
    fragment = lance.fragment.LanceFragment.create(uri, MORE)
    table.overwrite(pa.table({"b": [1.5]}))
    with pytest.raises(CommitConflictError):
        lance.LanceDataset.commit(uri, lance.LanceOperation.Append([fragment]), read_version=1)


def test_an_overwrite_follows_an_append(uri: str) -> None:
    ours = lw.create(uri, ROWS)
    lance.write_dataset(MORE, uri, mode="append")
    assert ours.overwrite(pa.table({"b": [1.5]})).version == 3
    assert lance.dataset(uri).to_table() == pa.table({"b": [1.5]})


def test_line_39_one_key_conflicts_two_keys_do_not(uri: str) -> None:
    ours = lw.create(uri, ROWS)
    lance.dataset(uri).update_config({"theirs": "1"})
    assert ours.set_config({"ours": "1"}).config == {"theirs": "1", "ours": "1"}
    with pytest.raises(lw.IncompatibleConflictError, match="same configuration key"):
        ours.set_config({"theirs": "2"})
    assert lance.dataset(uri).config() == {"theirs": "1", "ours": "1"}
    ours.set_metadata({"owner": "me"})
    assert dict(lance.dataset(uri).metadata) == {"owner": "me"}


OPERATIONS: list[Operation] = [
    Append(()),
    Overwrite((), ()),
    Restore(Version(1)),
    ReserveFragments(1),
    UpdateConfig(config=MapUpdate({"a": "1"})),
    UpdateBases((table_pb2.BasePath(path="/elsewhere"),)),
]


@pytest.mark.parametrize("mine", OPERATIONS, ids=lambda each: type(each).__name__)
def test_line_40_an_unknown_operation_stops_every_commit(uri: str, mine: Operation) -> None:
    """UpdateBases included: the specification is stricter there than pylance."""
    table = lw.create(uri, ROWS)
    unknown = transaction_pb2.Transaction(read_version=1, uuid="x").SerializeToString()
    add_version(uri, unknown + b"\xa2\x07\x00")
    with pytest.raises(lw.IncompatibleConflictError, match="number 116"):
        table.commit(table.transaction(mine))
    assert lw.open(uri).version == 2


@pytest.mark.parametrize("mine", OPERATIONS, ids=lambda each: type(each).__name__)
def test_line_41_a_version_without_transaction_stops_every_commit(
    uri: str, mine: Operation
) -> None:
    table = lw.create(uri, ROWS)
    add_version(uri, None)
    with pytest.raises(lw.IncompatibleConflictError, match="cannot be found"):
        table.commit(table.transaction(mine))
    latest = table.latest()
    (newest, _) = latest.versions()
    assert newest.operation is None
    assert latest.append(MORE).version == 3


def test_an_inline_transaction_that_cannot_be_decoded_counts_as_missing(uri: str) -> None:
    table = lw.create(uri, ROWS)
    add_version(uri, b"\xff\xff\xff")
    with pytest.raises(lw.IncompatibleConflictError, match="cannot be decoded"):
        table.append(MORE)
    assert table.latest().count_rows() == 3


def test_line_43_pylance_decodes_what_we_committed(uri: str) -> None:
    table = lw.create(uri, ROWS, message="one", commit=lw.CommitOptions(properties={"by": "me"}))
    table = table.append(MORE, message="two")
    table = table.set_config({"k": "v"})
    table = table.restore(1)
    table = table.commit(table.transaction(ReserveFragments(2)))
    table = table.overwrite(pa.table({"b": ["x"]}))
    base = table_pb2.BasePath(path=f"{uri}.cold", name="cold", is_dataset_root=True)
    table.commit(table.transaction(UpdateBases((base,))))
    dataset = lance.dataset(uri)
    read = [dataset.read_transaction(n) for n in range(1, 8)]
    names = [type(each.operation).__name__ for each in read]
    assert names[:4] == ["Overwrite", "Append", "UpdateConfig", "Restore"]
    assert names[5] == "Overwrite"
    assert read[0].transaction_properties == {"__lance_commit_message": "one", "by": "me"}
    assert read[1].transaction_properties == {"__lance_commit_message": "two"}
    assert read[1].read_version == 1
    assert len(read[1].operation.fragments) == 1
    assert [each.operation for each in lw.open(uri).versions()] == [
        "UpdateBases",
        "Overwrite",
        "ReserveFragments",
        "Restore",
        "UpdateConfig",
        "Append",
        "Overwrite",
    ]
    for each in sorted((Path(uri) / "_transactions").iterdir()):
        transaction_pb2.Transaction.FromString(each.read_bytes())


@pytest.mark.parametrize("stable", [True, False])
def test_line_44_restore_brings_rows_back_and_ids_do_not_collide(uri: str, stable: bool) -> None:
    table = (
        lw.create(uri, ROWS, layout=lw.Layout(stable_row_ids=stable)).append(MORE).overwrite(MORE)
    )
    table = table.restore(2)
    assert table.version == 4
    dataset = judged(uri)
    assert dataset.to_table().column("a").to_pylist() == [1, 2, 3, 4]
    lance.write_dataset(MORE, uri, mode="append")
    table.latest().append(MORE)
    ids = [each.fragment_id for each in lance.dataset(uri).get_fragments()]
    assert ids == [0, 1, 3, 4]
    lance.dataset(uri).validate()


def test_restore_by_pylance_is_read_by_us(uri: str) -> None:
    table = lw.create(uri, ROWS).append(MORE)
    old: Any = lance.dataset(uri, version=1)
    old.restore()
    assert table.latest().version == 3
    assert table.latest().to_arrow() == ROWS


def test_an_append_across_an_added_column_lands(uri: str) -> None:
    ours = lw.create(uri, ROWS)
    lance.dataset(uri).add_columns({"b": "nullif(a * 10, -1)"})
    assert ours.append(MORE).version == 3
    assert lw.open(uri).to_arrow().column("b").to_pylist() == [10, 20, 30, None]


def test_an_append_across_a_renamed_or_dropped_column_lands(uri: str) -> None:
    rows = pa.table({"a": [1], "b": [2], "c": [3]})
    ours = lw.create(uri, rows)
    lance.dataset(uri).alter_columns({"path": "a", "name": "z"})
    lance.dataset(uri).drop_columns(["b"])
    ours.append(rows)
    assert lw.open(uri).to_arrow() == pa.table({"z": [1, 1], "c": [3, 3]})
    assert lance.dataset(uri).to_table() == pa.table({"z": [1, 1], "c": [3, 3]})


def test_an_append_across_a_cast_is_run_again(uri: str) -> None:
    ours = lw.create(uri, ROWS)
    lance.dataset(uri).alter_columns({"path": "a", "data_type": pa.int32()})
    with pytest.raises(lw.RetryableConflictError, match="'a' was replaced by another"):
        ours.append(MORE)
    assert lw.open(uri).count_rows() == 3


def test_an_append_never_fills_a_column_that_got_its_id(uri: str) -> None:
    lw.create(uri, ROWS)
    lance.dataset(uri).add_columns({"b": "nullif(a * 10, -1)"})
    ours = lw.open(uri)
    dataset: Any = lance.dataset(uri)
    dataset.drop_columns(["b"])
    dataset.add_columns(pa.field("c", pa.int64()))
    with pytest.raises(lw.RetryableConflictError, match=r"given"):
        ours.append(pa.table({"a": [4], "b": [40]}))
    assert lw.open(uri).to_arrow().column("c").to_pylist() == [None] * 3


def test_serializable_refuses_if_the_table_moved_at_all(uri: str) -> None:
    ours = lw.create(uri, ROWS)
    lance.write_dataset(MORE, uri, mode="append")
    with pytest.raises(lw.RetryableConflictError, match="serializable"):
        ours.append(MORE, commit=lw.CommitOptions(serializable=True))
    assert ours.latest().append(MORE, commit=lw.CommitOptions(serializable=True)).version == 3


def test_a_list_of_operations_becomes_consecutive_versions(uri: str) -> None:
    table = lw.create(uri, ROWS)
    first, second = table.write_fragments(MORE), table.write_fragments(MORE)
    both = table.transaction(
        Append(first), UpdateConfig(config=MapUpdate({"k": "v"})), Append(second), message="all"
    )
    table = table.commit(both)
    assert table.version == 4
    assert [each.operation for each in table.versions()] == [
        "Append",
        "UpdateConfig",
        "Append",
        "Overwrite",
    ]
    dataset = judged(uri)
    assert dataset.count_rows() == 5
    uuids = {dataset.read_transaction(n).uuid for n in (2, 3, 4)}
    assert len(uuids) == 3
    assert both.uuid in uuids


def test_a_list_is_judged_as_a_whole_before_its_first_version(uri: str) -> None:
    table = lw.create(uri, ROWS)
    fragments = table.write_fragments(MORE)
    both = table.transaction(Append(fragments), UpdateConfig(config=MapUpdate({"k": "ours"})))
    lance.dataset(uri).update_config({"k": "theirs"})
    with pytest.raises(lw.IncompatibleConflictError):
        table.commit(both)
    assert lw.open(uri).version == 2


def test_a_large_transaction_stays_out_of_the_manifest(uri: str) -> None:
    table = lw.create(uri, ROWS)
    (fragment,) = table.write_fragments(MORE)
    table = table.commit(table.transaction(Append((fragment,) * 1500)))
    manifest = newest_manifest(uri)
    assert manifest.transaction_section is None
    assert manifest.transaction_file is not None
    assert lance.dataset(uri).count_rows() == 1503
    assert len(lance.dataset(uri).read_transaction(2).operation.fragments) == 1500
    assert next(table.versions()).operation == "Append"
    stale = table.checkout(version=1)
    assert stale.append(MORE).version == 3
    lance.write_dataset(MORE, lance.dataset(uri, version=1), mode="append")
    assert lance.dataset(uri).version == 4

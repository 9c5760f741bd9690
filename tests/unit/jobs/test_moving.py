"""Rows on their way to new fragments: values, ids and first versions go along."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap

import lancewood as lw
from lancewood.data.wanted import WantedColumns
from lancewood.engine.base.limits import FileLimits
from lancewood.engine.location.file_roots import NewFile, new_data_files
from lancewood.engine.rows.facts import open_fragment
from lancewood.engine.snapshot.snapshot import Snapshot
from lancewood.errors import InvalidInputError, UnsupportedError
from lancewood.jobs.rows import matching as module
from lancewood.jobs.rows.blob_values import with_blob_values
from lancewood.jobs.rows.matching import MovingRows, check_movable, read_moving, write_moved
from lancewood.model.fragment import Fragment
from lancewood.model.rowids import RowIdSequence

BLOB = {"lance-encoding:blob": "true"}


def rows(first: int, count: int) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table(
        {
            "n": pa.array(numbers, pa.int64()),
            "s": [f"row {each}" for each in numbers],
            "wide": [bytes([each % 256]) * 3000 for each in numbers],
            "in": [None if each % 5 == 0 else {"x": each} for each in numbers],
        }
    )


@pytest.fixture
def table(tmp_path: Path) -> lw.Table:
    """Two fragments, of two versions."""
    made = lw.create(tmp_path / "t", rows(0, 50), access=lw.Access(fsync=False))
    return made.append(rows(50, 50))


def bare(table: lw.Table) -> Snapshot:
    travelled: Snapshot = pickle.loads(pickle.dumps(table._snapshot.bare()))
    return travelled


def numbers(moved: list[MovingRows]) -> list[int]:
    return [each for part in moved for each in part.rows.column("n").to_pylist()]


def read_back(snapshot: Snapshot, fragment: Fragment) -> pa.Table:
    wanted = WantedColumns(snapshot.schema)
    return pa.Table.from_batches(open_fragment(snapshot, fragment, wanted).batches())


def ids_of(fragment: Fragment) -> list[int]:
    return [] if fragment.row_ids is None else list(fragment.row_ids)


@pytest.mark.parametrize("offsets", [[0], [3, 4, 40], list(range(50))])
def test_rows_are_read_at_offsets_with_all_that_stays(table: lw.Table, offsets: list[int]) -> None:
    moved = list(read_moving(bare(table), table.fragments[1], BitMap(offsets)))
    assert numbers(moved) == [50 + each for each in offsets]
    (only,) = moved
    assert only.rows.schema.names == table.schema.names
    assert only.addresses.tolist() == [(1 << 32) + each for each in offsets]
    assert only.ids is not None
    assert only.ids.tolist() == [50 + each for each in offsets]
    assert only.created_at is not None
    assert only.created_at.tolist() == [2] * len(offsets)
    expected = table.to_arrow().take(pa.array(50 + np.array(offsets)))
    assert pa.Table.from_batches([only.rows]).to_pylist() == expected.to_pylist()


def test_no_offsets_are_no_rows(table: lw.Table) -> None:
    assert list(read_moving(bare(table), table.fragments[0], BitMap())) == []


def test_narrow_and_wide_columns_are_read_each_in_its_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lancewood.engine.rows.picking.CALL", 0.0)
    table = lw.create(tmp_path / "t", rows(0, 5000), access=lw.Access(fsync=False))
    offsets = BitMap(range(0, 5000, 16))
    moved = list(read_moving(bare(table), table.fragments[0], offsets))
    found = pa.Table.from_batches([each.rows for each in moved])
    assert found.to_pylist() == table.to_arrow().take(pa.array(list(offsets))).to_pylist()


def test_a_table_without_stable_ids_has_nothing_that_stays(tmp_path: Path) -> None:
    table = lw.create(
        tmp_path / "t",
        rows(0, 10),
        layout=lw.Layout(stable_row_ids=False),
        access=lw.Access(fsync=False),
    )
    moved = list(read_moving(bare(table), table.fragments[0], BitMap([1])))
    assert moved[0].ids is None
    assert moved[0].created_at is None
    (fragment,) = write_moved(bare(table), moved)
    assert fragment.lineage("row_ids") is None


def test_moved_rows_keep_ids_and_first_versions_in_their_new_fragment(table: lw.Table) -> None:
    snapshot = bare(table)
    one = read_moving(snapshot, table.fragments[0], BitMap([7, 8]))
    other = read_moving(snapshot, table.fragments[1], BitMap([1]))
    (fragment,) = write_moved(snapshot, [*one, *other])
    assert fragment.physical_rows == 3
    assert ids_of(fragment) == [7, 8, 51]
    assert fragment.created_at is not None
    assert list(fragment.created_at) == [1, 1, 2]
    assert fragment.last_updated_at is None, "the commit says which version it is"
    assert read_back(snapshot, fragment).column("n").to_pylist() == [7, 8, 51]


def test_lineage_is_cut_where_the_files_are(
    table: lw.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FileLimits", lambda: FileLimits(max_rows=4))
    snapshot = bare(table)
    moved = read_moving(snapshot, table.fragments[0], BitMap([1, 2, 3, 10, 11, 12]))
    inserted = rows(1000, 5).to_batches()
    fragments = write_moved(snapshot, moved, inserted)
    assert [each.physical_rows for each in fragments] == [4, 4, 3]
    assert fragments[0].row_ids is not None
    assert list(fragments[0].row_ids) == [1, 2, 3, 10]
    encoded = fragments[1].message.inline_row_ids
    assert list(RowIdSequence.decode(encoded)) == [11, 12]
    assert fragments[2].lineage("row_ids") is None
    expected = tuple(NewFile(f"data/{each.files[0].path}") for each in fragments)
    assert new_data_files(fragments) == expected


def test_columns_may_come_in_another_order(table: lw.Table) -> None:
    snapshot = bare(table)
    (moved,) = read_moving(snapshot, table.fragments[0], BitMap([3]))
    turned = moved.with_rows(moved.rows.select(moved.rows.schema.names[::-1]))
    (fragment,) = write_moved(snapshot, [turned])
    assert read_back(snapshot, fragment).column("n").to_pylist() == [3]


def test_no_rows_are_no_fragments(table: lw.Table) -> None:
    assert write_moved(bare(table), []) == ()


def test_an_error_on_the_way_leaves_no_file(table: lw.Table) -> None:
    snapshot = bare(table)
    before = {each.key for each in snapshot.location.store.list("data")}

    def failing() -> Any:
        yield from read_moving(snapshot, table.fragments[0], BitMap([1]))
        raise InvalidInputError("no further")

    with pytest.raises(InvalidInputError, match="no further"):
        write_moved(snapshot, failing())
    assert {each.key for each in snapshot.location.store.list("data")} == before


def blobs(values: list[bytes | None]) -> pa.Table:
    schema = pa.schema([("n", pa.int64()), pa.field("b", pa.large_binary(), metadata=BLOB)])
    return pa.table([range(len(values)), values], schema=schema)


@pytest.mark.parametrize("version", ["2.0", "2.1"])
def test_the_bytes_of_blobs_move_too(tmp_path: Path, version: str) -> None:
    values = [b"a", None, b"", b"long" * 1000, b"end"]
    table = lw.create(
        tmp_path / "t",
        blobs(values),
        layout=lw.Layout(file_version=version),
        access=lw.Access(fsync=False),
    )
    check_movable(table._snapshot)
    (moved,) = read_moving(bare(table), table.fragments[0], BitMap([0, 1, 2, 3]))
    assert moved.rows.column("b").to_pylist() == values[:4]
    (fragment,) = write_moved(bare(table), [moved])
    assert ids_of(fragment) == [0, 1, 2, 3]


def test_batches_are_cut_by_the_size_of_their_blobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lancewood.jobs.rows.blob_values._MOST_BYTES", 10)
    values = [b"12345", b"12345", b"1", b"x" * 30, None, b"12345"]
    table = lw.create(
        tmp_path / "t",
        blobs(values),
        layout=lw.Layout(file_version="2.1"),
        access=lw.Access(fsync=False),
    )
    snapshot, fragment = bare(table), table.fragments[0]
    (batch,) = open_fragment(snapshot, fragment, WantedColumns(snapshot.schema)).batches()
    parts = list(with_blob_values(snapshot, fragment, batch))
    assert [each.num_rows for each in parts] == [2, 1, 1, 2]
    assert [each for part in parts for each in part.column("b").to_pylist()] == values
    moved = list(read_moving(snapshot, fragment, BitMap(range(6))))
    assert [each.addresses.tolist() for each in moved] == [[0, 1], [2], [3], [4, 5]]


def test_blobs_that_cannot_be_written_are_told_before_anything_is_read(tmp_path: Path) -> None:
    table = lw.create(
        tmp_path / "t",
        blobs([b"a"]),
        layout=lw.Layout(file_version="2.1"),
        access=lw.Access(fsync=False),
    )
    snapshot = bare(table)
    snapshot.manifest.message.data_format.version = "2.2"
    with pytest.raises(UnsupportedError, match="'b' is a blob"):
        check_movable(snapshot)

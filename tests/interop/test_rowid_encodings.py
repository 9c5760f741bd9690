"""pylance reads the row ids and versions that we encode, and we read those that it encodes.

No table of ours is involved: the sequences in a manifest of pylance are replaced by hand.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap
from tests.pylance import LINEAGE, judged

from lancewood.errors import FormatError
from lancewood.format.deletion import decode_deletions, deletion_file_name
from lancewood.model.fragment import Fragment
from lancewood.model.rowids import RowIdSequence, RowVersions
from lancewood.proto.rowids_pb2 import EncodedU64Array, U64Segment
from lancewood.proto.rowids_pb2 import RowIdSequence as Message
from lancewood.proto.table_pb2 import DataFragment, Manifest


def _manifest_path(root: Path, version: int) -> Path:
    return root / "_versions" / f"{2**64 - 1 - version}.manifest"


def _load(root: Path, version: int) -> Manifest:
    data = _manifest_path(root, version).read_bytes()
    (at,) = struct.unpack("<q", data[-16:-8])
    (size,) = struct.unpack_from("<I", data, at)
    return Manifest.FromString(data[at + 4 : at + 4 + size])


def _save(root: Path, version: int, manifest: Manifest) -> None:
    path = _manifest_path(root, version)
    data, message = path.read_bytes(), manifest.SerializeToString()
    (at,) = struct.unpack("<q", data[-16:-8])
    path.write_bytes(data[:at] + struct.pack("<I", len(message)) + message + data[-16:])


def _table_with(root: Path, rows: int, **sequences: bytes) -> None:
    """A table of one fragment by pylance, with other sequences in its manifest."""
    table = pa.table({"a": pa.array(range(rows), pa.int64())})
    lance.write_dataset(table, root, enable_stable_row_ids=True)
    manifest = _load(root, 1)
    manifest.next_row_id = 1 << 62
    fragment = DataFragment.FromString(manifest.fragments[0])
    for name, data in sequences.items():
        setattr(fragment, f"inline_{name}", data)
    manifest.fragments[0] = fragment.SerializeToString()
    _save(root, 1, manifest)


def _column(root: Path, name: str) -> list[int]:
    dataset = judged(root)
    table = dataset.to_table(columns=["a", name])
    assert table["a"].to_pylist() == list(range(table.num_rows))
    values: list[int] = table[name].to_pylist()
    return values


def _array(segment: U64Segment) -> EncodedU64Array | None:
    match segment.WhichOneof("segment"):
        case "range_with_holes":
            return segment.range_with_holes.holes
        case "sorted_array":
            return segment.sorted_array
        case "array":
            return segment.array
    return None


WIDE = 10**12
ENCODED = [
    (range(7, 40), "range", None),
    ([*range(50), *range(51, 99)], "range_with_holes", "u16_array"),
    ([each for each in range(80_000) if each not in (5, 70_500)], "range_with_holes", "u32_array"),
    ([4, 15, *range(17, 40, 3)], "range_with_bitmap", None),
    (range(WIDE, WIDE + 9000, 120), "sorted_array", "u16_array"),
    (range(WIDE, WIDE + 99_000_000, 1_000_000), "sorted_array", "u32_array"),
    (range(3, WIDE, WIDE // 20), "sorted_array", "u64_array"),
    ([WIDE + 65_535, WIDE, WIDE + 7], "array", "u16_array"),
    ([WIDE + (1 << 32) - 1, WIDE, WIDE + 7], "array", "u32_array"),
    ([1 << 61, 0, 99], "array", "u64_array"),
]


@pytest.mark.parametrize(
    ("ids", "kind", "width"), ENCODED, ids=[f"{each[1]}-{each[2]}" for each in ENCODED]
)
def test_pylance_reads_every_segment_that_we_encode(
    tmp_path: Path, ids: Sequence[int], kind: str, width: str | None
) -> None:
    data = RowIdSequence.from_values(ids).encode()
    (segment,) = Message.FromString(data).segments
    array = _array(segment)
    assert segment.WhichOneof("segment") == kind
    assert (array and array.WhichOneof("array")) == width
    _table_with(tmp_path / "t.lance", len(ids), row_ids=data)
    assert _column(tmp_path / "t.lance", "_rowid") == list(ids)


def test_pylance_finds_rows_by_the_ids_that_we_encode(tmp_path: Path) -> None:
    ids = [*range(1000), 7000, 6000, 6001, *range(WIDE, WIDE + 200, 2), *range(2000, 3000)]
    sequence = RowIdSequence.from_values(ids)
    kinds = {each.WhichOneof("segment") for each in Message.FromString(sequence.encode()).segments}
    assert kinds == {"range", "array", "range_with_bitmap"}
    _table_with(tmp_path / "t.lance", len(ids), row_ids=sequence.encode())
    assert _column(tmp_path / "t.lance", "_rowid") == ids
    asked = [2999, 6000, 0, WIDE + 6]
    taken = lance.dataset(tmp_path / "t.lance")._take_rows(asked, columns=["a"])
    assert taken["a"].to_pylist() == sequence.find(asked).tolist()


def _values(width: int, base: int, *values: int) -> EncodedU64Array:
    if width == 8:
        raw = np.array(values, "<u8").tobytes()
        return EncodedU64Array(u64_array={"values": raw})
    raw = np.array([each - base for each in values], f"<u{width}").tobytes()
    name = {2: "u16_array", 4: "u32_array"}[width]
    return EncodedU64Array(**{name: {"base": base, "offsets": raw}})


@pytest.mark.parametrize("width", [2, 4, 8])
@pytest.mark.parametrize("kind", ["range_with_holes", "sorted_array", "array"])
def test_both_read_every_width_in_every_place(tmp_path: Path, kind: str, width: int) -> None:
    array = _values(width, 10, 12, 15, 16)
    segment = U64Segment()
    if kind == "range_with_holes":
        segment.range_with_holes.start, segment.range_with_holes.end = 11, 19
        segment.range_with_holes.holes.CopyFrom(array)
    else:
        getattr(segment, kind).CopyFrom(array)
    data = Message(segments=[segment]).SerializeToString()
    ours = list(RowIdSequence.decode(data))
    assert ours == ([11, 13, 14, 17, 18] if kind == "range_with_holes" else [12, 15, 16])
    _table_with(tmp_path / "t.lance", len(ours), row_ids=data)
    assert _column(tmp_path / "t.lance", "_rowid") == ours


@pytest.mark.parametrize(
    "segment",
    [
        U64Segment(),
        U64Segment(array=EncodedU64Array()),
        U64Segment(range_with_holes={"start": 0, "end": 5}),
        U64Segment(range_with_holes={"start": 0, "end": 5, "holes": _values(2, 0, 9)}),
        U64Segment(range_with_holes={"start": 0, "end": 5, "holes": _values(2, 0, 2, 2)}),
        U64Segment(range_with_bitmap={"start": 4, "end": 8, "bitmap": b"\xfb"}),
        U64Segment(range_with_bitmap={"start": 4, "end": 8, "bitmap": b"\x0b\x00"}),
        U64Segment(sorted_array=_values(8, 0, 3, 1, 2)),
        U64Segment(sorted_array=_values(8, 0, 3, 3, 4)),
    ],
)
def test_both_refuse_the_same_broken_segments(tmp_path: Path, segment: U64Segment) -> None:
    data = Message(segments=[segment]).SerializeToString()
    with pytest.raises(FormatError):
        RowIdSequence.decode(data)
    _table_with(tmp_path / "t.lance", 3, row_ids=data)
    with pytest.raises(Exception, match="row ID"):
        _column(tmp_path / "t.lance", "_rowid")


def test_pylance_reads_the_versions_that_we_encode(tmp_path: Path) -> None:
    created = RowVersions.from_values([1, 1, 5, 5, 5, 2, 1])
    updated = RowVersions.uniform(3, 7).with_value_at([0, 6], 9)
    _table_with(
        tmp_path / "t.lance",
        7,
        created_at_versions=created.encode(),
        last_updated_at_versions=updated.encode(),
    )
    assert _column(tmp_path / "t.lance", "_row_created_at_version") == list(created)
    assert _column(tmp_path / "t.lance", "_row_last_updated_at_version") == list(updated)


def _check_lineage(root: Path) -> None:
    """Asks pylance for ids and versions of live rows, and our decoders for the same."""
    dataset = lance.dataset(root)
    expected = dataset.to_table(columns=LINEAGE)
    found: list[list[int]] = [[], [], []]
    for each in _load(root, dataset.version).fragments:
        fragment = Fragment(DataFragment.FromString(each))
        sequences = (fragment.row_ids, fragment.created_at, fragment.last_updated_at)
        deleted = _deleted(root, fragment)
        for values, sequence in zip(found, sequences, strict=True):
            assert sequence is not None
            values.extend(sequence.without(deleted))
    assert found == [expected[name].to_pylist() for name in LINEAGE]


def _deleted(root: Path, fragment: Fragment) -> BitMap:
    file = fragment.deletion_file
    if file is None:
        return BitMap()
    name = deletion_file_name(fragment.id, file.read_version, file.id, file.is_bitmap)
    path = root / "_deletions" / name
    return decode_deletions(
        path.read_bytes(),
        file.is_bitmap,
        path=name,
        physical_rows=fragment.physical_rows,
        expected=file.num_deleted_rows,
    )


def test_we_read_the_lineage_of_every_step_of_pylance(tmp_path: Path) -> None:
    root = tmp_path / "t.lance"

    def rows(start: int, stop: int) -> Any:
        return pa.table({"a": pa.array(range(start, stop), pa.int64())}).append_column(
            "b", pa.array([0] * (stop - start), pa.int64())
        )

    dataset = lance.write_dataset(rows(0, 20_000), root, enable_stable_row_ids=True)
    _check_lineage(root)
    dataset = lance.write_dataset(rows(20_000, 21_000), root, mode="append")
    _check_lineage(root)
    dataset.delete("a % 7 = 3 and a < 9000")
    _check_lineage(root)
    dataset.update({"b": "1"}, where="a % 100 = 0 or (a > 500 and a < 620)")
    _check_lineage(root)
    dataset.merge_insert("a").when_matched_update_all().when_not_matched_insert_all().execute(
        rows(20_950, 21_050)
    )
    _check_lineage(root)
    dataset.delete("a % 2 = 1 and a > 4000")
    _check_lineage(root)
    dataset.optimize.compact_files()
    _check_lineage(root)
    assert lance.dataset(root).count_rows() > 10_000

from __future__ import annotations

import random
import struct

import pytest

from lancewood.errors import FormatError, LancewoodError, UnsupportedError
from lancewood.format.manifest import decode_manifest_file, encode_manifest_file
from lancewood.proto import table_pb2


def message(fragments: int = 3) -> table_pb2.Manifest:
    made = table_pb2.Manifest(version=7, max_fragment_id=fragments)
    made.fields.add(name="a", id=0, parent_id=-1, logical_type="int64", nullable=True)
    for number in range(fragments):
        fragment = table_pb2.DataFragment(id=number, physical_rows=10)
        fragment.files.add(path=f"{number}.lance", fields=[0], column_indices=[0])
        made.fragments.append(fragment.SerializeToString())
    return made


def whole() -> bytes:
    return encode_manifest_file(message(), index_section=b"", transaction_section=b"txn")


def test_sections_are_read_back() -> None:
    manifest = decode_manifest_file(whole(), name="m")
    assert manifest.version == 7
    assert manifest.index_section == b""
    assert manifest.transaction_section == b"txn"
    assert [each.id for each in manifest.fragments] == [0, 1, 2]


def test_absent_sections_stay_absent() -> None:
    data = encode_manifest_file(message(), index_section=None, transaction_section=None)
    manifest = decode_manifest_file(data, name="m")
    assert manifest.index_section is None
    assert manifest.transaction_section is None


def test_the_older_place_of_the_transaction_is_read() -> None:
    made = message()
    made.transaction_section_deprecated = 0
    body = struct.pack("<I", 3) + b"old"
    raw = made.SerializeToString()
    data = body + struct.pack("<I", len(raw)) + raw + struct.pack("<qHH", len(body), 0, 2) + b"LANC"
    assert decode_manifest_file(data, name="m").transaction_section == b"old"


@pytest.mark.parametrize("missing", [1, 4, 16, 17])
def test_a_truncated_file_is_named(missing: int) -> None:
    with pytest.raises(FormatError, match=r"v7\.manifest"):
        decode_manifest_file(whole()[:-missing], name="v7.manifest")


def test_a_file_of_another_kind_is_told_by_its_end() -> None:
    with pytest.raises(FormatError, match="ends with b'PAR1' instead of b'LANC'"):
        decode_manifest_file(whole()[:-4] + b"PAR1", name="m")


def test_an_empty_file_is_a_format_error() -> None:
    with pytest.raises(FormatError, match="0 bytes are too few"):
        decode_manifest_file(b"", name="m")


@pytest.mark.parametrize("offset", [-1, 2**62, 10**6, 3])
def test_a_hostile_offset_is_a_format_error(offset: int) -> None:
    data = bytearray(whole())
    struct.pack_into("<q", data, len(data) - 16, offset)
    with pytest.raises(FormatError):
        decode_manifest_file(bytes(data), name="m")


def test_an_offset_of_a_section_outside_the_file_is_a_format_error() -> None:
    made = message()
    made.transaction_section = 10**9
    raw = made.SerializeToString()
    data = struct.pack("<I", len(raw)) + raw + struct.pack("<qHH", 0, 0, 2) + b"LANC"
    with pytest.raises(FormatError, match="transaction section"):
        decode_manifest_file(data, name="m")


def test_a_fragment_tree_is_refused_by_name() -> None:
    made = message()
    made.fragment_tree = b"\x08\x01"
    data = encode_manifest_file(made, index_section=None, transaction_section=None)
    with pytest.raises(UnsupportedError, match="field 22"):
        decode_manifest_file(data, name="m")


def test_a_blob_dataset_is_refused_by_name() -> None:
    made = message()
    made.blob_dataset_version = 3
    data = encode_manifest_file(made, index_section=None, transaction_section=None)
    with pytest.raises(UnsupportedError, match="blob_dataset_version 3"):
        decode_manifest_file(data, name="m")


def test_flipped_bytes_give_a_right_answer_or_a_typed_error() -> None:
    rng = random.Random(20261115)
    original = whole()
    refused = 0
    for _ in range(3000):
        data = bytearray(original)
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        try:
            manifest = decode_manifest_file(bytes(data), name="m")
            list(manifest.fragments)
            manifest.fragment(manifest.fragments[0].id)
        except LancewoodError:
            refused += 1
    assert refused > 100


def test_opening_decodes_no_fragment() -> None:
    made = message()
    made.fragments.insert(1, b"\xff\xff not a fragment")
    data = encode_manifest_file(made, index_section=None, transaction_section=None)
    manifest = decode_manifest_file(data, name="m")
    assert manifest.fragment_count == 4
    with pytest.raises(FormatError):
        _ = manifest.fragments


def test_one_fragment_is_found_by_halving() -> None:
    made = table_pb2.Manifest(version=1)
    for number in range(0, 5000, 5):
        made.fragments.append(table_pb2.DataFragment(id=number).SerializeToString())
    data = encode_manifest_file(made, index_section=None, transaction_section=None)
    manifest = decode_manifest_file(data, name="m")
    assert [manifest.position_of(each) for each in (0, 5, 4995)] == [0, 1, 999]  # type: ignore[arg-type]
    assert manifest.position_of(7) is None  # type: ignore[arg-type]


def test_one_fragment_is_found_in_an_unsorted_list_too() -> None:
    made = table_pb2.Manifest(version=1)
    for number in (9, 2, 300, 0, 44):
        made.fragments.append(table_pb2.DataFragment(id=number).SerializeToString())
    data = encode_manifest_file(made, index_section=None, transaction_section=None)
    manifest = decode_manifest_file(data, name="m")
    for number in (9, 2, 300, 0, 44):
        assert manifest.fragment(number).id == number  # type: ignore[arg-type]

"""Other base paths in a manifest file, and not one other byte."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancewood.errors import FormatError, UnsupportedError
from lancewood.format.manifest import decode_manifest_file, encode_manifest_file
from lancewood.format.moved import relocated_manifest
from lancewood.proto import table_pb2

OLD, NEW = "/old/place/t.lance", "/new/t"
UNKNOWN = (
    b"\xc2\x3e\x05hello\xc8\x3e\x96\x01\xd5\x3e\x01\x02\x03\x04"
    b"\xd9\x3e\x01\x02\x03\x04\x05\x06\x07\x08"
)
"""Fields 1000 to 1003, which nobody knows: bytes, a number, four bytes and eight."""


def manifest_file(paths: list[str], *, unknown: bytes = b"", fragments: int = 3) -> bytes:
    message = table_pb2.Manifest(version=7, branch="exp", config={"b": "2", "a": "1"})
    message.fragments.extend(
        table_pb2.DataFragment(id=each, physical_rows=OLD.count("/")).SerializeToString()
        for each in range(fragments)
    )
    for number, path in enumerate(paths):
        message.base_paths.add(id=number, name=f"name {number}", is_dataset_root=True, path=path)
        message.base_paths[-1].MergeFromString(unknown)
    message.MergeFromString(unknown)
    return encode_manifest_file(
        message, index_section=OLD.encode(), transaction_section=OLD.encode() * 2
    )


def relocated(data: bytes) -> bytes:
    return relocated_manifest(data, {OLD: NEW}, name="m")


@pytest.mark.parametrize("unknown", [b"", UNKNOWN])
def test_only_the_paths_that_moved_are_other_bytes(unknown: bytes) -> None:
    data = manifest_file([OLD, "/cold", OLD + "/tree/exp"], unknown=unknown)
    new = relocated(data)
    before, after = (decode_manifest_file(each, name="m") for each in (data, new))
    assert [each.path for each in after.base_paths] == [NEW, "/cold", OLD + "/tree/exp"]
    assert after.index_section == before.index_section
    assert after.transaction_section == before.transaction_section
    back = relocated_manifest(new, {NEW: OLD}, name="m")
    assert back == data
    same_length = relocated_manifest(data, {OLD: OLD.upper()}, name="m")
    sections = len(OLD) * 3 + 8
    assert same_length[:sections] == data[:sections]
    assert same_length[sections:].count(OLD.upper().encode()) == 1
    assert same_length[sections:].replace(OLD.upper().encode(), OLD.encode(), 1) == data[sections:]


def test_a_file_without_such_a_path_stays_itself() -> None:
    for paths in ([], ["/cold"], [OLD + "x"]):
        data = manifest_file(paths)
        assert relocated(data) == data


def test_fields_in_an_unusual_order_stay_in_it() -> None:
    def section(path: str) -> bytes:
        base = b"\x22" + bytes([len(path)]) + path.encode() + b"\x08\x05"
        return b"\x18\x07\x92\x01" + bytes([len(base)]) + base + b"\xa2\x01\x03exp\x18\x07\x0a\x00"

    def file(path: str) -> bytes:
        length = len(section(path)).to_bytes(4, "little")
        return length + section(path) + bytes(8) + b"\x00\x00\x02\x00LANC"

    assert relocated(file(OLD)) == file(NEW)
    assert decode_manifest_file(file(NEW), name="m").base_paths[0].path == NEW


def test_bytes_that_are_no_manifest_are_a_format_error() -> None:
    data = manifest_file([OLD])
    for bad in (b"", data[:-1], data[:40] + data[45:]):
        with pytest.raises(FormatError, match="m: "):
            relocated(bad)


@given(st.binary(max_size=60), st.integers(0, 200))
def test_damaged_bytes_are_refused_or_keep_their_meaning(junk: bytes, at: int) -> None:
    data = manifest_file([OLD, OLD])
    at = min(at, len(data) - 20)
    bent = data[:at] + junk + data[at + len(junk) :]
    try:
        before = decode_manifest_file(bent, name="m")
        after = decode_manifest_file(relocated(bent), name="m")
    except (FormatError, UnsupportedError):
        return
    assert after.message.fragments == before.message.fragments
    assert len(after.base_paths) == len(before.base_paths)

from __future__ import annotations

import struct

import pytest

from lancewood.errors import FormatError, UnsupportedError
from lancewood.format.container import (
    ColumnPages,
    decode_entry,
    decode_footer,
    decode_pages,
    decode_rows,
    encode_tail,
)
from lancewood.model.ids import FieldId
from lancewood.model.schema import Field, Schema
from lancewood.proto import file_pb2

SCHEMA = Schema((Field(FieldId(0), "a", "int64"),))


def pages(offset: int = 0, size: int = 8) -> ColumnPages:
    column = ColumnPages()
    column.encoding.direct.encoding = b""
    page = column.pages.add(length=3, buffer_offsets=[offset], buffer_sizes=[size])
    page.encoding.direct.encoding = b""
    return column


def test_a_tail_is_read_back() -> None:
    tail = encode_tail(64, (2, 1), SCHEMA, 3, [pages(), pages(8, 16)])
    size = 64 + len(tail)
    footer = decode_footer(tail[-40:], "f", size)
    assert (footer.version, footer.num_columns) == ((2, 1), 2)
    at = footer.columns_at - 64 + 16
    start, length = decode_entry(tail[at : at + 16], "f", size, "it")
    found = decode_pages(tail[start - 64 : start - 64 + length], "f", size, 1)
    assert found == pages(8, 16)
    at = footer.descriptor_at - 64
    start, length = decode_entry(tail[at : at + 16], "f", size, "it")
    assert start == 64
    assert decode_rows(tail[:length], "f") == 3


@pytest.mark.parametrize(
    ("columns_at", "buffers_at", "buffers", "columns"),
    [(1 << 60, 0, 1, 1), (0, 1 << 60, 1, 1), (0, 0, 0, 1), (0, 0, 1, 1 << 31), (90, 0, 1, 2)],
)
def test_a_footer_that_points_outside_is_refused(
    columns_at: int, buffers_at: int, buffers: int, columns: int
) -> None:
    raw = struct.pack("<QQQIIHH4s", 0, columns_at, buffers_at, buffers, columns, 2, 2, b"LANC")
    with pytest.raises(FormatError, match="data file f"):
        decode_footer(raw, "f", 100)


def test_a_footer_without_magic_is_refused() -> None:
    with pytest.raises(FormatError, match="does not end like"):
        decode_footer(b"\0" * 40, "f", 100)
    with pytest.raises(FormatError, match="does not end like"):
        decode_footer(b"LANC", "f", 100)


@pytest.mark.parametrize(("offset", "size"), [(0, 101), (1 << 63, 1), (90, 11)])
def test_a_page_outside_the_file_is_refused(offset: int, size: int) -> None:
    with pytest.raises(FormatError, match=r"100 bytes, a page of column 4"):
        decode_pages(pages(offset, size).SerializeToString(), "f", 100, 4)


def test_buffers_without_sizes_are_refused() -> None:
    column = pages()
    column.pages[0].buffer_offsets.append(3)
    with pytest.raises(FormatError, match="buffers without sizes"):
        decode_pages(column.SerializeToString(), "f", 100, 0)


def test_an_encoding_that_is_elsewhere_is_refused_by_name() -> None:
    column = pages()
    column.pages[0].ClearField("encoding")
    with pytest.raises(UnsupportedError, match="keeps its encoding elsewhere"):
        decode_pages(column.SerializeToString(), "f", 100, 0)


def test_the_pages_of_a_blob_are_those_of_its_descriptors() -> None:
    from google.protobuf.any_pb2 import Any as AnyMessage

    layout = file_pb2.PageLayout()
    layout.blob_layout.inner_layout = b"inside"
    column = pages()
    column.pages[0].encoding.direct.encoding = AnyMessage(
        type_url="/lance.encodings21.PageLayout", value=layout.SerializeToString()
    ).SerializeToString()
    found = decode_pages(column.SerializeToString(), "f", 100, 0)
    unwrapped = AnyMessage.FromString(found.pages[0].encoding.direct.encoding)
    assert unwrapped.value == b"inside"


@pytest.mark.parametrize("raw", [b"\xff", b"\x0a\x05abc"])
def test_bytes_that_are_no_list_of_pages_are_refused(raw: bytes) -> None:
    with pytest.raises(FormatError, match="cannot be decoded"):
        decode_pages(raw, "f", 100, 0)
    with pytest.raises(FormatError, match="cannot be decoded"):
        decode_rows(raw, "f")

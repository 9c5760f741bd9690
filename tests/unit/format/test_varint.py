from __future__ import annotations

import pytest

from lancewood.format.container import encode_varint
from lancewood.proto import table_pb2


@pytest.mark.parametrize("number", [1, 127, 128, 300, 16_383, 16_384, 2**32 - 1, 2**63, 2**64 - 1])
def test_a_number_is_written_as_protobuf_writes_it(number: int) -> None:
    assert b"\x18" + encode_varint(number) == table_pb2.Manifest(version=number).SerializeToString()


def test_zero_is_one_byte() -> None:
    assert encode_varint(0) == b"\x00"

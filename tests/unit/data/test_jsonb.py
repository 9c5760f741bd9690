"""JSONB bytes → JSON text."""

from __future__ import annotations

import contextlib
import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancewood.data.arrays import decode_jsonb, jsonb_to_text
from lancewood.errors import FormatError

SAMPLES = {
    "20000000200000025001": "1",
    "200000002000000240fb": "-5",
    "200000002000000950ffffffffffffffff": "18446744073709551615",
    "2000000020000009603ff8000000000000": "1.5",
    "200000002000000100": "0",
    "2000000040000000": "true",
    "2000000000000000": "null",
    "80000000": "[]",
    "4000000210000001100000012000000220000002617a50025001": '{"a":2,"z":1}',
}


@pytest.mark.parametrize("raw", SAMPLES)
def test_a_stored_value_becomes_its_text(raw: str) -> None:
    assert jsonb_to_text(bytes.fromhex(raw)) == SAMPLES[raw]


def test_nulls_stay_nulls() -> None:
    column = pa.array([None, bytes.fromhex("80000000")], pa.large_binary())
    assert decode_jsonb(column).to_pylist() == [None, "[]"]


@pytest.mark.parametrize(
    "raw",
    [
        "",
        "20",
        "00000000",
        "20000000",
        "2000000020000005",
        "2000000070000000",
        "9fffffff",
        "200000002000000170",
        "20000000100000ffff",
        "2000000010000001ff",
    ],
)
def test_a_broken_value_is_a_format_error(raw: str) -> None:
    with pytest.raises(FormatError):
        decode_jsonb(pa.array([bytes.fromhex(raw)], pa.large_binary()))


def test_endless_nesting_is_a_format_error() -> None:
    value = bytes.fromhex("80000000")
    for _ in range(1000):
        value = b"\x80\x00\x00\x01" + (0x50000000 | len(value)).to_bytes(4, "big") + value
    with pytest.raises(FormatError, match="deep"):
        jsonb_to_text(value)


@pytest.mark.parametrize("number", ["0110", "0120", "0130", "09607ff0000000000000"])
def test_a_number_without_a_text_is_null_as_in_pylance(number: str) -> None:
    assert jsonb_to_text(bytes.fromhex("20000000200000" + number)) == "null"


def test_containers_that_share_their_bytes_are_a_format_error() -> None:
    """Fuzzing found it: 40 arrays that all claim no length were read 2 to the 40th times."""
    level = bytes.fromhex("80000002" + 2 * "50000000")
    with pytest.raises(FormatError, match="cut short"):
        decode_jsonb(pa.array([40 * level + bytes.fromhex("80000000")], pa.large_binary()))


@pytest.mark.parametrize("kind", ["00000000", "40000000", "50000004"])
def test_a_key_that_is_no_text_is_a_format_error(kind: str) -> None:
    raw = bytes.fromhex("40000001" + kind + "00000000" + "80000000")
    with pytest.raises(FormatError, match="no text"):
        jsonb_to_text(raw)


@given(st.binary(max_size=40))
def test_any_bytes_are_json_or_a_format_error(data: bytes) -> None:
    with contextlib.suppress(FormatError):
        (text,) = decode_jsonb(pa.array([data], pa.large_binary())).to_pylist()
        json.loads(text)

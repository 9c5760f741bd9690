from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancewood.errors import InvalidInputError
from lancewood.files.json_source import json_blocks

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(), below, max_size=3),
    max_leaves=6,
)
ROWS = st.lists(st.dictionaries(st.text(max_size=5), VALUES, max_size=3), max_size=8)


def rows(data: bytes, block: int) -> list[dict[str, Any]]:
    blocks = list(json_blocks(io.BytesIO(data), "f.json", block))
    assert all(each.strip() for each in blocks)
    return [json.loads(line) for each in blocks for line in each.splitlines() if line.strip()]


@given(ROWS, st.integers(1, 64), st.sampled_from([None, 2]), st.booleans())
def test_an_array_is_cut_into_its_elements_wherever_the_blocks_end(
    expected: list[dict[str, Any]], block: int, indent: int | None, ascii_only: bool
) -> None:
    data = json.dumps(expected, indent=indent, ensure_ascii=ascii_only).encode()
    assert rows(data, block) == expected


@given(ROWS, st.integers(1, 64), st.sampled_from(["\n", "\r\n", "\n\n"]), st.booleans())
def test_lines_stay_lines_wherever_the_blocks_end(
    expected: list[dict[str, Any]], block: int, end: str, closed: bool
) -> None:
    text = end.join(json.dumps(each) for each in expected) + (end if closed else "")
    assert rows(text.encode(), block) == expected


def test_numbers_keep_every_digit() -> None:
    (block,) = json_blocks(io.BytesIO(b'[{"a": 1e400, "b": 0.10}]'), "f.json", 100)
    assert block == b'{"a": 1e400, "b": 0.10}\n'


@pytest.mark.parametrize(
    "data",
    [
        b'[{"a": 1}',
        b'[{"a": 1},',
        b'[{"a": 1},]',
        b'[{"a": 1} {"a": 2}]',
        b'[{"a": 1}] x',
        b"[1, 2]",
        b"[[1]]",
        b"[{]",
        b"[",
        b"[,]",
        b'[{"a": ' + b"[" * 20_000,
    ],
)
@pytest.mark.parametrize("block", [1, 5, 100])
def test_a_broken_array_names_its_file(data: bytes, block: int) -> None:
    with pytest.raises(InvalidInputError, match=r"f\.json"):
        rows(data, block)


def test_a_mark_at_the_start_is_passed_over() -> None:
    assert rows(b'\xef\xbb\xbf[{"a": 1}]', 10) == [{"a": 1}]
    assert rows(b'\xef\xbb\xbf{"a": 1}', 10) == [{"a": 1}]


def test_a_line_without_end_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lancewood.files.json_source._LARGEST", 1000)
    with pytest.raises(InvalidInputError, match="more than 1000 bytes"):
        rows(b"x" * 5000, 100)
    with pytest.raises(InvalidInputError, match="more than 1000 bytes"):
        rows(b'[{"a": "' + b"x" * 50_000, 100)

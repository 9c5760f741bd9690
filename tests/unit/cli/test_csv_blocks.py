from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancewood.cli.csv_blocks import csv_blocks
from lancewood.errors import InvalidInputError

CELLS = st.text('ab",\n\r;é', max_size=6)


@given(st.lists(st.lists(CELLS, min_size=2, max_size=2), max_size=12), st.integers(1, 40))
def test_blocks_hold_whole_records_wherever_the_reads_end(
    rows: list[list[str]], block: int
) -> None:
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    data = text.getvalue().encode()
    blocks = list(csv_blocks(io.BytesIO(data), "f.csv", block))
    assert b"".join(blocks) == data
    read = [row for each in blocks for row in csv.reader(io.StringIO(each.decode(), newline=""))]
    assert read == rows


def test_the_last_record_needs_no_line_end() -> None:
    assert list(csv_blocks(io.BytesIO(b"a\n1\n2"), "f.csv", 2)) == [b"a\n", b"1\n", b"2"]
    assert list(csv_blocks(io.BytesIO(b""), "f.csv", 2)) == []


def test_a_quote_without_end_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lancewood.cli.csv_blocks._LARGEST", 1000)
    with pytest.raises(InvalidInputError, match="a quote never closed"):
        list(csv_blocks(io.BytesIO(b'a\n"' + b"x\n" * 5000), "f.csv", 100))

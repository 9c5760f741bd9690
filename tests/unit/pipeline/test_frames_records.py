"""Lines become records: the same ones wherever lines are cut into batches, and every line is in a
record or is told about."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.csv as csv
import pytest

from lancewood.errors import FormatError
from lancewood.pipeline.frames.csv_records import CsvForm, CsvReader, order_of
from lancewood.pipeline.frames.json_records import JsonForm, JsonReader
from lancewood.pipeline.frames.line_records import (
    FILE,
    LENGTH,
    PROBLEM,
    SIZE,
    START,
    TEXT,
    VALUE,
    LineReader,
    ToRecords,
)

AB = CsvForm(("a", "b"))
Row = tuple[str, str | None, str | None, int | None]


def lines_of(data: bytes) -> list[bytes]:
    """As Spark cuts a file: nothing follows the last line end."""
    lines = data.split(b"\n")
    return lines[:-1] if lines[-1] == b"" else lines


def records(reader: LineReader, data: bytes, size: int = 100) -> list[Row]:
    lines = lines_of(data)
    found: list[Row] = []
    cuts = (lines[at : at + size] for at in range(0, len(lines), size))
    parts = itertools.chain.from_iterable(reader.read(pa.array(each, pa.binary())) for each in cuts)
    for each in itertools.chain(parts, reader.end()):
        found += zip(*(column.to_pylist() for column in each.columns()), strict=True)
    return found


def csv_reader(form: CsvForm = AB, *, is_whole: bool = True) -> CsvReader:
    return CsvReader(form, "f", 0, is_whole=is_whole)


def test_records_are_those_that_arrow_finds_however_lines_come() -> None:
    """Random texts with everything that quotes are for; what Arrow writes is read by both."""
    chance = random.Random(7)
    for _ in range(150):
        texts = ["".join(chance.choices('ab",\n\r é', k=chance.randrange(6))) for _ in range(8)]
        numbers = [chance.randrange(99) for _ in texts]
        sink = pa.BufferOutputStream()
        csv.write_csv(pa.table({"a": texts, "b": numbers}), sink)
        data = sink.getvalue().to_pybytes()
        form = CsvForm(("a", "b"), has_header=True)
        for size in (1, 3, 100):
            found = records(csv_reader(form), data, size)
            assert [problem for _, _, problem, _ in found] == [None] * len(texts)
            fields = [csv_reader(form)._fields(text) for text, _, _, _ in found]
            assert [form.unquoted(each[0]) for each in fields] == texts
            assert [int(each[1]) for each in fields] == numbers


def test_every_line_is_in_a_record_and_its_number_is_that_of_the_first() -> None:
    data = b'x,1\n"y\n\n""z""",2\n\nw,3\n"open,4\nv,5\n'
    assert records(csv_reader(), data) == [
        ("x,1", None, None, 1),
        ('"y\n\n""z""",2', None, None, 2),
        ("w,3", None, None, 6),
        ('"open,4\nv,5', None, "a quote is never closed", 7),
    ]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b'"x"y,1', "a quote stands inside of a value that is not quoted as a whole"),
        (b"x\ry,1", "a carriage return stands outside of quotes"),
        (b"caf\xe9,1", "has byte 0xe9, which is not utf-8"),
    ],
)
def test_line_that_cannot_be_read_is_told_and_the_next_one_is_read(
    line: bytes, problem: str
) -> None:
    first, second = records(csv_reader(), line + b"\nz,2\n")
    assert problem in str(first[2])
    assert second == ("z,2", None, None, 2)


def test_quote_inside_of_a_value_that_is_not_quoted_is_a_character() -> None:
    assert [row[0] for row in records(csv_reader(), b'5" disk,1\n3" disk,2\n')] == [
        '5" disk,1',
        '3" disk,2',
    ]


def test_columns_are_put_into_the_order_of_the_schema_as_they_are_written() -> None:
    form = CsvForm(("a", "b", "c"), has_header=True)
    found = records(csv_reader(form), b'c,a,b\n"1,2",,""\n')
    assert found == [('"1,2",,""', ',"","1,2"', None, 2)]


@pytest.mark.parametrize(
    ("found", "order"),
    [
        (("a", "b"), (0, 1)),
        (("B", "A"), (1, 0)),
        (("a",), None),
        (("a", "b", "c"), None),
        (("a", "a"), None),
        (("a", "c"), None),
    ],
)
def test_header_fits_if_it_has_the_same_names(
    found: tuple[str, ...], order: tuple[int, ...] | None
) -> None:
    assert order_of(found, ("a", "b")) == order


def test_names_that_differ_in_case_alone_are_told_apart() -> None:
    assert order_of(("a", "A"), ("A", "a")) == (1, 0)
    assert order_of(("a", "b"), ("A", "a")) is None


def test_json_is_one_object_a_line_however_lines_come() -> None:
    data = (
        b'{"a": 1}\n\n{"a": {"b": [1, {}]}}\n{"a": 1} {"a": 2}\n{"a": {"k": 1, "k": 2}}\n'
        b'[{"a": 3}, {"a": "x]"}]\nnull\n{"a": \n'
    )
    for size in (1, 2, 100):
        found = records(JsonReader(JsonForm(), "f", 0), data, size)
        assert [(text, problem, line) for text, _, problem, line in found] == [
            ('{"a": 1}', None, 1),
            ('{"a": {"b": [1, {}]}}', None, 3),
            ('{"a": 1} {"a": 2}', "has more than one JSON value in a line", 4),
            ('{"a": {"k": 1, "k": 2}}', "has the key 'k' twice", 5),
            ('{"a": 3}', None, 6),
            ('{"a": "x]"}', None, 6),
            ("null", None, 7),
            ('{"a": ', "does not parse as json with this schema", 8),
        ]


def test_fault_is_found_among_many_good_lines() -> None:
    """Arrow looks at these at once."""
    good = b'{"a": {"b": 1}}\n' * 50
    for bad in (b'{"a": 1, "a": 2}\n', b'{"a": 1} {"a": 2}\n', b'{"a": {"b": 1, "b": 1}}\n'):
        found = records(JsonReader(JsonForm(), "f", 0), good + bad + good)
        assert [line for _, _, problem, line in found if problem is not None] == [51]
        assert len(found) == 101


def batch(file: str, start: int, *lines: bytes, size: int = 10, day: int = 7) -> pa.RecordBatch:
    count = len(lines)
    return pa.RecordBatch.from_pydict(
        {
            VALUE: pa.array(lines, pa.binary()),
            FILE: [file] * count,
            START: [start] * count,
            LENGTH: [size] * count,
            SIZE: [size] * count,
            "day": [day] * count,
        }
    )


def joined(*batches: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Lines of several files in one batch, as Spark hands them over."""
    yield from pa.Table.from_batches(batches).combine_chunks().to_batches()


def test_files_in_one_task_are_kept_apart_and_keep_their_columns() -> None:
    form = CsvForm(("a", "b"), has_header=True)

    def reader(file: str, start: int) -> LineReader:
        return CsvReader(form, file, start, is_whole=True)

    lines = joined(batch("one", 0, b"a,b", b'"open', day=1), batch("two", 0, b"b,a", b"1,x", day=2))
    rows = [row for each in ToRecords(reader, is_whole=True)(lines) for row in each.to_pylist()]
    assert [(row[FILE], row["day"], row[TEXT], row[PROBLEM]) for row in rows] == [
        ("one", 1, '"open', "a quote is never closed"),
        ("two", 2, "1,x", None),
    ]


def test_part_of_a_file_is_not_taken_for_a_file() -> None:
    def reader(file: str, start: int) -> LineReader:
        return csv_reader()

    with pytest.raises(FormatError, match="from byte 500 on, without what is before"):
        list(ToRecords(reader, is_whole=True)(iter([batch("one", 500, b"x,1")])))

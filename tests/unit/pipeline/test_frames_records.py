"""Lines become records: the same ones wherever lines are cut into batches, and every line is in a
record or is told about."""

from __future__ import annotations

import bz2
import gzip
import itertools
import random
from collections.abc import Iterator
from typing import Any

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
    Notation,
    ToRecords,
    not_text,
)

COLUMNS = pa.schema([("a", pa.string()), ("b", pa.int64())])
AB = CsvForm(COLUMNS)
JSON = pa.schema([("a", pa.string())])
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
        form = CsvForm(COLUMNS, has_header=True)
        for size in (1, 3, 100):
            found = records(csv_reader(form), data, size)
            assert [problem for _, _, problem, _ in found] == [None] * len(texts)
            again = csv.read_csv(
                pa.BufferReader("".join(f"{text}\n" for text, _, _, _ in found).encode()),
                csv.ReadOptions(column_names=["a", "b"]),
                csv.ParseOptions(newlines_in_values=True),
                csv.ConvertOptions(column_types=COLUMNS),
            )
            assert again.to_pydict() == {"a": texts, "b": numbers}


FORMS = {
    "RFC 4180": {},
    "blanks before quotes": {"is_stripped": True},
    "tabs, and backslashes before quotes": {"separator": "\t", "escape": "\\"},
    "no quotes": {"quote": ""},
}


@pytest.mark.sliced(2)
@pytest.mark.parametrize("options", FORMS.values(), ids=FORMS.keys())
def test_many_lines_at_once_are_the_records_of_line_after_line(options: dict[str, Any]) -> None:
    chance = random.Random(11)
    form = CsvForm(COLUMNS, **options)
    many = 0
    for _ in range(400):
        data = (
            "".join(chance.choices('ab",\t\\ \n\n', k=chance.randrange(25))).encode() + b"\nx,1\n"
        )
        data *= 2
        at_once = csv_reader(form)
        many += at_once._at_once(pa.array(lines_of(data), pa.binary())) is not None
        assert records(csv_reader(form), data) == records(csv_reader(form), data, 1), data
    assert many > 20


def test_every_line_is_in_a_record_and_its_number_is_that_of_the_first() -> None:
    data = b'x,1\n"y\n\n""z""",2\n\nw,3\n"open,4\nv,5\n'
    assert records(csv_reader(), data) == [
        ("x,1", None, None, 1),
        ('"y\n\n""z""",2', None, None, 2),
        ("w,3", None, None, 6),
        ('"open,4', None, "a quote is never closed; its record begins in line 7", 7),
        ("v,5", None, "a quote is never closed; its record begins in line 7", 8),
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
    form = CsvForm(pa.schema([(name, pa.string()) for name in "abc"]), has_header=True)
    found = records(csv_reader(form), b'c,a,b\n"1,2",,""\n')
    assert found == [('"1,2",,""', ',"","1,2"', None, 2)]


def test_comma_in_quotes_after_a_blank_is_part_of_its_value_where_blanks_are_skipped() -> None:
    form = CsvForm(COLUMNS, has_header=True, is_stripped=True)
    assert records(csv_reader(form), b'b,a\n "1, 2",x\n') == [(' "1, 2",x', 'x, "1, 2"', None, 2)]


def test_row_with_other_values_than_the_header_is_not_read_in_the_order_of_the_file() -> None:
    form = CsvForm(COLUMNS, has_header=True)
    found = records(csv_reader(form), b'b,a\n "1, 2",x\n3,y\n')
    assert found == [
        (' "1, 2",x', None, "has 3 values, and the schema has 2 columns", 2),
        ("3,y", "y,3", None, 3),
    ]


def test_quote_too_many_makes_a_bad_row_of_each_line_that_it_takes_in() -> None:
    data = b'a,b\n"x,1\n' + b"y,2\n" * 10_000
    found = records(csv_reader(CsvForm(COLUMNS, has_header=True)), data, 1000)
    assert [line for _, _, _, line in found] == list(range(2, 10_003))
    assert {problem for _, _, problem, _ in found} == {
        "a quote is never closed; its record begins in line 2"
    }


@pytest.mark.parametrize(
    ("begin", "is_text"),
    [
        (b"BZhang,1", True),
        (b"PK,1", True),
        (bz2.compress(b"x,1\n"), False),
        (bz2.compress(b""), False),
        (gzip.compress(b"x,1\n", mtime=0), False),
    ],
)
def test_compressed_file_is_known_by_what_no_text_begins_with(begin: bytes, is_text: bool) -> None:
    assert (not_text(begin) is None) == is_text


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_characters_that_hold_the_byte_of_a_line_end_stay_whole(encoding: str) -> None:
    data = "a,b\n\u0a0a\u410a,1\ny,2\n".encode(encoding)
    for is_whole in (True, False):
        form = CsvForm(COLUMNS, has_header=True, encoding=encoding)
        found = records(csv_reader(form, is_whole=is_whole), data)
        assert [text for text, _, _, _ in found] == ["\u0a0a\u410a,1", "y,2"]
        assert {problem for _, _, problem, _ in found} == {None}


def test_utf_16_without_its_mark_is_told_with_the_names_to_try() -> None:
    form = CsvForm(COLUMNS, has_header=True, encoding="utf-16")
    found = records(csv_reader(form), "a,b\nx,1\n".encode("utf-16-le"))
    assert len(found) == 2
    for _, _, problem, _ in found:
        assert 'try encoding = "utf-16-le" or "utf-16-be"' in str(problem)


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
        found = records(JsonReader(JsonForm(JSON), "f", 0), data, size)
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
        found = records(JsonReader(JsonForm(JSON), "f", 0), good + bad + good)
        assert [line for _, _, problem, line in found if problem is not None] == [51]
        assert len(found) == 101


DEEP = pa.schema(
    [
        ("a", pa.decimal128(5, 2)),
        ("s", pa.struct([("b", pa.list_(pa.float32())), ("m", pa.map_(pa.string(), pa.date32()))])),
    ]
)
FAULTS = {
    '{"a": 1.239}': "column 'a' has more decimal places than the 2 of its type",
    '{"a": "1,239"}': "column 'a' has more decimal places than the 2 of its type",
    '{"a": "1.239,50"}': None,
    '{"s": {"b": [1, 1e39]}}': "column 's' has a number too large for its type",
    '{"s": {"m": {"k": "2024-01-01 10:00"}}}': (
        "column 's' has a time of day, and its type is a date"
    ),
    '{"A": 1}': "has the key 'A', and the schema has 'a'",
    '{"a": 1, "s": {"B": []}}': "has the key 'B', and the schema has 'b'",
    '{"s": {"m": {"B": null}}}': None,
    '{"x": 1, "y": 2}': "has the key 'x', and none that the schema has",
    '{"x": 1, "a": null}': None,
    "{}": None,
}


def test_json_that_spark_would_not_keep_is_told_alone_and_among_many() -> None:
    good = b'{"a": 1.5, "s": {"b": [0.25], "m": {"k": "2024-01-01"}}}\n' * 20
    form = JsonForm(DEEP, notation=Notation(point=","))
    for text, problem in FAULTS.items():
        line = text.encode() + b"\n"
        assert records(JsonReader(form, "f", 0), line) == [(text, None, problem, 1)]
        among = records(JsonReader(form, "f", 0), good + line + good)
        assert [each[2] for each in among] == [None] * 20 + [problem] + [None] * 20


def test_file_of_one_document_that_cannot_be_read_is_a_bad_row_for_each_line() -> None:
    form = JsonForm(JSON, is_whole=True)
    data = b'[{"a": "x"},\n{"a": "y"},\n{"a": "z", "a": "w"}]\n'
    assert records(JsonReader(form, "f", 0), data, 2) == [
        ('[{"a": "x"},', None, "has the key 'a' twice", 1),
        ('{"a": "y"},', None, "has the key 'a' twice", 2),
        ('{"a": "z", "a": "w"}]', None, "has the key 'a' twice", 3),
    ]


def test_number_is_judged_by_its_value_not_by_its_digits() -> None:
    columns = pa.schema([("d", pa.decimal128(10, 2)), ("f", pa.float32())])
    form = CsvForm(columns, no_values=frozenset(["9.999"]))
    data = b"1.2300,1e-60\n100e-2,0001\n9.999,Infinity\n0.000,3.4e38\n1.005,NaN\n1,1e39f\n"
    assert [problem for _, _, problem, _ in records(csv_reader(form), data)] == [
        None,
        None,
        None,
        None,
        "column 'd' has more decimal places than the 2 of its type",
        "column 'f' has a number too large for its type",
    ]


def test_record_of_several_lines_that_loses_digits_is_one_bad_row() -> None:
    form = CsvForm(pa.schema([("a", pa.string()), ("d", pa.decimal128(10, 2))]))
    assert records(csv_reader(form), b'"x\ny",1.239\n') == [
        ('"x\ny",1.239', None, "column 'd' has more decimal places than the 2 of its type", 1)
    ]


def test_dates_and_times_in_a_format_of_their_own_are_left_to_it() -> None:
    columns = pa.schema([("d", pa.date32()), ("t", pa.timestamp("us"))])
    data = b"2024-01-3 Dec 5,17.0020240101\n"
    said = CsvForm(columns, notation=Notation(has_date_format=True, has_time_format=True))
    assert records(csv_reader(said), data)[0][2] is None
    assert records(csv_reader(CsvForm(columns)), data)[0][2] is not None


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
    form = CsvForm(COLUMNS, has_header=True)

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

    with pytest.raises(FormatError, match="without what is before: raise spark"):
        list(ToRecords(reader, is_whole=True)(iter([batch("one", 500, b"x,1")])))

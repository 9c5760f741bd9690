"""What is imported and exported is what was there: nothing cut, rounded, dropped or made up."""

from __future__ import annotations

import datetime as dt
import decimal
import itertools
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pyarrow.ipc as ipc
import pyarrow.parquet as pq
import pytest

import lancewood as lw

Lw = Callable[..., Any]


def rows_of(uri: Path) -> list[dict[str, Any]]:
    return lance.dataset(str(uri)).to_table().to_pylist()  # type: ignore[no-any-return]


@pytest.fixture
def imported(lw_run: Lw, tmp_path: Path) -> Lw:
    """Import bytes as a file and through stdin: the same rows, or the same refusal."""

    numbers = itertools.count()

    def run(suffix: str, data: bytes, *options: object) -> Any:
        number = next(numbers)
        first, second = tmp_path / f"f{number}.lance", tmp_path / f"p{number}.lance"
        file = tmp_path / f"x.{suffix}"
        file.write_bytes(data)
        by_file = lw_run("table", "import", first, file, *options)
        piped = ["-", "--format", "csv" if suffix == "csv" else "json"]
        by_pipe = lw_run("table", "import", second, *piped, *options, input=data)
        assert by_file.code == by_pipe.code, by_file.err + by_pipe.err
        assert by_file.err.replace(str(file), "stdin") == by_pipe.err
        if by_file.code == 0:
            assert rows_of(first) == rows_of(second)
            return rows_of(first)
        assert by_file.code == 5, by_file.err
        assert not lw.exists(first)
        assert not lw.exists(second)
        return by_file.err

    return run


def test_a_quote_inside_of_a_field_cuts_no_record_of_a_pipe(
    imported: Lw, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lancewood.files.csv_source.BLOCK_BYTES", 500)
    data = b't\n5" pipe\n' + b"".join(b'"a%d\nb"\n' % number for number in range(500))
    rows = imported("csv", data)
    assert [each["t"] for each in rows] == ['5" pipe', *(f"a{number}\nb" for number in range(500))]


@pytest.mark.parametrize("data", [b'a\n"x', b'a\n"x\n', b'a\n"', b'a,b\n1,"x\n2,y\n', b'a,b\n"1,x'])
def test_a_quote_that_is_never_closed_is_refused(imported: Lw, data: bytes) -> None:
    assert "cannot be read" in imported("csv", data)


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n", b"\r", b"\n\n"])
def test_the_last_record_of_csv_needs_no_line_end(imported: Lw, end: bytes) -> None:
    rows = imported("csv", b"id,label\n1,cat" + end)
    assert rows == [{"id": 1, "label": "cat"}]


@pytest.mark.parametrize("values", [["a", None, "", None], [None, 1, 2], [None], [1.5, None]])
def test_nulls_of_a_single_column_come_back_from_csv(
    lw_ok: Lw, tmp_path: Path, values: list[Any]
) -> None:
    lw.create(tmp_path / "t.lance", pa.table({"a": pa.array(values)}))
    lw_ok("table", "export", tmp_path / "t.lance", tmp_path / "x.csv")
    lw_ok("table", "import", tmp_path / "t.lance", tmp_path / "x.csv", "--mode", "append")
    assert [each["a"] for each in rows_of(tmp_path / "t.lance")] == values * 2


@pytest.mark.parametrize(
    ("suffix", "data", "number"),
    [
        ("csv", b"a\n18446744073709551615\n", "18446744073709551615"),
        ("csv", b"a\n1.5\n9007199254740993\n", "9007199254740993"),
        ("csv", b"a,b\n1, -9007199254740993 \n2,0.5\n", "-9007199254740993"),
        ("csv", b"a\n" + b"9" * 500 + b"\n", "9" * 37),
        ("jsonl", b'{"a":18446744073709551615}\n{"a":1}\n', "18446744073709551615"),
        ("jsonl", b'{"a":0.5}\n{"a":9007199254740993}\n', "9007199254740993"),
        ("json", b'[{"a":{"b":[0.5, 9007199254740993]}}]', "9007199254740993"),
        ("jsonl", b'{"a":' + b"9" * 500 + b"}\n", "9" * 37),
    ],
)
def test_a_whole_number_is_not_rounded_by_a_guess(
    imported: Lw, suffix: str, data: bytes, number: str
) -> None:
    told = imported(suffix, data)
    assert number in told
    assert "--cast" in told


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("uint64", 2**64 - 1),
        ("decimal128(38, 0)", decimal.Decimal(2**64 - 1)),
        ("string", str(2**64 - 1)),
        ("double", float(2**64)),
    ],
)
def test_the_casts_that_are_advised_for_long_numbers_work(
    imported: Lw, suffix: str, kind: str, value: object
) -> None:
    digits = str(2**64 - 1)
    text = f"a\n{digits}\n" if suffix == "csv" else f'{{"a": {digits}}}\n'
    if kind == "string" and suffix == "jsonl":
        text = f'{{"a": "{digits}"}}\n'
    assert imported(suffix, text.encode(), "--cast", f"a:{kind}") == [{"a": value}]


def test_floats_are_guessed_with_blanks_nulls_and_long_fractions(imported: Lw) -> None:
    data = b"a,b\n 1.5 ,x\nNA,y\n,z\n0.12345678901234567,\n9007199254740992,\n1e300,\n-inf,\n"
    rows = imported("csv", data, "--null-value", "NA")
    assert [each["a"] for each in rows] == [
        1.5,
        None,
        None,
        0.12345678901234567,
        2.0**53,
        1e300,
        -float("inf"),
    ]
    data = b'{"a": 0.12345678901234567, "t": ": 12345678901234567,", "i": 9007199254740993}\n'
    (row,) = imported("jsonl", data, "--cast", "i:int64")
    assert (row["a"], row["i"]) == (0.12345678901234567, 9007199254740993)


@pytest.mark.parametrize(
    "data",
    [
        b"null\n",
        b'{"a": 1}\nnull\n',
        b'{"a": 1} null\n',
        b"[null]",
        b"5\n",
        b'{"a":' * 20_000 + b"1" + b"}" * 20_000,
        b'{"a":' * 20_000,
        b'{"a":' + b"[" * 20_000 + b"]" * 20_000 + b"}",
        b"[" * 20_000,
        b'[{"a":' + b"[" * 20_000 + b"]" * 20_000 + b"}]",
        b'[{"a":' * 20_000,
    ],
)
def test_rows_that_are_no_objects_or_too_deep_are_refused(imported: Lw, data: bytes) -> None:
    assert "cannot be read" in imported("json", data)


def test_nulls_and_brackets_inside_of_rows_are_no_matter(imported: Lw) -> None:
    data = b'{"a": null, "t": "} null [[{\\\\"}\n{\n "a":\n null, "t": "\\"]"}\n'
    assert [each["t"] for each in imported("jsonl", data)] == ["} null [[{\\", '"]']


def test_a_number_of_many_digits_in_an_array_is_told_by_name(imported: Lw) -> None:
    told = imported("json", b'[{"a": ' + b"9" * 5000 + b"}]")
    assert "column 'a'" in told


def test_zones_of_json_are_kept_or_told(imported: Lw, lw_run: Lw, tmp_path: Path) -> None:
    zoned = b'"2020-01-02T10:00:00+02:00"'
    line = b'{"a": %s, "b": [%s], "c": {"d": %s}, "e": "2020-01-02T10:00:00", "f": "2020-01-02"}\n'
    (row,) = imported("jsonl", line % (zoned, zoned, zoned))
    moment = dt.datetime(2020, 1, 2, 8, tzinfo=dt.UTC)
    assert (row["a"], row["b"], row["c"]) == (moment, [moment], {"d": moment})
    assert (row["e"], row["f"]) == (dt.datetime(2020, 1, 2, 10), dt.datetime(2020, 1, 2))


def test_moments_with_and_without_a_zone_are_not_mixed(
    imported: Lw, monkeypatch: pytest.MonkeyPatch
) -> None:
    mixed = [b'{"a": "2020-01-02T10:00:00Z"}\n', b'{"a": "2020-01-02T10:00:00"}\n']
    told = imported("jsonl", mixed[1], "--cast", "a:timestamp[us, tz=Europe/Berlin]")
    assert "expected a zone offset" in told
    assert "expected no zone offset" in imported("jsonl", mixed[0], "--cast", "a:timestamp[us]")
    monkeypatch.setattr("lancewood.files.json_source.BLOCK_BYTES", 10)
    assert "--cast" in imported("jsonl", b"".join(mixed))
    monkeypatch.setattr("lancewood.files.json_source.BLOCK_BYTES", 1000)
    assert imported("jsonl", b"".join(mixed)) == [json.loads(each) for each in mixed]


@pytest.mark.parametrize(
    ("kind", "cell"),
    [
        ("struct<x: int32>", "[1]"),
        ("struct<x: int32>", '{"x": 2.7}'),
        ("struct<x: int32>", '{"y": 1}'),
        ("list<int64>", "[1.5, 2.9]"),
        ("list<int64>", "[" * 5000),
    ],
)
def test_a_nested_cell_that_does_not_fit_names_file_and_column(
    imported: Lw, kind: str, cell: str
) -> None:
    quoted = cell.replace('"', '""')
    told = imported("csv", f'a\n"{quoted}"\n'.encode(), "--cast", f"a:{kind}")
    assert "column 'a'" in told


TYPED = pa.table(
    {
        "s": pa.array([1, None], pa.timestamp("s")),
        "z": pa.array([1, None], pa.timestamp("s", "Europe/Berlin")),
        "t": pa.array([1, None], pa.time32("s")),
        "d": pa.array([86_400_000, None], pa.date64()),
        "n": pa.array([7, None], pa.int64()).dictionary_encode(),
        "w": pa.array(["x", None]).dictionary_encode(),
        "b": pa.array([b"\xff", None], pa.binary()),
    }
)


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "feather", "arrows", "csv", "jsonl"])
def test_what_is_exported_can_be_appended_again(lw_ok: Lw, tmp_path: Path, suffix: str) -> None:
    uri = tmp_path / "t.lance"
    lw.create(uri, TYPED)
    lw_ok("table", "export", uri, tmp_path / f"x.{suffix}")
    lw_ok("table", "import", uri, tmp_path / f"x.{suffix}", "--mode", "append")
    assert rows_of(uri) == TYPED.to_pylist() * 2


@pytest.mark.parametrize(
    ("held", "offered"),
    [
        (pa.array([1], pa.timestamp("s")), pa.array([1500], pa.timestamp("ms"))),
        (pa.array([1], pa.int8()), pa.array([300], pa.int64())),
        (pa.array([1], pa.float32()), pa.array([0.1], pa.float64())),
        (pa.array(["x"]), pa.array([1])),
        (pa.array([1], pa.timestamp("s", "UTC")), pa.array([1], pa.timestamp("s"))),
    ],
)
def test_what_would_change_in_the_table_is_not_appended(
    lw_run: Lw, tmp_path: Path, held: pa.Array, offered: pa.Array
) -> None:
    uri = tmp_path / "t.lance"
    lw.create(uri, pa.table({"a": held}))
    pq.write_table(pa.table({"a": offered}), tmp_path / "x.parquet")
    ran = lw_run("table", "import", uri, tmp_path / "x.parquet", "--mode", "append")
    assert ran.code == 5, ran.err
    assert lw.open(uri).version == 1


def test_typed_bytes_are_not_taken_for_base64(lw_ok: Lw, tmp_path: Path) -> None:
    pq.write_table(pa.table({"b": [b"AAAA"]}), tmp_path / "x.parquet")
    uri = tmp_path / "t.lance"
    lw_ok("table", "import", uri, tmp_path / "x.parquet", "--cast", "b:large_binary")
    assert rows_of(uri) == [{"b": b"AAAA"}]


@pytest.mark.parametrize("suffix", ["parquet", "csv", "jsonl"])
def test_a_dictionary_of_numbers_is_made_by_a_cast(lw_ok: Lw, tmp_path: Path, suffix: str) -> None:
    lw.create(tmp_path / "t.lance", pa.table({"n": [5, 6, 5]}))
    lw_ok("table", "export", tmp_path / "t.lance", tmp_path / f"x.{suffix}")
    cast = "n:dictionary<values=int64, indices=int8>"
    lw_ok("table", "import", tmp_path / "u.lance", tmp_path / f"x.{suffix}", "--cast", cast)
    assert str(lw.open(tmp_path / "u.lance").schema.field("n").type).startswith("dictionary<values")
    assert [each["n"] for each in rows_of(tmp_path / "u.lance")] == [5, 6, 5]


@pytest.mark.parametrize("suffix", ["arrow", "feather", "arrows"])
def test_batches_with_dictionaries_of_their_own_become_one_arrow_file(
    lw_ok: Lw, tmp_path: Path, suffix: str
) -> None:
    uri = tmp_path / "t.lance"
    words = [pa.table({"w": pa.array([word]).dictionary_encode()}) for word in ("a", "b", "c")]
    lw.create(uri, words[0]).append(words[1]).append(words[2])
    target = tmp_path / f"x.{suffix}"
    lw_ok("table", "export", uri, target)
    opened = ipc.open_stream if suffix == "arrows" else ipc.open_file
    assert opened(target.read_bytes()).read_all().to_pydict() == {"w": ["a", "b", "c"]}


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
@pytest.mark.parametrize(
    "values",
    [
        pa.array([2**31 - 1], pa.int32()).cast(pa.date32()),
        pa.array([2**62], pa.timestamp("s")),
        pa.array([[2**62]], pa.list_(pa.timestamp("s"))),
        pa.array([{"x": 2**62}], pa.struct({"x": pa.timestamp("s")})),
    ],
)
def test_a_moment_that_has_no_text_is_refused_by_name(
    lw_run: Lw, tmp_path: Path, values: pa.Array, suffix: str
) -> None:
    uri = tmp_path / "t.lance"
    lw.create(uri, pa.table({"far": values, "id": [1]}))
    ran = lw_run("table", "export", uri, tmp_path / f"x.{suffix}")
    assert ran.code == 9, ran.err
    assert "'far'" in ran.err
    assert os.listdir(tmp_path) == ["t.lance"]
    assert lw_run("table", "export", uri, tmp_path / f"x.{suffix}", "-c", "id").code == 0


def test_blobs_are_refused_by_name_unless_they_are_left_out(lw_run: Lw, tmp_path: Path) -> None:
    uri = tmp_path / "t.lance"
    blob = pa.field("blob", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    schema = pa.schema([pa.field("id", pa.int64()), blob])
    lw.create(
        uri,
        pa.table({"id": [1], "blob": [b"bytes"]}, schema=schema),
        layout=lw.Layout(file_version="2.1"),
    )
    ran = lw_run("table", "export", uri, tmp_path / "x.parquet")
    assert ran.code == 9
    assert "'blob'" in ran.err
    assert "--columns id" in ran.err
    assert os.listdir(tmp_path) == ["t.lance"]
    assert lw_run("table", "export", uri, tmp_path / "x.parquet", "--columns", "id").code == 0
    assert lw_run("table", "head", uri).code == 0


def test_a_cut_arrow_stream_is_bad_input(lw_run: Lw, tmp_path: Path) -> None:
    sink = pa.BufferOutputStream()
    rows = pa.table({"a": range(1000)})
    with ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    data = sink.getvalue().to_pybytes()[:-2000]
    command = ["table", "import", tmp_path / "t.lance", "-", "--format", "arrow-stream"]
    ran = lw_run(*command, input=data)
    assert ran.code == 5, ran.err
    assert "stdin cannot be read" in ran.err


def test_numbers_that_begin_with_zeros_or_a_plus_are_texts(lw_ok: Lw, tmp_path: Path) -> None:
    file, uri = tmp_path / "a.csv", tmp_path / "a.lance"
    file.write_text("zip,phone,n,f\n00123,+4912,-10,0.5\n1,2,0,-0.25\n")
    lw_ok("table", "import", uri, file)
    kinds = {each.name: str(each.type) for each in lw.open(uri).schema}
    assert kinds == {"zip": "string", "phone": "string", "n": "int64", "f": "double"}
    assert lw.open(uri).to_arrow()["zip"].to_pylist() == ["00123", "1"]


def test_a_file_with_another_delimiter_is_not_one_column(
    lw_run: Lw, lw_ok: Lw, tmp_path: Path
) -> None:
    file, uri = tmp_path / "a.csv", tmp_path / "a.lance"
    file.write_text("a;b\n1;2\n")
    ran = lw_run("table", "import", uri, file)
    assert ran.code == 5
    assert "--delimiter ';'" in ran.err
    lw_ok("table", "import", uri, file, "--delimiter", ";")
    assert lw.open(uri).schema.names == ["a", "b"]
    lw_ok("table", "import", tmp_path / "one.lance", file, "--delimiter", ",")

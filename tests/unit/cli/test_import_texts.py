"""What CSV and JSON files say is kept as it is said, or ``lw table import`` asks: no guess of a
type loses a text, and the way out that an error names is there."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancewood as lw

Lw = Callable[..., Any]


def write(folder: Path, *texts: str, suffix: str = "csv") -> list[Path]:
    files = [folder / f"{number}.{suffix}" for number in range(len(texts))]
    for file, text in zip(files, texts, strict=True):
        file.write_text(text, encoding="utf-8")
    return files


def stored(uri: Path) -> list[dict[str, Any]]:
    return lw.open(uri).to_arrow().to_pylist()  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("first", "later"),
    [("12345", "00501"), ("1", "0x10"), ("1", "+7"), ("1.5", "007.5"), ("true", "1")],
)
def test_text_that_a_type_guessed_from_an_earlier_file_would_lose_is_asked_about(
    lw_run: Lw, lw_ok: Lw, tmp_path: Path, first: str, later: str
) -> None:
    files = write(tmp_path, f"v,w\n{first},x\n", f"v,w\n{later},x\n")
    uri = tmp_path / "t.lance"
    refused = lw_run("table", "import", uri, *files)
    assert refused.code == 5
    assert "1.csv: column 'v' was guessed to be " in refused.err
    assert f"would not keep {later!r} as it is written" in refused.err
    assert "--cast 'v:string'" in refused.err
    assert not lw.exists(uri)
    lw_ok("table", "import", uri, *files, "--cast", "v:string")
    assert [row["v"] for row in stored(uri)] == [first, later]


def test_text_that_a_guess_would_lose_makes_a_column_of_texts_in_the_first_rows(
    lw_ok: Lw, tmp_path: Path
) -> None:
    files = write(tmp_path, "a,b,c\n1,true,1\n0x10,1,00501\n")
    lw_ok("table", "import", tmp_path / "t.lance", *files)
    assert stored(tmp_path / "t.lance") == [
        {"a": "1", "b": "true", "c": "1"},
        {"a": "0x10", "b": "1", "c": "00501"},
    ]


def test_a_type_that_is_said_takes_what_a_guess_does_not(lw_ok: Lw, tmp_path: Path) -> None:
    files = write(tmp_path, "a,b\n1,true\n", "a,b\n007,1\n")
    lw_ok("table", "import", tmp_path / "t.lance", *files, "--cast", "a:int64", "--cast", "b:bool")
    assert stored(tmp_path / "t.lance") == [{"a": 1, "b": True}, {"a": 7, "b": True}]


@pytest.mark.parametrize("number", ["1e400", "-1e400", "1" + "0" * 400 + ".5"])
@pytest.mark.parametrize("suffix", ["csv", "json"])
@pytest.mark.parametrize("cast", [(), ("--cast", "x:double")])
def test_number_beyond_a_double_is_refused_and_kept_as_text(
    lw_run: Lw, lw_ok: Lw, tmp_path: Path, number: str, suffix: str, cast: tuple[str, ...]
) -> None:
    text = f"x,y\n{number},1\n1,1\n" if suffix == "csv" else f'{{"x": {number}}}\n{{"x": 1.5}}\n'
    files = write(tmp_path, text, suffix=suffix)
    refused = lw_run("table", "import", tmp_path / "t.lance", *files, *cast)
    assert refused.code == 5
    # Arrow itself refuses an exponent in JSON, in its own words.
    told = "keep it as text: --cast 'x:string'", "Number too big to be stored in double"
    assert any(each in refused.err for each in told)
    if suffix == "csv":
        lw_ok("table", "import", tmp_path / "t.lance", *files, "--cast", "x:string")
        assert stored(tmp_path / "t.lance")[0]["x"] == number


def test_float_is_no_wider_than_it_is_said(lw_run: Lw, tmp_path: Path) -> None:
    for suffix, text in (("csv", "x,y\n1e39,1\n"), ("json", '{"x": 1e39}\n')):
        files = write(tmp_path, text, suffix=suffix)
        for kind, name in (("float", "float"), ("halffloat", "halffloat")):
            said = ("table", "import", tmp_path / "t.lance", *files, "--cast", f"x:{kind}")
            assert f"1e39 is larger than any {name} but infinity" in lw_run(*said).err


@pytest.mark.parametrize("nested", ["list<{}>", "struct<a: {}>"])
@pytest.mark.parametrize(("number", "kind"), [("1e400", "double"), ("1e39", "float")])
def test_number_beyond_its_type_is_refused_in_a_nested_value_of_csv(
    lw_run: Lw, tmp_path: Path, nested: str, number: str, kind: str
) -> None:
    value = f"[{number}]" if nested.startswith("list") else f'{{""a"": {number}}}'
    files = write(tmp_path, f'v,w\n"{value}",1\n')
    cast = f"v:{nested.format(kind)}"
    refused = lw_run("table", "import", tmp_path / "t.lance", *files, "--cast", cast)
    assert refused.code == 5
    assert "0.csv: column 'v': " in refused.err
    assert f"is larger than any {kind} but infinity" in refused.err
    assert not lw.exists(tmp_path / "t.lance")


@pytest.mark.parametrize(
    ("kind", "value", "number"),
    [
        ("list<float>", "[1, 1e39]", "1e39"),
        ("large_list<float>", "[1, 1e39]", "1e39"),
        ("fixed_size_list<float>[2]", "[1, -1e39]", "-1e39"),
        ("fixed_size_list<halffloat>[1]", "[65520]", "65520"),
        ("map<string, float>", '[{"key": "k", "value": 1e39}]', "1e39"),
        ("list<struct<a: double>>", f'[{{"a": 1{"0" * 309}}}]', f"1{'0' * 36}..."),
    ],
)
def test_number_beyond_its_type_is_refused_in_a_nested_value_of_json(
    lw_run: Lw, tmp_path: Path, kind: str, value: str, number: str
) -> None:
    files = write(tmp_path, f'{{"v": null}}\n{{"v": {value}}}\n', suffix="json")
    refused = lw_run("table", "import", tmp_path / "t.lance", *files, "--cast", f"v:{kind}")
    assert refused.code == 5
    assert f"0.json: column 'v': {number} is larger than any " in refused.err
    assert not lw.exists(tmp_path / "t.lance")


@pytest.mark.parametrize("kind", ["list<float>", "fixed_size_list<halffloat>[4]"])
def test_infinity_that_is_spelt_out_is_a_value_in_json(
    lw_ok: Lw, tmp_path: Path, kind: str
) -> None:
    files = write(tmp_path, '{"v": [NaN, Infinity, -Infinity, 65504]}\n', suffix="json")
    lw_ok("table", "import", tmp_path / "t.lance", *files, "--cast", f"v:{kind}")
    assert str(stored(tmp_path / "t.lance")) == "[{'v': [nan, inf, -inf, 65504.0]}]"


@pytest.mark.parametrize(
    ("suffix", "text"),
    [("csv", 'v,w\n"{""a"": 1, ""a"": 2}",1\n'), ("json", '{"v": {"a": 1, "a": 2}}\n')],
)
def test_key_that_a_struct_has_twice_is_refused(
    lw_run: Lw, tmp_path: Path, suffix: str, text: str
) -> None:
    files = write(tmp_path, text, suffix=suffix)
    cast = "--cast", "v:struct<a: int64>"
    refused = lw_run("table", "import", tmp_path / "t.lance", *files, *cast)
    assert refused.code == 5
    assert "twice" in refused.err


def test_infinity_and_nan_that_are_spelt_out_are_values(lw_ok: Lw, tmp_path: Path) -> None:
    files = write(tmp_path, "x,y\n1.5,1\ninf,1\n-Infinity,1\nnan,1\n")
    lw_ok("table", "import", tmp_path / "t.lance", *files, "--cast", "x:double")
    found = [row["x"] for row in stored(tmp_path / "t.lance")]
    assert found[:3] == [1.5, math.inf, -math.inf]
    assert math.isnan(found[3])


def test_export_to_json_says_which_numbers_it_has_no_word_for(lw_ok: Lw, tmp_path: Path) -> None:
    values = [math.nan, math.inf, -math.inf, None, 1.5]
    lw.create(tmp_path / "t.lance", pa.table({"x": values}))
    said = lw_ok("table", "export", tmp_path / "t.lance", tmp_path / "t.jsonl")
    assert said.err.startswith(
        "3 rows with a number that is not finite (NaN, Infinity): it is null"
    )
    for kind in ("csv", "parquet"):
        silent = lw_ok("table", "export", tmp_path / "t.lance", tmp_path / f"t.{kind}")
        assert "finite" not in silent.err
    lw.create(tmp_path / "u.lance", pa.table({"x": [1.5]}))
    silent = lw_ok("table", "export", tmp_path / "u.lance", "-", "--format", "json")
    assert "finite" not in silent.err


def test_nested_numbers_that_are_not_finite_come_back_from_csv_and_are_noted_for_json(
    lw_ok: Lw, tmp_path: Path
) -> None:
    kind = pa.struct({"a": pa.float32(), "b": pa.list_(pa.float64())})
    values = [{"a": math.nan, "b": [1.0, math.inf, None]}, {"a": 1.5, "b": [-math.inf]}, None]
    rows = pa.table({"v": pa.array(values, kind), "l": [[1.5], [math.nan], [2.5]]})
    lw.create(tmp_path / "t.lance", rows)
    silent = lw_ok("table", "export", tmp_path / "t.lance", tmp_path / "t.csv")
    assert "finite" not in silent.err
    lw.create(tmp_path / "u.lance", rows.slice(0, 0))
    lw_ok("table", "import", tmp_path / "u.lance", tmp_path / "t.csv", "--mode", "append")
    # Texts are compared because NaN equals nothing.
    assert str(stored(tmp_path / "u.lance")) == str(rows.to_pylist())
    noted = lw_ok("table", "export", tmp_path / "t.lance", tmp_path / "t.jsonl")
    assert noted.err.startswith("2 rows with a number that is not finite")


@pytest.mark.parametrize("encoding", ["latin-1", "windows-1252", "utf-16"])
@pytest.mark.parametrize("suffix", ["csv", "json"])
def test_file_of_another_encoding_is_refused_with_the_option_that_reads_it(
    lw_run: Lw, lw_ok: Lw, tmp_path: Path, encoding: str, suffix: str
) -> None:
    text = "name,n\ncafé,1\n" if suffix == "csv" else '{"name": "café", "n": 1}\n'
    file, uri = tmp_path / f"f.{suffix}", tmp_path / "t.lance"
    file.write_bytes(text.encode(encoding))
    refused = lw_run("table", "import", uri, file)
    assert refused.code == 5
    if encoding != "utf-16":
        assert "is not UTF-8" in refused.err
        assert "say what it is with --encoding, such as latin-1" in refused.err
    lw_ok("table", "import", uri, file, "--encoding", encoding)
    assert stored(uri) == [{"name": "café", "n": 1}]
    by_pipe = lw_ok(
        *("table", "import", tmp_path / "u.lance", "-", "--format", suffix),
        *("--encoding", encoding),
        input=text.encode(encoding),
    )
    assert by_pipe.code == 0
    assert stored(tmp_path / "u.lance") == [{"name": "café", "n": 1}]


def test_encoding_that_is_none_or_not_that_of_the_file_is_told(lw_run: Lw, tmp_path: Path) -> None:
    (file,) = write(tmp_path, "name,n\ncafé,1\n")
    for name in ("klingon", "rot13", "hex", "undefined"):
        unknown = lw_run("table", "import", tmp_path / "t.lance", file, "--encoding", name)
        assert unknown.code == 2
        assert f"--encoding {name!r} is not known" in unknown.err
    other = lw_run("table", "import", tmp_path / "t.lance", file, "--encoding", "ascii")
    assert other.code == 5
    assert "is not ascii" in other.err


@pytest.mark.parametrize(("suffix", "text"), [("csv", "a\n1\n"), ("json", '{"a": 1}\n')])
def test_utf_16_without_its_mark_is_refused_with_the_names_to_try(
    lw_run: Lw, lw_ok: Lw, tmp_path: Path, suffix: str, text: str
) -> None:
    file, uri = tmp_path / f"f.{suffix}", tmp_path / "t.lance"
    file.write_bytes(text.encode("utf-16-be"))
    refused = lw_run("table", "import", uri, file, "--encoding", "UTF16")
    assert refused.code == 5
    assert "try utf-16-le or utf-16-be" in refused.err
    lw_ok("table", "import", uri, file, "--encoding", "utf-16-be")
    assert stored(uri) == [{"a": 1}]


def test_word_for_null_is_asked_about_with_the_option_that_reads_it(
    lw_run: Lw, lw_ok: Lw, tmp_path: Path
) -> None:
    files, uri = write(tmp_path, "v,w\n1,x\n", "v,w\nNA,x\n"), tmp_path / "t.lance"
    refused = lw_run("table", "import", uri, *files)
    assert "If 'NA' means null, say --null-value 'NA'" in refused.err
    lw_ok("table", "import", uri, *files, "--null-value", "NA")
    assert [row["v"] for row in stored(uri)] == [1, None]


def test_columns_that_only_some_files_or_not_the_table_have_are_taken_when_asked(
    lw_run: Lw, lw_ok: Lw, tmp_path: Path
) -> None:
    one, two = write(tmp_path, "a\n1\n", "b,a\n2,3\n")
    uri = tmp_path / "t.lance"
    refused = lw_run("table", "import", uri, one, two)
    assert "1.csv has column 'b'" in refused.err
    assert "with --merge-schema it is null in the rows of files without it" in refused.err
    lw_ok("table", "import", uri, one, two, "--merge-schema")
    assert stored(uri) == [{"a": 1, "b": None}, {"a": 3, "b": 2}]
    (three,) = write(tmp_path, "a,c\n5,x\n")
    refused = lw_run("table", "import", uri, three, "--mode", "append")
    assert "--merge-schema of lw table import) adds columns that are new" in refused.err
    lw_ok("table", "import", uri, three, "--mode", "append", "--merge-schema")
    assert stored(uri)[2:] == [{"a": 5, "b": None, "c": "x"}]

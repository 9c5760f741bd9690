"""Files of every format into a table, read back by pylance."""

from __future__ import annotations

import gzip
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.ipc as ipc
import pyarrow.parquet as pq
import pytest

import lancewood as lw
from lancewood.files.csv_source import CsvOptions, CsvSource

Lw = Callable[..., Any]
ROWS = pa.table({"id": [1, 2, 3], "name": ["a", None, "ü, x"], "score": [0.5, 1.5, None]})


def write_arrow(table: pa.Table, path: Path) -> None:
    with ipc.new_file(str(path), table.schema) as sink:
        sink.write_table(table)


def write_stream(table: pa.Table, path: Path) -> None:
    with ipc.new_stream(str(path), table.schema) as sink:
        sink.write_table(table)


def write_lines(table: pa.Table, path: Path) -> None:
    path.write_text("".join(json.dumps(each) + "\n" for each in table.to_pylist()))


def write_array(table: pa.Table, path: Path) -> None:
    path.write_text(json.dumps(table.to_pylist(), indent=1))


def write_gzipped(table: pa.Table, path: Path) -> None:
    text = "".join(json.dumps(each) + "\n" for each in table.to_pylist())
    path.write_bytes(gzip.compress(text.encode()))


def write_tabs(table: pa.Table, path: Path) -> None:
    csv.write_csv(table, str(path), csv.WriteOptions(delimiter="\t"))


WRITERS: dict[str, Callable[[pa.Table, Path], None]] = {
    "x.parquet": lambda table, path: pq.write_table(table, path),
    "x.csv": lambda table, path: csv.write_csv(table, str(path)),
    "x.tsv": write_tabs,
    "x.jsonl": write_lines,
    "x.json": write_array,
    "x.jsonl.gz": write_gzipped,
    "x.arrow": write_arrow,
    "x.arrows": write_stream,
    "x.feather": write_stream,
}


def small_blocks(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    for module in ("csv_source", "json_source"):
        monkeypatch.setattr(f"lancewood.files.{module}.BLOCK_BYTES", size)


def read_by_pylance(uri: Path, version: int | None = None) -> list[dict[str, Any]]:
    dataset = lance.dataset(str(uri), version=version)
    dataset.validate()
    return dataset.to_table().to_pylist()  # type: ignore[no-any-return]


def files_below(uri: Path) -> list[str]:
    return sorted(str(each.relative_to(uri)) for each in uri.rglob("*") if each.is_file())


@pytest.mark.parametrize("name", WRITERS)
def test_a_file_becomes_a_table_that_pylance_reads(lw_ok: Lw, tmp_path: Path, name: str) -> None:
    WRITERS[name](ROWS, tmp_path / name)
    uri = tmp_path / "t.lance"
    done = lw_ok("table", "import", uri, tmp_path / name, "-m", "first", "--json").document
    assert list(done) == ["uri", "version", "branch", "mode", "files", "rows", "bytes"]
    assert done["rows"] == 3
    assert done["version"] == done["files"] == 1
    assert (done["uri"], done["mode"]) == (str(uri), "create")
    assert read_by_pylance(uri) == ROWS.to_pylist()
    (version,) = lw.open(uri).versions()
    assert version.message == "first"


@pytest.mark.parametrize("name", WRITERS)
def test_a_file_of_any_format_is_appended_with_the_types_of_the_table(
    lw_ok: Lw, tmp_path: Path, name: str
) -> None:
    uri = tmp_path / "t.lance"
    lw.create(uri, ROWS)
    WRITERS[name](ROWS, tmp_path / name)
    told = lw_ok("table", "import", uri, tmp_path / name, "--mode", "append").out
    assert re.sub(r"\d+ B", "N B", told) == (
        f"imported 3 rows (N B) from 1 file into {uri}, version 2 of main\n"
    )
    assert read_by_pylance(uri) == ROWS.to_pylist() * 2


def test_a_text_file_takes_types_from_the_table_that_it_could_not_guess(
    lw_ok: Lw, tmp_path: Path
) -> None:
    uri = tmp_path / "t.lance"
    schema = pa.schema([("id", pa.int8()), ("v", pa.list_(pa.float32(), 2)), ("b", pa.binary())])
    lw.create(uri, schema)
    (tmp_path / "a.csv").write_text('id,v,b\n1,"[1, 2]",/w==\n')
    (tmp_path / "b.jsonl").write_text('{"id": 2, "v": [3, 4], "b": null}\n')
    lw_ok("table", "import", uri, tmp_path / "a.csv", "--mode", "append")
    lw_ok("table", "import", uri, tmp_path / "b.jsonl", "--mode", "append")
    assert read_by_pylance(uri) == [
        {"id": 1, "v": [1.0, 2.0], "b": b"\xff"},
        {"id": 2, "v": [3.0, 4.0], "b": None},
    ]


def test_overwrite_replaces_rows_and_keeps_the_old_version(lw_ok: Lw, tmp_path: Path) -> None:
    uri = tmp_path / "t.lance"
    lw.create(uri, ROWS)
    pq.write_table(pa.table({"other": ["x"]}), tmp_path / "o.parquet")
    lw_ok("table", "import", uri, tmp_path / "o.parquet", "--mode", "overwrite", "--json")
    assert read_by_pylance(uri) == [{"other": "x"}]
    assert read_by_pylance(uri, version=1) == ROWS.to_pylist()


def test_several_files_directories_and_patterns_make_one_version(lw_ok: Lw, tmp_path: Path) -> None:
    (tmp_path / "in" / "deep").mkdir(parents=True)
    for number in range(4):
        folder = tmp_path / "in" / ("deep" if number % 2 else "")
        pq.write_table(pa.table({"n": [number]}), folder / f"{number}.parquet")
    (tmp_path / "in" / "readme.txt").write_text("not a table")
    (tmp_path / "in" / "_SUCCESS").write_text("")
    pq.write_table(pa.table({"n": [9]}), tmp_path / "nine.parquet")
    uri = tmp_path / "t.lance"
    done = lw_ok(
        "table",
        "import",
        uri,
        tmp_path / "in",
        f"{tmp_path}/n*.parquet",
        "--json",
        "--max-rows-per-file",
        2,
        "--file-version",
        "2.1",
        "--no-stable-row-ids",
        "--property",
        "run=7",
    ).document
    assert (done["files"], done["rows"], done["version"]) == (5, 5, 1)
    table = lw.open(uri)
    assert sorted(each["n"] for each in read_by_pylance(uri)) == [0, 1, 2, 3, 9]
    assert table.stats().fragments == 3
    assert table.file_version == "2.1"
    assert not table.has_stable_row_ids
    assert next(table.versions()).properties == {"run": "7"}


@pytest.mark.parametrize(
    ("format", "write"),
    [
        ("json", write_lines),
        ("json", write_array),
        ("csv", WRITERS["x.csv"]),
        ("arrow-stream", write_stream),
        ("arrow", write_stream),
    ],
)
def test_rows_come_from_stdin(
    lw_ok: Lw, tmp_path: Path, format: str, write: Callable[[pa.Table, Path], None]
) -> None:
    write(ROWS, tmp_path / "x")
    data = (tmp_path / "x").read_bytes()
    lw_ok("table", "import", tmp_path / "t.lance", "-", "--format", format, input=data)
    assert read_by_pylance(tmp_path / "t.lance") == ROWS.to_pylist()


@pytest.mark.parametrize("format", ["csv", "json"])
def test_long_input_from_stdin_is_read_in_blocks(
    lw_ok: Lw, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str
) -> None:
    small_blocks(monkeypatch, 1000)
    rows = pa.table({"id": range(500), "t": ['line\n"quoted", x'] * 500})
    write = WRITERS["x.csv"] if format == "csv" else write_lines
    write(rows, tmp_path / "x")
    data = (tmp_path / "x").read_bytes()
    lw_ok("table", "import", tmp_path / "t.lance", "-", "--format", format, input=data)
    assert read_by_pylance(tmp_path / "t.lance") == rows.to_pylist()


def test_a_reader_of_stdin_that_is_still_busy_does_not_move_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = b"a,b\n" + b"1,2\n" * 5000
    monkeypatch.setattr("lancewood.files.csv_source.stdin_bytes", lambda: io.BytesIO(data))
    source = CsvSource("-", "stdin", CsvOptions())
    with source._bytes() as busy, source._bytes() as other:
        parts = [(busy.read(1000), other.read(7)) for _ in range(5)]
        assert b"".join(each for each, _ in parts) == data[:5000]
        assert b"".join(each for _, each in parts) == data[:35]
        assert other.read(-1) == data[35:]
    with source._bytes() as later:
        assert later.read(-1) == data


def test_csv_options_say_how_the_file_is_written(lw_ok: Lw, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text('1;x;NA\n2;"NA";\n')
    uri = tmp_path / "t.lance"
    options = ["--format", "csv", "--delimiter", ";", "--no-header", "--names", "id,text,more"]
    lw_ok("table", "import", uri, tmp_path / "a.txt", *options, "--null-value", "NA")
    assert read_by_pylance(uri) == [
        {"id": 1, "text": "x", "more": None},
        {"id": 2, "text": "NA", "more": None},
    ]
    lw_ok("table", "import", tmp_path / "u.lance", tmp_path / "a.txt", *options[:5])
    assert lw.open(tmp_path / "u.lance").schema.names == ["f0", "f1", "f2"]
    (tmp_path / "b.csv").write_text("a,b\n1,2\n")
    lw_ok("table", "import", tmp_path / "v.lance", tmp_path / "b.csv", "--names", "c,d")
    assert read_by_pylance(tmp_path / "v.lance") == [{"c": 1, "d": 2}]


def test_casts_give_columns_other_types(lw_ok: Lw, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"id": 1, "v": [1, 2], "d": "2026-05-01"}\n')
    casts = ["id:int8", "v:fixed_size_list<float>[2]", "d:date32", "extra:string"]
    options = [part for each in casts for part in ("--cast", each)]
    lw_ok("table", "import", tmp_path / "t.lance", tmp_path / "a.jsonl", *options)
    schema = lance.dataset(str(tmp_path / "t.lance")).schema
    assert [str(each.type) for each in schema] == [
        "int8",
        "fixed_size_list<item: float>[2]",
        "date32[day]",
        "string",
    ]
    pq.write_table(pa.table({"n": [1, 2]}), tmp_path / "n.parquet")
    lw_ok("table", "import", tmp_path / "u.lance", tmp_path / "n.parquet", "--cast", "n:double")
    assert read_by_pylance(tmp_path / "u.lance") == [{"n": 1.0}, {"n": 2.0}]


def test_the_ids_that_parquet_gives_its_columns_do_not_become_metadata(
    lw_ok: Lw, tmp_path: Path
) -> None:
    pq.write_table(ROWS, tmp_path / "x.parquet")
    lw_ok("table", "import", tmp_path / "t.lance", tmp_path / "x.parquet")
    assert all(not each.metadata for each in lw.open(tmp_path / "t.lance").schema)


REFUSALS: dict[str, tuple[list[str], int, str]] = {
    "a table that is there": (["old.lance", "a.parquet"], 4, "--mode append or --mode overwrite"),
    "no table to append to": (["new.lance", "a.parquet", "--mode", "append"], 3, "no table at"),
    "no such file": (["new.lance", "nope.csv"], 3, "no file 'nope.csv'"),
    "no file for a pattern": (["new.lance", "no*.csv"], 3, "no file"),
    "an empty directory": (["new.lance", "empty"], 3, "holds no file"),
    "a format that cannot be told": (["new.lance", "a.bin"], 5, "use --format"),
    "a remote file": (["new.lance", "s3://b/x.csv"], 5, "not a local file"),
    "stdin beside files": (["new.lance", "-", "a.csv"], 5, "stands alone"),
    "parquet from stdin": (["new.lance", "-", "--format", "parquet"], 5, "footer comes last"),
    "another column": (["new.lance", "a.parquet", "c.parquet"], 5, "has column 'z'"),
    "another type": (["new.lance", "a.parquet", "b.parquet"], 5, "--cast id:TYPE"),
    "a cast of no column": (["new.lance", "a.parquet", "--cast", "q:int8"], 5, "'q'"),
    "a cast to no type": (["new.lance", "a.parquet", "--cast", "id:intt"], 5, "is not known"),
    "a cast that loses": (["new.lance", "a.csv", "--cast", "name:int8"], 5, "a.csv"),
    "not parquet": (["new.lance", "fake.parquet"], 5, "fake.parquet cannot be read"),
    "not arrow": (["new.lance", "fake.arrow"], 5, "fake.arrow cannot be read"),
    "not json": (["new.lance", "fake.json"], 5, "fake.json is not UTF-8"),
    "an empty csv": (["new.lance", "empty.csv"], 5, "empty.csv cannot be read"),
    "an empty json": (["new.lance", "empty.json"], 5, "holds no row"),
    "columns that occur twice": (["new.lance", "twice.csv"], 5, "two columns 'a'"),
    "a wrong file version": (["new.lance", "a.csv", "--file-version", "9"], 5, "9"),
    "a file version to append": (
        ["old.lance", "a.csv", "--mode", "append", "--file-version", "2.0"],
        2,
        "--file-version",
    ),
    "row ids to append": (
        ["old.lance", "a.csv", "--mode", "append", "--no-stable-row-ids"],
        2,
        "--no-stable-row-ids",
    ),
    "a long delimiter": (["new.lance", "a.csv", "--delimiter", "::"], 2, "one character"),
    "no character as delimiter": (["new.lance", "a.csv", "--delimiter", "\0"], 2, "one character"),
    "a quote as delimiter": (["new.lance", "a.csv", "--delimiter", '"'], 2, "one character"),
    "a name that is not UTF-8": (["new.lance", "odd\udcff.csv"], 5, "not UTF-8"),
    "a directory with such a name": (["new.lance", "odd"], 5, "not UTF-8"),
    "a column that the table lacks": (
        ["old.lance", "c.parquet", "--mode", "append"],
        5,
        "does not fit the table",
    ),
    "a mode of its own": (["new.lance", "a.csv", "--mode", "merge"], 2, "merge"),
    "a property without a value": (["new.lance", "a.csv", "--property", "x"], 2, "KEY=VALUE"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_what_cannot_be_imported_is_refused_and_leaves_nothing(
    lw_run: Lw, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    monkeypatch.chdir(tmp_path)
    lw.create("old.lance", ROWS)
    pq.write_table(ROWS, "a.parquet")
    pq.write_table(ROWS.set_column(0, "id", pa.array(["1", "2", "3"])), "b.parquet")
    pq.write_table(ROWS.append_column("z", pa.array([1, 2, 3])), "c.parquet")
    csv.write_csv(ROWS, "a.csv")
    for name in ("fake.parquet", "fake.arrow", "fake.json", "a.bin"):
        Path(name).write_bytes(b"\x00\x01\xffnothing of the kind")
    for name in ("empty.csv", "empty.json"):
        Path(name).write_text("")
    Path("twice.csv").write_text("a,a\n1,2\n")
    Path("empty").mkdir()
    Path("odd").mkdir()
    Path("odd/odd\udcff.csv").write_text("a\n1\n")
    before = files_below(tmp_path)
    args, code, told = REFUSALS[case]
    ran = lw_run("table", "import", *args)
    assert (ran.code, ran.out) == (code, ""), ran.err
    assert told in ran.err
    assert ran.err.startswith("lw: ")
    assert "Traceback" not in ran.err
    assert files_below(tmp_path) == before


@pytest.mark.parametrize("mode", ["create", "append", "overwrite"])
@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_a_file_that_breaks_half_way_leaves_neither_version_nor_data(
    lw_run: Lw, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, suffix: str
) -> None:
    small_blocks(monkeypatch, 2000)
    uri = tmp_path / "t.lance"
    rows = [{"id": number} for number in range(2000)]
    good = "".join(json.dumps(each) + "\n" for each in rows)
    if suffix == "csv":
        good = "id\n" + "".join(f"{each['id']}\n" for each in rows)
    bad = "oops\n" if suffix == "csv" else '{"id": "oops"}\n'
    (tmp_path / f"x.{suffix}").write_text(good + bad)
    if mode != "create":
        lw.create(uri, pa.table({"id": [1]}))
    before = files_below(uri)
    options = ["--mode", mode, "--max-rows-per-file", 100, "--json"]
    ran = lw_run("table", "import", uri, tmp_path / f"x.{suffix}", *options)
    assert ran.code == 5
    assert ran.error["type"] == "InvalidInputError"
    assert f"x.{suffix}" in ran.error["message"]
    assert "--cast" in ran.error["message"]
    assert files_below(uri) == before


def test_a_file_is_read_block_by_block(lw_ok: Lw, tmp_path: Path) -> None:
    from lancewood.files.sources import ImportOptions, SourceFiles

    path = tmp_path / "x.jsonl"
    path.write_text("".join(f'{{"id": {n}, "t": "{"x" * 100}"}}\n' for n in range(200_000)))
    seen: list[int] = []
    reader = SourceFiles([str(path)], ImportOptions()).reader(lambda rows, size: seen.append(rows))
    first = reader.read_next_batch()
    assert first.num_rows < 100_000
    assert sum(each.num_rows for each in reader) + first.num_rows == sum(seen) == 200_000


def test_help_has_examples_of_types_to_cast_to(lw_ok: Lw) -> None:
    told = " ".join(lw_ok("table", "import", "--help").out.split())
    assert "price:double" in told

from __future__ import annotations

import csv as plain_csv
import io
import json
import os
import pty
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.ipc as ipc
import pyarrow.parquet as pq
import pytest

import lancewood as lw

Lw = Callable[..., Any]
ROWS = pa.table(
    {
        "id": pa.array(range(300), pa.int64()),
        "name": [None if n % 3 else f'n "{n}"' for n in range(300)],
        "v": pa.array([[n, n + 0.5] for n in range(300)], pa.list_(pa.float32(), 2)),
    }
)


@pytest.fixture
def uri(tmp_path: Path) -> str:
    location = str(tmp_path / "t.lance")
    lw.create(location, ROWS.slice(0, 100), layout=lw.Layout(max_rows_per_file=40)).append(
        ROWS.slice(100)
    )
    return location


READERS: dict[str, Callable[[bytes], pa.Table]] = {
    "parquet": lambda data: pq.read_table(io.BytesIO(data)),
    "arrow": lambda data: ipc.open_file(data).read_all(),
    "arrow-stream": lambda data: ipc.open_stream(data).read_all(),
    "json": lambda data: pa.Table.from_pylist(
        [json.loads(line) for line in data.splitlines()], schema=ROWS.schema
    ),
}


@pytest.mark.parametrize("format", READERS)
def test_what_is_exported_is_what_the_table_holds(
    lw_ok: Lw, uri: str, tmp_path: Path, format: str
) -> None:
    target = tmp_path / f"x.{'arrows' if format == 'arrow-stream' else format}"
    done = lw_ok("table", "export", uri, target, "--json").document
    assert list(done) == ["uri", "version", "file", "format", "rows", "bytes"]
    assert (done["rows"], done["version"], done["format"]) == (300, 2, format)
    assert READERS[format](target.read_bytes()).equals(ROWS)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["t.lance", target.name]
    ran = lw_ok("table", "export", uri, "-", "--format", format)
    assert READERS[format](ran.raw).equals(ROWS)
    assert ran.err == ""


def test_csv_holds_what_is_nested_as_json(lw_ok: Lw, uri: str, tmp_path: Path) -> None:
    lw_ok("table", "export", uri, tmp_path / "x.csv", "--limit", 2)
    assert (tmp_path / "x.csv").read_text().splitlines() == [
        '"id","name","v"',
        '0,"n ""0""","[0.0, 0.5]"',
        '1,,"[1.0, 1.5]"',
    ]
    lw_ok("table", "export", uri, tmp_path / "x.tsv", "--limit", 1, "--columns", "id,name")
    assert (tmp_path / "x.tsv").read_text() == '"id"\t"name"\n0\t"n ""0"""\n'


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_a_table_survives_the_way_through_a_text_file(
    lw_ok: Lw, uri: str, tmp_path: Path, suffix: str
) -> None:
    lw_ok("table", "export", uri, tmp_path / f"x.{suffix}")
    again = tmp_path / "again.lance"
    casts = ["--cast", "v:fixed_size_list<float>[2]"]
    lw_ok("table", "import", again, tmp_path / f"x.{suffix}", *casts)
    assert lw.open(again).to_arrow().equals(ROWS)


def test_filter_columns_limit_and_version_choose_what_is_written(
    lw_ok: Lw, uri: str, tmp_path: Path
) -> None:
    lw_ok("table", "export", uri, tmp_path / "a.csv", "-w", "id % 100 = 7", "-c", "id")
    assert csv.read_csv(str(tmp_path / "a.csv")).to_pydict() == {"id": [7, 107, 207]}
    lw_ok("table", "export", uri, tmp_path / "b.parquet", "--version", 1)
    assert pq.read_metadata(tmp_path / "b.parquet").num_rows == 100
    lw_ok("table", "export", uri, tmp_path / "c.parquet", "-w", "id < 0")
    assert pq.read_table(tmp_path / "c.parquet").schema.equals(ROWS.schema)


def test_small_batches_do_not_become_small_row_groups(lw_ok: Lw, uri: str, tmp_path: Path) -> None:
    lw_ok("table", "export", uri, tmp_path / "a.parquet")
    assert pq.read_metadata(tmp_path / "a.parquet").num_row_groups == 1


def test_a_file_is_replaced_only_when_forced(lw_run: Lw, uri: str, tmp_path: Path) -> None:
    target = tmp_path / "x.csv"
    target.write_text("mine")
    ran = lw_run("table", "export", uri, target)
    assert ran.code == 4
    assert "--force" in ran.err
    assert target.read_text() == "mine"
    assert lw_run("table", "export", uri, target, "--force").code == 0
    assert target.read_text().startswith('"id"')


def test_a_file_that_appears_meanwhile_is_not_replaced(
    lw_run: Lw, uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "x.csv"
    told = lw.Scan.to_batches

    def slow(scan: lw.Scan) -> Any:
        target.write_text("theirs")
        return told(scan)

    monkeypatch.setattr(lw.Scan, "to_batches", slow)
    ran = lw_run("table", "export", uri, target)
    assert ran.code == 4
    assert target.read_text() == "theirs"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["t.lance", "x.csv"]


def test_an_export_that_fails_half_way_leaves_no_file(lw_run: Lw, uri: str, tmp_path: Path) -> None:
    files = sorted((Path(uri) / "data").iterdir())
    lost = lw.open(uri).fragments[-1].files[0].path
    (Path(uri) / "data" / lost).unlink()
    assert len(files) > 1
    ran = lw_run("table", "export", uri, tmp_path / "x.parquet")
    assert ran.code == 3
    assert lost in ran.err
    assert [each.name for each in tmp_path.iterdir()] == ["t.lance"]


def test_a_link_stays_and_its_target_is_replaced_with_its_mode(
    lw_run: Lw, uri: str, tmp_path: Path
) -> None:
    (tmp_path / "deep").mkdir()
    target, link = tmp_path / "deep" / "x.csv", tmp_path / "link.csv"
    target.write_text("mine")
    target.chmod(0o600)
    link.symlink_to(target)
    assert lw_run("table", "export", uri, link).code == 4
    assert lw_run("table", "export", uri, link, "--force").code == 0
    assert link.is_symlink()
    assert target.read_text().startswith('"id"')
    assert target.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in (tmp_path / "deep").iterdir()] == ["x.csv"]


@pytest.mark.parametrize("force", [[], ["--force"]])
def test_a_pipe_is_written_into_and_stays(
    lw_ok: Lw, uri: str, tmp_path: Path, force: list[str]
) -> None:
    fifo = tmp_path / "x.csv"
    os.mkfifo(fifo)
    with subprocess.Popen(["cat", str(fifo)], stdout=subprocess.PIPE) as reader:
        try:
            lw_ok("table", "export", uri, fifo, "--columns", "id", *force)
            assert fifo.is_fifo()
            assert reader.stdout is not None
            assert reader.stdout.read().count(b"\n") == 301
        finally:
            reader.kill()


def test_a_device_is_written_into_and_stays(lw_ok: Lw, uri: str) -> None:
    ours, theirs = pty.openpty()  # where a file could not take its place, whatever happens
    device = os.ttyname(theirs)
    lw_ok("table", "export", uri, device, "--format", "csv", "--limit", 1, "-c", "id", "--force")
    assert os.read(ours, 100) == b'"id"\r\n0\r\n'
    assert Path(device).is_char_device()
    os.close(ours)
    os.close(theirs)


@pytest.mark.parametrize("length", [242, 255])
def test_a_name_may_be_as_long_as_the_file_system_allows(
    lw_ok: Lw, uri: str, tmp_path: Path, length: int
) -> None:
    target = tmp_path / ("x" * (length - 4) + ".csv")
    lw_ok("table", "export", uri, target)
    assert target.read_text().startswith('"id"')


def test_a_name_that_is_too_long_is_told(lw_run: Lw, uri: str, tmp_path: Path) -> None:
    ran = lw_run("table", "export", uri, tmp_path / ("x" * 300 + ".csv"))
    assert ran.code == 11
    assert "too long" in ran.err
    assert [each.name for each in tmp_path.iterdir()] == ["t.lance"]


@pytest.mark.parametrize(
    ("target", "code", "told"),
    [
        ("x.unknown", 5, "use --format"),
        ("-", 5, "use --format"),
        ("no/such/x.csv", 5, "no directory"),
        ("s3://b/x.csv", 5, "not a local file"),
        ("folder.csv", 5, "is a directory"),
        ("x.csv.gz", 5, "compress it"),
    ],
)
def test_a_bad_target_is_told_before_anything_is_read(
    lw_run: Lw,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    target: str,
    code: int,
    told: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder.csv").mkdir()
    ran = lw_run("table", "export", "nowhere.lance", target)
    assert ran.code == code
    assert told in ran.err


def test_a_full_disk_is_a_storage_error(
    lw_run: Lw, uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("lancewood.files.sinks.os.fsync", full)
    ran = lw_run("table", "export", uri, tmp_path / "x.jsonl")
    assert ran.code == 11
    assert "No space left" in ran.err
    assert [each.name for each in tmp_path.iterdir()] == ["t.lance"]


def test_columns_that_a_format_cannot_hold_are_refused(lw_run: Lw, tmp_path: Path) -> None:
    uri = tmp_path / "t.lance"
    lw.create(uri, pa.schema({"x": pa.decimal128(5, -2)}))
    ran = lw_run("table", "export", uri, tmp_path / "x.parquet")
    assert ran.code == 9
    assert "another --format" in ran.err
    assert [each.name for each in tmp_path.iterdir()] == ["t.lance"]
    assert lw_run("table", "export", uri, tmp_path / "x.csv").code == 0


def test_dictionaries_go_out_as_their_values(lw_ok: Lw, tmp_path: Path) -> None:
    uri = tmp_path / "t.lance"
    kind = pa.struct({"d": pa.dictionary(pa.int8(), pa.string())})
    lw.create(uri, pa.table({"x": pa.array([{"d": "a"}], kind)}))
    lw_ok("table", "export", uri, tmp_path / "x.json")
    assert json.loads((tmp_path / "x.json").read_text()) == {"x": {"d": "a"}}


def test_a_spreadsheet_finds_no_formula_in_a_safe_export(lw_ok: Lw, tmp_path: Path) -> None:
    texts = ["=cmd|'/c calc'!A0", "+1", "-2", "@SUM(A1)", "\t=1", "\r=1", "plain", "a=b", None]
    kind = pa.dictionary(pa.int32(), pa.string())
    rows = {
        "=name": texts,
        "coded": pa.array(texts).cast(kind),
        "large": pa.array(texts, pa.large_string()),
        "n": [-1] * len(texts),
    }
    lw.create(tmp_path / "t.lance", pa.table(rows))
    lw_ok("table", "export", tmp_path / "t.lance", tmp_path / "raw.csv")
    lw_ok("table", "export", tmp_path / "t.lance", tmp_path / "safe.csv", "--safe")
    with open(tmp_path / "raw.csv", newline="") as file:
        assert [row[0] for row in plain_csv.reader(file)] == ["=name", *texts[:-1], ""]
    with open(tmp_path / "safe.csv", newline="") as file:
        names, *safe = plain_csv.reader(file)
    assert names == ["'=name", "coded", "large", "n"]
    expected = [*(f"'{each}" for each in texts[:6] if each), "plain", "a=b", ""]
    assert safe == [[each, each, each, "-1"] for each in expected]


def test_safe_is_for_csv(lw_run: Lw, tmp_path: Path) -> None:
    lw.create(tmp_path / "t.lance", pa.table({"a": [1]}))
    ran = lw_run("table", "export", tmp_path / "t.lance", tmp_path / "a.parquet", "--safe")
    assert ran.code == 2
    assert "--safe is for CSV" in ran.err
    assert not (tmp_path / "a.parquet").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("table", "changes", "t.lance", "--since", "1", "--format", "csv"),
        ("sql", "SELECT * FROM 't.lance'", "--csv"),
    ],
    ids=["changes", "sql"],
)
def test_safe_is_there_wherever_csv_is_written(
    lw_ok: Lw, lw_run: Lw, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    lw.create("t.lance", pa.schema({"text": pa.string()})).append(pa.table({"text": ["=1+1"]}))
    assert '"=1+1"' in lw_ok(*words).out
    assert """"'=1+1\"""" in lw_ok(*words, "--safe").out
    ran = lw_run(*words[:-1] if words[0] == "sql" else (*words[:-1], "json"), "--safe")
    assert ran.code == 2
    assert "--safe is for CSV" in ran.err

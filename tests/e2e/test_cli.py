"""``lw`` as people run it: a process of its own, pipes, signals and exit codes."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.breadth import daily

import lancewood as lw

LW = str(Path(sys.executable).parent / "lw")
ROWS = pa.table({"id": range(50_000), "name": [f"name {n}" for n in range(50_000)]})


def run(*args: object, **settings: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [LW, *map(str, args)], capture_output=True, text=True, timeout=600, check=False, **settings
    )


@pytest.fixture
def uri(tmp_path: Path) -> str:
    location = str(tmp_path / "t.lance")
    lw.create(location, ROWS)
    return location


@pytest.mark.campaign
def test_a_table_lives_its_life_on_the_command_line(tmp_path: Path) -> None:
    pq.write_table(ROWS.slice(0, 10), tmp_path / "a.parquet")
    (tmp_path / "b.csv").write_text("id,name\n10,ten\n")
    for args, told in [
        (["import", "t.lance", "a.parquet", "-m", "first"], "imported 10 rows"),
        (["import", "t.lance", "b.csv", "--mode", "append"], "version 2"),
        (["count", "t.lance"], "11"),
        (["config", "t.lance", "owner=me"], "owner  me"),
        (["restore", "t.lance", "1"], "as version 4"),
        (["update", "t.lance", "--set", "name=upper(name)", "-w", "id = 1"], "updated 1 row"),
        (["delete", "t.lance", "--where", "id < 8 AND id > 1"], "deleted 6 rows"),
        (["merge", "t.lance", "b.csv", "--on", "id"], "1 inserted, 0 updated"),
        (["add-columns", "t.lance", "--set", "twice=id * 2"], "added twice (int64)"),
        (["changes", "t.lance", "--since", "4", "--count"], "1 row inserted, 1 updated, 6 deleted"),
        (["drop-columns", "t.lance", "twice"], "removed 1 column"),
        (["delete", "t.lance", "--where", "id = 10"], "deleted 1 row"),
        (["compact", "t.lance"], "replaced"),
        (["verify", "t.lance", "--deep"], "is whole"),
        (["cleanup", "t.lance", "--keep-versions", "1", "--in-flight", "0s"], "removed"),
        (["export", "t.lance", "out.jsonl", "--where", "id >= 8"], "exported 2 rows"),
        (["drop", "t.lance", "--yes"], "dropped"),
    ]:
        done = run("table", *args, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert told in done.stdout
        if args[0] == "restore":
            assert lance.dataset(str(tmp_path / "t.lance")).count_rows() == 10
        if args[0] == "cleanup":
            dataset = lance.dataset(str(tmp_path / "t.lance"))
            dataset.validate()
            assert dataset.to_table().to_pydict() == {
                "id": [0, 8, 9, 1],
                "name": ["name 0", "name 8", "name 9", "NAME 1"],
            }
    lines = (tmp_path / "out.jsonl").read_text().splitlines()
    assert [json.loads(each)["id"] for each in lines] == [8, 9]
    assert not (tmp_path / "t.lance").exists()


def test_errors_have_their_codes_and_no_traceback(uri: str, tmp_path: Path) -> None:
    wrong: list[tuple[list[object], int]] = [
        (["table", "head", tmp_path / "no.lance"], 3),
        (["table", "create", uri, "--column", "a:int8"], 4),
        (["table", "count", uri, "--where", "nope = 1"], 5),
        (["table", "head", "ftp://host/x"], 9),
        (["table", "head"], 2),
        ([], 2),
    ]
    for args, code in wrong[:: daily(2, of=1)]:
        done = run(*args)
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr
        assert done.stdout == ""


@pytest.mark.parametrize("as_json", [[], ["--json"]])
def test_a_reader_that_has_enough_ends_the_command_quietly(uri: str, as_json: list[str]) -> None:
    with subprocess.Popen(
        [LW, "table", "cat", uri, *as_json], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 141


def test_help_into_a_closed_pipe_is_quiet() -> None:
    done = subprocess.run(
        f"{LW} --help | true; echo ${{PIPESTATUS[0]}}",
        shell=True,
        executable="/bin/bash",
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.strip() in ("0", "141")
    assert done.stderr == ""


LINE = b"1,some text to fill the blocks\n"
JUST_OVER_A_BLOCK = (8 << 20) // len(LINE) + 100
"""Far more rows than a pipe holds: once they are written, the command reads and waits for more."""


@pytest.mark.parametrize("source", ["file", "stdin"])
def test_an_interrupt_leaves_nothing_visible_and_no_data(tmp_path: Path, source: str) -> None:
    uri = tmp_path / "t.lance"
    data = b"id,text\n" + LINE * JUST_OVER_A_BLOCK
    (tmp_path / "x.csv").write_bytes(data)
    name = "-" if source == "stdin" else str(tmp_path / "x.csv")
    command = [LW, "table", "import", str(uri), name, "--format", "csv", "--max-rows-per-file"]
    command += ["10000" if source == "stdin" else "1"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        try:
            assert process.stdin is not None
            assert process.stderr is not None
            if source == "stdin":
                process.stdin.write(data)
                process.stdin.flush()
            # What comes through a pipe is kept aside until its end: there is no data yet.
            deadline = time.monotonic() + (60 if source == "file" else 0)
            while not any(uri.glob("data/*.lance")) and time.monotonic() < deadline:
                time.sleep(0.01)
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 130
            assert process.stderr.read().startswith(b"lw: interrupted")
        finally:
            process.kill()
    assert not lw.exists(uri)
    assert list(uri.glob("data/*")) == []
    assert lw.create(uri, ROWS).version == 1


@pytest.mark.sliced(5, at=1)
@pytest.mark.parametrize("format", ["parquet", "csv", "json", "arrow", "arrow-stream"])
def test_an_export_into_a_pipe_that_closes_is_quiet(uri: str, format: str) -> None:
    with subprocess.Popen(
        [LW, "table", "export", uri, "-", "--format", format],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 141


@pytest.mark.sliced(6, at=1)
@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("table count {uri} >&-", 5),
        ("table export {uri} - --format csv >&-", 5),
        ("table import new.lance - --format csv <&-", 5),
        ("table import new.lance - --format json <&-", 5),
        ("table import new.lance - --format arrow-stream <&-", 5),
        ("table drop {uri} <&-", 2),
        ("table delete {uri} <&-", 2),
        ("table count {uri} 2>&-", 0),
        ("table export {uri} x.csv 2>&-", 0),
        ("table count no.lance 2>&-", 3),
        ("table import new.lance $'odd\\xff.csv'", 5),
        ("table count $'odd\\xff.lance'", 5),
    ],
)
def test_a_closed_stream_or_an_odd_name_is_no_bug(
    uri: str, tmp_path: Path, command: str, code: int
) -> None:
    done = subprocess.run(
        ["bash", "-c", f"{LW} {command.format(uri=uri)}"],
        capture_output=True,
        timeout=60,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == code, done.stderr
    assert b"internal" not in done.stderr + done.stdout
    assert lw.exists(uri)


def test_stdout_by_its_name_is_written_into(uri: str, tmp_path: Path) -> None:
    link = tmp_path / "link.csv"
    link.symlink_to("/proc/self/fd/1")
    done = run("table", "export", uri, link, "--force", "-n", "2")
    assert done.returncode == 0, done.stderr
    assert link.is_symlink()
    assert done.stdout.startswith('"id","name"\n0,"name 0"\n1,"name 1"\n')


def test_json_is_json_where_the_terminal_knows_ascii_only(tmp_path: Path) -> None:
    lw.create(tmp_path / "t.lance", pa.table({"a": ["\U0001f600 ü"]}))
    surroundings = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = run("table", "cat", tmp_path / "t.lance", "--json", env=surroundings)
    assert json.loads(done.stdout) == {"a": "\U0001f600 ü"}
    done = run("table", "cat", tmp_path / "\U0001f600", "--json", env=surroundings)
    assert "\U0001f600" in json.loads(done.stderr)["error"]["message"]


def at_a_terminal(*args: object, typed: bytes = b"") -> tuple[int, str]:
    """Run on a terminal of its own and type something."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [LW, *map(str, args)],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        env={**os.environ, "NO_COLOR": "1", "TERM": "xterm", "COLUMNS": "100"},
    ) as process:
        os.close(theirs)
        os.write(ours, typed)
        said = b""
        try:
            while part := os.read(ours, 4096):
                said += part
        except OSError:
            pass  # how Linux tells that the other side is gone
        os.close(ours)
        return process.wait(60), said.decode()


def test_what_may_be_long_goes_through_a_pager(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    last = lw.open(uri).update({"name": "'new'"}, "id = 3").version
    asked = ("table", "diff", uri, last - 1, last, "--exit-code")
    monkeypatch.setenv("PAGER", "sed 's/^/> /'")
    code, said = at_a_terminal(*asked)
    assert code == 1
    assert "> ~    3   name 3 -> new" in said
    assert "> " not in at_a_terminal(*asked, "--json")[1]
    monkeypatch.setenv("PAGER", "head -n 0")
    assert at_a_terminal(*asked) == (1, "")
    for nobody in ("cat", ""):
        monkeypatch.setenv("PAGER", nobody)
        assert at_a_terminal(*asked)[1].count("~") == 1


def test_a_person_is_asked_before_a_table_is_dropped(uri: str) -> None:
    code, said = at_a_terminal("table", "drop", uri, typed=b"n\n")
    assert code == 13
    assert "Drop it for good?" in said
    assert lw.exists(uri)
    code, said = at_a_terminal("table", "drop", uri, typed=b"y\n")
    assert code == 0
    assert not lw.exists(uri)


def test_a_person_is_asked_before_all_rows_are_deleted(uri: str) -> None:
    code, said = at_a_terminal("table", "delete", uri, typed=b"n\n")
    assert code == 13
    assert "50,000 rows" in said
    assert "Delete all of them?" in said
    assert lw.open(uri).version == 1
    code, said = at_a_terminal("table", "delete", uri, typed=b"y\n")
    assert code == 0
    assert lance.dataset(uri).count_rows() == 0


def test_a_person_sees_a_bar_for_each_kind_of_work(uri: str, tmp_path: Path) -> None:
    pq.write_table(ROWS.slice(0, 10), tmp_path / "a.parquet")
    code, said = at_a_terminal("table", "merge", uri, tmp_path / "a.parquet", "--on", "id")
    assert code == 0
    assert all(each in said for each in ("reading rows", "matching keys", "writing rows"))
    assert "0 inserted, 10 updated" in said


def test_a_person_sees_a_bar_and_short_values(uri: str, tmp_path: Path) -> None:
    code, said = at_a_terminal("table", "export", uri, tmp_path / "x.parquet")
    assert code == 0
    assert "export" in said
    assert "50,000 rows" in said
    code, said = at_a_terminal("table", "info", uri)
    assert "50,000" in said
    assert "\x1b[3" not in said


def test_a_pipe_sees_neither_bar_nor_colour(uri: str, tmp_path: Path) -> None:
    done = run("table", "export", uri, tmp_path / "x.parquet")
    assert done.stderr == ""
    assert done.stdout.startswith("exported 50,000 rows")
    assert "\x1b" not in run("table", "head", uri).stdout

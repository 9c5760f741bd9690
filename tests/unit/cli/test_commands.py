"""What each command prints, for people and for programs."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.model.manifest import decode_fragment

Lw = Callable[..., Any]
ROWS = pa.table({"id": [1, 2, 3], "name": ["a", None, "c"], "raw": [b"\xff", b"", None]})


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """Three versions: created, appended, configured."""
    location = str(tmp_path / "t.lance")
    table = lw.create(location, ROWS, message="first").append(ROWS, message="second")
    table.set_config({"lancewood.note": "x"}, commit=lw.CommitOptions(properties={"run": "7"}))
    return location


def test_create_makes_an_empty_table_of_the_columns(lw_ok: Lw, tmp_path: Path) -> None:
    uri = tmp_path / "t.lance"
    options = ["--column", "id:int64 not null", "--column", "v:fixed_size_list<float>[4]"]
    done = lw_ok("table", "create", uri, *options, "-m", "empty", "--json").document
    assert done == {"uri": str(uri), "version": 1, "branch": "main", "rows": 0}
    schema = lance.dataset(str(uri)).schema
    assert schema.field("id") == pa.field("id", pa.int64(), nullable=False)
    assert schema.field("v").type == pa.list_(pa.float32(), 4)
    told = lw_ok("table", "create", tmp_path / "u.lance", "--column", "id:int64").out
    assert told == f"created {tmp_path}/u.lance, version 1 of main, 1 column\n"


def test_create_takes_the_columns_of_a_file_or_a_table(lw_ok: Lw, uri: str, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a,b\n1,x\n")
    lw_ok("table", "create", tmp_path / "c.lance", "--schema-from", tmp_path / "x.csv")
    assert lw.open(tmp_path / "c.lance").schema == pa.schema({"a": pa.int64(), "b": pa.string()})
    lw_ok("table", "create", tmp_path / "d.lance", "--schema-from", uri)
    assert lw.open(tmp_path / "d.lance").schema == ROWS.schema
    assert lw.open(tmp_path / "d.lance").count_rows() == 0


def test_create_takes_the_columns_of_a_table_by_its_uri(
    lw_ok: Lw, lw_run: Lw, uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lw_ok("table", "create", tmp_path / "a.lance", "--schema-from", f"file://{uri}")
    assert lance.dataset(str(tmp_path / "a.lance")).schema == ROWS.schema
    asked: list[object] = []

    def opened(location: str, **options: object) -> Any:
        asked.append((location, options))
        raise lw.NotFoundError("no table there")

    monkeypatch.setattr("lancewood.cli.commands.table.lw.open", opened)
    options = ["--schema-from", "s3://b/t", "--storage-option", "region=x"]
    assert lw_run("table", "create", tmp_path / "b.lance", *options).code == 3
    assert asked == [("s3://b/t", {"access": lw.Access(storage_options={"region": "x"})})]


@pytest.mark.parametrize("options", [[], ["--column", "a:int8", "--schema-from", "x.csv"]])
def test_create_needs_columns_from_one_place(
    lw_run: Lw, tmp_path: Path, options: list[str]
) -> None:
    ran = lw_run("table", "create", tmp_path / "t.lance", *options)
    assert ran.code == 2
    assert "--column" in ran.err


def test_create_refuses_a_table_that_is_there(lw_run: Lw, uri: str) -> None:
    ran = lw_run("table", "create", uri, "--column", "a:int8", "--json")
    assert (ran.code, ran.error["type"]) == (4, "AlreadyExistsError")


INFO_KEYS = [
    "uri",
    "version",
    "branch",
    "rows",
    "deleted_rows",
    "columns",
    "fragments",
    "data_files",
    "deletion_files",
    "bytes",
    "manifest_bytes",
    "newest_version",
    "oldest_version",
    "versions",
    "created",
    "updated",
    "file_version",
    "stable_row_ids",
    "reader_flags",
    "writer_flags",
    "naming_scheme",
    "writer",
    "indices",
    "config",
    "metadata",
    "base_paths",
]


def test_info_tells_what_a_table_is(lw_ok: Lw, uri: str) -> None:
    found = lw_ok("table", "info", uri, "--json").document
    assert list(found) == INFO_KEYS
    table = lw.open(uri)
    assert found["uri"] == uri
    assert (found["version"], found["versions"], found["oldest_version"]) == (3, 3, 1)
    assert (found["rows"], found["fragments"], found["data_files"]) == (6, 2, 2)
    assert found["bytes"] == table.stats().bytes
    assert found["created"] == table.checkout(version=1).timestamp.isoformat()
    assert found["updated"] == table.timestamp.isoformat()
    assert found["naming_scheme"] == "V2"
    assert found["config"] == {"lancewood.note": "x"}
    assert found["stable_row_ids"] is True
    assert found["branch"] is None
    text = lw_ok("table", "info", uri, "--version", 1).out
    assert "version         1 (the newest is 3)\n" in text
    assert "rows            3\n" in text
    assert "branch          main\n" in text


def test_info_shows_indices_and_deletions_of_pylance(lw_ok: Lw, uri: str) -> None:
    dataset = lance.dataset(uri)
    dataset.create_scalar_index("id", "BTREE")
    dataset.delete("id = 1")
    found = lw_ok("table", "info", uri, "--json").document
    assert found["indices"] == [{"name": "id_idx", "kind": "BTREE", "column": "id"}]
    assert (found["rows"], found["deleted_rows"], found["deletion_files"]) == (4, 2, 2)
    assert found["writer"].startswith("lance 14")
    assert "index           id_idx (BTREE)\n" in lw_ok("table", "info", uri).out


def test_info_does_not_know_when_a_table_was_made_whose_first_version_is_gone(
    lw_ok: Lw, uri: str
) -> None:
    (Path(uri) / "_versions" / "18446744073709551614.manifest").unlink()
    found = lw_ok("table", "info", uri, "--json").document
    assert (found["created"], found["oldest_version"]) == (None, 2)


def test_schema_shows_ids_types_and_metadata(lw_ok: Lw, tmp_path: Path) -> None:
    uri = tmp_path / "t.lance"
    inner = pa.field("x", pa.int8(), nullable=False, metadata={"unit": "m"})
    lw.create(uri, pa.schema([pa.field("s", pa.struct([inner]))], metadata={"of": "tests"}))
    found = lw_ok("table", "schema", uri, "--json").document
    child = {
        "id": 1,
        "name": "x",
        "type": "int8",
        "nullable": False,
        "metadata": {"unit": "m"},
        "children": [],
    }
    assert found == {
        "uri": str(uri),
        "version": 1,
        "fields": [
            {
                "id": 0,
                "name": "s",
                "type": "struct",
                "nullable": True,
                "metadata": {},
                "children": [child],
            }
        ],
        "metadata": {"of": "tests"},
    }
    assert lw_ok("table", "schema", uri).out.splitlines() == [
        "id  column  type    nullable  metadata",
        " 0  s       struct  yes",
        " 1    x     int8    no        unit=m",
    ]


def test_head_and_cat_print_rows(lw_ok: Lw, uri: str) -> None:
    assert lw_ok("table", "head", uri, "-n", 2).out.splitlines() == [
        "id  name  raw",
        " 1  a     <1 B>",
        " 2  null  <0 B>",
    ]
    first = {"id": 1, "name": "a", "raw": "/w=="}
    assert lw_ok("table", "head", uri, "--json", "-n", 1).lines == [first]
    assert len(lw_ok("table", "head", uri, "--json").lines) == 6
    assert len(lw_ok("table", "cat", uri, "--json").lines) == 6
    chosen = ["--where", "id > 1", "--columns", "id", "-c", "name", "--limit", 2, "--offset", 1]
    assert lw_ok("table", "cat", uri, *chosen, "--json").lines == [
        {"id": 3, "name": "c"},
        {"id": 2, "name": None},
    ]
    assert lw_ok("table", "cat", uri, "-w", "id = 3", "--with-row-id", "--json").lines == [
        {"id": 3, "name": "c", "raw": None, "_rowid": 2},
        {"id": 3, "name": "c", "raw": None, "_rowid": 5},
    ]
    assert lw_ok("table", "cat", uri, "-n", 0).out == "id  name  raw\n"


def test_count_counts(lw_ok: Lw, uri: str) -> None:
    assert lw_ok("table", "count", uri).out == "6\n"
    assert lw_ok("table", "count", uri, "-w", "id = 1").out == "2\n"
    found = lw_ok("table", "count", uri, "--version", 1, "--json").document
    assert found == {"uri": uri, "version": 1, "rows": 3}


def test_a_moment_names_a_version(lw_ok: Lw, lw_run: Lw, uri: str) -> None:
    first = lw.open(uri, version=1).timestamp
    found = lw_ok("table", "count", uri, "--as-of", first.isoformat(), "--json").document
    assert found["version"] == 1
    local = datetime.now().isoformat(timespec="seconds")
    assert lw_run("table", "count", uri, "--as-of", "2100-01-01").out == "6\n"
    assert lw_run("table", "count", uri, "--as-of", "1999-01-01").code == 3
    assert lw_run("table", "count", uri, "--as-of", "yesterday").code == 2
    assert lw_run("table", "count", uri, "--as-of", local, "--version", 1).code == 2


def test_versions_are_listed_newest_first(lw_ok: Lw, uri: str) -> None:
    found = lw_ok("table", "versions", uri, "--json").lines
    assert [list(each) for each in found] == [
        ["version", "timestamp", "operation", "rows", "message", "properties", "damage"]
    ] * 3
    assert [(e["version"], e["operation"], e["rows"], e["message"]) for e in found] == [
        (3, "UpdateConfig", 6, None),
        (2, "Append", 6, "second"),
        (1, "Overwrite", 3, "first"),
    ]
    assert found[0]["properties"] == {"run": "7"}
    assert datetime.fromisoformat(found[0]["timestamp"]) == lw.open(uri).timestamp
    text = lw_ok("table", "versions", uri, "-n", 1).out.splitlines()
    assert [line.split()[0] for line in text] == ["version", "3"]
    assert len(lw_ok("table", "versions", uri, "--all").out.splitlines()) == 4


def test_a_damaged_version_is_listed_with_what_is_wrong(lw_ok: Lw, uri: str) -> None:
    (Path(uri) / "_versions" / "18446744073709551613.manifest").write_bytes(b"broken")
    found = lw_ok("table", "versions", uri, "--json").lines
    assert "_versions" in found[1]["damage"]
    assert "damaged: " in lw_ok("table", "versions", uri).out


def test_files_are_listed_with_sizes(lw_ok: Lw, uri: str) -> None:
    lance.dataset(uri).delete("id = 1")
    found = lw_ok("table", "files", uri, "--json").lines
    assert [list(each) for each in found] == [
        ["fragment", "kind", "rows", "bytes", "base", "path", "version", "fields"]
    ] * 4
    assert [(e["fragment"], e["kind"], e["rows"]) for e in found] == [
        (0, "data", 3),
        (0, "deletion", 1),
        (1, "data", 3),
        (1, "deletion", 1),
    ]
    for each in found:
        folder = "data" if each["kind"] == "data" else "_deletions"
        assert (Path(uri) / folder / each["path"]).stat().st_size == each["bytes"]
    assert found[0]["fields"] == [0, 1, 2]
    assert len(lw_ok("table", "files", uri, "-n", 1, "--json").lines) == 2
    assert len(lw_ok("table", "files", uri, "--all").out.splitlines()) == 5


def test_a_short_list_of_files_decodes_no_more_than_it_shows(
    lw_ok: Lw, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = str(tmp_path / "t.lance")
    lw.create(uri, pa.table({"a": range(50)}), layout=lw.Layout(max_rows_per_file=1))
    decoded = []

    def watched(raw: bytes, name: str) -> Any:
        decoded.append(name)
        return decode_fragment(raw, name)

    monkeypatch.setattr("lancewood.table.details.decode_fragment", watched)
    assert len(lw_ok("table", "files", uri, "-n", 3, "--json").lines) == 3
    assert len(decoded) == 3


def test_restore_makes_an_older_version_the_newest(lw_ok: Lw, lw_run: Lw, uri: str) -> None:
    done = lw_ok("table", "restore", uri, 1, "-m", "back", "--json").document
    assert done == {"uri": uri, "version": 4, "branch": "main", "restored": 1}
    assert lance.dataset(uri).count_rows() == 3
    assert next(lw.open(uri).versions()).message == "back"
    assert lw_run("table", "restore", uri, 99).code == 3
    assert lw_run("table", "restore", uri, "x").code == 3


def test_config_is_shown_set_and_unset(lw_ok: Lw, lw_run: Lw, uri: str) -> None:
    assert lw_ok("table", "config", uri).out == "lancewood.note  x\n"
    done = lw_ok("table", "config", uri, "a=b=c", "--unset", "lancewood.note", "--json").document
    assert done == {"uri": uri, "version": 4, "branch": "main", "config": {"a": "b=c"}}
    assert lance.dataset(uri).config() == {"a": "b=c"}
    assert lw_ok("table", "config", uri, "--version", 3, "--json").document["config"] == {
        "lancewood.note": "x"
    }
    ran = lw_run("table", "config", uri, "lance.unknown=1")
    assert (ran.code, lw.open(uri).version) == (5, 4)
    for wrong in (["novalue"], ["a=1", "--unset", "a"], ["a=1", "--version", "1"]):
        assert lw_run("table", "config", uri, *wrong).code == 2


def test_migrate_names_renames_and_then_has_nothing_to_do(lw_ok: Lw, tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    lance.write_dataset(ROWS, uri, enable_v2_manifest_paths=False)
    done = lw_ok("table", "migrate-names", uri, "--json").document
    assert done == {"uri": uri, "renamed": 1, "roots": [""]}
    assert lw_ok("table", "migrate-names", uri).out == f"{uri} has V2 names already\n"
    assert lance.dataset(uri).count_rows() == 3


def test_drop_deletes_when_it_is_told_to(lw_run: Lw, uri: str) -> None:
    ran = lw_run("table", "drop", uri)
    assert ran.code == 2
    assert "--yes" in ran.err
    assert lw.exists(uri)
    done = lw_run("table", "drop", uri, "--yes", "--json")
    assert done.document == {"uri": uri, "dropped": True, "version": 3}
    assert not lw.exists(uri)
    assert lw_run("table", "drop", uri, "--yes").code == 3


def test_drop_refuses_a_tagged_table_unless_forced(lw_run: Lw, uri: str) -> None:
    lance.dataset(uri).tags.create("v1", 1)
    ran = lw_run("table", "drop", uri, "--yes")
    assert ran.code == 5
    assert "tag v1" in ran.err
    assert "--force" in ran.err
    assert lw.exists(uri)
    assert lw_run("table", "drop", uri, "--yes", "--force").code == 0


def test_doctor_checks_a_place(lw_ok: Lw, uri: str, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    found = lw_ok("doctor", uri, "--json").document
    assert list(found) == ["uri", "ok", "checks"]
    assert found["ok"] is True
    assert all(list(e) == ["name", "status", "figure", "advice"] for e in found["checks"])
    assert {e["status"] for e in found["checks"]} <= {"ok", "warn", "skip"}
    assert sorted(tmp_path.rglob("*")) == before
    text = lw_ok("doctor", tmp_path / "new.lance").out
    assert "put-if-absent" in text
    assert "there is none here" in text
    assert sorted(tmp_path.rglob("*")) == before


def test_doctor_fails_with_a_code_of_its_own(lw_run: Lw, uri: str) -> None:
    (Path(uri) / "_versions" / "9.manifest").write_bytes(b"x")
    ran = lw_run("doctor", uri, "--json", "--read-only")
    assert ran.code == 12
    assert ran.document["ok"] is False
    (failed,) = [e for e in ran.document["checks"] if e["status"] == "fail"]
    assert failed["name"] == "table"
    assert "migrate-names" in failed["advice"]
    assert "table: run lw table migrate-names" in lw_run("doctor", uri, "--read-only").out


READING = [
    *("info", "schema", "head", "cat", "count", "versions", "files", "config"),
    *("delete", "compact", "cleanup", "verify", "repair"),
]


@pytest.mark.parametrize("name", READING)
def test_a_table_that_is_not_there_is_told_alike_everywhere(
    lw_run: Lw, tmp_path: Path, name: str
) -> None:
    ran = lw_run("table", name, tmp_path / "no.lance")
    assert (ran.code, ran.out) == (3, "")
    assert ran.err == f"lw: no table at {tmp_path}/no.lance: it has no _versions with a manifest\n"
    told = lw_run("table", name, tmp_path / "no.lance", "--json")
    assert told.code == 3
    assert told.error == {
        "type": "NotFoundError",
        "message": f"no table at {tmp_path}/no.lance: it has no _versions with a manifest",
        "exit_code": 3,
    }
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["cat", "count"])
def test_a_wrong_filter_is_told_before_anything_is_read(lw_run: Lw, uri: str, name: str) -> None:
    ran = lw_run("table", name, uri, "--where", "idd > 1", "--json")
    assert ran.code == 5
    assert "idd" in ran.error["message"]
    assert json.loads(ran.err)


@pytest.mark.usefixtures("pages_decoded_here")
def test_a_bucket_is_a_place_like_any_other(
    lw_ok: Lw, s3_root: str, s3_options: dict[str, str], tmp_path: Path
) -> None:
    options = [f"--storage-option={key}={value}" for key, value in s3_options.items()]
    uri = f"{s3_root}/t.lance"
    (tmp_path / "x.csv").write_text("id,name\n1,a\n2,b\n")
    checks = lw_ok("doctor", uri, *options, "--json").document["checks"]
    found = {each["name"]: each["status"] for each in checks}
    assert found == {
        "reachable": "ok",
        "write": "ok",
        "read": "ok",
        "put-if-absent": "ok",
        "compare-and-swap": "ok",
        "listing after write": "ok",
        "listing order": "ok",
        "clock": "ok",
        "delete": "ok",
        "table": "skip",
    }
    lw_ok("table", "import", uri, tmp_path / "x.csv", *options)
    assert lw_ok("table", "count", uri, *options, "-w", "id > 1").out == "1\n"
    assert len(lw_ok("table", "versions", uri, *options, "--json").lines) == 1
    assert lw_ok("doctor", uri, *options, "--json").document["ok"] is True
    assert lance.dataset(uri, storage_options=s3_options).count_rows() == 2
    (tmp_path / "y.csv").write_text("id,name\n2,B\n3,c\n")
    lw_ok("table", "merge", uri, tmp_path / "y.csv", "--on", "id", *options)
    lw_ok("table", "update", uri, "--set", "name=upper(name)", *options)
    lw_ok("table", "compact", uri, *options)
    lw_ok("table", "verify", uri, "--deep", *options)
    lw_ok("table", "cleanup", uri, "--keep-versions", 1, *options)
    found = lance.dataset(uri, storage_options=s3_options).to_table().to_pylist()
    assert sorted(each["name"] for each in found) == ["A", "B", "C"]
    lw_ok("table", "drop", uri, *options, "--yes")


def test_a_pipe_sees_the_names_of_columns_once(lw_ok: Lw, tmp_path: Path) -> None:
    uri = tmp_path / "long.lance"
    lw.create(uri, pa.table({"id": range(1_200), "t": ["x"] * 1_200}))
    lines = lw_ok("table", "cat", uri).out.splitlines()
    assert len(lines) == 1_201
    assert [at for at, line in enumerate(lines) if "id" in line] == [0]
    assert {line.index("x") for line in lines[1_001:]} == {6}

"""Commands that look after a table: compact, cleanup, verify, repair, changes, index-mask."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pyarrow.ipc as ipc
import pytest

import lancewood as lw

Lw = Callable[..., Any]
Files = Callable[[], list[tuple[str, int]]]
pytestmark = pytest.mark.usefixtures("no_commit_under_way")

ROWS = pa.table({"id": [1, 2, 3, 4], "name": ["a", "b", None, "d"]})


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """Four rows in four fragments."""
    location = str(tmp_path / "t.lance")
    lw.create(location, ROWS, layout=lw.Layout(max_rows_per_file=1))
    return location


@pytest.fixture
def files(uri: str) -> Files:
    """All files of the table, to see that nothing has come or gone."""

    def found() -> list[tuple[str, int]]:
        below = [each for each in Path(uri).rglob("*") if each.is_file()]
        return sorted((str(each), each.stat().st_size) for each in below)

    return found


def test_compact_says_which_indices_keep_fragments_apart(lw_ok: Lw, tmp_path: Path) -> None:
    table = lw.create(tmp_path / "t.lance", pa.table({"id": [0]}))
    table = table.indices.create("id", "BTREE", name="by_id")
    for number in range(1, 5):
        table = table.append(pa.table({"id": [number]})).indices.extend()
    ran = lw_ok("table", "compact", table.uri)
    assert ran.out.startswith("nothing would be gained; ")
    assert "because indices by_id cover them in several segments" in ran.err
    assert f"lw table index optimize {table.uri}" in ran.err
    for said in ([], ["--dry-run"]):
        told = lw_ok("table", "compact", table.uri, *said, "--json").document
        assert told["blocking_indices"] == ["by_id"]
    lw_ok("table", "index", "optimize", table.uri)
    told = lw_ok("table", "compact", table.uri, "--json").document
    assert (told["fragments_removed"], told["blocking_indices"]) == (5, [])
    assert lw_ok("table", "compact", table.uri).err == ""


def test_compact_joins_fragments(lw_ok: Lw, lw_run: Lw, uri: str, files: Files) -> None:
    lw.open(uri).delete("id = 2")
    before = files()
    dry = lw_ok("table", "compact", uri, "--dry-run").out
    assert dry == (
        f"would replace 3 fragments of 3 files by 1 of 1 in {uri}, version 2 of main; "
        "nothing was changed\n"
    )
    assert lw_run("table", "compact", uri, "--max-deleted", 2).code == 2
    assert files() == before
    done = lw_ok("table", "compact", uri, "-m", "tidy", "--json").document
    version = lw.open(uri).version
    assert done == {
        "uri": uri,
        "version": version,
        "branch": "main",
        "dry_run": False,
        "fragments_removed": 3,
        "fragments_added": 1,
        "files_removed": 3,
        "files_added": 1,
        "uncovered_indices": [],
        "uncovered_rows": 0,
        "blocking_indices": [],
    }
    assert next(lw.open(uri).versions()).message == "tidy"
    dataset = lance.dataset(uri)
    dataset.validate()
    assert dataset.to_table().column("id").to_pylist() == [1, 3, 4]
    told = lw_ok("table", "compact", uri).out
    assert told == f"nothing would be gained; {uri} stays at version {version} of main\n"
    assert lw_ok("table", "compact", uri, "--dry-run").out == told


def test_compact_names_indices_that_no_longer_cover_rows(lw_ok: Lw, uri: str) -> None:
    table = lw.open(uri).indices.create("id", "BTREE").indices.create("id", "BITMAP", name="bits")
    zoned = table.indices.create("id", "ZONEMAP", name="zones")
    zoned.append(zoned.to_arrow())
    dry = lw_ok("table", "compact", uri, "--dry-run")
    which = f"4 rows: lw table index extend {uri}\n"
    assert dry.err == f"indices id_idx, zones would no longer cover {which}"
    done = lw_ok("table", "compact", uri, "--json")
    assert done.err == f"indices id_idx, zones no longer cover {which}"
    assert done.document["uncovered_indices"] == ["id_idx", "zones"]
    assert done.document["uncovered_rows"] == 4
    uncovered = {each.name: each.rows_uncovered for each in lw.open(uri).indices.list()}
    assert uncovered == {"id_idx": 8, "bits": 4, "zones": 8}
    lw.open(uri).indices.extend()
    assert lw_ok("table", "compact", uri, "--target-rows", 1).err == ""


def test_compact_heeds_its_target(lw_ok: Lw, uri: str) -> None:
    dry = lw_ok("table", "compact", uri, "--target-rows", 2, "--dry-run", "--json").document
    assert (dry["fragments_removed"], dry["fragments_added"]) == (4, 2)
    done = lw_ok("table", "compact", uri, "--target-rows", 2, "--json").document
    assert (done["fragments_removed"], done["fragments_added"]) == (4, 2)
    assert lw.open(uri).stats().fragments == 2


def test_cleanup_removes_old_versions(lw_ok: Lw, lw_run: Lw, uri: str, files: Files) -> None:
    lw.open(uri).delete("id = 1").delete("id = 2").delete("id = 3")
    lance.dataset(uri).tags.create("kept", 2)
    before = files()
    dry = lw_ok("table", "cleanup", uri, "--keep-versions", 1, "--dry-run").out.splitlines()
    assert dry[0] == f"would remove 2 versions of {uri}"
    assert dry[1].startswith("files: 2 manifests")
    assert dry[2].startswith("version 2 stays: ")
    assert files() == before
    done = lw_ok("table", "cleanup", uri, "--keep-versions", 1, "--protect", 3, "--json").document
    assert done["dry_run"] is False
    assert done["versions"] == [1]
    assert [each["version"] for each in done["kept"]] == [2, 3]
    assert [each["version"] for each in lance.dataset(uri).versions()] == [2, 3, 4]
    assert lw_ok("table", "cleanup", uri).out == f"removed 0 versions of {uri}\n"
    assert lw_ok("table", "cleanup", uri, "--older-than", "1w2d").out.startswith("removed 0")
    lw_ok("table", "cleanup", uri, "--older-than", "0s", "--in-flight", "0s")
    assert [each["version"] for each in lance.dataset(uri).versions()] == [2, 4]
    assert lance.dataset(uri, version="kept").count_rows() == 3
    assert lance.dataset(uri).to_table().column("id").to_pylist() == [4]


@pytest.mark.parametrize(
    "options",
    [
        ["--older-than", "14"],
        ["--older-than", "two days"],
        ["--in-flight", "-1d"],
        ["--older-than", "9999999999999w"],
        ["--older-than", "9" * 5000 + "d"],
        ["--keep-versions", "0"],
    ],
)
def test_a_wrong_length_of_time_is_a_wrong_command_line(
    lw_run: Lw, uri: str, options: list[str]
) -> None:
    ran = lw_run("table", "cleanup", uri, *options)
    assert ran.code == 2
    assert options[0] in ran.err


@pytest.mark.usefixtures("pages_decoded_here")
def test_verify_tells_that_a_table_is_whole(lw_ok: Lw, uri: str) -> None:
    told = lw_ok("table", "verify", uri).out
    assert told == (
        f"version 1 of {uri} is whole: 4 fragments, 4 data files, 0 deletion files checked\n"
    )
    found = lw_ok("table", "verify", uri, "--deep", "--json").document
    assert (found["ok"], found["deep"], found["problems"]) == (True, True, [])
    assert (found["fragments"], found["data_files"]) == (4, 4)


def test_verify_tells_what_is_wrong_and_ends_with_its_own_code(lw_run: Lw, uri: str) -> None:
    lost = next((Path(uri) / "data").iterdir())
    lost.unlink()
    ran = lw_run("table", "verify", uri, "--json")
    assert (ran.code, ran.document["ok"]) == (12, False)
    (problem,) = ran.document["problems"]
    assert list(problem) == ["kind", "where", "text", "fragment", "advice"]
    assert problem["kind"] == "data file"
    assert lost.name in problem["where"]
    ran = lw_run("table", "verify", uri)
    assert ran.code == 12
    assert lost.name in ran.out
    assert "has 1 problem" in ran.out.splitlines()[-1]


def test_repair_proposes_first_and_mends_when_told_to(lw_run: Lw, uri: str, files: Files) -> None:
    lw.open(uri).delete("id = 1")
    assert lw_run("table", "repair", uri).out == f"{uri} needs no repair\n"
    newest = Path(uri) / "_versions" / f"{2**64 - 1 - 2}.manifest"
    newest.write_bytes(b"")
    before = files()
    assert lw_run("table", "count", uri).code == 10
    ran = lw_run("table", "repair", uri, "--json")
    assert (ran.code, ran.document["dry_run"], ran.document["remaining"]) == (0, True, [])
    proposals = ran.document["proposals"]
    assert list(proposals[0]) == ["action", "where", "finding", "effect"]
    assert any(newest.name in each["where"] for each in proposals)
    told = lw_run("table", "repair", uri).out
    assert told.splitlines()[-1].endswith(": say --apply")
    assert files() == before
    ran = lw_run("table", "repair", uri, "--apply")
    assert ran.code == 0
    assert ran.out.splitlines()[-1].startswith("did ")
    assert lance.dataset(uri).count_rows() == 4
    assert lw_run("table", "repair", uri).out == f"{uri} needs no repair\n"


def test_repair_tells_what_cannot_be_mended(lw_run: Lw, uri: str) -> None:
    for each in (Path(uri) / "data").iterdir():
        each.unlink()
    ran = lw_run("table", "repair", uri, "--json")
    assert ran.code == 12
    assert {each["kind"] for each in ran.document["remaining"]} == {"data file"}
    assert "not mended" in lw_run("table", "repair", uri).out


@pytest.fixture
def changed(uri: str) -> str:
    """One row deleted, one updated, one inserted since version 1."""
    table = lw.open(uri).delete("id = 1").update({"name": "'x'"}, "id = 2")
    table.append(pa.table({"id": [9], "name": ["new"]}))
    return uri


def test_changes_are_shown_row_by_row(lw_ok: Lw, changed: str) -> None:
    ran = lw_ok("table", "changes", changed, "--since", 1)
    assert ran.out.splitlines() == [
        "_change   _rowid  id  name",
        "deleted        0   1  a",
        "inserted       4   9  new",
        "updated        1   2  x",
    ]
    assert ran.err == "1 row inserted, 1 updated, 1 deleted since version 1 until 4\n"
    found = lw_ok("table", "changes", changed, "--since", 2, "--until", 3, "--json")
    assert found.lines == [{"_change": "updated", "_rowid": 1, "id": 2, "name": "x"}]
    assert found.err == ""
    found = lw_ok("table", "changes", changed, "--since", 1, "--columns", "id", "--json").lines
    assert found[0] == {"_change": "deleted", "_rowid": 0, "id": 1}


def test_changes_are_counted(lw_ok: Lw, changed: str) -> None:
    found = lw_ok("table", "changes", changed, "--since", 1, "--count", "--json").document
    assert found == {
        "uri": changed,
        "since": 1,
        "until": 4,
        "inserted": 1,
        "updated": 1,
        "deleted": 1,
    }
    told = lw_ok("table", "changes", changed, "--since", 4, "--count").out
    assert told == "0 rows inserted, 0 updated, 0 deleted since version 4 until 4\n"


def test_changes_are_written_as_files(lw_ok: Lw, changed: str) -> None:
    out = lw_ok("table", "changes", changed, "--since", 3, "--format", "csv").out
    assert out.splitlines() == ['"_change","_rowid","id","name"', '"inserted",4,9,"new"']
    raw = lw_ok("table", "changes", changed, "--since", 1, "--format", "arrow-stream").raw
    found = ipc.open_stream(io.BytesIO(raw)).read_all()
    assert found.column("_change").to_pylist() == ["deleted", "inserted", "updated"]


def test_wrong_changes_have_their_codes(lw_run: Lw, changed: str, tmp_path: Path) -> None:
    plain = str(tmp_path / "plain.lance")
    lw.create(plain, ROWS, layout=lw.Layout(stable_row_ids=False))
    wrong: list[tuple[list[object], int]] = [
        ([changed], 2),
        ([changed, "--since", 1, "--format", "csv", "--json"], 2),
        ([changed, "--since", 99], 3),
        ([changed, "--since", 3, "--until", 2], 5),
        ([changed, "--since", 1, "--columns", "nope"], 5),
        ([plain, "--since", 1], 9),
    ]
    for args, code in wrong:
        assert lw_run("table", "changes", *args).code == code, args


def test_index_mask_tells_what_an_index_covers(lw_ok: Lw, lw_run: Lw, uri: str) -> None:
    lance.dataset(uri).create_scalar_index("id", "BITMAP")
    table = lw.open(uri)
    table.append(ROWS).delete("id = 1")
    found = lw_ok("table", "index-mask", uri, "id_idx", "--json").document
    assert found == {
        "uri": uri,
        "version": 4,
        "index": "id_idx",
        "rows": 3,
        "fragments": [1, 2, 3],
        "uncovered": [4],
    }
    text = lw_ok("table", "index-mask", uri, "id_idx", "--version", 2).out
    assert "rows                 4\n" in text
    ran = lw_run("table", "index-mask", uri, "nope")
    assert (ran.code, "id_idx" in ran.err) == (3, True)

"""What executors do for items, on batches of this process: no Spark is needed to see it."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lancewood.errors import InvalidInputError, StorageError, UnsupportedError
from lancewood.git.values import Signature
from lancewood.items import folder
from lancewood.items.outcome import ItemDone, ItemOutcome, Tally
from lancewood.items.spark import reading, running, writing
from lancewood.items.spark import running as finding
from lancewood.items.spark import writing as checking
from lancewood.items.spark import writing as importing
from lancewood.items.spark.running import as_text, checked_folder, text_of
from lancewood.items.spark.writing import checked_frame, items_in
from lancewood.items.writing import FileRow, ItemWriter, Snapshots, item_files

ADA = Signature("Ada", "ada@example.org", 1_800_000_000, 0)
ONE = pa.record_batch({"task": [0]})


def batch(*rows: tuple[Any, ...]) -> pa.RecordBatch:
    item, path, content = zip(*rows, strict=True)
    types = pa.string(), pa.string(), pa.binary()
    arrays = [pa.array(each, kind) for each, kind in zip((item, path, content), types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=["item", "path", "content"])


def made(folder: Path, *names: str) -> None:
    writer = ItemWriter(str(folder), Snapshots("r", ADA))
    for each in names:
        writer.write(item_files(each, [FileRow("x", each.encode())], "replace", "edit"))
    writer.settle()


def found(folder: Path) -> list[str]:
    where = str(folder)
    top = [*finding._list_top(where, [ONE])]
    rows = [*finding._to_the_bottom(where, finding._expand(where, top))]
    assert all(each for batch in rows for each in batch["is_item"].to_pylist())
    return sorted(name for batch in rows for name in batch["item"].to_pylist())


def test_items_are_found_at_every_depth(tmp_path: Path) -> None:
    names = ["a", "b/c", "d/e/f/g/h", "d/e/i"]
    made(tmp_path, *names)
    assert found(tmp_path) == names
    made(tmp_path / "deep", "x/y/one", "x/y/two")
    assert found(tmp_path / "deep") == ["x/y/one", "x/y/two"]
    (tmp_path / "none").mkdir()
    assert found(tmp_path / "none") == []
    assert [*finding._list_top(str(tmp_path), [])] == []


def test_a_folder_whose_name_is_not_utf8_is_told_and_not_left_out(tmp_path: Path) -> None:
    made(tmp_path, "a")
    os.mkdir(os.fsencode(tmp_path) + b"/caf\xe9")
    assert found(tmp_path) == ["a", "caf\\xe9"]
    work = reading._Work(
        str(tmp_path), "refs", {"item": pa.string(), "error": pa.string()}, {}, True
    )
    (rows,) = reading._read(work, [pa.record_batch({"item": ["caf\\xe9"]})])
    assert "is not allowed" in rows.to_pylist()[0]["error"]


def reported(folder: Path, what: str, item: str) -> list[dict[str, Any]]:
    """What is read of an item, and what is told of it."""
    columns = {"item": pa.string(), "ref": pa.string(), "error": pa.string()}
    work = reading._Work(str(folder), what, columns, {}, True)
    names = pa.record_batch({"item": [item]})
    return [row for rows in reading._read(work, [names]) for row in rows.to_pylist()]


def test_a_ref_whose_name_is_not_utf8_is_told_and_fails_no_other_item(tmp_path: Path) -> None:
    made(tmp_path, "a")
    main = (tmp_path / "a/refs/heads/main").read_bytes()
    with open(os.fsencode(tmp_path) + b"/a/refs/heads/caf\xe9", "wb") as file:
        file.write(main)
    rows = reported(tmp_path, "refs", "a")
    assert rows[0]["ref"] == "HEAD"
    assert "is not UTF-8" in rows[-1]["error"]


def test_a_name_that_leads_through_a_link_is_not_read(tmp_path: Path) -> None:
    made(tmp_path / "out", "a")
    inside = tmp_path / "in"
    inside.mkdir()
    (inside / "link").symlink_to(tmp_path / "out/a")
    (inside / "folder").symlink_to(tmp_path / "out")
    for item in ("link", "folder/a"):
        (row,) = reported(inside, "refs", item)
        assert "is a link" in row["error"]
    (row,) = reported(inside, "refs", "no/such")
    assert "there is no item 'no/such'" in row["error"]


def test_rows_of_an_item_come_together_across_batches() -> None:
    batches = [batch((None, "x", b""), ("a", "x", b"1")), batch(("a", "y", b"2"), ("b", "x", b""))]
    assert [(item, [row.path for row in rows]) for item, rows in items_in(batches)] == [
        (None, ["x"]),
        ("a", ["x", "y"]),
        ("b", ["x"]),
    ]


def test_a_task_that_is_run_twice_writes_once(tmp_path: Path) -> None:
    work = writing._Work(str(tmp_path), Snapshots("r", ADA), "edit", "fail", None)
    rows = [batch(("a", "x", b"1"), ("a/../b", "x", b""), ("c", "x", None), ("d", "y", b"2"))]
    for outcome in (ItemDone.WRITTEN, ItemDone.ALREADY):
        done = {each.item: each.done for each in writing._write(work, rows)}
        refused = dict.fromkeys(["a/../b", "c"], ItemDone.REFUSED)
        assert done == {"a": outcome, "d": outcome, **refused}
    assert found(tmp_path) == ["a", "d"]


def test_names_are_counted_and_folders_noticed() -> None:
    rows = [batch(("a", "x", b""), ("b/c", "x", b""), ("..", "x", b""))]
    (told,) = checking._check("replace", "edit", rows)
    tally = Tally.joined([told["tally"][0].as_py()])
    assert (tally.items, tally[ItemDone.REFUSED], told["has_folders"][0].as_py()) == (3, 1, True)
    with pytest.raises(InvalidInputError, match="leads elsewhere"):
        tally.check("names")


def test_large_contents_travel_in_batches_of_their_own(tmp_path: Path) -> None:
    writer = ItemWriter(str(tmp_path), Snapshots("r", ADA))
    rows = [FileRow(f"{number}", bytes(3 << 20)) for number in range(3)]
    writer.write(item_files("a", rows, "replace", "edit"))
    columns = {"path": pa.string(), "content": pa.binary()}
    choices = {"revision": "HEAD", "paths": None}
    work = reading._Work(str(tmp_path), "contents", columns, choices, False)
    batches = [*reading._read(work, [pa.record_batch({"item": ["a"]})])]
    assert [each.num_rows for each in batches] == [1, 1, 1]


def test_texts_that_are_no_utf8_are_seen_as_such() -> None:
    raw = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.array([0, 1], pa.int32()).buffers()[1], pa.py_buffer(b"\xff")]
    )
    assert text_of(raw[0]) == "\udcff"
    assert as_text("\udcff") == "\\xff"
    assert text_of(pa.scalar(None, pa.string())) is None


def test_a_folder_is_a_path_on_a_disk() -> None:
    assert checked_folder("file:///a/b/../c") == "/a/c"
    assert checked_folder("file:/a/b") == checked_folder("file://localhost/a/b") == "/a/b"
    with pytest.raises(UnsupportedError, match="s3://"):
        checked_folder("s3://bucket/x?secret")
    for elsewhere in ("hdfs:/x", Path("s3://bucket/x"), "dbfs:/x"):
        with pytest.raises(UnsupportedError, match="mounted disk"):
            checked_folder(elsewhere)
    for bad in ("", None, b"x", "a\0b"):
        with pytest.raises(InvalidInputError, match="folder"):
            checked_folder(bad)


def test_an_import_makes_no_item_around_others_nor_beside_other_things(tmp_path: Path) -> None:
    source, target = tmp_path / "plain", tmp_path / "items"
    digest = sha256(b"<x/>").hexdigest()
    names = ["around", "beside", "free", "there"]
    for each in names:
        (source / each / "refs/heads").mkdir(parents=True)
        (source / each / "objects").mkdir()
        (source / each / "objects" / digest).write_bytes(b"<x/>")
        (source / each / "refs/heads/main").write_text(digest)
        (source / each / "HEAD").write_text("ref: refs/heads/main")
    made(target, "around/b")
    (target / "beside").mkdir()
    (target / "beside/notes.txt").write_text("mine")
    work = importing._Importing(
        *(str(source), str(target), "x", ADA, True, False, "fail", None, False)
    )
    for names_now in (["there"], names):
        rows = pa.record_batch({"item": names_now})
        done = {each.item: each for each in importing._import(work, [rows])}
    assert {item: each.done.value for item, each in done.items()} == {
        "around": "refused",
        "beside": "refused",
        "free": "written",
        "there": "unchanged",
    }
    assert "items are not in each other" in str(done["around"].why)
    assert found(target) == ["around/b", "free", "there"]
    assert os.listdir(target / "beside") == ["notes.txt"]


def test_what_is_no_item_is_refused_and_a_failing_disk_is_left_to_another_attempt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def done(item: str) -> ItemOutcome:
        if item == "away":
            raise StorageError("the disk is away")
        return ItemOutcome(item, ItemDone.WRITTEN)

    def told(*names: str | None, on_error: str = "report") -> list[ItemOutcome]:
        rows = pa.record_batch({"item": pa.array(names, pa.string())})
        return [*running.each_item([rows], done, last=0, on_error=on_error)]

    written, refused, null = told("a", "../b", None)
    assert (written.item, written.done) == ("a", ItemDone.WRITTEN)
    assert (refused.item, refused.done, refused.error) == (
        "../b",
        ItemDone.REFUSED,
        "InvalidInputError",
    )
    assert (null.item, null.done) == (None, ItemDone.REFUSED)
    with pytest.raises(StorageError, match="is away"):
        told("away", "a")
    monkeypatch.setattr(running, "is_last_attempt", lambda last: True)
    assert [each.error for each in told("away", "a")] == ["StorageError", None]
    with pytest.raises(StorageError, match="is away"):
        told("away", on_error="fail")


def test_frames_have_the_columns_that_items_are_told_in() -> None:
    assert tuple(reading.REFS) == folder.REFS
    assert tuple(reading.HISTORY) == folder.HISTORY
    assert tuple(reading.CONTENTS) == folder.CONTENTS


def test_what_is_no_frame_of_sparks_is_refused() -> None:
    rows: Any = pa.table({"item": ["a"]})
    with pytest.raises(InvalidInputError, match="not from a Table"):
        checked_frame(rows)

"""``lw items`` and ``lw repo import-plain``, as a user types them."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from lancewood.git.values import Signature
from lancewood.items.writing import FileRow, ItemWriter, Snapshots, item_files

Lw = Callable[..., Any]
ADA = Signature("Ada", "ada@example.org", 1_800_000_000, 0)


@pytest.fixture(autouse=True)
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    writer = ItemWriter("photos", Snapshots("load-1", ADA))
    for item in ("ab/one", "cd/two"):
        rows = [FileRow("edit.xmp", item.encode()), FileRow("a/b", b"")]
        writer.write(item_files(item, rows, "replace", f"edit {item}"))
    writer.settle()
    return tmp_path / "photos"


def test_refs_log_and_files_of_every_item_are_listed(lw_ok: Lw) -> None:
    assert [
        (row["item"], row["ref"]) for row in lw_ok("items", "refs", "photos", "--json").lines
    ] == [
        ("ab/one", "HEAD"),
        ("ab/one", "refs/heads/main"),
        ("cd/two", "HEAD"),
        ("cd/two", "refs/heads/main"),
    ]
    log = lw_ok("items", "log", "photos", "-n", "1", "--json").lines
    assert [(row["item"], row["run"]) for row in log] == [
        ("ab/one", "load-1"),
        ("cd/two", "load-1"),
    ]
    files = lw_ok("items", "files", "photos", "main", "--json").lines
    assert [(row["path"], row["size"]) for row in files] == [("a/b", 0), ("edit.xmp", 6)] * 2
    assert "edit cd/two" in lw_ok("items", "log", "photos").out
    assert "refs/heads/main" in lw_ok("items", "refs", "photos").out
    assert "edit.xmp" in lw_ok("items", "files", "photos").out


def test_tags_are_made_once_and_moved_only_by_force(lw_ok: Lw, lw_run: Lw) -> None:
    assert lw_ok("items", "tag", "photos", "v1").out == "tagged 2 items v1\n"
    assert lw_ok("items", "tag", "photos", "v1").out == "tagged 0 items v1, 2 had it already\n"
    writer = ItemWriter("photos", Snapshots("load-2", ADA))
    writer.write(item_files("ab/one", [FileRow("edit.xmp", b"new")], "replace", "edit"))
    writer.settle()
    ran = lw_run("items", "tag", "photos", "v1")
    assert ran.code == 4
    assert ran.out == "tagged 0 items v1, 1 had it already, 1 refused\n"
    assert "'ab/one'" in ran.err
    told = lw_ok("items", "tag", "photos", "v1", "--force", "--json").document
    assert told == {
        "tag": "v1",
        "items": 2,
        "tagged": 0,
        "moved": 1,
        "unchanged": 1,
        "refused": 0,
    }


def test_a_broken_item_is_told_when_all_others_are_shown(lw_run: Lw, photos: Path) -> None:
    (photos / "ab/one/HEAD").unlink()
    for verb in ("refs", "log", "files"):
        ran = lw_run("items", verb, "photos")
        assert ran.code == 3
        assert "cd/two" in ran.out
        assert ran.err.count("'ab/one'") == 1
        assert ran.err.endswith("failed for 1 of 2 items: see above\n")
        assert "HEAD not found" in lw_run("items", verb, "photos", "--json").error["message"]


def test_a_plain_repository_is_imported_once(lw_ok: Lw, lw_run: Lw, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    digest = sha256(b"<xmp/>").hexdigest()
    for each in ("objects", "refs/heads", "refs/tags"):
        (plain / each).mkdir(parents=True)
    (plain / "objects" / digest).write_bytes(b"<xmp/>")
    (plain / "refs/heads/main").write_text(digest)
    (plain / "HEAD").write_text("ref: refs/heads/main\n")
    words = ("repo", "import-plain", "plain", "img", "--name", "edit.xmp")
    told = lw_ok(*words).out
    assert told == "1 snapshot, 1 branch, 0 tags; HEAD is main; 1 ref made or moved\n"
    assert lw_ok(*words).out.endswith("nothing is new\n")
    document = lw_ok(*words, "--json").document
    assert [*document] == ["path", "head", "branches", "tags", "snapshots", "changed"]
    assert lw_ok("-C", "img", "show", "HEAD:edit.xmp").out == "<xmp/>"
    (plain / "objects" / digest).write_bytes(b"other")
    ran = lw_run("repo", "import-plain", "plain", "new")
    assert ran.code != 0
    assert digest in ran.err
    assert not (tmp_path / "new").exists()
    assert "repo import-plain" in lw_run("import-plain", "plain", "img").err

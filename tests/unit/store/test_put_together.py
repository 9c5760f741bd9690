"""Objects that are put together on a disk: bytes are durable before names, names before the end."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lancewood.errors import StorageError
from lancewood.store.disk import DiskStore

OBJECTS = {"x/one": b"1", "x/two": b"22", "y/three": b"333"}


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """What was synced and named, in order."""
    seen: list[tuple[str, str]] = []
    fsync, replace = os.fsync, os.replace

    def synced(descriptor: int) -> None:
        fsync(descriptor)
        seen.append(("sync", os.readlink(f"/proc/self/fd/{descriptor}")))

    def named(source: str, target: str) -> None:
        replace(source, target)
        seen.append(("name", target))

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", named)
    return seen


def test_bytes_are_synced_then_named_then_each_directory_is_synced_once(
    tmp_path: Path, events: list[tuple[str, str]]
) -> None:
    store = DiskStore(tmp_path, fsync=True)
    store.put("x/old", b"")
    store.put("y/old", b"")
    events.clear()
    store.put_together(OBJECTS)
    assert [verb for verb, _ in events] == ["sync"] * 3 + ["name"] * 3 + ["sync"] * 2
    assert all("/.tmp" in path for _, path in events[:3])
    assert sorted(path for _, path in events[6:]) == [f"{tmp_path}/x", f"{tmp_path}/y"]


def test_without_fsync_nothing_is_synced(tmp_path: Path, events: list[tuple[str, str]]) -> None:
    DiskStore(tmp_path, fsync=False).put_together(OBJECTS)
    assert {verb for verb, _ in events} == {"name"}


def test_a_disk_that_fails_to_sync_leaves_no_name_and_no_file_in_the_making(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = DiskStore(tmp_path, fsync=True)
    store.put("x/old", b"old")
    store.put("y/old", b"old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(StorageError, match="No space left"):
            store.put_together({**OBJECTS, "x/old": b"new"})
    assert sorted(str(each.relative_to(tmp_path)) for each in tmp_path.rglob("*[!xy]")) == [
        "x/old",
        "y/old",
    ]
    assert store.get("x/old") == b"old"

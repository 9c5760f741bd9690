"""Objects between stores of every two kinds: the bytes arrive, and sizes are compared."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import TypeAlias

import pytest

from lancewood.errors import FormatError, NotFoundError, StorageError
from lancewood.store import transfer
from lancewood.store.base import Store
from lancewood.store.disk import DiskStore
from lancewood.store.locate import open_store
from lancewood.store.memory import MemoryStore
from lancewood.store.transfer import copy_object, link_or_copy
from lancewood.testing.faults import FaultyStore, WatchedStore

KINDS = ("disk", "memory", "s3")
Bring: TypeAlias = Callable[..., int]


@pytest.fixture
def stores(tmp_path: Path, s3_root: str, s3_options: dict[str, str]) -> dict[str, list[Store]]:
    """Two of each kind."""
    return {
        "disk": [DiskStore(tmp_path / "a"), DiskStore(tmp_path / "b")],
        "memory": [MemoryStore(), MemoryStore()],
        "s3": [open_store(f"{s3_root}/{each}", storage_options=s3_options) for each in ("a", "b")],
    }


@pytest.mark.parametrize("bring", [copy_object, link_or_copy])
@pytest.mark.parametrize(("origin", "goal"), [*product(KINDS, KINDS)])
@pytest.mark.parametrize("data", [b"", b"x", os.urandom(2_500_000)], ids=["0", "1", "many"])
def test_an_object_arrives_whole_in_a_store_of_any_kind(
    stores: dict[str, list[Store]],
    monkeypatch: pytest.MonkeyPatch,
    bring: Bring,
    origin: str,
    goal: str,
    data: bytes,
) -> None:
    monkeypatch.setattr(transfer, "_PART", 1_000_000)
    source, target = stores[origin][0], stores[goal][1]
    source.put("data/a", data)
    assert bring(source, "data/a", target, "deep/er/b", size=len(data)) == len(data)
    source.delete(["data/a"])
    assert target.get("deep/er/b") == data
    assert [each.key for each in target.list()] == ["deep/er/b"]


@pytest.mark.parametrize("bring", [copy_object, link_or_copy])
def test_an_object_of_another_size_is_not_copied(bring: Bring) -> None:
    source, target = MemoryStore(), MemoryStore()
    source.put("a", b"12345")
    with pytest.raises(FormatError, match="has 5 bytes, expected 4"):
        bring(source, "a", target, "b", size=4)
    with pytest.raises(NotFoundError):
        bring(source, "missing", target, "b")
    assert [*target.list()] == []


def test_a_copy_is_one_of_its_own_and_a_link_is_not(tmp_path: Path) -> None:
    source, target = DiskStore(tmp_path / "a"), DiskStore(tmp_path / "b")
    source.put("x", b"bytes")
    copy_object(source, "x", target, "copy")
    link_or_copy(source, "x", target, "link")
    inodes = [os.stat(tmp_path / each).st_ino for each in ("a/x", "b/copy", "b/link")]
    assert inodes[0] == inodes[2] != inodes[1]


def test_a_link_to_an_old_file_is_as_young_as_a_new_file(tmp_path: Path) -> None:
    source, target = DiskStore(tmp_path / "a"), DiskStore(tmp_path / "b")
    source.put("x", b"bytes")
    os.utime(tmp_path / "a" / "x", (0, 0))
    link_or_copy(source, "x", target, "y")
    assert target.head("y").modified > datetime.now(UTC) - timedelta(hours=1)


def test_a_link_over_another_object_takes_its_place(tmp_path: Path) -> None:
    source, target = DiskStore(tmp_path / "a"), DiskStore(tmp_path / "b")
    source.put("x", b"bytes")
    target.put("y", b"old")
    for _ in range(2):
        assert link_or_copy(source, "x", target, "y") == 5
        assert target.get("y") == b"bytes"


def test_a_file_that_cannot_be_linked_is_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(18, "another device")

    monkeypatch.setattr(os, "link", refuse)
    source, target = DiskStore(tmp_path / "a"), DiskStore(tmp_path / "b")
    source.put("x", b"bytes")
    assert link_or_copy(source, "x", target, "y") == 5
    assert target.get("y") == b"bytes"
    assert os.stat(tmp_path / "b" / "y").st_nlink == 1


def test_a_source_that_ends_too_early_leaves_nothing(tmp_path: Path) -> None:
    class _Short(WatchedStore):
        def get_range(self, key: str, start: int, length: int) -> bytes:
            return b""

    source, target = MemoryStore(), DiskStore(tmp_path / "b")
    source.put("x", b"bytes")
    with pytest.raises(StorageError, match="ends at byte 0, it had 5 bytes"):
        copy_object(_Short(source), "x", target, "y")
    assert [*target.list()] == []


def test_a_copy_is_one_call_between_watched_stores(tmp_path: Path) -> None:
    source = FaultyStore(DiskStore(tmp_path / "a"))
    target = FaultyStore(DiskStore(tmp_path / "b"))
    source.put("x", b"bytes")
    copy_object(source, "x", target, "y")
    assert [*source.calls] == [("put", "x"), ("head", "x")]
    assert [*target.calls] == [("copy_from", "y"), ("head", "y")]

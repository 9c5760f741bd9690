"""Announcements of cleanups: who sees them, and for how long."""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lancewood.engine.upkeep.pins import CLEANUPS_DIR, announced, check_not_being_removed
from lancewood.errors import FormatError, RetryableConflictError
from lancewood.model.ids import Version
from lancewood.store.disk import DiskStore


def test_a_version_is_doomed_while_it_is_removed_and_on_its_branch_only(tmp_path: Path) -> None:
    store = DiskStore(tmp_path)
    with announced(store, "exp", [Version(3), Version(1)]):
        with pytest.raises(RetryableConflictError, match=r"version 3 of exp of .* is being"):
            check_not_being_removed(store, "exp", Version(3))
        check_not_being_removed(store, "exp", Version(2))
        check_not_being_removed(store, None, Version(3))
    check_not_being_removed(store, "exp", Version(3))
    assert [*store.list()] == []
    assert not (tmp_path / CLEANUPS_DIR).exists()


def test_nothing_is_announced_where_nothing_goes(tmp_path: Path) -> None:
    with announced(DiskStore(tmp_path / "t"), None, []):
        assert not (tmp_path / "t").exists()


def test_a_cleanup_that_died_is_believed_for_an_hour(tmp_path: Path) -> None:
    store = DiskStore(tmp_path)
    with pytest.raises(KeyboardInterrupt), announced(store, None, [Version(3)]):
        raise KeyboardInterrupt
    (left,) = (tmp_path / CLEANUPS_DIR).iterdir()
    with pytest.raises(RetryableConflictError):
        check_not_being_removed(store, None, Version(3))
    os.utime(left, (1, 1))
    check_not_being_removed(store, None, Version(3))
    with announced(store, None, [Version(4)]):
        assert not left.exists()


def test_how_old_an_announcement_is_is_told_by_the_clock_of_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Ahead:
        @staticmethod
        def now(tz: Any = None) -> datetime:
            return datetime.now(tz) + timedelta(days=30)

    monkeypatch.setattr("lancewood.store.clock.datetime", Ahead)
    store = DiskStore(tmp_path)
    with announced(store, None, [Version(3)]), pytest.raises(RetryableConflictError):
        check_not_being_removed(store, None, Version(3))


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"branch": null, "versions": 3}'])
def test_an_announcement_that_is_damaged_is_named(tmp_path: Path, data: bytes) -> None:
    store = DiskStore(tmp_path)
    store.put(f"{CLEANUPS_DIR}/x.json", data)
    with pytest.raises(FormatError, match=r"cleanups/x\.json"):
        check_not_being_removed(store, None, Version(3))

"""Every check on stores that keep their promises, and on ones that break each of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from tests.faults.hurting import every_call
from tests.manifests import edit_manifest

import lancewood as lw
from lancewood.engine.upkeep.doctor import examine
from lancewood.store.base import ObjectInfo, PutOutcome, ReplaceOutcome, Store
from lancewood.store.checkup import CheckStatus, StoreCheck
from lancewood.store.disk import DiskStore
from lancewood.store.memory import MemoryStore
from lancewood.testing.faults import FaultyStore, Killed, Mode, WatchedStore

pytestmark = pytest.mark.usefixtures("no_waiting")
ROWS = pa.table({"a": [1, 2, 3]})


def report(store: Store, *, read_only: bool = False) -> dict[str, StoreCheck]:
    return {each.name: each for each in examine(store, read_only=read_only)}


def statuses(store: Store) -> dict[str, str]:
    return {name: each.status.value for name, each in report(store).items()}


def test_a_good_place_passes_every_check(tmp_path: Path) -> None:
    found = statuses(DiskStore(tmp_path / "deep" / "t.lance", fsync=True))
    assert found["file system"] in ("ok", "warn")
    assert found["free space"] in ("ok", "warn")
    assert found["fsync"] in ("ok", "warn")
    rest = {k: v for k, v in found.items() if k not in ("file system", "free space", "fsync")}
    assert rest == {
        "reachable": "ok",
        "write": "ok",
        "read": "ok",
        "put-if-absent": "ok",
        "compare-and-swap": "ok",
        "listing after write": "ok",
        "listing order": "skip",
        "clock": "ok",
        "delete": "ok",
        "hard links": "ok",
        "flock": "ok",
        "table": "skip",
    }
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_lists_in_order_is_held_to_it() -> None:
    store = MemoryStore()
    found = statuses(store)
    assert found["listing order"] == "ok"
    assert set(found.values()) == {"ok", "skip"}
    assert list(store.list()) == []


def test_what_was_there_stays_there(tmp_path: Path) -> None:
    uri = tmp_path / "t.lance"
    lw.create(uri, ROWS)
    (uri / "empty").mkdir()
    before = sorted(uri.rglob("*"))
    assert "fail" not in statuses(DiskStore(uri)).values()
    assert sorted(uri.rglob("*")) == before
    (tmp_path / "void").mkdir()
    report(DiskStore(tmp_path / "void"))
    assert (tmp_path / "void").is_dir()


class Lossy(WatchedStore):
    """A store that breaks one promise."""

    def __init__(self, inner: Store, broken: str) -> None:
        super().__init__(inner)
        self._broken = broken

    def put_new(self, key: str, data: bytes) -> PutOutcome:
        if self._broken == "put-if-absent":
            self._inner.put(key, data)
            return PutOutcome.CREATED
        return super().put_new(key, data)

    def replace(self, key: str, data: bytes, expected_etag: str) -> ReplaceOutcome:
        if self._broken == "compare-and-swap":
            self._inner.put(key, data)
            return ReplaceOutcome.REPLACED
        return super().replace(key, data, expected_etag)

    def names(self, directory: str) -> Iterator[str]:
        found = list(super().names(directory))
        if self._broken == "listing order" and directory == "order":
            found.reverse()
        if self._broken == "listing after write" and directory == "list":
            found = []
        if self._broken == "reachable":
            raise lw.StorageError("no route to host")
        return iter(found)

    def head(self, key: str) -> ObjectInfo:
        info = super().head(key)
        if self._broken == "clock":
            moved = datetime.now(UTC) + timedelta(seconds=90)
            return ObjectInfo(info.key, info.size, moved, info.etag)
        return info

    def get(self, key: str) -> bytes:
        data = super().get(key)
        return b"x" + data if self._broken == "read" and key == "first" else data

    def delete(self, keys: object) -> None:
        doomed = list(keys)  # type: ignore[call-overload]
        if self._broken == "delete" and doomed == ["first"]:
            return
        super().delete(doomed)

    def put(self, key: str, data: bytes) -> None:
        if self._broken == "write":
            raise lw.StorageError("403 Forbidden")
        super().put(key, data)


@pytest.mark.parametrize(
    "broken",
    [
        "put-if-absent",
        "compare-and-swap",
        "listing order",
        "listing after write",
        "read",
        "delete",
        "write",
        "reachable",
    ],
)
def test_a_broken_promise_fails_its_check_and_no_other(broken: str) -> None:
    inner = MemoryStore()
    found = report(Lossy(inner, broken))
    failed = [name for name, each in found.items() if each.status is CheckStatus.FAIL]
    assert failed == [broken]
    assert found[broken].advice
    assert list(inner.list()) == []


def test_a_clock_that_is_off_is_a_warning() -> None:
    found = report(Lossy(MemoryStore(), "clock"))["clock"]
    assert found.status is CheckStatus.WARN
    assert "s ahead" in found.figure


def test_a_place_where_nothing_may_be_written_says_so(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        found = report(DiskStore("/proc/nothing"))
    else:
        tmp_path.chmod(0o500)
        found = report(DiskStore(tmp_path / "t"))
    assert found["write"].status is CheckStatus.FAIL
    assert "right" in (found["write"].advice or "")


def test_reading_only_writes_nothing(tmp_path: Path) -> None:
    store = FaultyStore(DiskStore(tmp_path / "t"))
    found = report(store, read_only=True)
    assert "write" not in found
    assert {verb for verb, _ in store.calls} <= {"names", "list", "get", "head"}


@pytest.mark.parametrize("mode", ["before", "after"])
def test_nothing_is_left_whatever_call_fails(mode: Mode) -> None:
    for attempt in every_call(mode, lambda _: MemoryStore()):
        report(attempt.store)
        assert [each.key for each in attempt.inner.list()] == []


def test_what_cannot_be_removed_is_named() -> None:
    class Sticky(WatchedStore):
        def delete(self, keys: object) -> None:
            raise lw.StorageError("403 Forbidden")

    found = report(Sticky(MemoryStore()))
    assert found["delete"].status is found["clean up"].status is CheckStatus.FAIL
    assert "_lancewood_doctor/" in (found["clean up"].advice or "")


def test_an_interrupted_examination_cleans_up() -> None:
    inner = MemoryStore()
    checks = examine(inner)
    for each in checks:
        if each.name == "clock":
            break
    assert list(inner.list())
    checks.close()  # type: ignore[attr-defined]
    assert list(inner.list()) == []


def test_a_death_leaves_at_most_its_own_corner() -> None:
    inner = MemoryStore()
    with pytest.raises(Killed):
        report(FaultyStore(inner, at=12, mode="kill"))
    assert all(each.key.startswith("_lancewood_doctor/") for each in inner.list())


def test_syncing_that_is_off_is_a_warning(tmp_path: Path) -> None:
    found = report(DiskStore(tmp_path / "t", fsync=False))["fsync"]
    assert found.status is CheckStatus.WARN
    assert "LANCEWOOD_FSYNC" in (found.advice or "")
    assert "ms a synced write" in found.figure


def test_a_disk_that_is_almost_full_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lancewood.store.checkup._LITTLE_SPACE", 1 << 62)
    assert report(DiskStore(tmp_path), read_only=True)["free space"].status is CheckStatus.WARN


def test_a_file_system_without_links_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(source: str, target: str) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr("lancewood.store.checkup.os.link", refuse)
    found = report(DiskStore(tmp_path / "t"))
    assert found["hard links"].status is CheckStatus.WARN
    assert list(tmp_path.iterdir()) == []


def test_a_network_file_system_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lancewood.store.checkup.mount_kind", lambda path: "nfs4")
    found = report(DiskStore(tmp_path), read_only=True)["file system"]
    assert (found.status, found.figure) == (CheckStatus.WARN, "nfs4")


def table_report(uri: str) -> dict[str, StoreCheck]:
    return report(DiskStore(uri), read_only=True)


def test_a_sound_table_passes(uri: str) -> None:
    lw.create(uri, ROWS).append(ROWS)
    found = table_report(uri)
    assert found["table"].figure == "2 versions, the newest is 2"
    for name in ("table", "manifest names", "hint", "newest version", "writable"):
        assert found[name].status is CheckStatus.OK


def test_old_names_are_a_warning_and_mixed_ones_a_failure(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    lance.write_dataset(ROWS, uri, enable_v2_manifest_paths=False)
    old = table_report(uri)["manifest names"]
    assert old.status is CheckStatus.WARN
    assert "migrate-names" in (old.advice or "")
    (tmp_path / "t.lance" / "_versions" / "18446744073709551613.manifest").write_bytes(b"x")
    mixed = table_report(uri)["table"]
    assert mixed.status is CheckStatus.FAIL
    assert "migrate-names" in (mixed.advice or "")


def test_a_damaged_newest_version_is_a_failure(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    lw.create(uri, ROWS).append(ROWS)
    (tmp_path / "t.lance" / "_versions" / "18446744073709551613.manifest").write_bytes(b"")
    found = table_report(uri)["newest version"]
    assert found.status is CheckStatus.FAIL
    assert "newest readable version is 1" in found.figure


@pytest.mark.parametrize(
    ("hint", "status", "figure"),
    [
        ('{"version":2}', CheckStatus.OK, "version 2"),
        ('{"version":1}', CheckStatus.OK, "1 behind"),
        ('{"version":9}', CheckStatus.WARN, "not there"),
        ("garbage", CheckStatus.WARN, "no version"),
        ("[]", CheckStatus.WARN, "no version"),
    ],
)
def test_a_hint_is_compared_with_what_is_there(
    tmp_path: Path, hint: str, status: CheckStatus, figure: str
) -> None:
    uri = tmp_path / "t.lance"
    lw.create(uri, ROWS).append(ROWS)
    (uri / "_versions" / "latest_version_hint.json").write_text(hint)
    found = table_report(str(uri))["hint"]
    assert found.status is status
    assert figure in found.figure


def test_a_flag_that_forbids_writing_is_a_warning(uri: str) -> None:
    lw.create(uri, ROWS)

    def fence(message: object) -> None:
        message.writer_feature_flags |= 1 << 40  # type: ignore[attr-defined]

    edit_manifest(uri, fence)
    found = table_report(uri)
    assert found["newest version"].status is CheckStatus.OK
    assert found["writable"].status is CheckStatus.WARN

"""A root that is looked at often is listed only if it may have changed, and nothing is missed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from tests.manifests import manifest_path

import lancewood as lw
from lancewood.engine.versions.watching import Watch
from lancewood.errors import NotFoundError
from lancewood.store.disk import DiskStore
from lancewood.store.memory import MemoryStore
from lancewood.testing.faults import FaultyStore

ROWS = pa.table({"a": [1]})
SECOND = 1_000_000_000
NOW = (time.time_ns() // SECOND + 1_000_000) * SECOND
"""Later than every test, and a whole second."""


@pytest.fixture
def table(tmp_path: Path) -> lw.Table:
    made = lw.create(str(tmp_path / "t.lance"), ROWS)
    if made._snapshot.location.store.stamp("_versions") is None:
        pytest.skip("the times of directories are not believed on this file system")
    return made


def watched(uri: str, clock: Callable[[], int]) -> tuple[Watch, Callable[[], list[str]]]:
    """A watch, and what it asked of its store since that was last asked."""
    store = FaultyStore(DiskStore(uri))
    told = 0

    def asked() -> list[str]:
        nonlocal told
        verbs = [verb for verb, _ in store.calls[told:]]
        told += len(verbs)
        return verbs

    return Watch(store, clock), asked


def set_stamp(table: lw.Table, changed_ns: int) -> None:
    os.utime(Path(table.uri) / "_versions", ns=(changed_ns, changed_ns))


def test_a_directory_that_was_left_alone_is_listed_once(table: lw.Table) -> None:
    watch, asked = watched(table.uri, lambda: NOW)
    assert watch.newest().version == 1
    assert asked() == ["stamp", "names"]
    assert watch.newest().version == 1
    assert asked() == ["stamp"]


def test_a_new_version_is_seen_whoever_writes_it(table: lw.Table) -> None:
    watch, _ = watched(table.uri, lambda: NOW)
    assert watch.newest().version == 1
    table = table.append(ROWS)
    assert watch.newest().version == 2
    lance.write_dataset(ROWS, table.uri, mode="append")
    assert watch.newest().version == 3


def test_a_directory_that_changed_a_moment_ago_is_listed_again(table: lw.Table) -> None:
    changed = NOW - SECOND // 20 + 1
    set_stamp(table, changed)
    watch, asked = watched(table.uri, lambda: NOW)
    assert watch.newest().version == 1
    table.append(ROWS)
    set_stamp(table, changed)  # as if both had been in one tick of the clock
    assert watch.newest().version == 2
    assert asked() == ["stamp", "names", "stamp", "names"]


def test_a_stamp_of_a_whole_second_has_to_be_older_than_seconds_are(table: lw.Table) -> None:
    set_stamp(table, NOW - SECOND)
    watch, asked = watched(table.uri, lambda: NOW)
    for _ in range(2):
        watch.newest()
    assert asked() == ["stamp", "names", "stamp", "names"]
    set_stamp(table, NOW - 5 * SECOND)
    for _ in range(2):
        watch.newest()
    assert asked() == ["stamp", "names", "stamp"]


def test_a_stamp_that_ages_is_believed_only_after_one_more_listing(table: lw.Table) -> None:
    times = iter([NOW, NOW + SECOND, NOW + 2 * SECOND])
    set_stamp(table, NOW - 1)
    watch, asked = watched(table.uri, lambda: next(times))
    for _ in range(3):
        watch.newest()
    assert asked() == ["stamp", "names", "stamp", "names", "stamp"]


def test_a_version_that_went_away_is_noticed(table: lw.Table) -> None:
    table = table.append(ROWS)
    watch, _ = watched(table.uri, lambda: NOW)
    assert watch.newest().version == 2
    Path(manifest_path(table.uri, 2)).unlink()
    assert watch.newest().version == 1


def test_a_version_that_came_in_place_of_another_in_one_tick_is_noticed(table: lw.Table) -> None:
    changed = NOW - 1
    table = table.append(ROWS)
    set_stamp(table, changed)
    watch, asked = watched(table.uri, lambda: NOW)
    for _ in range(2):
        assert watch.newest().version == 2
    table = table.append(ROWS)
    Path(manifest_path(table.uri, 1)).unlink()
    set_stamp(table, changed)
    assert watch.newest().version == 3
    Path(manifest_path(table.uri, 3)).unlink()
    set_stamp(table, changed)
    assert watch.newest().version == 2
    assert asked() == ["stamp", "names"] * 4


def test_a_long_directory_that_just_changed_is_looked_at_without_a_listing(
    table: lw.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lancewood.engine.versions.watching.WORTH_IT", 1)
    changed = NOW - 1
    set_stamp(table, changed)
    watch, asked = watched(table.uri, lambda: NOW)
    watch.newest()
    watch.newest()
    assert asked().count("names") == 1
    table.append(ROWS)
    set_stamp(table, changed)
    assert watch.newest().version == 2, "its number was looked up"


def test_where_stamps_cannot_be_had_every_look_is_a_listing(tmp_path: Path) -> None:
    lw.create("memory://watched/t", ROWS)
    watch = Watch(MemoryStore("watched", "t"))
    assert watch.newest().version == 1
    lw.open("memory://watched/t").append(ROWS)
    assert watch.newest().version == 2


def test_a_root_without_a_table_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no table"):
        Watch(DiskStore(tmp_path)).newest()

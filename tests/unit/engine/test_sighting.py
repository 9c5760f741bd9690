"""A long directory of versions is not listed again and again, and nothing is missed by that."""

from __future__ import annotations

import pickle
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from tests.manifests import manifest_path

import lancewood as lw
from lancewood.engine.location.location import Location
from lancewood.engine.snapshot.snapshot import Snapshot
from lancewood.engine.versions import finding as sighting
from lancewood.store.disk import DiskStore
from lancewood.testing.faults import FaultyStore

ROWS = pa.table({"a": [1]})


@pytest.fixture(autouse=True)
def _every_directory_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lancewood.engine.commit.judging.WORTH_IT", 1)
    monkeypatch.setattr("lancewood.engine.versions.finding.WORTH_IT", 1)


@pytest.fixture
def table(tmp_path: Path) -> lw.Table:
    uri = str(tmp_path / "t.lance")
    table = lw.create(uri, ROWS)
    if table._snapshot.location.store.stamp("_versions") is None:
        pytest.skip("the times of directories are not believed on this file system")
    return table.append(ROWS)


def verbs(table: lw.Table) -> tuple[lw.Table, list[str]]:
    """Append through a store that counts."""
    old = table._snapshot
    store = FaultyStore(DiskStore(table.uri))
    counted = lw.Table(Snapshot(Location(store), old.manifest, old.scheme))
    done = counted.append(ROWS)
    return done, [verb for verb, _ in store.calls]


def test_the_next_append_does_not_list(table: lw.Table) -> None:
    table, calls = verbs(table)
    assert "names" not in calls
    assert table.version == 3
    _, calls = verbs(table)
    assert "names" not in calls
    assert lance.dataset(table.uri).count_rows() == 4


def test_an_append_right_after_opening_does_not_list_again(table: lw.Table) -> None:
    opened = lw.open(table.uri)
    _, calls = verbs(opened)
    assert "names" not in calls
    lance.write_dataset(ROWS, table.uri, mode="append")
    _, calls = verbs(opened)
    assert "names" in calls
    assert lance.dataset(table.uri).count_rows() == 5


def test_a_commit_of_another_is_seen(table: lw.Table) -> None:
    lance.write_dataset(ROWS, table.uri, mode="append")
    table, calls = verbs(table)
    assert "names" in calls
    assert table.version == 4


def test_a_gap_is_never_written_into(table: lw.Table) -> None:
    for _ in range(6):
        lance.write_dataset(ROWS, table.uri, mode="append")
    for version in range(3, 8):
        manifest_path(table.uri, version).unlink()
    with pytest.raises(lw.ConflictError, match="cleaned up"):
        table.append(ROWS)
    assert not manifest_path(table.uri, 3).exists()


def test_a_commit_within_one_tick_of_the_clock_is_seen(
    table: lw.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    frozen = table._snapshot.location.store.stamp("_versions")
    lance.write_dataset(ROWS, table.uri, mode="append")
    monkeypatch.setattr(DiskStore, "stamp", lambda self, directory: frozen)
    found = table._snapshot.manifest.sighting
    assert isinstance(found, sighting.Sighting)
    assert table.append(ROWS).version == 4


def test_a_sighting_does_not_travel(table: lw.Table) -> None:
    assert table._snapshot.manifest.sighting is not None
    assert pickle.loads(pickle.dumps(table))._snapshot.manifest.sighting is None


def test_an_ordinary_directory_is_simply_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for location in ("commit.judging", "versions.finding"):
        monkeypatch.setattr(f"lancewood.engine.{location}.WORTH_IT", 2_000)
    table = lw.create(tmp_path / "t.lance", ROWS).append(ROWS)
    assert table._snapshot.manifest.sighting is None

"""A failure, a lost answer or a death at every store call of create, append and overwrite.

Afterwards the table is old or new, never between, and both implementations read it. What was
reported as failed did not land, and what was reported as done did.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.engine.base.limits import FileLimits
from lancewood.engine.location.location import Location
from lancewood.engine.snapshot.snapshot import Snapshot
from lancewood.engine.write.write import NewTable, create_table
from lancewood.store.disk import DiskStore
from lancewood.store.readback import put_new_settled
from lancewood.testing.faults import FaultyStore, Killed, Mode

OLD = pa.table({"a": [1, 2, 3], "s": ["x", "y", "z"]})
ADDED = pa.table({"a": [4, 5], "s": ["v", "w"]})
NEW = pa.table({"b": [1.5, 2.5]})
MODES: list[Mode] = ["before", "after", "kill", "kill-after"]
MOST_CALLS = 60


def through(table: lw.Table, store: FaultyStore) -> lw.Table:
    """The same handle on another store."""
    old = table._snapshot
    return lw.Table(Snapshot(Location(store), old.manifest, old.scheme))


def append(uri: str, store: FaultyStore) -> None:
    through(lw.open(uri), store).append(ADDED, max_rows_per_file=1)


def overwrite(uri: str, store: FaultyStore) -> None:
    through(lw.open(uri), store).overwrite(NEW)


def set_config(uri: str, store: FaultyStore) -> None:
    through(lw.open(uri), store).set_config({"k": "v"})


def restore(uri: str, store: FaultyStore) -> None:
    through(lw.open(uri), store).restore(1)


CASES: dict[str, tuple[Callable[[str, FaultyStore], None], pa.Table]] = {
    "append": (append, pa.concat_tables([OLD, ADDED])),
    "overwrite": (overwrite, NEW),
    "set_config": (set_config, OLD),
    "restore": (restore, OLD),
}


def rows(table: pa.Table) -> list[dict[str, Any]]:
    return table.to_pylist()  # type: ignore[no-any-return]


def run(uri: str, act: Callable[[str, FaultyStore], None], store: FaultyStore) -> str:
    try:
        act(uri, store)
    except Killed:
        return "dead"
    except lw.CommitUnknownError:
        return "unknown"
    except lw.StorageError:
        return "failed"
    return "done"


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lancewood.store.readback.time.sleep", lambda seconds: None)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", CASES)
def test_a_change_is_old_or_new_whatever_call_goes_wrong(
    tmp_path: Path, name: str, mode: Mode
) -> None:
    act, after = CASES[name]
    seen = set()
    for at in range(1, MOST_CALLS):
        uri = str(tmp_path / f"{at}.lance")
        lw.create(uri, OLD, fsync=False)
        store = FaultyStore(DiskStore(uri, fsync=False), at=at, mode=mode)
        outcome = run(uri, act, store)
        table, dataset = lw.open(uri), lance.dataset(uri)
        dataset.validate()
        assert table.version == dataset.version
        landed = table.version == 2
        expected = rows(after if landed else OLD)
        assert rows(table.to_arrow()) == expected, (at, outcome)
        assert rows(dataset.to_table()) == expected, (at, outcome)
        if outcome == "done":
            assert landed
        if outcome == "failed":
            assert not landed, f"reported as failed, but landed: {store.calls[-1]}"
        seen.add(outcome)
        assert table.append(table.head(0)).version == table.version + 1
        if len(store.calls) < at:
            break
    else:
        pytest.fail("the operation never came to its end")
    assert at > 3
    assert ("dead" in seen) == mode.startswith("kill")


@pytest.mark.parametrize("mode", MODES)
def test_a_table_is_created_or_not(tmp_path: Path, mode: Mode) -> None:
    for at in range(1, MOST_CALLS):
        uri = str(tmp_path / f"{at}.lance")
        store = FaultyStore(DiskStore(uri, fsync=True), at=at, mode=mode)

        def act(_: str, store: FaultyStore) -> None:
            create_table(
                Location(store),
                OLD,
                NewTable(
                    file_version="2.2",
                    limits=FileLimits(max_rows=2),
                ),
            )

        outcome = run(uri, act, store)
        if lw.exists(uri):
            assert outcome != "failed"
            dataset = lance.dataset(uri)
            dataset.validate()
            assert rows(dataset.to_table()) == rows(lw.open(uri).to_arrow()) == rows(OLD)
        else:
            assert outcome != "done"
            with pytest.raises(Exception, match=r"not found|does not exist"):
                lance.dataset(uri)
            assert lw.create(uri, OLD).count_rows() == 3
        if len(store.calls) < at:
            return
    pytest.fail("the operation never came to its end")


def test_an_answer_lost_at_the_manifest_is_found_again(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    lw.create(uri, OLD)
    counting = FaultyStore(DiskStore(uri))
    append(uri, counting)
    lw.open(uri).restore(1)
    (at,) = [n for n, (verb, _) in enumerate(counting.calls, 1) if verb == "put_new"]
    store = FaultyStore(DiskStore(uri), at=at, mode="after")
    assert run(uri, append, store) == "done"
    assert lw.open(uri).version == 4
    assert [verb for verb, _ in store.calls[at:]] == ["get", "sync", "head", "names"]


def test_files_of_a_commit_whose_fate_is_unknown_are_never_deleted(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    lw.create(uri, OLD)

    class Deaf(FaultyStore):
        """Puts manifests, but neither answers nor lets anyone read them back."""

        def put_new(self, key: str, data: bytes) -> Any:
            super().put_new(key, data)
            raise lw.StorageError("no answer")

        def get(self, key: str) -> bytes:
            raise lw.StorageError("no answer")

    with pytest.raises(lw.CommitUnknownError, match="nothing was deleted"):
        append(uri, Deaf(DiskStore(uri)))
    assert lw.open(uri).version == 2
    assert rows(lance.dataset(uri).to_table()) == rows(pa.concat_tables([OLD, ADDED]))


def test_a_lost_race_removes_the_files_that_nobody_needs(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    stale = lw.create(uri, OLD)
    stale.overwrite(NEW)
    before = sorted(os.listdir(Path(uri) / "data"))
    with pytest.raises(lw.IncompatibleConflictError):
        stale.append(ADDED)
    assert sorted(os.listdir(Path(uri) / "data")) == before


def test_read_back_is_by_bytes(tmp_path: Path) -> None:
    store = DiskStore(tmp_path)
    assert put_new_settled(store, "k", b"mine").value == "created"
    assert put_new_settled(FaultyStore(store, at=1, mode="after"), "k", b"mine").value == "created"
    assert put_new_settled(FaultyStore(store, at=1, mode="before"), "k", b"else").value == "exists"

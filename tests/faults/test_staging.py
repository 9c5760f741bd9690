"""A failure, a lost answer or a death at every store call of staging and landing.

Staging leaves orphans at most. Landing leaves the table at one of the staged states, and whoever
lands again brings the rest, each step once. Pylance judges what is there.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.engine.commit.commit import CommitPolicy
from lancewood.engine.location.location import Location
from lancewood.engine.snapshot.snapshot import Snapshot
from lancewood.engine.staging.landing import find_landing, land
from lancewood.engine.staging.staging import Stage
from lancewood.engine.write.write import NewTable
from lancewood.errors import CommitUnknownError, StorageError
from lancewood.model.landing import Landing
from lancewood.store.disk import DiskStore
from lancewood.testing.faults import FaultyStore, Killed, Mode

ROWS = pa.table({"k": [1, 2, 3]})
MORE = pa.table({"k": [4, 5]})
STATES = [[1, 2, 3], [1, 2, 3, 4, 5], [1, 3, 4, 5], [1, 3, 4, 5]]
"""The rows before, and after each step."""
MODES: list[Mode] = ["before", "after", "kill", "kill-after"]
MOST_CALLS = 60
QUIET = CommitPolicy(sleep=lambda seconds: None)


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lancewood.store.readback.time.sleep", lambda seconds: None)


def stage_on(location: Location, snapshot: Snapshot | None) -> Stage:
    """Three steps on a table, or the table itself and two more."""
    if snapshot is None:
        stage = Stage.new(
            location,
            ROWS,
            NewTable(
                file_version="2.2",
            ),
        )
    else:
        stage = Stage(Snapshot(location, snapshot.manifest, snapshot.scheme))
    table = lw.Table(stage.snapshot).append(MORE).delete("k = 2")
    if snapshot is not None:
        table.set_config({"done": "yes"})
    return stage


def begin(uri: str, is_new: bool) -> tuple[Location, Landing]:
    """A transaction that is staged and has not landed."""
    snapshot = None if is_new else lw.create(uri, ROWS, fsync=False)._snapshot
    location = Location(DiskStore(uri, fsync=False))
    return location, stage_on(location, snapshot).publish()


def run(act: Callable[[], object]) -> str:
    try:
        act()
    except Killed:
        return "dead"
    except CommitUnknownError:
        return "unknown"
    except StorageError:
        return "failed"
    return "done"


def seen(uri: str) -> list[Any]:
    dataset = lance.dataset(uri)
    dataset.validate()
    return dataset.to_table()["k"].to_pylist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("is_new", [False, True], ids=["table", "new"])
def test_staging_leaves_the_table_as_it_was(tmp_path: Path, mode: Mode, is_new: bool) -> None:
    outcomes = set()
    for at in range(1, MOST_CALLS):
        uri = str(tmp_path / f"{at}.lance")
        snapshot = None if is_new else lw.create(uri, ROWS, fsync=False)._snapshot
        store = FaultyStore(DiskStore(uri, fsync=False), at=at, mode=mode)
        outcome = run(lambda: stage_on(Location(store), snapshot).publish())  # noqa: B023
        outcomes.add(outcome)
        if is_new:
            assert not lw.exists(uri)
        else:
            assert seen(uri) == STATES[0]
            assert lw.open(uri).version == 1
        if len(store.calls) < at:
            assert outcome == "done"
            break
        location = Location(DiskStore(uri, fsync=False))
        landing = stage_on(location, snapshot).publish()
        assert land(location, landing).is_exact
        assert seen(uri) == STATES[3]
    else:
        pytest.fail("staging never came to its end")
    assert at > 8
    assert ("dead" in outcomes) == mode.startswith("kill")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("is_new", [False, True], ids=["table", "new"])
def test_landing_is_cut_off_between_steps_and_finished_by_another(
    tmp_path: Path, mode: Mode, is_new: bool
) -> None:
    first = 0 if is_new else 1
    outcomes = set()
    for at in range(1, MOST_CALLS):
        uri = str(tmp_path / f"{at}.lance")
        location, landing = begin(uri, is_new)
        store = FaultyStore(location.store, at=at, mode=mode)
        outcome = run(lambda: land(Location(store), landing, QUIET))  # noqa: B023
        outcomes.add(outcome)
        count = lw.open(uri).version - first if lw.exists(uri) else 0
        if count or not is_new:
            assert seen(uri) == STATES[count - is_new]
        if outcome == "done":
            assert count == 3
        if outcome == "failed":
            assert count < 3
        state = find_landing(location, landing)
        assert state.is_landed == (count == 3)
        assert state.conflict is None
        done = land(location, landing)
        assert done.is_exact
        assert list(done.versions) == [first + 1, first + 2, first + 3]
        assert lw.open(uri).version == first + 3
        assert seen(uri) == STATES[3]
        lance.write_dataset(MORE, uri, mode="append")
        assert seen(uri) == STATES[3] + [4, 5]
        if len(store.calls) < at:
            break
    else:
        pytest.fail("landing never came to its end")
    assert at > 6
    assert ("dead" in outcomes) == mode.startswith("kill")


@pytest.mark.parametrize("mode", MODES)
def test_a_rebased_landing_is_cut_off_and_finished_by_another(tmp_path: Path, mode: Mode) -> None:
    """The steps do not depend on each other, and somebody from outside was there first."""
    for at in range(1, MOST_CALLS):
        uri = str(tmp_path / f"{at}.lance")
        table = lw.create(uri, ROWS, fsync=False)
        location = Location(DiskStore(uri, fsync=False))
        stage = Stage(Snapshot(location, table._snapshot.manifest, table._snapshot.scheme))
        handle = lw.Table(stage.snapshot)
        handle.append(MORE)
        handle.delete("k = 2")
        landing = stage.publish()
        lance.write_dataset(pa.table({"k": [9]}), uri, mode="append")
        store = FaultyStore(location.store, at=at, mode=mode)
        outcome = run(lambda: land(Location(store), landing, QUIET))  # noqa: B023
        count = lw.open(uri).version - 2
        expected = [[1, 2, 3, 9], [1, 2, 3, 9, 4, 5], [1, 3, 9, 4, 5]]
        assert seen(uri) == expected[count], (at, outcome)
        if outcome == "done":
            assert count == 2
        done = land(location, landing)
        assert (list(done.versions), done.is_exact) == ([3, 4], False)
        assert seen(uri) == expected[2]
        if len(store.calls) < at:
            break
    else:
        pytest.fail("landing never came to its end")
    assert at > 10

"""A failure, a lost answer or a death at every store call of staging and landing.

Staging leaves orphans at most. Landing leaves the table at one of the staged states, and whoever
lands again brings the rest, each step once. Pylance judges what is there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from tests.faults.hurting import MODES, every_call
from tests.metadata import QUIET
from tests.pylance import judged

import lancewood as lw
from lancewood.engine.location.location import Location
from lancewood.engine.snapshot.snapshot import Snapshot
from lancewood.engine.staging.landing import find_landing, land
from lancewood.engine.staging.staging import Stage
from lancewood.engine.write import WriteRequest
from lancewood.model.lines import Landing
from lancewood.store.disk import DiskStore
from lancewood.testing.faults import Mode

pytestmark = pytest.mark.usefixtures("no_waiting")
ROWS = pa.table({"k": [1, 2, 3]})
MORE = pa.table({"k": [4, 5]})
STATES = [[1, 2, 3], [1, 2, 3, 4, 5], [1, 3, 4, 5], [1, 3, 4, 5]]
"""The rows before, and after each step."""


def stage_on(location: Location, snapshot: Snapshot | None) -> Stage:
    """Three steps on a table, or the table itself and two more."""
    if snapshot is None:
        stage = Stage.new(location, ROWS, WriteRequest(file_version="2.2"))
    else:
        stage = Stage(Snapshot(location, snapshot.manifest, snapshot.scheme))
    table = lw.Table(stage.snapshot).append(MORE).delete("k = 2")
    if snapshot is not None:
        table.set_config({"done": "yes"})
    return stage


def begin(uri: str, is_new: bool) -> tuple[Location, Landing]:
    """A transaction that is staged and has not landed."""
    snapshot = None if is_new else lw.create(uri, ROWS)._snapshot
    location = Location(DiskStore(uri))
    return location, stage_on(location, snapshot).publish()


def seen(uri: str) -> list[Any]:
    dataset = judged(uri)
    return dataset.to_table()["k"].to_pylist()  # type: ignore[no-any-return]


@pytest.mark.sliced(3)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("is_new", [False, True], ids=["table", "new"])
def test_staging_leaves_the_table_as_it_was(tmp_path: Path, mode: Mode, is_new: bool) -> None:
    def stage(location: Location) -> Landing:
        return stage_on(location, snapshot).publish()

    for attempt in every_call(
        mode, lambda at: DiskStore(str(tmp_path / f"{at}.lance")), more_than=8
    ):
        uri = attempt.store.uri
        snapshot = None if is_new else lw.create(uri, ROWS)._snapshot
        outcome = attempt.run(stage, Location(attempt.store))
        if is_new:
            assert not lw.exists(uri)
        else:
            assert seen(uri) == STATES[0]
            assert lw.open(uri).version == 1
        if attempt.is_whole:
            assert outcome == "done"
            continue
        location = Location(DiskStore(uri))
        assert land(location, stage(location)).is_exact
        assert seen(uri) == STATES[3]


@pytest.mark.sliced(3)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("is_new", [False, True], ids=["table", "new"])
def test_landing_is_cut_off_between_steps_and_finished_by_another(
    tmp_path: Path, mode: Mode, is_new: bool
) -> None:
    first = 0 if is_new else 1
    for attempt in every_call(
        mode, lambda at: DiskStore(str(tmp_path / f"{at}.lance")), more_than=6
    ):
        uri = attempt.store.uri
        location, landing = begin(uri, is_new)
        outcome = attempt.run(land, Location(attempt.store), landing, QUIET)
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


@pytest.mark.sliced(3)
@pytest.mark.parametrize("mode", MODES)
def test_a_rebased_landing_is_cut_off_and_finished_by_another(tmp_path: Path, mode: Mode) -> None:
    """The steps do not depend on each other, and somebody from outside was there first."""
    for attempt in every_call(
        mode, lambda at: DiskStore(str(tmp_path / f"{at}.lance")), more_than=10
    ):
        uri = attempt.store.uri
        table = lw.create(uri, ROWS)
        location = Location(DiskStore(uri))
        stage = Stage(Snapshot(location, table._snapshot.manifest, table._snapshot.scheme))
        handle = lw.Table(stage.snapshot)
        handle.append(MORE)
        handle.delete("k = 2")
        landing = stage.publish()
        lance.write_dataset(pa.table({"k": [9]}), uri, mode="append")
        outcome = attempt.run(land, Location(attempt.store), landing, QUIET)
        count = lw.open(uri).version - 2
        expected = [[1, 2, 3, 9], [1, 2, 3, 9, 4, 5], [1, 3, 9, 4, 5]]
        assert seen(uri) == expected[count], attempt.where
        if outcome == "done":
            assert count == 2
        done = land(location, landing)
        assert (list(done.versions), done.is_exact) == ([3, 4], False)
        assert seen(uri) == expected[2]

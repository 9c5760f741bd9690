"""A failure, a lost answer or a death at every store call of cloning, detaching and dropping.

Afterwards there is no clone or a whole one, both implementations read what is there, the source is
as it was but for a pin, and what did not land can be done again. A clone that is there is pinned.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from tests.faults.hurting import MODES, ONE, Attempt, every_call, through
from tests.pylance import judged

import lancewood as lw
from lancewood.engine.location.location import Location
from lancewood.engine.upkeep.drop import drop_table
from lancewood.engine.upkeep.pins import CLONE_PROPERTY
from lancewood.jobs.clone import clone_deep, clone_shallow
from lancewood.store.disk import DiskStore
from lancewood.testing.faults import FaultyStore, Mode

Run = Callable[[Path, FaultyStore, FaultyStore], object]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two fragments, one with a deletion file; an index."""
    location = tmp_path_factory.mktemp("clones") / "source"
    table = lw.create(location, pa.table({"k": range(8)}), layout=lw.Layout(max_rows_per_file=4))
    table.delete("k = 2")
    lance.dataset(str(location)).create_scalar_index("k", "BTREE")
    return location


def seen(uri: str | Path) -> list[dict[str, Any]]:
    """The rows with their ids, as both implementations find them."""
    table, dataset = lw.open(uri), judged(str(uri))
    names = ["k", "_rowid", "_row_last_updated_at_version"]
    ours: list[dict[str, Any]] = table.scan(names).to_arrow().to_pylist()
    assert ours == dataset.to_table(columns=names).to_pylist()
    assert dataset.to_table(filter="k = 6").num_rows == 1
    return ours


def pinned(source: Path) -> list[str]:
    """Whose pins the source has; pylance must be able to list them."""
    listed = lance.dataset(str(source)).tags.list()
    tags = source / "_refs" / "tags"
    found = [json.loads(each.read_text())["metadata"][CLONE_PROPERTY] for each in tags.glob("*")]
    assert len(found) == len(listed)
    return found


def each_fault(directory: Path, run: Run, side: str, mode: Mode) -> Iterator[tuple[Path, Attempt]]:
    """Run it again and again in fresh copies, hurt at the first call of one side, the second, …"""

    def begin(at: int) -> DiskStore:
        return DiskStore(directory / str(at) / side)

    outcomes = set()
    for attempt in every_call(mode, begin, more_than=1):
        work = directory / str(attempt.at)
        stores = {each: FaultyStore(DiskStore(work / each)) for each in ("source", "clone")}
        stores[side] = attempt.store
        failures = (lw.StorageError, lw.NotFoundError)
        attempt.run(run, work, stores["source"], stores["clone"], failures=failures)
        outcomes.add(attempt.outcome)
        yield work, attempt
        shutil.rmtree(work)
    assert "done" in outcomes
    assert outcomes & {"failed", "dead"}


@pytest.mark.sliced(6)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("side", ["source", "clone"])
@pytest.mark.parametrize("deep", [False, True])
def test_there_is_no_clone_or_a_whole_one(
    tmp_path: Path, template: Path, deep: bool, side: str, mode: Mode
) -> None:
    def run(work: Path, source: FaultyStore, clone: FaultyStore) -> None:
        if not (work / "source").exists():
            shutil.copytree(template, work / "source")
        snapshot = through(work / "source", source)._snapshot
        if deep:
            clone_deep(snapshot, Location(clone), ONE)
        else:
            clone_shallow(snapshot, Location(clone))

    for work, attempt in each_fault(tmp_path, run, side, mode):
        found = attempt.outcome
        source, clone = work / "source", work / "clone"
        expected = seen(source)
        there = lw.exists(clone)
        attempt.check(there, False, True)
        pins = pinned(source)
        assert set(pins) <= {str(clone)}
        if there:
            assert seen(clone) == expected
            assert deep or pins == [str(clone)]
        else:
            assert deep or found != "failed" or pins == [], attempt.where
            lw.open(source).clone(clone, deep=deep)
            assert seen(clone) == expected
        lance.dataset(str(source)).cleanup_old_versions(
            timedelta(0), delete_unverified=True, error_if_tagged_old_versions=False
        )
        assert seen(clone) == expected


@pytest.mark.sliced(6)
@pytest.mark.parametrize("mode", MODES)
def test_a_clone_is_independent_or_not(tmp_path: Path, template: Path, mode: Mode) -> None:
    def run(work: Path, source: FaultyStore, clone: FaultyStore) -> None:
        if not (work / "source").exists():
            shutil.copytree(template, work / "source")
            lw.open(work / "source").clone(work / "clone").delete("k = 5")
        through(work / "clone", clone).detach(runner=ONE)

    for work, attempt in each_fault(tmp_path, run, "clone", mode):
        found = attempt.outcome
        source, clone = work / "source", work / "clone"
        expected = [each for each in seen(source) if each["k"] != 5]
        table = lw.open(clone)
        assert seen(clone) == expected, attempt.where
        assert len(pinned(source)) == 1
        if found == "done":
            assert table.base_paths == ()
        if found == "failed" and table.base_paths:
            left = clone / "data"
            assert not left.exists() or [*left.iterdir()] == [], attempt.where
        table.detach()
        shutil.rmtree(source)
        assert seen(clone) == expected


@pytest.mark.parametrize("mode", MODES)
def test_dropping_a_clone_never_unpins_one_that_is_there(
    tmp_path: Path, template: Path, mode: Mode
) -> None:
    def run(work: Path, source: FaultyStore, clone: FaultyStore) -> None:
        if not (work / "source").exists():
            shutil.copytree(template, work / "source")
            lw.open(work / "source").clone(work / "clone")
        drop_table(Location(clone), force=False)

    for work, attempt in each_fault(tmp_path, run, "clone", mode):
        found = attempt.outcome
        source, clone = work / "source", work / "clone"
        if lw.exists(clone):
            assert found != "done"
            assert pinned(source) == [str(clone)], attempt.where
            assert seen(clone) == seen(source)
            lw.drop(clone)
            assert pinned(source) == []
        elif found == "done":
            assert pinned(source) == []

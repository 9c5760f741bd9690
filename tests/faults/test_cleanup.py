"""A failure, a lost answer or a death at every store call of cleanup and of repair.

Afterwards every version that is still listed, every tag and every branch is read by both, and the
same cleanup, run again, ends where an undisturbed one does.
"""

from __future__ import annotations

import contextlib
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.engine.location.location import Location
from lancewood.engine.snapshot.snapshot import Snapshot
from lancewood.jobs.runner import LocalRunner
from lancewood.jobs.upkeep.repair import repair
from lancewood.store.disk import DiskStore
from lancewood.testing.faults import FaultyStore, Killed, Mode
from lancewood.testing.manifests import manifest_path

pytestmark = pytest.mark.usefixtures("no_commit_under_way")

ROWS = pa.table({"a": range(20), "s": ["x"] * 20})
MODES: list[Mode] = ["before", "after", "kill", "kill-after"]
MOST_CALLS = 120


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Main with seven versions, an index, deleted rows, a tag on 2 and a branch from 4.

    Beside it lies a copy to begin again from: the branch knows its main root by its path.
    """
    location = tmp_path_factory.mktemp("live") / "t.lance"
    table = lw.create(location, ROWS, max_rows_per_file=5, fsync=False)
    lance.dataset(str(location)).create_scalar_index("a", "BTREE")
    table = table.latest().delete("a % 3 = 0").append(ROWS)
    dataset = lance.dataset(str(location))
    dataset.tags.create("two", 2)
    branch = dataset.create_branch("exp")
    lance.write_dataset(ROWS, branch.uri, mode="append")
    table = lw.open(location).overwrite(ROWS).append(ROWS).delete("a = 4")
    assert table.version == 7
    shutil.copytree(location, f"{location}.copy")
    return str(location)


def begin_again(uri: str) -> None:
    shutil.rmtree(uri)
    shutil.copytree(f"{uri}.copy", uri)


def cleanup(store: FaultyStore) -> str:
    try:
        table = lw.open(store.uri)
        snapshot = Snapshot(Location(store), table._snapshot.manifest, table._snapshot.scheme)
        lw.Table(snapshot).cleanup(
            keep_versions=1, in_flight=timedelta(days=7), runner=LocalRunner(1)
        )
    except Killed:
        return "dead"
    except lw.StorageError:
        return "failed"
    return "done"


def read(uri: str) -> dict[str, list[dict[str, Any]]]:
    """Everything that is there, read by both: main, the tag, the branch."""
    dataset = lance.dataset(uri)
    found = {}
    for version in sorted(each["version"] for each in dataset.versions()):
        theirs = lance.dataset(uri, version=version)
        theirs.validate()
        rows = theirs.to_table().to_pylist()
        assert lw.open(uri, version=version).to_arrow().to_pylist() == rows
        assert theirs.to_table(filter="a = 4").num_rows == sum(each["a"] == 4 for each in rows)
        found[str(version)] = rows
    found["tag"] = dataset.checkout_version("two").to_table().to_pylist()
    found["branch"] = dataset.checkout_version(("exp", None)).to_table().to_pylist()
    return found


def files(uri: str) -> set[str]:
    return {str(each.relative_to(uri)) for each in Path(uri).rglob("*") if each.is_file()}


@pytest.mark.parametrize("mode", MODES)
def test_whatever_call_goes_wrong_what_is_left_can_be_read(uri: str, mode: Mode) -> None:
    begin_again(uri)
    before = read(uri)
    counting = FaultyStore(DiskStore(uri, fsync=False))
    assert cleanup(counting) == "done"
    kept, clean = read(uri), files(uri)
    assert set(kept) == {"2", "4", "7", "tag", "branch"}
    outcomes = set()
    for at in range(1, MOST_CALLS):
        begin_again(uri)
        store = FaultyStore(DiskStore(uri, fsync=False), at=at, mode=mode)
        outcome = cleanup(store)
        outcomes.add(outcome)
        left = read(uri)
        assert left.items() <= before.items(), (at, outcome)
        assert kept.items() <= left.items(), (at, outcome)
        assert cleanup(FaultyStore(DiskStore(uri, fsync=False))) == "done"
        assert clean <= files(uri)
        assert {each for each in files(uri) - clean if "_versions" in each} == set()
        if len(store.calls) < at:
            assert files(uri) == clean
            break
    else:
        pytest.fail("cleanup never came to its end")
    assert at == len(counting.calls) + 1
    assert ("dead" in outcomes) == mode.startswith("kill")


@pytest.mark.parametrize("mode", MODES)
def test_a_repair_that_is_cut_off_is_finished_by_the_next(tmp_path: Path, mode: Mode) -> None:
    source = tmp_path / "source.lance"
    lw.create(source, ROWS, fsync=False).append(ROWS).append(ROWS)
    manifest_path(source, 3).write_bytes(b"")
    uri = str(tmp_path / "t.lance")
    for at in range(1, MOST_CALLS):
        shutil.rmtree(uri, ignore_errors=True)
        shutil.copytree(source, uri)
        store = FaultyStore(DiskStore(uri, fsync=False), at=at, mode=mode)
        with contextlib.suppress(Killed, lw.StorageError):
            repair(Location(store), LocalRunner(1), dry_run=False)
        repair(Location(DiskStore(uri, fsync=False)), LocalRunner(1), dry_run=False)
        assert lw.open(uri).version == lance.dataset(uri).version == 2
        assert lw.open(uri).verify().ok
        aside = [*(Path(uri) / "_versions").glob("*.damaged-*")]
        assert [each.read_bytes() for each in aside] == [b""]
        if len(store.calls) < at:
            return
    pytest.fail("repair never came to its end")

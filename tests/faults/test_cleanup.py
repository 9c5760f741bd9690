"""A failure, a lost answer or a death at every store call of cleanup and of repair.

Afterwards every version that is still listed, every tag and every branch is read by both, and the
same cleanup, run again, ends where an undisturbed one does.
"""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from tests.faults.hurting import EVERY, MODES, ONE, copied, every_call, through
from tests.manifests import manifest_path
from tests.pylance import judged

import lancewood as lw
from lancewood.engine.location.location import Location
from lancewood.jobs.upkeep.repair import repair
from lancewood.store.base import Store
from lancewood.store.disk import DiskStore
from lancewood.testing.faults import FaultyStore, Mode

pytestmark = pytest.mark.usefixtures("no_commit_under_way")

ROWS = pa.table({"a": range(20), "s": ["x"] * 20})


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Main with seven versions, an index, deleted rows, a tag on 2 and a branch from 4.

    Beside it lies a copy to begin again from: the branch knows its main root by its path.
    """
    location = tmp_path_factory.mktemp("live") / "t.lance"
    table = lw.create(location, ROWS, layout=lw.Layout(max_rows_per_file=5))
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


def cleanup(store: Store) -> None:
    table = through(store.uri, store)
    table.cleanup(keep_versions=1, in_flight=timedelta(days=7), runner=ONE)


def read(uri: str) -> dict[str, list[dict[str, Any]]]:
    """Everything that is there, read by both: main, the tag, the branch."""
    dataset = lance.dataset(uri)
    found = {}
    for version in sorted(each["version"] for each in dataset.versions()):
        theirs = judged(uri, version=version)
        rows = theirs.to_table().to_pylist()
        assert lw.open(uri, version=version).to_arrow().to_pylist() == rows
        assert theirs.to_table(filter="a = 4").num_rows == sum(each["a"] == 4 for each in rows)
        found[str(version)] = rows
    found["tag"] = dataset.checkout_version("two").to_table().to_pylist()
    found["branch"] = dataset.checkout_version(("exp", None)).to_table().to_pylist()
    return found


def files(uri: str) -> set[str]:
    return {str(each.relative_to(uri)) for each in Path(uri).rglob("*") if each.is_file()}


@pytest.mark.sliced(6)
@pytest.mark.parametrize("mode", MODES)
def test_whatever_call_goes_wrong_what_is_left_can_be_read(uri: str, mode: Mode) -> None:
    counting = FaultyStore(copied(f"{uri}.copy", uri))
    before = read(uri)
    cleanup(counting)
    kept, clean = read(uri), files(uri)
    assert set(kept) == {"2", "4", "7", "tag", "branch"}
    for attempt in every_call(mode, lambda _: copied(f"{uri}.copy", uri)):
        attempt.run(cleanup, attempt.store)
        left = read(uri)
        assert left.items() <= before.items(), attempt.where
        assert kept.items() <= left.items(), attempt.where
        cleanup(DiskStore(uri))
        assert clean <= files(uri)
        assert {each for each in files(uri) - clean if "_versions" in each} == set()
    assert files(uri) == clean
    assert 0 < attempt.at - len(counting.calls) <= EVERY


@pytest.mark.sliced(6)
@pytest.mark.parametrize("mode", MODES)
def test_a_repair_that_is_cut_off_is_finished_by_the_next(tmp_path: Path, mode: Mode) -> None:
    source = tmp_path / "source.lance"
    lw.create(source, ROWS).append(ROWS).append(ROWS)
    manifest_path(source, 3).write_bytes(b"")
    uri = str(tmp_path / "t.lance")

    def mend(store: Store) -> None:
        repair(Location(store), ONE, dry_run=False)

    for attempt in every_call(mode, lambda _: copied(source, uri)):
        attempt.run(mend, attempt.store)
        mend(DiskStore(uri))
        assert lw.open(uri).version == lance.dataset(uri).version == 2
        assert lw.open(uri).verify().ok
        aside = [*(Path(uri) / "_versions").glob("*.damaged-*")]
        assert [each.read_bytes() for each in aside] == [b""]

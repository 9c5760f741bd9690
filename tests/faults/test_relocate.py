"""A failure, a lost answer or a death at every store call of relocate.

Whatever happens, every version of every branch is there and is read at the new place, each manifest
has its old bytes or its new ones, and the next run ends where an undisturbed one does.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import lance
import pyarrow as pa
import pytest
from tests.faults.hurting import EVERY, MODES, ONE, copied, every_call
from tests.pylance import judged

import lancewood as lw
from lancewood.engine.location.location import Location
from lancewood.jobs.relocate import RelocationReport, relocate
from lancewood.store.base import Store
from lancewood.store.disk import DiskStore
from lancewood.testing.faults import FaultyStore, Mode, WatchedStore

T = TypeVar("T")
ROWS = pa.table({"a": range(20), "s": ["x"] * 20})
BRANCHES = ("one", "two")


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """A table that was moved, with a branch and a branch of that; beside it lies a copy."""
    old, new = str(tmp_path / "old.lance"), str(tmp_path / "new.lance")
    lance.write_dataset(ROWS, old, max_rows_per_file=5)
    lance.dataset(old).delete("a = 1")
    lance.dataset(old).create_branch("one").delete("a = 2")
    lance.dataset(old).checkout_version(("one", None)).create_branch("two").delete("a = 3")
    shutil.move(old, new)
    shutil.copytree(new, f"{new}.copy")
    return new


def run(store: Store) -> RelocationReport:
    return relocate(Location(store), ONE, in_flight=timedelta(0))


def manifests(uri: str) -> dict[str, bytes]:
    return {str(each.relative_to(uri)): each.read_bytes() for each in Path(uri).rglob("*.manifest")}


def check_read(uri: str) -> None:
    for branch, deleted in (("one", 2), ("two", 3)):
        table = lw.open(uri, branch=branch)
        assert table.to_arrow()["a"].to_pylist() == [0, *range(deleted + 1, 20)]
        for version in table.versions():
            table.checkout(version=version.version).to_arrow()


@pytest.mark.sliced(3)
@pytest.mark.parametrize("mode", MODES)
def test_a_relocation_that_is_cut_off_is_finished_by_the_next(uri: str, mode: Mode) -> None:
    old = manifests(uri)
    counting = FaultyStore(DiskStore(uri))
    run(counting)
    new = manifests(uri)
    assert len(new) == len(old)
    assert sum(old[each] != new[each] for each in old) == 4
    for attempt in every_call(mode, lambda _: copied(f"{uri}.copy", uri)):
        attempt.run(run, attempt.store)
        left = manifests(uri)
        assert left.keys() == old.keys()
        assert all(left[each] in (old[each], new[each]) for each in old)
        check_read(uri)
        run(DiskStore(uri))
        assert manifests(uri) == new
    assert 0 < attempt.at - len(counting.calls) <= EVERY
    for branch in BRANCHES:
        dataset = judged(uri).checkout_version((branch, None))
        assert dataset.to_table() == lw.open(uri, branch=branch).to_arrow()


class Interrupted(WatchedStore):
    """Something happens right before the n-th manifest is replaced."""

    def __init__(self, inner: DiskStore, at: int, event: Callable[[], object]) -> None:
        super().__init__(inner)
        self.waiting = [at]
        self.event = event

    def _call(self, verb: str, key: str, action: Callable[[], T]) -> T:
        if verb == "replace":
            self.waiting[0] -= 1
            if not self.waiting[0]:
                self.event()
        return action()


def test_a_version_that_appears_meanwhile_is_reported_and_kept(uri: str) -> None:
    branch = lw.open(uri, branch="one")
    store = Interrupted(DiskStore(uri), 2, lambda: branch.append(ROWS))
    with pytest.raises(lw.RetryableConflictError, match="somebody writes there"):
        run(store)
    assert lw.open(uri, branch="one").count_rows() == 38
    lw.relocate(uri, in_flight=timedelta(0))
    assert lance.dataset(uri).checkout_version(("one", None)).count_rows() == 38
    assert lw.relocate(uri).manifests == 0


def test_two_who_relocate_at_once_do_not_disturb_each_other(uri: str) -> None:
    begun: list[RelocationReport] = []
    run(Interrupted(DiskStore(uri), 3, lambda: begun.append(run(DiskStore(uri)))))
    assert begun[0].manifests == 2
    check_read(uri)
    assert lw.relocate(uri).manifests == 0


def test_a_version_that_is_cleaned_up_meanwhile_is_passed_over(uri: str) -> None:
    first = max((Path(uri) / "tree/two/_versions").glob("*.manifest"))
    run(Interrupted(DiskStore(uri), 1, first.unlink))
    assert not first.exists()
    assert lance.dataset(uri).checkout_version(("two", None)).count_rows() == 17

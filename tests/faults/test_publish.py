"""A failure, a lost answer or a death at every store call of publishing a branch and resetting it.

Afterwards the target is old or new, never between, and both implementations read it. Publishing
again finishes what was cut off, and never publishes twice.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from tests.counted import counts_of

import lancewood as lw
from lancewood.engine.location.location import Location
from lancewood.engine.snapshot.snapshot import Snapshot
from lancewood.jobs.runner import LocalRunner
from lancewood.model.closing import PUBLISHED_KEY
from lancewood.store.disk import DiskStore
from lancewood.testing.faults import FaultyStore, Killed, Mode

MODES: list[Mode] = ["before", "after", "kill", "kill-after"]
MOST_CALLS = 150
ONE = LocalRunner(1)


def rows(first: int, stop: int) -> pa.Table:
    numbers = range(first, stop)
    return pa.table(
        {"k": pa.array(numbers, pa.int64()), "a": pa.array([k % 3 for k in numbers], pa.int64())}
    )


def content(uri: str) -> list[str]:
    found = lance.dataset(uri)
    found.validate()
    return sorted(map(repr, found.to_table(columns=["k", "a", "_rowid"]).to_pylist()))


@dataclass(frozen=True)
class Case:
    """A table with a branch, kept aside: base paths are absolute, so it is always tried at the
    same place."""

    kept: Path
    uri: str
    before: list[str]
    after: list[str]
    version: int

    def restore(self) -> None:
        shutil.rmtree(self.uri)
        shutil.copytree(self.kept, self.uri)


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lancewood.store.readback.time.sleep", lambda seconds: None)


@pytest.fixture(params=["ours", "pylance's"])
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Case:
    """Old rows deleted and changed, new ones of which some are deleted, an index, and a target that
    has moved."""
    uri = str(tmp_path / "t.lance")
    table = lw.create(uri, rows(0, 20), max_rows_per_file=10, fsync=False)
    if request.param == "ours":
        branch = table.branches.create("exp").append(rows(100, 105)).delete("k IN (3, 101)")
        branch.update({"a": 50}, "k = 4", rewrite="columns")
    else:
        dataset: Any = lance.dataset(uri)
        dataset.create_branch("exp")
        work: Any = lance.dataset(f"{uri}/tree/exp")
        work.create_scalar_index("k", "BTREE")
        work.insert(rows(100, 105))
        work.delete("k IN (3, 101)")
    table = table.append(rows(200, 203))
    kept = tmp_path / "kept"
    shutil.copytree(uri, kept)
    before = content(uri)
    table.branches.publish("exp")
    found = Case(kept, uri, before, content(uri), table.version)
    found.restore()
    return found


def through(uri: str, store: FaultyStore) -> lw.Table:
    opened = lw.open(uri)._snapshot
    return lw.Table(Snapshot(Location(store), opened.manifest, opened.scheme))


def run(table: lw.Table, act: Callable[[lw.Table], object]) -> str:
    try:
        act(table)
    except Killed:
        return "dead"
    except lw.CommitUnknownError:
        return "unknown"
    except lw.StorageError:
        return "failed"
    return "done"


@pytest.mark.parametrize(
    ("mode", "adopt"), [*((mode, True) for mode in MODES), ("after", False), ("kill", False)]
)
def test_publishing_is_done_once_or_not_at_all_whatever_call_goes_wrong(
    case: Case, mode: Mode, adopt: bool
) -> None:
    outcomes: Counter[str] = Counter()
    for at in range(1, MOST_CALLS):
        case.restore()
        store = FaultyStore(DiskStore(case.uri, fsync=False), at=at, mode=mode)
        outcome = run(
            through(case.uri, store),
            lambda table: table.branches.publish("exp", adopt=adopt, runner=ONE),
        )
        outcomes[outcome] += 1
        where = at, outcome, store.calls[-1]
        seen = content(case.uri)
        assert seen in (case.before, case.after), where
        assert outcome != "done" or seen == case.after, where
        assert outcome != "failed" or seen == case.before, where
        again = lw.open(case.uri).branches.publish("exp", adopt=adopt)
        assert again.version == case.version + 1, where
        assert content(case.uri) == case.after, where
        assert lw.open(case.uri).branches.reset("exp").count_rows() == len(case.after)
        if len(store.calls) < at:
            break
    else:
        pytest.fail("publishing never came to its end")
    assert at > 20
    assert ("dead" in outcomes) == mode.startswith("kill")


@pytest.mark.parametrize("mode", MODES)
def test_a_refusal_leaves_the_branch_open_or_closed_and_the_target_as_it_was(
    case: Case, mode: Mode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The conflict lands when the branch is closed already."""
    from lancewood.jobs.publishing import composing

    compose = composing.Publication.compose

    def meddle(self: composing.Publication, newest: Any) -> Any:
        table = lw.open(case.uri)
        if table.version == case.version:
            table.delete("k = 3")
        return compose(self, newest)

    monkeypatch.setattr(composing.Publication, "compose", meddle)
    for at in range(1, MOST_CALLS):
        case.restore()
        store = FaultyStore(DiskStore(case.uri, fsync=False), at=at, mode=mode)
        try:
            run(through(case.uri, store), lambda table: table.branches.publish("exp", runner=ONE))
        except lw.ConflictError:
            if len(store.calls) < at:
                assert PUBLISHED_KEY not in lw.open(f"{case.uri}@exp").config
                break
        content(case.uri)
        with pytest.raises(lw.ConflictError, match="do not go together"):
            lw.open(case.uri).branches.publish("exp")
        assert lw.open(case.uri).version == case.version + 1
        assert PUBLISHED_KEY not in lw.open(f"{case.uri}@exp").config
    else:
        pytest.fail("publishing never came to its end")


@pytest.mark.parametrize("mode", MODES)
def test_a_reset_is_done_or_not_whatever_call_goes_wrong(case: Case, mode: Mode) -> None:
    lw.open(case.uri).branches.publish("exp")
    shutil.rmtree(case.kept)
    shutil.copytree(case.uri, case.kept)
    before = lw.open(f"{case.uri}@exp").version
    for at in range(1, MOST_CALLS):
        case.restore()
        store = FaultyStore(DiskStore(case.uri, fsync=False), at=at, mode=mode)
        outcome = run(through(case.uri, store), lambda table: table.branches.reset("exp"))
        where = at, outcome, store.calls[-1]
        branch = lw.open(f"{case.uri}@exp")
        lance.dataset(branch.uri).validate()
        assert branch.version in (before, before + 1), where
        assert outcome != "done" or branch.version == before + 1, where
        if branch.version == before:
            branch = lw.open(case.uri).branches.reset("exp")
        branch.append(rows(300, 301))
        after = lw.open(case.uri).branches.publish("exp")
        assert len(content(case.uri)) == len(case.after) + 1, where
        assert after.branches.get("exp").parent_version == case.version + 1, where
        if len(store.calls) < at:
            break
    else:
        pytest.fail("the reset never came to its end")


class Deaf(FaultyStore):
    """Does not tell what became of a manifest of the target, and lets nobody read it."""

    is_deaf = False

    def put_new(self, key: str, data: bytes) -> Any:
        if f"{self._prefix}{key}".startswith("_versions/"):
            super().put_new(key, data)
            self.is_deaf = True
            raise lw.StorageError("no answer")
        return super().put_new(key, data)

    def get(self, key: str) -> bytes:
        if self.is_deaf:
            raise lw.StorageError("no answer")
        return super().get(key)


def test_files_of_a_publishing_whose_fate_is_unknown_are_never_deleted(case: Case) -> None:
    table = through(case.uri, Deaf(DiskStore(case.uri, fsync=False)))
    with pytest.raises(lw.CommitUnknownError) as caught:
        table.branches.publish("exp", runner=ONE)
    assert any("publish it again" in each for each in caught.value.__notes__)
    assert content(case.uri) == case.after
    again = lw.open(case.uri).branches.publish("exp")
    assert again.version == case.version + 1
    assert not counts_of(again, lw.Published).is_new


def forget_landing(uri: str) -> None:
    """As if the publisher had died before it noted on the branch what became of its work."""
    newest = lw.open(f"{uri}@exp")
    Path(newest.uri, "_versions", f"{(1 << 64) - 1 - newest.version:020d}.manifest").unlink()


def test_a_publishing_that_may_have_been_cleaned_up_is_not_done_again(case: Case) -> None:
    lw.open(case.uri).branches.publish("exp")
    table = lw.open(case.uri).append(rows(400, 401))
    name = f"{(1 << 64) - 1 - (case.version + 1):020d}.manifest"
    Path(case.uri, "_versions", name).unlink()
    assert table.branches.publish("exp").version == table.version
    forget_landing(case.uri)
    with pytest.raises(lw.CommitUnknownError, match="it is not known whether"):
        table.branches.publish("exp")
    with pytest.raises(lw.CommitUnknownError, match="it is not known whether"):
        table.branches.reset("exp")
    assert table.branches.reset("exp", force=True).count_rows() == len(case.after) + 1

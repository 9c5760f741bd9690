"""A failure, a lost answer or a death at every store call of publishing a branch and resetting it.

Afterwards the target is old or new, never between, and both implementations read it. Publishing
again finishes what was cut off, and never publishes twice.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from tests.counted import counts_of
from tests.faults.hurting import MODES, ONE, Deaf, copied, every_call, through
from tests.pylance import judged

import lancewood as lw
from lancewood.model.table_config import PUBLISHED_KEY
from lancewood.store.disk import DiskStore
from lancewood.testing.faults import Mode

pytestmark = pytest.mark.usefixtures("no_waiting")


def rows(first: int, stop: int) -> pa.Table:
    numbers = range(first, stop)
    return pa.table(
        {"k": pa.array(numbers, pa.int64()), "a": pa.array([k % 3 for k in numbers], pa.int64())}
    )


def content(uri: str) -> list[str]:
    found = judged(uri)
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

    def restore(self) -> DiskStore:
        return copied(self.kept, self.uri)


@pytest.fixture(params=["ours", "pylance's"])
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Case:
    """Old rows deleted and changed, new ones of which some are deleted, an index, and a target that
    has moved."""
    uri = str(tmp_path / "t.lance")
    table = lw.create(uri, rows(0, 20), layout=lw.Layout(max_rows_per_file=10))
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


@pytest.mark.sliced(6)
@pytest.mark.parametrize(
    ("mode", "adopt"), [*((mode, True) for mode in MODES), ("after", False), ("kill", False)]
)
def test_publishing_is_done_once_or_not_at_all_whatever_call_goes_wrong(
    case: Case, mode: Mode, adopt: bool
) -> None:
    def publish(table: lw.Table) -> object:
        return table.branches.publish("exp", adopt=adopt, runner=ONE)

    for attempt in every_call(mode, lambda _: case.restore(), more_than=20):
        attempt.run(publish, through(case.uri, attempt.store))
        attempt.check(content(case.uri), case.before, case.after)
        again = lw.open(case.uri).branches.publish("exp", adopt=adopt)
        assert again.version == case.version + 1, attempt.where
        assert content(case.uri) == case.after, attempt.where
        assert lw.open(case.uri).branches.reset("exp").count_rows() == len(case.after)


@pytest.mark.sliced(6)
@pytest.mark.parametrize("mode", MODES)
def test_a_refusal_leaves_the_branch_open_or_closed_and_the_target_as_it_was(
    case: Case, mode: Mode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The conflict lands when the branch is closed already."""
    from lancewood.jobs.publish import publication as composing

    compose = composing.Publication.compose

    def meddle(self: composing.Publication, newest: Any) -> Any:
        table = lw.open(case.uri)
        if table.version == case.version:
            table.delete("k = 3")
        return compose(self, newest)

    monkeypatch.setattr(composing.Publication, "compose", meddle)
    for attempt in every_call(mode, lambda _: case.restore()):
        try:
            table = through(case.uri, attempt.store)
            attempt.run(lambda table: table.branches.publish("exp", runner=ONE), table)
        except lw.ConflictError:
            if attempt.is_whole:
                assert PUBLISHED_KEY not in lw.open(f"{case.uri}@exp").config
                break
        content(case.uri)
        with pytest.raises(lw.ConflictError, match="do not go together"):
            lw.open(case.uri).branches.publish("exp")
        assert lw.open(case.uri).version == case.version + 1
        assert PUBLISHED_KEY not in lw.open(f"{case.uri}@exp").config
    else:
        pytest.fail("it was never refused")


@pytest.mark.sliced(6)
@pytest.mark.parametrize("mode", MODES)
def test_a_reset_is_done_or_not_whatever_call_goes_wrong(case: Case, mode: Mode) -> None:
    lw.open(case.uri).branches.publish("exp")
    shutil.rmtree(case.kept)
    shutil.copytree(case.uri, case.kept)
    before = lw.open(f"{case.uri}@exp").version
    for attempt in every_call(mode, lambda _: case.restore()):
        table = through(case.uri, attempt.store)
        outcome = attempt.run(lambda table: table.branches.reset("exp"), table)
        where = attempt.where
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


def test_files_of_a_publishing_whose_fate_is_unknown_are_never_deleted(case: Case) -> None:
    table = through(case.uri, Deaf(DiskStore(case.uri)))
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

"""A failure, a lost answer or a death at every store call of a job's commit, then abort.

Spark calls ``abort`` with all messages after a commit that raised, from another process. The table
is old or new, and no file goes that a version names.
"""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from tests.unit.spark.local_join import planned_write

import lancewood as lw
from lancewood.engine.snapshot import Access, Address
from lancewood.spark.writing.job import WriteJob
from lancewood.store.base import Store
from lancewood.store.disk import DiskStore
from lancewood.testing.faults import FaultyStore, Killed, Mode

pytest.importorskip("pyspark", reason="pyspark is not installed")

OLD = pa.table({"a": pa.array([1, 2, 3], pa.int64())})
NEW = pa.table({"a": pa.array([4, 5], pa.int64())})
MODES: list[Mode] = ["before", "after", "kill", "kill-after"]
MOST_CALLS = 60


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lancewood.store.retry.time.sleep", lambda seconds: None)


def planned(uri: str, **wishes: Any) -> WriteJob:
    from pyspark.sql.types import LongType, StructType

    return planned_write(
        Address(uri, Access(fsync=False)), StructType().add("a", LongType()), **wishes
    )


def through(job: WriteJob, store: Store) -> WriteJob:
    """The same job, as it travels, on another store."""
    sent: WriteJob = pickle.loads(pickle.dumps(job))
    location = replace(sent.base.location, store=store)
    before = replace(sent.base, location=location)
    return replace(sent, plan=replace(sent.plan, before=before))


def outcome_of(job: WriteJob, messages: list[bytes]) -> str:
    try:
        job.commit(messages)
    except Killed:
        return "dead"
    except lw.CommitUnknownError:
        return "unknown"
    except lw.StorageError:
        return "failed"
    return "done"


def data_files(uri: str) -> set[str]:
    return {each.name for each in Path(uri, "data").glob("*.lance")}


@pytest.mark.sliced(2)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("is_new", [True, False])
def test_whatever_call_of_a_commit_goes_wrong_abort_takes_no_row(
    tmp_path: Path, mode: Mode, is_new: bool
) -> None:
    seen = set()
    for at in range(1, MOST_CALLS):
        uri = str(tmp_path / f"{at}.lance")
        if not is_new:
            lw.create(uri, OLD, access=lw.Access(fsync=False))
        job = planned(uri, app="loader", batch=1)
        messages = [job.run(NEW.to_batches())]
        store = FaultyStore(DiskStore(uri, fsync=False), at=at, mode=mode)
        outcome = outcome_of(through(job, store), messages)
        if outcome != "done":
            job.abort([*messages, None])
        landed = lw.exists(uri) and lw.open(uri).version == (1 if is_new else 2)
        seen.add((outcome, landed))
        if lw.exists(uri):
            table, dataset = lw.open(uri), lance.dataset(uri)
            dataset.validate()
            expected = [*([] if is_new else OLD.to_pylist()), *(NEW.to_pylist() if landed else [])]
            assert dataset.to_table().to_pylist() == table.to_arrow().to_pylist() == expected
            if outcome == "failed":
                assert len(data_files(uri)) == len(table.fragments), "what failed leaves no file"
        assert (outcome == "done") <= landed
        assert not (outcome == "failed" and landed)
        again = planned(uri, app="loader", batch=1)
        assert (again.work is None) == landed, "the driver runs again"
        assert again.commit([again.run(NEW.to_batches())]).skipped == landed
        rows = lance.dataset(uri).to_table()["a"].to_pylist()
        assert rows == [*([] if is_new else [1, 2, 3]), 4, 5]
        if len(store.calls) < at:
            break
    else:
        pytest.fail("the commit never came to its end")
    assert ("done", True) in seen
    if mode == "kill":
        assert ("dead", False) in seen
    if mode == "kill-after":
        assert {("dead", False), ("dead", True)} <= seen


def test_abort_before_a_commit_removes_the_files(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    lw.create(uri, OLD)
    kept = data_files(uri)
    job = planned(uri)
    messages = [job.run(NEW.to_batches()), None, job.run(NEW.to_batches())]
    assert len(data_files(uri)) == 3
    lw.open(uri).append(NEW)
    through(job, DiskStore(uri)).abort(messages)
    assert len(data_files(uri)) == 2
    assert kept < data_files(uri)
    assert lance.dataset(uri).to_table()["a"].to_pylist() == [1, 2, 3, 4, 5]


def test_abort_after_a_commit_removes_nothing(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    job = planned(uri)
    messages = [job.run(NEW.to_batches())]
    job.commit(messages)
    lw.open(uri).delete("a = 4")
    through(job, DiskStore(uri)).abort(messages)
    assert lance.dataset(uri).to_table()["a"].to_pylist() == [5]


def test_a_commit_that_is_said_twice_lands_once(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    lw.create(uri, OLD)
    job = planned(uri)
    messages = [job.run(NEW.to_batches())]
    assert job.commit(messages) == through(job, DiskStore(uri)).commit(messages)
    assert lance.dataset(uri).to_table()["a"].to_pylist() == [1, 2, 3, 4, 5]


def test_a_commit_that_was_cut_off_keeps_its_files(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    lw.create(uri, OLD, access=lw.Access(fsync=False))
    calls = FaultyStore(DiskStore(uri, fsync=False))
    through(planned(uri), calls).commit([])
    publishing = [verb for verb, _ in calls.calls].index("put_new") + 1
    job = planned(uri)
    messages = [job.run(NEW.to_batches())]
    died = FaultyStore(DiskStore(uri, fsync=False), at=publishing, mode="kill")
    assert outcome_of(through(job, died), messages) == "dead"
    through(job, DiskStore(uri)).abort(messages)
    assert len(data_files(uri)) == 2, "its manifest may still be on its way"


@pytest.mark.parametrize("at", range(1, 8))
def test_a_second_commit_that_fails_takes_no_file_of_the_first(tmp_path: Path, at: int) -> None:
    uri = str(tmp_path / "t.lance")
    lw.create(uri, OLD, access=lw.Access(fsync=False))
    job = planned(uri)
    messages = [job.run(NEW.to_batches())]
    job.commit(messages)
    store = FaultyStore(DiskStore(uri, fsync=False), at=at, mode="before")
    outcome_of(through(job, store), messages)
    assert lance.dataset(uri).to_table()["a"].to_pylist() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("at", range(1, 6))
def test_abort_leaves_everything_where_the_store_does_not_answer(tmp_path: Path, at: int) -> None:
    uri = str(tmp_path / "t.lance")
    lw.create(uri, OLD, access=lw.Access(fsync=False))
    job = planned(uri)
    messages = [job.run(NEW.to_batches())]
    store = FaultyStore(DiskStore(uri, fsync=False), at=at, mode="before")
    through(job, store).abort(messages)
    hurt = store.calls[at - 1][0] if len(store.calls) >= at else None
    assert len(data_files(uri)) == (1 if hurt is None else 2)


@pytest.mark.parametrize("at", range(1, 8))
def test_a_commit_that_failed_never_lands_later_without_its_files(tmp_path: Path, at: int) -> None:
    uri = str(tmp_path / "t.lance")
    lw.create(uri, OLD, access=lw.Access(fsync=False))
    job = planned(uri)
    messages = [job.run(NEW.to_batches())]
    store = FaultyStore(DiskStore(uri, fsync=False), at=at, mode="before")
    outcome_of(through(job, store), messages)
    again = outcome_of(through(job, DiskStore(uri, fsync=False)), messages)
    expected = {"done": [1, 2, 3, 4, 5], "unknown": [1, 2, 3]}[again]
    assert lance.dataset(uri).to_table()["a"].to_pylist() == expected


@pytest.mark.parametrize("is_landed", [True, False])
def test_a_branch_that_was_made_again_proves_nothing_to_abort(
    tmp_path: Path, is_landed: bool
) -> None:
    uri = str(tmp_path / "t.lance")
    lw.create(uri, OLD)
    lw.open(uri).branches.create("exp")
    job = planned(uri, branch="exp")
    messages = [job.run(NEW.to_batches())]
    if is_landed:
        job.commit(messages)
        lw.open(uri).branches.publish("exp")
    lw.open(uri).branches.delete("exp")
    lw.open(uri).branches.create("exp", at=1)
    pickle.loads(pickle.dumps(job)).abort(messages)
    assert len(data_files(uri)) == 2
    expected = [1, 2, 3, 4, 5] if is_landed else [1, 2, 3]
    assert lance.dataset(uri).to_table()["a"].to_pylist() == expected


@pytest.mark.parametrize("is_new", [True, False])
def test_a_job_that_was_aborted_cannot_be_committed(tmp_path: Path, is_new: bool) -> None:
    uri = str(tmp_path / "t.lance")
    if not is_new:
        lw.create(uri, OLD)
    job = planned(uri)
    messages = [job.run(()), job.run(NEW.to_batches()), job.run(NEW.to_batches())]
    job.abort([None, *messages])
    with pytest.raises(lw.NotFoundError, match="was aborted"):
        through(job, DiskStore(uri)).commit(messages)
    assert lw.exists(uri) is not is_new
    if not is_new:
        assert lance.dataset(uri).to_table()["a"].to_pylist() == [1, 2, 3]

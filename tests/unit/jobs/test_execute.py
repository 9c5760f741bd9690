"""Executing a change: prepare, commit, and once more on what others have committed meanwhile."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pyarrow as pa
import pytest
from tests.metadata import RetriedOptions

import lancewood as lw
from lancewood.engine.location.file_roots import NewFile
from lancewood.engine.snapshot.snapshot import Snapshot
from lancewood.errors import (
    CommitUnknownError,
    IncompatibleConflictError,
    RetryableConflictError,
    StorageError,
)
from lancewood.jobs.job import Change, CommitOptions, execute
from lancewood.model.transaction import MapUpdate, UpdateConfig
from lancewood.store.retry import JOBS

_names = iter(range(10**6))
SPARE = "data/spare.lance"


@pytest.fixture
def table() -> lw.Table:
    return lw.create(f"memory://execute/{next(_names)}", pa.table({"a": [1, 2, 3]}))


def snapshot_of(table: lw.Table) -> Snapshot:
    return table._snapshot


@dataclass
class Job:
    """A change of configuration for which a file was written; others may be faster."""

    others: list[lw.Table] = field(default_factory=list)
    """Handles through which somebody sets the same key first, one for each execution."""
    versions: list[int] = field(default_factory=list)

    def prepare(self, snapshot: Snapshot) -> Change[str]:
        self.versions.append(snapshot.manifest.version)
        snapshot.location.store.put(SPARE, b"rows")
        if self.others:
            self.others.pop().latest().set_config({"key": f"theirs {len(self.versions)}"})
        operation = UpdateConfig(config=MapUpdate({"key": "mine"}))
        return Change(operation, f"execution {len(self.versions)}", (NewFile(SPARE),))


def retryable(
    monkeypatch: pytest.MonkeyPatch, failures: int, kind: type[lw.LancewoodError]
) -> None:
    """Make the first commits fail."""
    honest = Snapshot.commit
    left = [failures]

    def commit(self: Snapshot, *args: object) -> Snapshot:
        if left[0]:
            left[0] -= 1
            raise kind("somebody was faster", version=7)
        return honest(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(Snapshot, "commit", commit)


def patient(executions: int = 10) -> tuple[CommitOptions, list[float]]:
    pauses: list[float] = []
    ticks = iter(range(10**6))
    clock = lambda: float(next(ticks))  # noqa: E731
    retry = replace(JOBS, attempts=executions, sleep=pauses.append, clock=clock)
    return RetriedOptions(retry=retry), pauses


def test_a_change_is_prepared_once_and_committed(table: lw.Table) -> None:
    after, result = execute(
        snapshot_of(table), Job().prepare, CommitOptions(properties={"who": "me"})
    )
    assert result == "execution 1"
    assert after.manifest.version == 2
    assert after.manifest.config["key"] == "mine"
    assert after.location.store.get(SPARE) == b"rows"


def test_nothing_to_do_is_no_new_version(table: lw.Table) -> None:
    def prepare(snapshot: Snapshot) -> Change[int]:
        return Change(None, 0)

    before = snapshot_of(table)
    after, result = execute(before, prepare)
    assert after is before
    assert result == 0
    assert table.latest().version == 1


def test_a_conflict_is_answered_by_another_execution_on_the_newest_version(
    table: lw.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit_options, pauses = patient()
    table.append(pa.table({"a": [4]}))
    retryable(monkeypatch, 2, RetryableConflictError)
    job = Job()
    after, result = execute(snapshot_of(table), job.prepare, commit_options)
    assert job.versions == [1, 2, 2]
    assert result == "execution 3"
    assert after.manifest.version == 3
    assert len(pauses) == 2
    assert all(pause > 0 for pause in pauses)


def test_after_too_many_conflicts_the_error_tells_attempts_and_time(
    table: lw.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit_options, pauses = patient(executions=3)
    retryable(monkeypatch, 99, RetryableConflictError)
    with pytest.raises(RetryableConflictError, match=r"executed 3 times in 1\.0 s") as caught:
        execute(snapshot_of(table), Job().prepare, commit_options)
    assert caught.value.facts["attempts"] == 3
    assert caught.value.facts["seconds"] == 1.0
    assert caught.value.facts["version"] == 7
    assert "somebody was faster" in caught.value.message
    assert len(pauses) == 2
    assert table.latest().version == 1


def test_the_files_of_a_change_that_did_not_land_are_removed(
    table: lw.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit_options, _ = patient(executions=2)
    retryable(monkeypatch, 99, RetryableConflictError)
    with pytest.raises(RetryableConflictError):
        execute(snapshot_of(table), Job().prepare, commit_options)
    assert SPARE not in {each.key for each in snapshot_of(table).location.store.list()}


def test_a_serializable_change_is_executed_once(
    table: lw.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit_options = CommitOptions(serializable=True)
    retryable(monkeypatch, 1, RetryableConflictError)
    job = Job()
    with pytest.raises(RetryableConflictError, match="somebody was faster"):
        execute(snapshot_of(table), job.prepare, commit_options)
    assert job.versions == [1]


def test_a_serializable_change_refuses_a_version_that_is_not_the_newest(table: lw.Table) -> None:
    table.append(pa.table({"a": [4]}))
    commit_options = CommitOptions(serializable=True)
    with pytest.raises(lw.ConflictError):
        execute(snapshot_of(table), Job().prepare, commit_options)
    assert table.latest().version == 2
    assert SPARE not in {each.key for each in snapshot_of(table).location.store.list()}


def test_an_incompatible_conflict_is_the_caller_s(table: lw.Table) -> None:
    job = Job(others=[table])
    with pytest.raises(IncompatibleConflictError):
        execute(snapshot_of(table), job.prepare)
    assert job.versions == [1]
    assert table.latest().config["key"] == "theirs 1"
    assert SPARE not in {each.key for each in snapshot_of(table).location.store.list()}


def test_files_stay_when_nobody_knows_whether_the_commit_landed(
    table: lw.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    retryable(monkeypatch, 1, CommitUnknownError)
    job = Job()
    with pytest.raises(CommitUnknownError):
        execute(snapshot_of(table), job.prepare)
    assert job.versions == [1], "it might be done twice otherwise"
    assert snapshot_of(table).location.store.get(SPARE) == b"rows"


def test_an_error_while_preparing_is_raised_as_it_is(table: lw.Table) -> None:
    def prepare(snapshot: Snapshot) -> Change[None]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        execute(snapshot_of(table), prepare)
    assert table.latest().version == 1


def test_a_store_that_fails_to_discard_does_not_hide_the_reason(
    table: lw.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = snapshot_of(table).location.store

    def fail(keys: object) -> None:
        raise StorageError("not now")

    monkeypatch.setattr(type(store), "delete", lambda self, keys: fail(keys))
    snapshot_of(table).discard([NewFile(SPARE)])
    retryable(monkeypatch, 99, RetryableConflictError)
    commit_options, _ = patient(executions=2)
    with pytest.raises(RetryableConflictError):
        execute(snapshot_of(table), Job().prepare, commit_options)

"""A failure, a lost answer or a death at every store call of create, append and overwrite, and of a
merge in SQL.

Afterwards the table is old or new, never between, and both implementations read it. What was
reported as failed did not land, and what was reported as done did.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from tests.faults.hurting import MODES, Deaf, every_call, outcome_of, through
from tests.pylance import judged

import lancewood as lw
from lancewood.engine.location.location import Location
from lancewood.engine.write import WriteRequest, create_table
from lancewood.store.disk import DiskStore
from lancewood.store.readback import put_new_settled
from lancewood.testing.faults import FaultyStore, Mode

pytestmark = pytest.mark.usefixtures("no_waiting")

OLD = pa.table({"a": [1, 2, 3], "s": ["x", "y", "z"]})
ADDED = pa.table({"a": [4, 5], "s": ["v", "w"]})
NEW = pa.table({"b": [1.5, 2.5]})


def append(table: lw.Table) -> object:
    return table.append(ADDED, max_rows_per_file=1)


MERGED = pa.table({"a": [2, 1, 7], "s": ["y", "X", "n"]})
MERGE = (
    "MERGE INTO t USING (VALUES (1, 'X'), (3, 'z'), (7, 'n')) AS v(a, s) ON t.a = v.a "
    "WHEN MATCHED AND t.s = v.s THEN DELETE WHEN MATCHED THEN UPDATE "
    "WHEN NOT MATCHED THEN INSERT"
)


def merge_by_sql(table: lw.Table) -> object:
    return lw.sql(MERGE, tables={"t": table})


CASES: dict[str, tuple[Callable[[lw.Table], object], pa.Table]] = {
    "append": (append, pa.concat_tables([OLD, ADDED])),
    "overwrite": (lambda table: table.overwrite(NEW), NEW),
    "set_config": (lambda table: table.set_config({"k": "v"}), OLD),
    "restore": (lambda table: table.restore(1), OLD),
    "sql merge": (merge_by_sql, MERGED),
}


def rows(table: pa.Table) -> list[dict[str, Any]]:
    return table.to_pylist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", CASES)
def test_a_change_is_old_or_new_whatever_call_goes_wrong(
    tmp_path: Path, name: str, mode: Mode
) -> None:
    act, after = CASES[name]

    def begin(at: int) -> DiskStore:
        return DiskStore(lw.create(tmp_path / f"{at}.lance", OLD).uri, fsync=False)

    for attempt in every_call(mode, begin):
        uri = attempt.store.uri
        attempt.run(act, through(uri, attempt.store))
        table, dataset = lw.open(uri), judged(uri)
        assert table.version == dataset.version
        attempt.check(table.version, 1, 2)
        expected = rows(after if table.version == 2 else OLD)
        assert rows(table.to_arrow()) == expected, attempt.where
        assert rows(dataset.to_table()) == expected, attempt.where
        assert table.append(table.head(0)).version == table.version + 1


@pytest.mark.parametrize("mode", MODES)
def test_a_table_is_created_or_not(tmp_path: Path, mode: Mode) -> None:
    new = WriteRequest(file_version="2.2", max_rows_per_file=2)
    for attempt in every_call(
        mode, lambda at: DiskStore(str(tmp_path / f"{at}.lance"), fsync=True)
    ):
        uri = attempt.store.uri
        outcome = attempt.run(create_table, Location(attempt.store), OLD, new)
        if lw.exists(uri):
            assert outcome != "failed"
            dataset = judged(uri)
            assert rows(dataset.to_table()) == rows(lw.open(uri).to_arrow()) == rows(OLD)
        else:
            assert outcome != "done"
            with pytest.raises(Exception, match=r"not found|does not exist"):
                lance.dataset(uri)
            assert lw.create(uri, OLD).count_rows() == 3


def test_an_answer_lost_at_the_manifest_is_found_again(uri: str) -> None:
    lw.create(uri, OLD)
    counting = FaultyStore(DiskStore(uri))
    append(through(uri, counting))
    lw.open(uri).restore(1)
    (at,) = [n for n, (verb, _) in enumerate(counting.calls, 1) if verb == "put_new"]
    store = FaultyStore(DiskStore(uri), at=at, mode="after")
    assert outcome_of(append, through(uri, store)) == "done"
    assert lw.open(uri).version == 4
    assert [verb for verb, _ in store.calls[at:]] == ["get", "sync", "head", "names"]


def test_files_of_a_commit_whose_fate_is_unknown_are_never_deleted(uri: str) -> None:
    lw.create(uri, OLD)
    with pytest.raises(lw.CommitUnknownError, match="nothing was deleted"):
        append(through(uri, Deaf(DiskStore(uri))))
    assert lw.open(uri).version == 2
    assert rows(lance.dataset(uri).to_table()) == rows(pa.concat_tables([OLD, ADDED]))


def test_a_lost_race_removes_the_files_that_nobody_needs(uri: str) -> None:
    stale = lw.create(uri, OLD)
    stale.overwrite(NEW)
    before = sorted(os.listdir(Path(uri) / "data"))
    with pytest.raises(lw.IncompatibleConflictError):
        stale.append(ADDED)
    assert sorted(os.listdir(Path(uri) / "data")) == before


def test_read_back_is_by_bytes(tmp_path: Path) -> None:
    store = DiskStore(tmp_path)
    assert put_new_settled(store, "k", b"mine").value == "created"
    assert put_new_settled(FaultyStore(store, at=1, mode="after"), "k", b"mine").value == "created"
    assert put_new_settled(FaultyStore(store, at=1, mode="before"), "k", b"else").value == "exists"

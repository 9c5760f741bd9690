"""A failure, a lost answer or a death at every store call of create, append and overwrite, and of
statements in SQL.

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
from lancewood.external import opening
from lancewood.store.base import Store
from lancewood.store.disk import DiskStore
from lancewood.store.readback import put_new_settled
from lancewood.testing.faults import FaultyStore, Mode

pytestmark = pytest.mark.usefixtures("no_waiting")

OLD = pa.table({"a": [1, 2, 3], "s": ["x", "y", "z"]})
ADDED = pa.table({"a": [4, 5], "s": ["v", "w"]})
NEW = pa.table({"b": [1.5, 2.5]})


def append(table: lw.Table) -> object:
    return table.append(ADDED, layout=lw.Layout(max_rows_per_file=1))


STATEMENTS: dict[str, tuple[str, dict[str, list[Any]]]] = {
    "merge": (
        "MERGE INTO t USING (VALUES (1, 'X'), (3, 'z'), (7, 'n')) AS v(a, s) ON t.a = v.a "
        "WHEN MATCHED AND t.s = v.s THEN DELETE WHEN MATCHED THEN UPDATE "
        "WHEN NOT MATCHED THEN INSERT",
        {"a": [2, 1, 7], "s": ["y", "X", "n"]},
    ),
    "update": ("UPDATE t SET s = upper(s) WHERE a > 1", {"a": [1, 2, 3], "s": ["x", "Y", "Z"]}),
    "update of itself": (
        "UPDATE t SET a = (SELECT max(a) FROM t) + 1 WHERE a = 1",
        {"a": [2, 3, 4], "s": ["y", "z", "x"]},
    ),
    "delete": ("DELETE FROM t WHERE a * 1 = 2", {"a": [1, 3], "s": ["x", "z"]}),
    "insert": (
        "INSERT INTO t SELECT max(a) + 1, 'n' FROM t",
        {"a": [1, 2, 3, 4], "s": ["x", "y", "z", "n"]},
    ),
    "insert overwrite": (
        "INSERT OVERWRITE t SELECT a, 'n' FROM t",
        {"a": [1, 2, 3], "s": ["n"] * 3},
    ),
    "replace where": (
        "INSERT INTO t REPLACE WHERE a > 1 SELECT a + 1, s FROM t WHERE a = 3",
        {"a": [1, 4], "s": ["x", "z"]},
    ),
    "add column": (
        "ALTER TABLE t ADD COLUMN n AS a + 1",
        {"a": [1, 2, 3], "s": ["x", "y", "z"], "n": [2, 3, 4]},
    ),
}
"""What a statement says, and what it leaves of ``OLD``."""


CASES: dict[str, tuple[Callable[[lw.Table], object], pa.Table]] = {
    "append": (append, pa.concat_tables([OLD, ADDED])),
    "overwrite": (lambda table: table.overwrite(NEW), NEW),
    "set_config": (lambda table: table.set_config({"k": "v"}), OLD),
    "restore": (lambda table: table.restore(1), OLD),
}


def rows(table: pa.Table) -> list[dict[str, Any]]:
    return table.to_pylist()  # type: ignore[no-any-return]


def rows_by_a(table: pa.Table) -> list[dict[str, Any]]:
    return rows(table.sort_by("a"))


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


@pytest.mark.sliced(4)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", STATEMENTS)
def test_a_statement_is_done_or_not_whatever_call_goes_wrong(
    tmp_path: Path, name: str, mode: Mode
) -> None:
    sql, after = STATEMENTS[name]
    old, new = rows_by_a(OLD), rows_by_a(pa.table(after))

    def begin(at: int) -> DiskStore:
        return DiskStore(lw.create(tmp_path / f"{at}.lance", OLD).uri, fsync=False)

    for attempt in every_call(mode, begin):
        uri = attempt.store.uri
        attempt.run(lambda at, sql: lw.sql(sql, tables={"t": at}), through(uri, attempt.store), sql)
        table, dataset = lw.open(uri), judged(uri)
        attempt.check(table.version, 1, 2)
        expected = new if table.version == 2 else old
        assert rows_by_a(table.to_arrow()) == expected, attempt.where
        assert rows_by_a(dataset.to_table()) == expected, attempt.where
        if table.version == 1:
            lw.sql(sql, tables={"t": uri})
            assert rows_by_a(judged(uri).to_table()) == new, attempt.where
        assert lw.open(uri).verify().ok


@pytest.mark.sliced(2)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("words", ["CREATE TABLE", "CREATE OR REPLACE TABLE"])
def test_a_table_is_made_of_a_query_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, mode: Mode
) -> None:
    is_new = words == "CREATE TABLE"
    source = lw.create(tmp_path / "source.lance", OLD)
    sql = f"{words} t AS SELECT a + 1 AS b FROM s"
    stores: dict[str, FaultyStore] = {}

    def begin(at: int) -> DiskStore:
        uri = str(tmp_path / f"{at}.lance")
        return DiskStore(uri if is_new else lw.create(uri, OLD).uri, fsync=False)

    def opened(uri: Any, **_: Any) -> Store:
        return stores.get(str(uri)) or DiskStore(uri, fsync=False)

    monkeypatch.setattr(opening, "open_store", opened)
    for attempt in every_call(mode, begin):
        uri = attempt.store.uri
        stores[uri] = attempt.store
        tables: dict[str, str | lw.Table] = {"t": uri, "s": source}
        outcome = attempt.run(lambda tables: lw.sql(sql, tables=tables), tables)
        stores[uri] = FaultyStore(attempt.inner)
        is_there = lw.exists(uri)
        assert is_there or (is_new and outcome != "done"), attempt.where
        is_done = is_there and lw.open(uri).version == (1 if is_new else 2)
        assert outcome not in ("done", "failed") or is_done == (outcome == "done"), attempt.where
        if is_there:
            expected = [{"b": 2}, {"b": 3}, {"b": 4}] if is_done else rows(OLD)
            assert rows(judged(uri).to_table()) == expected, attempt.where
        if not is_done:
            lw.sql(sql, tables=tables)
            assert judged(uri).to_table()["b"].to_pylist() == [2, 3, 4], attempt.where


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

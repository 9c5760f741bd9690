"""A failure, a lost answer or a death at every store call of a move, in either home.

Afterwards files are where they were or where they should be, never between, and both
implementations read the same rows. What was reported as failed left no copies behind.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance import DatasetBasePath

import lancewood as lw
from lancewood.engine.location.location import Location
from lancewood.engine.snapshot.snapshot import Snapshot
from lancewood.jobs.runner import LocalRunner
from lancewood.store.disk import DiskStore
from lancewood.store.locate import open_store
from lancewood.testing.faults import FaultyStore, Killed, Mode

MODES: list[Mode] = ["before", "after", "kill", "kill-after"]
MOST_CALLS = 150
ONE = LocalRunner(1)
ROWS = pa.table({"k": pa.array(range(12), pa.int64()), "s": [f"s{k}" for k in range(12)]})
LINEAGE = ["_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
FileRoots = list[list[int | None]]

MOVES: dict[str, Callable[[lw.Table], lw.Table]] = {
    "away": lambda t: t.move_fragments([1, 2], base="cold", runner=ONE),
    "back": lambda t: t.move_fragments(base=None, runner=ONE),
}


class Tables:
    """Every test has the directory to itself: base paths are absolute."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.uri = str(directory / "hot.lance")
        self.cold = directory / "cold"

    def rows(self) -> list[dict[str, Any]]:
        """As both implementations find them."""
        table, dataset = lw.open(self.uri), lance.dataset(self.uri)
        dataset.validate()
        names = ["k", "s", *LINEAGE]
        found: list[dict[str, Any]] = dataset.to_table(columns=names).to_pylist()
        assert table.scan(names).to_arrow().to_pylist() == found
        return found

    def file_roots(self) -> FileRoots:
        return [[file.base_id for file in each.files] for each in lw.open(self.uri).fragments]

    def files(self) -> set[str]:
        """Data files of both homes."""
        file_roots = (Path(self.uri, "data"), self.cold)
        return {
            str(each) for file_root in file_roots for each in file_root.rglob("*") if each.is_file()
        }

    def through(self, store: FaultyStore, version: int | None = None) -> lw.Table:
        """A handle that reaches the table through the store."""
        opened = lw.open(self.uri, version=version)._snapshot
        location = Location(store.at("hot.lance"))
        return lw.Table(Snapshot(location, opened.manifest, opened.scheme))


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    """Fragment 0 is in the cold, 1 and 2 are not; rows of 0 and 1 are deleted."""
    tables = Tables(tmp_path / "home")
    tables.cold.mkdir(parents=True)
    lance.write_dataset(
        ROWS,
        tables.uri,
        max_rows_per_file=4,
        enable_stable_row_ids=True,
        initial_bases=[DatasetBasePath(str(tables.cold), name="cold", is_dataset_root=False)],
    )
    table = lw.open(tables.uri, fsync=False).delete("k IN (2, 6)")
    table.move_fragments([0], base="cold")
    return tables


class Resets:
    """Puts the directory back to what it was."""

    def __init__(self, tables: Tables, kept: Path) -> None:
        self._tables, self._kept = tables, kept
        shutil.copytree(tables.directory, kept)

    def __call__(self) -> None:
        shutil.rmtree(self._tables.directory)
        shutil.copytree(self._kept, self._tables.directory)


@pytest.fixture
def reset(tables: Tables, tmp_path: Path) -> Resets:
    return Resets(tables, tmp_path / "kept")


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lancewood.store.readback.time.sleep", lambda seconds: None)


@contextmanager
def faulty(tables: Tables, at: int, mode: Mode) -> Iterator[FaultyStore]:
    """A store around both homes, whose calls are counted together."""
    store = FaultyStore(DiskStore(tables.directory, fsync=False), at=at, mode=mode)

    def opened(uri: Any, **options: Any) -> Any:
        is_cold = str(uri).rstrip("/") == str(tables.cold)
        return store.at("cold") if is_cold else open_store(uri, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lancewood.engine.location.location.open_store", opened)
        yield store


def run(table: lw.Table, act: Callable[[lw.Table], lw.Table]) -> str:
    try:
        act(table)
    except Killed:
        return "dead"
    except lw.CommitUnknownError:
        return "unknown"
    except lw.StorageError:
        return "failed"
    return "done"


def writes(store: FaultyStore) -> set[str]:
    return {verb for verb, key in store.calls if key.startswith("cold/")}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", MOVES)
def test_files_are_here_or_there_whatever_call_goes_wrong(
    tables: Tables, reset: Resets, name: str, mode: Mode
) -> None:
    rows, before, there = tables.rows(), tables.file_roots(), tables.files()
    after: FileRoots = [[1], [1], [1]] if name == "away" else [[None], [None], [None]]
    outcomes = set()
    for at in range(1, MOST_CALLS):
        with faulty(tables, at, mode) as store:
            outcome = run(tables.through(store), MOVES[name])
        outcomes.add(outcome)
        where = (at, outcome, store.calls[-1])
        assert tables.rows() == rows, where
        found = tables.file_roots()
        assert found in (before, after), where
        if outcome == "done":
            assert found == after, where
        if outcome == "failed":
            assert found == before, where
        if outcome == "failed" and mode == "before" and store.calls[at - 1][0] != "delete":
            assert tables.files() == there, where
        if outcome == "dead" and found == before:
            MOVES[name](lw.open(tables.uri, fsync=False))
            assert (tables.file_roots(), tables.rows()) == (after, rows), where
        if len(store.calls) < at:
            break
        reset()
    else:
        pytest.fail("the move never came to its end")
    assert at > 10
    assert ("dead" in outcomes) == mode.startswith("kill")
    assert writes(store) >= ({"copy_from", "head"} if name == "away" else {"head"})


@pytest.mark.parametrize("mode", MODES)
def test_a_move_that_meets_others_is_old_or_new_whatever_call_goes_wrong(
    tables: Tables, mode: Mode
) -> None:
    """Somebody deleted rows of one fragment, and all of another, since the version that is read."""
    read = lw.open(tables.uri).version
    lance.dataset(tables.uri).delete("k = 5 OR k >= 8")
    reset = Resets(tables, tables.directory.parent / "contested")
    rows, before, there = tables.rows(), tables.file_roots(), tables.files()
    for at in range(1, MOST_CALLS):
        with faulty(tables, at, mode) as store:
            outcome = run(tables.through(store, version=read), MOVES["away"])
        where = (at, outcome, store.calls[-1])
        assert tables.rows() == rows, where
        found = tables.file_roots()
        assert found in (before, [[1], [1]]), where
        assert outcome != "done" or found == [[1], [1]], where
        assert outcome != "failed" or found == before, where
        if outcome == "done" and len(store.calls) < at:
            assert len(tables.files() - there) == 1
            break
        reset()
    else:
        pytest.fail("the move never came to its end")


class Deaf(FaultyStore):
    """Does not tell what became of a manifest, and lets nobody read it."""

    is_deaf = False

    def put_new(self, key: str, data: bytes) -> Any:
        super().put_new(key, data)
        self.is_deaf = True
        raise lw.StorageError("no answer")

    def get(self, key: str) -> bytes:
        if self.is_deaf:
            raise lw.StorageError("no answer")
        return super().get(key)


def test_copies_of_a_move_whose_fate_is_unknown_stay(tables: Tables) -> None:
    rows = tables.rows()
    table = tables.through(Deaf(DiskStore(tables.directory, fsync=False)))
    with pytest.raises(lw.CommitUnknownError, match="nothing was deleted"):
        MOVES["away"](table)
    assert tables.file_roots() == [[1], [1], [1]]
    assert tables.rows() == rows

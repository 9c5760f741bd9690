"""A failure, a lost answer or a death at every store call of every change of rows and columns.

Afterwards the table is old or new, never between, both implementations read it, and what did not
land can be done again. What was reported as failed did not land and left no files behind; where
nobody knows, all files stay.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lancewood as lw
from lancewood.engine.location.location import Location
from lancewood.engine.snapshot.snapshot import Snapshot
from lancewood.jobs.runner import LocalRunner
from lancewood.store.disk import DiskStore
from lancewood.testing.faults import FaultyStore, Killed, Mode

MODES: list[Mode] = ["before", "after", "kill", "kill-after"]
RUNS = [*((True, mode) for mode in MODES), (False, "after"), (False, "kill")]
"""With stable row ids or without; the calls are the same."""
MOST_CALLS = 120
ONE = LocalRunner(1)
DOUBLED = pa.schema({"d": pa.int64()})
LINEAGE = ["_row_created_at_version", "_row_last_updated_at_version"]


def some_rows(first: int, stop: int) -> pa.Table:
    return pa.table(
        {
            "k": pa.array(range(first, stop), pa.int64()),
            "a": pa.array([k % 3 for k in range(first, stop)], pa.int32()),
            "n": [{"x": k, "y": "y" if k % 2 else None} for k in range(first, stop)],
        }
    )


def doubled(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.record_batch([pc.multiply(batch.column("k"), 2)], schema=DOUBLED)


CHANGES: dict[str, Callable[[lw.Table], lw.Table]] = {
    "delete": lambda t: t.delete("k IN (1, 5)", runner=ONE),
    "delete fragments": lambda t: t.delete("k < 5", runner=ONE),
    "update rows": lambda t: t.update({"a": 9}, "k IN (1, 5)", rewrite="rows", runner=ONE),
    "update columns": lambda t: t.update({"a": 9}, "k IN (1, 5)", rewrite="columns", runner=ONE),
    "merge": lambda t: t.merge(some_rows(7, 12), on="k", runner=ONE),
    "merge that deletes": lambda t: t.merge(
        some_rows(7, 12), on="k", matched="delete", not_matched="ignore", runner=ONE
    ),
    "add by SQL": lambda t: t.add_columns({"d": "k * 2"}, runner=ONE),
    "add by a function": lambda t: t.add_columns(doubled, schema=DOUBLED, runner=ONE),
    "add nulls": lambda t: t.add_columns(DOUBLED, runner=ONE),
    "drop": lambda t: t.drop_columns(["n.x"]),
    "rename": lambda t: t.rename_column("a", "b"),
    "cast": lambda t: t.cast_column("a", pa.int64(), runner=ONE),
    "replace": lambda t: t.replace_columns(
        [0], pa.table({"a": pa.array([7] * 3, pa.int32())}), runner=ONE
    ),
    "compact": lambda t: t.compact(runner=ONE),
}

CONTESTED = ("delete", "update rows", "update columns", "merge", "add by SQL", "cast", "compact")
"""Changes that meet the rows, or the fragments, that another has changed."""


@dataclass(frozen=True)
class Seen:
    """A table as both implementations find it; where rows lie does not count."""

    schema: tuple[tuple[str, pa.DataType], ...]
    rows: tuple[tuple[Any, ...], ...]
    fragments: int

    @classmethod
    def at(cls, uri: str) -> Seen:
        table, dataset = lw.open(uri), lance.dataset(uri)
        dataset.validate()
        assert table.version == dataset.version
        ids = ["_rowid"] if table.has_stable_row_ids else []
        names = [*table.schema.names, *LINEAGE, *ids]
        ours = table.scan(names).to_arrow()
        assert ours.to_pylist() == dataset.to_table(columns=names).to_pylist()
        rows = sorted(ours.to_pylist(), key=lambda row: row["k"])
        return cls(
            tuple((each.name, each.type) for each in table.schema),
            tuple((name, repr(value)) for row in rows for name, value in row.items()),
            len(table.fragments),
        )


@dataclass(frozen=True)
class Template:
    """A table before any change, and what each of them makes of it."""

    uri: str
    before: Seen
    after: dict[str, Seen]


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Callable[[bool], Template]:
    """Tables with and without stable row ids, each made once."""
    return cache(lambda stable: made(tmp_path_factory.mktemp("changes"), stable))


@pytest.fixture(params=[True])
def template(request: pytest.FixtureRequest, templates: Callable[[bool], Template]) -> Template:
    return templates(request.param)


def made(directory: Path, stable: bool) -> Template:
    uri = str(directory / "t.lance")
    table = lw.create(
        uri, some_rows(0, 10), stable_row_ids=stable, max_rows_per_file=4, fsync=False
    )
    table.delete("k IN (2, 6)")
    after = {}
    for name, act in CHANGES.items():
        copy = str(directory / f"{name}.lance")
        shutil.copytree(uri, copy)
        act(lw.open(copy, fsync=False))
        after[name] = Seen.at(copy)
    return Template(uri, Seen.at(uri), after)


def through(uri: str, store: FaultyStore, version: int | None = None) -> lw.Table:
    """A handle that reaches the table through the store."""
    opened = lw.open(uri, version=version)._snapshot
    return lw.Table(Snapshot(Location(store), opened.manifest, opened.scheme))


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


def files(uri: str) -> set[str]:
    return {
        str(each.relative_to(uri))
        for below in ("data", "_deletions")
        for each in Path(uri, below).rglob("*")
    }


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lancewood.store.readback.time.sleep", lambda seconds: None)


@pytest.mark.parametrize(("template", "mode"), RUNS, indirect=["template"])
@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_old_or_new_whatever_call_goes_wrong(
    template: Template, tmp_path: Path, name: str, mode: Mode
) -> None:
    act, before, after = CHANGES[name], template.before, template.after[name]
    assert before != after
    outcomes = set()
    for at in range(1, MOST_CALLS):
        uri = str(tmp_path / f"{at}.lance")
        shutil.copytree(template.uri, uri)
        there = files(uri)
        store = FaultyStore(DiskStore(uri, fsync=False), at=at, mode=mode)
        outcome = run(through(uri, store), act)
        outcomes.add(outcome)
        seen = Seen.at(uri)
        where = (at, outcome, store.calls[-1])
        assert seen in (before, after), where
        if outcome == "done":
            assert seen == after, where
        if outcome == "failed":
            assert seen == before, where
        if outcome == "failed" and mode == "before" and store.calls[at - 1][0] != "delete":
            assert files(uri) == there, where
        if outcome == "dead" and seen == before:
            act(lw.open(uri, fsync=False))
            assert Seen.at(uri) == after, where
        elif outcome == "dead":
            table = lw.open(uri, fsync=False)
            assert table.append(table.head(0)).version == table.version + 1
        if len(store.calls) < at:
            break
        shutil.rmtree(uri)
    else:
        pytest.fail("the operation never came to its end")
    assert at > 3
    assert ("dead" in outcomes) == mode.startswith("kill")


@pytest.fixture(scope="module")
def contested(tmp_path_factory: pytest.TempPathFactory) -> Template:
    """A table where somebody has changed rows since version 2; changes begin there."""
    directory = tmp_path_factory.mktemp("contested")
    uri = str(directory / "t.lance")
    table = lw.create(uri, some_rows(0, 10), max_rows_per_file=4, fsync=False)
    table = table.delete("k IN (2, 6)")
    table.update({"a": 4}, "k IN (1, 8)", rewrite="rows")
    after = {}
    for name in CONTESTED:
        copy = str(directory / f"{name}.lance")
        shutil.copytree(uri, copy)
        landed = CHANGES[name](lw.open(copy, version=2, fsync=False)).version
        assert lance.dataset(copy).read_transaction(landed).read_version > 2
        after[name] = Seen.at(copy)
    return Template(uri, Seen.at(uri), after)


@pytest.mark.parametrize("mode", ["after", "kill"])
@pytest.mark.parametrize("name", CONTESTED)
def test_a_change_that_is_executed_again_is_old_or_new_whatever_call_goes_wrong(
    contested: Template, tmp_path: Path, name: str, mode: Mode
) -> None:
    before, after = contested.before, contested.after[name]
    assert before != after
    for at in range(1, MOST_CALLS):
        uri = str(tmp_path / f"{at}.lance")
        shutil.copytree(contested.uri, uri)
        store = FaultyStore(DiskStore(uri, fsync=False), at=at, mode=mode)
        outcome = run(through(uri, store, version=2), CHANGES[name])
        seen = Seen.at(uri)
        where = (at, outcome, store.calls[-1])
        assert seen in (before, after), where
        assert outcome != "done" or seen == after, where
        assert outcome != "failed" or seen == before, where
        if len(store.calls) < at:
            break
        shutil.rmtree(uri)
    else:
        pytest.fail("the operation never came to its end")


class Deaf(FaultyStore):
    """Does not tell what became of a manifest, and lets nobody read it."""

    puts = True
    is_deaf = False

    def put_new(self, key: str, data: bytes) -> Any:
        if self.puts:
            super().put_new(key, data)
        self.is_deaf = True
        raise lw.StorageError("no answer")

    def get(self, key: str) -> bytes:
        if self.is_deaf:
            raise lw.StorageError("no answer")
        return super().get(key)


class DeafAndIdle(Deaf):
    """The same, but the manifest never arrived."""

    puts = False


@pytest.mark.parametrize("name", [each for each in CHANGES if each != "compact"])
def test_files_of_a_change_whose_fate_is_unknown_are_never_deleted(
    template: Template, tmp_path: Path, name: str
) -> None:
    uri = str(tmp_path / "t.lance")
    shutil.copytree(template.uri, uri)
    with pytest.raises(lw.CommitUnknownError, match="nothing was deleted"):
        CHANGES[name](through(uri, Deaf(DiskStore(uri, fsync=False))))
    assert Seen.at(uri) == template.after[name]


@pytest.mark.parametrize(
    "name", [each for each in CHANGES if each not in ("add nulls", "drop", "rename", "compact")]
)
def test_files_stay_even_if_the_manifest_never_arrived(
    template: Template, tmp_path: Path, name: str
) -> None:
    uri = str(tmp_path / "t.lance")
    shutil.copytree(template.uri, uri)
    there = files(uri)
    with pytest.raises(lw.CommitUnknownError, match="nothing was deleted"):
        CHANGES[name](through(uri, DeafAndIdle(DiskStore(uri, fsync=False))))
    assert Seen.at(uri) == template.before
    assert files(uri) > there or name == "delete fragments"
    assert CHANGES[name](lw.open(uri)) is not None
    assert Seen.at(uri) == template.after[name]

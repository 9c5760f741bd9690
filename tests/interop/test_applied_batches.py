"""A batch is loaded once, whoever asks how often; pylance reads and keeps the marks."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from tests.pylance import judged

import lancewood as lw
from lancewood.engine.commit.aftermath import find_landed
from lancewood.engine.location.location import Location
from lancewood.engine.snapshot.snapshot import load_snapshot
from lancewood.format.layout import NamingScheme
from lancewood.model.ids import Version
from lancewood.model.transaction import Append
from lancewood.store.disk import DiskStore
from lancewood.testing.faults import FaultyStore, Killed, Mode

CONFIG_KEY = "lancewood.applied.loader"


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


def ids_of(path: Path) -> list[int]:
    dataset = judged(str(path))
    return sorted(dataset.to_table()["id"].to_pylist())


def load(table: lw.Table, batch: int, *ids: int) -> lw.Table:
    return table.append(rows(*ids), commit=lw.CommitOptions(app="loader", batch=batch))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    lw.create(tmp_path / "t.lance", rows(0))
    return tmp_path / "t.lance"


def test_a_batch_that_is_there_changes_nothing_and_writes_no_file(path: Path) -> None:
    loaded = load(lw.open(path), 3, 1, 2)
    files = sorted((path / "data").iterdir())
    for again in (3, 2, 0):
        with pytest.raises(lw.BatchAppliedError, match=f"batch {again} of 'loader'"):
            load(lw.open(path), again, 8, 9)
    assert sorted((path / "data").iterdir()) == files
    assert lw.open(path).version == loaded.version
    assert loaded.applied_batches == {"loader": 3}
    load(loaded, 4, 5)
    assert ids_of(path) == [0, 1, 2, 5]


def test_two_handles_load_the_same_batch_and_one_lands(path: Path) -> None:
    one, other = lw.open(path), lw.open(path)
    load(one, 1, 1)
    with pytest.raises(lw.BatchAppliedError):
        load(other, 1, 1)
    assert ids_of(path) == [0, 1]
    assert len(list((path / "data").iterdir())) == 2, "the loser took its file away"


def test_every_verb_marks_its_batch(path: Path) -> None:
    table = lw.open(path)
    table = table.append(rows(1, 2, 3), commit=lw.CommitOptions(app="a", batch=1))
    table = table.merge(rows(3, 4), on="id", commit=lw.CommitOptions(app="a", batch=2))
    table = table.add_columns({"twice": "id * 2"}, commit=lw.CommitOptions(app="a", batch=3))
    table = table.update({"twice": 0}, "id = 4", commit=lw.CommitOptions(app="a", batch=4))
    table = table.delete("id = 4", commit=lw.CommitOptions(app="a", batch=5))
    assert table.applied_batches == {"a": 5}
    table = table.overwrite(rows(7), commit=lw.CommitOptions(app="b", batch=1))
    assert table.applied_batches == {"a": 5, "b": 1}
    verbs: list[Callable[[], lw.Table]] = [
        lambda: table.append(rows(9), commit=lw.CommitOptions(app="a", batch=5)),
        lambda: table.merge(rows(9), on="id", commit=lw.CommitOptions(app="a", batch=4)),
        lambda: table.add_columns({"x": "1"}, commit=lw.CommitOptions(app="b", batch=1)),
        lambda: table.update({"id": 0}, commit=lw.CommitOptions(app="a", batch=5)),
        lambda: table.delete("true", commit=lw.CommitOptions(app="a", batch=5)),
        lambda: table.overwrite(rows(9), commit=lw.CommitOptions(app="a", batch=5)),
    ]
    for verb in verbs:
        with pytest.raises(lw.BatchAppliedError):
            verb()
    assert ids_of(path) == [7]


def test_pylance_keeps_the_mark_and_it_travels_with_the_rows(path: Path, tmp_path: Path) -> None:
    first = load(lw.open(path), 1, 1)
    dataset: Any = lance.write_dataset(rows(2), str(path), mode="append")
    assert '"batch": 1' in dataset.config()[CONFIG_KEY]
    with pytest.raises(lw.BatchAppliedError):
        load(lw.open(path), 1, 1)
    load(lw.open(path), 2, 3)
    lw.open(path).restore(first.version)
    assert lw.open(path).applied_batches == {"loader": 1}, "the rows went, so did the mark"
    load(lw.open(path), 2, 3)
    assert ids_of(path) == [0, 1, 3]
    clone = lw.open(path).clone(tmp_path / "clone.lance")
    assert lw.open(tmp_path / "clone.lance").applied_batches == {"loader": 2}, clone


def test_a_published_branch_brings_its_batches_along(path: Path) -> None:
    lw.open(path).branches.create("load")
    branch = load(lw.open(path, branch="load"), 1, 1)
    load(branch, 2, 2)
    lw.open(path).append(rows(5))
    lw.open(path).branches.publish("load")
    assert lw.open(path).applied_batches == {"loader": 2}
    with pytest.raises(lw.BatchAppliedError):
        load(lw.open(path), 2, 2)
    assert ids_of(path) == [0, 1, 2, 5]


def test_a_batch_on_both_sides_is_not_published(path: Path) -> None:
    lw.open(path).branches.create("load")
    load(lw.open(path, branch="load"), 1, 1)
    load(lw.open(path), 1, 1)
    with pytest.raises(lw.IncompatibleConflictError, match=CONFIG_KEY):
        lw.open(path).branches.publish("load")
    assert ids_of(path) == [0, 1]


def test_marks_are_forgotten_but_not_set_by_people(path: Path) -> None:
    table = load(lw.open(path), 1, 1).set_config({"mine": "1"})
    with pytest.raises(lw.InvalidInputError, match="forgets it"):
        table.set_config({CONFIG_KEY: "{}"})
    table = table.set_config({"mine": "2"}, replace=True)
    assert table.applied_batches == {"loader": 1}
    table = table.set_config({CONFIG_KEY: None})
    assert table.applied_batches == {}
    load(table, 1, 1)
    assert ids_of(path) == [0, 1, 1]


def test_a_list_of_operations_is_no_batch(path: Path) -> None:
    table = lw.open(path)
    change = table.transaction(*table.transaction(_append(table)).operations, _append(table))
    with pytest.raises(lw.InvalidInputError, match="one version"):
        table.commit(change, commit=lw.CommitOptions(app="loader", batch=1))
    done = table.commit(
        table.transaction(_append(table)), commit=lw.CommitOptions(app="loader", batch=1)
    )
    assert done.applied_batches == {"loader": 1}


def _append(table: lw.Table) -> Any:
    return Append(table.write_fragments(rows(1)))


@pytest.mark.parametrize("mode", ["before", "after", "kill", "kill-after"])
def test_a_load_that_fails_at_any_store_call_and_runs_again_loads_once(
    tmp_path: Path, mode: Mode
) -> None:
    for call in range(1, 60):
        path = tmp_path / f"{mode}-{call}.lance"
        lw.create(path, rows(0))
        store = FaultyStore(DiskStore(str(path)), at=call, mode=mode)
        with suppress(lw.LancewoodError, Killed):
            load(lw.Table(load_snapshot(Location(store))), 1, 1)
        with suppress(lw.BatchAppliedError):
            load(lw.open(path), 1, 1)
        assert ids_of(path) == [0, 1], (call, store.calls[-1])
        if len(store.calls) < call:
            assert call > 5, "the load was not disturbed"
            return
    raise AssertionError("the load makes more store calls than are tried")


def test_find_landed_tells_landed_from_not_and_from_unknown(
    path: Path, no_commit_under_way: None
) -> None:
    table = lw.open(path)
    location, scheme, base = Location(DiskStore(str(path))), NamingScheme.V2, Version(table.version)
    mine = table.transaction(_append(table))
    assert find_landed(location, scheme, mine.uuid, base) is None
    landed = table.commit(mine)
    later = landed.append(rows(3))
    assert find_landed(location, scheme, mine.uuid, base) == landed.version
    assert find_landed(location, scheme, "another", base) is None
    later.append(rows(4)).cleanup(keep_versions=1)
    with pytest.raises(lw.CommitUnknownError, match="gone"):
        find_landed(location, scheme, "another", base)
    lw.drop(path)
    with pytest.raises(lw.CommitUnknownError):
        find_landed(location, scheme, mine.uuid, base)

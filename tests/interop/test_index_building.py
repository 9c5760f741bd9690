"""Indices that we build, extend and optimize answer as a full scan does: pylance is asked.

The scene is that of ``test_indices``, where pylance builds them: a column for each kind, and what
may happen to a table.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.counted import counts_of
from tests.index_scene import OneThread
from tests.interop.test_indices import (
    CASES,
    INDEXED,
    PER_FILE,
    ROWS,
    SCALAR,
    VECTOR,
    check,
    rows,
)
from tests.pylance import lance

import lancewood as lw
from lancewood.jobs.index import building

KIND_OF = {**SCALAR, **VECTOR}
THREE = OneThread()
"""So many tasks are made for it."""


@pytest.fixture(autouse=True, scope="module")
def _small_tasks() -> Iterator[None]:
    """A task for every few fragments, however small."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(building, "LEAST_BYTES", 0)
        yield


def settings(column: str) -> dict[str, Any]:
    return {"sub_vectors": 2} if column == "coded" else {}


def built(table: lw.Table, columns: Sequence[str] = INDEXED) -> lw.Table:
    """The table with an index of its own kind on each column, under the column's name."""
    for each in columns:
        table = table.indices.create(each, KIND_OF[each], name=each, runner=THREE, **settings(each))
    return table


@pytest.fixture(scope="module", params=[True, False], ids=["stable ids", "addresses"])
def stable(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture(scope="module", params=[1, 2], ids=["one segment", "several"])
def template(
    request: pytest.FixtureRequest, stable: bool, tmp_path_factory: pytest.TempPathFactory
) -> str:
    """A table with every kind of index, and with a first version that is older than them."""
    uri = str(tmp_path_factory.mktemp("built") / "t.lance")
    first = ROWS if request.param == 1 else 3 * PER_FILE
    table = lw.create(
        uri, rows(0, first), layout=lw.Layout(stable_row_ids=stable, max_rows_per_file=PER_FILE)
    )
    table = built(table)
    if first < ROWS:
        table = table.append(
            rows(first, ROWS), layout=lw.Layout(max_rows_per_file=PER_FILE)
        ).indices.extend()
    assert {each.segments for each in table.indices.list()} == {request.param}
    return uri


@pytest.fixture
def uri(template: str, tmp_path: Path) -> str:
    shutil.copytree(template, tmp_path / "t.lance")
    return str(tmp_path / "t.lance")


def check_whole(table: lw.Table) -> None:
    """Everything is covered, answers are right, nothing is wrong with the table, and no directory
    is there that no version names."""
    for each in table.indices.list():
        assert (each.fragments_uncovered, each.rows_uncovered) == (0, 0), each.name
    assert {each.name for each in table.indices} == {*KIND_OF}
    check(table.uri)
    assert not table.verify().problems


def more(table: lw.Table) -> pa.Table:
    """New rows, with the columns that the table has by now."""
    new = rows(500, 520)
    return pa.table(
        {
            each.name: new[each.name].cast(each.type)
            for each in table.schema
            if each.name in new.column_names
        }
    )


KEPT = [name for name, case in CASES.items() if case.others is not None]


@pytest.mark.sliced(13)
@pytest.mark.parametrize("name", CASES)
def test_built_indices_answer_as_a_full_scan_does_after(uri: str, name: str) -> None:
    CASES[name].act(lw.open(uri))
    check(uri)


@pytest.mark.sliced(27, at=7)
@pytest.mark.parametrize("name", KEPT)
def test_extended_indices_cover_everything_and_answer_right_after(uri: str, name: str) -> None:
    table = CASES[name].act(lw.open(uri)).indices.extend(runner=THREE)
    check_whole(table)
    again = table.indices.extend()
    assert again.version == table.version
    assert counts_of(again, lw.IndexCounts) == lw.IndexCounts()
    changed = CASES["update columns, these"].act(table).delete("k % 50 = 7")
    check_whole(changed.indices.extend())
    moved = changed.latest().compact(target_rows=150).indices.extend()
    check_whole(moved)


@pytest.mark.sliced(27, at=5)
@pytest.mark.parametrize("name", KEPT)
def test_optimized_indices_have_one_segment_and_answer_right_after(uri: str, name: str) -> None:
    table = CASES[name].act(lw.open(uri)).indices.optimize(runner=THREE)
    check_whole(table)
    assert {each.segments for each in table.indices.list()} == {1}
    assert table.indices.optimize().version == table.version
    changed = CASES["update rows, the columns"].act(table).append(more(table))
    changed = changed.indices.extend().compact(target_rows=150)
    table = changed.indices.optimize()
    check_whole(table)
    assert {each.segments for each in table.indices.list()} == {1}


@pytest.mark.sliced(27, at=1)
@pytest.mark.parametrize("name", KEPT)
def test_indices_that_pylance_built_are_extended_and_optimized_after(
    stable: bool, tmp_path: Path, name: str
) -> None:
    uri = str(tmp_path / "t.lance")
    dataset = lance.write_dataset(
        rows(0, ROWS), uri, enable_stable_row_ids=stable, max_rows_per_file=PER_FILE
    )
    for column, kind in SCALAR.items():
        dataset.create_scalar_index(column, kind, name=column)
    dataset.create_index("near", "IVF_FLAT", num_partitions=1, name="near")
    dataset.create_index("coded", "IVF_PQ", num_partitions=1, num_sub_vectors=2, name="coded")
    table = CASES[name].act(lw.open(uri)).indices.extend()
    check_whole(table)
    table = CASES["update rows, the columns"].act(table).indices.extend()
    check_whole(table)
    table = CASES["update columns, these"].act(table).indices.optimize()
    check_whole(table)
    assert {each.segments for each in table.indices.list()} == {1}


@pytest.mark.sliced(27, at=9)
@pytest.mark.parametrize("name", KEPT)
def test_pylance_takes_our_indices_further_and_we_go_on_from_there_after(
    uri: str, name: str
) -> None:
    CASES[name].act(lw.open(uri))
    every = 9  # with the default of one, pylance leaves old values in the other segments
    lance.dataset(uri).optimize.optimize_indices(num_indices_to_merge=every)
    check(uri)
    dataset = lance.dataset(uri)
    dataset.delete("k % 50 = 7")
    dataset.optimize.compact_files(target_rows_per_fragment=1000)
    check(uri)
    table = CASES["update rows, the columns"].act(lw.open(uri)).indices.extend()
    check_whole(table)
    lance.dataset(uri).cleanup_old_versions(timedelta(0))
    table = lw.open(uri).update({"bitmap": 77}, "k = 9", rewrite="columns").indices.optimize()
    check_whole(table)

"""Whether two versions have the same rows and columns, whatever branches they are of."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.engine.snapshot.sameness import same_content

ROWS = pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]})


@pytest.fixture
def table(tmp_path: Path) -> lw.Table:
    return lw.create(tmp_path / "t.lance", ROWS).append(ROWS)


def same(one: lw.Table, other: lw.Table) -> bool:
    found = same_content(one._snapshot, other._snapshot)
    assert found is same_content(other._snapshot, one._snapshot)
    return found


def test_a_branch_has_the_content_that_it_began_with(table: lw.Table) -> None:
    branch = table.branches.create("exp")
    assert same(table, branch)
    assert same(table, branch.branches.create("deep"))
    assert same(table.delete("id = 1"), table.latest().branches.create("other"))


def test_a_change_of_rows_or_columns_is_seen_on_another_branch(table: lw.Table) -> None:
    branch = table.branches.create("exp")
    assert not same(table, branch.append(ROWS))
    assert not same(table, branch.delete("id = 2"))
    assert not same(table, branch.update({"name": "'x'"}, "id = 1"))
    assert not same(table, branch.rename_column("name", "other"))
    assert not same(table.delete("id = 1"), branch.latest().restore(branch.version))


def test_settings_and_numbers_of_versions_do_not_count(table: lw.Table) -> None:
    branch = table.branches.create("exp")
    assert same(table, branch.set_config({"a": "b"}))
    assert same(table, branch.append(ROWS).restore(branch.version))


def test_deleted_rows_count_and_not_the_file_that_lists_them(table: lw.Table) -> None:
    branch = table.branches.create("exp").delete("id = 1")
    published = table.branches.publish("exp")
    assert same(published, branch)
    other = table.branches.create("other").delete("id = 2")
    assert not same(published, other)


def test_a_table_elsewhere_has_the_content_only_by_reference(
    table: lw.Table, tmp_path: Path
) -> None:
    assert same(table, table.clone(tmp_path / "shallow.lance"))
    assert not same(table, table.clone(tmp_path / "deep.lance", deep=True))


def test_a_copy_that_was_moved_is_compared_where_it_is(table: lw.Table, tmp_path: Path) -> None:
    table.branches.create("exp")
    root = Path(table.uri)
    root.rename(tmp_path / "moved.lance")
    moved = lw.open(tmp_path / "moved.lance")
    assert same(moved, moved.checkout(branch="exp"))

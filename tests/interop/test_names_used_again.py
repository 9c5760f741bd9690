"""Names of columns that are used again for other columns: swapped, or taken over from one that was
dropped. Rows of the other side land under the column that they were written to, or the merge is
refused; pylance reads what comes of it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pytest
from tests.pylance import judged

import lancewood as lw

Step: TypeAlias = Callable[[lw.Table], lw.Table]
NOW = timedelta(0)


def rows(*ids: int, **columns: int) -> pa.Table:
    """Rows whose cells are their id times the factor of the column."""
    return pa.table(
        {"id": [*ids], **{name: [id * by for id in ids] for name, by in columns.items()}}
    )


def create(path: Path, *ids: int) -> lw.Table:
    return lw.create(
        path / "t.lance",
        rows(*ids, a=10, b=100),
        layout=lw.Layout(max_rows_per_file=2),
        access=lw.Access(fsync=False),
    )


def swapped(table: lw.Table) -> lw.Table:
    """The names a and b changed places."""
    return table.rename_column("a", "x").rename_column("b", "a").rename_column("x", "b")


def clean(table: lw.Table) -> None:
    table.cleanup(older_than=NOW, in_flight=NOW)


def row(table: lw.Table, id: int) -> dict[str, Any]:
    """A row as both implementations read it."""
    found: dict[str, Any]
    (found,) = table.scan(where=f"id = {id}").to_arrow().to_pylist()
    dataset = judged(table.uri, version=table.version)
    assert dataset.to_table(filter=f"id = {id}").to_pylist() == [found]
    return found


def merged(ours: lw.Table, theirs: lw.Table, into: str) -> lw.Table:
    name = theirs.branch
    assert name is not None
    if into == "ours":
        return ours.latest().branches.merge(name)
    return theirs.latest().branches.merge("main")


@pytest.mark.sliced(2)
@pytest.mark.parametrize("into", ["ours", "theirs"])
@pytest.mark.parametrize("first", ["drop", "rename"])
def test_a_merged_column_may_take_the_name_of_a_dropped_one(
    tmp_path: Path, first: str, into: str
) -> None:
    table = create(tmp_path, 1, 2)
    branch = table.branches.create("x")
    table = table.append(rows(5, a=10, b=100))
    branch = branch.add_columns({"c": "id + 3000"})
    table = table.branches.merge("x")
    if first == "drop":
        table = table.drop_columns(["a"]).rename_column("c", "a")
    else:
        table = table.rename_column("a", "x").rename_column("c", "a").drop_columns(["x"])
    branch = branch.append(rows(9, a=10, b=100, c=1000))
    assert row(merged(table, branch, into), 9) == {"id": 9, "b": 900, "a": 9000}


def replaced(table: lw.Table) -> lw.Table:
    """The table with another column under the name of a dropped one, which had given it up."""
    return table.rename_column("a", "x").add_columns({"a": "id * 7"}).drop_columns(["x"])


@pytest.mark.sliced(2)
@pytest.mark.parametrize("bring", ["append", "publish", "ours", "theirs"])
def test_a_new_column_under_the_name_of_a_renamed_and_dropped_one_is_another(
    tmp_path: Path, bring: str
) -> None:
    table = create(tmp_path, 1, 2)
    old, branch = lw.open(table.uri), table.branches.create("x")
    table = replaced(table)
    if bring == "append":
        after = old.append(rows(9, a=10, b=100))
    else:
        branch = branch.append(rows(9, a=10, b=100))
        if bring == "publish":
            table.branches.publish("x")
            after = table.latest()
        else:
            after = merged(table, branch, bring)
    assert row(after, 9) == {"id": 9, "b": 900, "a": None}
    assert row(after, 2) == {"id": 2, "b": 200, "a": 14}
    assert lw.open(table.uri, version=table.version).diff(1).schema.dropped


@pytest.mark.parametrize("into", ["ours", "theirs"])
def test_values_of_a_replaced_column_do_not_go_to_the_new_one(tmp_path: Path, into: str) -> None:
    table = create(tmp_path, 1, 2)
    branch = replaced(table.branches.create("x"))
    table = table.update({"a": "5"}, "id = 2")
    with pytest.raises(lw.MergeConflictError):
        merged(table, branch, into)
    assert row(table.latest(), 2)["a"] == 5


@pytest.mark.parametrize("into", ["ours", "theirs"])
def test_a_column_that_was_cast_after_its_name_changed_and_changed_back_is_the_same(
    tmp_path: Path, into: str
) -> None:
    table = create(tmp_path, 1, 2)
    branch = table.branches.create("x").append(rows(9, a=10, b=100))
    table = table.rename_column("a", "x").cast_column("x", pa.int32()).rename_column("x", "a")
    assert row(merged(table, branch, into), 9) == {"id": 9, "a": 90, "b": 900}


def test_so_may_a_field_inside_a_struct(tmp_path: Path) -> None:
    data = pa.table({"id": [1, 2], "s": [{"p": 1, "q": 10}, {"p": 2, "q": 20}]})
    table = lw.create(tmp_path / "t.lance", data, access=lw.Access(fsync=False))
    branch = table.branches.create("x").add_columns({"s.z": "id + 3000"})
    table = table.append(pa.table({"id": [5], "s": [{"p": 5, "q": 50}]})).branches.merge("x")
    table = table.drop_columns(["s.p"]).rename_column("s.z", "p")
    new = [{"id": 9, "s": {"p": 1, "q": 9, "z": 3009}}]
    branch.append(pa.Table.from_pylist(new, schema=branch.schema))
    assert row(table.branches.merge("x"), 9) == {"id": 9, "s": {"q": 9, "p": 3009}}


@pytest.mark.sliced(2)
@pytest.mark.parametrize("way", ["straight", "over main"])
@pytest.mark.parametrize("into", ["ours", "theirs"])
def test_a_column_with_the_id_of_one_of_another_branch_is_not_that_one(
    tmp_path: Path, way: str, into: str
) -> None:
    table = lw.create(tmp_path / "t.lance", rows(1, 2, 3, a=10), access=lw.Access(fsync=False))
    branch = table.branches.create("x").add_columns({"c": "id * 7"})
    other = table.branches.create("z").add_columns({"n": "id * 17"}).branches.merge("x")
    other = other.rename_column("c", "t").rename_column("n", "c").rename_column("t", "n")
    table = table.append(rows(4, a=10))
    ours = other if way == "straight" else table.branches.merge("z")
    branch = branch.append(rows(9, a=10, c=7))
    if into == "ours":
        after = ours.latest().branches.merge("x")
    else:
        after = branch.branches.merge("z" if way == "straight" else "main")
    assert row(after, 9) == {"id": 9, "a": 90, "c": None, "n": 63}
    assert row(after, 1) == {"id": 1, "a": 10, "c": 17, "n": 7}


def test_a_column_is_followed_through_very_many_merges(tmp_path: Path) -> None:
    table = lw.create(tmp_path / "t.lance", rows(1, 2, a=10), access=lw.Access(fsync=False))
    branch = table.branches.create("x")
    table = table.update({"a": "5"}, "id = 2")
    for value in range(66):
        branch = branch.update({"a": f"{value}"}, "id = 1", rewrite="columns")
        table = table.branches.merge("x")
    branch = branch.add_columns({"c": "id * 7"})
    table = table.branches.merge("x").rename_column("c", "q")
    branch.append(rows(9, a=10, c=7))
    assert row(table.branches.merge("x"), 9) == {"id": 9, "a": 90, "q": 63}


def add_and_take_over(table: lw.Table) -> lw.Table:
    added = table.add_columns({"n": "id * 7"})
    return added.rename_column("b", "q").rename_column("n", "b")


@pytest.mark.parametrize("change", [swapped, add_and_take_over])
def test_where_the_versions_between_are_gone_names_do_not_decide(
    tmp_path: Path, change: Step
) -> None:
    table = create(tmp_path, 1, 2, 3, 4)
    branch = table.branches.create("x")
    changed = change(table).compact(target_rows=100)
    clean(changed)
    branch = branch.append(rows(9, a=10, b=100))
    for ask in (lambda: changed.branches.merge("x"), lambda: lw.diff(branch, changed).to_arrow()):
        with pytest.raises(lw.UnsupportedError, match=r"the columns of .* cannot be followed: "):
            ask()
    told = lw.diff(branch, changed, columns=["id"]).stat()
    assert (told.inserted, told.updated, told.deleted) == (0, 0, 1)


def test_where_a_merge_is_gone_names_do_not_decide(tmp_path: Path) -> None:
    table = lw.create(tmp_path / "t.lance", rows(1, 2, a=10), access=lw.Access(fsync=False))
    branch = table.branches.create("x").add_columns({"c": "id * 7"})
    table = table.update({"a": "5"}, "id = 2").branches.merge("x").rename_column("c", "q")
    clean(table)
    branch.append(rows(9, a=10, c=7))
    with pytest.raises(lw.UnsupportedError, match="'c', 'q' may have been dropped"):
        table.branches.merge("x")


def test_where_a_merge_was_taken_back_and_is_restored_names_do_not_decide(tmp_path: Path) -> None:
    table = lw.create(tmp_path / "t.lance", rows(1, 2, a=10), access=lw.Access(fsync=False))
    branch = table.branches.create("x").add_columns({"c": "id * 7"})
    first = table.append(rows(5, a=10)).branches.merge("x")
    other = first.restore(first.version - 1).add_columns({"d": "id * 1000"})
    branch = branch.append(rows(8, a=10, c=7))
    other.branches.merge("x")
    restored = first.latest().restore(first.version).rename_column("c", "q")
    branch.append(rows(9, a=10, c=7))
    with pytest.raises(lw.UnsupportedError, match="'c', 'q' may have been dropped"):
        restored.branches.merge("x")


@pytest.mark.parametrize(
    "verb",
    [
        lambda table: table.delete("a <= 20"),
        lambda table: table.update({"a": "11"}, "id = 1"),
        lambda table: table.merge(rows(1, 8, a=10, b=100), on="id"),
        lambda table: table.drop_columns(["a"]),
    ],
    ids=["delete", "update", "merge", "drop"],
)
def test_a_verb_is_not_repeated_where_its_names_mean_other_columns(
    tmp_path: Path, verb: Step
) -> None:
    table = create(tmp_path, 1, 2, 3, 4)
    newest = swapped(table).update({"id": "id"}, "id = 1", rewrite="rows")
    message = "in version 5, made since, 'a', 'b' are other columns; look at that version"
    with pytest.raises(lw.IncompatibleConflictError, match=message):
        verb(table)
    assert lw.open(table.uri).version == newest.version


@pytest.mark.parametrize("into", ["main", "x"])
def test_columns_of_several_bases_are_not_told_by_names_that_are_used_again(
    tmp_path: Path, into: str
) -> None:
    repo = lw.Repository.init(tmp_path / "shop", fsync=False)

    def changed(branch: str, step: Step) -> str:
        with repo.transaction(branch, message="a change") as changes:
            step(changes.table("t"))
        return str(repo.at(branch).hash)

    with repo.transaction("main", message="begin") as changes:
        changes.create_table("t", rows(1, 2, a=10, b=100))
    repo.branches.create("x")
    ours = changed("main", swapped)
    theirs = changed("x", lambda table: table.append(rows(9, a=10, b=100)))
    repo.merge(theirs, branch="main")
    repo.merge(ours, branch="x")
    changed("main", swapped)
    changed("x", lambda table: table.append(rows(10, b=10, a=100)))
    with pytest.raises(lw.IncompatibleConflictError, match="merged crosswise before"):
        repo.merge("x" if into == "main" else "main", branch=into)


def test_a_deleted_row_has_null_of_a_column_that_was_made_anew_without_nulls(
    tmp_path: Path,
) -> None:
    table = lw.create(tmp_path / "t.lance", rows(1, 2, a=10), access=lw.Access(fsync=False))
    since = table.add_columns(pa.schema([("c", pa.int64())]))
    kind = pa.schema([pa.field("id", pa.int64()), pa.field("c", pa.int64(), nullable=False)])
    values = pa.table({"id": [1, 2], "c": [7, 14]}, schema=kind)
    table = since.drop_columns(["c"]).add_columns(values, on="id").delete("id = 1")
    deleted = table.changes(since.version).deleted.to_arrow().to_pylist()
    assert [(each["id"], each["c"]) for each in deleted] == [(1, None)]


PRIMARY = {"lance-schema:unenforced-primary-key": "true"}


def keyed(table: lw.Table, k: int, x: int) -> pa.Table:
    return pa.table({"k": [k], "x": [x], "y": [1]}, schema=table.schema)


def delete_and_insert(table: lw.Table) -> lw.Table:
    return table.delete("k = 2").append(keyed(table, 2, 99))


def drop_x(table: lw.Table) -> lw.Table:
    return table.drop_columns(["x"])


@pytest.mark.parametrize(
    ("main", "branch"), [(delete_and_insert, drop_x), (drop_x, delete_and_insert)]
)
def test_cells_of_a_row_inserted_again_under_its_key_are_not_dropped_unseen(
    tmp_path: Path, main: Step, branch: Step
) -> None:
    fields = [pa.field("k", pa.int64(), False, PRIMARY), ("x", pa.int64()), ("y", pa.int64())]
    data = pa.table({"k": [1, 2], "x": [10, 20], "y": [1, 1]}, schema=pa.schema(fields))
    repo = lw.Repository.init(tmp_path / "shop", fsync=False)

    def changed(name: str, step: Step) -> None:
        with repo.transaction(name, message="a change") as changes:
            step(changes.table("t"))

    with repo.transaction("main", message="begin") as changes:
        changes.create_table("t", data)
    repo.branches.create("b")
    changed("main", main)
    changed("b", branch)
    repo.switch("main")
    with pytest.raises(lw.MergeConflictError, match="column 'x'"):
        repo.merge("b")

    table = lw.create(tmp_path / "t.lance", data, access=lw.Access(fsync=False))
    branch(table.branches.create("b"))
    table = main(table)
    with pytest.raises(
        lw.ConflictError, match=r"other values in 'x'.*branches\.merge\(\) compares"
    ):
        table.branches.publish("b")
    assert table.latest().version == table.version


def test_a_column_that_both_merged_from_a_third_branch_is_one(tmp_path: Path) -> None:
    repo = lw.Repository.init(tmp_path / "shop", fsync=False)

    def changed(name: str, step: Step) -> str:
        with repo.transaction(name, message="a change") as changes:
            step(changes.table("t"))
        return str(repo.at(name).hash)

    def bring(into: str) -> None:
        repo.switch(into)
        repo.merge("two")

    with repo.transaction("main", message="begin") as changes:
        changes.create_table("t", rows(1, 2, a=10))
    for name in ("one", "two"):
        repo.branches.create(name)
    for name in ("main", "one"):
        changed(name, lambda table: table.append(rows(5 if table.branch is None else 6, a=10)))
    changed("two", lambda table: table.add_columns({"c": "id * 7"}))
    bring("main")
    bring("one")
    changed("two", lambda table: table.rename_column("c", "r"))
    bring("main")
    dropped = changed("one", lambda table: table.drop_columns(["c"]))
    repo.switch("main")
    with pytest.raises(lw.MergeConflictError, match="column 'c': renamed to r here, dropped there"):
        repo.cherry_pick(dropped)

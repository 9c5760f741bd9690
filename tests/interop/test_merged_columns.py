"""Columns that one side renamed, cast or dropped, and rows that the other side wrote: whatever
brings the two together, every cell that is left has the value that somebody gave it.

Rows are read by us and by pylance. Fields inside of structs and of lists are columns here, too.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias
from zlib import crc32

import pyarrow as pa
import pytest
from tests.merging import PRIMARY
from tests.pylance import judged, lance

import lancewood as lw

Step: TypeAlias = Callable[[lw.Table], Any]


def rows_of(table: lw.Table) -> list[dict[str, Any]]:
    """The rows as both implementations read them, by id."""
    dataset = judged(table.uri, version=table.version)
    theirs = dataset.to_table()
    ours = table.scan().to_arrow()
    assert ours.schema.equals(theirs.schema), f"{ours.schema} is for pylance {theirs.schema}"
    assert ours.to_pylist() == theirs.to_pylist()
    assert table.scan(where="id >= 2").to_arrow().to_pylist() == [
        row for row in ours.to_pylist() if row["id"] >= 2
    ]
    report = table.verify()
    assert report.ok, report.problems
    return sorted(ours.to_pylist(), key=lambda row: row["id"])


@dataclass(frozen=True)
class Change:
    """A change of a column ``c``, and what it makes of every cell."""

    about: str
    type: pa.DataType
    cell: Callable[[int], Any]
    steps: Sequence[Mapping[str, Any]]
    """As ``alter_columns`` of pylance takes them; "drop" instead of a new name or type drops."""
    type_after: pa.DataType
    cell_after: Callable[[int], Any]
    name_after: str = "c"
    by_pylance: bool = True
    """Whether pylance can do it as well."""

    def __str__(self) -> str:
        return self.about

    def apply(self, table: lw.Table) -> lw.Table:
        for each in self.steps:
            if "name" in each:
                table = table.rename_column(each["path"], each["name"])
            elif "data_type" in each:
                table = table.cast_column(each["path"], each["data_type"])
            else:
                table = table.drop_columns([each["path"]])
        return table

    def apply_with_pylance(self, uri: str) -> None:
        for each in self.steps:
            if "drop" in each:
                lance.dataset(uri).drop_columns([each["path"]])
            else:
                lance.dataset(uri).alter_columns(dict(each))

    def data(self, *ids: int, is_after: bool = False) -> pa.Table:
        cell = self.cell_after if is_after else self.cell
        kind = self.type_after if is_after else self.type
        name = self.name_after if is_after else "c"
        return pa.table(
            {
                "id": pa.array(ids, pa.int64()),
                name: pa.array([cell(each) for each in ids], kind),
                "n": pa.array([0] * len(ids), pa.int64()),
                "m": pa.array([0] * len(ids), self._type_of_m(is_after)),
            }
        )

    def _type_of_m(self, is_after: bool) -> pa.DataType:
        """A cast of another column has rows copied instead of files taken over."""
        is_cast = is_after and any(each["path"] == "m" for each in self.steps)
        return pa.int32() if is_cast else INT64

    def expected(self, rows: Mapping[int, tuple[int, int, int]], *, is_after: bool = True) -> Any:
        """Rows by id: the number that their cell was made of, n and m."""
        cell = self.cell_after if is_after else self.cell
        name = self.name_after if is_after else "c"
        return [{"id": i, name: cell(of), "n": n, "m": m} for i, (of, n, m) in rows.items()]


INT64 = pa.int64()
STRUCT = pa.struct([("x", pa.int64()), ("y", pa.string())])
NUMBERS = pa.struct([("x", pa.int64()), ("z", pa.int64())])
LISTED = pa.list_(STRUCT)
DEEP = pa.struct([("l", LISTED), ("w", pa.int32())])


def struct_of(i: int) -> dict[str, Any]:
    return {"x": i, "y": f"v{i}"}


def renamed_struct(i: int) -> dict[str, Any]:
    return {"x": i, "y2": f"v{i}"}


def struct_type(x: pa.DataType = INT64, x_name: str = "x", y_name: str = "y") -> pa.DataType:
    return pa.struct([(x_name, x), (y_name, pa.string())])


CHANGES = [
    Change(
        "a column is renamed and cast",
        pa.int64(),
        lambda i: 10 * i,
        [{"path": "c", "name": "d"}, {"path": "d", "data_type": pa.int32()}],
        pa.int32(),
        lambda i: 10 * i,
        "d",
        by_pylance=False,
    ),
    Change(
        "a column is cast and renamed",
        pa.int64(),
        lambda i: 10 * i,
        [{"path": "c", "data_type": pa.int32()}, {"path": "c", "name": "d"}],
        pa.int32(),
        lambda i: 10 * i,
        "d",
        by_pylance=False,
    ),
    Change(
        "a column is cast to texts and renamed",
        pa.int64(),
        lambda i: 10 * i,
        [{"path": "c", "data_type": pa.string()}, {"path": "c", "name": "d"}],
        pa.string(),
        lambda i: str(10 * i),
        "d",
        by_pylance=False,
    ),
    Change(
        "a field of a struct is renamed",
        STRUCT,
        struct_of,
        [{"path": "c.y", "name": "y2"}],
        struct_type(y_name="y2"),
        renamed_struct,
    ),
    Change(
        "a field of a struct is renamed, and another column is cast",
        STRUCT,
        struct_of,
        [{"path": "c.y", "name": "y2"}, {"path": "m", "data_type": pa.int32()}],
        struct_type(y_name="y2"),
        renamed_struct,
        by_pylance=False,
    ),
    Change(
        "two fields of a struct swap their names",
        NUMBERS,
        lambda i: {"x": i, "z": -i},
        [
            {"path": "c.x", "name": "between"},
            {"path": "c.z", "name": "x"},
            {"path": "c.between", "name": "z"},
        ],
        pa.struct([("z", pa.int64()), ("x", pa.int64())]),
        lambda i: {"z": i, "x": -i},
    ),
    Change(
        "two fields of a struct swap their names, and another column is cast",
        NUMBERS,
        lambda i: {"x": i, "z": -i},
        [
            {"path": "c.x", "name": "between"},
            {"path": "c.z", "name": "x"},
            {"path": "c.between", "name": "z"},
            {"path": "m", "data_type": pa.int32()},
        ],
        pa.struct([("z", pa.int64()), ("x", pa.int64())]),
        lambda i: {"z": i, "x": -i},
        by_pylance=False,
    ),
    Change(
        "a struct and a field of it are renamed",
        STRUCT,
        struct_of,
        [{"path": "c", "name": "d"}, {"path": "d.y", "name": "y2"}],
        struct_type(y_name="y2"),
        renamed_struct,
        "d",
    ),
    Change(
        "a field of a struct is cast",
        STRUCT,
        struct_of,
        [{"path": "c.x", "data_type": pa.int32()}],
        struct_type(pa.int32()),
        struct_of,
    ),
    Change(
        "a field of a struct is renamed and cast",
        STRUCT,
        struct_of,
        [{"path": "c.x", "name": "x2"}, {"path": "c.x2", "data_type": pa.float64()}],
        struct_type(pa.float64(), "x2"),
        lambda i: {"x2": float(i), "y": f"v{i}"},
        by_pylance=False,
    ),
    Change(
        "a field of a struct is cast, another renamed",
        STRUCT,
        struct_of,
        [{"path": "c.x", "data_type": pa.int32()}, {"path": "c.y", "name": "y2"}],
        struct_type(pa.int32(), y_name="y2"),
        renamed_struct,
    ),
    Change(
        "a field of a struct is dropped",
        STRUCT,
        lambda i: {"x": 7, "y": f"v{i}"},
        [{"path": "c.x", "drop": True}],
        pa.struct([("y", pa.string())]),
        lambda i: {"y": f"v{i}"},
    ),
    Change(
        "a field inside of a list is renamed",
        LISTED,
        lambda i: [struct_of(i), struct_of(-i)],
        [{"path": "c.item.y", "name": "y2"}],
        pa.list_(struct_type(y_name="y2")),
        lambda i: [renamed_struct(i), renamed_struct(-i)],
    ),
    Change(
        "a field inside of a list is cast",
        LISTED,
        lambda i: [struct_of(i)],
        [{"path": "c.item.x", "data_type": pa.int32()}],
        pa.list_(struct_type(pa.int32())),
        lambda i: [struct_of(i)],
        by_pylance=False,
    ),
    Change(
        "a field inside of a list is renamed and cast",
        LISTED,
        lambda i: [struct_of(i)],
        [{"path": "c.item.x", "name": "x2"}, {"path": "c.item.x2", "data_type": pa.int32()}],
        pa.list_(struct_type(pa.int32(), "x2")),
        lambda i: [{"x2": i, "y": f"v{i}"}],
        by_pylance=False,
    ),
    Change(
        "a field inside of a list in a struct is renamed",
        DEEP,
        lambda i: {"l": [struct_of(i)], "w": i},
        [{"path": "c.l.item.y", "name": "y2"}],
        pa.struct([("l", pa.list_(struct_type(y_name="y2"))), ("w", pa.int32())]),
        lambda i: {"l": [renamed_struct(i)], "w": i},
    ),
]
RENAMES = [each for each in CHANGES if all("name" in step for step in each.steps)]


def every_change(test: Any) -> Any:
    """A test of all changes, of which a slice runs every day, of each test another one."""
    slice_of_the_day = pytest.mark.sliced(6, at=crc32(test.__name__.encode()) % 6)
    return slice_of_the_day(pytest.mark.parametrize("change", CHANGES, ids=str)(test))


def write_rows(change: Change, *, is_after: bool = False) -> Step:
    """Rows are put in, given other cells, updated and deleted by a side that keeps its columns."""

    def run(table: lw.Table) -> None:
        table = table.update({"n": "5"}, "id = 1", rewrite="rows").delete("id = 3")
        changed = change.data(2, is_after=is_after)
        cells = change.data(20, is_after=is_after).column(1)
        table = table.merge(changed.set_column(1, changed.field(1), cells), on="id")
        table.append(change.data(9, is_after=is_after))

    return run


def append_a_row(change: Change, *, is_after: bool = False) -> Step:
    return lambda table: table.append(change.data(9, is_after=is_after))


def change_and_write_rows(change: Change) -> Step:
    """The column changes, and other rows and cells than ``write_rows`` does."""

    def run(table: lw.Table) -> None:
        table = change.apply(table).update({"m": "7"}, "id < 3", rewrite="rows")
        table.append(change.data(8, is_after=True))

    return run


BOTH = {1: (1, 5, 7), 2: (20, 0, 7), 4: (4, 0, 0), 8: (8, 0, 0), 9: (9, 0, 0)}
"""What ``change_and_write_rows`` and ``write_rows`` come to."""
WRITTEN = {1: (1, 5, 0), 2: (20, 0, 0), 4: (4, 0, 0), 9: (9, 0, 0)}
"""What ``write_rows`` alone comes to."""
CHANGED = {1: (1, 0, 7), 2: (2, 0, 7), 3: (3, 0, 0), 4: (4, 0, 0), 8: (8, 0, 0)}
APPENDED = {each: (each, 0, 0) for each in (1, 2, 3, 4, 9)}


def branched(change: Change, uri: str) -> tuple[lw.Table, lw.Table]:
    main = lw.create(
        uri, change.data(1, 2, 3, 4), layout=lw.Layout(max_rows_per_file=2, file_version="2.1")
    )
    return main, main.branches.create("b")


def merged(uri: str, *, into: str) -> lw.Table:
    if into == "main":
        return lw.open(uri).branches.merge("b")
    return lw.open(uri, branch="b").branches.merge("main")


directions = pytest.mark.parametrize("into", ["main", "b"])
changers = pytest.mark.parametrize("changer", ["main", "b"])


@changers
@directions
@every_change
def test_merging_brings_rows_to_a_changed_column_and_its_change_to_rows(
    change: Change, into: str, changer: str, uri: str
) -> None:
    main, branch = branched(change, uri)
    first, second = change_and_write_rows(change), write_rows(change)
    first(main if changer == "main" else branch)
    second(branch if changer == "main" else main)
    assert rows_of(merged(uri, into=into)) == change.expected(BOTH)


@directions
@every_change
def test_merging_a_change_alone_keeps_every_cell(change: Change, into: str, uri: str) -> None:
    main, branch = branched(change, uri)
    if into == "main":
        change.apply(branch)
        main.update({"n": "5"}, "id = 1")
    else:
        change.apply(main)
    found = rows_of(merged(uri, into=into))
    n = 5 if into == "main" else 0
    left = {each: (each, 0, 0) for each in (2, 3, 4)}
    assert found == change.expected({1: (1, n, 0), **left})


@changers
@directions
@pytest.mark.sliced(6)
@pytest.mark.parametrize("change", [each for each in CHANGES if each.by_pylance], ids=str)
def test_merging_brings_rows_to_a_column_that_pylance_changed(
    change: Change, into: str, changer: str, uri: str
) -> None:
    main, branch = branched(change, uri)
    if changer == "main":
        change.apply_with_pylance(uri)
        write_rows(change)(branch)
    else:
        change.apply_with_pylance(f"{uri}/tree/b")
        write_rows(change)(main)
    assert rows_of(merged(uri, into=into)) == change.expected(WRITTEN)


@every_change
def test_merging_back_and_forth_keeps_the_cells_of_both(change: Change, uri: str) -> None:
    main, branch = branched(change, uri)
    change_and_write_rows(change)(main)
    write_rows(change)(branch)
    merged(uri, into="b")
    assert rows_of(merged(uri, into="main")) == change.expected(BOTH)
    branch = lw.open(uri, branch="b").append(change.data(10, is_after=True))
    assert rows_of(merged(uri, into="main")) == change.expected({**BOTH, 10: (10, 0, 0)})


@changers
@every_change
def test_publishing_keeps_every_cell_or_is_refused(change: Change, changer: str, uri: str) -> None:
    main, branch = branched(change, uri)
    change_and_write_rows(change)(main if changer == "main" else branch)
    write_rows(change)(branch if changer == "main" else main)
    before = rows_of(lw.open(uri))
    try:
        found = lw.open(uri).branches.publish("b")
    except lw.LancewoodError:
        assert rows_of(lw.open(uri)) == before
    else:
        assert rows_of(found) == change.expected(BOTH)


@changers
@every_change
def test_publishing_brings_appended_rows_to_renamed_columns_and_maybe_to_others(
    change: Change, changer: str, uri: str
) -> None:
    main, branch = branched(change, uri)
    change.apply(main if changer == "main" else branch)
    append_a_row(change)(branch if changer == "main" else main)
    before = rows_of(lw.open(uri))
    try:
        found = lw.open(uri).branches.publish("b")
    except lw.LancewoodError:
        assert change not in RENAMES
        assert rows_of(lw.open(uri)) == before
    else:
        assert rows_of(found) == change.expected(APPENDED)


def committed(repo: lw.Repository, branch: str, message: str, step: Step) -> None:
    with repo.transaction(branch, message) as changes:
        step(changes.table("t"))


@pytest.fixture
def zoo(tmp_path: Path) -> Callable[[Change], lw.Repository]:
    def make(change: Change) -> lw.Repository:
        made = lw.Repository.init(tmp_path / "zoo")
        with made.transaction("main", "begin") as changes:
            changes.create_table(
                "t", change.data(1, 2, 3, 4), layout=lw.Layout(max_rows_per_file=2)
            )
        made.branches.create("exp")
        return made

    return make


def table_at(repo: lw.Repository, branch: str = "main") -> lw.Table:
    return repo.at(branch).table("t")


@pytest.mark.parametrize("into", ["main", "exp"])
@pytest.mark.parametrize("changer", ["main", "exp"])
@every_change
def test_merging_in_a_repository_brings_rows_and_changes_of_columns_together(
    change: Change, changer: str, into: str, zoo: Callable[[Change], lw.Repository]
) -> None:
    repo, writer = zoo(change), "exp" if changer == "main" else "main"
    committed(repo, changer, "the column", change_and_write_rows(change))
    committed(repo, writer, "rows", write_rows(change))
    repo.merge("exp" if into == "main" else "main", branch=into)
    assert rows_of(table_at(repo, into)) == change.expected(BOTH)


@every_change
def test_reverting_a_change_of_a_column_keeps_the_cells_written_since(
    change: Change, zoo: Callable[[Change], lw.Repository]
) -> None:
    repo = zoo(change)
    committed(repo, "main", "the column", change.apply)
    committed(repo, "main", "rows", write_rows(change, is_after=True))
    right = change.expected(WRITTEN, is_after=False)
    if any("drop" in each for each in change.steps):
        right[-1]["c"]["x"] = None  # which the row was never given
        try:
            repo.revert("HEAD~1")
        except lw.MergeConflictError:  # a cell of the struct was changed on both sides
            return
    else:
        repo.revert("HEAD~1")
    found = table_at(repo)
    assert found.schema.field("c").type == change.type
    assert rows_of(found) == right


@every_change
def test_reverting_rows_keeps_the_change_of_a_column_since(
    change: Change, zoo: Callable[[Change], lw.Repository]
) -> None:
    repo = zoo(change)
    committed(repo, "main", "rows", write_rows(change))
    committed(repo, "main", "the column", change_and_write_rows(change))
    repo.revert("HEAD~1")
    assert rows_of(table_at(repo)) == change.expected(CHANGED)


@every_change
def test_picking_rows_to_a_changed_column_keeps_every_cell(
    change: Change, zoo: Callable[[Change], lw.Repository]
) -> None:
    repo = zoo(change)
    committed(repo, "main", "the column", change_and_write_rows(change))
    committed(repo, "exp", "rows", write_rows(change))
    repo.cherry_pick("exp")
    assert rows_of(table_at(repo)) == change.expected(BOTH)


@every_change
def test_picking_the_change_of_a_column_keeps_every_cell(
    change: Change, zoo: Callable[[Change], lw.Repository]
) -> None:
    repo = zoo(change)
    committed(repo, "main", "rows", write_rows(change))
    committed(repo, "exp", "the column", change_and_write_rows(change))
    repo.cherry_pick("exp")
    assert rows_of(table_at(repo)) == change.expected(BOTH)


@pytest.mark.parametrize("by", ["lancewood", "pylance"])
@every_change
def test_rows_from_an_old_handle_keep_every_cell_or_are_refused(
    change: Change, by: str, uri: str
) -> None:
    if by == "pylance" and not change.by_pylance:
        pytest.skip("pylance has no such change")
    lw.create(
        uri, change.data(1, 2, 3, 4), layout=lw.Layout(max_rows_per_file=2, file_version="2.1")
    )
    steps: dict[str, Step] = {
        "append": append_a_row(change),
        "update": lambda table: table.update({"n": "5"}, "id = 1", rewrite="rows"),
        "merge": lambda table: table.merge(change.data(2, 9), on="id"),
    }
    for name, step in steps.items():
        shutil.rmtree(uri)
        old = lw.create(
            uri, change.data(1, 2, 3, 4), layout=lw.Layout(max_rows_per_file=2, file_version="2.1")
        )
        if by == "pylance":
            change.apply_with_pylance(uri)
        else:
            change.apply(lw.open(uri))
        right = dict(APPENDED)
        if name == "update":
            del right[9]
            right[1] = (1, 5, 0)
        try:
            step(old)
        except lw.LancewoodError:
            right = {each: (each, 0, 0) for each in (1, 2, 3, 4)}
            assert name != "append" or change not in RENAMES
        assert rows_of(lw.open(uri)) == change.expected(right), name


@pytest.mark.parametrize("nesting", ["struct", "list"])
def test_rows_from_a_handle_behind_a_merge_that_renamed_and_cast_are_refused(
    nesting: str, uri: str
) -> None:
    """The merge is one operation: the column has another name, and a field of it another id."""
    kind, path = (STRUCT, "s.x") if nesting == "struct" else (LISTED, "s.item.x")

    def data(number: int) -> pa.Table:
        cell = struct_of(number) if nesting == "struct" else [struct_of(number)]
        return pa.table({"id": [number], "s": pa.array([cell], kind)})

    old = lw.create(uri, data(1))
    branch = old.branches.create("b")
    old.append(data(2))
    branch.rename_column("s", "t").cast_column(path.replace("s", "t"), pa.string())
    newest = old.latest().branches.merge("b")
    with pytest.raises(lw.RetryableConflictError, match="dropped, or renamed and replaced"):
        old.append(data(9))
    assert lw.open(uri).version == newest.version


# What rules decide about rows that are put together


def named(name: str) -> Change:
    return next(each for each in CHANGES if each.about == name)


@pytest.mark.sliced(6)
@pytest.mark.parametrize("renamer", ["ours", "theirs"])
@pytest.mark.parametrize("winner", ["ours", "theirs", "base"])
@pytest.mark.parametrize(
    "about",
    [
        "a field of a struct is renamed",
        "a field of a struct is cast, another renamed",
        "a struct and a field of it are renamed",
        "a field inside of a list is renamed",
    ],
)
def test_a_decided_cell_has_all_values_of_the_side_that_won(
    about: str, renamer: str, winner: str, uri: str
) -> None:
    """Both sides gave row 2 another cell, and one of them other names inside of the column."""
    change = named(about)
    main, branch = branched(change, uri)
    sides = {"ours": main, "theirs": branch}
    given = {"ours": 20, "theirs": 30, "base": 2}
    for side, table in sides.items():
        is_after = side == renamer
        changed = change.data(2, is_after=is_after)
        cells = change.data(given[side], is_after=is_after).column(1)
        if is_after:
            table = change.apply(table)
        table = table.update({"n": "5"} if is_after else {"m": "7"}, "id = 2")
        table.merge(
            changed.select([0, 1]).set_column(1, changed.field(1), cells),
            on="id",
            not_matched="ignore",
        )
    shown = main.latest().branches.conflicts("b").to_arrow().to_pylist()
    assert [row["_columns"] for row in shown] == [[change.name_after]]
    for side, number in given.items():
        assert shown[0][side][change.name_after] == change.cell_after(number)
    found = main.latest().branches.merge("b", resolve=winner)
    left = {each: (each, 0, 0) for each in (1, 3, 4)}
    right = {1: left[1], 2: (given[winner], 5, 7), 3: left[3], 4: left[4]}
    assert rows_of(found) == change.expected(right)


# Columns that came by a merge


@pytest.mark.parametrize("into", ["main", "b"])
@pytest.mark.parametrize("how", ["append", "update", "cast"])
@pytest.mark.parametrize("renamer", ["main", "b"])
def test_a_column_that_came_by_a_merge_and_was_renamed_is_the_same_column(
    renamer: str, how: str, into: str, uri: str
) -> None:
    main = lw.create(uri, pa.table({"id": [1, 2, 3], "a": [10, 20, 30]}))
    branch = main.branches.create("b").add_columns({"c": "a * 2"})
    main = main.branches.merge("b")
    (main if renamer == "main" else branch).rename_column("c", "cc")
    other = branch if renamer == "main" else main
    right = {1: (10, 20), 2: (20, 40), 3: (30, 60)}
    if how == "append":
        other.append(pa.table({"id": [9], "a": [90], "c": [999]}))
        right[9] = (90, 999)
    elif how == "update":
        other.update({"c": "777"}, "id = 1")
        right[1] = (10, 777)
    else:
        other.cast_column("c", pa.int32()).append(
            pa.table({"id": [9], "a": [90], "c": pa.array([999], pa.int32())})
        )
        right[9] = (90, 999)
    found = merged(uri, into=into)
    assert rows_of(found) == [{"id": i, "a": a, "cc": c} for i, (a, c) in right.items()]
    assert found.schema.field("cc").type == (pa.int32() if how == "cast" else pa.int64())


@pytest.mark.parametrize("change", ["rename", "cast"])
def test_a_column_that_the_merge_itself_renamed_is_the_same_column_afterwards(
    change: str, uri: str
) -> None:
    """It has one name in what was merged, and another one in what came of it: nobody had it where
    both began."""
    main = lw.create(uri, pa.table({"id": [1, 2]}))
    one, two = main.branches.create("one"), main.branches.create("two")
    one = one.add_columns({"c": "id * 10"})
    two = two.branches.merge("one")
    two = two.cast_column("c", pa.string()) if change == "cast" else two
    one = one.rename_column("c", "d").add_columns({"e": "id"}).branches.merge("two")
    kind = pa.string() if change == "cast" else pa.int64()
    two = two.append(pa.table({"id": [3], "c": pa.array([30]).cast(kind)}))
    cells = pa.array([10, 20, 30]).cast(kind).to_pylist()
    new = zip((1, 2, 3), cells, (1, 2, None), strict=True)
    right = [{"id": i, "d": d, "e": e} for i, d, e in new]
    assert rows_of(one.branches.merge("two")) == right


@pytest.mark.parametrize("into", ["main", "b"])
def test_a_field_of_a_struct_that_came_by_a_merge_and_was_renamed_is_the_same_field(
    into: str, uri: str
) -> None:
    change = named("a field of a struct is renamed")
    main = lw.create(uri, pa.table({"id": [1, 2]}))
    branch = main.branches.create("b")
    branch = branch.add_columns(change.data(1, 2).select(["id", "c"]), on="id")
    main = main.branches.merge("b").rename_column("c.y", "y2")
    branch.append(change.data(9).select(["id", "c"]))
    right = [{"id": each, "c": renamed_struct(each)} for each in (1, 2, 9)]
    assert rows_of(merged(uri, into=into)) == right


@pytest.mark.parametrize("path", ["c", "s.c"])
def test_a_column_that_two_branches_renamed_one_after_the_other_is_the_same_on_a_third(
    path: str, uri: str
) -> None:
    """Main adds it, ``one`` renames it, main has that and renames it again, ``two`` has that, and
    then merges a cell that ``one`` changed."""
    main = lw.create(uri, pa.table({"id": [1, 2]}))
    one, two = main.branches.create("one"), main.branches.create("two")
    cells = [{"c": 10, "y": 1}, {"c": 20, "y": 2}]
    column = pa.array(cells) if path == "s.c" else pa.array([10, 20])
    main.add_columns(pa.table({"id": [1, 2], path[0]: column}), on="id")
    one = one.branches.merge("main").rename_column(path, "d")
    above = path[:-1]
    main.latest().branches.merge("one").rename_column(f"{above}d", "e")
    two = two.branches.merge("main")
    one.update({f"{above}d": "11"}, "id = 1")
    found = rows_of(two.branches.merge("one"))
    assert [(row["s"] if above else row)["e"] for row in found] == [11, 20]


@pytest.mark.parametrize("adds", [True, False])
def test_a_field_in_a_list_that_came_cast_by_a_merge_keeps_its_cells_in_the_next_one(
    adds: bool, uri: str
) -> None:
    """A column that this side added first has the id that the cast field has on the other."""
    cells = pa.array([[struct_of(1)], [struct_of(2)]], LISTED)
    main = lw.create(uri, pa.table({"id": [1, 2], "l": cells}))
    one, two = main.branches.create("one"), main.branches.create("two")
    one = one.cast_column("l.item.x", pa.int32())
    if adds:
        two = two.add_columns({"added": "id"})
    two = two.branches.merge("one").rename_column("l", "m")
    one.drop_columns(["l.item.y"])
    assert [row["m"] for row in rows_of(two.branches.merge("one"))] == [[{"x": 1}], [{"x": 2}]]


def test_the_way_of_a_column_does_not_lead_through_a_life_of_its_branch_before_a_reset(
    uri: str,
) -> None:
    """The column was cast on the branch, which gave it another id, until the branch began anew."""
    main = lw.create(uri, pa.table({"id": [1, 2, 3], "a": [10, 20, 30]}))
    main.branches.create("b").cast_column("a", pa.string()).rename_column("a", "b")
    main.append(pa.table({"id": [4], "a": [40]}))
    main.branches.reset("b", force=True)
    lw.open(uri).rename_column("a", "c")
    branch = merged(uri, into="b").compact()
    main = lw.open(uri).update({"c": "11"}, "id = 1").rename_column("c", "d").compact()
    branch.update({"c": "22"}, "id = 2")
    right = [(1, 11), (2, 22), (3, 30), (4, 40)]
    assert rows_of(merged(uri, into="b")) == [{"id": i, "d": d} for i, d in right]


def test_a_column_that_was_published_and_renamed_is_the_same_column(uri: str) -> None:
    main = lw.create(uri, pa.table({"id": [1, 2, 3], "a": [10, 20, 30]}))
    branch = main.branches.create("b")
    one = main.branches.create("one").add_columns({"c": "a * 2"})
    assert one.branch == "one"
    main = main.branches.publish("one")
    branch.branches.merge("main")
    lw.open(uri).rename_column("c", "cc")
    lw.open(uri, branch="b").append(pa.table({"id": [9], "a": [90], "c": [999]}))
    right = [(1, 10, 20), (2, 20, 40), (3, 30, 60), (9, 90, 999)]
    found = merged(uri, into="main")
    assert rows_of(found) == [{"id": i, "a": a, "cc": c} for i, a, c in right]


# A field of a struct that one side drops and the other changes


@dataclass
class Dropped:
    """One side drops a field of a struct, and the other gives it another value in row 1."""

    uri: str
    dropper: str
    path: str = field(default="s.y", init=False)

    def __post_init__(self) -> None:
        rows = {"id": [1, 2, 3], "s": pa.array([struct_of(each) for each in (1, 2, 3)], STRUCT)}
        main = lw.create(self.uri, pa.table(rows))
        branch = main.branches.create("b")
        first, second = (main, branch) if self.dropper == "ours" else (branch, main)
        first.drop_columns([self.path])
        second.update({self.path: "'zz'"}, "id = 1")

    def merge(self, schema: Any) -> list[dict[str, Any]]:
        resolve = lw.Resolve(schema=schema)
        return rows_of(lw.open(self.uri).branches.merge("b", resolve=resolve))

    @property
    def holder(self) -> str:
        return "theirs" if self.dropper == "ours" else "ours"


KEPT = [
    {"id": 1, "s": {"x": 1, "y": "zz"}},
    {"id": 2, "s": {"x": 2, "y": "v2"}},
    {"id": 3, "s": {"x": 3, "y": "v3"}},
]
LEFT = [{"id": each, "s": {"x": each}} for each in (1, 2, 3)]
droppers = pytest.mark.parametrize("dropper", ["ours", "theirs"])


@droppers
def test_a_field_of_a_struct_that_one_side_drops_and_the_other_changes_is_a_conflict(
    dropper: str, uri: str
) -> None:
    scene = Dropped(uri, dropper)
    with pytest.raises(lw.MergeConflictError, match=r"column 's\.y'") as refused:
        scene.merge(None)
    texts = {dropper: "dropped", scene.holder: "cells changed"}
    assert refused.value.facts["schema"] == [("s.y", "column", texts["ours"], texts["theirs"])]


@droppers
def test_a_dropped_field_of_a_struct_is_kept_by_a_decision_for_the_side_that_has_it(
    dropper: str, uri: str
) -> None:
    scene = Dropped(uri, dropper)
    assert scene.merge(scene.holder) == KEPT


@droppers
def test_a_dropped_field_of_a_struct_is_kept_by_name(dropper: str, uri: str) -> None:
    assert Dropped(uri, dropper).merge({"s.y": "keep"}) == KEPT


@droppers
@pytest.mark.parametrize("by_name", [True, False])
def test_a_dropped_field_of_a_struct_goes_by_decision(
    dropper: str, by_name: bool, uri: str
) -> None:
    assert Dropped(uri, dropper).merge({"s.y": "drop"} if by_name else dropper) == LEFT


@droppers
def test_a_field_of_a_struct_that_the_other_side_gave_to_new_rows_alone_is_dropped(
    dropper: str, uri: str
) -> None:
    """As of a column: only changed cells are somebody's work that the drop would lose."""
    rows = {"id": [1, 2], "s": pa.array([struct_of(1), struct_of(2)], STRUCT)}
    main = lw.create(uri, pa.table(rows))
    branch = main.branches.create("b")
    first, second = (main, branch) if dropper == "ours" else (branch, main)
    first.drop_columns(["s.y"])
    second.append(pa.table({"id": [3], "s": pa.array([struct_of(3)], STRUCT)}))
    assert rows_of(merged(uri, into="main")) == LEFT


@droppers
def test_a_field_in_a_list_that_one_side_drops_and_the_other_changes_is_a_conflict(
    dropper: str, uri: str
) -> None:
    rows = {"id": [1, 2], "l": pa.array([[struct_of(1)], [struct_of(2)]], LISTED)}
    main = lw.create(uri, pa.table(rows))
    branch = main.branches.create("b")
    first, second = (main, branch) if dropper == "ours" else (branch, main)
    first.drop_columns(["l.item.y"])
    changed = pa.array([[{"x": 1, "y": "zz"}]], LISTED)
    second.merge(pa.table({"id": [1], "l": changed}), on="id")
    with pytest.raises(lw.MergeConflictError):
        main.latest().branches.merge("b")


# Criss-cross: two bases


def three(*rows: tuple[int, int, int]) -> pa.Table:
    return pa.table({name: [row[at] for row in rows] for at, name in enumerate(("id", "n", "a"))})


FOUR = three((1, 0, 10), (2, 0, 20), (3, 0, 30), (4, 0, 40))


def test_a_cell_of_a_column_that_one_side_alone_has_stays_in_a_criss_cross(uri: str) -> None:
    main = lw.create(uri, FOUR)
    branch = main.branches.create("x")
    main = main.drop_columns(["a"]).delete("id = 4")
    main.branches.create("main-then")
    branch = branch.update({"n": "5"}, "id = 4")
    branch.branches.create("x-then")
    branch = branch.branches.merge("main-then", resolve="ours")
    assert rows_of(branch)[-1] == {"id": 4, "n": 5}
    main = main.checkout(version=1).restore().branches.merge("x-then")
    right = [{"id": i, "n": 5 * (i == 4), "a": 10 * i} for i in (1, 2, 3, 4)]
    assert rows_of(main) == right
    assert rows_of(branch.branches.merge("main")) == right


def criss_cross(uri: str, change: Step) -> tuple[lw.Table, lw.Table]:
    """Both sides change cells of ``a``, and each merges what the other had then."""
    main = lw.create(uri, FOUR)
    branch = main.branches.create("x")
    main = main.update({"a": "11"}, "id = 1")
    main.branches.create("main-then")
    branch = branch.update({"a": "22"}, "id = 2")
    branch.branches.create("x-then")
    change(branch)
    change(main)
    main = main.latest().branches.merge("x-then")
    branch = branch.latest().branches.merge("main-then")
    return main, branch


@pytest.mark.parametrize("into", ["main", "x"])
@pytest.mark.parametrize("dropper", ["main", "x"])
def test_a_column_that_was_dropped_after_a_criss_cross_is_no_conflict(
    dropper: str, into: str, uri: str
) -> None:
    """The other side has the cells that both had: only against one of the bases they are others."""
    main, branch = criss_cross(uri, lambda table: table)
    (main if dropper == "main" else branch).drop_columns(["a"])
    (branch if dropper == "main" else main).update({"n": "7"}, "id = 3")
    target = lw.open(uri, branch=None if into == "main" else "x")
    found = target.branches.merge("x" if into == "main" else "main")
    assert rows_of(found) == [{"id": i, "n": 7 * (i == 3)} for i in (1, 2, 3, 4)]


@pytest.mark.parametrize("into", ["main", "x"])
@pytest.mark.parametrize("dropper", ["main", "x"])
def test_a_column_that_was_dropped_and_changed_after_a_criss_cross_is_a_conflict(
    dropper: str, into: str, uri: str
) -> None:
    main, branch = criss_cross(uri, lambda table: table)
    (main if dropper == "main" else branch).drop_columns(["a"])
    (branch if dropper == "main" else main).update({"a": "33"}, "id = 3")
    target = lw.open(uri, branch=None if into == "main" else "x")
    with pytest.raises(lw.MergeConflictError, match="column 'a'"):
        target.branches.merge("x" if into == "main" else "main")


@pytest.mark.parametrize("into", ["main", "x"])
def test_a_column_that_was_renamed_after_a_criss_cross_keeps_the_cells_of_both(
    into: str, uri: str
) -> None:
    main, branch = criss_cross(uri, lambda table: table)
    main.rename_column("a", "b")
    branch.append(three((9, 0, 90))).update({"a": "33"}, "id = 3")
    target = lw.open(uri, branch=None if into == "main" else "x")
    found = target.branches.merge("x" if into == "main" else "main")
    cells = {1: 11, 2: 22, 3: 33, 4: 40, 9: 90}
    assert rows_of(found) == [{"id": i, "n": 0, "b": b} for i, b in cells.items()]


FIELDS = pa.struct({"p": pa.int64(), "q": pa.int64()})
FIELDS_IN = {"struct": FIELDS, "list": pa.list_(FIELDS)}


def cell_of_fields(shape: str, number: int) -> Any:
    found = {"p": number, "q": -number}
    return found if shape == "struct" else [found]


def with_cells(table: lw.Table, shape: str, number: int, ids: list[int]) -> lw.Table:
    cells = pa.array([cell_of_fields(shape, number)] * len(ids), FIELDS_IN[shape])
    return table.merge(pa.table({"id": ids, "s": cells}), on="id", not_matched="ignore")


def criss_cross_with_a_column_of_fields(uri: str, shape: str, change: Step) -> lw.Table:
    """Main adds a column of fields, and the branch is changed; each merges what the other had."""
    main = lw.create(uri, FOUR)
    branch = main.branches.create("x")
    main = with_cells(main.add_columns(pa.schema({"s": FIELDS_IN[shape]})), shape, 1, [1, 2, 3, 4])
    main.branches.create("main-then")
    change(branch).branches.create("x-then")
    main.branches.merge("x-then")
    return lw.open(uri, branch="x").branches.merge("main-then")


@pytest.mark.parametrize("into", ["main", "x"])
@pytest.mark.parametrize("shape", FIELDS_IN)
def test_fields_in_a_column_that_one_of_two_bases_has_are_changed_by_one_side(
    shape: str, into: str, uri: str
) -> None:
    """The base that has the other columns, of which one was cast, lacks the column of fields."""
    branch = criss_cross_with_a_column_of_fields(
        uri, shape, lambda table: table.cast_column("n", pa.int32())
    )
    with_cells(branch.rename_column("n", "m"), shape, 7, [3])
    target = lw.open(uri, branch=None if into == "main" else "x")
    if into == "x":
        lw.open(uri).update({"a": "11"}, "id = 1")
    found = target.branches.merge("x" if into == "main" else "main")
    assert {row["id"]: row["s"] for row in rows_of(found)} == {
        each: cell_of_fields(shape, 7 if each == 3 else 1) for each in (1, 2, 3, 4)
    }


@pytest.mark.parametrize("dropper", ["main", "x"])
@pytest.mark.parametrize("into", ["main", "x"])
@pytest.mark.parametrize("shape", FIELDS_IN)
def test_a_field_that_one_of_two_bases_has_is_dropped_and_changed(
    shape: str, into: str, dropper: str, uri: str
) -> None:
    criss_cross_with_a_column_of_fields(uri, shape, lambda table: table.update({"n": "1"}, "id=4"))
    one, other = ("main", "x") if dropper == "main" else ("x", "main")
    lw.open(uri, branch=None if one == "main" else one).drop_columns(
        ["s.p" if shape == "struct" else "s.item.p"]
    )
    with_cells(lw.open(uri, branch=None if other == "main" else other), shape, 7, [3])
    target = lw.open(uri, branch=None if into == "main" else "x")
    with pytest.raises(lw.MergeConflictError, match="both sides changed the columns: column 's"):
        target.branches.merge("x" if into == "main" else "main")


@pytest.mark.parametrize("dropper", ["main", "x"])
@pytest.mark.parametrize("into", ["main", "x"])
@pytest.mark.parametrize("change", ["update", "insert again"])
def test_a_cell_of_a_row_that_one_of_two_bases_has_is_changed_in_a_dropped_column(
    change: str, into: str, dropper: str, uri: str
) -> None:
    key = pa.field("id", pa.int64(), nullable=False, metadata=PRIMARY)
    schema = FOUR.schema if change == "update" else FOUR.schema.set(0, key)
    main = lw.create(uri, FOUR.cast(schema))
    new = three((9, 0, 90)).cast(schema)
    branch = main.branches.create("x")
    main.append(new).branches.create("main-then")
    branch.update({"n": "1"}, "id = 4").branches.create("x-then")
    lw.open(uri).branches.merge("x-then")
    lw.open(uri, branch="x").branches.merge("main-then")
    states = {"main": lw.open(uri), "x": lw.open(uri, branch="x")}
    states.pop(dropper).drop_columns(["a"])
    ((_, other),) = states.items()
    if change == "update":
        other.update({"a": "99"}, "id = 9")
    else:
        other.delete("id = 9").append(three((9, 0, 99)).cast(schema))
    target = lw.open(uri, branch=None if into == "main" else "x")
    with pytest.raises(lw.MergeConflictError, match="both sides changed the columns: column 'a'"):
        target.branches.merge("x" if into == "main" else "main")


@pytest.mark.parametrize("into", ["main", "x"])
def test_nulls_that_a_side_forbade_after_a_criss_cross_are_no_conflict(into: str, uri: str) -> None:
    """A row had a null in one base, and both sides have filled it since."""
    rows = pa.table({"id": [1, 2], "a": pa.array([None, 20], pa.int64())})
    main = lw.create(uri, rows)
    branch = main.branches.create("x")
    main = main.update({"a": "11"}, "id = 1")
    main.branches.create("main-then")
    branch = branch.append(pa.table({"id": [3], "a": [30]}))
    branch.branches.create("x-then")
    main, branch = main.branches.merge("x-then"), branch.branches.merge("main-then")
    lance.dataset(uri).alter_columns({"path": "a", "nullable": False})
    branch.append(pa.table({"id": [4], "a": [40]}))
    target = lw.open(uri, branch=None if into == "main" else "x")
    found = target.branches.merge("x" if into == "main" else "main")
    assert rows_of(found) == [{"id": i, "a": a} for i, a in ((1, 11), (2, 20), (3, 30), (4, 40))]


@pytest.mark.parametrize("into", ["main", "one"])
def test_a_column_that_only_one_of_two_bases_has_and_both_sides_renamed_is_a_conflict(
    into: str, uri: str
) -> None:
    main = lw.create(uri, pa.table({"id": [1, 2]}))
    one = main.branches.create("one")
    two = main.branches.create("two")
    one = one.add_columns({"c": "id * 10"})
    two = two.branches.merge("one").rename_column("c", "d")
    main = main.append(pa.table({"id": [3]}))
    one = one.rename_column("c", "e").branches.merge("main")
    main = main.branches.merge("two")
    target, other = (main, "one") if into == "main" else (one, "main")
    with pytest.raises(lw.MergeConflictError, match=r"'c': renamed to \w here, renamed"):
        target.branches.merge(other)


# Rows of ours in files that lack what theirs cast


@pytest.mark.parametrize("change", ["compact", "update"])
def test_rows_that_theirs_has_without_a_cast_column_keep_their_cells_of_it(
    change: str, uri: str
) -> None:
    """A file of the branch came to main before the branch had the column: a cast of it on main
    writes nothing for these rows, and the branch has written them anew."""
    main = lw.create(uri, pa.table({"id": [1, 2], "a": [10, 20]}))
    branch = main.branches.create("b")
    main.add_columns({"c": "id * 100"})
    branch = branch.append(pa.table({"id": [3, 4], "a": [30, 40]}))
    main = main.latest().branches.merge("b")
    branch = branch.branches.merge("main")
    branch = branch.compact() if change == "compact" else branch.update({"c": "777"}, "id = 3")
    main.cast_column("c", pa.string())
    merged = branch.branches.merge("main")
    third = None if change == "compact" else "777"
    cells = {1: "100", 2: "200", 3: third, 4: None}
    assert rows_of(merged) == [{"id": i, "a": 10 * i, "c": c} for i, c in cells.items()]


# Comparing versions on both sides of a change


@every_change
def test_a_moved_row_is_told_as_updated_in_the_cells_that_have_other_values(
    change: Change, uri: str
) -> None:
    table = lw.create(uri, change.data(1, 2, 3, 4))
    table = change.apply(table).update({"n": "5"}, "id = 1", rewrite="rows").compact()
    told = table.diff(1, table.version)
    rows = told.to_arrow().to_pylist()
    assert [(row["_change"], row["after"]["id"], row["_columns"]) for row in rows] == [
        ("updated", 1, ["n"])
    ]
    assert told.stat().cells == {"n": 1}
    assert told.stat().unchanged == 3


@every_change
def test_a_cell_that_changed_beside_a_change_of_its_column_is_told(
    change: Change, uri: str
) -> None:
    table = lw.create(uri, change.data(1, 2, 3, 4))
    first, table = table.version, change.apply(table)
    changed = change.data(2, is_after=True)
    cells = change.data(20, is_after=True).column(1)
    table = table.merge(changed.set_column(1, changed.field(1), cells), on="id")
    rows = table.diff(first, table.version).to_arrow().to_pylist()
    assert [(row["after"]["id"], row["_columns"]) for row in rows] == [(2, [change.name_after])]
    assert rows[0]["before"]["c"] == change.cell(2)
    assert rows[0]["after"][change.name_after] == change.cell_after(20)


@pytest.mark.parametrize("change", RENAMES, ids=str)
def test_blame_names_the_version_that_wrote_a_cell_not_the_one_that_renamed_it(
    change: Change, uri: str
) -> None:
    table = lw.create(uri, change.data(1, 2, 3, 4))
    table = change.apply(table).update({"n": "5"}, "id = 1", rewrite="rows").compact()
    told = table.blame("id = 1", cells=True).to_arrow().to_pylist()
    written = {row["_column"]: row["_written"]["version"] for row in told}
    assert written[change.name_after] == 1
    assert written["n"] == 1 + len(change.steps) + 1

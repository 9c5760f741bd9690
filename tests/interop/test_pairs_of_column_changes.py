"""Every pair of changes of one column, on two sides that both write rows, and every way to bring
the sides together: whatever is not refused has every cell.

The column stands by itself, in a struct, or in the struct of a list. A table of plain dicts knows
it by identity, whatever it is called, and both implementations read what came of it.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

import pyarrow as pa
import pytest
from tests.pylance import judged

import lancewood as lw

Column: TypeAlias = tuple[str, pa.DataType]
"""Name and type."""
Where: TypeAlias = Literal["top", "struct", "list"]
INT = pa.int64()
OLD = "the column"
"""What is changed; what a change adds is another column, also if both sides add it."""


@dataclass(frozen=True)
class State:
    """The columns of one side by identity, and its rows: ``n`` and cells by identity."""

    columns: Mapping[str, Column]
    rows: Mapping[int, Mapping[str, int | None]]
    recast: bool = False
    """Whether the old column was cast, be it to another type and back."""

    def named(self, name: str) -> str | None:
        return next((each for each, (own, _) in self.columns.items() if own == name), None)


START = State({OLD: ("c", INT)}, {i: {"n": 0, OLD: 10 * i} for i in (1, 2, 3, 4)})


@dataclass
class Side:
    """A table that is changed, and the model of it."""

    table: lw.Table
    where: Where
    state: State = field(default=START)

    def cast(self, kind: pa.DataType) -> None:
        name, _ = self.state.columns[OLD]
        self.table = self.table.cast_column(self._path(name), kind)
        columns = {**self.state.columns, OLD: (name, kind)}
        self.state = replace(self.state, columns=columns, recast=True)

    def rename(self) -> None:
        name, kind = self.state.columns[OLD]
        new = "c2" if name == "c" else "c3"
        self.table = self.table.rename_column(self._path(name), new)
        self.state = replace(self.state, columns={**self.state.columns, OLD: (new, kind)})

    def drop(self) -> None:
        name, _ = self.state.columns[OLD]
        self.table = self.table.drop_columns([self._path(name)])
        left = {each: own for each, own in self.state.columns.items() if each != OLD}
        rows = {
            number: {each: cell for each, cell in row.items() if each != OLD}
            for number, row in self.state.rows.items()
        }
        self.state = replace(self.state, columns=left, rows=rows)

    def add(self) -> None:
        """A column of the name that the old one has had first."""
        name = "c" if self.state.named("c") is None else "more"
        self.table = self.table.add_columns({name: "id * 100"})
        rows = {number: {**row, name: 100 * number} for number, row in self.state.rows.items()}
        columns = {**self.state.columns, name: (name, INT)}
        self.state = replace(self.state, columns=columns, rows=rows)

    def write(self, new: int, old: int) -> None:
        """Append a row, and update another one."""
        self.table = self.table.update({"n": "5"}, f"id = {old}", rewrite="rows")
        self.table = self.table.append(self.row(self.table.schema, new))
        rows = {
            **self.state.rows,
            old: {**self.state.rows[old], "n": 5},
            new: self.cells(new),
        }
        self.state = replace(self.state, rows=rows)

    def cells(self, number: int) -> dict[str, int | None]:
        given = {each: (10 if each == OLD else 100) * number for each in self.state.columns}
        return {"n": 0, **given}

    def row(self, schema: pa.Schema, number: int) -> pa.Table:
        cells = self.cells(number)
        values: dict[str, Any] = {
            name: str(cells[each]) if pa.types.is_string(kind) else cells[each]
            for each, (name, kind) in self.state.columns.items()
        }
        inner = {**values, "w": number}
        outer: dict[str, Any] = {"id": number, "n": 0, **values, "s": inner, "l": [inner]}
        return pa.table([pa.array([outer[each.name]], each.type) for each in schema], schema=schema)

    def _path(self, name: str) -> str:
        return {"top": name, "struct": f"s.{name}", "list": f"l.item.{name}"}[self.where]


Change: TypeAlias = Callable[[Side], None]


def steps(*given: Change) -> Change:
    def run(side: Side) -> None:
        for each in given:
            each(side)

    return run


def cast(kind: pa.DataType) -> Change:
    return lambda side: side.cast(kind)


CHANGES: dict[str, Change] = {
    "nothing": steps(),
    "int32": cast(pa.int32()),
    "float64": cast(pa.float64()),
    "string": cast(pa.string()),
    "renamed": Side.rename,
    "dropped": Side.drop,
    "dropped, added": steps(Side.drop, Side.add),
    "renamed, added": steps(Side.rename, Side.add),
    "int32, renamed": steps(cast(pa.int32()), Side.rename),
    "renamed, int32": steps(Side.rename, cast(pa.int32())),
    "int32, int64": steps(cast(pa.int32()), cast(INT)),
}
WAYS = ("merge into main", "merge into the branch", "publish", "pick", "revert", "old handle")


def created(where: Where) -> pa.Table:
    """Four rows."""
    numbers = pa.array([*START.rows], INT)
    cells = [10 * each for each in START.rows]
    inner = [{"c": cell, "w": each} for cell, each in zip(cells, START.rows, strict=True)]
    struct = pa.struct([("c", INT), ("w", INT)])
    columns: dict[Where, tuple[str, pa.Array[Any]]] = {
        "top": ("c", pa.array(cells, INT)),
        "struct": ("s", pa.array(inner, struct)),
        "list": ("l", pa.array([[each] for each in inner], pa.list_(struct))),
    }
    name, column = columns[where]
    return pa.table({"id": numbers, "n": pa.array([0] * 4, INT), name: column})


class Conflict(Exception):
    """Two sides that do not go together."""


def three_way(base: State, ours: State, theirs: State) -> State:
    """What both sides make of the base; raises Conflict."""
    columns: dict[str, Column] = {}
    for each in dict.fromkeys((*ours.columns, *theirs.columns)):
        old, mine, other = (side.columns.get(each) for side in (base, ours, theirs))
        kept = mine or other
        assert kept is not None
        if mine is not None and other is not None:
            columns[each] = _one_of(old, mine, other)
        elif old is None:
            columns[each] = kept
        elif kept != old:
            raise Conflict(f"{each} was dropped, and changed")
    if len({name for name, _ in columns.values()}) < len(columns):
        raise Conflict("two columns have one name")
    sides, names = (base.rows, ours.rows, theirs.rows), ("n", *columns)
    rows = {
        number: {each: _cell(each, *(side.get(number) for side in sides)) for each in names}
        for number in live(base, ours, theirs)
    }
    return State(columns, rows)


def live(base: State, ours: State, theirs: State) -> set[int]:
    """The rows that are left: what one side deleted is gone, what one side put in is there."""
    new = {*ours.rows, *theirs.rows} - {*base.rows}
    return new | {*base.rows} & {*ours.rows} & {*theirs.rows}


def _one_of(old: Column | None, mine: Column, other: Column) -> Column:
    if old is None:
        if mine != other:
            raise Conflict(f"{mine} and {other} were added")
        return mine
    united = []
    for was, one, two in zip(old, mine, other, strict=True):
        if one != was and two not in (was, one):
            raise Conflict(f"{old} became {mine} and {other}")
        united.append(two if one == was else one)
    return united[0], united[1]


def _cell(name: str, *sides: Mapping[str, int | None] | None) -> int | None:
    old, mine, other = (None if side is None else side.get(name) for side in sides)
    return other if mine in (None, old) else mine


def read(table: lw.Table, where: Where) -> dict[int, dict[str, Any]]:
    """The rows as both read them, by id: ``n``, and the cells by name."""
    ours = table.scan().to_arrow()
    theirs = judged(table.uri, version=table.version).to_table()
    assert ours.schema.equals(theirs.schema)
    assert ours.to_pylist() == theirs.to_pylist()
    report = table.verify()
    assert report.ok, report.problems
    found = {}
    for row in ours.to_pylist():
        if where != "top":
            inner = row.pop("s") if where == "struct" else row.pop("l")[0]
            del inner["w"]
            row |= inner
        number = row.pop("id")
        assert number not in found
        found[number] = {name: None if cell is None else float(cell) for name, cell in row.items()}
    return found


def shown(state: State) -> dict[int, dict[str, Any]]:
    """What the model says that is read."""
    return {
        number: {"n": row["n"]} | {name: row[each] for each, (name, _) in state.columns.items()}
        for number, row in state.rows.items()
    }


@dataclass(frozen=True)
class Case:
    """A pair, in one place, with the order of each side's steps, brought together in one way."""

    way: str
    where: Where
    ours: str
    theirs: str
    rows_first: bool

    def __str__(self) -> str:
        order = "rows first" if self.rows_first else "columns first"
        return f"{self.way}-{self.where}-{self.ours}-{self.theirs}-{order}"

    def on(self, side: Side, change: str, new: int, old: int) -> Side:
        if self.rows_first:
            side.write(new, old)
        CHANGES[change](side)
        if not self.rows_first:
            side.write(new, old)
        return side

    @property
    def replaces(self) -> bool:
        """Whether a side put another column in the place of the old one.

        By its name that is the same column, of which all cells were changed; by its id another one.
        """
        return "dropped, added" in (self.ours, self.theirs)

    @property
    def may_be_refused(self) -> bool:
        """Whether a refusal is a right answer although the model has another one."""
        both_change = "nothing" not in (self.ours, self.theirs)
        if self.way in ("publish", "old handle"):
            return both_change or not {self.ours, self.theirs} <= {"nothing", "renamed"}
        return self.replaces or (self.where != "top" and both_change)


def cases() -> list[Case]:
    found = []
    places: tuple[Where, ...] = ("top", "struct", "list")
    for way, where, ours, theirs, rows_first in itertools.product(
        WAYS, places, CHANGES, CHANGES, (False, True)
    ):
        adds = "added" in ours or "added" in theirs
        has_nothing_left = way == "revert" and "dropped" in theirs and ours != "nothing"
        if not (adds and where != "top") and not has_nothing_left:
            found.append(Case(way, where, ours, theirs, rows_first))
    return found


@pytest.mark.sliced(101)
@pytest.mark.parametrize("case", cases(), ids=str)
def test_each_pair_of_changes_is_refused_or_keeps_every_cell(case: Case, tmp_path: Path) -> None:
    if case.way in ("pick", "revert"):
        _in_a_repository(case, tmp_path / "zoo")
    elif case.way == "old handle":
        _from_an_old_handle(case, str(tmp_path / "t.lance"))
    else:
        _on_a_branch(case, str(tmp_path / "t.lance"))


def _on_a_branch(case: Case, uri: str) -> None:
    main = lw.create(uri, created(case.where), layout=lw.Layout(max_rows_per_file=2))
    branch = main.branches.create("b")
    ours = case.on(Side(main, case.where), case.ours, 50, 1)
    theirs = case.on(Side(branch, case.where), case.theirs, 60, 2)
    bring: dict[str, Callable[[], lw.Table]] = {
        "merge into main": lambda: lw.open(uri).branches.merge("b"),
        "merge into the branch": lambda: lw.open(uri, branch="b").branches.merge("main"),
        "publish": lambda: lw.open(uri).branches.publish("b"),
    }
    target = theirs if case.way == "merge into the branch" else ours
    other = ours if target is theirs else theirs
    _judge(case, START, target, other, bring[case.way])


def _in_a_repository(case: Case, root: Path) -> None:
    repo = lw.Repository.init(root)
    with repo.transaction("main", "begin") as changes:
        changes.create_table("t", created(case.where), layout=lw.Layout(max_rows_per_file=2))
    branch = "exp" if case.way == "pick" else "main"
    if case.way == "pick":
        repo.branches.create("exp")
    with repo.transaction(branch, "theirs") as changes:
        theirs = case.on(Side(changes.table("t"), case.where), case.theirs, 60, 2)
    start = START if case.way == "pick" else theirs.state
    with repo.transaction("main", "ours") as changes:
        side = Side(changes.table("t"), case.where, replace(start, recast=False))
        ours = case.on(side, case.ours, 50, 1)
    ours.table = repo.at().table("t")

    def bring() -> lw.Table:
        repo.cherry_pick("exp") if case.way == "pick" else repo.revert("HEAD~1")
        return repo.at().table("t")

    if case.way == "pick":
        _judge(case, START, ours, theirs, bring)
    else:
        before = Side(ours.table, case.where, replace(START, recast=theirs.state.recast))
        _judge(case, start, ours, before, bring)


def _judge(
    case: Case, base: State, ours: Side, theirs: Side, bring: Callable[[], lw.Table]
) -> None:
    before = read(ours.table, case.where)
    assert before == shown(ours.state)
    right = None
    with contextlib.suppress(Conflict):
        right = three_way(base, ours.state, theirs.state)
    try:
        after = bring()
    except lw.LancewoodError:
        assert read(ours.table.latest(), case.where) == before
        is_recast = ours.state.recast or theirs.state.recast
        is_dropped = right is not None and OLD not in right.columns
        if right is not None and not case.may_be_refused and not (is_dropped and is_recast):
            raise
        return
    found = read(after, case.where)
    if case.replaces:
        assert found.keys() == live(base, ours.state, theirs.state)
        for number, row in found.items():
            cells = {cell for name, cell in row.items() if name != "n"}
            assert cells <= {None, 10 * number, 100 * number}
    elif right is None:
        check_that_the_old_cells_are_there(found, live(base, ours.state, theirs.state))
    else:
        assert found == shown(right)


def check_that_the_old_cells_are_there(
    found: Mapping[int, Mapping[str, Any]], numbers: Set[int]
) -> None:
    """One of the columns, whatever it is called, holds what the old one did, in all rows."""
    assert found.keys() == numbers
    columns = [{number: row[name] for number, row in found.items()} for name in found[1]]
    assert {number: 10 * number for number in numbers} in columns, found


def _from_an_old_handle(case: Case, uri: str) -> None:
    """The second side's steps are made on the first version, and find that the table went on."""
    table = lw.create(uri, created(case.where), layout=lw.Layout(max_rows_per_file=2))
    old = Side(table, case.where)
    ours = case.on(Side(lw.open(uri), case.where), case.ours, 50, 1)
    rows = {number: row["n"] for number, row in ours.state.rows.items()}

    def append() -> None:
        before = lw.open(uri).version
        try:
            table.append(old.row(table.schema, 60))
        except lw.LancewoodError:
            assert case.may_be_refused
            assert lw.open(uri).version == before
        else:
            rows[60] = 0

    def change() -> None:
        with contextlib.suppress(lw.LancewoodError):
            CHANGES[case.theirs](old)

    for step in (append, change) if case.rows_first else (change, append):
        step()
    found = read(lw.open(uri), case.where)
    assert {number: row["n"] for number, row in found.items()} == rows
    if OLD in ours.state.columns and OLD in old.state.columns:
        check_that_the_old_cells_are_there(found, rows.keys())

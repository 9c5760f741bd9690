"""What columns live through on several branches, in plain dicts: they are known by numbers,
whatever they are called, and so are fields inside of structs and lists.

Knows no table, no file and no version.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import pyarrow as pa

KEY = "k"
Number: TypeAlias = int
Shape: TypeAlias = Literal["value", "struct", "list"]


@dataclass(frozen=True)
class Node:
    """A column, or a field inside of one."""

    name: str
    kind: pa.DataType | None = None
    """None of a struct, and of a list of structs."""
    shape: Shape = "value"
    parent: Number | None = None
    casts: int = 0
    life: int = 0
    """Another one each time that it is brought back after it was dropped."""
    is_picked: bool = field(default=False, compare=False)
    """Whether it came by a pick or a revert: nothing tells then which column of another branch it
    is, but its name."""


Cells: TypeAlias = Mapping[Number, Any]
"""By number of the column, or of the field; of a field in a list those of all its items."""


@dataclass(frozen=True)
class State:
    """Columns and fields by number, and rows by key."""

    nodes: Mapping[Number, Node]
    rows: Mapping[int, Cells]

    def below(self, parent: Number | None) -> list[Number]:
        return [each for each, node in self.nodes.items() if node.parent == parent]

    def leaves(self) -> list[Number]:
        return [each for each, node in self.nodes.items() if node.shape == "value"]

    def path(self, number: Number) -> str:
        """The dotted name."""
        node = self.nodes[number]
        if node.parent is None:
            return node.name
        item = ".item" if self.nodes[node.parent].shape == "list" else ""
        return f"{self.path(node.parent)}{item}.{node.name}"

    def top(self, number: Number) -> Number:
        parent = self.nodes[number].parent
        return number if parent is None else self.top(parent)

    def numbers(self) -> dict[tuple[Number | None, str], Number]:
        """By name, and by what it is in."""
        return {(node.parent, node.name): each for each, node in self.nodes.items()}

    def with_node(self, number: Number, node: Node) -> State:
        return replace(self, nodes={**self.nodes, number: node})

    def without(self, number: Number) -> State:
        gone = {number, *self.below(number)}
        nodes = {each: node for each, node in self.nodes.items() if each not in gone}
        rows = {
            key: {each: cell for each, cell in cells.items() if each not in gone}
            for key, cells in self.rows.items()
        }
        return State(nodes, rows)

    def with_rows(self, rows: Mapping[int, Cells]) -> State:
        return replace(self, rows={**self.rows, **rows})

    def row(self, key: int) -> dict[str, Any]:
        """A row as it is written."""
        cells = self.rows[key]
        return {KEY: key, **{self.nodes[n].name: self._cell(n, cells) for n in self.below(None)}}

    def _cell(self, number: Number, cells: Cells) -> Any:
        node, fields = self.nodes[number], self.below(number)
        if node.shape == "value":
            return as_kind(node.kind, cells.get(number))
        inner = {self.nodes[each].name: cells.get(each) for each in fields}
        kinds = {self.nodes[each].name: self.nodes[each].kind for each in fields}
        if all(cell is None for cell in inner.values()):
            return None
        if node.shape == "struct":
            return {name: as_kind(kinds[name], cell) for name, cell in inner.items()}
        return [
            {name: as_kind(kinds[name], cell) for name, cell in zip(inner, item, strict=True)}
            for item in zip(*inner.values(), strict=True)
        ]


def as_kind(kind: pa.DataType | None, value: Any) -> Any:
    if value is None or kind is None:
        return value
    return str(value) if is_text(kind) else value


def is_text(kind: pa.DataType | None) -> bool:
    return kind in (pa.string(), pa.large_string())


def plain(value: Any) -> Any:
    """The whole number that a value of any type stands for."""
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    return None if value is None else int(float(value))


def read_cells(
    row: Mapping[str, Any], names: Mapping[tuple[Number | None, str], Number]
) -> dict[Number, Any]:
    """The cells of a row, by number."""
    found: dict[Number, Any] = {}
    tops = {number: name for (parent, name), number in names.items() if parent is None}
    inside = {
        top: {name: number for (parent, name), number in names.items() if parent == top}
        for top in tops
    }
    for top, name in tops.items():
        value, fields = row[name], inside[top]
        if not fields:
            found[top] = plain(value)
        for field_name, number in fields.items():
            if isinstance(value, list):
                cells = tuple(plain(item[field_name]) for item in value)
                found[number] = cells if any(cell is not None for cell in cells) else None
            else:
                found[number] = None if value is None else plain(value[field_name])
    return found


@dataclass
class Brought:
    """What must come of two sides with a base."""

    state: State
    refusals: list[str] = field(default_factory=list)
    """Why it must be refused."""
    doubts: list[str] = field(default_factory=list)
    """Why it may be refused; what is not must still hold what both sides agree on."""


def bring(base: State, ours: State, theirs: State) -> Brought:
    """What comes of two sides, cell by cell and column by column."""
    found = Brought(State({}, {}))
    nodes = dict(_nodes(base, ours, theirs, found))
    nodes = {n: node for n, node in nodes.items() if node.parent is None or node.parent in nodes}
    left = State(nodes, {})
    for number, node in nodes.items():
        if node.shape != "value" and not left.below(number):
            found.doubts.append(f"nothing is left of {node.name}")
    if len(left.numbers()) < len(nodes):
        found.doubts.append("one name for two columns")
    rows = {}
    for key in {**ours.rows, **theirs.rows}:
        three = tuple(side.rows.get(key) for side in (base, ours, theirs))
        if three[0] is not None and None in three[1:]:
            one = three[1] if three[2] is None else three[2]
            if one is not None and _differ(three[0], one):
                found.doubts.append(f"row {key} was deleted and changed")
            continue
        rows[key] = {number: _cell(number, three, key, found) for number in left.leaves()}
        for top in left.below(None) if None not in three else ():
            cells = [{each: row.get(each) for each in left.below(top)} for row in three if row]
            if cells[0] not in cells[1:] and cells[1] != cells[2]:
                found.doubts.append(f"row {key} has two new values of {nodes[top].name}")
    found.state = replace(left, rows=rows)
    return found


def _nodes(
    base: State, ours: State, theirs: State, found: Brought
) -> Iterator[tuple[Number, Node]]:
    for number in {**ours.nodes, **theirs.nodes}:
        old, mine, other = (side.nodes.get(number) for side in (base, ours, theirs))
        if mine is not None and other is not None:
            yield number, _node(old, mine, other, found)
            continue
        holder, kept = (ours, mine) if mine is not None else (theirs, other)
        assert kept is not None
        if old is None:
            yield number, kept
        elif kept.life != old.life:
            found.doubts.append(f"{kept.name} was dropped, and came back")
        elif kept.casts != old.casts:
            found.doubts.append(f"{kept.name} was dropped and cast")
        elif _rewritten(number, base, holder):
            found.refusals.append(f"{old.name} was dropped, and its cells changed")
        elif kept.name != old.name:
            found.doubts.append(f"{old.name} was dropped and renamed")
    for number in base.below(None):
        fields = {*ours.below(number), *theirs.below(number)}
        if fields - {*base.below(number)}:
            found.doubts.append(f"{base.nodes[number].name} got fields back, so that cells changed")
        sides = (_told(base, number), _told(ours, number), _told(theirs, number))
        if base.nodes[number].shape != "value" and sides[0] not in sides[1:]:
            found.doubts.append(f"both changed fields of {base.nodes[number].name}")


def _node(old: Node | None, mine: Node, other: Node, found: Brought) -> Node:
    if old is None:
        if (mine.name, mine.kind) != (other.name, other.kind):
            found.doubts.append(f"{mine.name} and {other.name} became one")
        return mine
    if mine.name != old.name and other.name not in (mine.name, old.name):
        found.doubts.append(f"{old.name} was renamed twice")
    if mine.casts != old.casts and other.casts != old.casts:
        found.doubts.append(f"{old.name} was cast twice")
    cast = mine if mine.casts != old.casts else other
    name = other.name if mine.name == old.name else mine.name
    return replace(mine, name=name, kind=cast.kind, casts=cast.casts)


def _told(state: State, top: Number) -> object:
    """What is known of a column and of its fields."""
    return {each: state.nodes.get(each) for each in (top, *state.below(top))}


def _rewritten(number: Number, base: State, holder: State) -> bool:
    leaves = {number, *base.below(number)} & {*base.leaves()} & {*holder.leaves()}
    return any(
        cells.get(leaf) != holder.rows[key].get(leaf)
        for key, cells in base.rows.items()
        if key in holder.rows
        for leaf in leaves
    )


def _differ(one: Cells, other: Cells) -> bool:
    return any(one[each] != other[each] for each in one.keys() & other.keys())


def _cell(number: Number, three: tuple[Cells | None, ...], key: int, found: Brought) -> Any:
    base, *sides = three
    known = [side[number] for side in sides if side is not None and number in side]
    if len(known) < 2 or known[0] == known[1]:
        return known[0] if known else None
    if base is not None and base.get(number) in known:
        return known[1] if known[0] == base.get(number) else known[0]
    found.doubts.append(f"row {key} has two new cells")
    return known[0]


def are_twins(base: State, ours: State, theirs: State) -> bool:
    """Whether a column may be one or two: it came back on one side; or it was picked, and renamed
    since, or both sides have it, the base has not, and their names differ. No cell is lost then."""
    for number in ours.nodes.keys() & theirs.nodes.keys():
        mine, other, old = ours.nodes[number], theirs.nodes[number], base.nodes.get(number)
        if mine.life != other.life:
            return True
        nodes = [each for each in (mine, other, old) if each is not None]
        may_be_two = old is None or any(each.is_picked for each in nodes)
        if may_be_two and len({each.name for each in nodes}) > 1:
            return True
    return False


def losses(ours: State, theirs: State, found: State) -> Iterator[str]:
    """What two sides have, and a state that both were brought to has not, whatever their base."""
    for number in ours.nodes.keys() & theirs.nodes.keys():
        if number not in found.nodes:
            yield f"column {ours.path(number)} is not there"
    for key in ours.rows.keys() & theirs.rows.keys():
        if key not in found.rows:
            yield f"row {key} is not there"
    for key, cells in found.rows.items():
        sides = [side.rows[key] for side in (ours, theirs) if key in side.rows]
        for number, cell in cells.items():
            known = [side[number] for side in sides if number in side]
            if cell not in (known or [None]):
                yield f"{found.path(number)} of row {key} is one of {known}, not {cell}"

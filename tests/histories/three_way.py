"""What a merge by rows must come to, in plain dicts: rows, virtual bases, conflicts, strategies.

A state is its rows by id. Knows no table, no file and no version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations, product
from typing import Any, Literal, TypeAlias

import lancewood as lw

Row: TypeAlias = Mapping[str, Any]
State: TypeAlias = Mapping[int, Row]
Three: TypeAlias = tuple[Row | None, Row | None, Row | None]
"""Base, ours, theirs; None where the row is not there."""


@dataclass(frozen=True)
class Strategy:
    """How conflicts are decided: what the merge is asked for, and what that means."""

    name: str
    resolve: Any = None
    detect: Literal["cells", "rows"] = "cells"
    cell: Mapping[str, Callable[[Any, Any, Any], Any]] = field(default_factory=dict)
    """By column: what becomes of a cell in conflict, of those of base, ours and theirs."""
    wins: Callable[[Row, Row], bool] | None = None
    """Whether theirs wins."""
    deletes: Literal["win", "lose"] | None = None
    rows: int | None = None
    """The side that decides the rest."""


def _sum(base: Any, ours: Any, theirs: Any) -> Any:
    return None if None in (base, ours, theirs) else ours + theirs - base


def _more(ours: Row, theirs: Row) -> bool:
    return None not in (ours["n"], theirs["n"]) and theirs["n"] > ours["n"]


STRATEGIES = (
    Strategy("none"),
    Strategy("ours", "ours", rows=1),
    Strategy("theirs", "theirs", rows=2),
    Strategy("base", "base", rows=0),
    Strategy("a sum", {"n": "ours.n + theirs.n - base.n"}, cell={"n": _sum}),
    Strategy(
        "a sum, else theirs",
        lw.Resolve(columns={"n": "ours.n + theirs.n - base.n"}, rows="theirs"),
        cell={"n": _sum},
        rows=2,
    ),
    Strategy("deletes win", lw.Resolve(deletes="win"), deletes="win"),
    Strategy(
        "deletes lose, else ours",
        lw.Resolve(deletes="lose", rows="ours"),
        "cells",
        {},
        None,
        "lose",
        1,
    ),
    Strategy(
        "winner",
        lw.Resolve(winner="theirs.n > ours.n", deletes="win"),
        wins=_more,
        deletes="win",
    ),
    Strategy("by rows", detect="rows"),
    Strategy("by rows, theirs", "theirs", "rows", rows=2),
)


@dataclass(frozen=True)
class Conflict:
    """A row that nothing decides."""

    kind: str
    columns: frozenset[str]


@dataclass(frozen=True)
class Union:
    """What a merge comes to: rows, or conflicts by the id that the row has in ours, else theirs."""

    rows: State
    conflicts: Mapping[int, Conflict]
    elsewhere: Mapping[int, int]
    """Of rows that theirs inserted anew, and ours had: the id there, and that of ours."""

    def in_our_terms(self, found: State) -> State:
        """The rows that were found, under the ids that they have here.

        Where only theirs changed a row it may come with the id that it has there.
        """
        return {self.elsewhere.get(number, number): row for number, row in found.items()}


def merged(three: Three, strategy: Strategy) -> Row | Conflict | None:
    """What becomes of a row. A side may have columns that others do not have."""
    base, ours, theirs = three
    if ours is None or theirs is None:
        return _one_sided(three, strategy)
    result = {**theirs, **ours}
    shared, before = ours.keys() & theirs.keys(), {} if base is None else base
    apart = {name for name in shared if ours[name] != theirs[name]}
    met = set(apart)
    if base is not None:
        met = {name for name in apart if before.get(name) not in (ours[name], theirs[name])}
        result |= {name: theirs[name] for name in apart if before.get(name) == ours[name]}
        if strategy.detect == "rows" and has_changed(base, ours) and has_changed(base, theirs):
            met, result = apart, {**theirs, **ours}
    for name in met & strategy.cell.keys():
        result[name] = strategy.cell[name](before.get(name), ours[name], theirs[name])
    met = met - strategy.cell.keys()
    if met and strategy.wins is not None:
        chosen = theirs if strategy.wins(ours, theirs) else ours
        return result | {name: chosen[name] for name in met}
    if met and strategy.rows is not None:
        decided = three[strategy.rows]
        return None if decided is None else result | {name: decided.get(name) for name in met}
    kind = "insert/insert" if base is None else "update/update"
    return Conflict(kind, frozenset(met)) if met else result


def has_changed(base: Row, row: Row) -> bool:
    """Whether a side changed a row: new columns change none."""
    return any(base[name] != row[name] for name in base.keys() & row.keys())


def _has_more(base: Row, row: Row) -> bool:
    """Whether a row has a value in a new column. Where bases are put together that keeps it from
    being deleted: else it would come back as a new one from the side that still has it."""
    return any(row[name] is not None for name in row.keys() - base.keys())


def _one_sided(three: Three, strategy: Strategy) -> Row | Conflict | None:
    """A row that not both sides have."""
    base, ours, theirs = three
    row = theirs if ours is None else ours
    if row is None or base is None:
        return row
    if not has_changed(base, row) and not (strategy is _LOWER and _has_more(base, row)):
        return None
    if strategy.deletes is not None:
        return None if strategy.deletes == "win" else row
    if strategy.rows is not None:
        return three[strategy.rows]
    return Conflict("update/delete" if theirs is None else "delete/update", frozenset())


def united(base: State, ours: State, theirs: State, strategy: Strategy, key: str | None) -> Union:
    """What two states become that come from a base."""
    rows, conflicts, elsewhere = dict[int, Row](), dict[int, Conflict](), dict[int, int]()
    for number, there, three in same_rows(base, ours, theirs, key):
        found = merged(three, strategy)
        before, mine, _ = three
        if there != number and before and mine and not has_changed(before, mine):
            elsewhere[there] = number
        if isinstance(found, Conflict):
            conflicts[number] = found
        elif found is not None:
            rows[number] = found
    names = {name for side in (ours, theirs) for row in side.values() for name in row}
    filled = {number: {**dict.fromkeys(names), **row} for number, row in rows.items()}
    return Union(filled, conflicts, elsewhere)


def same_rows(
    base: State, ours: State, theirs: State, key: str | None
) -> Iterator[tuple[int, int, Three]]:
    """Each row with its ids here and there, as all have it: they are one by their id, or by their
    key where a side inserted it anew."""
    sides = (base, ours, theirs)
    groups: dict[int, list[int | None]] = {
        number: [number if number in side else None for side in sides]
        for number in {*base, *ours, *theirs}
    }
    if key is not None:
        _pair(groups, sides, key)
    for known in groups.values():
        found = [None if n is None else side[n] for n, side in zip(known, sides, strict=True)]
        at = next(each for each in (known[1], known[2], known[0]) if each is not None)
        yield at, at if known[2] is None else known[2], (found[0], found[1], found[2])


def _pair(groups: dict[int, list[int | None]], sides: Sequence[State], key: str) -> None:
    """Rows that not all have, and that have one key, are one, unless a side has two of them."""
    known: dict[Any, int] = {}
    for number, own in [*groups.items()]:
        if None not in own:
            continue
        value = next(side[number][key] for side in sides if number in side)
        first = groups[known.setdefault(value, number)]
        if value is None or first is own:
            continue
        if all(None in each for each in zip(first, own, strict=True)):
            first[:] = [
                here if there is None else there for here, there in zip(first, own, strict=True)
            ]
            del groups[number]


@dataclass
class Graph:
    """Commits: what each holds, and what it holds of others."""

    states: list[State] = field(default_factory=list)
    holds: list[frozenset[int]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    def add(self, line: str, state: State, held: frozenset[int]) -> int:
        """A commit of a line that holds others."""
        number = len(self.states)
        self.states.append(state)
        self.lines.append(line)
        self.holds.append(held | {number})
        return number

    def bases(self, one: int, other: int) -> list[int]:
        """The newest commit of each line that both hold, without those that another one holds.

        A version that was restored holds all earlier ones of its line, not what they held."""
        common = sorted(self.holds[one] & self.holds[other])
        newest = {*{self.lines[each]: each for each in common}.values()}
        return [
            each
            for each in sorted(newest)
            if not any(each in self.holds[later] for later in newest - {each})
        ]

    def virtual_bases(self, one: int, other: int, key: str | None) -> list[State]:
        """What the base may be. Of several bases it is what they become when they are merged, one
        after the other in some order, and where two do not go together what is below them, which
        may again be several. A row that was inserted again may be another one there."""
        found = list[State]()
        for first, *others in permutations(self.bases(one, other)):
            below = [self.virtual_bases(first, each, key) or [{}] for each in others]
            for by, lows in product({key, None}, product(*below)):
                state = self.states[first]
                for each, low in zip(others, lows, strict=True):
                    state = united(low, state, self.states[each], _LOWER, by).rows
                if state not in found:
                    found.append(state)
        return found

    def unions(self, ours: int, theirs: int, strategy: Strategy, key: str | None) -> list[Union]:
        """What a merge may come to."""
        sides = self.states[ours], self.states[theirs]
        return [
            united(base, *sides, strategy, key) for base in self.virtual_bases(ours, theirs, key)
        ]


_LOWER = Strategy("what is below", rows=0)

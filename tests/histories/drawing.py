"""Random rows, conditions and new values, each as SQL text and as a function on plain values.

Everything comes from a ``random.Random`` that a rule was given a seed for, and depends on nothing
but the state it is drawn for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from random import Random
from typing import Any

import pyarrow as pa
from tests.histories.model import KEY, Column, State

INTEGERS = (pa.int32(), pa.int64())
TEXTS = (pa.string(), pa.large_string())
TAGS = pa.list_(pa.string())
VECTOR = pa.list_(pa.float32(), 2)
ADDED_NAMES = ("c0", "c1", "c2", "c3")
WIDER = {
    pa.int32(): pa.int64(),
    pa.int64(): pa.float64(),
    pa.string(): pa.large_string(),
    pa.float32(): pa.float64(),
}
"""Casts that lose nothing, in both implementations."""


def first_columns(numbers: Iterator[int], *, key_is_told: bool) -> tuple[Column, ...]:
    """The columns that a table begins with, the key first; the table may know that it is one."""

    def leaf(name: str, kind: pa.DataType) -> Column:
        return Column(next(numbers), name, kind)

    return (
        Column(next(numbers), KEY, pa.int64(), nullable=False, is_primary_key=key_is_told),
        leaf("a", pa.int32()),
        leaf("s", pa.string()),
        leaf("f", pa.float32()),
        Column(next(numbers), "n", None, (leaf("x", pa.int32()), leaf("y", pa.string()))),
        leaf("tags", TAGS),
        leaf("v", VECTOR),
    )


def value(column: Column, random: Random, *, null_structs: bool = True) -> Any:
    """One value of a column other than the key; files of version 2.0 hold no null structs."""
    if column.children:
        if null_structs and random.random() < 0.15:
            return None
        return {each.number: value(each, random) for each in column.children}
    if column.type == VECTOR:
        return [float(random.randrange(4)), 0.5] if random.random() > 0.2 else None
    if column.nullable and random.random() < 0.2:
        return None
    if column.type == TAGS:
        return random.choice([[], ["red"], ["red", None, "blue"], ["blue"]])
    if column.type in TEXTS:
        return random.choice(["", "x", "y", "ü"])
    if column.type in INTEGERS:
        return random.randrange(-3, 8)
    return random.randrange(-8, 8) / 4


def row(state: State, key: int, random: Random, *, null_structs: bool) -> dict[int, Any]:
    """A new row by the numbers of its columns."""
    values = {
        each.number: value(each, random, null_structs=null_structs) for each in state.columns[1:]
    }
    return {state.key.number: key, **values}


@dataclass(frozen=True)
class Where:
    """A condition on one column, by name, or on a child of a struct."""

    sql: str
    columns: tuple[str, ...]
    test: Callable[..., bool | None]

    def keys(self, state: State) -> frozenset[int] | None:
        """The keys of the rows that meet it; None if the state has not all of its columns."""
        found = set()
        for key, each in state.rows.items():
            shown = state.shown(each)
            if any(name not in shown for name in self.columns):
                return None
            if self.test(*(shown[name] for name in self.columns)):
                found.add(key)
        known = all(state.column(name) is not None for name in self.columns)
        return frozenset(found) if known else None


def where(state: State, random: Random) -> Where:
    """A condition that some of the rows meet, mostly."""
    keys = sorted(state.rows) or [0]
    low = random.choice(keys)
    options = [
        Where(f"{KEY} <= {low}", (KEY,), lambda k: k <= low),
        Where(f"{KEY} % 3 = {low % 3}", (KEY,), lambda k: k % 3 == low % 3),
        Where(f"{KEY} IN ({low}, {keys[-1]})", (KEY,), lambda k: k in (low, keys[-1])),
        Where(f"{KEY} >= {low} AND {KEY} < {low + 4}", (KEY,), lambda k: low <= k < low + 4),
    ]
    numbers = [each for each in state.columns[1:] if each.type in INTEGERS]
    texts = [each for each in state.columns if each.type in TEXTS]
    if numbers:
        name = random.choice(numbers).name
        bound = random.randrange(-2, 6)
        options += [
            Where(f"{name} > {bound}", (name,), lambda v: v is not None and v > bound),
            Where(f"{name} IS NULL", (name,), lambda v: v is None),
            Where(
                f"{name} = {bound} OR {KEY} = {low}",
                (name, KEY),
                lambda v, k: v == bound or k == low,
            ),
        ]
    if texts:
        text = random.choice(texts).name
        options.append(Where(f"{text} = 'x'", (text,), lambda v: v == "x"))
    for struct in (each for each in state.columns if each.children):
        inner = [each.name for each in struct.children if each.type in INTEGERS]
        if inner:
            child = inner[0]
            options.append(
                Where(
                    f"{struct.name}.{child} >= 2",
                    (struct.name,),
                    lambda v, child=child: v is not None and (v.get(child) or 0) >= 2,
                )
            )
    return random.choice(options)


@dataclass(frozen=True)
class Assignment:
    """A new value for a column, or for a child of a struct."""

    target: str
    given: Any
    """SQL text, or a value."""
    new: Callable[[Any], Any]
    """From the old value of the column or child."""

    def fits(self, state: State) -> bool:
        """Whether the state has the column."""
        name, _, child = self.target.partition(".")
        column = state.column(name)
        return column is not None and (
            not child or child in [each.name for each in column.children]
        )

    def applied(self, state: State, values: Mapping[int, Any]) -> tuple[int, Any]:
        """The number of the column, and its new value in a row with these values."""
        name, _, child = self.target.partition(".")
        column = state.column(name)
        assert column is not None
        old = values.get(column.number)
        if not child:
            return column.number, self.new(old)
        if old is None:
            return column.number, None
        (number,) = [each.number for each in column.children if each.name == child]
        return column.number, {**old, number: self.new(old[number])}


def assignments(state: State, random: Random, *, sql_only: bool) -> tuple[Assignment, ...]:
    """New values for one or two columns; ``sql_only`` keeps to what pylance takes."""
    options: list[Assignment] = []
    for column in state.columns[1:]:
        if column.type in INTEGERS:
            options.append(
                Assignment(
                    column.name, f"{column.name} + 1", lambda v: None if v is None else v + 1
                )
            )
            options.append(Assignment(column.name, "5", lambda v: 5))
        elif column.type in TEXTS:
            options.append(Assignment(column.name, "'new'", lambda v: "new"))
        elif sql_only:
            continue
        elif column.type == TAGS:
            options.append(Assignment(column.name, ["blue", None], lambda v: ["blue", None]))
        elif column.type == VECTOR:
            options.append(Assignment(column.name, [9.0, 1.0], lambda v: [9.0, 1.0]))
        elif column.children:
            options += [
                Assignment(f"{column.name}.{each.name}", 6, lambda v: 6)
                for each in column.children
                if each.type in INTEGERS
            ]
        elif column.nullable:
            options.append(Assignment(column.name, None, lambda v: None))
    chosen: dict[str, Assignment] = {}
    for each in random.sample(options, min(len(options), random.choice([1, 1, 2]))):
        chosen.setdefault(each.target.partition(".")[0], each)
    return tuple(chosen.values())


def fresh_numbers() -> Iterator[int]:
    """Numbers for columns, none of them twice."""
    return count()

"""Rules that change columns: add, drop, rename, cast, replace."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from tests.histories import by_pylance, drawing
from tests.histories.checks import indexed_numbers
from tests.histories.drawing import ADDED_NAMES, WIDER
from tests.histories.history import ROW_CHANGES, History, seeds, steps_back, who
from tests.histories.model import KEY, Column, Effect, State

import lancewood as lw

_MOST_COLUMNS = 12


class ColumnRules(History):
    """Names that columns are given are fresh, but for those of added ones, which may come back."""

    @precondition(lambda self: len(self.newest.columns) < _MOST_COLUMNS)
    @rule(
        seed=seeds,
        by=who,
        back=steps_back,
        how=st.sampled_from(["sql", "null", "function", "position", "join"]),
    )
    def add_column(self, seed: int, by: str, back: int, how: str) -> None:
        base = self.base(by, back)
        seen = self.states[base.version]
        free = [each for each in ADDED_NAMES if seen.column(each) is None]
        if not free:
            return
        if by == "pylance" and how != "null":
            how = "sql"
        kind = pa.int32() if how == "null" else pa.int64()
        is_nullable = by == "lancewood" or how == "null"
        name = Random(seed).choice(free)
        column = Column(next(self.numbers), name, kind, nullable=is_nullable)

        def outcomes(version: int) -> Iterator[State]:
            if self.newest.column(column.name) is not None:
                return
            widened = self.newest.with_column(column)
            if how == "null":
                yield widened
                return
            values = {key: {column.number: 2 * key} for key in widened.rows}
            yield widened.written(version, values)
            if how == "join":
                unknown = {key: {column.number: None} for key in values if key not in seen.rows}
                yield widened.written(version, {**values, **unknown})

        with self.step():
            after = None
            if by == "pylance":
                new = column.arrow_field if how == "null" else f"{KEY} * 2"
                by_pylance.add_column(self.uri, column.name, new)
            else:
                after = self.attempt(
                    base,
                    lambda table: _add(table, column, how),
                    *(ROW_CHANGES if how == "position" else ()),
                )
                if after is None:
                    self.nothing("add")
                    return
            self.settle("add", outcomes, after)

    @precondition(lambda self: len(self.newest.columns) > 3)
    @rule(seed=seeds, by=who, back=steps_back)
    def drop_column(self, seed: int, by: str, back: int) -> None:
        base = self.base(by, back)
        path = Random(seed).choice(_paths(self.states[base.version]))
        self._change_schema(
            "drop",
            base,
            by,
            lambda state: _without(state, path),
            lambda table: table.drop_columns([path]),
            lambda: by_pylance.drop_column(self.uri, path),
        )

    @precondition(lambda self: len(self.newest.columns) > 1)
    @rule(seed=seeds, by=who, back=steps_back)
    def rename_column(self, seed: int, by: str, back: int) -> None:
        base = self.base(by, back)
        path = Random(seed).choice(_paths(self.states[base.version]))
        name = f"r{next(self.numbers)}"
        self._change_schema(
            "rename",
            base,
            by,
            lambda state: _renamed(state, path, name),
            lambda table: table.rename_column(path, name),
            lambda: by_pylance.rename_column(self.uri, path, name),
        )

    def _change_schema(
        self,
        kind: str,
        base: lw.Table,
        by: str,
        expected: Callable[[State], State | None],
        ours: Callable[[lw.Table], lw.Table],
        theirs: Callable[[], None],
    ) -> None:
        with self.step():
            after = None
            if by == "pylance":
                theirs()
            else:
                after = self.attempt(base, ours)
                if after is None:
                    self.nothing(kind)
                    return
            self.settle(kind, lambda v: [expected(self.newest)], after)

    @rule(seed=seeds, by=who, back=steps_back)
    def cast_column(self, seed: int, by: str, back: int) -> None:
        base = self.base(by, back)
        able = [each for each in self.states[base.version].columns[1:] if each.type in WIDER]
        if by == "pylance":  # it casts no whole numbers to others, and no indexed column
            indexed = indexed_numbers(self.uri)
            able = [e for e in able if e.type != pa.int64() and e.number not in indexed]
        if not able:
            return
        chosen = Random(seed).choice(able)
        name, kind, number = chosen.name, WIDER[chosen.type], next(self.numbers)

        def outcomes(version: int) -> Iterator[State]:
            old = self.newest.column(name)
            if old is None or old.type == kind:
                yield self.newest
                return
            earlier = (old.number, *old.earlier)
            new = replace(old, number=number, type=kind, earlier=earlier)
            values = {
                key: {number: _as(kind, row.values.get(old.number))}
                for key, row in self.newest.rows.items()
            }
            columns = [new if each is old else each for each in self.newest.columns]
            nulls = frozenset(key for key in values if values[key][number] is None)
            yield self.newest.with_columns(columns).written(version, values, perhaps=nulls)

        with self.step():
            after = None
            if by == "pylance":
                by_pylance.cast_column(self.uri, name, kind)
            else:
                after = self.attempt(base, lambda table: table.cast_column(name, kind))
                if after is None:
                    self.nothing("cast")
                    return
            self.settle("cast", outcomes, after)

    @rule(seed=seeds, back=steps_back)
    def replace_column(self, seed: int, back: int) -> None:
        random = Random(seed)
        base = self.base("lancewood", back)
        seen = self.states[base.version]
        able = [each for each in seen.columns[1:] if not each.children]
        fragments = [each.id for each in base.fragments]
        if not able or not fragments:
            return
        column = random.choice(able)
        chosen = sorted(random.sample(fragments, min(len(fragments), 2)))
        keys = base.scan([KEY], fragment_ids=chosen).to_arrow().column(KEY).to_pylist()
        values = {key: {column.number: drawing.value(column, random)} for key in keys}
        data = seen.arrow(values.values(), [column.name])

        def outcomes(version: int) -> Iterator[State | None]:
            numbers = {key: row.number for key, row in self.newest.rows.items()}
            left = {  # a row that was deleted and inserted anew is another, elsewhere
                key: cells
                for key, cells in values.items()
                if numbers.get(key) == seen.rows[key].number
            }
            yield Effect(updated=left).on(self.newest, self.newest, version)

        with self.step():
            after = self.attempt(
                base, lambda table: table.replace_columns(chosen, data), *ROW_CHANGES, "index"
            )
            if after is None:
                self.nothing("replace")
                return
            self.settle("replace", outcomes, after)


def _add(table: lw.Table, column: Column, how: str) -> lw.Table:
    """Add a column that is twice the key."""
    schema = pa.schema([column.arrow_field])
    if how == "null":
        return table.add_columns(schema)
    if how == "sql":
        return table.add_columns({column.name: f"{KEY} * 2"})
    if how == "function":
        return table.add_columns(
            lambda batch: pa.record_batch([pc.multiply(batch.column(KEY), 2)], schema=schema),
            columns_read=[KEY],
            schema=schema,
            repeatable=True,
        )
    keys = table.scan([KEY]).to_arrow().column(KEY)
    doubled: Any = pa.table([pc.multiply(keys, 2)], schema=schema)
    if how == "position":
        return table.add_columns(doubled)
    return table.add_columns(doubled.append_column(KEY, keys), on=KEY)


def _paths(state: State) -> list[str]:
    """Columns but for the key, and children of structs that have another."""
    tops = [each.name for each in state.columns[1:]]
    return tops + [
        f"{each.name}.{child.name}"
        for each in state.columns
        for child in each.children
        if len(each.children) > 1
    ]


def _without(state: State, path: str) -> State | None:
    """A struct that nothing is left of goes as well."""
    left = _with_children(
        state, path, lambda columns, name: [each for each in columns if each.name != name]
    )
    if left is None:
        return None
    return left.with_columns(each for each in left.columns if each.type or each.children)


def _renamed(state: State, path: str, new: str) -> State | None:
    return _with_children(
        state,
        path,
        lambda columns, name: [
            replace(each, name=new) if each.name == name else each for each in columns
        ],
    )


def _with_children(
    state: State, path: str, change: Callable[[tuple[Column, ...], str], list[Column]]
) -> State | None:
    """The state with a change where the path leads; None if that is nowhere."""
    top, _, child = path.partition(".")
    column = state.column(top)
    if column is None or (child and child not in [each.name for each in column.children]):
        return None
    if not child:
        return state.with_columns(change(state.columns, top))
    return state.with_column(replace(column, children=tuple(change(column.children, child))))


def _as(kind: pa.DataType, value: Any) -> Any:
    return float(value) if value is not None and kind == pa.float64() else value

"""What a table must hold after each step, as plain values. Knows no files, no fragments, no SQL.

A column and a row have a number that stays theirs: a rename leaves a column what it is, a cast
makes another one. Values are kept by the number of their column, those of a struct by the numbers
of its children, so that dropping and renaming never touch them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

KEY = "k"


@dataclass(frozen=True)
class Column:
    """A column, or a child of a struct."""

    number: int
    name: str
    type: pa.DataType | None
    """None for a struct, which is its children."""
    children: tuple[Column, ...] = ()
    nullable: bool = True
    earlier: tuple[int, ...] = ()
    """The numbers it had before it was cast."""
    is_primary_key: bool = False

    @property
    def arrow_type(self) -> pa.DataType:
        return self.type or pa.struct([each.arrow_field for each in self.children])

    @property
    def arrow_field(self) -> pa.Field:
        mark = {"lance-schema:unenforced-primary-key": "true"} if self.is_primary_key else None
        return pa.field(self.name, self.arrow_type, nullable=self.nullable, metadata=mark)

    def hidden(self, value: Any) -> Any:
        """A value from what a reader sees of it."""
        if not self.children or value is None:
            return value
        return {each.number: value.get(each.name) for each in self.children}

    def shown(self, value: Any) -> Any:
        """A value as a reader of the table sees it."""
        if not self.children or value is None:
            return value
        return {each.name: value[each.number] for each in self.children}


@dataclass(frozen=True)
class Row:
    """A row, and what is told of it."""

    number: int
    values: Mapping[int, Any]
    created: int
    """The version that inserted it."""
    updated: int
    """The version that last wrote it, be it only to add a column."""
    touched: int
    """The version that last gave it values of its own."""
    row_id: int | None = None
    """None until it was seen."""
    or_updated: int | None = None
    """What ``updated`` may be as well; a cast does not write where a whole file has nulls."""


@dataclass(frozen=True)
class State:
    """One version of the table: its columns, and its rows by key."""

    columns: tuple[Column, ...]
    rows: Mapping[int, Row] = field(default_factory=dict)

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([each.arrow_field for each in self.columns])

    @property
    def key(self) -> Column:
        return self.columns[0]

    def column(self, name: str) -> Column | None:
        """A column by its name; None if there is none."""
        return next((each for each in self.columns if each.name == name), None)

    def shown(self, row: Row) -> dict[str, Any]:
        """A row as a reader sees it; a column that it was never given is null."""
        return {each.name: each.shown(row.values.get(each.number)) for each in self.columns}

    def arrow(self, rows: Iterable[Mapping[int, Any]], names: Iterable[str]) -> pa.Table:
        """Rows, given by the numbers of columns, as data for a write."""
        wanted = set(names)
        chosen = [each for each in self.columns if each.name in wanted]
        listed = list(rows)
        arrays = [
            pa.array([each.shown(row[each.number]) for row in listed], each.arrow_type)
            for each in chosen
        ]
        return pa.Table.from_arrays(arrays, schema=pa.schema([each.arrow_field for each in chosen]))

    def as_cast(self, values: Mapping[int, Any]) -> dict[int, Any]:
        """Values that were given to columns before these were cast."""
        cast = {
            each.number: values[number]
            for each in self.columns
            for number in each.earlier
            if number in values
        }
        return {**cast, **values}

    def with_columns(self, columns: Iterable[Column]) -> State:
        return replace(self, columns=tuple(columns))

    def with_column(self, column: Column) -> State:
        """With a column in the place of the one of that number, or at the end."""
        numbers = [each.number for each in self.columns]
        if column.number not in numbers:
            return self.with_columns((*self.columns, column))
        return self.with_columns(
            column if each.number == column.number else each for each in self.columns
        )

    def written(
        self,
        version: int,
        values: Mapping[int, Mapping[int, Any]],
        perhaps: frozenset[int] = frozenset(),
    ) -> State:
        """After every row was given more values, by key, that are no change of the row; the
        keys in ``perhaps`` are of rows that need not have been written."""
        rows = {
            key: replace(
                row,
                values={**row.values, **values[key]},
                updated=version,
                or_updated=row.updated if key in perhaps else None,
            )
            for key, row in self.rows.items()
        }
        return replace(self, rows=rows)


@dataclass(frozen=True)
class Effect:
    """What a change of rows does, as it was found in one version. Keys name the rows."""

    deleted: frozenset[int] = frozenset()
    updated: Mapping[int, Mapping[int, Any]] = field(default_factory=dict)
    inserted: Mapping[int, Mapping[int, Any]] = field(default_factory=dict)
    unchanged: int = 0

    @property
    def is_nothing(self) -> bool:
        return not (self.deleted or self.updated or self.inserted)

    def on(self, seen: State, newest: State, version: int) -> State | None:
        """The newest state after it; None where a row that was seen is not the same any more, or
        a key that is inserted is there by now."""
        for key in (*self.deleted, *self.updated):
            then, now = seen.rows[key], newest.rows.get(key)
            if now is None or (now.number, now.touched) != (then.number, then.touched):
                return None
        rows = {key: row for key, row in newest.rows.items() if key not in self.deleted}
        for key, values in self.updated.items():
            old = rows[key]
            rows[key] = replace(
                old, values={**old.values, **values}, updated=version, touched=version
            )
        for key, values in self.inserted.items():
            if key in rows:
                return None
            given = newest.as_cast(values)
            rows[key] = Row(key << 32 | version, given, version, version, version)
        return replace(newest, rows=rows)


@dataclass(frozen=True)
class Difference:
    """What became of rows between two versions, by row id."""

    inserted: frozenset[int]
    deleted: frozenset[int]
    surely_updated: frozenset[int]
    """Rows that have other values, in columns that both versions have."""
    maybe_updated: frozenset[int]
    """Rows that someone has written with values of their own, other ones or the same; all rows,
    where a column of one name was replaced by another: what is called the same counts as the same
    if nothing else is known of it."""

    @classmethod
    def between(cls, since: State, until: State) -> Difference:
        old = {_id_of(row): row for row in since.rows.values()}
        new = {_id_of(row): row for row in until.rows.values()}
        common = {each.number: each for each in until.columns}
        pairs = [(each, common[each.number]) for each in since.columns if each.number in common]
        both = old.keys() & new.keys()
        names = {each.name: each.number for each in since.columns}
        is_replaced = any(
            names.get(each.name, each.number) not in (each.number, *each.earlier)
            for each in until.columns
        )
        return cls(
            inserted=frozenset(new.keys() - old.keys()),
            deleted=frozenset(old.keys() - new.keys()),
            surely_updated=frozenset(each for each in both if _differ(old[each], new[each], pairs)),
            maybe_updated=frozenset(
                each for each in both if is_replaced or old[each].touched != new[each].touched
            ),
        )


def _id_of(row: Row) -> int:
    assert row.row_id is not None
    return row.row_id


def _differ(one: Row, other: Row, columns: Iterable[tuple[Column, Column]]) -> bool:
    for old, new in columns:
        then, now = one.values.get(old.number), other.values.get(new.number)
        if old.children and then is not None and now is not None:
            both = {each.number for each in old.children} & {each.number for each in new.children}
            then, now = ([value[number] for number in sorted(both)] for value in (then, now))
        if then != now:
            return True
    return False

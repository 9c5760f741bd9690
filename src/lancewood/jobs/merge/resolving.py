"""How conflicts of a merge are decided: what a caller says, checked here and against a schema.

The first that decides counts: decisions on single conflicts, rules for columns, the winner of a
row, what becomes of rows that one side deleted, and what is left. Knows no rows of a table yet.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancewood.data.differing import Mask
from lancewood.engine.base import as_reader, check_choice
from lancewood.engine.rows import Ints
from lancewood.errors import InvalidInputError
from lancewood.expr import Predicate, parse_expression, parse_predicate
from lancewood.jobs.merge.cell_rules import (
    CellRule,
    check_cells_named,
    compiled,
    given_as,
    needed,
    speaking,
)
from lancewood.jobs.merge.conflicts import CONFLICT, SIDES, Sides
from lancewood.jobs.merge.decided_columns import (
    TAKE,
    names_decided,
    that_decide,
    told_apart,
    value_columns,
    without_listing,
)

Side: TypeAlias = Literal["ours", "theirs", "base"]
Deletes: TypeAlias = Literal["win", "lose"]
ColumnChoice: TypeAlias = Literal["ours", "theirs", "drop", "keep"]

EACH = "*"
DELETE = "delete"
_TAKES = (*SIDES, DELETE)


@dataclass(frozen=True, kw_only=True, eq=False)
class Resolve:
    """How conflicts of a merge are decided; the first of these that decides one counts.

    What nothing decides stays a conflict. Cells that are not in conflict are merged as always.
    """

    decisions: Any = field(default=None, repr=False)
    """Arrow data, a DataFrame of Spark, or a list of mappings, with ``_conflict`` and ``take``
    (``ours``, ``theirs``, ``base``, ``delete``), or with values by the names of columns, as
    ``label`` or ``merged.label``; a null gives no value. What conflicts are shown with (``_kind``,
    ``key``, ``ours``, …) is passed over. Where a column of the table is called so too, its values
    count, and what may be either is refused: there, write ``merged.key``. A decision on a conflict
    that is not there decides nothing."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """By column: a side, or SQL over ``base``, ``ours`` and ``theirs``, as ``ours.n + theirs.n -
    base.n``. ``"*"`` is each column without a rule of its own, and those words its cell there, as
    ``coalesce(theirs, ours)``."""
    winner: str | None = None
    """SQL over both sides, as ``theirs.updated > ours.updated``: theirs wins where it is true,
    else ours."""
    whole_rows: bool = False
    """Whether a side that wins, or is taken, gives the whole row, and not just cells in
    conflict."""
    deletes: Deletes | None = None
    """Whether a deletion wins against a change of the same row."""
    rows: Side | None = None
    """The side that is taken for all that is left. ``base`` undoes what both did: a row that both
    inserted goes. Of different rows that got one primary key, that of the other side gets back the
    key that it had, or goes if it was inserted."""
    schema: Literal["ours", "theirs"] | Mapping[str, ColumnChoice] | None = None
    """What columns become that both sides changed, or that one dropped and the other changed."""

    @property
    def is_any(self) -> bool:
        """Whether anything is decided."""
        return any(vars(self).values())

    def __post_init__(self) -> None:
        if not isinstance(self.columns, Mapping):
            raise InvalidInputError(f"columns takes rules by column, got {self.columns!r}")
        object.__setattr__(self, "columns", dict(self.columns))
        for name, rule in self.columns.items():
            if not isinstance(name, str) or not isinstance(rule, str):
                raise InvalidInputError(
                    f"columns takes names of columns with 'ours', 'theirs', 'base' or SQL text, "
                    f"got {name!r}: {rule!r}"
                )
        if self.winner is not None and not isinstance(self.winner, str):
            raise InvalidInputError(f"winner takes SQL text, got {self.winner!r}")
        if not isinstance(self.whole_rows, bool):
            raise InvalidInputError(f"whole_rows is True or False, got {self.whole_rows!r}")
        if self.deletes is not None:
            check_choice("deletes", self.deletes, Deletes)
        if self.rows is not None:
            check_choice("rows", self.rows, Side)
        self._check_schema()
        if self.decisions is not None:
            object.__setattr__(self, "decisions", _as_decisions(self.decisions))

    @classmethod
    def of(cls, given: Any) -> Resolve:
        """What ``resolve=`` means: None, a side for all, rules by column, decisions, or all of it.

        Raises InvalidInputError for anything else.
        """
        if given is None:
            return cls()
        if isinstance(given, Resolve):
            return given
        if isinstance(given, str):
            if given not in SIDES:
                raise InvalidInputError(
                    f"resolve is 'ours', 'theirs' or 'base', rules by column, decisions, or a "
                    f"Resolve, got {given!r}"
                )
            return cls(rows=cast(Side, given))
        if isinstance(given, Mapping) and CONFLICT not in given:
            return cls(columns=given)
        return cls(decisions=given)

    def _check_schema(self) -> None:
        if self.schema is None:
            return
        if not isinstance(self.schema, Mapping):
            check_choice("schema", self.schema, Literal["ours", "theirs"])
            return
        object.__setattr__(self, "schema", dict(self.schema))
        for name, choice in self.schema.items():
            if not isinstance(name, str):
                raise InvalidInputError(f"schema takes names of columns, got {name!r}")
            check_choice(f"schema[{name!r}]", choice, ColumnChoice)


def _as_decisions(data: Any) -> pa.Table:
    """Decisions as Arrow: ``_conflict``, ``take`` and values, without rows that decide nothing.
    Columns that only show conflicts are still there where the table may have such columns."""
    found = _as_table(data)
    if CONFLICT not in found.schema.names:
        raise InvalidInputError(
            f"decisions name their conflicts in the column {CONFLICT}, found "
            f"{', '.join(found.schema.names) or 'no columns'}"
        )
    if len(set(found.schema.names)) < found.num_columns:
        raise InvalidInputError("a column of the decisions is there twice")
    found = without_listing(found).combine_chunks()
    for name in {CONFLICT, TAKE}.intersection(found.schema.names):
        at = found.schema.get_field_index(name)
        found = found.set_column(at, name, _as_text(name, found.column(name)))
    _check_conflicts(found.column(CONFLICT))
    _check_takes(found)
    _ = value_columns(found)
    return that_decide(found)


def _as_table(data: Any) -> pa.Table:
    if isinstance(data, Mapping) or (
        isinstance(data, list | tuple) and all(isinstance(each, Mapping) for each in data)
    ):
        if isinstance(data, Mapping):
            columns = dict(data)
        else:
            names = dict.fromkeys([CONFLICT, *(name for each in data for name in each)])
            columns = {name: [each.get(name) for each in data] for name in names}
        try:
            return pa.table({name: _as_array(name, each) for name, each in columns.items()})
        except (pa.ArrowException, TypeError, ValueError) as cause:
            raise InvalidInputError(f"decisions cannot become Arrow: {cause}") from cause
    return as_reader(data.toArrow() if hasattr(data, "toArrow") else data).read_all()


def _as_array(name: str, values: Any) -> Any:
    try:
        return pa.array(values) if isinstance(values, list) else values
    except OverflowError as cause:
        with contextlib.suppress(OverflowError, pa.ArrowException):
            return pa.array(values, pa.uint64())
        most = max((each for each in values if isinstance(each, int)), key=abs, default=None)
        raise InvalidInputError(
            f"decisions: column {name!r}: {'an integer' if most is None else most} has more than "
            "64 bits; give a value that the column can hold, or a decimal.Decimal",
            column=name,
        ) from cause


def _as_text(name: str, column: Any) -> Any:
    try:
        return column.cast(pa.string())
    except pa.ArrowException as cause:
        raise InvalidInputError(
            f"{name} of the decisions is {column.type}, it must be text", column=name
        ) from cause


def _check_conflicts(names: Any) -> None:
    if names.null_count:
        raise InvalidInputError(f"a decision has no {CONFLICT}")
    counts = names.value_counts()
    twice = counts.filter(pc.greater(counts.field("counts"), 1))
    if len(twice):
        raise InvalidInputError(
            f"conflict {twice[0]['values'].as_py()!r} is decided {twice[0]['counts'].as_py()} "
            "times; one decision a conflict",
            conflict=twice[0]["values"].as_py(),
        )


def _check_takes(decisions: pa.Table) -> None:
    if TAKE not in decisions.schema.names:
        return
    takes = decisions.column(TAKE)
    known = pc.or_(pc.is_in(takes, pa.array(_TAKES)), pc.is_null(takes))
    bad = decisions.filter(pc.invert(known))
    if bad.num_rows:
        raise InvalidInputError(
            f"take is one of {', '.join(map(repr, _TAKES))}, got "
            f"{bad.column(TAKE)[0].as_py()!r} for conflict {bad.column(CONFLICT)[0].as_py()!r}"
        )
    deleted = decisions.filter(pc.fill_null(pc.equal(takes, DELETE), False))
    for name, given in value_columns(decisions).items():
        if deleted.column(given).null_count < deleted.num_rows:
            at = pc.index(deleted.column(given).is_valid(), True).as_py()
            raise InvalidInputError(
                f"conflict {deleted.column(CONFLICT)[at].as_py()!r} is decided by take='delete' "
                f"and a value for {name!r}; one of them",
                column=name,
            )


def decided_names(resolve: Resolve) -> frozenset[str]:
    """The conflicts that are decided one by one."""
    return frozenset() if resolve.decisions is None else names_decided(resolve.decisions)


@dataclass(frozen=True, eq=False)
class Found:
    """The decisions on some conflicts."""

    names: list[str]
    """The conflicts that are decided."""
    takes: tuple[tuple[str, Mask], ...]
    """Conflicts that each word of ``take`` decides."""
    values: Mapping[str, pa.Array]
    """Given values by column, one for each conflict; null where none is given."""


class Rules:
    """What a ``Resolve`` says, compiled for the columns of one table.

    Raises InvalidInputError for columns that are not there, and for SQL that is wrong or whose
    values can never be stored in their column. ``opaque`` columns can be given sides only; SQL for
    ``"*"`` passes them over.
    """

    def __init__(self, resolve: Resolve, values: pa.Schema, opaque: Collection[str] = ()) -> None:
        self._values, self._opaque = values, frozenset(opaque)
        self._sides = pa.schema([(each, pa.struct(list(values))) for each in SIDES])
        self.columns = self._column_rules(resolve.columns)
        self.winner = None if resolve.winner is None else self._winner(resolve.winner)
        self._decisions = None
        if resolve.decisions is not None:
            self._decisions = self._fitted(resolve.decisions)

    @property
    def has_decisions(self) -> bool:
        """Whether there are decisions on single conflicts."""
        return self._decisions is not None

    def decisions_on(self, names: pa.Array) -> Found:
        """What is decided about conflicts of these names."""
        assert self._decisions is not None
        known = self._decisions
        index = pc.index_in(names, value_set=known.column(CONFLICT).combine_chunks())
        chosen = known.take(index).combine_chunks()
        takes = []
        if TAKE in known.schema.names:
            said = chosen.column(TAKE)
            takes = [(each, _mask(pc.fill_null(pc.equal(said, each), False))) for each in _TAKES]
        given = value_columns(known).items()
        values = {name: _one(chosen.column(column)) for name, column in given}
        return Found(names.filter(index.is_valid()).to_pylist(), tuple(takes), values)

    def wins(self, sides: Sides, rows: Ints) -> Mask:
        """Whether theirs wins, for some of the rows."""
        assert self.winner is not None
        return _mask(self.winner.mask(needed(self.winner, sides, rows)))

    def _column_rules(self, given: Mapping[str, str]) -> dict[str, str | CellRule]:
        """The rule for each column that has one: a side, or what is computed."""
        for name in given:
            if name != EACH:
                self._check_column(name, "columns")
        found: dict[str, str | CellRule] = {}
        for name in (*self._values.names, *sorted(self._opaque)):
            own = given.get(name)
            text = given.get(EACH) if own is None else own
            if text is None:
                continue
            if text in SIDES:
                found[name] = text
            elif name not in self._opaque:
                found[name] = self._cell_rule(name, text, is_each=own is None)
            elif own is not None:
                raise InvalidInputError(
                    f"column {name!r} holds blobs, which are not computed: its rule is 'ours', "
                    f"'theirs' or 'base', got {text!r}",
                    column=name,
                )
        return found

    def _cell_rule(self, name: str, text: str, *, is_each: bool) -> CellRule:
        field = self._values.field(name)
        known = pa.schema([(each, field.type) for each in SIDES]) if is_each else self._sides
        said = f"the rule {EACH!r} for column {name!r}" if is_each else f"the rule for {name!r}"
        way_out = f"; give {name!r} a rule of its own" if is_each else ""
        try:
            expression = parse_expression(text, known)
            if not is_each:
                check_cells_named(expression, name)
            return compiled(name, expression, field, is_each)
        except InvalidInputError as cause:
            raise InvalidInputError(
                f"{said}: {speaking(cause, name)}{way_out}", **{**cause.facts, "column": name}
            ) from cause

    def _winner(self, text: str) -> Predicate:
        try:
            predicate = parse_predicate(text, self._sides)
            check_cells_named(predicate, "x")
        except InvalidInputError as cause:
            raise InvalidInputError(f"winner: {speaking(cause, 'x')}", **cause.facts) from cause
        return predicate

    def _check_column(self, name: str, of: str) -> None:
        if name not in self._values.names and name not in self._opaque:
            names = ", ".join((*self._values.names, *sorted(self._opaque)))
            raise InvalidInputError(
                f"{of} of resolve names {name!r}, which is no column of the merged table: they "
                f"are {names}",
                column=name,
            )

    def _fitted(self, decisions: pa.Table) -> pa.Table:
        """The decisions, with values as the columns have them."""
        opaque = [pa.field(each, pa.large_binary()) for each in sorted(self._opaque)]
        decisions = told_apart(decisions, pa.schema([*self._values, *opaque]))
        _check_takes(decisions)
        for name, given in value_columns(decisions).items():
            self._check_column(name, "decisions")
            if name in self._opaque:
                raise InvalidInputError(
                    f"decisions give values for {name!r}, which holds blobs; take a side",
                    column=name,
                )
            target = self._values.field(name).type
            column = _one(decisions.column(given))
            try:
                made = given_as(column, target)
            except InvalidInputError as cause:
                raise InvalidInputError(
                    f"decisions: column {name!r}: {cause.message}", column=name
                ) from cause
            at = decisions.schema.get_field_index(given)
            decisions = decisions.set_column(at, pa.field(given, target), made)
        return decisions


def _one(column: Any) -> Any:
    """A column as one array."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    return pa.concat_arrays([pa.nulls(0, column.type), *column.chunks])


def _mask(array: Any) -> Mask:
    return np.asarray(_one(array).to_numpy(zero_copy_only=False), np.bool_)

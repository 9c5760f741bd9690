"""How conflicts of a merge are decided: what a caller says, checked here.

The first that decides counts: decisions on single conflicts, rules for columns, the winner of a
row, what becomes of rows that one side deleted, and what is left. Knows no rows of a table yet.

Decisions may carry along all that a list of conflicts shows: ``_kind``, ``_rowid``, ``_columns``,
``key`` and the three sides, which are structs, or in CSV a column for each field, as
``ours.label``. A column of the table may have one of these names. What is in the column then tells
the two apart, and what could be either is refused. ``merged.base`` always is a value for ``base``:
no column of a table has a dot in its name.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Literal, TypeAlias, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lancewood.engine.base import as_reader, check_choice
from lancewood.errors import InvalidInputError
from lancewood.jobs.merge.conflicts import COLUMNS, CONFLICT, KEY, KIND, KINDS, SIDES
from lancewood.model.schema import ROW_ID

Side: TypeAlias = Literal["ours", "theirs", "base"]


Deletes: TypeAlias = Literal["win", "lose"]


ColumnChoice: TypeAlias = Literal["ours", "theirs", "drop", "keep"]


EACH = "*"


DELETE = "delete"


TAKES = (*SIDES, DELETE)


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
    check_takes(found)
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


def check_takes(decisions: pa.Table) -> None:
    if TAKE not in decisions.schema.names:
        return
    takes = decisions.column(TAKE)
    known = pc.or_(pc.is_in(takes, pa.array(TAKES)), pc.is_null(takes))
    bad = decisions.filter(pc.invert(known))
    if bad.num_rows:
        raise InvalidInputError(
            f"take is one of {', '.join(map(repr, TAKES))}, got "
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


TAKE = "take"


_VALUE = "merged"


_WHOLE = (KEY, *SIDES)
"""Shown as structs, or field by field."""


_SHOWN = (KIND, ROW_ID, COLUMNS, *_WHOLE)


def named_value(column: str) -> str:
    """The name of a column of decisions that certainly gives values to ``column``."""
    return f"{_VALUE}.{column}" if column in (CONFLICT, TAKE, *_SHOWN) else column


def value_columns(decisions: pa.Table) -> dict[str, str]:
    """The columns of decisions that certainly give values, by the table's columns that they are
    for."""
    found: dict[str, str] = {}
    for name in decisions.schema.names:
        if name in (CONFLICT, TAKE, *_SHOWN):
            continue
        column = name.removeprefix(f"{_VALUE}.")
        if column in found:
            raise InvalidInputError(
                f"decisions give values for {column!r} twice, as {found[column]!r} and {name!r}",
                column=column,
            )
        found[column] = name
    return found


def without_listing(decisions: pa.Table) -> pa.Table:
    """Decisions without the columns that show conflicts for certain, whatever the table is called:
    ``ours.label`` and the like, and, where a whole list of conflicts came along, its columns."""
    fields = [each.partition(".") for each in decisions.schema.names]
    flat = [f"{whole}.{field}" for whole, dot, field in fields if dot and whole in _WHOLE]
    listed = _listed_columns(decisions)
    whole = [
        name
        for name in (() if listed is None else _present(decisions))
        if _looks_shown(name, decisions.column(name), listed) <= {True}
    ]
    return decisions.drop_columns([*flat, *whole])


def told_apart(decisions: pa.Table, columns: pa.Schema) -> pa.Table:
    """Decisions in which all columns but ``_conflict`` and ``take`` give values; ``columns`` are
    those of the merged table.

    Raises InvalidInputError for a column that may show the conflicts as well as give values.
    """
    for name in _present(decisions):
        at = decisions.schema.get_field_index(name)
        if name in columns.names and _gives_values(name, decisions.column(name), columns):
            names = decisions.schema.names
            decisions = decisions.rename_columns([*names[:at], named_value(name), *names[at + 1 :]])
        else:
            decisions = decisions.remove_column(at)
    return that_decide(decisions)


def that_decide(decisions: pa.Table) -> pa.Table:
    """The rows with a side or a value."""
    return decisions.filter(_any_valid(decisions, decisions.schema.names, len(decisions)))


def names_decided(decisions: pa.Table) -> frozenset[str]:
    """The conflicts that are decided, before it is known which columns the table has."""
    certain = [
        name
        for name in _present(decisions)
        if _looks_shown(name, decisions.column(name), None) == {False}
    ]
    certain += [TAKE] if TAKE in decisions.schema.names else []
    names = [*certain, *value_columns(decisions).values()]
    found = decisions.filter(_any_valid(decisions, names, len(decisions)))
    return frozenset(found.column(CONFLICT).to_pylist())


def _any_valid(decisions: pa.Table, names: Iterable[str], rows: int) -> Any:
    valid = [decisions.column(name).is_valid() for name in names if name != CONFLICT]
    return reduce(pc.or_, valid) if valid else pa.repeat(False, rows)


def _present(decisions: pa.Table) -> list[str]:
    return [name for name in _SHOWN if name in decisions.schema.names]


def _listed_columns(decisions: pa.Table) -> set[str] | None:
    """The columns of the table as a whole list of conflicts has them, alike on all sides; None if
    it did not come along."""
    names = decisions.schema.names
    if KIND not in names or COLUMNS not in names:
        return None
    found = set[str]()
    for side in SIDES:
        flat = {each.removeprefix(f"{side}.") for each in names if each.startswith(f"{side}.")}
        if not flat and side in names:
            kind = decisions.schema.field(side).type
            if pt.is_null(kind):  # no row has this side
                continue
            flat = {each.name for each in kind} if pt.is_struct(kind) else set()
        if not flat or flat != (found or flat):
            return None
        found = flat
    return found


def _gives_values(name: str, column: Any, columns: pa.Schema) -> bool:
    """Whether values are given to the table's column of that name; raises InvalidInputError if the
    conflicts may be shown as well."""
    looks = _looks_shown(name, column, columns.names)
    if True not in looks:
        return True
    if looks == {True} and not _may_hold(columns.field(name).type, column.type):
        return False
    raise InvalidInputError(
        f"column {name!r} of the decisions may be what conflicts are shown with, or values for the "
        f"column {name!r} of the table: write values as {named_value(name)!r}, and leave "
        f"{name!r} out, or as it was shown",
        column=name,
    )


def _may_hold(target: pa.DataType, given: pa.DataType) -> bool:
    """Whether a column may get values of a type that conflicts are shown with."""
    target, given = _plain(target), _plain(given)
    is_nested = pt.is_nested(target)
    if pt.is_struct(given):
        return bool(pt.is_struct(target))
    if _is_text(given):  # a nested value may be written as JSON
        return bool(is_nested or _is_text(target))
    return bool(is_nested and pt.is_nested(given))


def _looks_shown(name: str, column: Any, columns: Collection[str] | None) -> set[bool]:
    """Whether the values in a column are as conflicts are shown with: for some, for others, or
    both. ``columns`` are those of the table; None stands for any."""
    if pt.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    column = column.drop_null()
    if not len(column):
        return set()
    if name == ROW_ID:
        return {True}
    if name in _WHOLE and pt.is_struct(kind):
        return {_are_columns((each.name for each in kind), columns)}
    if name == COLUMNS and pt.is_list(kind):
        parts = pc.list_flatten(column)
        return {_are_columns(parts.to_pylist(), columns) if _is_text(parts.type) else False}
    if not _is_text(kind):
        return {False}
    return {_is_shown_text(name, text, columns) for text in pc.unique(column).to_pylist()}


def _is_shown_text(name: str, text: str, columns: Collection[str] | None) -> bool:
    if name == KIND:
        return text in KINDS
    if name == COLUMNS:
        return _are_columns(text.split(", ") if text else (), columns)
    is_object = text.startswith("{") and text.endswith("}")
    return is_object and (columns is None or any(each in text for each in columns))


def _are_columns(names: Iterable[str | None], columns: Collection[str] | None) -> bool:
    """Whether these are columns of the table, or fields in them as a key may have them."""
    if columns is None:
        return True
    return all(each is not None and each.partition(".")[0] in columns for each in names)


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pt.is_dictionary(kind) else kind


def _is_text(kind: pa.DataType) -> bool:
    return bool(pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind))

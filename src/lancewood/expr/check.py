"""From syntax to a checked tree: every name resolved, every type fitted, every parameter filled in.

Errors give the position in the text, if the parser kept it. Only constants are evaluated.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lancewood.errors import InvalidInputError
from lancewood.expr.arithmetic import add_months
from lancewood.expr.cast import cast
from lancewood.expr.choose import choose
from lancewood.expr.compare import is_in
from lancewood.expr.functions import AGGREGATES, FUNCTIONS, MOMENTS, WINDOWS, call
from lancewood.expr.literals import literal_from
from lancewood.expr.names import find_field, resolve_column, resolve_field
from lancewood.expr.nodes import Column, Node, apply, describe
from lancewood.expr.parse import shorten
from lancewood.expr.syntax import (
    Call,
    CaseWhen,
    CastTo,
    Constant,
    Member,
    Months,
    Name,
    NamePart,
    Parameter,
    Syntax,
    place,
)

_BY_ROW = "an expression is computed row by row"

Parameters = Mapping[str, Any] | Sequence[Any] | None


def check(syntax: Syntax, sql: str, schema: pa.Schema, parameters: Parameters) -> Node:
    """The typed tree of ``syntax``; raises InvalidInputError with the position in ``sql``."""
    checker = _Checker(sql, schema, parameters)
    node = checker.check(syntax)
    checker.check_all_used()
    return node


class _Checker:
    def __init__(self, sql: str, schema: pa.Schema, parameters: Parameters) -> None:
        self.sql = sql
        self.schema = schema
        self.parameters = parameters
        self.used: set[str | int] = set()

    def check(self, syntax: Syntax) -> Node:
        try:
            return self._check(syntax)
        except InvalidInputError as error:
            if "sql" in error.facts:
                raise
            words, facts = place(self.sql, getattr(syntax, "start", None))
            raise InvalidInputError(
                f"in {shorten(self.sql)}{words}: {error.message}", **{**error.facts, **facts}
            ) from error.__cause__

    def _check(self, syntax: Syntax) -> Node:
        match syntax:
            case Name():
                return resolve_column(syntax.parts, self.schema)
            case Constant():
                return literal_from(syntax.value)
            case Parameter():
                return literal_from(self._value(syntax))
            case Member():
                return _field(self.check(syntax.value), syntax.part)
            case CastTo():
                return cast(self.check(syntax.value), syntax.type, strict=syntax.strict)
            case CaseWhen():
                conditions = [self.check(condition) for condition, _ in syntax.branches]
                results = [self.check(result) for _, result in syntax.branches]
                return choose(conditions, [*results, self.check(syntax.otherwise)])
            case Months():
                raise InvalidInputError(
                    "an INTERVAL of months or years can only be added to a constant date: "
                    "months have no fixed length"
                )
            case Call():
                return self._call(syntax)

    def _call(self, syntax: Call) -> Node:
        name = syntax.name
        if name not in FUNCTIONS:
            raise _unknown_function(name)
        if name == "element" and isinstance(syntax.args[1], Constant):
            value, key = self.check(syntax.args[0]), syntax.args[1].value
            if pt.is_struct(value.type) and isinstance(key, str):
                return _field(value, NamePart(key, quoted=True))
            return call(name, [value, literal_from(key)])
        if name in ("+", "-") and isinstance(syntax.args[1], Months):
            return add_months(name, self.check(syntax.args[0]), syntax.args[1].count)
        if name == "+" and isinstance(syntax.args[0], Months):
            return add_months(name, self.check(syntax.args[1]), syntax.args[0].count)
        if name == "in":
            return self._in(syntax.args[0], syntax.args[1:])
        return call(name, [self.check(each) for each in syntax.args])

    def _in(self, value: Syntax, items: Sequence[Syntax]) -> Node:
        nodes: list[Node] = []
        values: list[Any] = []
        for each in items:
            if isinstance(each, Parameter):
                values += _many(self._value(each))
            elif isinstance(each, Constant):
                values.append(each.value)
            else:
                nodes.append(self.check(each))
        return is_in(self.check(value), nodes, values)

    def _value(self, syntax: Parameter) -> Any:
        key, parameters = syntax.key, self.parameters
        self.used.add(key)
        if isinstance(key, str):
            if isinstance(parameters, Mapping) and key in parameters:
                return parameters[key]
            names = sorted(map(str, parameters)) if isinstance(parameters, Mapping) else []
            given = f"given are {', '.join(map(repr, names))}" if names else "none is given by name"
            raise InvalidInputError(f"there is no parameter {key!r}; {given}")
        if isinstance(parameters, Mapping) or parameters is None:
            raise InvalidInputError(f"parameter {key + 1} has no value; give a list of values")
        if not 0 <= key < len(parameters):
            raise InvalidInputError(
                f"parameter {key + 1} has no value: {len(parameters)} are given"
            )
        return parameters[key]

    def check_all_used(self) -> None:
        """Check that all positional parameters are used: one too many means they are misaligned."""
        if self.parameters is None or isinstance(self.parameters, Mapping):
            return
        unused = set(range(len(self.parameters))) - self.used
        if unused:
            raise InvalidInputError(
                f"{shorten(self.sql)} uses {len(self.used)} parameters, "
                f"{len(self.parameters)} are given",
                sql=self.sql,
            )


def _many(value: Any) -> list[Any]:
    """The values of a parameter in an IN list: one, or all of a list's."""
    if isinstance(value, pa.Array | pa.ChunkedArray):
        value = value.to_pylist()
    elif hasattr(value, "tolist") and getattr(value, "ndim", 0) == 1:
        value = value.tolist()
    many = isinstance(value, list | tuple | set | frozenset | range)
    try:
        return list(value) if many else [value]
    except OverflowError as cause:
        raise InvalidInputError(f"{value!r} is too long for an IN list") from cause


def _field(value: Node, part: NamePart) -> Node:
    if isinstance(value, Column):
        return resolve_field(value, part)
    _, index = find_field(value.type, part, describe(value))
    type_ = value.type.field(index).type
    return apply(f".{part.name}", [value], type_, partial(_struct_field, index))


def _struct_field(index: int, value: Any) -> Any:
    return pc.struct_field(value, [index])


def _unknown_function(name: str) -> InvalidInputError:
    if name in AGGREGATES:
        return InvalidInputError(f"the aggregate function {name}() is not supported: {_BY_ROW}")
    if name in WINDOWS:
        return InvalidInputError(f"the window function {name}() is not supported: {_BY_ROW}")
    if name in MOMENTS:
        return InvalidInputError(f"{name}() is not supported: pass the moment as a parameter")
    known = [each for each in FUNCTIONS if each.isidentifier()]

    near = difflib.get_close_matches(name, known, n=1)
    hint = f", did you mean {near[0]}()?" if near else ""
    return InvalidInputError(f"there is no function {name}(){hint}")

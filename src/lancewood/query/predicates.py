"""Conditions of a query in the words of ``lancewood.expr``: only those that mean the same there.

A condition is a comparison of a column with a constant of its own family, an IN list, IS NULL, a
LIKE with a plain beginning, a boolean column, and AND, OR and NOT of these. Both sides have three
truth values, compare texts by their bytes, and hold that NaN equals itself and is the largest
number. Whatever casts, rounds, depends on a zone that is not known, or was written with escapes is
left to Spark. Knows the types of columns, and nothing of joins.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from lancewood.query.constants import Constants

_OPERATORS = {"EQ": "=", "NEQ": "<>", "LT": "<", "LTE": "<=", "GT": ">", "GTE": ">="}
_FLIPPED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_SPECIAL = frozenset("%_\\")


@dataclass(frozen=True)
class Condition:
    """A condition over the columns of one table."""

    sql: str
    """Its parameters are ``:p0``, ``:p1`` and so on."""
    parameters: dict[str, Any] = field(default_factory=dict)
    when_null: bool | None = None
    """What it is for a row of nulls, as an outer join makes them."""


class Conditions:
    """Translates the conditions of one table in one query."""

    def __init__(self, field_of: Callable[[Any], pa.Field | None], constants: Constants) -> None:
        """``field_of`` gives the column of the table that a node means, None for any other."""
        self._field_of = field_of
        self._constants = constants
        self._count = 0

    def translate(self, node: Any) -> Condition | None:
        """The same condition; None where it may not mean the same."""
        kind = type(node).__name__
        if kind == "Paren":
            return self.translate(node.this)
        if kind in ("And", "Or"):
            return self._joined(node, kind)
        if kind == "Not":
            return _negated(self.translate(node.this))
        if kind in _OPERATORS:
            return self._compared(node, _OPERATORS[kind])
        if kind == "Between":
            return self._between(node)
        if kind == "In":
            return self._in(node)
        if kind == "Is":
            return self._is(node)
        if kind == "Like":
            return self._like(node)
        if kind == "Column":
            found = self._field_of(node)
            is_condition = found is not None and pt.is_boolean(found.type)
            return Condition(quoted(found.name)) if found is not None and is_condition else None
        return None

    def _joined(self, node: Any, kind: str) -> Condition | None:
        parts = [self.translate(each) for each in node.flatten()]
        found = [each for each in parts if each is not None]
        if len(found) < len(parts):
            return None
        decisive = kind == "Or"
        values = [each.when_null for each in found]
        value = decisive if decisive in values else None if None in values else not decisive
        parameters = {key: value for each in found for key, value in each.parameters.items()}
        return Condition(
            f" {kind.upper()} ".join(f"({each.sql})" for each in found), parameters, value
        )

    def _compared(self, node: Any, operator: str) -> Condition | None:
        for column, constant, how in (
            (node.this, node.expression, operator),
            (node.expression, node.this, _FLIPPED[operator]),
        ):
            found = self._field_of(column)
            if found is not None:
                return self._comparison(found, how, constant)
        return None

    def _comparison(self, column: pa.Field, operator: str, node: Any) -> Condition | None:
        value = self._constants.for_type(node, column.type)
        if value is None:
            return None
        name = self._name()
        return Condition(f"{quoted(column.name)} {operator} :{name}", {name: value})

    def _between(self, node: Any) -> Condition | None:
        found = self._field_of(node.this)
        if found is None or node.args.get("symmetric"):
            return None
        low = self._comparison(found, ">=", node.args["low"])
        high = self._comparison(found, "<=", node.args["high"])
        if low is None or high is None:
            return None
        return Condition(f"({low.sql}) AND ({high.sql})", {**low.parameters, **high.parameters})

    def _in(self, node: Any) -> Condition | None:
        found = self._field_of(node.this)
        others = (node.args.get(each) for each in ("query", "unnest", "field"))
        if found is None or any(others) or not node.expressions:
            return None
        values = self._constants.for_list(node.expressions, found.type)
        if values is None:
            return None
        name = self._name()
        return Condition(f"{quoted(found.name)} IN (:{name})", {name: values})

    def _is(self, node: Any) -> Condition | None:
        found = self._field_of(node.this)
        wanted = type(node.expression).__name__
        if found is None or not _has_plain_nulls(found.type):
            return None
        if wanted == "Null":
            return Condition(f"{quoted(found.name)} IS NULL", when_null=True)
        if wanted == "Boolean" and pt.is_boolean(found.type):
            word = "TRUE" if node.expression.this else "FALSE"
            return Condition(f"{quoted(found.name)} IS {word}", when_null=False)
        return None

    def _like(self, node: Any) -> Condition | None:
        found = self._field_of(node.this)
        if found is None or not _is_text(found.type):
            return None
        pattern = self._constants.for_type(node.expression, found.type)
        if not isinstance(pattern, str) or len(pattern) < 2 or pattern[-1] != "%":
            return None
        if not _SPECIAL.isdisjoint(pattern[:-1]):
            return None
        name = self._name()
        return Condition(f"starts_with({quoted(found.name)}, :{name})", {name: pattern[:-1]})

    def _name(self) -> str:
        self._count += 1
        return f"p{self._count - 1}"


def quoted(name: str) -> str:
    """A column's name as ``lancewood.expr`` takes it exactly."""
    return '"' + name.replace('"', '""') + '"'


def _negated(condition: Condition | None) -> Condition | None:
    if condition is None:
        return None
    value = None if condition.when_null is None else not condition.when_null
    return Condition(f"NOT ({condition.sql})", condition.parameters, value)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pt.is_string(kind) or pt.is_large_string(kind))


def _has_plain_nulls(kind: pa.DataType) -> bool:
    """Whether nothing but its own bits says that a value is null."""
    if isinstance(kind, pa.BaseExtensionType):
        return False
    return bool(
        pt.is_primitive(kind)
        or _is_text(kind)
        or pt.is_binary(kind)
        or pt.is_list(kind)
        or pt.is_fixed_size_list(kind)
    )

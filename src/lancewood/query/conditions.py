"""Conditions that DuckDB's optimizer offers to a source, as conditions of our scans.

DuckDB does not look again at what a source accepts, so only comparisons that a scan decides exactly
as DuckDB does are translated: of whole numbers, texts, bytes, dates, timestamps and booleans.
Floating-point numbers are left to DuckDB. This module alone knows DuckDB's nodes, and the text of
conditions for `Table.scan`.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from lancewood.query.tokens import literal, quoted

_COMPARISONS = frozenset({"=", "!=", "<", "<=", ">", ">="})
_MOST_VALUES = 1_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def condition(node: Any, fields: dict[str, pa.Field]) -> str | None:
    """The text of a condition for `Table.scan`; None where a scan may decide otherwise.

    `fields` are the columns of the table by the names that DuckDB knows them by.
    """
    match type(node).__name__:
        case "Binary" if node.op in ("AND", "OR"):
            sides = [condition(each, fields) for each in (node.left, node.right)]
            if None in sides:
                return None
            return f"({sides[0]} {node.op} {sides[1]})"
        case "Binary" if node.op in _COMPARISONS:
            field, value = _column(node.left, fields), _literal(node.right, node.left, fields)
            operator = "<>" if node.op == "!=" else node.op
            return None if field is None or value is None else f"{_name(field)} {operator} {value}"
        case "In" if 0 < len(node.values) <= _MOST_VALUES:
            field = _column(node.operand, fields)
            values = [_literal(each, node.operand, fields) for each in node.values]
            if field is None or None in values:
                return None
            return f"{_name(field)} IN ({', '.join(map(str, values))})"
        case "Postfix" if node.op in ("IS NULL", "IS NOT NULL"):
            field = _column(node.operand, fields)
            return None if field is None else f"{_name(field)} {node.op}"
    return None


def kinds_of_changes(node: Any, column: str) -> frozenset[str] | None:
    """The values that a condition about one column alone allows; None for any other condition."""
    match type(node).__name__:
        case "Binary" if node.op == "=" and node.left.parts == (column,):
            return frozenset({str(node.right.value)})
        case "In" if node.operand.parts == (column,):
            return frozenset(str(each.value) for each in node.values)
        case "Binary" if node.op in ("AND", "OR"):
            left, right = (kinds_of_changes(each, column) for each in (node.left, node.right))
            if left is None or right is None:
                return None
            return left & right if node.op == "AND" else left | right
    return None


def _column(node: Any, fields: dict[str, pa.Field]) -> pa.Field | None:
    """The column that a node names; None for anything else, and for a field of a struct."""
    if type(node).__name__ != "Col" or len(node.parts) != 1:
        return None
    return fields.get(node.parts[0])


def _name(field: pa.Field) -> str:
    return quoted(str(field.name))


def _literal(node: Any, column: Any, fields: dict[str, pa.Field]) -> str | None:
    """A constant of the type of its column; None for one that a scan may read otherwise."""
    field = _column(column, fields)
    if field is None or type(node).__name__ != "Lit":
        return None
    kind, value = field.type, node.value
    if pt.is_integer(kind) and isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if pt.is_string(kind) or pt.is_large_string(kind):
        return literal(value) if isinstance(value, str) and value.isprintable() else None
    if pt.is_boolean(kind) and isinstance(value, bool):
        return str(value).upper()
    if pt.is_date32(kind) and type(value) is date:
        return f"DATE '{value.isoformat()}'"
    if pt.is_timestamp(kind) and kind.unit == "us":
        return _timestamp(value, kind.tz)
    return None


def _timestamp(value: Any, zone: str | None) -> str | None:
    if zone is None:
        is_naive = isinstance(value, datetime) and value.tzinfo is None
        return f"TIMESTAMP '{value.isoformat(' ')}'" if is_naive else None
    if zone != "UTC" or not isinstance(value, int):
        return None
    try:
        moment = _EPOCH + timedelta(microseconds=value)
    except OverflowError:
        return None
    return f"TIMESTAMPTZ '{moment.isoformat(' ')}'"

"""The types of columns in statements: Spark's in the Arrow types of a new table.

They are those of ``docs/spark-types.md``; ``FLOAT[768]`` is a list of that many values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from lancewood.errors import InvalidInputError, UnsupportedError
from lancewood.spark.dialect.settings import Settings
from lancewood.spark.dialect.text import parse_fragment
from lancewood.spark.types.schemas import (
    BIGINT,
    BINARY,
    BOOLEAN,
    CLOCK,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    MOMENT,
    MOST_DIGITS,
    SMALLINT,
    TEXT,
    TINYINT,
)

_LEAVES = {
    "BOOLEAN": BOOLEAN,
    "TINYINT": TINYINT,
    "SMALLINT": SMALLINT,
    "INT": INT,
    "BIGINT": BIGINT,
    "FLOAT": FLOAT,
    "DOUBLE": DOUBLE,
    "TEXT": TEXT,
    "VARCHAR": TEXT,
    "CHAR": TEXT,
    "BINARY": BINARY,
    "DATE": DATE,
    "TIMESTAMPLTZ": MOMENT,
    "TIMESTAMPNTZ": CLOCK,
}
_READ = frozenset(
    {
        *("this", "expressions", "nested", "values", "kind", "constraints", "allow_null"),
        *("quoted", "is_string", "unit", "expression"),
    }
)
"""What is read of sqlglot's tree of a type."""
_TAKES_LENGTH = ("VARCHAR", "CHAR")
_DECIMAL = (10, 0)
_TIME_DIGITS = 6
COMMENT = "comment"
"""The key under which a table, a column or a field has what COMMENT says."""


def arrow_type(sql: str, settings: Settings) -> pa.DataType:
    """The type that a column has in a new table.

    Raises InvalidInputError for what is no type, UnsupportedError for one that tables cannot hold.
    """
    node = parse_fragment(sql, "DataType", settings)
    for each in node.walk():
        if any(value and name not in _READ for name, value in each.args.items()):
            raise _cannot_hold(node, sql)
    return _type(node, sql, settings)


def _type(node: Any, sql: str, settings: Settings) -> pa.DataType:
    name = str(getattr(node.this, "name", ""))
    nested = _NESTED.get(name)
    if nested is not None and node.expressions:
        return nested(node, sql, settings)
    if name == "TIMESTAMPTZ" and not node.expressions:
        return MOMENT if settings.timestamps_have_zones else CLOCK
    if name == "DECIMAL":
        return _decimal(_numbers(node, sql), sql)
    if name == "TIME":
        return _time(*_numbers(node, sql)[:1] or [_TIME_DIGITS])
    if _is_day_time(node):
        return pa.duration("us")
    kind = _LEAVES.get(name) if not node.expressions or name in _TAKES_LENGTH else None
    if kind is None:
        raise _cannot_hold(node, sql)
    return kind


def _cannot_hold(node: Any, sql: str) -> UnsupportedError:
    return UnsupportedError(
        f"tables cannot hold the type {node.sql('spark')} of {sql!r}: choose another one",
        type=sql,
    )


def _list(node: Any, sql: str, settings: Settings) -> pa.DataType:
    item = pa.field("item", _type(node.expressions[0], sql, settings))
    sizes = node.args.get("values")
    if not sizes:
        return pa.list_(item)
    size = str(sizes[0].this)
    if not (size.isascii() and size.isdigit() and 0 < int(size) < 1 << 31):
        raise InvalidInputError(f"{sql!r} is no type: a list has a number of values, as FLOAT[768]")
    return pa.list_(item, int(size))


def _map(node: Any, sql: str, settings: Settings) -> pa.DataType:
    key, value = (_type(each, sql, settings) for each in node.expressions)
    return pa.map_(key, value)


def _struct(node: Any, sql: str, settings: Settings) -> pa.DataType:
    return pa.struct([_field(each, sql, settings) for each in node.expressions])


def _field(node: Any, sql: str, settings: Settings) -> pa.Field:
    """A field of a struct, with NOT NULL and COMMENT."""
    from sqlglot import exp

    kind = node.args.get("kind")
    if kind is None:
        raise InvalidInputError(f"{sql!r} is no type: fields are written STRUCT<name: INT>")
    rules = [each.args.get("kind") for each in node.args.get("constraints") or ()]
    nullable = not any(
        isinstance(each, exp.NotNullColumnConstraint) and not each.args.get("allow_null")
        for each in rules
    )
    comments = [each.name for each in rules if isinstance(each, exp.CommentColumnConstraint)]
    metadata = {COMMENT: comments[0]} if comments else None
    return pa.field(node.name, _type(kind, sql, settings), nullable, metadata)


_NESTED: dict[str, Callable[[Any, str, Settings], pa.DataType]] = {
    "ARRAY": _list,
    "MAP": _map,
    "STRUCT": _struct,
}


def _numbers(node: Any, sql: str) -> list[int]:
    """The numbers in parentheses after a type."""
    found = [str(each.this.this) for each in node.expressions]
    if not all(each.isascii() and each.isdigit() for each in found):
        raise InvalidInputError(f"{sql!r} is no type: numbers stand in its parentheses")
    return [int(each) for each in found]


def _decimal(numbers: list[int], sql: str) -> pa.DataType:
    digits, scale = (*numbers, *_DECIMAL[len(numbers) :])[:2]
    if not 0 < digits <= MOST_DIGITS or scale > digits:
        raise InvalidInputError(
            f"{sql!r} is no type: a decimal has at most {MOST_DIGITS} digits, and no more of them "
            "after the point"
        )
    return pa.decimal128(digits, scale)


def _time(digits: int) -> pa.DataType:
    if digits == 0:
        return pa.time32("s")
    if digits <= 3:
        return pa.time32("ms")
    return pa.time64("us") if digits <= 6 else pa.time64("ns")


def _is_day_time(node: Any) -> bool:
    """Whether a type is INTERVAL DAY TO SECOND, or a part of it."""
    unit = getattr(node.this, "args", {}).get("unit")
    words = {"DAY", "HOUR", "MINUTE", "SECOND"}
    return unit is not None and {each.upper() for each in str(unit).split(" TO ")} <= words

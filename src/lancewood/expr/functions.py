"""The table of every operator and function that SQL text may call, by name.

An entry says how many arguments there may be and how they become a node. Most are a ``Signature``:
kinds of arguments, the type of the result, and a function written against ``pyarrow.compute``. An
argument marked constant has to be one (a literal, a parameter, or computed from them) and reaches
that function as a Python value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from lancewood.errors import InvalidInputError
from lancewood.expr import dates, lists, numbers, texts
from lancewood.expr.arithmetic import arithmetic, negative
from lancewood.expr.choose import coalesce_values, extreme, if_then, null_if
from lancewood.expr.compare import (
    all_of,
    any_of,
    compare,
    is_distinct,
    is_in,
    is_missing,
    is_not_distinct,
    is_truth,
    negate,
)
from lancewood.expr.nodes import Node
from lancewood.expr.signature import FunctionSignature, call_signature


@dataclass(frozen=True)
class SqlFunction:
    """What a name means: ``make`` turns between ``least`` and ``most`` nodes into one."""

    least: int
    most: int | None
    make: Callable[..., Node]


def call(name: str, args: Sequence[Node]) -> Node:
    """The node for a call; raises InvalidInputError where the number or types of arguments are
    wrong."""
    function = FUNCTIONS[name]
    if len(args) < function.least or (function.most is not None and len(args) > function.most):
        raise InvalidInputError(f"{name} takes {_count(function)}, {len(args)} are given")
    return function.make(*args)


def _count(function: SqlFunction) -> str:
    least, most = function.least, function.most
    if most is None:
        return f"at least {least} argument{'' if least == 1 else 's'}"
    if least == most:
        return f"{least} argument{'' if least == 1 else 's'}"
    return f"{least} to {most} arguments"


def _signed(name: str, signatures: Sequence[FunctionSignature]) -> SqlFunction:
    least = min(each.least for each in signatures)
    most = max(len(each.parameters) for each in signatures)
    return SqlFunction(least, most, lambda *args: call_signature(name, signatures, args))


_OPERATORS: dict[str, SqlFunction] = {
    **{
        each: SqlFunction(2, 2, partial(compare, each))
        for each in ("=", "<>", "<", "<=", ">", ">=")
    },
    **{
        each: SqlFunction(2, 2, partial(arithmetic, each))
        for each in ("+", "-", "*", "/", "//", "%")
    },
    "negate": SqlFunction(1, 1, negative),
    "is distinct from": SqlFunction(2, 2, is_distinct),
    "is not distinct from": SqlFunction(2, 2, is_not_distinct),
    "is null": SqlFunction(1, 1, is_missing),
    "is true": SqlFunction(1, 1, lambda value: is_truth(value, True)),
    "is false": SqlFunction(1, 1, lambda value: is_truth(value, False)),
    "in": SqlFunction(2, None, lambda value, *items: is_in(value, items)),
    "and": SqlFunction(2, None, lambda *values: all_of(values)),
    "or": SqlFunction(2, None, lambda *values: any_of(values)),
    "not": SqlFunction(1, 1, negate),
    "||": SqlFunction(2, 2, lambda *values: texts.concatenate("||", values, skip_nulls=False)),
    "like": SqlFunction(2, 3, partial(texts.like, False)),
    "ilike": SqlFunction(2, 3, partial(texts.like, True)),
    "element": SqlFunction(2, 2, lists.element),
}

_FORMS: dict[str, SqlFunction] = {
    "coalesce": SqlFunction(1, None, lambda *values: coalesce_values(values)),
    "ifnull": SqlFunction(2, 2, lambda *values: coalesce_values(values)),
    "nvl": SqlFunction(2, 2, lambda *values: coalesce_values(values)),
    "nullif": SqlFunction(2, 2, null_if),
    "if": SqlFunction(2, 3, if_then),
    "iff": SqlFunction(2, 3, if_then),
    "greatest": SqlFunction(1, None, lambda *values: extreme(">", values)),
    "least": SqlFunction(1, None, lambda *values: extreme("<", values)),
    "concat": SqlFunction(1, None, lambda *v: texts.concatenate("concat", v, skip_nulls=True)),
    "list_contains": SqlFunction(2, 2, lists.contains),
    "date_part": SqlFunction(2, 2, dates.date_part),
}

_SIGNATURES: dict[str, Sequence[FunctionSignature]] = {
    **texts.SIGNATURES,
    **numbers.SIGNATURES,
    **dates.SIGNATURES,
    "len": (*texts.SIGNATURES["length"], *lists.LENGTH),
    "length": (*texts.SIGNATURES["length"], *lists.LENGTH),
    "array_length": lists.LENGTH,
    "cardinality": lists.LENGTH,
}

_ALIASES = {
    "array_contains": "list_contains",
    "array_has": "list_contains",
    "list_has": "list_contains",
    "char_length": "text_length",
    "character_length": "text_length",
    "substring": "substr",
    "position": "strpos",
    "instr": "strpos",
    "prefix": "starts_with",
    "suffix": "ends_with",
    "regexp_like": "regexp_matches",
    "ceiling": "ceil",
    "pow": "power",
    "ucase": "upper",
    "lcase": "lower",
    "datepart": "date_part",
    "datetrunc": "date_trunc",
}

FUNCTIONS: dict[str, SqlFunction] = {
    **_OPERATORS,
    **_FORMS,
    **{name: _signed(name, signatures) for name, signatures in _SIGNATURES.items()},
}
FUNCTIONS |= {alias: FUNCTIONS[name] for alias, name in _ALIASES.items()}

AGGREGATES = frozenset(
    {
        *("any_value", "approx_count_distinct", "arg_max", "arg_min", "array_agg", "avg"),
        *("bool_and", "bool_or", "count", "first", "group_concat", "last", "list", "max", "mean"),
        *("median", "min", "mode", "product", "quantile", "stddev", "string_agg", "sum"),
        *("var_pop", "variance"),
    }
)
WINDOWS = frozenset({"dense_rank", "lag", "lead", "ntile", "rank", "row_number"})
MOMENTS = frozenset({"now", "today", "current_date", "current_timestamp", "localtimestamp"})

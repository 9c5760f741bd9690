"""Forms that choose one of several values: CASE, IF, COALESCE, NULLIF, GREATEST, LEAST.

A value that is not chosen cannot fail: ``evaluate`` masks its rows. (A ``pc.Expression`` computes
every branch for every row.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lancewood.errors import InvalidInputError
from lancewood.expr.compare import all_of, compare
from lancewood.expr.convert import unify
from lancewood.expr.nodes import Node, apply, case, coalesce, describe, null
from lancewood.expr.types import COUNTED, family


def choose(conditions: Sequence[Node], results: Sequence[Node]) -> Node:
    """CASE: one result per condition and one more; raises InvalidInputError where types do not
    fit."""
    checked = [all_of([each]) for each in conditions]
    return case(checked, unify(results))


def if_then(condition: Node, yes: Node, no: Node | None = None) -> Node:
    """IF: ``no``, or null if it is left out, where the condition is false or null."""
    return choose([condition], [yes, no or null(pa.null())])


def null_if(value: Node, other: Node) -> Node:
    """NULLIF: null where both are equal, in the type of the first."""
    return choose([compare("=", value, other)], [null(pa.null()), value])


def coalesce_values(values: Sequence[Node]) -> Node:
    """COALESCE: the first value that is not null."""
    return coalesce(unify(values))


def extreme(operator: str, values: Sequence[Node]) -> Node:
    """GREATEST for ">", LEAST for "<": nulls are skipped, NaN is the largest."""
    name = "greatest" if operator == ">" else "least"
    values = unify(values)
    type_ = values[0].type
    if family(type_) not in _ORDERED:
        raise InvalidInputError(f"{name} cannot order {describe(values[0])}")
    if len(values) == 1:
        return values[0]
    compute = pc.max_element_wise if operator == ">" else pc.min_element_wise
    zone = getattr(type_, "tz", None)

    def build(*values: Any) -> Any:
        if zone is not None:  # Arrow does not compare zoned timestamps here
            naive = pa.timestamp(type_.unit)
            return compute(*(each.cast(naive) for each in values), skip_nulls=True).cast(type_)
        best = compute(*values, skip_nulls=True)
        if not (pt.is_floating(type_) and operator == ">"):
            return best
        known = [pc.coalesce(pc.is_nan(each), pa.scalar(False)) for each in values]
        return pc.if_else(reduce(pc.or_kleene, known), pa.scalar(math.nan, type_), best)

    return apply(name, values, type_, build, copies=2)


_ORDERED = frozenset({"null", "float", "text", "binary", *COUNTED})

"""Functions of lists, and access with ``value[…]``.

Positions count from 1, or from the end if negative; a position that does not exist is NULL.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lancewood.errors import InvalidInputError
from lancewood.expr.convert import TEMPORAL, bare_text, fit, plain, read_moment
from lancewood.expr.kernels import list_contains_kernel, list_element_kernel
from lancewood.expr.literals import scalar_in
from lancewood.expr.nodes import Literal, Node, apply, describe, is_null, null
from lancewood.expr.signature import Argument, FunctionSignature
from lancewood.expr.types import COUNTED, alike, family, plain_type

LENGTH = (
    FunctionSignature(
        (Argument("list"),), pa.int64(), lambda value: pc.list_value_length(value).cast(pa.int64())
    ),
)

_COMPARABLE = frozenset({"boolean", "float", "text", "binary", *COUNTED})


def contains(values: Node, needle: Node) -> Node:
    """list_contains: whether a constant is an element; null lists return null."""
    if family(values.type) != "list" or not isinstance(needle, Literal):
        raise InvalidInputError(
            f"list_contains takes a list and a constant, not {describe(values)} and "
            f"{describe(needle)}"
        )
    element = plain_type(values.type.value_type)
    text = bare_text(needle)
    if text is not None and family(element) in TEMPORAL:
        needle = read_moment(text, element, f"an element of {describe(values)}")
    if is_null(needle):
        return null(pa.bool_())
    if family(element) not in _COMPARABLE or not alike(element, needle.type):
        raise InvalidInputError(
            f"the elements of {describe(values)} cannot be compared with {describe(needle)}"
        )
    value = scalar_in(needle, element)
    if value is None:
        return apply("list_contains", [values], pa.bool_(), _never)
    kernel = list_contains_kernel(values.type, element)
    return apply("list_contains", [values, Literal(value)], pa.bool_(), kernel.call)


def element(value: Node, index: Node) -> Node:
    """``value[index]``: an element of a list, or the value of a map under a constant key.

    Fields of structs are names and resolved by ``check``.
    """
    index = plain(index)
    if family(value.type) == "list" and family(index.type) in ("integer", "null"):
        if pt.is_uint64(index.type):
            raise InvalidInputError("a position in a list cannot be a uint64; cast it to BIGINT")
        kernel = list_element_kernel(value.type)
        args = [value, fit(index, pa.int64())]
        return apply("element", args, value.type.value_type, kernel.call)
    if family(value.type) == "map" and isinstance(index, Literal):
        return _lookup(value, index)
    raise InvalidInputError(f"{describe(value)} has no element {describe(index)}")


def _lookup(value: Node, key: Literal) -> Node:
    if is_null(key):
        return null(value.type.item_type)
    if not alike(value.type.key_type, key.type):
        raise InvalidInputError(f"{describe(key)} is no key of {describe(value)}")
    found = scalar_in(key, value.type.key_type)
    if found is None:
        return null(value.type.item_type)

    def build(value: Any) -> Any:
        return pc.map_lookup(value, query_key=found, occurrence="first")

    return apply("element", [value], value.type.item_type, build)


def _never(values: Any) -> Any:
    return pc.if_else(pc.is_valid(values), pa.scalar(False), pa.scalar(None, pa.bool_()))

"""Signatures of plain functions: which kinds of arguments they take and what they return."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from lancewood.errors import InvalidInputError
from lancewood.expr.convert import fit, plain
from lancewood.expr.literals import scalar_in
from lancewood.expr.nodes import Literal, Node, apply, describe, null
from lancewood.expr.types import family

KINDS: dict[str, frozenset[str]] = {
    "text": frozenset({"text"}),
    "bytes": frozenset({"binary"}),
    "integer": frozenset({"integer"}),
    "number": frozenset({"integer", "float", "decimal"}),
    "float": frozenset({"float"}),
    "decimal": frozenset({"decimal"}),
    "list": frozenset({"list"}),
    "moment": frozenset({"date", "timestamp"}),
    "date": frozenset({"date"}),
    "timestamp": frozenset({"timestamp"}),
    "clock": frozenset({"timestamp", "time"}),
}


@dataclass(frozen=True)
class Argument:
    """One argument: its kind, whether it has to be constant, and whether it may be missing.

    ``convert`` is the type it is brought to, or a function from its type to that one.
    """

    kind: str
    constant: bool = False
    optional: bool = False
    convert: pa.DataType | Callable[[pa.DataType], pa.DataType] | None = None


@dataclass(frozen=True)
class FunctionSignature:
    """``build`` gets the values of the arguments that vary, then the constant ones.

    ``returns`` is a type, or a function of the varying arguments' types.
    """

    parameters: tuple[Argument, ...]
    returns: pa.DataType | Callable[..., pa.DataType]
    build: Callable[..., Any]
    fallible: bool = False
    copies: int = 1

    @property
    def least(self) -> int:
        return sum(not each.optional for each in self.parameters)


def same_type(first: pa.DataType, *others: pa.DataType) -> pa.DataType:
    """The type of the first argument."""
    return first


def call_signature(
    name: str, signatures: Sequence[FunctionSignature], args: Sequence[Node]
) -> Node:
    """The call of the first signature that fits the arguments; raises InvalidInputError for
    none."""
    plain_args = [plain(each) for each in args]
    for signature in signatures:
        if _fits(signature, plain_args):
            return _call(name, signature, plain_args)
    found = ", ".join(describe(each) for each in args)
    wanted = " or ".join(_spell(name, each) for each in signatures)
    raise InvalidInputError(f"{name} cannot take {found}; it is {wanted}")


def _fits(signature: FunctionSignature, args: Sequence[Node]) -> bool:
    if not signature.least <= len(args) <= len(signature.parameters):
        return False
    return all(
        pt.is_null(arg.type) or family(arg.type) in KINDS[parameter.kind]
        for parameter, arg in zip(signature.parameters, args, strict=False)
    )


def _call(name: str, signature: FunctionSignature, args: Sequence[Node]) -> Node:
    varying: list[Node] = []
    constants: list[Any] = []
    for number, (parameter, arg) in enumerate(
        zip(signature.parameters, args, strict=False), start=1
    ):
        if parameter.constant:
            constants.append(_constant(name, number, parameter, arg))
        else:
            varying.append(_convert(parameter, arg))
    returns = signature.returns
    type_ = returns if isinstance(returns, pa.DataType) else returns(*(v.type for v in varying))
    if None in constants:
        return null(type_)

    def build(*values: Any) -> Any:
        return signature.build(*values, *constants)

    return apply(name, varying, type_, build, fallible=signature.fallible, copies=signature.copies)


def _convert(parameter: Argument, arg: Node) -> Node:
    if pt.is_null(arg.type):
        arg = fit(arg, _DEFAULTS[parameter.kind])
    target = parameter.convert
    if target is None:
        return arg
    return fit(arg, target if isinstance(target, pa.DataType) else target(arg.type))


_DEFAULTS = {
    "text": pa.string(),
    "bytes": pa.binary(),
    "integer": pa.int64(),
    "number": pa.float64(),
    "float": pa.float64(),
    "decimal": pa.decimal128(1, 0),
    "list": pa.list_(pa.null()),
    "moment": pa.timestamp("us"),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "clock": pa.timestamp("us"),
}


def _constant(name: str, number: int, parameter: Argument, arg: Node) -> Any:
    if not isinstance(arg, Literal):
        raise InvalidInputError(
            f"argument {number} of {name} has to be a constant, not {describe(arg)}"
        )
    if arg.value.is_valid and parameter.kind == "integer" and not scalar_in(arg, pa.int32()):
        raise InvalidInputError(f"argument {number} of {name} is too large: {describe(arg)}")
    return arg.value.as_py()


def _spell(name: str, signature: FunctionSignature) -> str:
    words = [
        f"{'constant ' if each.constant else ''}{each.kind}{' (optional)' if each.optional else ''}"
        for each in signature.parameters
    ]
    return f"{name}({', '.join(words)})"

"""From a sqlglot tree to our own ``syntax``: the only module that reads sqlglot's classes.

Every class is looked up by name in a table; one that is missing, or that carries a part its entry
does not read (a FILTER, a negation, a collation), is refused, so nothing written is ever ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from itertools import count
from math import isfinite
from typing import Any

from lancewood.errors import InvalidInputError
from lancewood.expr.literals import negated
from lancewood.expr.parse import shorten
from lancewood.expr.sqltypes import type_from_name
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

_BINARY = {
    "EQ": "=",
    "NEQ": "<>",
    "LT": "<",
    "LTE": "<=",
    "GT": ">",
    "GTE": ">=",
    "NullSafeEQ": "is not distinct from",
    "NullSafeNEQ": "is distinct from",
    "Add": "+",
    "Sub": "-",
    "Mul": "*",
    "Div": "/",
    "Mod": "%",
    "IntDiv": "//",
    "Pow": "power",
    "DPipe": "||",
}

_CONSTRUCTS = {
    "BitwiseAnd": "the operator &",
    "BitwiseOr": "the operator |",
    "BitwiseXor": "a bitwise XOR",
    "BitwiseNot": "the operator ~",
    "Select": "a SELECT",
    "Subquery": "a subquery",
    "Exists": "EXISTS (a subquery)",
    "Window": "a window function (OVER)",
    "Filter": "FILTER",
    "Distinct": "DISTINCT",
    "Star": "*",
    "Tuple": "a row (a, b)",
    "Array": "a list literal",
    "Struct": "a struct literal",
    "Slice": "a list slice [a:b]",
    "Collate": "COLLATE",
    "AtTimeZone": "AT TIME ZONE",
    "SimilarTo": "SIMILAR TO",
    "Any": "ANY (…)",
    "All": "ALL (…)",
    "JSONExtract": "the operator ->",
    "CurrentDate": "CURRENT_DATE (pass the moment as a parameter)",
    "CurrentTimestamp": "CURRENT_TIMESTAMP (pass the moment as a parameter)",
    "CurrentTime": "CURRENT_TIME (pass the moment as a parameter)",
    "Lambda": "a lambda",
    "ByteString": "an e'…' string",
}

_PATTERNS = ("RegexpLike", "RegexpILike")
_PATTERN_WORD = re.compile(r"(rlike|regexp|~\*?)[\s(]*$", re.IGNORECASE)

_MONTHS = {"month": 1, "quarter": 3, "year": 12, "decade": 120}
_LENGTHS = {
    "microsecond": timedelta(microseconds=1),
    "millisecond": timedelta(milliseconds=1),
    "second": timedelta(seconds=1),
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(weeks=1),
}


def lower(tree: Any, sql: str) -> Syntax:
    """Our syntax for a sqlglot tree of ``sql``; raises InvalidInputError for what is not
    supported."""
    return _Lowering(sql).lower(tree)


class _Lowering:
    def __init__(self, sql: str) -> None:
        self.sql = sql
        self.question_marks = count()

    def lower(self, node: Any) -> Syntax:
        kind = type(node).__name__
        entry = _HANDLERS.get(kind)
        if entry is None:
            what = self.pattern_operator(node) if kind in _PATTERNS else kind
            raise self.refuse(node, _CONSTRUCTS.get(kind, what))
        handler, fields = entry
        for name, value in node.args.items():
            if name not in fields and value not in (None, False, [], ""):
                raise self.refuse(node, _CONSTRUCTS.get(kind, f"{kind} with {name.upper()}"))
        return handler(self, node)

    def lower_all(self, nodes: Any) -> tuple[Syntax, ...]:
        return tuple(self.lower(each) for each in nodes)

    def refuse(self, node: Any, what: str) -> InvalidInputError:
        words, facts = place(self.sql, self.start(node))
        return InvalidInputError(f"{what}{words} in {shorten(self.sql)} is not supported", **facts)

    def pattern_operator(self, node: Any) -> str:
        """The operator as it was typed: it has several names."""
        typed = _PATTERN_WORD.search(self.sql[: self.start(node.expression) or 0])
        return f"the operator {typed[1].upper() if typed else '~'} (write regexp_matches)"

    def start(self, node: Any) -> int | None:
        starts = (each.meta["start"] for each in node.walk() if "start" in each.meta)
        return min(starts, default=None)

    # names

    def column(self, node: Any) -> Syntax:
        words = [node.args.get(each) for each in ("catalog", "db", "table", "this")]
        parts = tuple(self.part(word) for word in words if word is not None)
        return Name(parts, self.start(node))

    def part(self, word: Any) -> NamePart:
        if type(word).__name__ != "Identifier":
            raise self.refuse(word, _CONSTRUCTS.get(type(word).__name__, "this name"))
        return NamePart(word.name, bool(word.args.get("quoted")))

    def dot(self, node: Any) -> Syntax:
        value, part = self.lower(node.this), self.part(node.expression)
        if isinstance(value, Name):
            return Name((*value.parts, part), value.start)
        return Member(value, part, self.start(node))

    def bracket(self, node: Any) -> Syntax:
        if len(node.expressions) != 1:
            raise self.refuse(node, "more than one index in […]")
        index = self.lower(node.expressions[0])
        return Call("element", (self.lower(node.this), index), self.start(node))

    def placeholder(self, node: Any) -> Syntax:
        name = str(node.args.get("this") or "")
        if not name:
            return Parameter(next(self.question_marks), self.start(node))
        return Parameter(int(name) - 1 if name.isdecimal() else name, self.start(node))

    # constants

    def literal(self, node: Any) -> Syntax:
        return Constant(node.this if node.is_string else self.number(node, node.this))

    def number(self, node: Any, text: str) -> int | Decimal | float:
        if re.fullmatch(r"\d+", text):
            if len(text) > 1000:
                raise self.refuse(node, f"a number of {len(text)} digits")
            return int(text)
        if re.fullmatch(r"\d*\.\d*", text) and text != ".":
            return Decimal(text)
        if re.fullmatch(r"(\d+\.?\d*|\.\d+)[eE][+-]?\d+", text):
            if isfinite(float(text)):
                return float(text)
            raise self.refuse(node, f"the number {text}, which is too large for a double,")
        raise self.refuse(node, f"the number {text}")

    def hex_string(self, node: Any) -> Syntax:
        start = node.meta.get("start", 0)
        if self.sql[start : start + 2].lower() == "0x":
            return Constant(int(node.this, 16))
        try:
            return Constant(bytes.fromhex(node.this))
        except ValueError:
            raise self.refuse(node, f"x'{node.this}', which is not pairs of hex digits,") from None

    def interval(self, node: Any) -> Syntax:
        quantity = node.this
        text = str(quantity.this) if type(quantity).__name__ in ("Literal", "Neg") else ""
        unit = node.args["unit"].name if node.args.get("unit") is not None else ""
        match = re.fullmatch(r"\s*([+-]?\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", text)
        word = (unit or (match[2] if match else "")).lower().rstrip("s")
        if match is None or (unit and match[2]) or word not in {*_MONTHS, *_LENGTHS}:
            raise self.refuse(node, "an INTERVAL other than one number and one unit")
        amount = Decimal(match[1])
        try:
            if word in _MONTHS and amount == int(amount):
                return Months(int(amount) * _MONTHS[word])
            if word in _LENGTHS:
                microseconds = amount * (_LENGTHS[word] // timedelta(microseconds=1))
                if microseconds == int(microseconds):
                    return Constant(timedelta(microseconds=int(microseconds)))
        except OverflowError:
            pass
        raise self.refuse(node, f"an INTERVAL of {match[1]} {word}")

    # operators

    def chain(self, node: Any) -> Syntax:
        """AND or OR: a left-leaning chain of any length becomes one call."""
        kind, operands = type(node), []
        stack = [node]
        while stack:
            each = stack.pop()
            if type(each) is kind:
                stack += [each.expression, each.this]
            else:
                operands.append(self.lower(each))
        return Call(kind.__name__.lower(), tuple(operands), self.start(node))

    def binary(self, node: Any) -> Syntax:
        name = _BINARY[type(node).__name__]
        args = (self.lower(node.this), self.lower(node.expression))
        return Call(name, args, self.start(node))

    def negative(self, node: Any) -> Syntax:
        value = self.lower(node.this)
        if isinstance(value, Constant) and type(value.value) in (int, Decimal, float):
            return Constant(negated(value.value))
        return Call("negate", (value,), self.start(node))

    def is_(self, node: Any) -> Syntax:
        wanted = {"Null": "is null", "Boolean": "is false"}.get(type(node.expression).__name__)
        if wanted is None:
            raise self.refuse(node, "IS with anything but NULL, TRUE, FALSE or UNKNOWN")
        if wanted == "is false" and node.expression.this:
            wanted = "is true"
        return Call(wanted, (self.lower(node.this),), self.start(node))

    def in_(self, node: Any) -> Syntax:
        where = self.start(node)
        if node.args.get("query") is not None:
            raise self.refuse(node, "IN with a subquery")
        field = node.args.get("field")
        if field is not None and type(field).__name__ not in ("Placeholder", "Parameter"):
            raise self.refuse(node, "IN without a list in parentheses")
        items = node.expressions if field is None else [field]
        return Call("in", (self.lower(node.this), *self.lower_all(items)), where)

    def between(self, node: Any) -> Syntax:
        value, where = self.lower(node.this), self.start(node)
        low = Call(">=", (value, self.lower(node.args["low"])), where)
        high = Call("<=", (value, self.lower(node.args["high"])), where)
        return Call("and", (low, high), where)

    def like(self, node: Any, escape: Any = None) -> Syntax:
        args = [self.lower(node.this), self.lower(node.expression)]
        if escape is not None:
            args.append(self.lower(escape))
        where = self.start(node)
        call = Call(type(node).__name__.lower(), tuple(args), where)
        return Call("not", (call,), where) if node.args.get("negate") else call

    def escape(self, node: Any) -> Syntax:
        inner = node.this
        if type(inner).__name__ == "Not" and type(inner.this).__name__ in ("Like", "ILike"):
            negated = self.like(inner.this, node.expression)
            return Call("not", (negated,), self.start(node))
        if type(inner).__name__ not in ("Like", "ILike"):
            raise self.refuse(node, "ESCAPE without LIKE")
        return self.like(inner, node.expression)

    # forms

    def case(self, node: Any) -> Syntax:
        where = self.start(node)
        operand = None if node.this is None else self.lower(node.this)
        branches = []
        for branch in node.args["ifs"]:
            condition = self.lower(branch.this)
            if operand is not None:
                condition = Call("=", (operand, condition), where)
            branches.append((condition, self.lower(branch.args["true"])))
        default = node.args.get("default")
        otherwise = Constant(None) if default is None else self.lower(default)
        return CaseWhen(tuple(branches), otherwise, where)

    def cast(self, node: Any) -> Syntax:
        found = node.args["to"]
        sizes = [str(each.this) for each in found.expressions]
        name = found.this.name if hasattr(found.this, "name") else str(found.this)
        if name == "USERDEFINED":
            name = str(found.args.get("kind"))
        target = type_from_name(name, sizes)
        if target is None:
            raise self.refuse(node, f"the type {found.sql(dialect='duckdb')}")
        strict = type(node).__name__ == "Cast"
        return CastTo(self.lower(node.this), target, strict, self.start(node))

    def function(self, node: Any) -> Syntax:
        name = str(node.this).lower()
        for each in node.expressions:
            if type(each).__name__ in ("Star", "Distinct"):
                inside = _CONSTRUCTS[type(each).__name__]
                raise self.refuse(node, f"the function {name}({inside})")
        return Call(name, self.lower_all(node.expressions), self.start(node))

    def coalesce(self, node: Any) -> Syntax:
        args = self.lower_all([node.this, *node.expressions])
        return Call("coalesce", args, self.start(node))

    def adjacent_texts(self, node: Any) -> Syntax:
        return Call("concat", self.lower_all(node.expressions), self.start(node))

    def extract(self, node: Any) -> Syntax:
        part = Constant(str(node.this.name).lower())
        return Call("date_part", (part, self.lower(node.expression)), self.start(node))

    def trim(self, node: Any) -> Syntax:
        side = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(node.args.get("position") or "BOTH")
        args = [node.this] if node.args.get("expression") is None else [node.this, node.expression]
        marks = [each for each in node.walk() if type(each).__name__ == "Placeholder"]
        if len(args) > 1 and not all(each.args.get("this") for each in marks):
            raise self.refuse(node, "'?' inside TRIM (its order is unclear; name the parameter)")
        return Call(side or "trim", self.lower_all(args), self.start(node))

    def substring(self, node: Any) -> Syntax:
        parts = [node.this, node.args.get("start"), node.args.get("length")]
        args = self.lower_all(each for each in parts if each is not None)
        return Call("substr", args, self.start(node))

    def string_position(self, node: Any) -> Syntax:
        needle = self.lower(node.args["substr"])  # POSITION(needle IN value): read it first
        return Call("strpos", (self.lower(node.this), needle), self.start(node))


_Handler = Callable[[_Lowering, Any], Syntax]

_HANDLERS: dict[str, tuple[_Handler, frozenset[str]]] = {
    name: (handler, frozenset(fields.split()))
    for name, handler, fields in [
        ("Paren", lambda self, node: self.lower(node.this), "this"),
        ("Column", _Lowering.column, "this table db catalog"),
        ("Dot", _Lowering.dot, "this expression"),
        ("Bracket", _Lowering.bracket, "this expressions"),
        ("Placeholder", _Lowering.placeholder, "this"),
        ("Parameter", _Lowering.placeholder, "this"),
        ("Null", lambda self, node: Constant(None), ""),
        ("Boolean", lambda self, node: Constant(bool(node.this)), "this"),
        ("Literal", _Lowering.literal, "this is_string"),
        ("RawString", lambda self, node: Constant(node.this), "this"),
        ("HexString", _Lowering.hex_string, "this"),
        ("Interval", _Lowering.interval, "this unit fraction_in_string"),
        ("And", _Lowering.chain, "this expression"),
        ("Or", _Lowering.chain, "this expression"),
        ("Not", lambda self, node: Call("not", (self.lower(node.this),), None), "this"),
        ("Neg", _Lowering.negative, "this"),
        ("Is", _Lowering.is_, "this expression"),
        ("In", _Lowering.in_, "this expressions query field"),
        ("Between", _Lowering.between, "this low high"),
        ("Like", _Lowering.like, "this expression negate"),
        ("ILike", _Lowering.like, "this expression negate"),
        ("Escape", _Lowering.escape, "this expression"),
        ("Case", _Lowering.case, "this ifs default"),
        ("Cast", _Lowering.cast, "this to"),
        ("TryCast", _Lowering.cast, "this to safe requires_string"),
        ("Anonymous", _Lowering.function, "this expressions"),
        ("Coalesce", _Lowering.coalesce, "this expressions"),
        ("Concat", _Lowering.adjacent_texts, "expressions safe coalesce"),
        ("Extract", _Lowering.extract, "this expression"),
        ("Trim", _Lowering.trim, "this expression position"),
        ("Substring", _Lowering.substring, "this start length"),
        ("StrPosition", _Lowering.string_position, "this substr"),
        *((each, _Lowering.binary, "this expression safe typed") for each in _BINARY),
    ]
}

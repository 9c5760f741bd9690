"""The parts of sqlglot's trees that this room reads: kinds of nodes, and the arguments of each.

A translation looks at the arguments that it knows, and would pass over any other: a newer sqlglot
says NOT LIKE by an argument of LIKE. So every tree is checked here before it is translated, and one
that says more than is read is not translated at all.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from lancewood.query.clauses import called
from lancewood.query.typed import only_spark

_BINARY = "this expression"
READ: dict[str, frozenset[str]] = {
    kind: frozenset(arguments.split())
    for arguments, kinds in {
        # Queries
        "with_ from_ joins where group having order limit offset distinct expressions hint": (
            "Select"
        ),
        "with_ this expression distinct order limit offset": "Union Intersect Except",
        "expressions recursive": "With",
        "this alias": "Alias CTE Subquery",
        "this columns": "TableAlias",
        "this on side kind using method": "Join",
        "this db catalog alias version when": "Table",
        "this quoted": "Identifier",
        "this kind expression": "Version",
        "expressions alias": "Values",
        "expressions all": "Group",
        "expressions on": "Distinct",
        "expression": "Limit Offset",
        "this desc nulls_first": "Ordered",
        "except_ replace rename ilike": "Star",
        "expressions": "Order Tuple",
        # Names, constants and types
        "this table db catalog": "Column",
        "this is_string": "Literal",
        "this unit": "Interval TimestampTrunc",
        "this expressions nested values": "DataType",
        "this kind constraints": "ColumnDef",
        "kind": "ColumnConstraint",
        "allow_null": "NotNullColumnConstraint",
        # Operators and functions
        _BINARY: (
            "And Or EQ NEQ LT LTE GT GTE NullSafeEQ NullSafeNEQ Add Sub Mul Mod IntDiv Is Dot "
            "Filter Kwarg IntervalSpan ArrayContains Contains EndsWith StartsWith Nullif Extract"
        ),
        "this expression safe": "Div DPipe",
        "this expression negate": "Like ILike",
        "this low high symmetric": "Between",
        "this expressions query": "In",
        "this ifs default": "Case",
        "this true false": "If",
        "this to format safe": "Cast TryCast",
        "this expressions": "Anonymous Coalesce Max Min",
        "this expressions ignore_nulls": "Greatest Least",
        "expressions safe": "Concat",
        "this expression replacement": "Replace",
        "this expression position": "Trim",
        "this substr position occurrence": "StrPosition",
        "this start length": "Substring",
        "this decimals": "Ceil Floor",
        "this decimals truncate": "Round",
        "this expression unit": "DateDiff TsOrDsAdd",
        "this format safe": "TsOrDsToDate",
        "this": (
            "From Where Having Boolean HexString Placeholder Paren Not Neg Exists Var "
            "DataTypeParam CommentColumnConstraint Abs IsNan Length Lower Upper Sqrt Year Month "
            "Day DayOfMonth DayOfWeek DayOfYear WeekOfYear Quarter Hour Minute Second Avg CountIf "
            "LogicalAnd LogicalOr Sum FirstValue LastValue"
        ),
        "": "Null CurrentDate CurrentTimestamp RowNumber Rank DenseRank",
        # Functions over rows
        "this expressions big_int": "Count",
        "this offset default": "Lag Lead",
        "this partition_by order spec alias over first": "Window",
        "kind start start_side end end_side exclude": "WindowSpec",
    }.items()
    for kind in kinds.split()
}
"""The arguments that are read of each kind of node, or that mean nothing to a translation."""

_WORDS = {"Select": "SELECT", "Table": "FROM", "Group": "GROUP BY"}
"""What messages call a clause."""
_NO_MEANING = frozenset({"Hint"})
"""Parts of a query that change how it is answered, and not its answer."""


class Unread(NamedTuple):
    """A part of a tree that nothing here reads."""

    node: Any
    argument: str | None
    """None if the whole node is unknown."""


def unread(tree: Any) -> Unread | None:
    """The first part of a tree that a translation would pass over; None if there is none."""
    for node in tree.walk(prune=lambda each: type(each).__name__ in _NO_MEANING):
        kind = type(node).__name__
        if kind in _NO_MEANING:
            continue
        known = READ.get(kind)
        if known is None:
            return Unread(node, None)
        for name, value in node.args.items():
            if name not in known and value not in (None, False, [], ""):
                return Unread(node, name)
    return None


def check_read(tree: Any) -> None:
    """Raise UnsupportedError for a query that says more than DuckDB would be told."""
    found = unread(tree)
    if found is None:
        return
    node, argument = found
    what = _WORDS.get(type(node).__name__) or called(node)
    if argument is not None:
        what = f"{what} with {argument.rstrip('_').replace('_', ' ').upper()}"
    raise only_spark(what)

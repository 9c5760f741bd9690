"""A text of DuckDB's SQL to a checked expression, computed by DuckDB and pyarrow (design D8).

The language is DuckDB's: it parses, types and computes. ``syntax`` has it parse a text, and refuses
what is not one expression about one row whose value is the same at every run. ``columns`` finds
the columns that the text names, and hands them over. Conditions that compare a column with a
constant are a ``tree``: computed by pyarrow, they prune by statistics and ask indices. All else is
one statement over the rows that are handed in, in a confined ``database`` of the process.
"""

from __future__ import annotations

from lancewood.expr.expression import Expression, Predicate, parse_expression, parse_predicate
from lancewood.expr.syntax import MAX_LENGTH, Parameters, shorten
from lancewood.expr.tree import Bound

__all__ = [
    "MAX_LENGTH",
    "Bound",
    "Expression",
    "Parameters",
    "Predicate",
    "parse_expression",
    "parse_predicate",
    "shorten",
]

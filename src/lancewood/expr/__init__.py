"""SQL text to a checked expression over an Arrow schema, evaluated with pyarrow (design D8).

One dialect for scans, deletes, updates, pruning and Spark's ``filter`` option. A text passes
through ``parse`` (sqlglot, limits) → ``lower`` (our syntax) → ``check`` (names, types, parameters;
the table ``functions.FUNCTIONS`` holds all that can be called) → ``evaluate``. sqlglot is loaded
with the first text.

The dialect follows DuckDB, with these deliberate differences:

- Names are case-sensitive; an unquoted name falls back to the only one that differs in case.
- Types are not mixed silently: text is not compared with numbers, nor a boolean with 1. Only a
  constant text is read as a date, time or timestamp where it meets one.
- Integer arithmetic is done in int64 (uint64 where one side is), so it overflows later and its
  type is wider; floor, ceil and round of integers are integers.
- A plainly written 0.5 that meets an integer column, or stands alone, is a float64. Beside
  decimals it is exact.
- Division by zero with ``/``, ``//`` or ``%`` is NULL; it is neither infinite nor an error.
- Integers compared with float32 meet as float64 (DuckDB: as float32).
- CAST reads text as Arrow does: ``'1.5'`` is not an integer, text for a zoned timestamp needs an
  offset, only constant text becomes a TIME. Numbers and timestamps become the text that Arrow
  writes. CAST between text and bytes is UTF-8.
- Wall time without a zone, compared with a zoned column, is of that column's zone; ``hour`` and
  its like read a zoned timestamp in its own zone. DuckDB uses the session's zone for both.
- Patterns, widths, units and other marked arguments have to be constants; padding is one
  character; ``substr`` takes no negative length.
- ``reverse`` works on code points. ``round`` of a decimal keeps its scale.
- A number written with an exponent is as exact as one without (DuckDB: a DOUBLE).
- Timestamps of different units are compared in the finer one; a moment outside its range is an
  error, not an answer. Constants have no such limit.
- Months and years can only be added to constant dates.
- CURRENT_DATE, now() and their like are refused: the same text has to mean the same rows when a
  job is run again.

As in DuckDB (and unlike Arrow): NaN equals NaN and is larger than every number; LIKE has no escape
character unless ESCAPE names one; CONCAT, GREATEST and LEAST skip nulls; CAST rounds floats half to
even and decimals half away from zero.
"""

from __future__ import annotations

from lancewood.expr.bounds import Bound
from lancewood.expr.expression import (
    Expression,
    Predicate,
    parse_expression,
    parse_number,
    parse_predicate,
)

__all__ = [
    "Bound",
    "Expression",
    "Predicate",
    "parse_expression",
    "parse_number",
    "parse_predicate",
]

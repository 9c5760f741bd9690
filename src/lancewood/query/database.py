"""The confined database of queries, and what DuckDB says of them.

It has no tables: views of a cursor give them names. Memory is bounded, and what does not fit goes
to a directory of the process's own.
"""

from __future__ import annotations

from lancewood.errors import InvalidInputError, UnsupportedError
from lancewood.expr.database import Database

QUERIES = Database(spills=True, memory_limit="60%")
FAILED = "MERGE: a row meets WHEN "
"""How the message begins of a statement that fails because it says so."""


def in_our_words(error: Exception) -> Exception:
    """Our error for one of DuckDB's."""
    import duckdb

    if isinstance(error, duckdb.InternalError | duckdb.FatalException):
        QUERIES.discard()
    message = str(error).strip().partition("\n\nLINE ")[0].strip()
    text = " ".join(message.partition(": ")[2].split()) or message
    if FAILED in text:
        return InvalidInputError(text[text.index(FAILED) :])
    if isinstance(error, duckdb.OutOfMemoryException):
        return UnsupportedError(
            f"the query needs more memory than it may take here: {text}; ask for less, or with "
            "lw sql --spark"
        )
    if isinstance(error, duckdb.PermissionException):
        return InvalidInputError(f"a query reads tables and nothing else: {text}")
    if isinstance(error, duckdb.DataError):
        return InvalidInputError(f"the query fails on a value: {text}")
    if isinstance(error, duckdb.ProgrammingError | duckdb.NotSupportedError):
        return InvalidInputError(f"DuckDB does not take the query: {text}")
    return UnsupportedError(f"DuckDB does not answer the query: {text}")

"""Pieces of statements, checked by DuckDB's parser; and its types as those of Arrow."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa

from lancewood.errors import InvalidInputError, UnsupportedError
from lancewood.model.field_keys import PRIMARY_KEY, PRIMARY_KEY_POSITION
from lancewood.query.columns import duckdb_type, usual_type, why_not
from lancewood.query.database import cursor, in_our_words
from lancewood.query.names import parsed
from lancewood.query.statements.model import Column
from lancewood.query.tokens import shown, with_revisions_quoted

_HAS_NONE = ("HUGEINT", "UHUGEINT", "BIT", "INTERVAL", "ENUM", "UNION", "VARIANT", "UUID", "JSON")
"""Types of DuckDB that a table cannot hold as what they are."""


def parsed_query(sql: str) -> Any:
    """The tree of one query that changes nothing; raises InvalidInputError with a ``reason``."""
    with cursor() as own:
        found = parsed(with_revisions_quoted(sql), own)
    if len(found) != 1:
        reason = "a semicolon ends the statement before its end"
        raise InvalidInputError(f"cannot read {shown(sql)} as SQL: {reason}", reason=reason)
    return found[0]


def parsed_expression(sql: str) -> Any:
    """The tree of an expression."""
    selected = parsed_query(f"SELECT ({sql}\n)")["select_list"]
    if len(selected) != 1:
        raise InvalidInputError(f"{shown(sql)} is not one expression")
    return selected[0]


@lru_cache(maxsize=256)
def arrow_type(sql: str) -> pa.DataType:
    """The Arrow type of a column of DuckDB's type; raises InvalidInputError for what is no type,
    and UnsupportedError for one that tables cannot hold."""
    import duckdb

    try:
        with cursor() as own:
            found = own.sql(f"SELECT CAST(NULL AS {sql}\n) AS value")
            name, (field,) = str(found.types[0]), found.limit(0).to_arrow_table().schema
    except duckdb.Error as error:
        raise InvalidInputError(f"{shown(sql)} is no type: {in_our_words(error)}") from None
    if any(each in name.upper().split("(")[0].split("[")[0] for each in _HAS_NONE):
        raise UnsupportedError(
            f"tables cannot hold the type {name} of {sql!r}: choose another one", type=sql
        )
    return usual_type(field.type)


def check_type(sql: str) -> None:
    """Raise InvalidInputError for a type that no column of a table can have."""
    try:
        arrow_type(sql)
    except UnsupportedError as error:
        raise InvalidInputError(error.message) from None


def column_types(table: pa.Schema) -> dict[str, str]:
    """DuckDB's names of the types of a table's columns, without those that it cannot hold."""
    held = [each for each in table if why_not(each, table.names) is None]
    declared = pa.schema([pa.field(f"c{at}", duckdb_type(each)) for at, each in enumerate(held)])
    with cursor() as own:
        if not held:
            return {}
        own.register("__lancewood_types", declared.empty_table())
        types = own.sql("SELECT * FROM __lancewood_types").types
    return {each.name: str(kind) for each, kind in zip(held, types, strict=True)}


def arrow_schema(columns: Sequence[Column], primary_key: Sequence[str]) -> pa.Schema:
    """The schema of a table with these columns; raises what ``arrow_type`` raises."""
    positions = {name: at for at, name in enumerate(primary_key, 1)}
    fields = []
    for column in columns:
        name, metadata = column.path[-1], {}
        if name in positions:
            metadata = {PRIMARY_KEY: "true", PRIMARY_KEY_POSITION: str(positions[name])}
        nullable = column.nullable and name not in positions
        fields.append(pa.field(name, arrow_type(str(column.type)), nullable, metadata or None))
    return pa.schema(fields)

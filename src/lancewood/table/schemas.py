"""What the columns of a table say about reads, merges and indices, before there is a table.

A caller that plans a change knows the columns and has no version yet. Nothing is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from lancewood.engine.schema import Columns, Parameters, project, row_schema
from lancewood.errors import InvalidInputError
from lancewood.expr import parse_predicate
from lancewood.format.schema import schema_from_arrow, to_arrow_schema


def scanned_schema(schema: pa.Schema, columns: Columns = None) -> pa.Schema:
    """The columns that ``Table.scan`` gives of a table with these columns.

    Raises InvalidInputError for unknown names, and for columns that no table can have.
    """
    return project(schema_from_arrow(schema), columns).arrow_schema()


def check_where(schema: pa.Schema, where: str, parameters: Parameters = None) -> None:
    """Raise InvalidInputError for a condition that does not fit a table with these columns."""
    parse_predicate(where, row_schema(schema_from_arrow(schema)), parameters)


def check_key(schema: pa.Schema, on: str | Sequence[str] | None) -> None:
    """Raise InvalidInputError if rows of a table with these columns cannot be merged by a key."""
    from lancewood.jobs.merge_into.keys import resolve_key

    resolve_key(schema_from_arrow(schema), on)


def check_rules(schema: pa.Schema, resolve: object) -> None:
    """Raise InvalidInputError for what cannot decide conflicts of a table with these columns."""
    from lancewood.jobs.merge.compiled_rules import Rules
    from lancewood.jobs.merge.resolve import Resolve

    known = schema_from_arrow(schema)
    opaque = {each.name for each in known.fields if each.is_blob}
    values = [each for each in to_arrow_schema(known) if each.name not in opaque]
    Rules(Resolve.of(resolve), pa.schema(values), opaque)


def check_index(schema: pa.Schema, column: str, kind: str | None = None, **settings: Any) -> bool:
    """Whether an index on a table with these columns would be one of vectors. ``settings`` are
    those of ``Indices.create``.

    Raises InvalidInputError for an index that no such table can have, however many rows it gets.
    """
    from lancewood.jobs.index.choosing import IndexRequest

    return IndexRequest(column, kind, **settings).check(schema_from_arrow(schema)).is_vector


def index_kind(word: str) -> str:
    """A kind of index by its own name, whatever the case of the word; ``lookup`` and ``search``
    stay as they are.

    Raises InvalidInputError for others.
    """
    from lancewood.jobs.index.choosing import named_kind

    found = named_kind(word)
    return word.lower() if found is None else found.name


def is_column_name(name: str) -> bool:
    """Whether a column of a table may have this name."""
    try:
        schema_from_arrow(pa.schema([(name, pa.int8())]))
    except InvalidInputError:
        return False
    return True

"""Columns of a table as DuckDB can hold them."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pt

from lancewood.expr.columns import folded, readable_type
from lancewood.model.schema import EXTENSION_NAME


def duckdb_type(field: pa.Field) -> pa.DataType | None:
    """The Arrow type in which DuckDB gets a column; None where it has no type for its values.

    Extension types that DuckDB does not know are refused unless they store text: only their owner
    knows what the bytes mean.
    """
    kind = readable_type(field.type)
    is_known = isinstance(kind, pa.BaseExtensionType)
    is_extension = isinstance(field.type, pa.BaseExtensionType)
    is_extension = is_extension or EXTENSION_NAME.encode() in (field.metadata or {})
    is_text = kind is not None and (pt.is_string(kind) or pt.is_large_string(kind))
    return None if is_extension and not (is_known or is_text) else kind


def usual_type(kind: pa.DataType) -> pa.DataType:
    """A type of DuckDB's answers with `item` for the values of lists."""
    if pt.is_struct(kind):
        return pa.struct([each.with_type(usual_type(each.type)) for each in kind])
    if pt.is_list(kind) or pt.is_fixed_size_list(kind):
        size = kind.list_size if pt.is_fixed_size_list(kind) else -1
        return pa.list_(pa.field("item", usual_type(kind.value_type)), size)
    if pt.is_map(kind):
        return pa.map_(usual_type(kind.key_type), usual_type(kind.item_type))
    return kind


def why_not(field: pa.Field, names: list[str]) -> str | None:
    """Why a query cannot ask for a column; None if it can. `names` are all columns of the table."""
    alike = [each for each in names if folded(each) == folded(field.name)]
    if len(alike) > 1:
        return (
            f"the columns {' and '.join(map(repr, alike))} differ only in upper and lower case, "
            "which are the same in SQL: rename one with Table.rename_column, or read with "
            "Table.scan"
        )
    if duckdb_type(field) is None:
        return (
            f"column {field.name!r} is {field.type}, for which DuckDB has no type: leave it out of "
            "the query, as with SELECT * EXCLUDE, or read it with Table.scan"
        )
    return None

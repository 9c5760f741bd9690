"""A row as one JSON text for people, in which binaries are short.

Spark writes the text, row by row, on executors. Values that JSON has no word for become what a
cast to text makes of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lancewood.pipeline.frames.reading import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType, StructType

_SHOWN_BYTES = 24
MOST_TEXT = 65_536
"""Characters of one text; a line that does not parse may be a whole file."""


def record_of(schema: StructType) -> Column:
    """The JSON of a row with these columns; nulls are written as such."""
    from pyspark.sql import functions as F

    if not schema.fields:
        return F.lit("{}")
    columns = [_shown(F.col(quoted(e.name)), e.dataType).alias(e.name) for e in schema.fields]
    return F.to_json(F.struct(*columns), {"ignoreNullFields": "false"})


def _shown(column: Column, kind: DataType) -> Column:
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    if isinstance(kind, T.BinaryType):
        return _short(column)
    if isinstance(kind, T.StringType):
        return F.left(column, F.lit(MOST_TEXT))
    if isinstance(kind, T.StructType):
        fields = [_shown(column.getField(e.name), e.dataType).alias(e.name) for e in kind.fields]
        return F.when(column.isNotNull(), F.struct(*fields)) if fields else column
    if isinstance(kind, T.ArrayType):
        inner = kind.elementType
        return F.transform(column, lambda each: _shown(each, inner)) if _has_more(inner) else column
    if isinstance(kind, T.MapType):
        values = kind.valueType
        texts = F.map_from_arrays(
            F.transform(F.map_keys(column), _text),
            F.transform(F.map_values(column), lambda each: _shown(each, values)),
        )
        return F.when(column.isNotNull(), texts)
    if isinstance(kind, T.NumericType | T.BooleanType | T.DateType):
        return column
    if isinstance(kind, T.TimestampType | T.TimestampNTZType | T.VariantType):
        return column
    return _text(column)


def _has_more(kind: DataType) -> bool:
    """Whether a value is to be shown otherwise than JSON does."""
    from pyspark.sql import types as T

    return not isinstance(kind, T.NumericType | T.BooleanType | T.DateType | T.TimestampType)


def _short(column: Column) -> Column:
    """A few bytes in base 64; of more only how many there are."""
    from pyspark.sql import functions as F

    size = F.length(column)
    told = F.concat(F.format_number(size, 0), F.lit(" bytes"))
    return F.when(size > _SHOWN_BYTES, told).otherwise(F.base64(column))


def _text(column: Any) -> Column:
    return column.cast("string")  # type: ignore[no-any-return]

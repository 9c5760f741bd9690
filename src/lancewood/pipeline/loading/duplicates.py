"""``keep`` and ``order_by``: of the rows of a frame that have one key, one counts.

Where the columns that tell the order are the same as well, which row it is depends on what is in
the rows and on nothing else: the same rows give the same table. Knows frames, and no tables.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from lancewood.pipeline.definition.model import Target
from lancewood.pipeline.frames.reading import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

_PLACE = "__lancewood_place"


def without_duplicates(frame: DataFrame, target: Target) -> DataFrame:
    """One row for each key; a key with a null in it is like no other, and all its rows stay."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    keys = [F.col(quoted(each)) for each in target.on]
    order = [F.col(quoted(each)) for each in target.order_by]
    if target.keep == "last":
        order = [each.desc() for each in order]
    # Spark has no hash for a map: its text has one.
    content = [
        F.to_json(F.struct(name)) if _has_map(field.dataType) else F.col(name)
        for field in frame.schema.fields
        if (name := quoted(field.name))
    ]
    place = F.row_number().over(Window.partitionBy(*keys).orderBy(*order, F.xxhash64(*content)))
    has_null = reduce(or_, (each.isNull() for each in keys))
    return frame.withColumn(_PLACE, place).where((F.col(_PLACE) == 1) | has_null).drop(_PLACE)


def _has_map(kind: DataType) -> bool:
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(kind, StructType):
        return any(_has_map(each.dataType) for each in kind.fields)
    if isinstance(kind, ArrayType):
        return _has_map(kind.elementType)
    return isinstance(kind, MapType)

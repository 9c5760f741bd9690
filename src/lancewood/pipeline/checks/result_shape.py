"""The result of any query in a form that a table can hold: names that are allowed and differ, types
that tables have. What no table can hold becomes text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancewood.errors import InvalidInputError, UnsupportedError
from lancewood.format.arrow import schema_from_arrow
from lancewood.spark.types import Writing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def shaped(frame: DataFrame) -> DataFrame:
    """The same rows, to be kept."""
    from pyspark.sql import functions

    names = allowed_names(frame.columns)
    kinds = [each.dataType for each in frame.schema]
    if names == frame.columns and all(map(_is_kept, kinds)):
        return frame
    renamed = frame.toDF(*names)
    columns = [
        functions.col(f"`{name}`")
        if _is_kept(kind)
        else functions.col(f"`{name}`").cast("string").alias(name)
        for name, kind in zip(names, kinds, strict=True)
    ]
    return renamed.select(*columns)


def allowed_names(names: Sequence[str]) -> list[str]:
    """Names for the columns of a table: a name that is taken gets a number, one that is not
    allowed gives way to its place."""
    found: list[str] = []
    taken: set[str] = set()
    for number, name in enumerate(names, 1):
        wanted = plain = name if _is_allowed(name) else f"column_{number}"
        again = 1
        while wanted.casefold() in taken:
            again += 1
            wanted = f"{plain}_{again}"
        taken.add(wanted.casefold())
        found.append(wanted)
    return found


def _is_allowed(name: str) -> bool:
    try:
        schema_from_arrow(pa.schema([(name, pa.int8())]))
    except InvalidInputError:
        return False
    return True


def _is_kept(kind: Any) -> bool:
    from pyspark.sql.types import StructField, StructType

    try:
        Writing(StructType([StructField("value", kind)]))
    except (InvalidInputError, UnsupportedError):
        return False
    return True

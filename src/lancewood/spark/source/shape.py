"""Rows in the shape that Spark expects of a source, where that is not the shape we would choose.

``.schema(…)`` may name fewer columns than there are, in another order, and say that all may be
null. It cannot give a column another type. Values are not copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancewood.errors import InvalidInputError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


@dataclass(frozen=True)
class Shape:
    """What every batch is to look like."""

    schema: pa.Schema

    def fit(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The same rows."""
        columns = [batch.column(each.name).cast(each.type) for each in self.schema]
        if not columns:
            return batch.select([])
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def check_names(asked: StructType, known: Sequence[str]) -> list[str]:
    """The columns that a schema names; raises InvalidInputError for one that there is not."""
    names = [each.name for each in asked.fields]
    there = frozenset(known)
    for each in names:
        if each not in there:
            near = get_close_matches(each, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
            raise InvalidInputError(
                f"the schema names column {each!r}, which is not there; {hint}", column=each
            )
    return names


def shape_of(asked: StructType, given: StructType) -> Shape | None:
    """How ``given`` becomes ``asked``; None where they are the same.

    Raises InvalidInputError for another type, and for a column that may be null but is said not
    to be.
    """
    if asked == given:
        return None
    from pyspark.sql.pandas.types import to_arrow_schema

    wanted: Any = to_arrow_schema(asked, timezone="UTC")
    there: Any = to_arrow_schema(given, timezone="UTC")
    types = {each.name: each.dataType.simpleString() for each in given.fields}
    for each in asked.fields:
        if each.dataType.simpleString() != types[each.name]:
            raise InvalidInputError(
                f"the schema says that column {each.name!r} is {each.dataType.simpleString()}, it "
                f"is {types[each.name]}; leave the schema out, and cast the column afterwards",
                column=each.name,
            )
        _check_nulls(each.name, wanted.field(each.name), there.field(each.name))
    return None if wanted.equals(there) else Shape(wanted)


def _check_nulls(path: str, wanted: pa.Field, there: pa.Field) -> None:
    if there.nullable and not wanted.nullable:
        raise InvalidInputError(
            f"the schema says that {path!r} is never null, the table does not promise it; say that "
            "it may be null",
            column=path,
        )
    for at in range(there.type.num_fields):
        child = there.type.field(at)
        _check_nulls(f"{path}.{child.name}", wanted.type.field(at), child)

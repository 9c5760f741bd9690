"""What is said when one value cannot go where its column goes.

Knows the path of a column and the direction. Finds the value by halving, since Arrow's own errors
do not always name it. Does not convert anything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from lancewood.errors import InvalidInputError, LancewoodError, UnsupportedError
from lancewood.spark.kinds import cast_to

_LONGEST = 80


@dataclass(frozen=True)
class ColumnPath:
    """A column, or a field below one, on its way out of a table or into one."""

    path: str
    is_read: bool
    """From the table to Spark; else from Spark to the table."""

    def below(self, name: str) -> ColumnPath:
        """A field of this column."""
        return ColumnPath(f"{self.path}.{name}", self.is_read)

    def refused(self, shown: str, kind: object) -> LancewoodError:
        """The error for a value that ``kind`` cannot hold."""
        if self.is_read:
            return UnsupportedError(
                f"column {self.path!r} holds {shown}, which Spark's {kind} cannot hold; leave the "
                "column out with columns=, or compute another there",
                column=self.path,
                value=shown,
            )
        return InvalidInputError(
            f"column {self.path!r} holds {shown}, which does not fit the table's {kind}; "
            f"{_instead(kind)} in Spark first",
            column=self.path,
            value=shown,
        )

    def null(self, count: int) -> LancewoodError:
        """The error for nulls that the table does not allow."""
        return InvalidInputError(
            f"column {self.path!r} may not be null, but {count} values are", column=self.path
        )

    def too_large(self) -> LancewoodError:
        """The error for a batch that Spark's offsets of 32 bits cannot address."""
        return UnsupportedError(
            f"column {self.path!r} has more than 2 GB in one batch; read smaller batches with "
            "batch_rows=",
            column=self.path,
        )

    def unexpected(self, kind: pa.DataType, wanted: pa.DataType, cause: Exception) -> Exception:
        """The error for an array of another type than was announced."""
        kinds = UnsupportedError if self.is_read else InvalidInputError
        return kinds(
            f"column {self.path!r} came as {kind} and cannot become {wanted}: {cause}",
            column=self.path,
        )


def _instead(kind: object) -> str:
    """What can be done about a value that does not fit."""
    if isinstance(kind, pa.DataType) and pa.types.is_decimal(kind):
        return f"change it, or write {cast_to(kind)},"
    return "cast or change it"


def first_refused(array: pa.Array, convert: Callable[[pa.Array], object]) -> pa.Array | None:
    """The first value, as an array of one, that ``convert`` raises ArrowInvalid for.

    None where each value passes alone.
    """
    start, length = 0, len(array)
    while length > 1:
        half = length // 2
        if _passes(array.slice(start, half), convert):
            start += half
            length -= half
        else:
            length = half
    one = array.slice(start, length)
    return None if _passes(one, convert) else one


def _passes(array: pa.Array, convert: Callable[[pa.Array], object]) -> bool:
    try:
        convert(array)
    except pa.ArrowInvalid:
        return False
    return True


def shown(one: pa.Array) -> str:
    """The only value of an array, as people read it."""
    kind = one.type
    if pa.types.is_timestamp(kind):
        text = str(one.view(pa.timestamp(kind.unit)).cast(pa.string())[0].as_py())
        if text.startswith("<"):  # beyond the years that Arrow can write
            return f"{one.view(pa.int64())[0].as_py()} {kind.unit} since 1970"
        return f"{text}Z" if kind.tz else text
    if pa.types.is_date64(kind):
        return f"{one.view(pa.int64())[0].as_py()} ms since 1970"
    if pa.types.is_duration(kind):
        return f"{one.view(pa.int64())[0].as_py()} {kind.unit}"
    if pa.types.is_time(kind):
        return str(one.cast(pa.string())[0].as_py())
    value = one[0].as_py()
    text = str(value) if pa.types.is_decimal(kind) else repr(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."

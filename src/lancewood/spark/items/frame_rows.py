"""The rows of a frame, grouped by item: one item is in memory at a time.

Knows which columns a frame needs, and how rows that are sorted by item come in batches. Does not
know what becomes of an item.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from lancewood.errors import InvalidInputError
from lancewood.repo.items.file_rows import FileRow
from lancewood.spark.items.finding import ITEM
from lancewood.spark.items.texts import text_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

PATH, CONTENT, MESSAGE = "path", "content", "message"
_NEEDED = {ITEM: "string", PATH: "string", CONTENT: "binary"}
_GONE = "gone"


def checked_frame(df: DataFrame) -> DataFrame:
    """The columns that are written, in order; raises InvalidInputError for a frame without them,
    or with others."""
    if not hasattr(df, "mapInArrow"):
        raise InvalidInputError(
            f"items are written from a DataFrame of Spark's, not from a {type(df).__name__}"
        )
    wanted = {**_NEEDED, MESSAGE: "string"}
    found: dict[str, str] = {}
    for each in df.schema.fields:
        if each.name not in wanted or each.name in found:
            raise InvalidInputError(
                f"column {each.name!r} of the frame is not one of {', '.join(wanted)}, or is there "
                "twice; select those",
                column=each.name,
            )
        kind = each.dataType.simpleString()
        # A text with a collation, or of a fixed length, is a text.
        found[each.name] = "string" if kind.startswith(("string", "char", "varchar")) else kind
    for name, kind in wanted.items():
        if name not in found and name in _NEEDED:
            raise InvalidInputError(
                f"the frame has no column {name!r}; it needs {', '.join(_NEEDED)}, and may have "
                f"{MESSAGE}",
                column=name,
            )
        if found.get(name, kind) != kind:
            how = "; encode it, as with encode(text, 'UTF-8')" if name == CONTENT else ""
            raise InvalidInputError(
                f"column {name!r} is {found[name]}, and has to be {kind}{how}", column=name
            )
    kinds = {each.name: each.dataType.simpleString() for each in df.schema.fields}
    return df.select(*[_by_bytes(each, kinds[each]) for each in wanted if each in found])


def _by_bytes(name: str, kind: str) -> Column:
    """A column whose texts are told apart by their bytes, as names on a disk are: to a collation
    'a' and 'A' may be the same, and the rows of both would come in turns."""
    from pyspark.sql import functions

    column = functions.col(name)
    return functions.collate(column, "UTF8_BINARY").alias(name) if "collate" in kind else column


def by_item(df: DataFrame, partitions: int) -> DataFrame:
    """The rows of each item together, by path."""
    return df.repartition(partitions, ITEM).sortWithinPartitions(ITEM, PATH)


def names_only(df: DataFrame) -> DataFrame:
    """The same frame, whose contents are told apart from nulls and not carried."""
    from pyspark.sql import functions

    gone = functions.col(CONTENT).isNull().alias(_GONE)
    return df.select(*[gone if each == CONTENT else functions.col(each) for each in df.columns])


def items_in(
    batches: Iterable[pa.RecordBatch],
) -> Iterator[tuple[str | None, list[FileRow]]]:
    """The items of a partition, each with all its rows."""
    item: str | None = None
    rows: list[FileRow] = []
    for batch in batches:
        names = batch.schema.names
        has_content, has_message = CONTENT in names, MESSAGE in names
        for at in range(batch.num_rows):
            name = text_of(batch[ITEM][at])
            if rows and name != item:
                yield item, rows
                rows = []
            item = name
            if has_content:
                content = batch[CONTENT][at].as_py()
            else:
                content = None if batch[_GONE][at].as_py() else b""
            message = text_of(batch[MESSAGE][at]) if has_message else None
            rows.append(FileRow(text_of(batch[PATH][at]), content, message))
    if rows:
        yield item, rows

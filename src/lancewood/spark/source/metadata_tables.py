"""The tables about a table: which there are, and their columns.

``versions``: one of the branch in each row, newest first, up to the one that is read.
``transactions``: what made each of these versions, in the same order.
``fragments`` and ``files``: those of the version that is read, files of deletions included.
``indices``: the segments of its indices.
``refs``: branches and tags, as they are when Spark runs: refs have no versions. A branch's
``branch`` and ``version`` are those that it was made from, a tag's those that it names.

What a writer did not record is null, so is the size of a deletion file. ``damage`` and ``missing``
say why the rest of a row is null. ``base`` is the id of a base path; null is the table's own root.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, cast, get_args

import pyarrow as pa

from lancewood.errors import InvalidInputError

MetadataKind: TypeAlias = Literal[
    "versions", "fragments", "files", "refs", "transactions", "indices"
]

_TEXTS = pa.map_(pa.string(), pa.string())
_MOMENT = pa.timestamp("us", "UTC")


def _columns(**columns: pa.DataType) -> pa.Schema:
    """Columns that may be null, but for the first."""
    first = next(iter(columns))
    return pa.schema([pa.field(each, kind, each != first) for each, kind in columns.items()])


METADATA_SCHEMAS: dict[str, pa.Schema] = {
    "versions": _columns(
        version=pa.int64(),
        timestamp=_MOMENT,
        operation=pa.string(),
        rows=pa.int64(),
        message=pa.string(),
        properties=_TEXTS,
        damage=pa.string(),
    ),
    "transactions": _columns(
        version=pa.int64(),
        uuid=pa.string(),
        read_version=pa.int64(),
        operation=pa.string(),
        message=pa.string(),
        properties=_TEXTS,
        missing=pa.string(),
    ),
    "fragments": _columns(
        fragment=pa.int64(),
        rows=pa.int64(),
        physical_rows=pa.int64(),
        deleted_rows=pa.int64(),
        data_files=pa.int64(),
        bytes=pa.int64(),
        deletion_file=pa.string(),
    ),
    "files": _columns(
        fragment=pa.int64(),
        kind=pa.string(),
        uri=pa.string(),
        path=pa.string(),
        base=pa.int64(),
        rows=pa.int64(),
        bytes=pa.int64(),
        file_version=pa.string(),
        fields=pa.list_(pa.int32()),
    ),
    "refs": _columns(
        kind=pa.string(),
        name=pa.string(),
        branch=pa.string(),
        version=pa.int64(),
        created_at=_MOMENT,
        updated_at=_MOMENT,
        metadata=_TEXTS,
        damage=pa.string(),
    ),
    "indices": _columns(
        name=pa.string(),
        kind=pa.string(),
        columns=pa.list_(pa.string()),
        uuid=pa.string(),
        version=pa.int64(),
        fragments=pa.int64(),
        base=pa.int64(),
    ),
}
"""The columns of each table, in order."""


def check_kind(kind: str) -> MetadataKind:
    """The table that is meant; raises InvalidInputError for one that there is not."""
    found = kind.strip().lower() if isinstance(kind, str) else kind
    if found not in get_args(MetadataKind):
        tables = ", ".join(map(repr, get_args(MetadataKind)))
        raise InvalidInputError(f"metadata is one of {tables}, got {kind!r}")
    return cast(MetadataKind, found)

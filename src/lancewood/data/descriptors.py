"""The descriptors of blobs: where the bytes of each value lie, read from a data file.

Knows both layouts. In the first a descriptor is a position and a size in the data file itself, and
a null is a size of 0 at a position that is not 0. In the second (files of version 2.2 and later)
it says of which kind the place is. Does not read the bytes of a blob: that is
``data.blob_file``.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from lancewood.data.container import Container
from lancewood.data.transplant import Transplant
from lancewood.errors import FormatError
from lancewood.format.arrow import BLOB_V1_DESCRIPTOR, BLOB_V2_DESCRIPTOR
from lancewood.format.logical_type import encode_leaf_type
from lancewood.model.ids import FieldId
from lancewood.model.schema import OLD_PACKED, PACKED, Field, Schema


def open_transplanted(container: Container, top: Field, columns: tuple[int, ...]) -> Transplant:
    """A top-level column of a file, to be read from a file of its own; of a blob, descriptors."""
    if not top.is_blob:
        is_flat = len(columns) == 1 and all(not each.children for each in top.walk())
        return Transplant(container, columns, Schema((top,)), is_flat=is_flat)
    kind = BLOB_V2_DESCRIPTOR if top.is_blob_v2 else BLOB_V1_DESCRIPTOR
    parts = tuple(
        Field(FieldId(number), each.name, str(encode_leaf_type(each.type)), nullable=False)
        for number, each in enumerate(kind, 1)
    )
    packed = {PACKED: b"true", OLD_PACKED: b"true"}  # 2.0 files know the older word only
    described = Field(FieldId(0), top.name, "struct", True, packed, parts)

    def finish(batch: pa.RecordBatch) -> pa.RecordBatch:
        column = batch.column(0)
        found = column if top.is_blob_v2 else _with_nulls(column)
        if not found.type.equals(kind):
            raise FormatError(
                f"data file {container.name}: the descriptors of blob {top.name!r} are "
                f"{found.type}, expected {kind}",
                file=container.name,
            )
        return pa.RecordBatch.from_arrays([found], names=[top.name])

    return Transplant(container, columns, Schema((described,)), is_flat=True, finish=finish)


def _with_nulls(column: pa.StructArray) -> pa.StructArray:
    position, size = column.field("position"), column.field("size")
    mask = pc.and_(pc.equal(size, 0), pc.not_equal(position, 0))
    return pa.StructArray.from_arrays([position, size], fields=list(BLOB_V1_DESCRIPTOR), mask=mask)

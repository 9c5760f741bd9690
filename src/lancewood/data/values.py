"""Values that a data file of some version cannot return, found before the codec sees them.

The cases were measured: 2.0 files lose null structs, packed structs take no null children, and 2.1
and 2.2 files cannot be read again where a struct inside a list is null and holds two more levels of
lists. Columns whose type rules all of this out are not checked.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from lancewood.errors import InvalidInputError
from lancewood.format.logical_type import is_parent
from lancewood.model.schema import PACKED, Field, Schema


class ValueCheck:
    """The checks for the columns of one schema, written in one file version."""

    def __init__(self, schema: Schema, file_version: str) -> None:
        self._version = file_version
        self._suspects = [
            (index, top)
            for index, top in enumerate(schema.fields)
            if self._is_suspect(top, lists_above=0)
        ]

    def __call__(self, batch: pa.RecordBatch) -> None:
        """Raise InvalidInputError, naming the column, for a value that would be lost."""
        for index, top in self._suspects:
            self._check(top, batch.column(index), top.name, lists_above=0)

    def _is_suspect(self, field: Field, lists_above: int) -> bool:
        if field.logical_type == "struct" and (
            self._version == "2.0" or field.is_packed or _is_fragile(field, lists_above)
        ):
            return True
        below = lists_above + _is_list(field)
        return any(self._is_suspect(each, below) for each in field.children)

    def _check(self, field: Field, array: pa.Array, path: str, lists_above: int) -> None:
        if isinstance(array.type, pa.BaseExtensionType):
            array = array.storage
        if field.logical_type == "struct":
            self._check_struct(field, array, path, lists_above)
            for index, child in enumerate(field.children):
                below = array.field(index)
                if array.null_count and not field.is_packed:
                    below = pc.array_filter(below, array.is_valid())
                self._check(child, below, f"{path}.{child.name}", lists_above)
        elif field.children:
            child = field.children[0]
            items = _items(array)
            self._check(child, items, f"{path}.{child.name}", lists_above + _is_list(field))

    def _check_struct(self, field: Field, array: pa.Array, path: str, lists_above: int) -> None:
        nulls = array.null_count
        if nulls and self._version == "2.0":
            raise InvalidInputError(
                f"column {path!r} has {nulls} null structs, which data file version 2.0 cannot "
                "hold; write version 2.1 or later",
                column=path,
            )
        if nulls and _is_fragile(field, lists_above):
            raise InvalidInputError(
                f"column {path!r} has {nulls} null structs inside a list, above two more levels of "
                f"lists: data files of version {self._version} with such values cannot be read "
                "again; make them structs of nulls",
                column=path,
            )
        if not field.is_packed:
            return
        for child, values in zip(field.children, array.flatten(), strict=True):
            if values.null_count > nulls:
                raise InvalidInputError(
                    f"column {path!r} is packed, but {values.null_count - nulls} values of its "
                    f"child {child.name!r} are null, which a packed struct cannot hold; fill them, "
                    f"or drop the metadata {PACKED!r}",
                    column=path,
                )


def _is_fragile(field: Field, lists_above: int) -> bool:
    return lists_above > 0 and not field.is_packed and _lists_in(field) > 1


def _lists_in(field: Field) -> int:
    return _is_list(field) + max((_lists_in(each) for each in field.children), default=0)


def _is_list(field: Field) -> bool:
    return is_parent(field.logical_type) and field.logical_type != "struct"


def _items(array: pa.Array) -> pa.Array:
    """The items of non-null lists, or the entries of non-null maps."""
    if not pa.types.is_map(array.type):
        return array.flatten()
    plain = pa.list_(pa.struct([array.type.key_field, array.type.item_field]))
    return array.cast(plain).flatten()

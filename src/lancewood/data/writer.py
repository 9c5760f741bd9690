"""Writing rows into new data files, and the fragments that describe them.

Rows are split into files, and each file lists its field ids. Nothing is committed: until a manifest
names the files they have no effect, and on any error they are removed again.

Values that a data file of some version cannot return are found before the codec sees them. The
cases were measured: 2.0 files lose null structs, packed structs take no null children, and 2.1 and
2.2 files cannot be read again where a struct inside a list is null and holds two more levels of
lists. Columns whose type rules all of this out are not checked.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import cycle

import pyarrow as pa
import pyarrow.compute as pc

from lancewood.data.align import Alignment, align_schema
from lancewood.data.arrays import without_offset
from lancewood.data.codec import (
    FileWriter,
    check_writable,
    open_writer,
)
from lancewood.data.encodings import check_encodings
from lancewood.data.file_root import FileRoot, new_data_file_name
from lancewood.data.plan import listed_columns
from lancewood.errors import InvalidInputError, LancewoodError, UnsupportedError
from lancewood.format.logical_type import is_parent, list_size_of_structs
from lancewood.format.schema import to_arrow_schema
from lancewood.model.fragment import WRITABLE_FILE_VERSIONS, DataFile, Fragment
from lancewood.model.schema import PACKED, Field, Schema

_PIECE_ROWS = 262_144
_PIECE_BYTES = 64 << 20


def write_fragments(
    batches: pa.RecordBatchReader,
    schema: Schema,
    *,
    file_roots: Sequence[FileRoot],
    file_version: str = "2.2",
    max_rows: int = sys.maxsize,
    max_bytes: int = sys.maxsize,
    alignment: Alignment | None = None,
    plan: WritePlan | None = None,
    is_synced: bool = True,
    mark: str = "",
) -> list[Fragment]:
    """Write rows into as many files as ``max_rows`` and ``max_bytes`` require, and sync them,
    unless the caller does that for many at once.

    ``schema`` holds the columns to write, in file order, with the table's ids; the batches must
    hold all of them, in any order, with types that ``align_schema`` accepts. A caller may pass its
    result as ``alignment``, and one that writes often a ``plan`` of this schema and version. A file
    holds at most ``max_bytes`` of Arrow data unless a single row is larger. Files go to the roots
    in turn. Each fragment has one file and no id. Without rows there is neither file nor fragment.
    ``mark`` is part of the file names.

    Raises InvalidInputError before the codec sees rows that do not fit, UnsupportedError for types
    that the file version cannot hold. On any error the files written so far are removed.
    """
    if max_rows < 1 or max_bytes < 1:
        raise InvalidInputError(
            f"max_rows and max_bytes must be positive, got {max_rows} and {max_bytes}"
        )
    if plan is None:
        plan = WritePlan(schema, file_version)
    if alignment is None:
        alignment = align_schema(schema, batches.schema, complete=True)
    output = _Output(plan, file_roots, mark)
    try:
        for batch in batches:
            if not batch.schema.equals(batches.schema):
                raise InvalidInputError("a batch has another schema than the stream it is part of")
            for piece in _pieces(alignment.cast(batch), max_bytes):
                plan.check_values(piece)
                output.write(piece, max_rows, max_bytes)
        return output.finish(is_synced=is_synced)
    except BaseException:
        output.discard()
        raise


class WritePlan:
    """What is the same for all files of one schema and version."""

    def __init__(self, schema: Schema, file_version: str) -> None:
        """Check the columns; raises what ``check_columns`` raises."""
        check_columns(schema, file_version)
        self.file_version = file_version
        self.version = WRITABLE_FILE_VERSIONS[file_version]
        self.arrow: pa.Schema = to_arrow_schema(schema).remove_metadata()
        self.ids = [each.id for each in listed_columns(schema, self.version)]
        self.check_values = ValueCheck(schema, file_version)


def check_columns(schema: Schema, file_version: str) -> None:
    """Raise InvalidInputError or UnsupportedError for columns that no file of this version holds
    together."""
    check_writable(file_version)
    for top in schema.fields:
        _check_supported(top, top.name, file_version)
    _check_lists_of_structs(schema)
    check_encodings(schema, file_version)


class _Output:
    """The files of one write: at most one open, the others finished."""

    def __init__(self, plan: WritePlan, file_roots: Sequence[FileRoot], mark: str) -> None:
        self._plan = plan
        self._mark = mark
        self._turns = cycle(range(len(file_roots)))
        self._turn = 0
        self._writer: FileWriter | None = None
        self._name = ""
        self._copy: tempfile.TemporaryDirectory[str] | None = None
        self._rows = self._bytes = 0
        self._fragments: list[Fragment] = []
        self._file_roots = file_roots
        self._keys: list[list[str]] = [[] for _ in file_roots]

    def write(self, piece: pa.RecordBatch, max_rows: int, max_bytes: int) -> None:
        if self._rows and self._bytes + piece.nbytes > max_bytes:
            self._close()
        while piece.num_rows:
            room = max_rows - self._rows
            self._append(piece.slice(0, room))
            piece = piece.slice(room)
            if self._rows == max_rows:
                self._close()

    def finish(self, *, is_synced: bool) -> list[Fragment]:
        self._close()
        if is_synced:
            for file_root, keys in zip(self._file_roots, self._keys, strict=True):
                file_root.store.sync(keys)
        return self._fragments

    def discard(self) -> None:
        """Remove what was written; nothing refers to it yet."""
        if self._writer is not None:
            self._writer.abandon()
            self._writer = None
        self._drop_copy()
        for file_root, keys in zip(self._file_roots, self._keys, strict=True):
            with suppress(LancewoodError):
                file_root.store.delete(keys)

    def _append(self, rows: pa.RecordBatch) -> None:
        if self._writer is None:
            self._open()
        assert self._writer is not None
        columns = [without_offset(each) for each in rows.columns]
        self._writer.write(pa.RecordBatch.from_arrays(columns, schema=self._plan.arrow))
        self._rows += rows.num_rows
        self._bytes += rows.nbytes

    def _open(self) -> None:
        self._name = new_data_file_name(self._mark)
        self._turn = next(self._turns)
        location = self._file_root.store.location(self._key)
        if location is None:
            self._copy = tempfile.TemporaryDirectory(prefix="lancewood-")
            location = self._copied
        self._writer = open_writer(
            location, self._plan.arrow, self._plan.file_version, self._file_root.storage_options
        )

    @property
    def _file_root(self) -> FileRoot:
        return self._file_roots[self._turn]

    @property
    def _key(self) -> str:
        return self._file_root.key(self._name)

    @property
    def _copied(self) -> str:
        assert self._copy is not None
        return os.path.join(self._copy.name, self._name)

    def _close(self) -> None:
        if self._writer is None:
            return
        self._keys[self._turn].append(self._key)
        size = self._writer.close()
        self._writer = None
        if self._copy is not None:
            with open(self._copied, "rb") as file:
                self._file_root.store.put(self._key, file.read())
            self._drop_copy()
        ids = self._plan.ids
        file_of = DataFile.make(
            self._name, ids, range(len(ids)), self._plan.version, size, self._file_root.base_id
        )
        self._fragments.append(Fragment.make([file_of], self._rows))
        self._rows = self._bytes = 0

    def _drop_copy(self) -> None:
        if self._copy is not None:
            self._copy.cleanup()
            self._copy = None


def _pieces(batch: pa.RecordBatch, max_bytes: int) -> Iterator[pa.RecordBatch]:
    """The batch in slices small enough to bound memory and the size of files."""
    limit = min(_PIECE_BYTES, max_bytes)
    waiting = [batch]
    while waiting:
        piece = waiting.pop()
        rows = piece.num_rows
        if rows > 1 and (rows > _PIECE_ROWS or piece.nbytes > limit):
            step = min(_PIECE_ROWS, max(1, rows * limit // max(piece.nbytes, 1)), rows - 1)
            waiting += [piece.slice(at, step) for at in reversed(range(0, rows, step))]
        elif rows:
            yield piece


def _check_supported(field: Field, path: str, file_version: str) -> None:
    """Raise UnsupportedError for a column that a file of this version cannot hold."""
    needs = None
    if file_version in ("2.0", "2.1"):
        if field.logical_type == "map":
            needs = "a map"
        elif _is_list_of_structs(field):
            needs = "a fixed-size list of structs"
    if needs:
        raise UnsupportedError(
            f"column {path!r} is {needs}, which data file version {file_version} cannot hold; "
            "write version 2.2",
            column=path,
        )
    for child in field.children:
        _check_supported(child, f"{path}.{child.name}", file_version)


def _check_lists_of_structs(schema: Schema) -> None:
    """Raise UnsupportedError for what pylance writes but cannot read back."""
    for top in schema.fields:
        inside = [each.name for each in top.walk() if _is_list_of_structs(each)]
        if inside and (len(schema.fields) > 1 or not _is_list_of_structs(top)):
            raise UnsupportedError(
                f"column {top.name!r} holds a fixed-size list of structs, which pylance reads only "
                "as the sole column of a file; use a list",
                column=top.name,
            )


def _is_list_of_structs(field: Field) -> bool:
    return list_size_of_structs(field.logical_type) is not None


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

"""The schema of a table: from messages to a tree of fields, to an Arrow schema, and back.

Checks ids, parents and the children that each logical type requires; names are not checked, so that
any manifest can be read. Decides which Arrow types the format can hold and which column names it
allows for new columns. Does not touch data: casting and aligning columns is the work of ``data``.

Extension types whose names begin with ``lance.`` stay their storage type plus metadata, so that the
result does not depend on whether pylance was imported; others become the registered Arrow type.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa
from google.protobuf.message import DecodeError

from lancewood.errors import FormatError, InvalidInputError, UnsupportedError
from lancewood.format.logical_type import (
    JSON,
    decode_leaf_type,
    encode_leaf_type,
    is_parent,
    list_size_of_structs,
)
from lancewood.model.ids import FieldId
from lancewood.model.schema import (
    BLOB,
    EXTENSION_METADATA,
    EXTENSION_NAME,
    PACKED,
    SYSTEM_COLUMNS,
    Field,
    Schema,
    check_primary_key,
    mirror_metadata,
)
from lancewood.proto import schema_pb2

MAX_DEPTH = 128
"""Deeper trees are refused: no table has them, and they would exhaust the stack of any reader."""

MAX_FIELDS = 100_000
"""Number of fields that are accepted at most: this many already cost a second and 100 MB each time
the table is opened."""

_TOP = -1
_MAX_ID = (1 << 31) - 1
_VARIABLE = frozenset({"string", "large_string", "binary", "large_binary", "json"})


def decode_schema(fields: Iterable[schema_pb2.Field], metadata: Mapping[str, bytes]) -> Schema:
    """The tree in a manifest's field list.

    A field is at the top level when its parent id is -1 or names no field. Raises FormatError for a
    repeated or negative id, a child that does not follow its parent, a logical type outside the
    grammar, children that do not fit their parent's type, and absurd depth or width.
    """
    messages = list(fields)
    if len(messages) > MAX_FIELDS:
        raise FormatError(
            f"the schema has {len(messages):,} fields, at most {MAX_FIELDS:,} are read"
        )
    ids = {each.id for each in messages}
    depths: dict[int, int] = {}
    children: dict[int, list[int]] = {}
    tops: list[int] = []
    for each in messages:
        if each.id < 0 or each.id in depths:
            reason = "is negative" if each.id < 0 else "occurs twice"
            raise FormatError(f"field {each.name!r}: id {each.id} {reason}", field_id=each.id)
        if each.parent_id in depths:
            children.setdefault(each.parent_id, []).append(each.id)
            depths[each.id] = depths[each.parent_id] + 1
        elif each.parent_id in ids:
            raise FormatError(
                f"field {each.name!r} (id {each.id}) comes before its parent {each.parent_id}",
                field_id=each.id,
            )
        else:
            tops.append(each.id)
            depths[each.id] = 1
        if depths[each.id] > MAX_DEPTH:
            raise FormatError(
                f"field {each.name!r}: the schema is more than {MAX_DEPTH} levels deep",
                field_id=each.id,
            )
    built: dict[int, Field] = {}
    for each in reversed(messages):  # children come after their parent, so they are ready
        below = tuple(built[child] for child in children.get(each.id, ()))
        built[each.id] = _decode_field(each, below)
    return Schema(tuple(built[top] for top in tops), dict(metadata))


def encode_schema(schema: Schema) -> list[schema_pb2.Field]:
    """The field list of a schema, depth first, with parent -1 at the top level.

    Unknown parts of a field's message are kept. Raises InvalidInputError for more than
    ``MAX_FIELDS``.
    """
    messages: list[schema_pb2.Field] = []

    def add(field: Field, parent: int) -> None:
        messages.append(_encode_field(field, parent))
        for child in field.children:
            add(child, field.id)

    for top in schema.fields:
        add(top, _TOP)
    check_width(len(messages))
    return messages


def check_width(fields: int) -> None:
    """Raise InvalidInputError for a schema that ``decode_schema`` would refuse for its size."""
    if fields > MAX_FIELDS:
        raise InvalidInputError(
            f"a table of {fields:,} fields cannot be made: {MAX_FIELDS:,} is the limit, counting "
            "those inside structs and lists; keep them in several tables, or in a list or map"
        )


def decode_file_schema(descriptor: bytes) -> Schema:
    """The schema that a data file carries about itself (its global buffer 0).

    The ids in it are the writer's own and have no meaning; names and types do. The parts of a blob
    (v2) column, which files list without ids, are not in the result. Raises FormatError.
    """
    try:
        message = schema_pb2.FileDescriptor.FromString(descriptor)
    except DecodeError as cause:
        raise FormatError("the file's own schema cannot be decoded") from cause
    numbered: list[schema_pb2.Field] = []
    after_blob = False
    free = max((each.id for each in message.schema.fields), default=_TOP)
    for each in message.schema.fields:
        if after_blob and each.id == each.parent_id == _TOP:
            continue
        after_blob = each.logical_type == "struct" and BLOB in each.metadata
        if each.id < _TOP:  # lineage that was spilled into the file
            free += 1
            if free > _MAX_ID:
                raise FormatError("the file's own schema has no id left for a field without one")
            each.id = free
        numbered.append(each)
    return decode_schema(numbered, dict(message.schema.metadata))


def _decode_field(message: schema_pb2.Field, children: tuple[Field, ...]) -> Field:
    metadata = dict(message.metadata)
    if message.extension_name and EXTENSION_NAME not in metadata:
        metadata[EXTENSION_NAME] = message.extension_name.encode()
    field = Field(
        id=FieldId(message.id),
        name=message.name,
        logical_type=message.logical_type,
        nullable=message.nullable,
        metadata=metadata,
        children=children,
        message=message,
    )
    _check_shape(field)
    return field


def _check_shape(field: Field) -> None:
    found = [each.logical_type for each in field.children]
    kind = field.logical_type
    if kind == "struct":
        return
    if not is_parent(kind):
        decode_leaf_type(kind)
        fits, asked = not found, "no children"
    elif kind == "map":
        fits, asked = found == ["struct"], "one struct of key and value"
        fits = fits and len(field.children[0].children) == 2
    elif kind.endswith(".struct") or list_size_of_structs(kind) is not None:
        fits, asked = found == ["struct"], "one struct child"
    else:
        fits, asked = len(found) == 1, "one child"
    if not fits:
        raise FormatError(
            f"field {field.name!r} (id {field.id}): {kind!r} has {asked}, "
            f"found {', '.join(found) or 'none'}",
            field_id=field.id,
        )


def _encode_field(field: Field, parent: int) -> schema_pb2.Field:
    message = schema_pb2.Field()
    if field.message is not None:
        message.CopyFrom(field.message)
    before = dict(message.metadata)
    message.type = _kind(field.logical_type)
    message.name = field.name
    message.id = field.id
    message.parent_id = parent
    message.logical_type = field.logical_type
    message.nullable = field.nullable
    message.encoding = _encoding(field.logical_type)
    message.metadata.clear()
    message.metadata.update(field.metadata)
    if field.logical_type.startswith("dict:"):
        message.dictionary.SetInParent()
    else:
        message.ClearField("dictionary")
    mirror_metadata(message, before)
    return message


def _kind(logical_type: str) -> schema_pb2.Field.Kind:
    if logical_type == "struct":
        return schema_pb2.Field.PARENT
    return schema_pb2.Field.REPEATED if is_parent(logical_type) else schema_pb2.Field.LEAF


def _encoding(logical_type: str) -> schema_pb2.Field.Encoding:
    if logical_type in ("struct", "null"):
        return schema_pb2.Field.NONE
    if logical_type in _VARIABLE:
        return schema_pb2.Field.VAR_BINARY
    if logical_type.startswith("dict:"):
        return schema_pb2.Field.DICTIONARY
    return schema_pb2.Field.PLAIN


RESERVED_NAMES = frozenset({*SYSTEM_COLUMNS, "_rowoffset"})


def schema_from_arrow(arrow: pa.Schema, *, first_id: int = 0) -> Schema:
    """A new schema with ids assigned depth first from ``first_id``.

    Raises UnsupportedError that names the column and its type, InvalidInputError for names that
    ``check_names`` refuses. The order of a dictionary and the name and nullability of a fixed-size
    list's item have no place in the format and are lost; views become plain strings and binaries.
    """
    ids = (FieldId(each) for each in range(first_id, 1 << 31))
    fields = tuple(_from_arrow(each, each.name, 1, ids) for each in arrow)
    schema = Schema(fields, _text_keys(arrow.metadata or {}))
    check_names(schema)
    check_primary_key(encode_schema(schema))
    return schema


def to_arrow_schema(schema: Schema) -> pa.Schema:
    """The Arrow schema of the table; ``to_scan_schema`` is the one that a scan of it returns."""
    return pa.schema([to_arrow_field(each) for each in schema.fields], dict(schema.metadata))


def to_scan_schema(schema: Schema) -> pa.Schema:
    """The Arrow schema of what a read returns: like the table's, but descriptors for blobs."""
    fields = [
        _descriptor_field(each) if each.is_blob else to_arrow_field(each) for each in schema.fields
    ]
    return pa.schema(fields, dict(schema.metadata))


BLOB_V1_DESCRIPTOR: pa.DataType = pa.struct([("position", pa.uint64()), ("size", pa.uint64())])
BLOB_V2_DESCRIPTOR: pa.DataType = pa.struct(
    [
        pa.field("kind", pa.uint8(), nullable=False),
        pa.field("position", pa.uint64(), nullable=False),
        pa.field("size", pa.uint64(), nullable=False),
        pa.field("blob_id", pa.uint32(), nullable=False),
        pa.field("blob_uri", pa.string(), nullable=False),
    ]
)


def _descriptor_field(field: Field) -> pa.Field:
    if field.is_blob_v2:
        metadata = {PACKED: "true", BLOB: "true"}
        return pa.field(field.name, BLOB_V2_DESCRIPTOR, field.nullable, metadata)
    return pa.field(field.name, BLOB_V1_DESCRIPTOR, field.nullable, {BLOB: "true"})


def to_arrow_field(field: Field) -> pa.Field:
    """One column, or one node of the tree, as an Arrow field; raises FormatError."""
    metadata = dict(field.metadata)
    if field.logical_type == JSON:
        metadata.pop(EXTENSION_NAME, None)
        metadata.pop(EXTENSION_METADATA, None)
    kind = _to_arrow_type(field)
    nullable = field.nullable or pa.types.is_null(kind)  # in Arrow a null column is always nullable
    arrow = pa.field(field.name, kind, nullable, metadata or None)
    name = metadata.get(EXTENSION_NAME, b"")
    if not name or name.startswith(b"lance."):
        return arrow
    # Passing through the C interface turns storage and metadata into the registered type.
    try:
        return pa.schema(pa.schema([arrow])).field(0)
    except (pa.ArrowException, ValueError, TypeError) as cause:
        raise FormatError(
            f"field {field.name!r} cannot be the extension type {name!r}: {cause}"
        ) from cause


def check_names(schema: Schema) -> None:
    """Raise InvalidInputError for a column name that a table cannot have."""
    _check_level(schema.fields, "")
    for top in schema.fields:
        if "." in top.name:
            raise InvalidInputError(
                f"column name {top.name!r} is not allowed: it contains '.'", column=top.name
            )
        if "`" in top.name:
            raise InvalidInputError(
                f"column name {top.name!r} is not allowed: it contains a backtick", column=top.name
            )
        if top.name in RESERVED_NAMES:
            raise InvalidInputError(
                f"column name {top.name!r} is not allowed: it is reserved", column=top.name
            )


def check_encodable(name: str) -> None:
    """Raise InvalidInputError for a name with an unpaired surrogate, which is not valid Unicode."""
    try:
        name.encode()
    except UnicodeEncodeError as cause:
        raise InvalidInputError(
            f"column name {name!r} is not allowed: it cannot be written as UTF-8", column=name
        ) from cause


def check_whole(name: str) -> None:
    """Raise InvalidInputError for a name with a NUL, where Arrow's C interface ends it."""
    if "\0" in name:
        raise InvalidInputError(
            f"column name {name!r} is not allowed: it contains a NUL; rename the column",
            column=name,
        )


def _check_level(fields: Iterable[Field], path: str) -> None:
    seen: set[str] = set()
    for each in fields:
        if not each.name:
            raise InvalidInputError(f"a column of {path or 'the schema'} has no name")
        check_encodable(each.name)
        check_whole(each.name)
        if each.name in seen:
            raise InvalidInputError(f"column {path + each.name!r} occurs twice", column=each.name)
        seen.add(each.name)
        _check_level(each.children, f"{path}{each.name}.")


def _to_arrow_type(field: Field) -> pa.DataType:
    kind = field.logical_type
    size = list_size_of_structs(kind)
    if kind == "struct":
        return pa.struct([to_arrow_field(each) for each in field.children])
    if size is not None:
        return pa.list_(to_arrow_field(_only_child(field)), size)
    if kind in ("list", "list.struct"):
        return pa.list_(to_arrow_field(_only_child(field)))
    if kind in ("large_list", "large_list.struct"):
        return pa.large_list(to_arrow_field(_only_child(field)))
    if kind == "map":
        entries = _only_child(field)
        if len(entries.children) != 2:
            raise FormatError(f"map {field.name!r} needs both key and value", column=field.name)
        key, value = entries.children
        if key.nullable:
            raise FormatError(f"map {field.name!r} has a key that may be null", column=field.name)
        return pa.map_(to_arrow_field(key), to_arrow_field(value))
    return decode_leaf_type(kind)


def _only_child(field: Field) -> Field:
    if len(field.children) != 1:
        raise FormatError(
            f"field {field.name!r}: {field.logical_type!r} needs one child, "
            f"found {len(field.children)}",
            field_id=field.id,
        )
    return field.children[0]


def _from_arrow(arrow: pa.Field, path: str, depth: int, ids: Iterator[FieldId]) -> Field:
    if depth > MAX_DEPTH:
        raise UnsupportedError(f"column {path!r} is more than {MAX_DEPTH} levels deep", column=path)
    kind, metadata = arrow.type, _text_keys(arrow.metadata or {})
    if isinstance(kind, pa.BaseExtensionType):
        metadata = _text_keys(_exported_metadata(arrow))
        kind = kind.storage_type
    own_id = next(ids)
    below: list[pa.Field] = []
    if metadata.get(EXTENSION_NAME) == b"arrow.json":
        metadata |= {EXTENSION_NAME: b"lance.json", EXTENSION_METADATA: b""}
        text: str | None = JSON
    elif pa.types.is_struct(kind):
        text, below = "struct", list(kind)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        below = [kind.value_field]
        text = "large_list" if pa.types.is_large_list(kind) else "list"
        text += ".struct" if pa.types.is_struct(_storage(kind.value_type)) else ""
    elif pa.types.is_map(kind) and not kind.keys_sorted:
        entries = pa.struct([kind.key_field, kind.item_field])
        text, below = "map", [pa.field("entries", entries, nullable=False)]
    elif pa.types.is_fixed_size_list(kind) and pa.types.is_struct(_storage(kind.value_type)):
        text, below = f"fixed_size_list:struct:{kind.list_size}", [kind.value_field]
    else:
        text = encode_leaf_type(kind)
    if text is None or (text == "struct" and not below) or _has_no_width(text):
        raise UnsupportedError(
            f"column {path!r} has type {arrow.type}, which Lance tables cannot hold; "
            "cast it to another type",
            column=path,
            type=str(arrow.type),
        )
    children = [_from_arrow(each, f"{path}.{each.name}", depth + 1, ids) for each in below]
    return Field(own_id, arrow.name, text, arrow.nullable, metadata, tuple(children))


def _has_no_width(logical_type: str) -> bool:
    return logical_type.startswith("fixed_size") and logical_type.endswith(":0")


def _storage(kind: pa.DataType) -> pa.DataType:
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


def _text_keys(metadata: dict[bytes, bytes]) -> dict[str, bytes]:
    try:
        for value in metadata.values():
            value.decode()
        return {key.decode(): value for key, value in metadata.items()}
    except UnicodeDecodeError as cause:
        raise InvalidInputError(
            f"metadata of a column or schema is not UTF-8: {cause.object!r}; encode it as text"
        ) from cause


class _ArrowSchema(ctypes.Structure):
    """The head of the C data interface's ``struct ArrowSchema``."""

    _fields_ = [
        ("format", ctypes.c_char_p),
        ("name", ctypes.c_char_p),
        ("metadata", ctypes.c_void_p),
    ]


_capsule_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def _exported_metadata(arrow: pa.Field) -> dict[bytes, bytes]:
    """The metadata of an extension field as other libraries see it, with its extension name.

    pyarrow exposes the serialised form of its own extension types nowhere else.
    """
    capsule = arrow.__arrow_c_schema__()
    exported = _ArrowSchema.from_address(_capsule_pointer(capsule, b"arrow_schema"))
    at = exported.metadata
    if not at:
        return {}

    def integer() -> int:
        nonlocal at
        (value,) = struct.unpack("=i", ctypes.string_at(at, 4))
        at += 4
        return int(value)

    def text() -> bytes:
        nonlocal at
        length = integer()
        value = ctypes.string_at(at, length)
        at += length
        return value

    return {text(): text() for _ in range(integer())}

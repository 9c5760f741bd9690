"""The schema of a table: flat list of messages ↔ tree of fields.

Checks ids, parents and the children that each logical type requires. Arrow types are in
``format.arrow``; names are not checked, so that any manifest can be read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from google.protobuf.message import DecodeError

from lancewood.errors import FormatError, InvalidInputError
from lancewood.format.logical_type import (
    decode_leaf_type,
    is_parent,
    list_size_of_structs,
)
from lancewood.model.ids import FieldId
from lancewood.model.schema import BLOB, EXTENSION_NAME, Field, Schema, mirror_metadata
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

"""Schemas as a person reads them in a pin: one text for each column.

Pure. The texts follow from what the manifest says alone, never from which Arrow extensions a
process has loaded: the same version gives the same pin everywhere. They are for people; a reader
takes the schema from the manifest.
"""

from __future__ import annotations

from lancewood.model.schema import Field, Schema

_EXTENSION = "ARROW:extension:name"


def column_types(schema: Schema) -> tuple[tuple[str, str], ...]:
    """Each column and its type, as in ``("id", "int64 not null")``."""
    return tuple((each.name, _type_of(each)) for each in schema.fields)


def _type_of(field: Field) -> str:
    text = _storage(field)
    extension = field.metadata.get(_EXTENSION)
    if extension:
        text = f"{extension.decode(errors='replace')}<{text}>"
    return text if field.nullable else f"{text} not null"


def _storage(field: Field) -> str:
    if not field.children:
        return field.logical_type
    if field.logical_type == "struct":
        inner = ", ".join(f"{each.name}: {_type_of(each)}" for each in field.children)
    else:
        inner = ", ".join(_type_of(each) for each in field.children)
    return f"{field.logical_type.removesuffix('.struct')}<{inner}>"

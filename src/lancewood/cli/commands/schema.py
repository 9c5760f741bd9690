"""``lw table schema``: columns as the format keeps them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lancewood.cli import options
from lancewood.cli.output import Output, note
from lancewood.cli.revision_options import NEWEST, Revision, with_revision
from lancewood.cli.snapshots import opened_to_read
from lancewood.model.schema import Field


@with_revision
def command(
    uri: options.UriOrName,
    revision: Revision = NEWEST,
    storage_option: options.StorageOptions = None,
    json: options.Json = False,
) -> None:
    """Show columns with their ids, types and metadata.

    JSON keys: uri, version, fields, metadata. A field has id, name, type, nullable, metadata and
    children.
    """
    snapshot = opened_to_read(uri, storage_option, revision)
    schema = snapshot.schema
    output = Output(as_json=json)
    if json:
        document = {
            "uri": snapshot.place.uri,
            "version": snapshot.manifest.version,
            "fields": [_document(each) for each in schema.fields],
            "metadata": _texts(schema.metadata),
        }
        output.document(document, "")
        return
    lines = [line for each in schema.fields for line in _lines(each, 0)]
    output.rows(("id", "column", "type", "nullable", "metadata"), lines)
    for key, value in _texts(schema.metadata).items():
        note(f"schema metadata {key} = {value}")


def _document(field: Field) -> dict[str, Any]:
    return {
        "id": field.id,
        "name": field.name,
        "type": field.logical_type,
        "nullable": field.nullable,
        "metadata": _texts(field.metadata),
        "children": [_document(each) for each in field.children],
    }


def _lines(field: Field, depth: int) -> Iterator[tuple[Any, ...]]:
    told = " ".join(f"{key}={value}" for key, value in _texts(field.metadata).items())
    nullable = "yes" if field.nullable else "no"
    yield field.id, "  " * depth + field.name, field.logical_type, nullable, told
    for each in field.children:
        yield from _lines(each, depth + 1)


def _texts(metadata: Any) -> dict[str, str]:
    return {key: value.decode(errors="replace") for key, value in sorted(metadata.items())}

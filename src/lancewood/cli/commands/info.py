"""``lw table info``, ``schema``, ``versions`` and ``files``: what a table is made of."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from typing import Annotated, Any

import typer

from lancewood.cli import options
from lancewood.cli.output import Output, count, moment, note, size
from lancewood.cli.tables import (
    NEWEST,
    Branch,
    Revision,
    opened_history,
    opened_to_read,
    with_revision,
)
from lancewood.engine.snapshot import Snapshot, table_stats
from lancewood.engine.versions import (
    VersionInfo,
    VersionList,
    iterate_versions,
    list_versions,
    load_manifest,
    require_newest,
)
from lancewood.errors import LancewoodError, NotFoundError
from lancewood.format.deletion import deletion_file_name
from lancewood.model.fragment import DataFile, Fragment
from lancewood.model.ids import Version
from lancewood.model.manifest import decode_fragment
from lancewood.model.schema import Field

_FIRST = Version(1)
_VERSION_KEYS = ("version", "timestamp", "operation", "rows", "message", "properties", "damage")
_FILE_COLUMNS = ("fragment", "kind", "rows", "bytes", "base", "path")
_FILE_KEYS = (*_FILE_COLUMNS, "version", "fields")


@with_revision
def info_command(
    uri: options.UriOrName,
    revision: Revision = NEWEST,
    storage_option: options.StorageOptions = None,
    json: options.Json = False,
) -> None:
    """Show what a table is: size, versions, flags, settings.

    JSON keys: uri, version, branch, rows, deleted_rows, columns, fragments, data_files,
    deletion_files, bytes, manifest_bytes, newest_version, oldest_version, versions, created,
    updated, file_version, stable_row_ids, reader_flags, writer_flags, naming_scheme, writer,
    indices, config, metadata, base_paths.
    """
    snapshot = opened_to_read(uri, storage_option, revision)
    document = _info(snapshot)
    Output(as_json=json).facts(document, _info_facts(document, snapshot))


def _info(snapshot: Snapshot) -> dict[str, Any]:
    manifest, found = snapshot.manifest, list_versions(snapshot.location.store)
    stats = table_stats(snapshot)
    created = _created(snapshot, found)
    writer = manifest.message.writer_version
    return {
        "uri": snapshot.location.uri,
        "version": manifest.version,
        "branch": manifest.branch,
        "rows": stats.rows,
        "deleted_rows": stats.deleted_rows,
        "columns": len(snapshot.schema.fields),
        "fragments": stats.fragments,
        "data_files": stats.data_files,
        "deletion_files": stats.deletion_files,
        "bytes": stats.bytes,
        "manifest_bytes": manifest.size,
        "newest_version": found.newest,
        "oldest_version": found.versions[-1] if found.versions else None,
        "versions": len(found.versions),
        "created": None if created is None else created.isoformat(),
        "updated": manifest.timestamp.isoformat(),
        "file_version": manifest.file_version,
        "stable_row_ids": manifest.has_stable_row_ids,
        "reader_flags": manifest.reader_flags,
        "writer_flags": manifest.writer_flags,
        "naming_scheme": snapshot.scheme.value,
        "writer": " ".join(filter(None, (writer.library, writer.version))),
        "indices": [
            {"name": each.name, "kind": each.kind, "fields": list(each.fields)}
            for each in manifest.indices
        ],
        "config": dict(sorted(manifest.config.items())),
        "metadata": dict(sorted(manifest.table_metadata.items())),
        "base_paths": [
            {"id": each.id, "name": each.name or None, "path": each.path}
            for each in manifest.base_paths
        ],
    }


def _created(snapshot: Snapshot, found: VersionList) -> datetime | None:
    """When the table was made; None if its first version is gone or unreadable."""
    if not found.versions or found.versions[-1] != _FIRST:
        return None
    try:
        return load_manifest(snapshot.location.store, _FIRST, found.scheme).timestamp
    except LancewoodError:
        return None


def _info_facts(known: dict[str, Any], snapshot: Snapshot) -> list[tuple[str, Any]]:
    facts: list[tuple[str, Any]] = [
        ("uri", known["uri"]),
        ("version", f"{known['version']}{_newer(known)}"),
        ("branch", known["branch"] or "main"),
        ("rows", count(known["rows"])),
        ("deleted rows", count(known["deleted_rows"])),
        ("columns", known["columns"]),
        ("fragments", count(known["fragments"])),
        ("data files", count(known["data_files"])),
        ("deletion files", count(known["deletion_files"])),
        ("bytes", size(known["bytes"])),
        ("versions", count(known["versions"])),
        ("oldest version", known["oldest_version"]),
        ("created", moment(known["created"] and datetime.fromisoformat(known["created"]))),
        ("updated", moment(snapshot.manifest.timestamp)),
        ("file version", known["file_version"]),
        ("stable row ids", "yes" if known["stable_row_ids"] else "no"),
        ("reader flags", _flags(known["reader_flags"])),
        ("writer flags", _flags(known["writer_flags"])),
        ("manifest names", known["naming_scheme"]),
        ("written by", known["writer"] or "unknown"),
    ]
    facts += [("index", f"{each['name']} ({each['kind']})") for each in known["indices"]]
    facts += [("config", f"{key}={value}") for key, value in known["config"].items()]
    facts += [("metadata", f"{key}={value}") for key, value in known["metadata"].items()]
    facts += [("base path", f"{each['id']} {each['path']}") for each in known["base_paths"]]
    return facts


def _newer(known: dict[str, Any]) -> str:
    newest = known["newest_version"]
    return "" if newest in (None, known["version"]) else f" (the newest is {newest})"


def _flags(word: int) -> str:
    bits = [1 << at for at in range(64) if word >> at & 1]
    return " + ".join(map(str, bits)) or "none"


@with_revision
def schema_command(
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
            "uri": snapshot.location.uri,
            "version": snapshot.manifest.version,
            "fields": [_field(each) for each in schema.fields],
            "metadata": _texts(schema.metadata),
        }
        output.document(document, "")
        return
    lines = [line for each in schema.fields for line in _field_lines(each, 0)]
    output.rows(("id", "column", "type", "nullable", "metadata"), lines)
    for key, value in _texts(schema.metadata).items():
        note(f"schema metadata {key} = {value}")


def _field(field: Field) -> dict[str, Any]:
    return {
        "id": field.id,
        "name": field.name,
        "type": field.logical_type,
        "nullable": field.nullable,
        "metadata": _texts(field.metadata),
        "children": [_field(each) for each in field.children],
    }


def _field_lines(field: Field, depth: int) -> Iterator[tuple[Any, ...]]:
    told = " ".join(f"{key}={value}" for key, value in _texts(field.metadata).items())
    nullable = "yes" if field.nullable else "no"
    yield field.id, "  " * depth + field.name, field.logical_type, nullable, told
    for each in field.children:
        yield from _field_lines(each, depth + 1)


def _texts(metadata: Any) -> dict[str, str]:
    return {key: value.decode(errors="replace") for key, value in sorted(metadata.items())}


def versions_command(
    uri: options.UriOrName,
    limit: Annotated[
        int, typer.Option("--limit", "-n", metavar="N", min=0, help="At most N versions.")
    ] = 20,
    all_versions: Annotated[bool, typer.Option("--all", help="All versions.")] = False,
    branch: Branch = None,
    storage_option: options.StorageOptions = None,
    json: options.Json = False,
) -> None:
    """List versions, newest first.

    Each is opened when the list comes to it; a damaged one is listed with what is wrong.

    JSON lines with keys: version, timestamp, operation, rows, message, properties, damage.
    """
    output = Output(as_json=json)
    store = opened_history(uri, storage_option, branch)
    require_newest(store)
    found = iterate_versions(store, None if all_versions else limit)
    if json:
        output.rows(_VERSION_KEYS, map(_version, found))
    else:
        output.rows(("version", "time", "operation", "rows", "message"), map(_version_line, found))


def _version(each: VersionInfo) -> tuple[Any, ...]:
    return (
        each.version,
        None if each.timestamp is None else each.timestamp.isoformat(),
        each.operation,
        each.rows,
        each.message,
        dict(each.properties),
        each.damage,
    )


def _version_line(each: VersionInfo) -> tuple[Any, ...]:
    told = f"damaged: {each.damage}" if each.damage else each.message or ""
    return each.version, moment(each.timestamp), each.operation, count(each.rows), told


@with_revision
def files_command(
    uri: options.UriOrName,
    limit: Annotated[
        int, typer.Option("--limit", "-n", metavar="N", min=0, help="At most N fragments.")
    ] = 20,
    all_fragments: Annotated[bool, typer.Option("--all", help="All fragments.")] = False,
    revision: Revision = NEWEST,
    storage_option: options.StorageOptions = None,
    json: options.Json = False,
) -> None:
    """List fragments with their files.

    A data file's rows are those that it holds; a deletion file's are those that are deleted.

    JSON lines with keys: fragment, kind, rows, bytes, base, path, version, fields.
    """
    snapshot = opened_to_read(uri, storage_option, revision)
    shown = _files(snapshot, None if all_fragments else limit)
    output = Output(as_json=json)
    if json:
        output.rows(_FILE_KEYS, shown)
    else:
        output.rows(_FILE_COLUMNS, (row[: len(_FILE_COLUMNS)] for row in shown))


def _files(snapshot: Snapshot, limit: int | None) -> Iterator[tuple[Any, ...]]:
    manifest = snapshot.manifest
    # One by one, so that a short list of a large table stays quick.
    for raw in manifest.message.fragments[:limit]:
        fragment = Fragment(decode_fragment(raw, manifest.name))
        for file in fragment.files:
            yield _data_file(fragment, file)
        if fragment.deletion_file is not None:
            yield _deletion_file(snapshot, fragment)


def _data_file(fragment: Fragment, file: DataFile) -> tuple[Any, ...]:
    return (
        fragment.id,
        "data",
        count(fragment.physical_rows or None),
        size(file.size),
        file.base_id,
        file.path,
        "{}.{}".format(*file.version),
        list(file.fields),
    )


def _deletion_file(snapshot: Snapshot, fragment: Fragment) -> tuple[Any, ...]:
    deletion = fragment.deletion_file
    assert deletion is not None
    name = deletion_file_name(fragment.id, deletion.read_version, deletion.id, deletion.is_bitmap)
    found = snapshot.location.deletion_file(snapshot.manifest, fragment)
    assert found is not None
    store, key = found
    length = None
    with suppress(NotFoundError):
        length = store.head(key).size
    rows = count(deletion.num_deleted_rows or None)
    return fragment.id, "deletion", rows, size(length), deletion.base_id, name, None, None

"""``lw table info``: what a table is."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from lancewood.cli import options
from lancewood.cli.output import Output, count, moment, size
from lancewood.cli.revision_options import NEWEST, Revision, with_revision
from lancewood.cli.snapshots import opened_to_read
from lancewood.engine.snapshot import Snapshot
from lancewood.engine.stats import table_stats
from lancewood.engine.versions import VersionList, list_versions, load_manifest
from lancewood.errors import LancewoodError
from lancewood.model.ids import Version

_FIRST = Version(1)


@with_revision
def command(
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
    document = _document(snapshot)
    Output(as_json=json).facts(document, _facts(document, snapshot))


def _document(snapshot: Snapshot) -> dict[str, Any]:
    manifest, found = snapshot.manifest, list_versions(snapshot.place.store)
    stats = table_stats(snapshot)
    created = _created(snapshot, found)
    return {
        "uri": snapshot.place.uri,
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
        "writer": " ".join(
            part
            for part in (
                manifest.message.writer_version.library,
                manifest.message.writer_version.version,
            )
            if part
        ),
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
    """When the table was made; None if its first version is gone or cannot be read."""
    if not found.versions or found.versions[-1] != _FIRST:
        return None
    try:
        return load_manifest(snapshot.place.store, _FIRST, found.scheme).timestamp
    except LancewoodError:
        return None


def _facts(document: dict[str, Any], snapshot: Snapshot) -> list[tuple[str, Any]]:
    known = dict(document)
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

"""``lw table create``, ``config`` and ``drop``: an empty table, its settings, its end; ``info``,
``schema``, ``versions``, ``files`` and ``index-mask``: what a table is.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from typing import Annotated, Any

import pyarrow as pa
import typer

import lancewood as lw
from lancewood.cli import options
from lancewood.cli.output import count, counted, moment, note, picked, size
from lancewood.cli.repository import check_no_commit_pins
from lancewood.cli.tables import BranchOptions, Committing, Reading, Revision, TableOptions, stands
from lancewood.files.sources import ImportOptions, SourceFiles
from lancewood.table import MAIN, Field, StoredFile, parse_column, version_words


def create_command(
    uri: options.Uri,
    column: Annotated[
        list[str] | None,
        typer.Option(
            "--column",
            metavar="NAME:TYPE",
            help="A column, for example id:int64, 'id:int64 not null' or "
            "'v:fixed_size_list<float>[768]'. May be repeated.",
        ),
    ] = None,
    schema_from: Annotated[
        str | None,
        typer.Option(
            "--schema-from",
            metavar="FILE",
            help="Take the columns of a Parquet, CSV, JSON or Arrow file, or of another table.",
        ),
    ] = None,
    file_version: options.FileVersion = None,
    no_stable_row_ids: options.NoStableRowIds = False,
    *,
    write: Committing,
) -> None:
    """Make an empty table.

    JSON keys: uri, version, branch, rows.
    """
    if bool(column) == (schema_from is not None):
        raise typer.BadParameter("give --column (one or more) or --schema-from, and not both")
    table = lw.create(
        uri,
        _schema(column or [], schema_from, write.storage),
        layout=lw.Layout(stable_row_ids=not no_stable_row_ids, file_version=file_version),
        access=write.access,
        **write.facts,
    )
    columns = counted(len(table.schema), "column")
    write.answer(table, f"created {stands(table)}, {columns}", rows=0)


def _schema(
    columns: list[str], file: str | None, storage_options: dict[str, str] | None
) -> pa.Schema:
    if file is None:
        return pa.schema([parse_column(each) for each in columns])
    if "://" in file:
        return lw.open(file, access=lw.Access(storage_options=storage_options)).schema
    if os.path.isdir(file) and lw.exists(file):
        return lw.open(file).schema
    return SourceFiles([file], ImportOptions()).schema


def config_command(
    uri: options.Uri,
    settings: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY=VALUE]...", help="Settings to change; without any, show all."),
    ] = None,
    unset: Annotated[
        list[str] | None,
        typer.Option("--unset", metavar="KEY", help="Remove a setting. May be repeated."),
    ] = None,
    *,
    revision: Revision,
    write: Committing,
) -> None:
    """Show, set or unset the table's settings.

    JSON keys: uri, version, branch, config.
    """
    changes: dict[str, str | None] = {**options.pairs(settings, "config")}
    for key in unset or ():
        if key in changes:
            raise typer.BadParameter(f"{key!r} is to be set and unset at once")
        changes[key] = None
    if changes and revision.is_past:
        raise typer.BadParameter(
            "--version, --tag, --as-of and --at are for reading; only the newest changes"
        )
    if changes:
        table = write.to_write(uri, revision.branch).set_config(changes, **write.facts)
        write.note(f"changed {stands(table)}")
    else:
        table = write.to_read(uri, revision)
    config = dict(sorted(table.config.items()))
    document = {**picked(table, "uri", "version"), "branch": table.branch or MAIN}
    write.output.facts({**document, "config": config}, list(config.items()))


def drop_command(
    uri: options.Uri,
    yes: options.Yes = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Even if branches, tags, clones or commits of a repository rest on its versions.",
        ),
    ] = False,
    *,
    given: TableOptions,
) -> None:
    """Delete a table.

    All versions go, for good. Only what the format owns is deleted; other files stay.

    JSON keys: uri, dropped, version.
    """
    drop = partial(lw.drop, uri, force=force, access=given.access)
    would = drop(dry_run=True)
    if not force:
        check_no_commit_pins(would.uri, given.storage)
    about = f"{would.uri} has version {would.version} and all before it."
    if would.was_lost:
        about = f"The manifest store knows version {would.version} of {would.uri}, which is gone."
    given.confirm("Drop it for good?", about, yes=yes)
    drop()
    document = {"uri": would.uri, "dropped": True, "version": would.version}
    given.output.document(document, f"dropped {would.uri}")


_VERSION_KEYS = ("version", "timestamp", "operation", "rows", "message", "properties", "damage")
_FILE_COLUMNS = ("fragment", "kind", "rows", "bytes", "base", "path")
_FILE_KEYS = (*_FILE_COLUMNS, "version", "fields")


def info_command(uri: options.UriOrName, *, read: Reading) -> None:
    """Show what a table is: size, versions, flags, settings.

    JSON keys: uri, version, branch, rows, deleted_rows, columns, fragments, data_files,
    deletion_files, bytes, manifest_bytes, newest_version, oldest_version, versions, created,
    updated, file_version, stable_row_ids, reader_flags, writer_flags, naming_scheme, writer,
    indices, config, metadata, base_paths.
    """
    table = read.table(uri)
    document = _info(table)
    read.output.facts(document, _info_facts(document, table))


def _info(table: lw.Table) -> dict[str, Any]:
    stats, known = table.stats(), table.details()
    return {
        **picked(table, "uri", "version", "branch"),
        **picked(stats, "rows", "deleted_rows"),
        "columns": len(table.fields),
        **picked(stats, "fragments", "data_files", "deletion_files", "bytes"),
        **picked(known, "manifest_bytes", "newest_version", "oldest_version", "versions"),
        "created": None if known.created is None else known.created.isoformat(),
        "updated": table.timestamp.isoformat(),
        "file_version": table.file_version,
        "stable_row_ids": table.has_stable_row_ids,
        **picked(known, "reader_flags", "writer_flags", "naming_scheme", "writer"),
        "indices": [picked(each, "name", "kind", "column") for each in table.indices.list()],
        "config": dict(sorted(table.config.items())),
        "metadata": dict(sorted(table.metadata.items())),
        "base_paths": [
            {"id": each.id, "name": each.name or None, "path": each.path}
            for each in table.base_paths
        ],
    }


def _info_facts(known: dict[str, Any], table: lw.Table) -> list[tuple[str, Any]]:
    newest, number = known["newest_version"], version_words(table.version)
    number = number.removeprefix("version ")
    newer = "" if newest in (None, table.version) else f" (the newest is {newest})"
    facts: list[tuple[str, Any]] = [
        ("uri", known["uri"]),
        ("version", f"{number}{newer}"),
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
        ("updated", moment(table.timestamp)),
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


def _flags(word: int) -> str:
    bits = [1 << at for at in range(64) if word >> at & 1]
    return " + ".join(map(str, bits)) or "none"


def schema_command(uri: options.UriOrName, *, read: Reading) -> None:
    """Show columns with their ids, types and metadata.

    JSON keys: uri, version, fields, metadata. A field has id, name, type, nullable, metadata and
    children.
    """
    table = read.table(uri)
    metadata = _texts({key.decode(): value for key, value in (table.schema.metadata or {}).items()})
    if read.json:
        fields = [_field(each) for each in table.fields]
        read.answer(table, "", fields=fields, metadata=metadata)
        return
    lines = [line for each in table.fields for line in _field_lines(each, 0)]
    read.output.rows(("id", "column", "type", "nullable", "metadata"), lines)
    for key, value in metadata.items():
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
    metadata = " ".join(f"{key}={value}" for key, value in _texts(field.metadata).items())
    nullable = "yes" if field.nullable else "no"
    yield field.id, "  " * depth + field.name, field.logical_type, nullable, metadata
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
    *,
    given: BranchOptions,
) -> None:
    """List versions, newest first.

    Each is opened when the list comes to it; a damaged one is listed with what is wrong.

    JSON lines with keys: version, timestamp, operation, rows, message, properties, damage.
    """
    found = given.history(uri, None if all_versions else limit)
    columns = ("version", "time", "operation", "rows", "message")
    given.output.listing(found, (_VERSION_KEYS, _version), (columns, _version_line))
    if limit and not all_versions and not given.json:
        given.output.more(max(0, given.count_versions(uri) - limit), "--all")


def _version(each: lw.VersionInfo) -> tuple[Any, ...]:
    return (
        each.version,
        None if each.timestamp is None else each.timestamp.isoformat(),
        each.operation,
        each.rows,
        each.message,
        dict(each.properties),
        each.damage,
    )


def _version_line(each: lw.VersionInfo) -> tuple[Any, ...]:
    text = f"damaged: {each.damage}" if each.damage else (each.message or "").partition("\n")[0]
    return each.version, moment(each.timestamp), each.operation, count(each.rows), text


def files_command(
    uri: options.UriOrName,
    limit: Annotated[
        int, typer.Option("--limit", "-n", metavar="N", min=0, help="At most N fragments.")
    ] = 20,
    all_fragments: Annotated[bool, typer.Option("--all", help="All fragments.")] = False,
    *,
    read: Reading,
) -> None:
    """List fragments with their files.

    A data file's rows are those that it holds; a deletion file's are those that are deleted.

    JSON lines with keys: fragment, kind, rows, bytes, base, path, version, fields.
    """
    table = read.table(uri)
    found = table.files(None if all_fragments else limit)
    read.output.listing(found, (_FILE_KEYS, _file), (_FILE_COLUMNS, _file_line))
    if limit and not all_fragments:
        read.output.more(max(0, table.stats().fragments - limit), "--all")


def _file(each: StoredFile) -> tuple[Any, ...]:
    fields = None if each.fields is None else list(each.fields)
    rows, length = count(each.rows), size(each.bytes)
    return each.fragment, each.kind, rows, length, each.base, each.path, each.version, fields


def _file_line(each: StoredFile) -> tuple[Any, ...]:
    return _file(each)[: len(_FILE_COLUMNS)]


def index_mask_command(
    uri: options.UriOrName,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The index, as info shows it.")],
    *,
    read: Reading,
) -> None:
    """Show which rows an index may answer for.

    Rows that were deleted or updated since it was built are not counted. Fragments that it does not
    cover have to be scanned.

    JSON keys: uri, version, index, rows, fragments, uncovered.
    """
    table = read.table(uri)
    mask = table.index_mask(name)
    covered, uncovered = [list(each) for each in (mask.fragments, mask.uncovered)]
    document = {
        "uri": table.uri,
        "version": table.version,
        "index": name,
        "rows": mask.row_count,
        "fragments": covered,
        "uncovered": uncovered,
    }
    facts = [
        ("index", name),
        ("version", table.version),
        ("rows", count(mask.row_count)),
        ("fragments", count(len(covered))),
        ("uncovered fragments", count(len(uncovered))),
    ]
    read.output.facts(document, facts)

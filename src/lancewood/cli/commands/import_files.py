"""``lw table import``: files into a new or an existing table, with one commit."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

import lancewood as lw
from lancewood.cli import options
from lancewood.cli.file_options import FileOptions, Files
from lancewood.cli.output import counted, human_size
from lancewood.cli.progress import progress
from lancewood.cli.tables import Writing, stands
from lancewood.errors import AlreadyExistsError


class Mode(StrEnum):
    """What becomes of the table."""

    CREATE = "create"
    APPEND = "append"
    OVERWRITE = "overwrite"


def import_files_command(
    uri: options.Uri,
    paths: Files,
    mode: Annotated[
        Mode, typer.Option("--mode", help="Make a table, add to one, or replace its rows.")
    ] = Mode.CREATE,
    file_version: options.FileVersion = None,
    max_rows_per_file: options.MaxRowsPerFile = None,
    no_stable_row_ids: options.NoStableRowIds = False,
    merge_schema: Annotated[
        bool,
        typer.Option(
            "--merge-schema",
            help="Take columns that only some files have, or the table has not: they are null "
            "elsewhere.",
        ),
    ] = False,
    *,
    files: FileOptions,
    write: Writing,
) -> None:
    """Load files into a new or an existing table.

    Parquet, CSV, JSON (lines, or one array of objects) and Arrow (file or stream). All files are
    looked into before anything is written; they make one version, or none.

    JSON keys: uri, version, branch, mode, files, rows, bytes.
    """
    _check_mode(mode, write.branch, file_version, no_stable_row_ids)
    stored, manifest_store = write.storage, write.manifest_store
    if mode is Mode.CREATE and lw.exists(
        uri, storage_options=stored, manifest_store=manifest_store
    ):
        if manifest_store is not None:
            write.table(uri)  # or it was removed past it
        raise AlreadyExistsError(
            f"there is a table at {uri} already: use --mode append or --mode overwrite"
        )
    table = None if mode is Mode.CREATE else write.table(uri)
    appended = table.schema if table is not None and mode is Mode.APPEND else None
    sources = files.sources(paths, appended, merge_schema=merge_schema)
    limits = {} if max_rows_per_file is None else {"max_rows_per_file": max_rows_per_file}
    done = {"rows": 0, "bytes": 0}
    with progress("import", total=sources.total_rows, wanted=not write.json) as advance:

        def on_batch(rows: int, size: int) -> None:
            done["rows"] += rows
            done["bytes"] += size
            advance(rows, size)

        reader = sources.reader(on_batch)
        more: dict[str, Any] = {**limits, **write.facts}
        if table is None:
            table = lw.create(
                uri,
                reader,
                stable_row_ids=not no_stable_row_ids,
                file_version=file_version,
                **write.reached_by,
                **more,
            )
        elif mode is Mode.APPEND:
            table = table.append(reader, merge_schema=merge_schema, **more)
        else:
            table = table.overwrite(reader, file_version=file_version, **more)
    count = len(sources.files)
    text = (
        f"imported {counted(done['rows'], 'row')} ({human_size(done['bytes'])}) from "
        f"{counted(count, 'file')} into {stands(table)}"
    )
    write.answer(table, text, mode=mode.value, files=count, **done)


def _check_mode(
    mode: Mode, branch: str | None, file_version: str | None, no_stable_row_ids: bool
) -> None:
    if mode is not Mode.CREATE and no_stable_row_ids:
        raise typer.BadParameter("--no-stable-row-ids is decided when a table is made")
    if mode is Mode.CREATE and branch is not None:
        raise typer.BadParameter("--branch is for --mode append and --mode overwrite")
    if mode is Mode.APPEND and file_version is not None:
        raise typer.BadParameter("--file-version is the table's own when rows are appended")

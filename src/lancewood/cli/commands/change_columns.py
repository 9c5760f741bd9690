"""``lw table drop-columns``, ``rename-column`` and ``cast-column``."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Annotated

import pyarrow as pa
import typer

import lancewood as lw
from lancewood.cli import options
from lancewood.cli.output import UNCHANGED, Output, counted
from lancewood.cli.progress import task_runner
from lancewood.cli.tables import Branch, opened_to_write
from lancewood.engine.schema import cast_column, drop_columns, next_field_id, rename_column
from lancewood.engine.snapshot import Snapshot
from lancewood.format.type_text import parse_type
from lancewood.jobs.columns.cast import CastValues
from lancewood.jobs.job import pack_fragments
from lancewood.jobs.runner import Runner
from lancewood.model.fragment import Fragment


def drop_columns_command(
    uri: options.Uri,
    names: Annotated[
        list[str],
        typer.Argument(metavar="NAMES...", help="Columns; a dot leads into a struct: a.b"),
    ],
    dry_run: options.DryRun = False,
    message: options.Message = None,
    properties: options.Properties = None,
    branch: Branch = None,
    storage_option: options.StorageOptions = None,
    unsafe: options.Unsafe = False,
    json: options.Json = False,
) -> None:
    """Remove columns.

    Data files stay as they are, and older versions have the columns still. Indices of them go.

    JSON keys: uri, version, dry_run, columns.
    """
    facts = options.commit_facts(message, properties)
    snapshot = opened_to_write(uri, storage_option, branch, unsafe=unsafe)
    table = lw.Table(snapshot)
    if dry_run:
        drop_columns(snapshot.schema, names)
    else:
        with task_runner(wanted=not json) as runner:
            table = table.drop_columns(names, runner=runner, **facts)
    told = f"{counted(len(names), 'column')} of {table.uri}, version {table.version}"
    told = f"would remove {told}; {UNCHANGED}" if dry_run else f"removed {told}"
    document = {"uri": table.uri, "version": table.version, "dry_run": dry_run, "columns": names}
    Output(as_json=json).document(document, told)


def rename_column_command(
    uri: options.Uri,
    old: Annotated[
        str, typer.Argument(metavar="OLD", help="The column; a dot leads into a struct: a.b")
    ],
    new: Annotated[str, typer.Argument(metavar="NEW", help="Its new name, without the way to it.")],
    dry_run: options.DryRun = False,
    message: options.Message = None,
    properties: options.Properties = None,
    branch: Branch = None,
    storage_option: options.StorageOptions = None,
    unsafe: options.Unsafe = False,
    json: options.Json = False,
) -> None:
    """Give a column another name.

    No data file is touched, and indices stay.

    JSON keys: uri, version, dry_run, old, new.
    """
    facts = options.commit_facts(message, properties)
    snapshot = opened_to_write(uri, storage_option, branch, unsafe=unsafe)
    table = lw.Table(snapshot)
    if dry_run:
        rename_column(snapshot.schema, old, new)
    else:
        table = table.rename_column(old, new, **facts)
    told = f"column {old} to {new} in {table.uri}, version {table.version}"
    told = f"would rename {told}; {UNCHANGED}" if dry_run else f"renamed {told}"
    document = {"uri": table.uri, "version": table.version, "dry_run": dry_run}
    Output(as_json=json).document({**document, "old": old, "new": new}, told)


def cast_column_command(
    uri: options.Uri,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The column; a dot leads into a struct: a.b")
    ],
    type: Annotated[
        str, typer.Argument(metavar="TYPE", help="Its new type, as in int64 or 'list<float>'.")
    ],
    dry_run: options.DryRun = False,
    message: options.Message = None,
    properties: options.Properties = None,
    branch: Branch = None,
    storage_option: options.StorageOptions = None,
    unsafe: options.Unsafe = False,
    json: options.Json = False,
) -> None:
    """Give a column another type.

    Its values are written anew, those of other columns are not. A value that the type cannot hold
    is an error, and nothing changes. Indices of the column go.

    A dry run tries every value.

    JSON keys: uri, version, dry_run, column, type.
    """
    facts = options.commit_facts(message, properties)
    kind = parse_type(type)
    snapshot = opened_to_write(uri, storage_option, branch, unsafe=unsafe)
    table = lw.Table(snapshot)
    told = f"column {name} of {table.uri} is {kind} already, version {table.version}"
    with task_runner(wanted=not json) as runner:
        if dry_run:
            if _is_castable(snapshot, name, kind, runner):
                told = (
                    f"would cast column {name} of {table.uri}, version {table.version}, to {kind}; "
                    f"{UNCHANGED}"
                )
        else:
            after = table.cast_column(name, kind, runner=runner, **facts)
            if after.version > table.version:
                told = f"column {name} of {after.uri} is {kind}, version {after.version}"
            table = after
    document = {"uri": table.uri, "version": table.version, "dry_run": dry_run}
    Output(as_json=json).document({**document, "column": name, "type": str(kind)}, told)


def _is_castable(snapshot: Snapshot, name: str, kind: pa.DataType, runner: Runner) -> bool:
    """Whether there is something to cast; raises InvalidInputError if a value does not fit."""
    manifest = snapshot.manifest
    plan = cast_column(
        snapshot.schema,
        name,
        kind,
        first_id=next_field_id(manifest),
        file_version=manifest.file_version,
    )
    if plan is None:
        return False
    values = CastValues(name, plan)

    def tried(fragments: Sequence[Fragment]) -> None:
        for batches in values.of(snapshot, fragments):
            deque(batches, maxlen=0)

    tasks = [*pack_fragments(manifest.fragments, runner.slots)]
    deque(runner.run(tried, tasks, what="trying the cast"), maxlen=0)
    return True

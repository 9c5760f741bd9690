"""``lw table base``: the other homes of a table's files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

import lancewood as lw
from lancewood.cli import options
from lancewood.cli.base_texts import meant_base
from lancewood.cli.output import Output
from lancewood.cli.revision_options import Branch, Revision
from lancewood.cli.snapshots import table_to_read, table_to_write

_KEYS = ("id", "name", "is_dataset_root", "path")


def command(
    uri: options.Uri,
    add: Annotated[
        str | None,
        typer.Option("--add", metavar="PATH", help="Declare a home: a directory or a URI."),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="What the new one is called.")
    ] = None,
    dataset_root: Annotated[
        bool,
        typer.Option("--dataset-root", help="Its data files lie in a directory data below PATH."),
    ] = False,
    set_to: Annotated[
        tuple[str, str] | None,
        typer.Option(
            "--set",
            metavar="BASE PATH",
            help="Say where BASE (id, name or path) is now, after its files were brought there.",
        ),
    ] = None,
    no_check: Annotated[
        bool, typer.Option("--no-check", help="Do not look for files at the place of --set.")
    ] = False,
    message: options.Message = None,
    properties: options.Properties = None,
    branch: Branch = None,
    storage_option: options.StorageOptions = None,
    unsafe: options.Unsafe = False,
    json: options.Json = False,
) -> None:
    """List, add or set the other homes of a table's files.

    The files of a table may lie in several places: on a faster or cheaper store, in another region,
    in the table it was cloned from. move brings them to such a home.

    JSON lines with keys: id, name, is_dataset_root, path. A change adds uri and version.
    """
    _check(add, set_to, name=name, dataset_root=dataset_root, no_check=no_check)
    facts = options.commit_facts(message, properties)
    if add is None and set_to is None:
        table = table_to_read(uri, storage_option, Revision(branch=branch), unsafe=unsafe)
    else:
        table = table_to_write(uri, storage_option, branch, unsafe=unsafe)
    output = Output(as_json=json)
    if add is not None:
        table = table.add_base(add, name=name, is_dataset_root=dataset_root, **facts)
        _tell(output, table, "added base path {} at", lw.BasePath(add).path)
    elif set_to is not None:
        base, goal = set_to
        table = table.set_base(meant_base(table, base), goal, check=not no_check, **facts)
        _tell(output, table, "set base path {} to", lw.BasePath(goal).path)
    else:
        _print_list(output, table.base_paths)


def _check(
    add: str | None,
    set_to: tuple[str, str] | None,
    *,
    name: str | None,
    dataset_root: bool,
    no_check: bool,
) -> None:
    """Raise BadParameter for options that do not go together."""
    if add is not None and set_to is not None:
        raise typer.BadParameter("--add and --set do not go together")
    if add is None and (name is not None or dataset_root):
        raise typer.BadParameter("--name and --dataset-root are for --add")
    if set_to is None and no_check:
        raise typer.BadParameter("--no-check is for --set")


def _print_list(output: Output, bases: Sequence[lw.BasePath]) -> None:
    if output.as_json:
        output.rows(_KEYS, map(_facts, bases))
    else:
        lines = ((e.id, e.name or "", "yes" if e.is_dataset_root else "no", e.path) for e in bases)
        output.rows(("base", "name", "dataset root", "path"), lines)


def _tell(output: Output, table: lw.Table, done: str, path: str) -> None:
    base = next(each for each in table.base_paths if each.path == path)
    called = f"{base.id} ({base.name})" if base.name else str(base.id)
    document = dict(zip(_KEYS, _facts(base), strict=True))
    output.document(
        {**document, "uri": table.uri, "version": table.version},
        f"{done.format(called)} {path}: {table.uri}, version {table.version}",
    )


def _facts(base: lw.BasePath) -> tuple[Any, ...]:
    return base.id, base.name, base.is_dataset_root, base.path

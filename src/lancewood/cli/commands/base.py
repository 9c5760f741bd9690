"""``lw table base`` and ``lw table move``: the other roots of a table's files."""

from __future__ import annotations

import re
from typing import Annotated, Any

import typer

import lancewood as lw
from lancewood.cli import options
from lancewood.cli.output import counted, human_size
from lancewood.cli.tables import PlannedWriting, Revision, Writing, counts_of, stands, stays
from lancewood.table import MAIN

_BASE_KEYS = ("id", "name", "is_dataset_root", "path")
_RANGE = re.compile(r"(\d{1,10})(?:-(\d{1,10}))?", re.ASCII)
_LONGEST_RANGE = 10_000_000


def base_command(
    uri: options.Uri,
    add: Annotated[
        str | None,
        typer.Option("--add", metavar="PATH", help="Declare a root: a directory or a URI."),
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
    *,
    write: Writing,
) -> None:
    """List, add or set the other roots of a table's files.

    The files of a table may lie in several places: on a faster or cheaper store, in another region,
    in the table it was cloned from. move brings them to such a root.

    JSON lines with keys: id, name, is_dataset_root, path. A change adds uri, version
    and branch.
    """
    _check(add, set_to, name=name, dataset_root=dataset_root, no_check=no_check)
    if add is not None:
        table = write.table(uri)
        table = table.add_base(add, name=name, is_dataset_root=dataset_root, **write.facts)
        _tell(write, table, "added base path {} at", lw.BasePath(add).path)
    elif set_to is not None:
        base, goal = set_to
        table = write.table(uri)
        table = table.set_base(_meant_base(table, base), goal, check=not no_check, **write.facts)
        _tell(write, table, "set base path {} to", lw.BasePath(goal).path)
    else:
        table = write.to_read(uri, Revision(branch=write.branch))
        columns = ("base", "name", "dataset root", "path")
        write.output.listing(table.base_paths, (_BASE_KEYS, _facts), (columns, _line))


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


def _tell(write: Writing, table: lw.Table, done: str, path: str) -> None:
    base = next(each for each in table.base_paths if each.path == path)
    called = f"{base.id} ({base.name})" if base.name else str(base.id)
    write.output.document(
        {
            **dict(zip(_BASE_KEYS, _facts(base), strict=True)),
            "uri": table.uri,
            "version": table.version,
            "branch": table.branch or MAIN,
        },
        f"{done.format(called)} {path}: {stands(table)}",
    )


def _facts(base: lw.BasePath) -> tuple[Any, ...]:
    return base.id, base.name, base.is_dataset_root, base.path


def _line(base: lw.BasePath) -> tuple[Any, ...]:
    return base.id, base.name or "", "yes" if base.is_dataset_root else "no", base.path


def _meant_base(table: lw.Table, text: str) -> int | str:
    """The base path for the API: a number is an id, unless a base path has that name."""
    is_number = text.isascii() and text.isdigit()
    if is_number and all(each.name != text for each in table.base_paths):
        return int(text)
    return text


def move_command(
    uri: options.Uri,
    to: Annotated[
        str | None,
        typer.Option(
            "--to", metavar="BASE", help="The root to go to: a base path's id, name or path."
        ),
    ] = None,
    back: Annotated[
        bool, typer.Option("--back", help="Go to where the table's new files go.")
    ] = False,
    fragments: Annotated[
        list[str] | None,
        typer.Option(
            "--fragments",
            metavar="N,N-N",
            help="Move these, by the numbers that files lists: 0,7,10-19. May be repeated.",
        ),
    ] = None,
    where: Annotated[
        str | None,
        typer.Option(
            "--where",
            "-w",
            metavar="SQL",
            help="Move fragments of which this is true for every row.",
        ),
    ] = None,
    older_than: Annotated[
        str | None,
        typer.Option(
            "--older-than",
            metavar="TIME",
            help="Move fragments of which no row has changed for so long: 30d, 12h, 1d12h.",
        ),
    ] = None,
    all_fragments: Annotated[bool, typer.Option("--all", help="Move all fragments.")] = False,
    *,
    write: PlannedWriting,
) -> None:
    """Bring fragments to another root of the table.

    For cold storage, or another region: base --add declares the root. Files are copied and checked,
    then one version switches to them; rows, ids and indices stay as they are, and others may write
    meanwhile. The old files stay until cleanup. With several conditions, all must hold.

    JSON keys: uri, version, branch, dry_run, to, fragments, files, bytes.
    """
    if (to is None) != back:
        raise typer.BadParameter("say where to: --to or --back")
    chosen = _numbers(fragments)
    some = chosen is not None or where is not None or older_than is not None
    if some == all_fragments:
        raise typer.BadParameter("say what: --fragments, --where or --older-than, or --all")
    age = options.span(older_than, "--older-than")
    table = write.table(uri)
    with write.runner() as runner:
        after = table.move_fragments(
            chosen,
            base=None if to is None else _meant_base(table, to),
            where=where,
            older_than=age,
            runner=runner,
            **write.facts,
        )
    counts = counts_of(after, lw.MoveCounts)
    text = f"nothing to move; {stays(after)}"
    if counts.fragments:
        what = f"{counted(counts.fragments, 'fragment')} of {counted(counts.files, 'file')} "
        what += f"({human_size(counts.bytes)}) {'back' if to is None else f'to {to}'}"
        text = write.outcome("move", "moved", f"{what} in {stands(after)}")
    amounts = {"fragments": counts.fragments, "files": counts.files, "bytes": counts.bytes}
    write.answer(after, text, to=to, **amounts)


def _numbers(texts: list[str] | None) -> list[int] | None:
    """The numbers of a repeated option with commas and ranges; None if it was not given."""
    if texts is None:
        return None
    found: list[int] = []
    for each in (part.strip() for text in texts for part in text.split(",")):
        match = _RANGE.fullmatch(each)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if last < first or last - first >= _LONGEST_RANGE:
            raise typer.BadParameter(
                f"--fragments takes numbers and ranges of them, as in 0,7,10-19, not {each!r}"
            )
        found += range(first, last + 1)
    return found

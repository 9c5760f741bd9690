"""``lw table move``: fragments to another home of the table."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from lancewood.cli import options
from lancewood.cli.base_texts import meant_base
from lancewood.cli.output import UNCHANGED, Output, counted, human_size
from lancewood.cli.progress import task_runner
from lancewood.cli.revision_options import Branch
from lancewood.cli.snapshots import table_to_write


def command(
    uri: options.Uri,
    to: Annotated[
        str | None,
        typer.Option(
            "--to", metavar="BASE", help="The home to go to: a base path's id, name or path."
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
    dry_run: options.DryRun = False,
    message: options.Message = None,
    properties: options.Properties = None,
    branch: Branch = None,
    storage_option: options.StorageOptions = None,
    unsafe: options.Unsafe = False,
    json: options.Json = False,
) -> None:
    """Bring fragments to another home of the table.

    For cold storage, or another region: base --add declares the home. Files are copied and checked,
    then one version switches to them; rows, ids and indices stay as they are, and others may write
    meanwhile. The old files stay until cleanup. With several conditions, all must hold.

    JSON keys: uri, version, dry_run, to, fragments, files, bytes.
    """
    if (to is None) != back:
        raise typer.BadParameter("say where to: --to or --back")
    chosen = _numbers(fragments)
    some = chosen is not None or where is not None or older_than is not None
    if some == all_fragments:
        raise typer.BadParameter("say what: --fragments, --where or --older-than, or --all")
    facts = options.commit_facts(message, properties)
    age = options.span(older_than, "--older-than")
    table = table_to_write(uri, storage_option, branch, unsafe=unsafe)
    with task_runner(wanted=not json) as runner:
        after = table.move_fragments(
            chosen,
            base=None if to is None else meant_base(table, to),
            where=where,
            older_than=age,
            dry_run=dry_run,
            runner=runner,
            **facts,
        )
    counts = after.counts
    document = {
        "uri": after.uri,
        "version": after.version,
        "dry_run": dry_run,
        "to": to,
        "fragments": counts.fragments,
        "files": counts.files,
        "bytes": counts.bytes,
    }
    told = f"nothing to move; {after.uri} stays at version {after.version}"
    if counts.fragments:
        what = f"{counted(counts.fragments, 'fragment')} of {counted(counts.files, 'file')} "
        what += f"({human_size(counts.bytes)}) {'back' if to is None else f'to {to}'}"
        told = f"{what} in {after.uri}, version {after.version}"
        told = f"would move {told}; {UNCHANGED}" if dry_run else f"moved {told}"
    Output(as_json=json).document(document, told)


_RANGE = re.compile(r"(\d{1,10})(?:-(\d{1,10}))?", re.ASCII)
_MOST = 10_000_000


def _numbers(texts: list[str] | None) -> list[int] | None:
    """The numbers of a repeated option with commas and ranges; None where it was not given."""
    if texts is None:
        return None
    found: list[int] = []
    for each in (part.strip() for text in texts for part in text.split(",")):
        match = _RANGE.fullmatch(each)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if last < first or last - first >= _MOST:
            raise typer.BadParameter(
                f"--fragments takes numbers and ranges of them, as in 0,7,10-19, not {each!r}"
            )
        found += range(first, last + 1)
    return found

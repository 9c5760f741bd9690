"""``lw repo import-plain``: the plain layout of ADR-019 as a repository."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lancewood.cli import options
from lancewood.cli.output import Output, counted
from lancewood.cli.repository import words
from lancewood.git.names import HEADS
from lancewood.repo.plain.importing import FILE_NAME, import_plain


def command(
    source: Annotated[
        Path, typer.Argument(metavar="SOURCE", help="Where HEAD, refs and objects are; only read.")
    ],
    target: Annotated[
        Path, typer.Argument(metavar="TARGET", help="The repository; made if it is not there.")
    ],
    name: Annotated[
        str, typer.Option("--name", metavar="PATH", help="What the file of a snapshot is called.")
    ] = FILE_NAME,
    author: words.Author = None,
    no_log: Annotated[
        bool, typer.Option("--no-log", help="Leave the history that log.jsonl tells.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", "-f", help="Move refs of TARGET that lead elsewhere.")
    ] = False,
    json: options.Json = False,
) -> None:
    """Import snapshots in the plain layout of ADR-019 into a repository.

    SOURCE holds HEAD, refs/heads/NAME and refs/tags/NAME as texts with the 64 digits of a snapshot,
    and each snapshot as raw bytes in objects/, named by their SHA-256. Every snapshot is checked,
    and becomes a commit with one file; where there is a log.jsonl, the commits follow each other as
    it tells. Snapshots that no ref leads to are kept under refs/lancewood/plain. Done again it
    changes nothing.

    JSON keys: path, head, branches, tags, snapshots, changed.
    """
    done = import_plain(source, target, name=name, author=author, log=not no_log, force=force)
    document = {
        "path": str(done.path),
        "head": done.head,
        "branches": done.branches,
        "tags": done.tags,
        "snapshots": done.snapshots,
        "changed": [*done.changed],
    }
    head = done.head.removeprefix(HEADS)
    shown = head if done.head.startswith(HEADS) else f"{head[:12]} (detached)"
    found = ", ".join(
        [
            counted(done.snapshots, "snapshot"),
            f"{done.branches} {'branch' if done.branches == 1 else 'branches'}",
            counted(done.tags, "tag"),
        ]
    )
    told = (
        counted(len(done.changed), "ref") + " made or moved" if done.changed else "nothing is new"
    )
    Output(as_json=json).document(document, f"{found}; HEAD is {shown}; {told}")

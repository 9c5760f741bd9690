"""``lw init``: a new repository."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

import lancewood as lw
from lancewood.cli import options
from lancewood.cli.output import Output


def command(
    path: Annotated[
        Path, typer.Argument(metavar="[PATH]", help="Where; made if it is not there.")
    ] = Path(),
    exclusive: Annotated[
        bool,
        typer.Option(
            "--exclusive",
            help="Tables are written by transactions of the repository only; others are refused.",
        ),
    ] = False,
    json: options.Json = False,
) -> None:
    """Make an empty repository.

    It is a bare git repository in SHA-256 format. Tables that are made in it live in its
    directory tables.

    JSON keys: path, branch.
    """
    made = lw.Repository.init(path, exclusive=exclusive)
    where = os.path.join(made.path, "")
    document = {"path": str(made.path), "branch": made.head.branch}
    Output(as_json=json).document(document, f"Initialized empty Lancewood repository in {where}")

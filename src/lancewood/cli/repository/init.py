"""``lw init``: a new repository."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

import lancewood as lw
from lancewood.cli import options
from lancewood.cli.output import Output
from lancewood.cli.repository.finding import started_at
from lancewood.git.homes import Home, below, is_uri


def command(
    path: Annotated[
        str | None,
        typer.Argument(
            metavar="[PATH]",
            help="Where; made if it is not there. A uri is a place in a bucket, as s3://name/path.",
        ),
    ] = None,
    exclusive: Annotated[
        bool,
        typer.Option(
            "--exclusive",
            help="Tables are written by transactions of the repository only; others are refused.",
        ),
    ] = False,
    storage_option: options.StorageOptions = None,
    json: options.Json = False,
) -> None:
    """Make an empty repository.

    It is a bare git repository in SHA-256 format. Tables that are made in it live in its
    directory tables.

    JSON keys: path, branch.
    """
    given = options.storage(storage_option)
    made = lw.Repository.init(_place(path), exclusive=exclusive, storage_options=given)
    where = os.path.join(made.uri, "")
    document = {"path": made.uri, "branch": made.head.branch}
    Output(as_json=json).document(document, f"Initialized empty Lancewood repository in {where}")


def _place(path: str | None) -> Home:
    """A path from where ``-C`` says, which may be in a bucket; or a uri as it is."""
    if path is not None and is_uri(path):
        return path
    above = started_at()
    if above is None:
        return Path(path or "")
    return above if path is None else below(above, Path(path).as_posix())

"""The arguments and options that the verbs on a repository share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypeAlias

import typer

REVISIONS = "a branch, a tag, a hash, HEAD~2"

Revision: TypeAlias = Annotated[
    str, typer.Argument(metavar="[REVISION]", help=f"The commit: {REVISIONS}.")
]
OneRevision: TypeAlias = Annotated[
    str, typer.Argument(metavar="REVISION", help=f"The commit: {REVISIONS}.")
]
Messages: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--message",
        "-m",
        metavar="TEXT",
        help="What the commit is about. If repeated, each is a paragraph.",
    ),
]
Author: TypeAlias = Annotated[
    str | None,
    typer.Option("--author", metavar="'NAME <ADDRESS>'", help="Who wrote it, if not you."),
]
OnBranch: TypeAlias = Annotated[
    str | None,
    typer.Option("--branch", "-b", metavar="NAME", help="On this branch, not the current one."),
]
Adopt: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--adopt",
        help="Take over branches of tables that have the name, and that others have made.",
    ),
]


def paragraphs(texts: Sequence[str] | None) -> str | None:
    """The message that several ``-m`` make, as with git; None without any."""
    return "\n\n".join(texts) if texts else None

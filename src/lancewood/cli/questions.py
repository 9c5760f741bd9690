"""Asking before something is gone for good, or for a while."""

from __future__ import annotations

import sys

import typer

from lancewood.cli.output import note


def confirm(question: str, about: str, *, yes: bool, json: bool) -> None:
    """Go on if the user agrees; ``about`` tells what is at stake. ``yes`` does not ask.

    Raises BadParameter where nobody can be asked, and Abort if the answer is no.
    """
    if yes:
        return
    if json or sys.stdin is None or not sys.stdin.isatty():
        raise typer.BadParameter(f"{about} Nobody can be asked here: say --yes to go on")
    note(about)
    typer.confirm(question, abort=True, err=True)

"""``lw show``: one commit, or one pin of it."""

from __future__ import annotations

from json import loads
from typing import Annotated

import typer

from lancewood.catalog.names import pin_file
from lancewood.catalog.pin import encode_pin
from lancewood.cli import options
from lancewood.cli.output import Output
from lancewood.cli.repository import words
from lancewood.cli.repository.finding import repository
from lancewood.cli.repository.telling import (
    Decorations,
    change_facts,
    commit_facts,
    commit_text,
    stat_lines,
)
from lancewood.repo.looking.view import View


def command(
    revision: Annotated[
        str,
        typer.Argument(
            metavar="[REVISION]",
            help=f"The commit: {words.REVISIONS}; or REVISION:NAME for what it says of a table, "
            "or a file in it.",
        ),
    ] = "HEAD",
    storage_option: options.StorageOptions = None,
    json: options.Json = False,
) -> None:
    """Show a commit and the tables it changed, against its first parent.

    JSON keys: hash, parents, author, email, time, message, changes. A change has table, change
    (added, removed, changed, moved), rows, rows_before, fragments, fragments_before, inserted,
    updated, deleted, same_rows, unrelated, added_columns, removed_columns, renamed_columns.
    REVISION:TABLE is the pin as git keeps it, REVISION:FILE has path, bytes.
    """
    commit, colon, name = revision.partition(":")
    with repository(storage_option) as repo:
        if colon:
            _show_part(repo.at(commit or "HEAD"), name, Output(as_json=json))
            return
        shown = repo.show(revision)
        text = [commit_text(shown.commit, Decorations(repo).text(shown.commit.hash))]
    stat = list(stat_lines(shown.changes))
    if stat:
        text += ["", *stat]
    changes = [change_facts(each) for each in shown.changes]
    document = {**commit_facts(shown.commit), "changes": changes}
    Output(as_json=json).document(document, "\n".join(text))


def _show_part(view: View, name: str, output: Output) -> None:
    """A pin, or the bytes of a file; one that is there under neither name is a missing table."""
    name = next((each for each in view.tables if pin_file(each) == name), name)
    if name in view.tables or name not in view.files:
        text = encode_pin(view.pin(name)).decode()
        output.document(loads(text), text.rstrip("\n"))
        return
    data = view.read(name)
    if output.as_json:
        output.document({"path": name, "bytes": data}, "")
    else:
        typer.echo(data, nl=False)

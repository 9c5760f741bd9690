"""``lw add``, ``remove``, ``tables``, ``prepare``, ``exclusive`` and ``protect``.

These take tables into the repository and out of it, list them, make them ready to be written on a
branch, and keep them from other writers or from cleanup.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer

import lancewood as lw
from lancewood.cli import options
from lancewood.cli.output import Output, count, counted
from lancewood.cli.repository.names import repository
from lancewood.cli.repository.telling import (
    Adopt,
    Author,
    Messages,
    OnBranch,
    Revision,
    committed_facts,
    committed_text,
    paragraphs,
    short,
)
from lancewood.repo import (
    HEADS,
    MAIN,
    View,
    below,
    checked_table,
    location_of,
    own_table,
    own_table_uri,
)

_TABLE_KEYS = ("table", "rows", "fragments", "branch", "version", "uri")
_PREPARED_KEYS = ("table", "branch", "version", "uri")


def add_command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What commits call the table.")],
    uri: Annotated[
        str | None,
        typer.Argument(
            metavar="[URI]",
            help="Where the table is; tables/NAME.lance of the repository if left out.",
        ),
    ] = None,
    message: Messages = None,
    author: Author = None,
    branch: OnBranch = None,
    storage_option: options.StorageOptions = None,
    json: options.Json = False,
) -> None:
    """Take a table into the repository, as a commit.

    The table stays where it is, and is pinned as it stands. There is no index as in git: it is
    committed at once.

    JSON keys: branch, hash, new, tables, diverged, taken_in.
    """
    meant = own_table(name.rstrip("/"))
    if meant is not None:
        raise typer.BadParameter(f"{name!r} is a path: lw add {meant} takes that table in")
    with repository(storage_option) as repo:
        location = below(repo.root, own_table_uri(checked_table(name))) if uri is None else uri
        text = paragraphs(message)
        done = repo.add(name, location, branch=branch, message=text, author=author)
        Output(as_json=json).document(committed_facts(done), committed_text(repo, done))


def remove_command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The table.")],
    message: Messages = None,
    author: Author = None,
    branch: OnBranch = None,
    storage_option: options.StorageOptions = None,
    json: options.Json = False,
) -> None:
    """Take a table out of the repository, as a commit.

    The table itself stays, and so do commits that pin it: lw table drop is what deletes a table.

    JSON keys: branch, hash, new, tables, diverged, taken_in.
    """
    with repository(storage_option) as repo:
        text = paragraphs(message)
        done = repo.remove(name, branch=branch, message=text, author=author)
        Output(as_json=json).document(committed_facts(done), committed_text(repo, done))


def tables_command(
    revision: Revision = "HEAD",
    storage_option: options.StorageOptions = None,
    json: options.Json = False,
) -> None:
    """List the tables of a commit, and where each is read.

    The uri names exactly the version that is pinned, for lw table cat and all that read. A
    version that a transaction of the repository made has a large number of its own.

    JSON lines with keys: table, rows, fragments, branch, version, uri.
    """
    with repository(storage_option) as repo:
        is_unborn = revision == "HEAD" and repo.head.hash is None
        view = None if is_unborn else repo.at(revision)
        found = iter(()) if view is None else _rows(view, repo)
        if json:
            Output(as_json=True).rows(_TABLE_KEYS, found)
        else:
            shown = ((row[0], count(row[1]), count(row[2]), row[5]) for row in found)
            Output(as_json=False).rows(("table", "rows", "fragments", "uri"), shown)


def _rows(view: View, repo: lw.Repository) -> Iterator[tuple[Any, ...]]:
    for name in view.tables:
        pin = view.pin(name)
        branch = str(pin.branch or MAIN)
        uri = f"{location_of(repo, pin)}@{pin.branch or ''}:{pin.version}"
        yield name, pin.rows, pin.fragments, branch, int(pin.version), uri


def prepare_command(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="Tables; all of them if left out."),
    ] = None,
    branch: OnBranch = None,
    adopt: Adopt = False,
    storage_option: options.StorageOptions = None,
    json: options.Json = False,
) -> None:
    """Make tables ready to be written on the current branch, and say where.

    For lw table, pylance and Spark: what they write there is recorded by lw commit. A branch of
    the table is made from what is committed, if it has none of that name yet; what was written
    since stays.

    JSON lines with keys: table, branch, version, uri.
    """
    with repository(storage_option) as repo:
        on = branch or repo.head.branch
        found = _prepared(repo, on, names, adopt=adopt)
        Output(as_json=json).rows(_PREPARED_KEYS, found)


def _prepared(
    repo: lw.Repository, branch: str | None, names: Sequence[str] | None, *, adopt: bool
) -> Iterator[tuple[Any, ...]]:
    known = repo.at(HEADS + branch) if branch else repo.at()
    for name in known.tables if names is None else names:
        table = repo.prepare(name, branch=branch, adopt=adopt)
        location = location_of(repo, known.pin(name))
        uri = f"{location}@{table.branch}" if table.branch else location
        yield name, table.branch or "main", table.version, uri


class Setting(StrEnum):
    """Whether the tables are exclusive."""

    ON = "on"
    OFF = "off"


def exclusive_command(
    setting: Annotated[
        Setting | None,
        typer.Argument(metavar="[on|off]", help="Without a word, what it is now is told."),
    ] = None,
    author: Author = None,
    storage_option: options.StorageOptions = None,
    json: options.Json = False,
) -> None:
    """Keep the tables for transactions of the repository, or open them to every writer.

    Others (pylance, Spark, lw table) still read and tag them, and are refused everything else. The
    tables are told by a commit on every branch. Work that was merged is left as it is.

    JSON keys: exclusive, commits. A commit has branch, hash and tables.
    """
    with repository(storage_option) as repo:
        done = () if setting is None else repo.exclusive(setting is Setting.ON, author=author)
        is_exclusive = repo.is_exclusive
    told = ["exclusive: only transactions write to the tables" if is_exclusive else "open to all"]
    told += [f"[{each.branch} {short(each.hash)}] {', '.join(each.tables)}" for each in done]
    commits = [{"branch": e.branch, "hash": e.hash, "tables": list(e.tables)} for e in done]
    document = {"exclusive": is_exclusive, "commits": commits}
    Output(as_json=json).document(document, "\n".join(told))


def protect_command(
    revision: Revision = "HEAD",
    delete: Annotated[
        bool, typer.Option("--delete", "-d", help="Take the protection back.")
    ] = False,
    storage_option: options.StorageOptions = None,
    json: options.Json = False,
) -> None:
    """Keep what a commit pins from every cleanup, pylance's too.

    Commits that lw tag names are kept already. Lancewood's own cleanup keeps whatever a commit
    pins that a branch or a tag leads to.

    JSON keys: action, hash, tables.
    """
    with repository(storage_option) as repo:
        view = repo.at(revision)
        if delete:
            repo.unprotect(view.hash)
        done = view.tables if delete else repo.protect(view.hash)
    action = "unprotected" if delete else "protected"
    told = f"{action} {counted(len(done), 'table')} of {short(view.hash)}"
    document = {"action": action, "hash": view.hash, "tables": list(done)}
    Output(as_json=json).document(document, told)

"""``lw add``, ``remove``, ``tables``, ``prepare``, ``exclusive`` and ``protect``.

These take tables into the repository and out of it, list them, make them ready to be written on a
branch, and keep them from other writers or from cleanup.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer

import lancewood as lw
from lancewood.cli import options
from lancewood.cli.output import UNCHANGED, count, counted
from lancewood.cli.repository.names import InRepository
from lancewood.cli.repository.showing import Adopt, Author, OnBranch, Recording, Revision, short
from lancewood.repo import (
    HEADS,
    MAIN,
    RepositoryRoot,
    View,
    below,
    checked_table,
    location_of,
    own_table,
    own_table_uri,
)

_TABLE_KEYS = ("table", "rows", "fragments", "branch", "version", "uri")
_TABLE_COLUMNS = ("table", "rows", "fragments", "uri")
_PREPARED_KEYS = ("table", "branch", "version", "uri")


def add_command(
    tables: Annotated[
        list[str],
        typer.Argument(
            metavar="TABLE...",
            help="Names of tables in tables/ of the repository, or paths and uris of tables.",
        ),
    ],
    *,
    record: Recording,
) -> None:
    """Take tables into the repository, as one commit: all of them, or none.

    A table stays where it is, and is pinned as it stands. One that is given by a path or a uri is
    called as its directory, without .lance; lw add NAME URI calls it NAME. There is no index as in
    git: they are committed at once.

    JSON keys: branch, hash, new, tables, diverged, taken_in.
    """
    with record.repository() as repo:
        record.print(repo, repo.add_all(_locations(repo, tables), **record.facts))


def _locations(repo: lw.Repository, given: Sequence[str]) -> dict[str, RepositoryRoot]:
    """Where the given tables are, by name. Raises BadParameter for a name that is given twice."""
    if len(given) == 2 and not _is_location(given[0]) and _is_location(given[1]):
        return {given[0]: given[1]}
    found: dict[str, RepositoryRoot] = {}
    for each in given:
        path = each.rstrip("/")
        own = own_table(path) if _is_location(path) and not os.path.exists(path) else None
        is_own = own is not None or not _is_location(path)
        name = own or os.path.basename(path).removesuffix(".lance")
        if name in found:
            raise typer.BadParameter(
                f"two of the tables are called {name!r}: add one of them by itself, as lw add NAME "
                "URI with another name"
            )
        found[name] = below(repo.root, own_table_uri(checked_table(name))) if is_own else path
    return found


def _is_location(text: str) -> bool:
    return "/" in text or text.endswith(".lance")


def remove_command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The table.")],
    *,
    record: Recording,
) -> None:
    """Take a table out of the repository, as a commit.

    The table itself stays, and so do commits that pin it: lw table drop is what deletes a table.

    JSON keys: branch, hash, new, tables, diverged, taken_in.
    """
    with record.repository() as repo:
        record.print(repo, repo.remove(name, **record.facts))


def tables_command(revision: Revision = "HEAD", *, here: InRepository) -> None:
    """List the tables of a commit, and where each is read.

    The uri names exactly the version that is pinned, for lw table cat and all that read. What a
    transaction of the repository made is named by the version that it landed as, or by the commit
    as long as it has not landed; with --json by the number that the pin has.

    JSON lines with keys: table, rows, fragments, branch, version, uri.
    """
    with here.repository() as repo:
        is_unborn = revision == "HEAD" and repo.head.hash is None
        keys, listed = (_TABLE_KEYS, _rows) if here.json else (_TABLE_COLUMNS, _lines)
        here.output.rows(keys, () if is_unborn else listed(repo.at(revision), repo))


def _rows(view: View, repo: lw.Repository) -> Iterator[tuple[Any, ...]]:
    for name in view.tables:
        pin = view.pin(name)
        branch = str(pin.branch or MAIN)
        uri = f"{location_of(repo, pin)}@{pin.branch or ''}:{pin.version}"
        yield name, pin.rows, pin.fragments, branch, int(pin.version), uri


def _lines(view: View, repo: lw.Repository) -> Iterator[tuple[Any, ...]]:
    """The tables of a commit for people: a state that a transaction made is named by the version
    that it landed as, else by the commit."""
    for name, rows, fragments, _, _, uri in _rows(view, repo):
        pin = view.pin(name)
        if pin.landing is not None:
            found = view.landed(name)
            at = f"{location_of(repo, pin)}@{pin.branch or ''}"
            uri = f"{name}@{short(view.hash)}" if found is None else f"{at}:{found.version}"
        yield name, count(rows), count(fragments), uri


def prepare_command(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="Tables; all of them if left out."),
    ] = None,
    branch: OnBranch = None,
    adopt: Adopt = False,
    *,
    here: InRepository,
) -> None:
    """Make tables ready to be written on the current branch, and say where.

    For lw table, pylance and Spark: what they write there is recorded by lw commit. A branch of
    the table is made from what is committed, if it has none of that name yet; what was written
    since stays.

    JSON lines with keys: table, branch, version, uri.
    """
    with here.repository() as repo:
        on = branch or repo.head.branch
        found = _prepared(repo, on, names, adopt=adopt)
        here.output.rows(_PREPARED_KEYS, found)


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
        typer.Argument(metavar="[on|off]", help="If it is left out, the setting is shown."),
    ] = None,
    author: Author = None,
    dry_run: options.DryRun = False,
    *,
    here: InRepository,
) -> None:
    """Keep the tables for transactions of the repository, or open them to every writer.

    Others (pylance, Spark, lw table) still read and tag them, and are refused everything else. The
    tables get the setting by a commit on every branch. Work that was merged is left as it is.

    JSON keys: exclusive, commits, dry_run. A commit has branch, hash and tables.
    """
    with here.repository() as repo:
        is_on = setting is Setting.ON
        done = () if setting is None else repo.exclusive(is_on, author=author, dry_run=dry_run)
        is_exclusive = repo.is_exclusive
    lines = ["exclusive: only transactions write to the tables" if is_exclusive else "open to all"]
    would = "would change on " if dry_run else ""
    lines += [
        f"[{would}{each.branch} {short(each.hash)}] {', '.join(each.tables)}" for each in done
    ]
    lines += [UNCHANGED] if dry_run else []
    commits = [{"branch": e.branch, "hash": e.hash, "tables": list(e.tables)} for e in done]
    document = {"exclusive": is_exclusive, "commits": commits, "dry_run": dry_run}
    here.output.document(document, "\n".join(lines))


def protect_command(
    revision: Revision = "HEAD",
    delete: Annotated[
        bool, typer.Option("--delete", "-d", help="Take the protection back.")
    ] = False,
    *,
    here: InRepository,
) -> None:
    """Keep what a commit pins from every cleanup, pylance's too.

    Commits that lw tag names are kept already. Lancewood's own cleanup keeps whatever a commit
    pins that a branch or a tag leads to.

    JSON keys: action, hash, tables.
    """
    with here.repository() as repo:
        view = repo.at(revision)
        if delete:
            repo.unprotect(view.hash)
        done = view.tables if delete else repo.protect(view.hash)
    action = "unprotected" if delete else "protected"
    summary = f"{action} {counted(len(done), 'table')} of {short(view.hash)}"
    document = {"action": action, "hash": view.hash, "tables": list(done)}
    here.output.document(document, summary)

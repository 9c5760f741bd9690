"""``lw merge``: the work of a branch comes into another."""

from __future__ import annotations

from typing import Annotated

import typer

import lancewood as lw
from lancewood.cli import options
from lancewood.cli.output import UNCHANGED, Output
from lancewood.cli.repository import words
from lancewood.cli.repository.finding import repository
from lancewood.cli.repository.telling import (
    by_table,
    committed_facts,
    short,
    stat_lines,
    taken_in_lines,
)
from lancewood.git.hashes import Hash
from lancewood.repo.outcome import Committed


def command(
    name: Annotated[
        str,
        typer.Argument(metavar="REVISION", help="The branch, or another commit, that is merged."),
    ],
    into: Annotated[
        str | None,
        typer.Option("--into", metavar="NAME", help="Into this branch, not the current one."),
    ] = None,
    message: words.Messages = None,
    author: words.Author = None,
    adopt: words.Adopt = False,
    dry_run: options.DryRun = False,
    storage_option: options.StorageOptions = None,
    json: options.Json = False,
) -> None:
    """Bring the work of a branch into the current one.

    Tables that only one side changed are taken as they are there; of those that both changed, the
    changes are judged by the rules of any two writers. If one table refuses, all are named that
    do, and nothing is changed: nothing is left half merged, and there is nothing to abort.

    What was written directly to a table that is merged into, and not committed, becomes part of
    the merge, and is named.

    JSON keys: branch, hash, new, tables, diverged, taken_in, done, merged, fast_forward, dry_run.
    In done each table has how it came: published, taken, restored, removed; what taken_in names
    has table, versions, message.
    """
    with repository(storage_option) as repo:
        target = into or repo.head.branch
        before = repo.branches.list().get(target) if target else None
        theirs = repo.at(name).hash
        done = repo.merge(
            name,
            into=into,
            message=words.paragraphs(message),
            author=author,
            adopt=adopt,
            dry_run=dry_run,
        )
        moved = done.is_new and done.hash == theirs
        document = {
            **committed_facts(done),
            "done": by_table(done),
            "merged": name,
            "fast_forward": moved,
            "dry_run": dry_run,
        }
        told = _told(repo, done, name, before, is_moved=moved, is_dry=dry_run)
        Output(as_json=json).document(document, told)


def _told(
    repo: lw.Repository,
    done: Committed,
    name: str,
    before: Hash | None,
    *,
    is_moved: bool,
    is_dry: bool,
) -> str:
    if not done.is_new:
        return "Already up to date."
    if is_dry:
        tables = ", ".join(done.tables) or "no table"
        return f"would merge {name} into {done.branch}: {tables}; {UNCHANGED}"
    assert done.hash is not None
    if is_moved:
        first = [f"Updating {short(before)}..{short(done.hash)}", "Fast-forward"]
    else:
        first = [f"Merge made by publishing: {short(done.hash)}"]
    changes = repo.show(done.hash).changes if before is None else repo.diff(before, done.hash)
    return "\n".join([*first, *stat_lines(changes), *taken_in_lines(done)])

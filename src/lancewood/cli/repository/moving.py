"""``lw merge``, ``cherry-pick``, ``revert``, ``reset``: adding work to a branch, or undoing it."""

from __future__ import annotations

from typing import Annotated, Any

import typer

import lancewood as lw
from lancewood.cli import options
from lancewood.cli.output import UNCHANGED, Output
from lancewood.cli.repository.names import repository
from lancewood.cli.repository.telling import (
    Adopt,
    Author,
    Messages,
    OnBranch,
    OneRevision,
    Revision,
    committed_facts,
    committed_text,
    one_line,
    paragraphs,
    short,
    stat_lines,
    taken_in_lines,
)
from lancewood.repo import Committed, Hash


def merge_command(
    name: Annotated[
        str,
        typer.Argument(metavar="REVISION", help="The branch, or another commit, that is merged."),
    ],
    into: Annotated[
        str | None,
        typer.Option("--into", metavar="NAME", help="Into this branch, not the current one."),
    ] = None,
    message: Messages = None,
    author: Author = None,
    adopt: Adopt = False,
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
            message=paragraphs(message),
            author=author,
            adopt=adopt,
            dry_run=dry_run,
        )
        moved = done.is_new and done.hash == theirs
        document = {
            **_facts(done),
            "merged": name,
            "fast_forward": moved,
            "dry_run": dry_run,
        }
        told = _merged_text(repo, done, name, before, is_moved=moved, is_dry=dry_run)
        Output(as_json=json).document(document, told)


def _merged_text(
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


def revert_command(
    revision: OneRevision,
    author: Author = None,
    branch: OnBranch = None,
    storage_option: options.StorageOptions = None,
    json: options.Json = False,
) -> None:
    """Take back what a commit did, as a new commit.

    Each table that the commit changed gets the content it had before, where it is still what the
    commit made of it. Tables that were changed since are named, and nothing is done.

    JSON keys: branch, hash, new, tables, diverged, taken_in, done.
    """
    with repository(storage_option) as repo:
        done = repo.revert(revision, branch=branch, author=author)
        told = committed_text(repo, done) if done.is_new else "nothing to commit, tables clean"
        Output(as_json=json).document(_facts(done), told)


def cherry_pick_command(
    revision: OneRevision,
    branch: OnBranch = None,
    storage_option: options.StorageOptions = None,
    json: options.Json = False,
) -> None:
    """Do again what a commit did, as a new commit.

    Each table that the commit changed gets the content it has there, where it is still what it was
    before that commit. Tables that differ are named, and nothing is done.

    JSON keys: branch, hash, new, tables, diverged, taken_in, done.
    """
    with repository(storage_option) as repo:
        done = repo.cherry_pick(revision, branch=branch)
        told = committed_text(repo, done) if done.is_new else "nothing to commit, tables clean"
        Output(as_json=json).document(_facts(done), told)


def reset_command(
    revision: Revision = "HEAD",
    soft: Annotated[
        bool, typer.Option("--soft", help="Move the branch only, and leave tables as they are.")
    ] = False,
    hard: Annotated[
        bool, typer.Option("--hard", help="What is done without --soft, for fingers used to git.")
    ] = False,
    branch: OnBranch = None,
    storage_option: options.StorageOptions = None,
    json: options.Json = False,
) -> None:
    """Put the branch and its tables back to a commit.

    Each table that differs gets a new version with the content of that commit: numbers only grow,
    and older versions stay. lw reflog tells where the branch was.

    JSON keys: branch, hash, new, tables, diverged, taken_in, done.
    """
    if soft and hard:
        raise typer.BadParameter("--soft and --hard do not go together")
    with repository(storage_option) as repo:
        done = repo.reset(revision, branch=branch, soft=soft)
        assert done.hash is not None
        name = "HEAD" if done.branch == repo.head.branch else done.branch
        told = f"{name} is now at {one_line(repo.at(done.hash).commit)}"
        Output(as_json=json).document(_facts(done), told)


def _facts(done: Committed) -> dict[str, Any]:
    return {**committed_facts(done), "done": {name: how.value for name, how in done.done}}

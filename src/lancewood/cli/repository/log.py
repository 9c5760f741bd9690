"""``lw log``: the commits, newest first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any

import typer

from lancewood.cli import options
from lancewood.cli.output import Output
from lancewood.cli.repository import words
from lancewood.cli.repository.finding import repository
from lancewood.cli.repository.telling import Decorations, commit_facts, commit_text, one_line
from lancewood.errors import NotFoundError
from lancewood.git.graph import lines
from lancewood.git.objects import Commit

_KEYS = ("hash", "parents", "author", "email", "time", "message", "branches", "tags")


def command(
    revisions: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[REVISION]...", help=f"From here back: {words.REVISIONS}. HEAD if left out."
        ),
    ] = None,
    graph: Annotated[bool, typer.Option("--graph", help="Draw how lines part and meet.")] = False,
    oneline: Annotated[bool, typer.Option("--oneline", help="One line for each commit.")] = False,
    limit: Annotated[
        int | None,
        typer.Option("--max-count", "-n", metavar="N", min=0, help="At most N commits."),
    ] = None,
    skip: Annotated[int, typer.Option("--skip", metavar="N", min=0, help="Pass over N.")] = 0,
    all_refs: Annotated[
        bool, typer.Option("--all", help="From all branches and tags, and HEAD.")
    ] = False,
    first_parent: Annotated[
        bool, typer.Option("--first-parent", help="Leave out what merges brought in.")
    ] = False,
    table: Annotated[
        str | None,
        typer.Option("--table", metavar="NAME", help="Only commits that changed this table."),
    ] = None,
    storage_option: options.StorageOptions = None,
    json: options.Json = False,
) -> None:
    """Show commits, newest first.

    JSON lines with keys: hash, parents, author, email, time, message, branches, tags.
    """
    if graph and table is not None:
        raise typer.BadParameter("--graph and --table do not go together: parents would be missing")
    with repository(storage_option) as repo:
        decorations = Decorations(repo)
        tips = list(revisions or ())
        if all_refs:
            tips += decorations.commits
        if not tips and repo.head.hash is None:
            if not json:
                print(f"branch {repo.head.branch} has no commits yet")
            return
        try:
            found = repo.log(*tips, limit=limit, skip=skip, first_parent=first_parent, table=table)
        except NotFoundError as missing:
            named = next((each for each in tips if each in repo.tables), None)
            if named is not None:
                missing.add_note(f"lw log --table {named} shows the commits that changed the table")
            raise
        if json:
            Output(as_json=True).rows(_KEYS, _facts(found, decorations))
            return
        _print(found, decorations, graph=graph, oneline=oneline, first_parent=first_parent)


def _facts(commits: Iterable[Commit], decorations: Decorations) -> Iterator[tuple[Any, ...]]:
    for each in commits:
        yield tuple({**commit_facts(each), **decorations.facts(each.hash)}.values())


def _print(
    commits: Iterable[Commit],
    decorations: Decorations,
    *,
    graph: bool,
    oneline: bool,
    first_parent: bool,
) -> None:
    ahead = _Ahead(commits)

    def text(commit: Commit) -> str:
        decoration = decorations.text(commit.hash)
        if oneline:
            return one_line(commit, decoration)
        return commit_text(commit, decoration) + ("" if ahead.is_over else "\n")

    told = lines(ahead, text, first_parent=first_parent) if graph else map(text, ahead)
    for each in told:
        print(each)


class _Ahead:
    """Commits one by one, and whether the one in hand is the last: only others get an empty line
    after them."""

    def __init__(self, commits: Iterable[Commit]) -> None:
        self._commits = iter(commits)
        self.is_over = False

    def __iter__(self) -> Iterator[Commit]:
        last = next(self._commits, None)
        while last is not None:
            following = next(self._commits, None)
            self.is_over = following is None
            yield last
            last = following

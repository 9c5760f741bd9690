"""``lw status``, ``show``, ``log`` and ``reflog``: looking at commits and tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from json import loads
from typing import Annotated, Any, TypeAlias

import typer

from lancewood.cli.output import Output, paged, picked
from lancewood.cli.repository import (
    REVISIONS,
    Decorations,
    InRepository,
    change_facts,
    commit_facts,
    commit_text,
    iso,
    one_line,
    plain,
    short,
    stat_lines,
)
from lancewood.errors import NotFoundError
from lancewood.repo import (
    ZERO,
    Commit,
    LogEntry,
    State,
    Status,
    TableChange,
    TableStatus,
    View,
    encode_pin,
    graph_lines,
    pin_file,
)

_SECTIONS = {
    State.MODIFIED: (
        "Changes not committed:",
        ['use "lw commit -m TEXT" to record them', 'use "lw reset HEAD" to take them back'],
    ),
    State.UNLANDED: (
        "Committed, and not yet part of the tables' own history:",
        ["readers of the repository see it; the next writer brings it there"],
    ),
    State.DIVERGED: (
        "Diverged: the commit, and what somebody else wrote, exclude each other:",
        [
            'use "lw commit -m TEXT" to take the tables as they stand',
            'use "lw reset HEAD" to bring back what is committed',
        ],
    ),
    State.MISSING: ("Cannot be read:", ['use "lw fsck" to see what else is wrong']),
}
_ELSEWHERE = (
    "Tables of other branches, not on this one:",
    ['use "lw merge BRANCH" to bring them here'],
)
_UNTRACKED = ("Untracked tables:", ['use "lw add NAME" to take them in'])
_Changes: TypeAlias = Callable[[Commit], Sequence[TableChange]]
_LOG_KEYS = ("hash", "parents", "author", "email", "time", "message", "branches", "tags")
_REFLOG_KEYS = ("ref", "number", "old", "new", "name", "email", "time", "why")


def status_command(*, here: InRepository) -> None:
    """Show which tables differ from the current commit.

    Content is compared: rows, columns and indices, not the numbers of versions.

    JSON keys: branch, hash, clean, tables, untracked, elsewhere. A table has name, state (clean,
    modified, unlanded, diverged, missing), version, why; one elsewhere name, branches.
    """
    with here.repository() as repo:
        found = repo.status()
    document = {
        "branch": found.branch,
        "hash": found.hash,
        "clean": found.is_clean,
        "tables": [picked(each, "name", "state", "version", "why") for each in found.tables],
        "untracked": list(found.untracked),
        "elsewhere": [
            {"name": name, "branches": list(each)} for name, each in found.elsewhere.items()
        ],
    }
    here.output.document(document, "\n".join(_status_lines(found)))


def _status_lines(status: Status) -> Iterator[str]:
    if status.branch is None:
        yield f"HEAD detached at {short(status.hash)}"
    else:
        yield f"On branch {status.branch}"
    if status.hash is None:
        yield "\nNo commits yet"
    for state, (title, ways) in _SECTIONS.items():
        yield from _section(title, ways, [_named(e) for e in status.tables if e.state is state])
    kept = [f"{name} ({', '.join(each)})" for name, each in status.elsewhere.items()]
    yield from _section(*_ELSEWHERE, kept)
    yield from _section(*_UNTRACKED, list(status.untracked))
    if status.is_clean:
        if status.untracked:
            yield '\nnothing to commit but untracked tables (use "lw add NAME")'
        elif status.tables or status.elsewhere:
            yield "nothing to commit, tables clean"
        else:
            yield '\nnothing to commit (make tables, and use "lw add NAME")'


def _section(title: str, ways: Sequence[str], names: Sequence[str]) -> Iterator[str]:
    if names:
        yield f"\n{title}"
        yield from (f"  ({way})" for way in ways)
        yield from (f"\t{name}" for name in names)


def _named(table: TableStatus) -> str:
    if table.state is State.MODIFIED:
        which = f", {table.why}" if table.why else ""
        return f"modified:   {table.name} (version {table.version}{which})"
    state = f"{table.state.value}:".ljust(11)
    return f"{state} {table.name}: {table.why}" if table.why else f"{state} {table.name}"


def show_command(
    revision: Annotated[
        str,
        typer.Argument(
            metavar="[REVISION]",
            help=f"The commit: {REVISIONS}; or REVISION:NAME for what it says of a table, "
            "or a file in it.",
        ),
    ] = "HEAD",
    *,
    here: InRepository,
) -> None:
    """Show a commit and the tables it changed, against its first parent.

    JSON keys: hash, parents, author, email, time, message, changes. A change has table, change
    (added, removed, changed, moved), rows, rows_before, fragments, fragments_before, inserted,
    updated, deleted, exact, same_rows, unrelated, added_columns, removed_columns, renamed_columns,
    added_indices, removed_indices, changed_indices; indices are names with kinds.
    REVISION:TABLE is the pin as git keeps it, REVISION:FILE has path, bytes.
    """
    commit, colon, name = revision.partition(":")
    with here.repository() as repo:
        if colon:
            _show_part(repo.at(commit or "HEAD"), name, here.output)
            return
        shown = repo.show(revision)
        text = [commit_text(shown.commit, Decorations(repo).text(shown.commit.hash))]
    stat = list(stat_lines(shown.changes))
    if stat:
        text += ["", *stat]
    changes = [change_facts(each) for each in shown.changes]
    document = {**commit_facts(shown.commit), "changes": changes}
    here.output.document(document, "\n".join(text))


def _show_part(view: View, name: str, output: Output) -> None:
    """Show a pin, or the bytes of a file. A name that is neither is a missing table."""
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


def log_command(
    revisions: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[REVISION]...", help=f"From here back: {REVISIONS}. HEAD if left out."
        ),
    ] = None,
    graph: Annotated[bool, typer.Option("--graph", help="Draw how lines part and meet.")] = False,
    stat: Annotated[
        bool,
        typer.Option(
            "--stat", help="With what each did to tables, or to --table: rows, fragments, columns."
        ),
    ] = False,
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
    where: Annotated[
        str | None,
        typer.Option(
            "--where",
            "-w",
            metavar="SQL",
            help="With --table: only commits that changed such rows.",
        ),
    ] = None,
    *,
    here: InRepository,
) -> None:
    """Show commits, newest first.

    JSON lines with keys: hash, parents, author, email, time, message, branches, tags. With --stat
    there is changes as well, as in lw show.
    """
    if graph and table is not None:
        raise typer.BadParameter("--graph and --table do not go together: parents would be missing")
    if where is not None and table is None:
        raise typer.BadParameter("--where is about the rows of a table: name it with --table")
    with here.repository() as repo:
        decorations = Decorations(repo)
        tips = list(revisions or ())
        if all_refs:
            tips += decorations.commits
        if not tips and repo.head.hash is None:
            if not here.json:
                print(f"branch {repo.head.branch} has no commits yet")
            return
        try:
            found = repo.log(
                *tips,
                limit=limit,
                skip=skip,
                first_parent=first_parent,
                table=table,
                where=where,
            )
        except NotFoundError as missing:
            named = next((each for each in tips if each in repo.tables), None)
            if named is not None:
                missing.add_note(f"lw log --table {named} shows the commits that changed the table")
            raise
        changes = (lambda each: repo.show(each.hash, table=table).changes) if stat else None
        if here.json:
            keys = (*_LOG_KEYS, "changes") if stat else _LOG_KEYS
            here.output.rows(keys, (_log_facts(each, decorations, changes) for each in found))
            return
        with paged(here.output):
            _print_log(
                found, decorations, changes, graph=graph, oneline=oneline, first_parent=first_parent
            )


def _log_facts(
    commit: Commit, decorations: Decorations, changes: _Changes | None
) -> tuple[Any, ...]:
    facts = (*commit_facts(commit).values(), *decorations.facts(commit.hash).values())
    return facts if changes is None else (*facts, [change_facts(e) for e in changes(commit)])


def _print_log(
    commits: Iterable[Commit],
    decorations: Decorations,
    changes: _Changes | None,
    *,
    graph: bool,
    oneline: bool,
    first_parent: bool,
) -> None:
    ahead = _Ahead(commits)

    def text(commit: Commit) -> str:
        decoration = decorations.text(commit.hash)
        stat = [] if changes is None else list(stat_lines(changes(commit)))
        if oneline:
            return "\n".join([one_line(commit, decoration), *stat])
        lines = [commit_text(commit, decoration), *([""] if stat else []), *stat]
        return "\n".join(lines) + ("" if ahead.is_over else "\n")

    for each in graph_lines(ahead, text, first_parent=first_parent) if graph else map(text, ahead):
        print(each)


class _Ahead:
    """Commits one by one, and whether the current one is the last: that gets no empty line after
    it."""

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


def reflog_command(
    ref: Annotated[
        str, typer.Argument(metavar="[REF]", help="HEAD, a branch or the full name of a ref.")
    ] = "HEAD",
    limit: Annotated[
        int | None, typer.Option("--max-count", "-n", metavar="N", min=0, help="At most N moves.")
    ] = None,
    *,
    here: InRepository,
) -> None:
    """Show every move of HEAD or of a branch, newest first.

    REF@{2} names where it was two moves ago, wherever a revision is asked for.

    JSON lines with keys: ref, number, old, new, name, email, time, why.
    """
    with here.repository() as repo:
        found = islice(repo.reflog(ref), limit)
        if here.json:
            here.output.rows(_REFLOG_KEYS, _reflog_facts(ref, found))
            return
        for number, each in enumerate(found):
            print(f"{short(each.new)} {ref}@{{{number}}}: {plain(each.why)}")


def _reflog_facts(ref: str, entries: Iterator[LogEntry]) -> Iterator[tuple[Any, ...]]:
    for number, each in enumerate(entries):
        old = None if each.old == ZERO else each.old
        new = None if each.new == ZERO else each.new
        yield ref, number, old, new, each.by.name, each.by.email, iso(each.by), each.why

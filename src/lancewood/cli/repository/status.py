"""``lw status``: where the tables stand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lancewood.cli import options
from lancewood.cli.output import Output
from lancewood.cli.repository.finding import repository
from lancewood.cli.repository.telling import short
from lancewood.repo.looking.status import State, Status, TableStatus

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


def command(storage_option: options.StorageOptions = None, json: options.Json = False) -> None:
    """Show which tables differ from the current commit.

    Content is compared: rows and columns, not the numbers of versions.

    JSON keys: branch, hash, clean, tables, untracked, elsewhere. A table has name, state (clean,
    modified, unlanded, diverged, missing), version, why; one elsewhere name, branches.
    """
    with repository(storage_option) as repo:
        found = repo.status()
    document = {
        "branch": found.branch,
        "hash": found.hash,
        "clean": found.is_clean,
        "tables": [
            {"name": e.name, "state": e.state.value, "version": e.version, "why": e.why}
            for e in found.tables
        ],
        "untracked": list(found.untracked),
        "elsewhere": [
            {"name": name, "branches": list(each)} for name, each in found.elsewhere.items()
        ],
    }
    Output(as_json=json).document(document, "\n".join(_lines(found)))


def _lines(status: Status) -> Iterator[str]:
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
        return f"modified:   {table.name} (version {table.version})"
    told = f"{table.state.value}:".ljust(11)
    return f"{told} {table.name}: {table.why}" if table.why else f"{told} {table.name}"

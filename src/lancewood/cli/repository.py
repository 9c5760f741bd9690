"""The repository that a command works in, the options of such commands, and how they show commits
and changes.

The repository is that of the current directory, or the nearest one above it. ``lw -C PATH`` starts
at another directory, as in git; ``lw -C URI`` is a repository in a bucket and must name it exactly.
Warnings of the repository become lines on stderr.

Commits are shown in the form that git uses. Hashes are cut to twelve digits, as in every message of
Lancewood. Texts that others wrote have their control characters escaped.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

import lancewood as lw
from lancewood.cli.groups import COMMAND, STARTED_AT
from lancewood.cli.options import StoreOptions
from lancewood.cli.output import cell, counted, note, padded, picked, width
from lancewood.errors import InvalidInputError, LancewoodError, NotFoundError
from lancewood.repo import (
    MAIN,
    NotLandedWarning,
    below,
    first_line,
    is_uri,
    own_root,
    own_table_uri,
    written_by_head,
)
from lancewood.repo import TableNames as RepositoryTableNames

if TYPE_CHECKING:
    from lancewood.repo import Commit, Committed, Hash, Pin, Repository, Signature, TableChange
    from lancewood.table import Merged

_PARTS = {"HEAD": os.path.isfile, "objects": os.path.isdir, "refs": os.path.isdir}


@contextmanager
def repository(storage: Mapping[str, str] | None = None) -> Iterator[lw.Repository]:
    """The repository; its warnings become notes during the block. Raises NotFoundError."""
    found = started_at() or find_repository(Path.cwd())
    with warnings_shown():
        yield lw.Repository.open(found, storage_options=storage)


class InRepository(StoreOptions):
    """The options of a command on a repository."""

    def repository(self) -> AbstractContextManager[lw.Repository]:
        return repository(self.storage)


def find_repository(start: Path) -> Path:
    """The nearest directory, from ``start`` upwards, that is a git repository.

    Raises NotFoundError.
    """
    for each in (start, *start.parents):
        if all(is_there(each / name) for name, is_there in _PARTS.items()):
            return each
    raise NotFoundError(
        f"there is no repository in {start}, nor above it: lw init makes one, and lw -C PATH works "
        "in another one",
        path=str(start),
    )


def started_at() -> str | None:
    """The uri that ``-C`` was given; None if it was a directory, or absent."""
    return STARTED_AT.get()


@contextmanager
def warnings_shown() -> Iterator[None]:
    """Show warnings of repositories as notes during the block."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", NotLandedWarning)
        warnings.showwarning = lambda message, *_: note(f"lw: warning: {message}")
        yield


def repository_around(uri: str, storage_options: Mapping[str, str] | None) -> lw.Repository | None:
    """The repository that a table is below, by the main uri of the table; None if there is none.

    In a bucket only a table of the repository's own is recognised, since it says where that is.
    """
    root: str | Path | None = own_root(uri)
    if root is None and not is_uri(uri):
        with suppress(NotFoundError):
            root = find_repository(Path(uri).resolve().parent)
    if root is None:
        return None
    try:
        return lw.Repository.open(root, storage_options=storage_options)
    except LancewoodError:  # a git repository of another kind, or nobody may look into it
        return None


def check_no_commit_pins(uri: str, storage_options: Mapping[str, str] | None) -> None:
    """Raise InvalidInputError if the table at this uri is one of the repository around it, and
    commits that a branch or a tag leads to have it: without the table they cannot be read."""
    main = uri if is_uri(uri) else str(Path(uri).resolve())
    repo = repository_around(main, storage_options)
    name = os.path.basename(main.rstrip("/")).removesuffix(".lance")
    if repo is None or str(below(repo.root, own_table_uri(name))) != main:
        return
    tips = [*repo.branches.list().values(), *repo.tags.list().values()]
    newest = None
    with suppress(NotFoundError):  # no commit ever had it
        newest = next(iter(repo.log(*tips, table=name, limit=1)), None) if tips else None
    if newest is not None:
        raise InvalidInputError(
            f"{uri} is table {name!r} of the repository around it, and its commits cannot be read "
            f"without it; the newest that changed it is {short(newest.hash)}. lw remove {name} "
            "takes it out of a branch; --force drops it all the same",
            table=uri,
            commit=newest.hash,
        )


def check_main_is_meant(
    uri: str, table: lw.Table, storage_options: Mapping[str, str] | None
) -> None:
    """Raise InvalidInputError if ``table`` is on main, the repository around it is on another
    branch, and the commit there has the table: what is written would not be seen.

    The error has both commands that could be meant, in which ``uri`` is followed by a branch.
    """
    if table.branch is not None:
        return
    main = table.main_uri if is_uri(table.main_uri) else str(Path(table.main_uri).resolve())
    repo = repository_around(main, storage_options)
    on = None if repo is None else written_by_head(repo, main)
    if on is None:
        return
    name, branch = on
    command = COMMAND.get()
    prepare = "" if branch in table.branches.list() else f"lw prepare {name} and then "
    raise InvalidInputError(
        f"{uri} is in a repository whose HEAD is on branch {branch!r}: a write to main of the "
        f"table would not show up there. Say which of the two is meant: {prepare}"
        f"{command} {uri}@{branch} …, or {command} {uri}@{MAIN} …",
        table=uri,
        branch=branch,
    )


class TableNames(RepositoryTableNames):
    """The names of tables in the repository around a table, or else around the current directory,
    if there is one."""

    def __init__(self, storage_options: Mapping[str, str] | None) -> None:
        around = partial(repository_around, storage_options=storage_options)
        super().__init__(partial(_around_here, storage_options), around)


def _around_here(storage_options: Mapping[str, str] | None) -> lw.Repository | None:
    try:
        root = find_repository(Path.cwd())
    except NotFoundError:
        return None
    return lw.Repository.open(root, storage_options=storage_options)


REVISIONS = "a branch, a tag, a hash, HEAD~2"
_DIGITS = 12
_ARROW = "->"
_COUNTED = ("inserted", "updated", "deleted")
_LAST_SECOND = int(datetime(9998, 12, 31, tzinfo=UTC).timestamp())
"""Up to here the year has four digits in every zone."""

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
Merging: TypeAlias = Annotated[
    str,
    typer.Argument(metavar="REVISION", help="The branch, or another commit, that is merged."),
]
Into: TypeAlias = Annotated[
    str | None,
    typer.Option("--into", metavar="NAME", help="Into this branch, not the current one."),
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
    """The message from several ``-m``, as with git; None without any."""
    return "\n\n".join(texts) if texts else None


@dataclass(frozen=True, kw_only=True)
class Recording(InRepository):
    """The options of a command that makes a commit on a branch."""

    message: Messages = None
    author: Author = None
    branch: OnBranch = None

    @property
    def facts(self) -> dict[str, Any]:
        """The arguments of verbs that commit."""
        text = paragraphs(self.message)
        return {"message": text, "author": self.author, "branch": self.branch}

    def print(self, repo: Repository, done: Committed) -> None:
        """Print what a commit did."""
        self.output.document(committed_facts(done), committed_text(repo, done))


def short(hash: Hash | None) -> str:
    """A hash in short form."""
    return "none" if hash is None else hash[:_DIGITS]


def subject(message: str) -> str:
    """The first line of a message."""
    return plain(first_line(message))


def plain(text: str) -> str:
    """A line that cannot act on a terminal."""
    return cell(text, short=False)


def moment(by: Signature) -> str:
    """A time as git shows it, in the zone of its author."""
    if by.seconds > _LAST_SECOND:
        return f"@{by.seconds}"
    there = time.gmtime(by.seconds + 60 * by.offset_minutes)
    sign = "-" if by.offset_minutes < 0 else "+"
    hours, minutes = divmod(abs(by.offset_minutes), 60)
    day = time.strftime("%a %b", there)
    clock = time.strftime("%H:%M:%S %Y", there)
    return f"{day} {there.tm_mday} {clock} {sign}{hours:02}{minutes:02}"


def iso(by: Signature) -> str:
    """A time for programs; after the year 9998 it is ``@`` and seconds, as in git."""
    if by.seconds > _LAST_SECOND:
        return f"@{by.seconds}"
    return datetime.fromtimestamp(by.seconds, UTC).isoformat()


class Decorations:
    """The branches and tags at each commit."""

    def __init__(self, repo: Repository) -> None:
        self._head = repo.head
        self._names: dict[Hash, list[tuple[str, str]]] = {}
        for kind, found in (("tag", repo.tags.list()), ("branch", repo.branches.list())):
            for name in sorted(found, reverse=True):
                self._names.setdefault(found[name], []).append((kind, name))

    @property
    def commits(self) -> list[Hash]:
        """Every commit that a branch, a tag or HEAD names."""
        head = [] if self._head.hash is None else [self._head.hash]
        return [*head, *self._names]

    def text(self, commit: Hash) -> str:
        """What ``git log`` shows after the hash: `` (HEAD -> main, tag: v1)``; empty for none."""
        is_head = self._head.hash == commit
        parts = []
        if is_head:
            branch = self._head.branch
            parts.append("HEAD" if branch is None else f"HEAD {_ARROW} {branch}")
        for kind, name in self._names.get(commit, ()):
            if kind == "tag":
                parts.append(f"tag: {name}")
            elif not (is_head and name == self._head.branch):
                parts.append(name)
        return f" ({', '.join(parts)})" if parts else ""

    def facts(self, commit: Hash) -> dict[str, list[str]]:
        """The names of branches and tags at a commit, for programs."""
        found = self._names.get(commit, ())
        return {
            "branches": sorted(name for kind, name in found if kind == "branch"),
            "tags": sorted(name for kind, name in found if kind == "tag"),
        }


def commit_text(commit: Commit, decoration: str = "") -> str:
    """A commit as in ``git log``, without the empty line after it."""
    lines = [f"commit {commit.hash}{decoration}"]
    if len(commit.parents) > 1:
        lines.append(f"Merge: {' '.join(map(short, commit.parents))}")
    author = commit.author
    lines += [f"Author: {plain(author.name)} <{plain(author.email)}>", f"Date:   {moment(author)}"]
    if commit.message:
        lines.append("")
        lines += [f"    {plain(each)}".rstrip() for each in commit.message.split("\n")]
    return "\n".join(lines)


def one_line(commit: Commit, decoration: str = "") -> str:
    """A commit as in ``git log --oneline``."""
    return f"{short(commit.hash)}{decoration} {subject(commit.message)}".rstrip()


def commit_facts(commit: Commit) -> dict[str, Any]:
    """A commit for programs."""
    return {
        "hash": commit.hash,
        "parents": list(commit.parents),
        "author": commit.author.name,
        "email": commit.author.email,
        "time": iso(commit.author),
        "message": commit.message,
    }


def change_facts(change: TableChange) -> dict[str, Any]:
    """The change of a table, for programs."""
    before, after, counts = change.before, change.after, change.counts
    return {
        "table": change.name,
        "change": change.kind,
        "rows": getattr(after, "rows", None),
        "rows_before": getattr(before, "rows", None),
        "fragments": getattr(after, "fragments", None),
        "fragments_before": getattr(before, "fragments", None),
        **{word: getattr(counts, word, None) for word in _COUNTED},
        "exact": change.is_exact,
        "same_rows": change.is_same_rows,
        "unrelated": change.is_unrelated,
        **picked(change, "added_columns", "removed_columns"),
        "renamed_columns": dict(change.renamed_columns),
        "added_indices": dict(change.added_indices),
        "removed_indices": dict(change.removed_indices),
        "changed_indices": dict(change.changed_indices),
    }


def stat_lines(
    changes: Sequence[TableChange], merged: Mapping[str, Merged] | None = None
) -> Iterator[str]:
    """Changes of tables in the form of ``git diff --stat``; nothing for none. Of tables that were
    ``merged`` by rows also what was put together, and what was decided."""

    locations = max((width(each.name) for each in changes), default=0)
    for each in changes:
        more = decided_words(merged[each.name]) if merged and each.name in merged else []
        said = "; ".join(filter(None, [_counts(each), ", ".join(more)]))
        yield f" {padded(each.name, locations)} | {said}"
        if each.is_unrelated:
            continue
        if each.kind == "changed":
            yield from (
                f"   ~ {plain(old)} {_ARROW} {plain(new)}" for old, new in each.renamed_columns
            )
            yield from (f"   + {plain(column)}" for column in each.added_columns)
            yield from (f"   - {plain(column)}" for column in each.removed_columns)
        indices = each.added_indices, each.removed_indices, each.changed_indices
        for sign, found in zip("+-~", indices, strict=True):
            yield from (f"   {sign} index {plain(name)} ({plain(kind)})" for name, kind in found)
    if not changes:
        return
    more_rows, total = "", sum(each.rows or 0 for each in changes)
    if total and all(each.rows is not None and not each.is_unrelated for each in changes):
        more_rows = f", {counted(abs(total), 'row')} {'more' if total > 0 else 'fewer'}"
    yield f" {counted(len(changes), 'table')} changed{more_rows}"


def _counts(change: TableChange) -> str:
    before, after = change.before, change.after
    if before is None or after is None:
        found = after or before
        assert found is not None
        rows = "? rows" if found.rows is None else counted(found.rows, "row")
        return f"{'new' if before is None else 'gone'}, {rows}"
    if change.kind == "moved":
        return f"the same rows, {_location(before)} {_ARROW} {_location(after)}"
    if change.is_unrelated:
        rows = f"{_number(before.rows)} and {_number(after.rows)} rows"
        return f"two tables of this name that share no history, {rows}"
    rows = f"{_number(before.rows)} {_ARROW} {_number(after.rows)} rows{_moved(change)}"
    return f"{rows}, {before.fragments:,} {_ARROW} {after.fragments:,} fragments"


def _moved(change: TableChange) -> str:
    """The changes of rows in parentheses; empty if they are unknown."""
    counts = change.counts
    if change.is_same_rows:
        return " (rewritten, same rows)"
    if counts is None:
        return ""
    done = picked(counts, *_COUNTED)
    parts = [f"{number:,} {word}" for word, number in done.items() if number]
    if not change.is_exact:
        parts = [f"at most {each}" if each.endswith("updated") else each for each in parts]
    return f" ({', '.join(parts) or 'none changed'})"


def _number(rows: int | None) -> str:
    return "?" if rows is None else f"{rows:,}"


def _location(pin: Pin) -> str:
    return f"{pin.branch or MAIN} {pin.exact_version}"


def committed_facts(done: Committed) -> dict[str, Any]:
    """What a commit did, for programs."""
    return {
        "branch": done.branch,
        "hash": done.hash,
        "new": done.is_new,
        "tables": list(done.tables),
        "diverged": [{"table": e.table, "why": e.conflict.message} for e in done.diverged],
        "taken_in": [picked(each, "table", "versions", "message") for each in done.taken_in],
    }


def committed_text(repo: Repository, done: Committed) -> str:
    """What a commit did, in the form of ``git commit``."""
    assert done.hash is not None
    shown = repo.show(done.hash)
    root = "" if shown.commit.parents else " (root-commit)"
    first = f"[{done.branch}{root} {short(done.hash)}] {subject(shown.commit.message)}"
    return "\n".join([first, *stat_lines(shown.changes, dict(done.merged)), *taken_in_lines(done)])


def taken_in_lines(done: Committed) -> Iterator[str]:
    """What a commit contains that was written directly to tables; nothing for none."""
    for each in done.taken_in:
        first, last = each.versions[0], each.versions[-1]
        which = f"version {first}" if first == last else f"versions {first} to {last}"
        message = "" if each.message is None else f": {subject(each.message)}"
        yield f" also contains {which} of {each.table}, written directly{message}"


def in_words(counts: Merged) -> str:
    """What a merge did to the rows of a table."""
    parts = [
        f"{counted(counts.inserted, 'row')} inserted",
        f"{counts.updated:,} updated",
        f"{counts.deleted:,} deleted",
    ]
    return ", ".join([*parts, *decided_words(counts)])


def decided_words(counts: Merged) -> list[str]:
    """What was put together, and what was decided; nothing for none."""
    found = []
    if counts.rewritten:
        found.append(f"{counted(counts.rewritten, 'row')} with columns written in place")
    if counts.joined:
        found.append(f"{counts.joined:,} with cells of both")
    if counts.resolved:
        found.append(f"{counted(counts.resolved, 'conflict')} decided")
    return found

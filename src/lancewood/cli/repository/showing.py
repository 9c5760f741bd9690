"""The options that commands on a repository share, and how they show commits and changes.

Commits are shown in the form that git uses. Hashes are cut to twelve digits, as in every message of
Lancewood. Texts that others wrote have their control characters escaped.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from lancewood.cli.output import cell, counted, padded, width
from lancewood.cli.repository.names import InRepository

if TYPE_CHECKING:
    from lancewood.repo import Commit, Committed, Hash, Pin, Repository, Signature, TableChange
    from lancewood.table import Merged

REVISIONS = "a branch, a tag, a hash, HEAD~2"
_DIGITS = 12
_ARROW = "->"
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
    from lancewood.repo import first_line

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
        "rows": None if after is None else after.rows,
        "rows_before": None if before is None else before.rows,
        "fragments": None if after is None else after.fragments,
        "fragments_before": None if before is None else before.fragments,
        "inserted": None if counts is None else counts.inserted,
        "updated": None if counts is None else counts.updated,
        "deleted": None if counts is None else counts.deleted,
        "exact": change.is_exact,
        "same_rows": change.is_same_rows,
        "unrelated": change.is_unrelated,
        "added_columns": list(change.added_columns),
        "removed_columns": list(change.removed_columns),
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
    from lancewood.cli.showing import decided_words

    locations = max((width(each.name) for each in changes), default=0)
    for each in changes:
        more = decided_words(merged[each.name]) if merged and each.name in merged else []
        yield f" {padded(each.name, locations)} | {'; '.join([_counts(each), *_joined(more)])}"
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
    if changes:
        yield f" {counted(len(changes), 'table')} changed{_more_rows(changes)}"


def _joined(words: Sequence[str]) -> list[str]:
    return [", ".join(words)] if words else []


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
    done = {"inserted": counts.inserted, "updated": counts.updated, "deleted": counts.deleted}
    parts = [f"{number:,} {word}" for word, number in done.items() if number]
    if not change.is_exact:
        parts = [f"at most {each}" if each.endswith("updated") else each for each in parts]
    return f" ({', '.join(parts) or 'none changed'})"


def _number(rows: int | None) -> str:
    return "?" if rows is None else f"{rows:,}"


def _location(pin: Pin) -> str:
    from lancewood.repo import MAIN

    return f"{pin.branch or MAIN} {pin.exact_version}"


def _more_rows(changes: Sequence[TableChange]) -> str:
    more = [each.rows for each in changes]
    if any(each is None for each in more) or any(each.is_unrelated for each in changes):
        return ""
    total = sum(each or 0 for each in more)
    if not total:
        return ""
    return f", {counted(abs(total), 'row')} {'more' if total > 0 else 'fewer'}"


def committed_facts(done: Committed) -> dict[str, Any]:
    """What a commit did, for programs."""
    return {
        "branch": done.branch,
        "hash": done.hash,
        "new": done.is_new,
        "tables": list(done.tables),
        "diverged": [{"table": e.table, "why": e.conflict.message} for e in done.diverged],
        "taken_in": [
            {"table": e.table, "versions": list(e.versions), "message": e.message}
            for e in done.taken_in
        ],
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

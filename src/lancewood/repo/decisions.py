"""What was decided about the conflicts of a merge before it is done, kept for it and for others.

The ref ``refs/lancewood/merges/<into>/<name>`` leads to a commit for each decision, by who decided.
Its tree has every decision so far as ``decisions/<table>/<number>.json``, in the order in which
they were made. The first has the two commits as parents that were to be merged, each later one the
decision before it, and those of the two that have moved since: so what people looked at while they
decided stays, as long as the ref does. Branches may move, nobody is blocked: a decision that no
longer fits a conflict decides nothing.

In the name of the ref both names are one part each, with ``/`` written as ``%2F``. If they kept
their slashes, ``a/b`` into ``c`` would be ``a`` into ``b/c``, and git does not keep ``a/b`` beside
``a/b/c``.
"""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Iterator, Mapping
from urllib.parse import quote, unquote

from lancewood.catalog.files import file_entries, put_beside
from lancewood.catalog.names import checked_table
from lancewood.errors import FormatError, InvalidInputError
from lancewood.format.json_object import decode_object
from lancewood.git.history import is_ancestor
from lancewood.git.names import checked_ref
from lancewood.git.objects import Objects, Signature, TreeEntry
from lancewood.git.values import Hash
from lancewood.jobs.merge.decisions import Decision
from lancewood.repo.commit.swapping import swap_ref
from lancewood.repo.context import RepoContext
from lancewood.store.retry import SWAPS

MERGES = "refs/lancewood/merges/"
"""How the names begin under which decisions are kept."""
_DIRECTORY = "decisions"
_MOST_BYTES = 64 << 20
_number = re.compile(r"([0-9]{4,9})\.json").fullmatch


def decisions_ref(into: str, name: str) -> str:
    """The ref with the decisions about merging ``name``, a branch or any revision, into a branch.

    Raises InvalidInputError for names that are too long.
    """
    return checked_ref(f"{MERGES}{_part(into)}/{_part(name)}")


def _part(name: str) -> str:
    """A name as one part of a ref."""
    part = quote(name, safe="", errors="surrogateescape").replace("~", "%7E")
    if part.startswith(".") or part.endswith((".", ".lock")) or ".." in part:
        part = part.replace(".", "%2E")
    return part


def add_decision(
    context: RepoContext, into: str, name: str, table: str, decision: Decision, *, author: Signature
) -> Hash:
    """Keep a decision about the conflicts of a table; returns its commit.

    Raises FormatError if what was decided before cannot be read, RetryableConflictError and
    CommitUnknownError as other commits do.
    """
    checked_table(table)
    objects, ref = context.git.objects, decisions_ref(into, name)
    ours, theirs = context.tip(into), context.commit(name)
    title = f"{table}: {decision}"
    text = json.dumps(decision.encode(), indent=2, ensure_ascii=False, allow_nan=False)

    def make(last: Hash | None) -> Hash:
        top = {} if last is None else file_entries(objects.tree(objects.commit(last).tree))
        known = () if last is None else _numbers(objects, last, table)
        path = f"{_DIRECTORY}/{table}/{max(known, default=0) + 1:04}.json"
        tree = objects.put_tree(put_beside(objects, top, {path: f"{text}\n".encode()}))
        seen = [each for each in (ours, theirs) if each is not None]
        if last is not None:
            seen = [last, *(each for each in seen if not is_ancestor(objects, each, last))]
        message = f"{title}\n\nDecided for merging {name} into {into}."
        return objects.put_commit(tree, seen, author, message)

    commit = swap_ref(context, ref, make, what=ref, verb="resolve", title=title, by=author, ref=ref)
    assert commit is not None, "there is always something to keep"
    return commit


def list_decisions(context: RepoContext, into: str, name: str) -> dict[str, tuple[Decision, ...]]:
    """The decisions about a merge, by table, in the order in which they were made.

    Raises FormatError that names the commit and the path, if one cannot be read.
    """
    ref = decisions_ref(into, name)
    tip = context.git.refs.read(ref)
    return {} if tip is None else read_decisions(context.git.objects, tip)


def read_decisions(objects: Objects, commit: Hash) -> dict[str, tuple[Decision, ...]]:
    """The decisions that a commit keeps, by table, in the order in which they were made."""
    found = dict[str, tuple[Decision, ...]]()
    for table in sorted(_directory(objects, commit, _DIRECTORY)):
        try:
            checked_table(table)
        except InvalidInputError as cause:
            raise _broken(commit, f"{_DIRECTORY}/{table}", cause.message) from cause
        found[table] = tuple(_decisions(objects, commit, table))
    return found


def forget_decisions(
    context: RepoContext, into: str, name: str, *, by: Signature, only: Hash | None = None
) -> bool:
    """Remove the decisions about a merge; whether there were any. With ``only``, if nothing was
    decided since that commit."""
    return _forget(context, decisions_ref(into, name), by, only)


def forget_branch(context: RepoContext, branch: str, *, by: Signature) -> None:
    """Remove the decisions about merging a branch, and about merging into it."""
    for ref in context.git.refs.names(MERGES):
        if branch in map(unquote, ref.removeprefix(MERGES).split("/")):
            _forget(context, ref, by, None)


def _forget(context: RepoContext, ref: str, by: Signature, only: Hash | None) -> bool:
    refs = context.git.refs
    for _ in SWAPS:
        found = refs.read(ref)
        if found is None or (only is not None and found != only):
            return False
        if refs.move(ref, found, None, why="resolve: forgotten", by=by):
            return True
    return False


def _decisions(objects: Objects, commit: Hash, table: str) -> Iterator[Decision]:
    entries = _directory(objects, commit, f"{_DIRECTORY}/{table}")
    for number in _numbers(objects, commit, table):
        name = f"{number:04}.json"
        path = f"{_DIRECTORY}/{table}/{name}"
        if not stat.S_ISREG(entries[name].mode):
            raise _broken(commit, path, "is no file")
        said = f"{path} in commit {commit[:12]}"
        document = decode_object(objects.blob(entries[name].hash), name=said, most=_MOST_BYTES)
        try:
            yield Decision.decode(document)
        except InvalidInputError as cause:
            raise _broken(commit, path, cause.message) from cause


def _numbers(objects: Objects, commit: Hash, table: str) -> list[int]:
    """The numbers of a table's decisions, in order."""
    found = []
    for name in _directory(objects, commit, f"{_DIRECTORY}/{table}"):
        number = _number(name)
        if number is None or f"{int(number[1]):04}" != number[1]:
            raise _broken(commit, f"{_DIRECTORY}/{table}/{name}", "is no number of a decision")
        found.append(int(number[1]))
    return sorted(found)


def _directory(objects: Objects, commit: Hash, path: str) -> Mapping[str, TreeEntry]:
    """What a directory of a commit holds; nothing if there is none."""
    at = objects.tree(objects.commit(commit).tree)
    for part in path.split("/"):
        entry = at.get(part)
        if entry is None:
            return {}
        if not stat.S_ISDIR(entry.mode):
            raise _broken(commit, path, f"{part!r} is no directory")
        at = objects.tree(entry.hash)
    return at


def _broken(commit: Hash, path: str, why: str) -> FormatError:
    return FormatError(
        f"{path} in commit {commit[:12]}: {why}; forget the decisions about this merge, and decide "
        "anew",
        commit=commit,
        path=path,
    )

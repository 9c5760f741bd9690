"""Which work of a branch was merged elsewhere, so that nobody goes on there and merges it twice.

A table's branch is published as a whole, from where it began. If it went on after a merge, the next
one would bring the merged part once more, and is refused. So a merge leaves a note, before it is
visible, and who would write on top of merged work is told so before he has worked for nothing. The
note only says where to look: history tells whether the merge happened.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lancewood.errors import IncompatibleConflictError
from lancewood.git.hashes import Hash
from lancewood.git.history import is_ancestor
from lancewood.model.refs import MAIN
from lancewood.repo.grounds import Grounds
from lancewood.repo.notes.note_files import (
    broken,
    checked_commit,
    load_note,
    quoted,
    remove_note,
    save_note,
)

MERGED = "merged"
"""The fact of a refusal that says: the work was merged, into this branch."""
_DIRECTORY = "merged"
_MOST = 16
"""The newest merges of a branch that are remembered."""


def leave_merged(grounds: Grounds, branches: Iterable[str], merged: Hash, into: str) -> None:
    """Note that a commit with work of these branches is about to be merged."""
    for branch in branches:
        known = _load(grounds, branch)
        if (merged, into) in known:
            continue
        merges = [{"commit": at, "into": name} for at, name in [*known, (merged, into)][-_MOST:]]
        save_note(grounds, _key(branch), {"merges": merges})


def forget_merged(grounds: Grounds, branch: str) -> None:
    """Remove the note of a branch that is gone."""
    remove_note(grounds, _key(branch))


def check_unmerged(grounds: Grounds, branch: str, tip: Hash | None, name: str) -> None:
    """Raise IncompatibleConflictError for a table whose work on a branch was merged as it stands at
    ``tip``."""
    if branch == MAIN:
        return
    for merged, into in _load(grounds, branch):
        if merged not in grounds.git.objects:
            continue
        if grounds.tree(merged).blob_hash(name) != grounds.tree(tip).blob_hash(name):
            continue
        where = grounds.tip(into)
        if where is None or not is_ancestor(grounds.git.objects, merged, where):
            continue
        raise IncompatibleConflictError(
            f"table {name!r} has work on branch {branch!r} that was merged into {into!r}; what is "
            f"written after it could not be merged any more. Merge {into!r} into {branch!r} first, "
            f"and go on from there, or make another branch at {into!r}",
            table=name,
            branch=branch,
            **{MERGED: into},
        )


def _key(branch: str) -> str:
    return f"{_DIRECTORY}/{quoted(branch)}"


def _load(grounds: Grounds, branch: str) -> list[tuple[Hash, str]]:
    key = _key(branch)
    document = load_note(grounds, key)
    if document is None:
        return []
    merges = document.get("merges")
    if not isinstance(merges, list):
        raise broken(key, "does not say merges")
    return [_merge(key, each) for each in merges]


def _merge(key: str, found: Any) -> tuple[Hash, str]:
    into = found.get("into") if isinstance(found, dict) else None
    if not isinstance(into, str):
        raise broken(key, f"a merge is {found!r:.80}")
    return checked_commit(key, "commit", found.get("commit")), into

"""Notes that a repository leaves for later writers, as JSON files of its own beside git's.

A note is durable before what it announces happens; whether it happened is read from the history.
Readers of commits never need notes. There are three kinds:

    leaving  a branch that is being deleted with the branches of its tables, and its commit: once
             the ref is gone, nothing else leads to the commit that names the tables
    merged   work of a branch that was merged. A table's branch is published as a whole, so work
             on top of merged work could not be merged; writing it is refused before it is done
    resets   a branch that is being moved, and what its tables must do to follow. A table needs it
             only while the branch pins it as the commit does that the branch was moved to
"""

from __future__ import annotations

import json
import os
import uuid as uuids
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from lancewood.errors import FormatError, IncompatibleConflictError, NotFoundError
from lancewood.format.json_object import decode_object
from lancewood.git.history import is_ancestor
from lancewood.git.objects import Objects
from lancewood.git.values import Hash, is_hash
from lancewood.model.ids import MAX_U64, Version
from lancewood.model.refs import MAIN
from lancewood.repo.context import RepoContext
from lancewood.store.base import Store

NOTES_DIR = "lancewood"
"""The directory of notes in a repository."""
_MOST_BYTES = 64 << 20
_SUFFIX = ".json"
_LEAVING_DIR = "leaving"
MERGED = "merged"
"""The fact of a refusal which says that the work was merged into this branch."""
_MERGED_DIR = "merged"
_MOST_MERGED = 16
"""How many merges of a branch are remembered."""
_RESETS_DIR = "resets"
_ABANDONED = timedelta(hours=1)
"""After this time no process is still between writing a note and moving the branch."""


def note_deletion(context: RepoContext, branch: str, tip: Hash) -> None:
    """Note, durably, that a branch is about to be deleted with the branches of its tables."""
    _save_note(context, _key(_LEAVING_DIR, branch), {"commit": tip})


def noted_deletion(context: RepoContext, branch: str) -> Hash | None:
    """The commit of a branch that is being deleted; None without a note. Raises FormatError."""
    key = _key(_LEAVING_DIR, branch)
    document = _load_note(context, key)
    return None if document is None else _checked_commit(key, "commit", document.get("commit"))


def unfinished_deletions(context: RepoContext) -> Iterator[str]:
    """The branches whose deletion is not finished."""
    for key in _note_keys(context, _LEAVING_DIR):
        yield unquote(key.removeprefix(f"{_LEAVING_DIR}/"), errors="surrogateescape")


def note_merges(context: RepoContext, branches: Iterable[str], merged: Hash, into: str) -> None:
    """Note that a commit with work of these branches is about to be merged."""
    for branch in branches:
        known = _load_merges(context, branch)
        if (merged, into) in known:
            continue
        merges = [
            {"commit": at, "into": name} for at, name in [*known, (merged, into)][-_MOST_MERGED:]
        ]
        _save_note(context, _key(_MERGED_DIR, branch), {"merges": merges})


def check_unmerged(context: RepoContext, branch: str, tip: Hash | None, name: str) -> None:
    """Raise IncompatibleConflictError if the work on a table at ``tip`` of a branch was merged."""
    if branch == MAIN:
        return
    for merged, into in _load_merges(context, branch):
        if merged not in context.git.objects:
            continue
        if context.tree(merged).blob_hash(name) != context.tree(tip).blob_hash(name):
            continue
        where = context.tip(into)
        if where is None or not is_ancestor(context.git.objects, merged, where):
            continue
        raise IncompatibleConflictError(
            f"table {name!r} has work on branch {branch!r} that was merged into {into!r}; what is "
            f"written after it could not be merged any more. Merge {into!r} into {branch!r} first, "
            f"and go on from there, or make another branch at {into!r}",
            table=name,
            branch=branch,
            **{MERGED: into},
        )


def _load_merges(context: RepoContext, branch: str) -> list[tuple[Hash, str]]:
    key = _key(_MERGED_DIR, branch)
    document = _load_note(context, key)
    if document is None:
        return []
    merges = document.get("merges")
    if not isinstance(merges, list):
        raise _broken(key, "does not say merges")
    return [_decode_merge(key, each) for each in merges]


def _decode_merge(key: str, found: Any) -> tuple[Hash, str]:
    into = found.get("into") if isinstance(found, dict) else None
    if not isinstance(into, str):
        raise _broken(key, f"a merge is {found!r:.80}")
    return _checked_commit(key, "commit", found.get("commit")), into


@dataclass(frozen=True, slots=True)
class PendingMove:
    """What one table must still do after its branch was moved."""

    base: Version
    """The newest version of the table's branch when the note was written."""
    uuid: str | None
    """The uuid of the restoration; None if the table's branch is to begin anew."""


@dataclass(frozen=True, slots=True)
class MoveNote:
    """One move of a branch, and the tables that must follow."""

    key: str
    before: Hash | None
    after: Hash
    tables: Mapping[str, PendingMove]

    def has_happened(self, context: RepoContext, tip: Hash | None) -> bool:
        """Whether a branch that is at ``tip`` was moved as the note says."""
        objects = context.git.objects
        if tip is None or not _leads(objects, self.after, tip):
            return False
        if self.before is None or _leads(objects, self.before, self.after):
            return True
        return not _leads(objects, self.before, tip)

    def pending(self, context: RepoContext, tip: Hash | None) -> dict[str, PendingMove]:
        """The tables that must still follow, if the move has happened."""
        wanted, now = context.tree(self.after), context.tree(tip)
        return {
            name: pending
            for name, pending in self.tables.items()
            if wanted.blob_hash(name) is not None and wanted.blob_hash(name) == now.blob_hash(name)
        }


def _leads(objects: Objects, old: Hash, new: Hash) -> bool:
    """Whether one commit is an ancestor of another; False for a commit that git removed."""
    return old in objects and is_ancestor(objects, old, new)


def save_move_note(
    context: RepoContext,
    branch: str,
    before: Hash | None,
    after: Hash,
    tables: Mapping[str, PendingMove],
) -> MoveNote:
    """Note a move, durably."""
    note = MoveNote(f"{_key(_RESETS_DIR, branch)}/{uuids.uuid4()}", before, after, dict(tables))
    _save_reset(context, note)
    return note


def load_move_notes(context: RepoContext, branch: str) -> Iterator[MoveNote]:
    """The notes of moves of a branch; mostly none. Raises FormatError that names the file."""
    for key in _note_keys(context, _key(_RESETS_DIR, branch)):
        document = _load_note(context, key)
        if document is not None:
            yield _decode_reset(key, document)


def remove_from_note(context: RepoContext, note: MoveNote, done: set[str]) -> None:
    """Remove tables from a note; with the last one, the note."""
    left = {name: pending for name, pending in note.tables.items() if name not in done}
    if left:
        _save_reset(context, MoveNote(note.key, note.before, note.after, left))
    else:
        _remove_note(context, note.key)


def remove_move_note(context: RepoContext, note: MoveNote) -> None:
    """Remove the note of a move."""
    _remove_note(context, note.key)


def remove_branch_notes(context: RepoContext, branch: str) -> None:
    """Remove all notes of a branch whose deletion is finished; last the one that says that it has
    begun."""
    _remove_note(context, _key(_MERGED_DIR, branch))
    for key in _note_keys(context, _key(_RESETS_DIR, branch)):
        _remove_note(context, key)
    _remove_note(context, _key(_LEAVING_DIR, branch))


def is_abandoned(context: RepoContext, note: MoveNote) -> bool:
    """Whether a note is so old that its move either happened or never will."""
    try:
        written = _store(context).head(note.key + _SUFFIX).modified
    except NotFoundError:
        return False
    return datetime.now(UTC) - written > _ABANDONED


def _save_reset(context: RepoContext, note: MoveNote) -> None:
    tables = {
        name: {"base": int(pending.base), "transaction": pending.uuid}
        for name, pending in sorted(note.tables.items())
    }
    _save_note(context, note.key, {"from": note.before, "to": note.after, "tables": tables})


def _decode_reset(key: str, document: dict[str, Any]) -> MoveNote:
    before, tables = document.get("from"), document.get("tables")
    if not isinstance(tables, dict):
        raise _broken(key, "does not say tables")
    return MoveNote(
        key,
        None if before is None else _checked_commit(key, "from", before),
        _checked_commit(key, "to", document.get("to")),
        {name: _decode_pending(key, name, each) for name, each in tables.items()},
    )


def _decode_pending(key: str, name: str, found: object) -> PendingMove:
    base = found.get("base") if isinstance(found, dict) else None
    uuid = found.get("transaction") if isinstance(found, dict) else None
    is_number = isinstance(base, int) and not isinstance(base, bool) and 0 <= base <= MAX_U64
    if not is_number or not (uuid is None or isinstance(uuid, str)):
        raise _broken(key, f"what is owed to table {name!r} is {found!r:.80}")
    assert isinstance(base, int)
    return PendingMove(Version(base), uuid)


def _key(kind: str, branch: str) -> str:
    """The key of a branch's note, or of the directory of its notes."""
    return f"{kind}/{quote(branch, safe='', errors='surrogateescape')}"


def _save_note(context: RepoContext, key: str, document: Mapping[str, Any]) -> None:
    """Write or replace a note, durably."""
    text = json.dumps(document, indent=2, ensure_ascii=False)
    _store(context).put(key + _SUFFIX, f"{text}\n".encode())


def _load_note(context: RepoContext, key: str) -> dict[str, Any] | None:
    """The content of a note; None if there is none. Raises FormatError that names the file."""
    try:
        data = _store(context).get(key + _SUFFIX)
    except NotFoundError:
        return None
    return decode_object(data, name=_name_of(key), most=_MOST_BYTES)


def _note_keys(context: RepoContext, directory: str) -> Iterator[str]:
    """The notes in a directory, sorted."""
    root = context.root
    if isinstance(root, Path) and not os.path.isdir(f"{root}/{NOTES_DIR}/{directory}"):
        return
    for name in sorted(_store(context).names(directory)):
        if name.endswith(_SUFFIX):
            yield f"{directory}/{name.removesuffix(_SUFFIX)}"


def _remove_note(context: RepoContext, key: str) -> None:
    """Remove a note, if there is one."""
    _store(context).delete([key + _SUFFIX])


def _store(context: RepoContext) -> Store:
    return context.store_at("").at(NOTES_DIR)  # so that the directory itself is no link


def _name_of(key: str) -> str:
    """The name of a note in errors."""
    return f"{NOTES_DIR}/{key}{_SUFFIX}"


def _checked_commit(key: str, field: str, value: object) -> Hash:
    """A commit that a note names; raises FormatError."""
    if not isinstance(value, str) or not is_hash(value):
        raise _broken(key, f"{field} is {value!r:.80}; expected the hash of a commit")
    return Hash(value)


def _broken(key: str, why: str) -> FormatError:
    """The error for a note that cannot be understood."""
    return FormatError(f"{_name_of(key)}: {why}", file=_name_of(key))

"""Notes that a repository leaves for later writers, in files of its own beside git's.

A note is on the disk, whole, before what it speaks of happens. Knows where notes are and that they
are JSON, not what they say. Readers of commits never need one.

The note of a branch that is to go, with the branches of its tables: where it was.

Once the ref is gone, nothing else leads to the commit that tells which tables there are.

Which work of a branch was merged elsewhere, so that nobody goes on there and merges it twice.

A table's branch is published as a whole, from where it began. If it went on after a merge, the next
one would bring the merged part once more, and is refused. So a merge leaves a note, before it is
visible, and who would write on top of merged work is told so before he has worked for nothing. The
note only says where to look: history tells whether the merge happened.

The note of a branch that is about to be moved: what its tables are to get afterwards.

The move of the ref is one step, the tables come after it one by one. So a note is left before the
move. Whether that happened is told by the history of the branch, and what is owed by its tip: a
table that it pins as the commit does which it was moved to. Once it pins it in another way, nothing
is owed any more. Whoever writes next pays (``settling``).
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
from lancewood.git.hashes import Hash, is_hash
from lancewood.git.history import is_ancestor
from lancewood.git.objects import Objects
from lancewood.model.ids import MAX_U64, Version
from lancewood.model.refs import MAIN
from lancewood.repo.grounds import Grounds
from lancewood.store.base import Store

NOTES_DIR = "lancewood"
"""The directory of notes in a repository."""
_MOST_BYTES = 64 << 20
_SUFFIX = ".json"


def quoted(branch: str) -> str:
    """A branch as the name of one file or directory."""
    return quote(branch, safe="", errors="surrogateescape")


def unquoted(name: str) -> str:
    """The branch that a file or directory is named after."""
    return unquote(name, errors="surrogateescape")


def save_note(grounds: Grounds, key: str, document: Mapping[str, Any]) -> None:
    """Write a note, over an old one; it is durable afterwards."""
    text = json.dumps(document, indent=2, ensure_ascii=False)
    _store(grounds).put(key + _SUFFIX, f"{text}\n".encode())


def load_note(grounds: Grounds, key: str) -> dict[str, Any] | None:
    """What a note says; None where there is none. Raises FormatError that names the file."""
    try:
        data = _store(grounds).get(key + _SUFFIX)
    except NotFoundError:
        return None
    return decode_object(data, name=name_of(key), most=_MOST_BYTES)


def note_time(grounds: Grounds, key: str) -> datetime | None:
    """When a note was written; None where there is none."""
    try:
        return _store(grounds).head(key + _SUFFIX).modified
    except NotFoundError:
        return None


def note_keys(grounds: Grounds, directory: str) -> Iterator[str]:
    """The notes in a directory, in order."""
    home = grounds.home
    if isinstance(home, Path) and not os.path.isdir(f"{home}/{NOTES_DIR}/{directory}"):
        return
    for name in sorted(_store(grounds).names(directory)):
        if name.endswith(_SUFFIX):
            yield f"{directory}/{name.removesuffix(_SUFFIX)}"


def remove_note(grounds: Grounds, key: str) -> None:
    """Remove a note; one that is not there is fine."""
    _store(grounds).delete([key + _SUFFIX])


def name_of(key: str) -> str:
    """A note as errors name it."""
    return f"{NOTES_DIR}/{key}{_SUFFIX}"


def checked_commit(key: str, field: str, value: object) -> Hash:
    """A commit that a note names; raises FormatError."""
    if not isinstance(value, str) or not is_hash(value):
        raise broken(key, f"{field} is {value!r:.80}; expected the hash of a commit")
    return Hash(value)


def broken(key: str, why: str) -> FormatError:
    """What is said of a note that cannot be understood."""
    return FormatError(f"{name_of(key)}: {why}", file=name_of(key))


def _key(kind: str, branch: str) -> str:
    return f"{kind}/{quoted(branch)}"


def _store(grounds: Grounds) -> Store:
    return grounds.store_at("").at(NOTES_DIR)  # so that the directory itself is no link


_LEAVING = "leaving"


def leave_leaving(grounds: Grounds, branch: str, tip: Hash) -> None:
    """Note that a branch is about to go; it is on the disk afterwards."""
    save_note(grounds, _key(_LEAVING, branch), {"commit": tip})


def load_leaving(grounds: Grounds, branch: str) -> Hash | None:
    """The commit that a branch was at; None if it was not to go. Raises FormatError."""
    key = _key(_LEAVING, branch)
    document = load_note(grounds, key)
    return None if document is None else checked_commit(key, "commit", document.get("commit"))


def leaving_branches(grounds: Grounds) -> Iterator[str]:
    """The branches that were to go, and whose tables somebody has still to look at."""
    for key in note_keys(grounds, _LEAVING):
        yield unquoted(key.removeprefix(f"{_LEAVING}/"))


def forget_leaving(grounds: Grounds, branch: str) -> None:
    """All of it is gone."""
    remove_note(grounds, _key(_LEAVING, branch))


MERGED = "merged"
"""The fact of a refusal that says: the work was merged, into this branch."""
_MERGED = "merged"
_MOST_MERGED = 16
"""The newest merges of a branch that are remembered."""


def leave_merged(grounds: Grounds, branches: Iterable[str], merged: Hash, into: str) -> None:
    """Note that a commit with work of these branches is about to be merged."""
    for branch in branches:
        known = _load(grounds, branch)
        if (merged, into) in known:
            continue
        merges = [
            {"commit": at, "into": name} for at, name in [*known, (merged, into)][-_MOST_MERGED:]
        ]
        save_note(grounds, _key(_MERGED, branch), {"merges": merges})


def forget_merged(grounds: Grounds, branch: str) -> None:
    """Remove the note of a branch that is gone."""
    remove_note(grounds, _key(_MERGED, branch))


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


def _load(grounds: Grounds, branch: str) -> list[tuple[Hash, str]]:
    key = _key(_MERGED, branch)
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


_RESET = "resets"
_ABANDONED = timedelta(hours=1)
"""After that nobody is between writing a note and moving the branch."""


@dataclass(frozen=True, slots=True)
class Owed:
    """What one table is to get."""

    base: Version
    """The newest version of the table's branch when the note was written."""
    uuid: str | None
    """The identity of the restoration; None where the table's branch is to begin anew."""


@dataclass(frozen=True, slots=True)
class ResetNote:
    """One move of a branch."""

    key: str
    before: Hash | None
    after: Hash
    tables: Mapping[str, Owed]

    def has_happened(self, grounds: Grounds, tip: Hash | None) -> bool:
        """Whether a branch that is at ``tip`` was moved as the note says."""
        objects = grounds.git.objects
        if tip is None or not _leads(objects, self.after, tip):
            return False
        if self.before is None or _leads(objects, self.before, self.after):
            return True
        return not _leads(objects, self.before, tip)

    def due(self, grounds: Grounds, tip: Hash | None) -> dict[str, Owed]:
        """What is owed if the move has happened."""
        wanted, now = grounds.tree(self.after), grounds.tree(tip)
        return {
            name: owed
            for name, owed in self.tables.items()
            if wanted.blob_hash(name) is not None and wanted.blob_hash(name) == now.blob_hash(name)
        }


def _leads(objects: Objects, old: Hash, new: Hash) -> bool:
    """Whether a commit leads to another; one that git removed leads to none that is there."""
    return old in objects and is_ancestor(objects, old, new)


def leave_note(
    grounds: Grounds, branch: str, before: Hash | None, after: Hash, tables: Mapping[str, Owed]
) -> ResetNote:
    """A note that is on the disk."""
    note = ResetNote(f"{_key(_RESET, branch)}/{uuids.uuid4()}", before, after, dict(tables))
    _save(grounds, note)
    return note


def load_notes(grounds: Grounds, branch: str) -> Iterator[ResetNote]:
    """The notes of a branch; mostly none. Raises FormatError that names the file."""
    for key in note_keys(grounds, _key(_RESET, branch)):
        document = load_note(grounds, key)
        if document is not None:
            yield _decoded(key, document)


def strike_out(grounds: Grounds, note: ResetNote, done: set[str]) -> None:
    """Take tables out of a note; it goes with the last of them."""
    left = {name: owed for name, owed in note.tables.items() if name not in done}
    if left:
        _save(grounds, ResetNote(note.key, note.before, note.after, left))
    else:
        remove_note(grounds, note.key)


def forget(grounds: Grounds, note: ResetNote) -> None:
    """Remove a note of a move that did not happen."""
    remove_note(grounds, note.key)


def forget_all(grounds: Grounds, branch: str) -> None:
    """Remove the notes of a branch that is gone."""
    for key in note_keys(grounds, _key(_RESET, branch)):
        remove_note(grounds, key)


def is_abandoned(grounds: Grounds, note: ResetNote) -> bool:
    """Whether it is so old that its move either happened or never will."""
    written = note_time(grounds, note.key)
    return written is not None and datetime.now(UTC) - written > _ABANDONED


def _save(grounds: Grounds, note: ResetNote) -> None:
    tables = {
        name: {"base": int(owed.base), "transaction": owed.uuid}
        for name, owed in sorted(note.tables.items())
    }
    save_note(grounds, note.key, {"from": note.before, "to": note.after, "tables": tables})


def _decoded(key: str, document: dict[str, Any]) -> ResetNote:
    before, tables = document.get("from"), document.get("tables")
    if not isinstance(tables, dict):
        raise broken(key, "does not say tables")
    return ResetNote(
        key,
        None if before is None else checked_commit(key, "from", before),
        checked_commit(key, "to", document.get("to")),
        {name: _owed(key, name, each) for name, each in tables.items()},
    )


def _owed(key: str, name: str, found: object) -> Owed:
    base = found.get("base") if isinstance(found, dict) else None
    uuid = found.get("transaction") if isinstance(found, dict) else None
    is_number = isinstance(base, int) and not isinstance(base, bool) and 0 <= base <= MAX_U64
    if not is_number or not (uuid is None or isinstance(uuid, str)):
        raise broken(key, f"what is owed to table {name!r} is {found!r:.80}")
    assert isinstance(base, int)
    return Owed(Version(base), uuid)

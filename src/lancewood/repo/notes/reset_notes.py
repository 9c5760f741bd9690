"""The note of a branch that is about to be moved: what its tables are to get afterwards.

The move of the ref is one step, the tables come after it one by one. So a note is left before the
move. Whether that happened is told by the history of the branch, and what is owed by its tip: a
table that it pins as the commit does which it was moved to. Once it pins it in another way, nothing
is owed any more. Whoever writes next pays (``settling``).
"""

from __future__ import annotations

import uuid as uuids
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from lancewood.git.hashes import Hash
from lancewood.git.history import is_ancestor
from lancewood.git.objects import Objects
from lancewood.model.ids import MAX_U64, Version
from lancewood.repo.grounds import Grounds
from lancewood.repo.notes.note_files import (
    broken,
    checked_commit,
    load_note,
    note_keys,
    note_time,
    quoted,
    remove_note,
    save_note,
)

_DIRECTORY = "resets"
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
    note = ResetNote(f"{_DIRECTORY}/{quoted(branch)}/{uuids.uuid4()}", before, after, dict(tables))
    _save(grounds, note)
    return note


def load_notes(grounds: Grounds, branch: str) -> Iterator[ResetNote]:
    """The notes of a branch; mostly none. Raises FormatError that names the file."""
    for key in note_keys(grounds, f"{_DIRECTORY}/{quoted(branch)}"):
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
    for key in note_keys(grounds, f"{_DIRECTORY}/{quoted(branch)}"):
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

"""The note of a branch that is to go, with the branches of its tables: where it was.

Once the ref is gone, nothing else leads to the commit that tells which tables there are.
"""

from __future__ import annotations

from collections.abc import Iterator

from lancewood.git.hashes import Hash
from lancewood.repo.grounds import Grounds
from lancewood.repo.notes.note_files import (
    checked_commit,
    load_note,
    note_keys,
    quoted,
    remove_note,
    save_note,
    unquoted,
)

_DIRECTORY = "leaving"


def leave_leaving(grounds: Grounds, branch: str, tip: Hash) -> None:
    """Note that a branch is about to go; it is on the disk afterwards."""
    save_note(grounds, _key(branch), {"commit": tip})


def load_leaving(grounds: Grounds, branch: str) -> Hash | None:
    """The commit that a branch was at; None if it was not to go. Raises FormatError."""
    key = _key(branch)
    document = load_note(grounds, key)
    return None if document is None else checked_commit(key, "commit", document.get("commit"))


def leaving_branches(grounds: Grounds) -> Iterator[str]:
    """The branches that were to go, and whose tables somebody has still to look at."""
    for key in note_keys(grounds, _DIRECTORY):
        yield unquoted(key.removeprefix(f"{_DIRECTORY}/"))


def forget_leaving(grounds: Grounds, branch: str) -> None:
    """All of it is gone."""
    remove_note(grounds, _key(branch))


def _key(branch: str) -> str:
    return f"{_DIRECTORY}/{quoted(branch)}"

"""Notes that a repository leaves for later writers, in files of its own beside git's.

A note is on the disk, whole, before what it speaks of happens. Knows where notes are and that they
are JSON, not what they say. Readers of commits never need one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from lancewood.errors import FormatError, NotFoundError
from lancewood.format.json_object import decode_object
from lancewood.git.hashes import Hash, is_hash
from lancewood.repo.grounds import Grounds
from lancewood.store.base import Store

NOTES_DIR = "lancewood"
"""The directory of notes in a repository."""
_MOST = 64 << 20
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
    return decode_object(data, name=name_of(key), most=_MOST)


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


def _store(grounds: Grounds) -> Store:
    return grounds.store_at("").at(NOTES_DIR)  # so that the directory itself is no link

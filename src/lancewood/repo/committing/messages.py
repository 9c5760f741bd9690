"""What a commit says: its message, checked, and the one line of it that is shown."""

from __future__ import annotations

import re

from lancewood.errors import InvalidInputError
from lancewood.git.hashes import Hash
from lancewood.git.objects import Commit

_REVERTS = re.compile(r"^This reverts commit ([0-9a-f]{64})\.$", re.MULTILINE)


def checked_message(message: object) -> str:
    """A commit message; raises InvalidInputError for what is none."""
    if not isinstance(message, str) or not message.strip():
        raise InvalidInputError(f"a commit needs a message, got {message!r}")
    if "\0" in message:
        raise InvalidInputError("a commit message cannot hold a NUL")
    return message


def first_line(message: str) -> str:
    """What one line shows of a message."""
    return message.strip().partition("\n")[0]


def revert_message(commit: Commit) -> str:
    """What a commit says that takes another one back: the words of git."""
    return f'Revert "{first_line(commit.message)}"\n\nThis reverts commit {commit.hash}.'


def reverted_in(message: str) -> list[Hash]:
    """The commits that a commit with such a message takes back."""
    return [Hash(each) for each in _REVERTS.findall(message)]

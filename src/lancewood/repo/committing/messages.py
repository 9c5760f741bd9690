"""What a commit says: its message, checked, and the one line of it that is shown."""

from __future__ import annotations

from lancewood.errors import InvalidInputError


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

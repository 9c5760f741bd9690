"""Who commits: the name and the address that a commit carries.

As git finds them: what the caller says, the environment, the repository's own configuration, the
user's ``~/.gitconfig``; and where nobody says anything the name of the account and of the machine.

What a commit says: its message, checked, and the one line of it that is shown.
"""

from __future__ import annotations

import getpass
import os
import re
import socket

from dulwich.config import StackedConfig

from lancewood.errors import InvalidInputError
from lancewood.git.hashes import Hash
from lancewood.git.objects import Commit, Signature
from lancewood.git.repository import GitRepository

_is_author = re.compile(r"\s*([^<>\n\0]*?)\s*<([^<>\s\0]*)>\s*").fullmatch


def author_of(git: GitRepository, author: str | None = None) -> Signature:
    """The signature of now; ``author`` is written as ``"Ada <ada@example.org>"``.

    Raises InvalidInputError for an author that is not.
    """
    if author is not None:
        return _sound(Signature.now(*checked_author(author)))
    name = os.environ.get("GIT_AUTHOR_NAME") or git.get("user", "name") or _account()
    email = (
        os.environ.get("GIT_AUTHOR_EMAIL")
        or git.get("user", "email")
        or f"{_account()}@{socket.gethostname()}"
    )
    return _sound(Signature.now(_plain(name), _plain(email)))


def author_here(author: str | None = None) -> Signature:
    """The same where there is no repository yet, or there are many: without the configuration of
    one."""
    if author is not None:
        return _sound(Signature.now(*checked_author(author)))
    settings = StackedConfig.default()
    name = os.environ.get("GIT_AUTHOR_NAME") or _setting(settings, b"name") or _account()
    email = (
        os.environ.get("GIT_AUTHOR_EMAIL")
        or _setting(settings, b"email")
        or f"{_account()}@{socket.gethostname()}"
    )
    return _sound(Signature.now(_plain(name), _plain(email)))


def _setting(settings: StackedConfig, key: bytes) -> str | None:
    try:
        return settings.get((b"user",), key).decode("utf-8", "replace")
    except KeyError:
        return None


def checked_author(author: object) -> tuple[str, str]:
    """The name and the address in ``"Ada <ada@example.org>"``; raises InvalidInputError."""
    found = _is_author(author) if isinstance(author, str) else None
    if found is None or not found[1]:
        raise InvalidInputError(
            f"author takes 'Name <address>', as in 'Ada <ada@example.org>', got {author!r}"
        )
    return found[1], found[2]


def _sound(by: Signature) -> Signature:
    """The signature itself; raises InvalidInputError for one that no commit can carry, before
    anything is done in its name."""
    by.encode()
    return by


def _account() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"


def _plain(text: str) -> str:
    """Without what would end the field in a commit, or be taken out of it."""
    text = text.encode("utf-8", "replace").decode()
    return re.sub(r"[<>\x00-\x1f\x7f]", "", text).strip() or "unknown"


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

"""Who commits, and what a commit says: authors and messages, checked.

An author is found as git does: from the caller, the environment, the repository's configuration,
the user's ``~/.gitconfig``, and else from the names of the account and the machine.
"""

from __future__ import annotations

import getpass
import os
import re
import socket
from collections.abc import Callable

from dulwich.config import StackedConfig

from lancewood.errors import InvalidInputError
from lancewood.git.objects import Commit, Signature
from lancewood.git.repository import GitRepository
from lancewood.git.values import Hash
from lancewood.model.refs import MAIN

_is_author = re.compile(r"\s*([^<>\n\0]*?)\s*<([^<>\s\0]*)>\s*").fullmatch
_REVERTS = re.compile(r"^This reverts commit ([0-9a-f]{64})\.$", re.MULTILINE)


def author_of(git: GitRepository, author: str | None = None) -> Signature:
    """The signature for a commit now; ``author`` is written as ``"Ada <ada@example.org>"``.

    Raises InvalidInputError for a malformed author.
    """
    return _signature(author, lambda key: git.get("user", key))


def author_here(author: str | None = None) -> Signature:
    """The signature for a commit now, with the user of git's settings outside of any repository."""
    return _signature(author, _user_setting)


def checked_author(author: object) -> tuple[str, str]:
    """The name and the address in ``"Ada <ada@example.org>"``; raises InvalidInputError."""
    found = _is_author(author) if isinstance(author, str) else None
    if found is None or not found[1]:
        raise InvalidInputError(
            f"author takes 'Name <address>', as in 'Ada <ada@example.org>', got {author!r}"
        )
    return found[1], found[2]


def _signature(author: str | None, setting: Callable[[str], str | None]) -> Signature:
    if author is not None:
        by = Signature.now(*checked_author(author))
    else:
        name = os.environ.get("GIT_AUTHOR_NAME") or setting("name") or _account()
        email = (
            os.environ.get("GIT_AUTHOR_EMAIL")
            or setting("email")
            or f"{_account()}@{socket.gethostname()}"
        )
        by = Signature.now(_plain(name), _plain(email))
    by.encode()  # raises for what no commit can carry, before anything is done in its name
    return by


def _user_setting(key: str) -> str | None:
    try:
        found = StackedConfig.default().get((b"user",), key.encode())
    except KeyError:
        return None
    return found.decode("utf-8", "replace")


def _account() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"


def _plain(text: str) -> str:
    """The text without characters that would end the field in a commit, or that git strips."""
    text = text.encode("utf-8", "replace").decode()
    return re.sub(r"[<>\x00-\x1f\x7f]", "", text).strip() or "unknown"


def checked_message(message: object, of: str = "a commit") -> str:
    """The message of a commit or an annotated tag; raises InvalidInputError if it is empty or no
    text."""
    if not isinstance(message, str) or not message.strip():
        raise InvalidInputError(f"{of} needs a message, got {message!r}")
    if "\0" in message:
        raise InvalidInputError(f"the message of {of} cannot hold a NUL")
    return message


def first_line(message: str) -> str:
    """The line of a message that is shown."""
    return message.strip().partition("\n")[0]


def merge_message(name: str, into: str, *, is_branch: bool) -> str:
    """The message of a merge, in git's words."""
    onto = "" if into == MAIN else f" into {into}"
    return f"Merge {'branch' if is_branch else 'commit'} '{name}'{onto}"


def revert_message(commit: Commit) -> str:
    """The message of a commit that reverts another, in git's words."""
    return f'Revert "{first_line(commit.message)}"\n\nThis reverts commit {commit.hash}.'


def reverted_in(message: str) -> list[Hash]:
    """The commits that a commit with this message reverts."""
    return [Hash(each) for each in _REVERTS.findall(message)]

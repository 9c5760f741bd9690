"""How a text says which version of a table is meant.

``exp`` is a tag or a branch, ``exp:`` the newest version of branch exp, ``exp:12`` a version of it,
``:12`` (or ``main:12``) a version of main, ``tag:v1`` the tag v1. So a name that is both a branch
and a tag is written as ``exp:`` or ``tag:exp``. The versions of a branch called tag cannot be named
by such a text. A uri carries one of these after an ``@``. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from lancewood.errors import FormatError, InvalidInputError
from lancewood.model.ids import MAX_U64, Version
from lancewood.model.refs import MAIN, BranchName, TagName

TAG_PREFIX = "tag"
_MOST_DIGITS = len(str(MAX_U64))
_AUTHORITY = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://[^/]*")
_ONLY_HERE = "memory://"


@dataclass(frozen=True, slots=True)
class OnBranch:
    """A version of a branch, or its newest one."""

    branch: BranchName | None
    """None means main."""
    version: Version | None = None

    def __str__(self) -> str:
        return f"{self.branch or MAIN}:{'' if self.version is None else self.version}"


@dataclass(frozen=True, slots=True)
class AtTag:
    """The version that a tag names."""

    tag: TagName

    def __str__(self) -> str:
        return f"{TAG_PREFIX}:{self.tag}"


@dataclass(frozen=True, slots=True)
class ByName:
    """The version that a tag names, or the newest of a branch: the table decides which."""

    branch: BranchName | None
    """None means main."""
    tag: TagName | None
    """The name of the tag; None for what cannot be one."""

    def __str__(self) -> str:
        return str(self.branch or MAIN)


Revision: TypeAlias = OnBranch | AtTag | ByName


def parse_revision(text: str) -> Revision:
    """What a text means; raises InvalidInputError for an invalid one."""
    if not isinstance(text, str):
        raise InvalidInputError(f"a revision is a text, got {text!r}")
    name, colon, rest = text.partition(":")
    if not text:
        raise InvalidInputError("the revision is empty; write a tag, a branch or branch:version")
    if not colon:
        return _by_name(name)
    if name == TAG_PREFIX and rest:
        return AtTag(tag_name(rest))
    branch = branch_name(name) if name else None
    if not rest:
        return OnBranch(branch)
    if not (rest.isascii() and rest.isdigit() and len(rest) <= _MOST_DIGITS) or not int(rest):
        raise InvalidInputError(
            f"revision {text!r} is not allowed: after the ':' comes the number of a version"
        )
    return OnBranch(branch, Version(int(rest)))


def branch_name(text: str) -> BranchName | None:
    """The branch that a caller names; None for main. Raises InvalidInputError."""
    return None if text == MAIN else _asked(BranchName, text)


def tag_name(text: str) -> TagName:
    """The tag that a caller names; raises InvalidInputError."""
    return _asked(TagName, text)


def split_uri(uri: str) -> Iterator[tuple[str, str]]:
    """Each way to split a uri at an ``@`` into a table and a revision, the first ``@`` first.

    The part before the path of a bucket's uri is never split: it may be ``container@account``, or
    hold a secret.
    """
    start = 0
    if not uri.startswith(_ONLY_HERE):
        authority = _AUTHORITY.match(uri)
        start = authority.end() if authority else 0
    at = uri.find("@", start)
    while at >= 0:
        if uri[:at] not in ("", _ONLY_HERE):
            yield uri[:at], uri[at + 1 :]
        at = uri.find("@", at + 1)


def _by_name(text: str) -> ByName:
    """Parse a name; raises InvalidInputError if it can be neither a branch nor a tag."""
    branch = branch_name(text)
    try:
        return ByName(branch, TagName.found(text))
    except FormatError:
        return ByName(branch, None)


_Name = TypeVar("_Name", BranchName, TagName)


def _asked(kind: type[_Name], text: str) -> _Name:
    """A name that a caller asks for: the table may hold names that we would not make."""
    if not isinstance(text, str):
        return kind(text)  # raises the reason
    try:
        return kind.found(text)
    except FormatError as cause:
        raise InvalidInputError(str(cause).replace("breaks the format", "is not allowed")) from None

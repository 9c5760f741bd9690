"""Names for versions of one table: branches and tags, what is recorded about each, and revisions.

A name is checked when it is made. What the format forbids is refused everywhere; what is merely
unwise is refused for new names, and read where another writer used it.

A text says which version is meant: ``exp`` is a tag or a branch, ``exp:`` the newest version of
branch exp, ``exp:12`` a version of it, ``:12`` (or ``main:12``) a version of main, ``tag:v1`` the
tag v1. So a name that is both a branch and a tag is written as ``exp:`` or ``tag:exp``. The
versions of a branch called tag cannot be named by such a text. A uri carries one after an ``@``.

Spec: "Branch and Tag Specification". Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, NamedTuple, Self, TypeAlias, TypeVar
from urllib.parse import quote

from lancewood.errors import FormatError, InvalidInputError
from lancewood.model.ids import MAX_U64, Version

MAIN = "main"
"""The name of the branch that every table has; records leave it out."""

RESERVED_SEGMENTS = frozenset(
    {"data", "tree", "_versions", "_transactions", "_deletions", "_indices", "_refs"}
)
"""Directories of a table: a branch ``p/data`` would be among the data files of ``p``."""

_PUNCTUATION = frozenset(".-_")
_is_plain = re.compile(r"[A-Za-z0-9._-]*").fullmatch
_MOST_BYTES = 211
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MOST_SECONDS = 253_402_300_799  # the last second of the year 9999
_LEAST_NS = -62_135_596_800 * 10**9  # the first moment of the year 1


class _RefName(str):
    """A valid name of a ref. ``found`` makes one from a name that is already in use."""

    __slots__ = ()
    _kind: ClassVar[str]

    def __new__(cls, text: str) -> Self:
        """Check a new name; raises InvalidInputError, which says which rule it breaks."""
        if not isinstance(text, str):
            raise InvalidInputError(f"a {cls._kind} name is a text, not {type(text).__name__}")
        why = _too_long(text) or cls._broken_rule(text) or cls._unwise(text)
        if why:
            raise InvalidInputError(f"{cls._kind} name {_quoted(text)} is not allowed: {why}")
        return str.__new__(cls, text)

    @classmethod
    def found(cls, text: str) -> Self:
        """A name that a table has already: the format's rules apply, ours for new names do not.

        Raises FormatError. Characters beyond ASCII are not judged: the writer decides what counts
        as a letter.
        """
        why = cls._broken_rule(text, is_new=False)
        if why:
            raise FormatError(f"{cls._kind} name {_quoted(text)} breaks the format: {why}")
        return str.__new__(cls, text)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).found, (str(self),)

    @classmethod
    def _broken_rule(cls, text: str, *, is_new: bool = True) -> str | None:
        raise NotImplementedError

    @classmethod
    def _unwise(cls, text: str) -> str | None:
        raise NotImplementedError


class BranchName(_RefName):
    """The name of a branch other than main; ``/`` separates its segments."""

    __slots__ = ()
    _kind = "branch"

    @classmethod
    def _broken_rule(cls, text: str, *, is_new: bool = True) -> str | None:
        if not text:
            return "it is empty"
        if text.startswith("/"):
            return "it starts with '/'"
        if text.endswith("/"):
            return "it ends with '/'"
        for each in ("//", "..", "\\"):
            if each in text:
                return f"it contains {each!r}"
        wrong = _wrong_character(text.replace("/", ""), is_new=is_new)
        if wrong is not None:
            return f"it contains {wrong!r}; letters, digits, '.', '-', '_' and '/' are allowed"
        if text.endswith(".lock"):
            return "it ends with '.lock'"
        if text == MAIN:
            return f"{MAIN!r} is the branch that every table has"
        if "." in text.split("/"):
            return "a segment is '.'"
        return None

    @classmethod
    def _unwise(cls, text: str) -> str | None:
        for each in text.split("/"):
            if each in RESERVED_SEGMENTS:
                return f"the segment {each!r} is the name of a directory that every table has"
        return None


class TagName(_RefName):
    """The name of a tag of a table.

    Tags of a repository follow git's rules (``git.names``). Which prefixes are kept for Lancewood
    itself is in ``jobs.refs.tags``.
    """

    __slots__ = ()
    _kind = "tag"

    @classmethod
    def _broken_rule(cls, text: str, *, is_new: bool = True) -> str | None:
        if not text:
            return "it is empty"
        if "/" in text:
            return "it contains '/', which only branch names may"
        wrong = _wrong_character(text, is_new=is_new)
        if wrong is not None:
            return f"it contains {wrong!r}; letters, digits, '.', '-' and '_' are allowed"
        if text.startswith("."):
            return "it starts with '.'"
        if text.endswith("."):
            return "it ends with '.'"
        if ".." in text:
            return "it contains '..'"
        if text.endswith(".lock"):
            return "it ends with '.lock'"
        return None

    @classmethod
    def _unwise(cls, text: str) -> str | None:
        # pylance 14 makes such a tag, and then cannot list any tag of the table.
        if not text.isascii():
            return "letters beyond ASCII stop pylance from listing the table's tags"
        return None


def called(branch: str | None) -> str:
    """A branch as text; None is main."""
    return MAIN if branch is None else f"branch {str(branch)!r}"


class BranchPoint(NamedTuple):
    """One step of a branch's descent: the version at which it forked from its parent, and a random
    id."""

    version: Version
    uuid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """What is recorded about a branch. Raises InvalidInputError for numbers out of range."""

    name: BranchName
    parent_branch: BranchName | None
    """None means main."""
    parent_version: Version
    created_at_seconds: int
    """Seconds since 1970."""
    manifest_size: int
    """A hint: the size of the manifest that it was made from, or of its own first one."""
    identifier: tuple[BranchPoint, ...] | None = None
    """The descent of the branch from main, itself last; None where the writer did not record it."""
    reset_in: Version | None = None
    """The version in which it was reset to the parent's version; None where it never was, or the
    writer did not record it."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    unknown: Mapping[str, Any] = field(default_factory=dict)
    """Unknown keys of the file, kept so that a rewrite does not lose them."""

    def __post_init__(self) -> None:
        _check_u64("parent version", self.parent_version)
        _check_u64("manifest size", self.manifest_size)
        _check_u64("version of the reset", self.reset_in or 0)
        for each in self.identifier or ():
            _check_u64("version in the identifier", each.version)
        if not 0 <= self.created_at_seconds <= _MOST_SECONDS:
            raise InvalidInputError(f"the time {self.created_at_seconds} is out of range")

    @property
    def created_at(self) -> datetime:
        return _EPOCH + timedelta(seconds=self.created_at_seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tag:
    """What is recorded about a tag. Raises InvalidInputError for numbers out of range."""

    name: TagName
    branch: BranchName | None
    """None means main."""
    version: Version
    manifest_size: int
    """A hint: the size of the manifest that it names."""
    created_at_ns: int | None = None
    """Nanoseconds since 1970; None where the writer did not record it."""
    updated_at_ns: int | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    unknown: Mapping[str, Any] = field(default_factory=dict)
    """Unknown keys of the file, kept so that a rewrite does not lose them."""

    def __post_init__(self) -> None:
        _check_u64("version", self.version)
        _check_u64("manifest size", self.manifest_size)
        for each in (self.created_at_ns, self.updated_at_ns):
            if each is not None and not _LEAST_NS <= each < (_MOST_SECONDS + 1) * 10**9:
                raise InvalidInputError(f"the time {each} is out of range")

    @property
    def created_at(self) -> datetime | None:
        """The time of creation, to the microsecond."""
        return _moment(self.created_at_ns)

    @property
    def updated_at(self) -> datetime | None:
        """The time of the last update, to the microsecond."""
        return _moment(self.updated_at_ns)


def _moment(ns: int | None) -> datetime | None:
    return None if ns is None else _EPOCH + timedelta(microseconds=ns // 1000)


def _check_u64(what: str, number: int) -> None:
    if not 0 <= number <= MAX_U64:
        raise InvalidInputError(f"the {what} {number} does not fit into an unsigned 64-bit integer")


def _wrong_character(text: str, *, is_new: bool) -> str | None:
    if _is_plain(text):
        return None
    for each in text:
        fits = each.isalnum() if is_new or each.isascii() else not "\ud800" <= each <= "\udfff"
        if not fits and each not in _PUNCTUATION:
            return each
    return None


def _too_long(text: str) -> str | None:
    """Why a name is too long: a ref is one file, file systems allow names of 255 bytes, and pylance
    needs 44 of them for the suffix and a temporary file; it can neither make nor change longer
    ones."""
    size = len(quote(text, safe="", errors="replace"))
    if size <= _MOST_BYTES:
        return None
    return f"it needs {size} bytes in the name of a file, {_MOST_BYTES} are allowed"


def _quoted(text: str) -> str:
    return repr(text if len(text) <= 100 else f"{text[:70]}…{text[-20:]}")


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

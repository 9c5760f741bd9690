"""Trees, commits, signatures and names of objects as values, and as the bytes that git hashes.

Pure functions in pairs. Knows nothing of where objects are kept. What comes from outside is
checked here: a name in a tree is one part of a path, never a way out of a directory; the name of an
object is a SHA-256 in 64 lower-case hexadecimal digits.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from typing import NewType, Self

from dulwich.errors import ObjectFormatException
from dulwich.objects import parse_tree

from lancewood.errors import FormatError, InvalidInputError
from lancewood.git.names import checked_tag, is_dot_git

_MOST_SECONDS = 2**63 - 1
LAST_OF_CALENDAR = 253_402_300_799
"""The last second of the year 9999, where calendars end; git counts further."""
_is_line = re.compile(rb"([^<>\n]*?) ?<([^<>\n]*)> (\d{1,19}) ([+-])(\d{2})(\d{2})").fullmatch
_is_unfit = re.compile(r"[<>\x00-\x1f\x7f]").search


@dataclass(frozen=True, slots=True)
class Signature:
    """A name, an address and a moment: seconds since 1970, and the zone's offset from UTC."""

    name: str
    email: str
    seconds: int
    offset_minutes: int

    @classmethod
    def now(cls, name: str, email: str) -> Self:
        """The moment of this machine's clock, in its zone."""
        seconds = int(time.time())
        return cls(name, email, seconds, time.localtime(seconds).tm_gmtoff // 60)

    def encode(self) -> bytes:
        """The line as git writes it; raises InvalidInputError for what git would not read back."""
        _check("name", self.name)
        _check("address", self.email)
        if not self.name:
            raise InvalidInputError("the name of an author is not allowed to be empty")
        if not 0 <= self.seconds <= _MOST_SECONDS:
            raise InvalidInputError(
                f"{self.seconds} is not a time that git can hold: it counts seconds since 1970"
            )
        if not -24 * 60 < self.offset_minutes < 24 * 60:
            raise InvalidInputError(
                f"{self.offset_minutes} minutes are not the offset of a time zone: "
                "it is less than a day"
            )
        sign = "-" if self.offset_minutes < 0 else "+"
        hours, minutes = divmod(abs(self.offset_minutes), 60)
        return f"{self.name} <{self.email}> {self.seconds} {sign}{hours:02}{minutes:02}".encode()

    @classmethod
    def decode(cls, line: bytes) -> Self:
        """Raises FormatError. A name that is not UTF-8 is read as well as it can be."""
        found = _is_line(line)
        if found is None:
            raise FormatError(f"{line[:200]!r} is not a name, an address and a time")
        name, email, seconds, sign, hours, minutes = found.groups()
        offset = int(hours) * 60 + int(minutes)
        return cls(
            name.decode("utf-8", "replace"),
            email.decode("utf-8", "replace"),
            int(seconds),
            -offset if sign == b"-" else offset,
        )


def _check(what: str, text: str) -> None:
    if not isinstance(text, str):
        raise InvalidInputError(f"the {what} of an author is a text, not {type(text).__name__}")
    if _is_unfit(text) or text != text.strip():
        raise InvalidInputError(
            f"the {what} {text!r} of an author is not allowed: it has a '<', a '>', a control "
            "character, or a space at one end"
        )
    try:
        text.encode()
    except UnicodeEncodeError as cause:
        raise InvalidInputError(f"the {what} {text!r} of an author is not UTF-8") from cause


FILE = 0o100644
PROGRAM = 0o100755
LINK = 0o120000
TREE = 0o040000
_SUBMODULE = 0o160000
_NEW = frozenset({FILE, PROGRAM, LINK, TREE})
_KNOWN = _NEW | {_SUBMODULE, 0o100664}

_NO_TEXT = frozenset({"idna", "punycode", "unicode_escape", "unicode-escape"})
"""Encodings of Python's that no text of git is in; some take for ever over a long one."""
_is_plain = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*").fullmatch
"""Whether a name cannot be mistaken for anything else; nearly all cannot."""


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """What a name in a tree leads to."""

    mode: int
    hash: Hash


@dataclass(frozen=True, slots=True)
class Commit:
    """One node of a history. ``message`` has no newline at its end."""

    hash: Hash
    tree: Hash
    parents: tuple[Hash, ...]
    author: Signature
    committer: Signature
    message: str


def encode_tree(entries: Mapping[str, TreeEntry]) -> bytes:
    """Raises InvalidInputError for a name or a mode that git refuses."""
    lines = [_line(name, entry.mode, entry.hash) for name, entry in entries.items()]
    lines.sort()
    return b"".join([line for _, line in lines])


@lru_cache(maxsize=1 << 14)
def _line(name: str, mode: int, hash: Hash) -> tuple[bytes, bytes]:
    """An entry, after what it is sorted by. Kept: most are in the next tree, too."""
    _check_name(name)
    if mode not in _NEW:
        raise InvalidInputError(f"mode {mode:o} of {name!r} is not one of a tree's")
    raw = name.encode("utf-8", "surrogateescape")
    # git compares the names of trees as if they ended with a slash
    key = raw + b"/" if mode == TREE else raw
    return key, b"%o %b\0%b" % (mode, raw, bytes.fromhex(checked_hash(hash)))


def decode_tree(data: bytes) -> dict[str, TreeEntry]:
    """Raises FormatError, also for a name that leads out of the tree."""
    entries: dict[str, TreeEntry] = {}
    try:
        for raw, mode, digest in parse_tree(data, 32):
            if raw in (b"", b".", b"..") or b"/" in raw:
                raise FormatError(f"{raw!r} is not a name in a tree")
            if mode not in _KNOWN:
                raise FormatError(f"mode {mode:o} of {raw!r} is not one of a tree's")
            name = raw.decode("utf-8", "surrogateescape")
            if name in entries:
                raise FormatError(f"{raw!r} is in the tree twice")
            entries[name] = TreeEntry(mode, Hash(digest.decode("ascii")))
    except (ObjectFormatException, ValueError, IndexError) as cause:
        raise FormatError(f"it does not read as a tree: {cause}") from cause
    return entries


def encode_commit(
    tree: Hash,
    parents: Sequence[Hash],
    author: Signature,
    committer: Signature,
    message: str,
) -> bytes:
    """Raises InvalidInputError for a text that git refuses. The message gets its last newline."""
    if "\0" in message:
        raise InvalidInputError("a commit message is not allowed to contain NUL")
    try:
        text = message.encode()
    except UnicodeEncodeError as cause:
        raise InvalidInputError(f"the commit message {message!r} is not UTF-8") from cause
    lines = [b"tree " + checked_hash(tree).encode()]
    lines += [b"parent " + checked_hash(each).encode() for each in parents]
    by = author.encode()
    lines += [b"author " + by]
    lines += [b"committer " + (by if committer is author else committer.encode())]
    body = text.rstrip(b"\n")
    return b"\n".join(lines) + b"\n\n" + (body + b"\n" if body else b"")


def decode_commit(hash: Hash, data: bytes) -> Commit:
    """Raises FormatError. Headers that we do not know, such as a signature, are left out."""
    head, _, text = data.partition(b"\n\n")
    lines = head.split(b"\n")
    tree = _hash_after(b"tree ", lines[0])
    at = 1
    parents = []
    while at < len(lines) and lines[at].startswith(b"parent "):
        parents.append(_hash_after(b"parent ", lines[at]))
        at += 1
    if len(lines) < at + 2 or not lines[at].startswith(b"author "):
        raise FormatError("it does not read as a commit: there is no author")
    if not lines[at + 1].startswith(b"committer "):
        raise FormatError("it does not read as a commit: there is no committer")
    author, committer = lines[at][7:], lines[at + 1][10:]
    by = Signature.decode(author)
    encoding = "utf-8"
    for line in lines[at + 2 :]:
        if line.startswith(b"encoding "):
            encoding = line[9:].decode("ascii", "replace")
    return Commit(
        hash,
        tree,
        tuple(parents),
        by,
        by if committer == author else Signature.decode(committer),
        _decoded(text, encoding).rstrip("\n"),
    )


def encode_tag(name: str, commit: Hash, by: Signature, message: str) -> bytes:
    """An annotated tag of a commit; raises InvalidInputError for a text that git refuses."""
    if "\0" in message:
        raise InvalidInputError("the message of a tag is not allowed to contain NUL")
    try:
        text = message.encode().rstrip(b"\n")
    except UnicodeEncodeError as cause:
        raise InvalidInputError(f"the message {message!r} of a tag is not UTF-8") from cause
    lines = [
        b"object " + checked_hash(commit).encode(),
        b"type commit",
        b"tag " + checked_tag(name).encode(),
        b"tagger " + by.encode(),
    ]
    return b"\n".join(lines) + b"\n\n" + (text + b"\n" if text else b"")


def decode_tag(data: bytes) -> Hash:
    """The object that an annotated tag names; raises FormatError."""
    return _hash_after(b"object ", data.partition(b"\n")[0])


def _hash_after(word: bytes, line: bytes) -> Hash:
    text = line[len(word) :].decode("ascii", "replace")
    if not line.startswith(word) or not is_hash(text):
        raise FormatError(f"{line[:200]!r} is not '{word.decode()}' and a hash of 64 digits")
    return Hash(text)


def _decoded(text: bytes, encoding: str) -> str:
    try:
        if encoding.lower() in _NO_TEXT:
            raise LookupError(encoding)
        return text.decode(encoding, "replace")
    except (LookupError, ValueError):
        return text.decode("utf-8", "replace")


def _check_name(name: str) -> None:
    why = None
    if isinstance(name, str) and _is_plain(name):
        return
    if not isinstance(name, str):
        why = "it is not a text"
    elif name in ("", ".", ".."):
        why = "it is not the name of a file"
    elif "/" in name or "\0" in name:
        why = "it contains '/' or NUL"
    elif is_dot_git(name):
        why = "git keeps it for itself"
    if why:
        raise InvalidInputError(f"{name!r} is not allowed as a name in a tree: {why}")
    try:
        name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as cause:
        raise InvalidInputError(f"{name!r} is not allowed as a name in a tree: UTF-8") from cause


Hash = NewType("Hash", str)

ZERO = Hash("0" * 64)
"""Stands where there is no object: before a ref was made, after it was deleted."""

_is_hash = re.compile(r"[0-9a-f]{64}").fullmatch


def is_hash(text: str) -> bool:
    """Whether a text is a full hash."""
    return _is_hash(text) is not None


def object_hash(kind: bytes, data: bytes) -> Hash:
    """The name that git gives an object with these bytes."""
    return Hash(sha256(b"%b %d\0%b" % (kind, len(data), data)).hexdigest())


def checked_hash(text: str) -> Hash:
    """The hash of an object; raises InvalidInputError for a text that names none."""
    if not isinstance(text, str) or not is_hash(text):
        raise InvalidInputError(
            f"{text!r} is not the full hash of an object: that is 64 lower-case hexadecimal digits"
        )
    if text == ZERO:
        raise InvalidInputError("64 zeros are the hash of no object")
    return Hash(text)

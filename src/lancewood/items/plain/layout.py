"""Reading and checking the plain layout: refs, HEAD, objects and the log.

``refs/heads/<name>`` and ``refs/tags/<name>`` hold the 64 digits of a snapshot. HEAD holds them
too, or ``ref: refs/heads/<name>``. A snapshot is the file ``objects/<digits>`` or ``objects/<first
two>/<the rest>``, named by the SHA-256 of its bytes.

ADR-019 does not mention ``log.jsonl``, but programs that use the layout write one: a JSON object
per line with ``op``, ``hash``, ``ref``, ``parent``, ``timestamp`` and ``label``.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256

from lancewood.errors import (
    FormatError,
    IntegrityError,
    InvalidInputError,
    NotFoundError,
    StorageError,
    UnsupportedError,
)
from lancewood.git.loose import MOST_BYTES
from lancewood.git.names import HEAD, HEADS, TAGS, checked_branch, checked_ref, checked_tag
from lancewood.git.ref_store import SYMBOLIC
from lancewood.git.values import LAST_OF_CALENDAR, is_hash
from lancewood.items.outcome import is_utf8
from lancewood.store.wholefile import read_file

LOG = "log.jsonl"
OURS = "refs/lancewood/"
_PARTS = (HEAD, "refs", "objects")
_is_fan = re.compile(r"[0-9a-f]{2}").fullmatch
_MOST_TEXT = 4096
_OPS = ("snapshot", "branch")


@dataclass(frozen=True, slots=True)
class PlainObject:
    """A snapshot and its file."""

    hash: str
    file: str
    size: int
    seconds: int
    """When the file was written, by its modification time."""

    def read(self) -> bytes:
        """The bytes of the file; raises IntegrityError if they do not match the name."""
        data = _read(self.file)
        if sha256(data).hexdigest() != self.hash:
            raise IntegrityError(
                f"{self.file} holds other bytes than its name says; bring it back from a copy",
                file=self.file,
            )
        return data


@dataclass(frozen=True)
class Plain:
    """One repository in the plain layout."""

    path: str
    head: str
    """The full name of a branch, or the hash of a snapshot."""
    refs: dict[str, str]
    """Hashes by full ref names, sorted."""
    objects: dict[str, PlainObject]
    """Snapshots by hash, sorted."""

    def log(self) -> bytes | None:
        """The bytes of ``log.jsonl``, if there is one."""
        try:
            return _read(f"{self.path}/{LOG}")
        except NotFoundError:
            return None


def read_plain(path: str) -> Plain:
    """The plain repository at a path. Does not read the bytes of objects.

    Raises NotFoundError if there is none, InvalidInputError for a git repository and for names that
    git refuses, and FormatError for anything unreadable.
    """
    missing = [each for each in _PARTS if not os.path.lexists(f"{path}/{each}")]
    if missing:
        raise NotFoundError(
            f"there is no plain repository at {path}: {', '.join(missing)} not found", path=path
        )
    if os.path.lexists(f"{path}/config") or os.path.lexists(f"{path}/objects/pack"):
        raise InvalidInputError(
            f"{path} is a git repository, not one in the plain layout: open it as it is", path=path
        )
    objects = {each.hash: each for each in sorted(_objects(path), key=lambda each: each.hash)}
    refs = dict(sorted(_refs(path)))
    head = _head(path)
    for name, hash in (*refs.items(), *(((HEAD, head),) if is_hash(head) else ())):
        if hash not in objects:
            raise FormatError(
                f"{path}/{name} names snapshot {hash}, which is not among the objects",
                file=f"{path}/{name}",
            )
    return Plain(path, head, refs, objects)


def _head(path: str) -> str:
    text = _text(f"{path}/{HEAD}")
    if is_hash(text):
        return text
    if text.startswith("ref:"):
        target = text.removeprefix(SYMBOLIC.strip()).strip()
        if target.startswith(HEADS):
            checked_branch(target.removeprefix(HEADS))
            return target
    raise FormatError(
        f"{path}/{HEAD} holds {text[:100]!r}, which is neither 'ref: refs/heads/' and a name nor a "
        "hash of 64 digits",
        file=f"{path}/{HEAD}",
    )


def _refs(path: str) -> Iterator[tuple[str, str]]:
    for name in _files(path, "refs"):
        _check_name(path, name)
        text = _text(f"{path}/{name}")
        if not is_hash(text):
            raise FormatError(
                f"{path}/{name} holds {text[:100]!r}, which is not a hash of 64 lower-case "
                "hexadecimal digits",
                file=f"{path}/{name}",
            )
        yield name, text


def _check_name(path: str, name: str) -> None:
    try:
        if name.startswith(HEADS):
            checked_branch(name.removeprefix(HEADS))
        elif name.startswith(TAGS):
            checked_tag(name.removeprefix(TAGS))
        checked_ref(name)
        if f"{name}/".startswith(OURS):
            raise InvalidInputError(f"refs below {OURS} are what an import keeps for itself")
    except InvalidInputError as refused:
        raise InvalidInputError(
            f"{path}/{name}: {refused.message}; rename it, or take it away",
            **{**refused.facts, "file": f"{path}/{name}"},
        ) from refused


def _objects(path: str) -> Iterator[PlainObject]:
    for name in _files(path, "objects"):
        _, *parts = name.split("/")
        hash = "".join(parts)
        is_named = len(parts) == 1 or (len(parts) == 2 and _is_fan(parts[0]))
        file = f"{path}/{name}"
        if not is_named or not is_hash(hash):
            raise FormatError(
                f"{file} is not named by a SHA-256: objects/<64 digits> or "
                "objects/<2 digits>/<62 digits>",
                file=file,
            )
        try:
            found = os.lstat(file)
        except OSError as cause:
            raise StorageError(f"cannot read {file}: {cause.strerror}", file=file) from cause
        if found.st_size > MOST_BYTES:
            raise UnsupportedError(
                f"{file} has {found.st_size} bytes, {MOST_BYTES} is the most", file=file
            )
        yield PlainObject(hash, file, found.st_size, max(0, int(found.st_mtime)))


def _files(path: str, directory: str) -> Iterator[str]:
    """The files below a directory, relative to ``path``; raises FormatError for links and such."""
    stack = [directory]
    while stack:
        at = stack.pop()
        try:
            with os.scandir(f"{path}/{at}") as entries:
                for each in entries:
                    name = f"{at}/{each.name}"
                    if each.is_dir(follow_symlinks=False):
                        stack.append(name)
                    elif each.is_file(follow_symlinks=False):
                        yield name
                    else:
                        raise FormatError(
                            f"{path}/{name} is no plain file: a link, or the like",
                            file=f"{path}/{name}",
                        )
        except OSError as cause:
            raise StorageError(f"cannot list {path}/{at}: {cause.strerror}") from cause


def _text(file: str) -> str:
    return _read(file, _MOST_TEXT).decode("utf-8", "replace").strip()


def _read(file: str, most: int | None = None) -> bytes:
    try:
        return read_file(file, 0, most)
    except (FileNotFoundError, NotADirectoryError) as cause:
        raise NotFoundError(f"there is no file {file}", file=file) from cause
    except OSError as cause:
        raise StorageError(f"cannot read {file}: {cause.strerror}", file=file) from cause


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line about a new snapshot or a new branch."""

    op: str
    hash: str
    ref: str
    parent: str | None
    seconds: int | None
    label: str | None


def log_lines(data: bytes, file: str) -> Iterator[LogLine]:
    """The lines about snapshots and branches, oldest first; other lines are skipped.

    A last line without a newline was cut off, and is ignored. Raises FormatError that names the
    line.
    """
    *lines, _ = data.split(b"\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            found = json.loads(line)
        except (ValueError, RecursionError) as cause:
            raise FormatError(
                f"{file}, line {number}: it is not JSON: {cause}", file=file
            ) from cause
        if not isinstance(found, dict):
            raise FormatError(f"{file}, line {number}: it is not a JSON object", file=file)
        made = _line(found)
        if made is not None:
            yield made


def _line(found: dict[str, object]) -> LogLine | None:
    op, hash, ref = found.get("op"), found.get("hash"), found.get("ref")
    if op not in _OPS or not isinstance(hash, str) or not is_hash(hash) or not isinstance(ref, str):
        return None
    parent, label = found.get("parent"), found.get("label")
    is_message = isinstance(label, str) and label.strip() and "\0" not in label and is_utf8(label)
    return LogLine(
        str(op),
        hash,
        ref,
        parent if isinstance(parent, str) and is_hash(parent) else None,
        _seconds(found.get("timestamp")),
        str(label) if is_message else None,
    )


def _seconds(text: object) -> int | None:
    if not isinstance(text, str):
        return None
    try:
        when = datetime.fromisoformat(text)
        when = when if when.tzinfo is not None else when.replace(tzinfo=UTC)
        seconds = int(when.timestamp())
    except (ValueError, OverflowError):
        return None
    return seconds if 0 <= seconds <= LAST_OF_CALENDAR else None

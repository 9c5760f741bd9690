"""What ``log.jsonl`` tells of the history of plain snapshots: which followed which, and when.

The ADR does not speak of it, but programs that keep its layout write one: a JSON object a line,
with ``op``, ``hash``, ``ref``, ``parent``, ``timestamp`` and ``label``. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from lancewood.errors import FormatError
from lancewood.git.hashes import is_hash
from lancewood.git.signature import LAST_OF_CALENDAR

_OPS = ("snapshot", "branch")


@dataclass(frozen=True, slots=True)
class LogLine:
    """A snapshot that was made, or a branch."""

    op: str
    hash: str
    ref: str
    parent: str | None
    seconds: int | None
    label: str | None


def log_lines(data: bytes, file: str) -> Iterator[LogLine]:
    """The lines that make history, oldest first; others are passed over. A last line without its
    newline was cut off, and is left out. Raises FormatError that names the line."""
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
    return LogLine(
        str(op),
        hash,
        ref,
        parent if isinstance(parent, str) and is_hash(parent) else None,
        _seconds(found.get("timestamp")),
        label if isinstance(label, str) and _is_message(label) else None,
    )


def _is_message(label: str) -> bool:
    try:
        label.encode()
    except UnicodeEncodeError:
        return False
    return bool(label.strip()) and "\0" not in label


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

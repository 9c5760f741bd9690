"""A manifest file with other base paths, and no other byte changed.

Works on the bytes, field by field, because a message that is decoded and encoded again may have
another order. What a newer writer put there stays in place. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from lancewood.errors import FormatError
from lancewood.format.manifest_file import change_manifest_section
from lancewood.format.varint import encode_varint
from lancewood.proto import table_pb2

_LENGTH_PREFIXED = 2
_BASE_PATHS = table_pb2.Manifest.BASE_PATHS_FIELD_NUMBER << 3 | _LENGTH_PREFIXED
_PATH = table_pb2.BasePath.PATH_FIELD_NUMBER << 3 | _LENGTH_PREFIXED
_FRAGMENT = table_pb2.Manifest.FRAGMENTS_FIELD_NUMBER << 3 | _LENGTH_PREFIXED
_FIXED = {1: 8, 5: 4}


def relocated_manifest(data: bytes, moved: Mapping[str, str], *, name: str) -> bytes:
    """The file with new paths for the base paths that ``moved`` lists; unchanged if it has none.

    Raises FormatError, naming the file, for one whose bytes cannot be parsed.
    """

    def change(section: bytes) -> bytes:
        new = _replaced(section, _BASE_PATHS, lambda base: _with_path(base, moved, name), name)
        _check(section, new, moved, name)
        return new

    return change_manifest_section(data, change, name=name)


def _with_path(base: bytes, moved: Mapping[str, str], name: str) -> bytes:
    def change(path: bytes) -> bytes:
        new = moved.get(path.decode(errors="replace"))
        return path if new is None else new.encode()

    return _replaced(base, _PATH, change, name)


def _replaced(message: bytes, tag: int, change: Callable[[bytes], bytes], name: str) -> bytes:
    """A message with the content of every field that has this tag replaced."""
    parts: list[bytes] = []
    done = 0
    for at, start, end in _fields(message, tag, name):
        old = message[start:end]
        new = change(old)
        if new != old:
            parts += (message[done:at], encode_varint(tag), encode_varint(len(new)), new)
            done = end
    return b"".join((*parts, message[done:]))


class _Field(NamedTuple):
    at: int
    """Where the tag begins."""
    start: int
    """Where the content begins."""
    end: int


def _fields(message: bytes, tag: int, name: str) -> Iterator[_Field]:
    """The fields that have this tag."""
    at, size = 0, len(message)
    while at < size:
        if message[at] == _FRAGMENT and at + 2 < size and message[at + 2] < 0x80 <= message[at + 1]:
            at += 3 + (
                message[at + 1] & 0x7F | message[at + 2] << 7
            )  # the common case, a hundred thousand times
            continue
        found, start = _number(message, at, name)
        kind = found & 7
        if kind == _LENGTH_PREFIXED:
            length, start = _number(message, start, name)
            end = start + length
        elif kind == 0:
            _, end = _number(message, start, name)
        elif kind in _FIXED:
            end = start + _FIXED[kind]
        else:
            raise FormatError(f"{name}: the manifest has a field of kind {kind}", file=name)
        if end <= size and found == tag:
            yield _Field(at, start, end)
        at = end
    if at > size:
        raise FormatError(f"{name}: a field of the manifest has no end", file=name)


def _number(message: bytes, at: int, name: str) -> tuple[int, int]:
    value = shift = 0
    for position in range(at, min(at + 10, len(message))):
        byte = message[position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position + 1
        shift += 7
    raise FormatError(f"{name}: a number in the manifest has no end", file=name)


def _check(old: bytes, new: bytes, moved: Mapping[str, str], name: str) -> None:
    """Check that the new bytes say the same as the old ones, except for the paths."""
    expected = table_pb2.Manifest.FromString(old)
    for base in expected.base_paths:
        base.path = moved.get(base.path, base.path)
    if table_pb2.Manifest.FromString(new) != expected:
        raise FormatError(f"{name}: its base paths are written in an unknown way", file=name)

"""Paths and uris of the file, as they are from anywhere.

Relative ones are against the directory of the file. What has a scheme stays as it is written.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from lancewood.errors import InvalidInputError

_WILD = re.compile(r"[{}\[\]*?\\]")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_has_scheme = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/").match


def resolved(folder: Path, place: str) -> str:
    """The path in full, or the uri; wild cards stay. Raises InvalidInputError for ``~``."""
    if is_uri(place):
        return place
    if place == "~" or place.startswith("~/"):
        raise InvalidInputError(
            f"{place!r}: '~' is not replaced; write the path in full, or relative to the file"
        )
    return os.path.normpath(folder / place)


def resolved_pattern(folder: Path, place: str) -> str:
    """The same for a path that may have wild cards: the directory of the file has none, whatever
    it is called."""
    return resolved(Path(literal(str(folder))), place)


def resolved_path(folder: Path, place: str) -> str:
    """The same for what has to be on a disk of this machine."""
    if is_uri(place):
        raise InvalidInputError(f"takes a path on a disk of this machine, got {place!r}")
    return resolved(folder, place)


def literal(path: str) -> str:
    """A path as Spark takes it for itself, whatever wild cards are in it."""
    return _WILD.sub(r"\\\g<0>", path)


def single_path(pattern: str) -> str | None:
    """The one path that a pattern stands for, as it is on the disk; None if it has wild cards."""
    has_wild_cards = _WILD.search(_ESCAPED.sub("", pattern)) is not None
    return None if has_wild_cards else _ESCAPED.sub(r"\1", pattern)


def is_uri(place: str) -> bool:
    """Whether it begins with a scheme: ``s3://``, ``file:/``."""
    return _has_scheme(place) is not None

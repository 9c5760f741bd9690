"""The names of objects: SHA-256 in 64 lower-case hexadecimal digits.

Knows what such a name looks like. Does not know what it names, or whether that exists.
"""

from __future__ import annotations

import re
from typing import NewType

from lancewood.errors import InvalidInputError

Hash = NewType("Hash", str)

ZERO = Hash("0" * 64)
"""Stands where there is no object: before a ref was made, after it was deleted."""

_is_hash = re.compile(r"[0-9a-f]{64}").fullmatch


def is_hash(text: str) -> bool:
    """Whether a text is a full hash."""
    return _is_hash(text) is not None


def checked_hash(text: str) -> Hash:
    """The hash of an object; raises InvalidInputError for a text that names none."""
    if not isinstance(text, str) or not is_hash(text):
        raise InvalidInputError(
            f"{text!r} is not the full hash of an object: that is 64 lower-case hexadecimal digits"
        )
    if text == ZERO:
        raise InvalidInputError("64 zeros are the hash of no object")
    return Hash(text)

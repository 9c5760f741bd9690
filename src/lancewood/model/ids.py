"""The integers of the format, distinguished by type.

A row id, a row address and a row offset are three different things, and mixing them up loses rows.
"""

from __future__ import annotations

from typing import NewType

Version = NewType("Version", int)
FragmentId = NewType("FragmentId", int)
FieldId = NewType("FieldId", int)
BaseId = NewType("BaseId", int)

DETACHED_BIT = 1 << 63
MAX_U64 = (1 << 64) - 1


def is_detached(version: Version) -> bool:
    """Whether the number names a detached version, which is never the newest one."""
    return version & DETACHED_BIT != 0


def version_words(version: int) -> str:
    """A version for people, to whom the number of a detached one says nothing.

    >>> version_words(7), version_words(DETACHED_BIT + 7)
    ('version 7', 'a detached state')
    """
    return "a detached state" if is_detached(Version(version)) else f"version {version}"

"""How far a stream has read a table: the offsets that Spark keeps in its checkpoint.

A version is read as the rows that it brought, the first one perhaps as the whole table. Offsets
are small maps of numbers. What comes back from a checkpoint is input from outside, and is checked.
Knows no table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from lancewood.errors import InvalidInputError
from lancewood.model.ids import Version

OffsetMap: TypeAlias = dict[str, Any]
"""What Spark writes down as JSON."""

_BEGINNING = {"begin": True}
_KEYS = {"version", "index", "after", "origin", "whole"}
_MOST = (1 << 63) - 1
_LONGEST = 100


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a stream began. Every offset carries it: asked again after a crash, "the newest
    version" would be another one."""

    version: Version
    is_whole: bool
    """Whether the first version is read as the whole table, not as what it brought."""


@dataclass(frozen=True, slots=True)
class Offset:
    """All versions before ``version`` are read, and ``index`` rows of it."""

    version: Version
    index: int
    origin: Origin
    after: str = ""
    """The identity of the newest version that was read from, by which a table is known again;
    empty for a stream that has read none, or where a version has no identity."""

    @classmethod
    def start(cls, origin: Origin) -> Offset:
        return cls(origin.version, 0, origin)

    @property
    def newest_read(self) -> Version:
        """The version that ``after`` is of."""
        return self.version if self.index else Version(self.version - 1)

    @property
    def is_in_whole(self) -> bool:
        """Whether the rows of ``version`` are those of the whole table."""
        return self.origin.is_whole and self.version == self.origin.version

    def within(self, index: int, uuid: str) -> Offset:
        """The offset after ``index`` rows of the version, which that transaction made."""
        return replace(self, index=index, after=uuid)

    def past(self, uuid: str) -> Offset:
        """The offset after all rows of the version, which that transaction made."""
        return Offset(Version(self.version + 1), 0, self.origin, uuid)

    def is_before(self, other: Offset) -> bool:
        return (self.version, self.index) < (other.version, other.index)

    def encode(self) -> OffsetMap:
        return {
            "version": self.version,
            "index": self.index,
            "after": self.after,
            "origin": self.origin.version,
            "whole": self.origin.is_whole,
        }


def beginning() -> OffsetMap:
    """The offset before a stream's first: it names no version yet."""
    return dict(_BEGINNING)


def decode_offset(found: object) -> Offset | None:
    """The offset that a map spells; None for the beginning.

    Raises InvalidInputError for what is no offset of ours.
    """
    if found == _BEGINNING:
        return None
    if not isinstance(found, Mapping) or set(found) != _KEYS:
        raise _odd(found, f"it is not made of {', '.join(sorted(_KEYS))}")
    for name, least in (("version", 1), ("index", 0), ("origin", 1)):
        if type(found[name]) is not int or not least <= found[name] <= _MOST:
            raise _odd(found, f"{name} is not a whole number from {least}")
    if type(found["whole"]) is not bool:
        raise _odd(found, "whole is neither true nor false")
    if not isinstance(found["after"], str) or len(found["after"]) > _LONGEST:
        raise _odd(found, "after is no identity")
    if found["version"] < found["origin"]:
        raise _odd(found, "it lies before its origin")
    origin = Origin(Version(found["origin"]), found["whole"])
    return Offset(Version(found["version"]), found["index"], origin, found["after"])


def _odd(found: object, why: str) -> InvalidInputError:
    return InvalidInputError(
        f"{str(found)[:200]!r} is no offset of a Lance table: {why}. The checkpoint is another "
        "source's, or damaged; bring it back, or start the query with a new checkpointLocation"
    )

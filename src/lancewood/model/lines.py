"""Lines, what a state of a table holds of them, and the row ids that each hands out by itself.

A line is one life of a branch: from where it was made, or reset, on. Its identity is in the
configuration of all its versions, with the name of its branch: pylance copies configurations into
branches that it makes, so it counts only on the branch that it names. Main is a line by itself.

A line that Lancewood made hands out row ids from a space of its own. So two rows with one id, on
whatever branches, are one row. Branches that other writers or an older Lancewood made go on where
their parent was, and hand out the same ids as others.

What a state holds is a version of each line that it comes from, or that was merged into it. What a
transaction of a repository left of one table are states without a line, detached, until they land
on a branch as ordinary versions, each at most once, whichever process does it. Plain values;
``engine.staging`` does the landing.
"""

from __future__ import annotations

import re
import uuid as uuids
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from lancewood.errors import InvalidInputError, UnsupportedError
from lancewood.model.ids import MAX_U64, Version, is_detached
from lancewood.model.refs import MAIN

if TYPE_CHECKING:
    from lancewood.model.manifest import ManifestHead

LINE_KEY = "lancewood.line"
"""In every version of a line but main: ``<uuid>:<first version>:<branch>``."""
MERGED_KEY = "lancewood.merged"
"""In every version that holds other lines: ``<line>:<version>:<branch> …``."""
MAIN_LINE = MAIN
"""The identity of the line that every table has."""

SPACE_BITS = 36
"""A space is this many bits of row ids; a table begins in space 0."""
MOST_SPACES = 1 << (63 - SPACE_BITS)
"""All row ids are below 2^63: Spark's numbers have a sign."""
_STRIDE = 1024
"""Spaces are chosen at random among so many, so that two copies of a table that cannot see each
other rarely choose the same."""

_AT = r":([0-9]{1,20}):([^\s:]+)"
_is_line = re.compile(rf"([0-9a-f]{{32}}){_AT}").fullmatch
_is_held = re.compile(rf"([0-9a-f]{{32}}|{MAIN_LINE}|/[^\s:]+){_AT}").fullmatch


@dataclass(frozen=True, slots=True)
class Line:
    """One life of a branch."""

    uuid: str
    """Empty for a line that hands out the same row ids as others."""
    first: Version
    """The version it began with; 0 if that is unknown."""
    branch: str | None
    """None is main."""

    @property
    def id(self) -> str:
        """What vectors call it; one without an identity is known by its branch."""
        return self.uuid or f"/{self.branch}"

    def encode(self) -> str:
        """The value of ``LINE_KEY``."""
        return f"{self.uuid}:{self.first}:{self.branch}"


class Reached(NamedTuple):
    """How far a line is held: all of it up to a version."""

    version: Version
    branch: str | None
    """Where the version was when this was recorded: a hint, as branches are renamed. None is
    main."""


Vector: TypeAlias = Mapping[str, Reached]
"""What a state holds, by the ids of lines."""


def line_of(head: ManifestHead) -> Line:
    """The line of a version."""
    if head.branch is None:
        return Line(MAIN_LINE, Version(0), None)
    found = _is_line(head.message.config.get(LINE_KEY, ""))
    if found is None or found[3] != head.branch or int(found[2]) > MAX_U64:
        return Line("", Version(0), head.branch)
    return Line(found[1], Version(int(found[2])), head.branch)


def has_own_ids(head: ManifestHead) -> bool:
    """Whether the line of a version hands out row ids that no other line does."""
    return line_of(head).uuid != ""


def held_by(head: ManifestHead) -> Vector:
    """What a version holds, according to itself: its own line, and what is recorded of others.

    A line without an identity has not recorded its parent. A detached version is on no line.
    """
    merged = decode_vector(head.message.config.get(MERGED_KEY, ""))
    if is_detached(head.version):
        return merged
    line = line_of(head)
    return joined(merged, {line.id: Reached(head.version, line.branch)})


def history_of(head: ManifestHead) -> frozenset[tuple[str, Version]]:
    """What a version holds, as a value: two with the same history have the same rows. The first
    version of a line is what the line began from."""
    line = line_of(head)
    is_begun = line.first == head.version
    return frozenset(
        (each, reached.version)
        for each, reached in held_by(head).items()
        if not (is_begun and each == line.id)
    )


def holds(head: ManifestHead, other: ManifestHead) -> bool:
    """Whether a version holds another one, according to itself."""
    reached = held_by(head).get(line_of(other).id)
    return reached is not None and reached.version >= other.version


def joined(one: Vector, other: Vector) -> dict[str, Reached]:
    """What a state holds that holds both: the later version of each line."""
    found = dict(one)
    for line, reached in other.items():
        known = found.get(line)
        if known is None or known.version <= reached.version:
            found[line] = reached
    return found


def encode_vector(vector: Vector) -> str:
    """The value of ``MERGED_KEY``."""
    return " ".join(
        f"{line}:{reached.version}:{reached.branch or MAIN}"
        for line, reached in sorted(vector.items())
    )


def decode_vector(text: str) -> dict[str, Reached]:
    """The vector in a text; parts that cannot be read are ignored."""
    found: dict[str, Reached] = {}
    for match in filter(None, map(_is_held, text.split(" "))):
        line, version, branch = match[1], Version(int(match[2])), match[3]
        known = found.get(line)
        if version <= MAX_U64 and (known is None or known.version <= version):
            found[line] = Reached(version, None if branch == MAIN else branch)
    return found


def merged_into(head: ManifestHead, held: Vector) -> str:
    """The value of ``MERGED_KEY`` in the version after ``head`` that takes over what is held."""
    found = joined(held_by(head), held)
    found.pop(line_of(head).id, None)
    return encode_vector(found)


def line_config(config: Mapping[str, str], line: Line | None, merged: Vector) -> dict[str, str]:
    """A configuration of another line, or of one without an identity, that holds ``merged``."""
    kept = {key: value for key, value in config.items() if key not in (LINE_KEY, MERGED_KEY)}
    if line is not None:
        kept[LINE_KEY] = line.encode()
    return kept | {MERGED_KEY: encode_vector(merged)}


def space_of(row_id: int) -> int:
    """The space of a row id."""
    return row_id >> SPACE_BITS


def first_id(space: int) -> int:
    """The first row id of a space."""
    return space << SPACE_BITS


def next_space(claimed: int, mark: int, rng: Random) -> int:
    """A space above the highest that is claimed, and above that of a mark of row ids.

    Raises UnsupportedError if none is left.
    """
    found = 1 + max(claimed, space_of(mark)) + rng.randrange(_STRIDE)
    if found >= MOST_SPACES:
        raise UnsupportedError(
            f"the table has used up its {MOST_SPACES:,} spaces of row ids; copy its rows to a new "
            "table"
        )
    return found


@dataclass(frozen=True)
class Landing:
    """The detached versions of one transaction on one table, oldest first.

    Raises InvalidInputError for invalid numbers and texts.
    """

    base: Version
    """The version of the branch that the first step was built on; 0 for a new table."""
    uuid: str
    """The identity of the transaction; its steps have those of ``Transaction.steps``."""
    steps: tuple[Version, ...]

    def __post_init__(self) -> None:
        if not _is_number(self.base) or is_detached(self.base):
            raise InvalidInputError(
                f"a landing starts from a version of the history or from 0, got {self.base!r}"
            )
        try:
            is_same = str(uuids.UUID(self.uuid)) == self.uuid
        except (ValueError, TypeError, AttributeError):
            is_same = False
        if not is_same:
            raise InvalidInputError(f"a landing is known by a uuid, got {self.uuid!r}")
        if not self.steps:
            raise InvalidInputError("a landing has at least one step, none was given")
        for each in self.steps:
            if not _is_number(each) or not is_detached(each):
                raise InvalidInputError(
                    f"the steps of a landing are detached versions, {each!r} is none"
                )
        if len(set(self.steps)) != len(self.steps):
            raise InvalidInputError(f"two steps of landing {self.uuid} are the same version")

    @property
    def version(self) -> Version:
        """The detached version that holds all steps."""
        return self.steps[-1]

    @cached_property
    def uuids(self) -> tuple[str, ...]:
        """The identity of each step, and of the version that it becomes."""
        from lancewood.model.transaction import step_uuid

        return tuple(step_uuid(self.uuid, number) for number in range(len(self.steps)))

    def exact_version(self, number: int) -> Version:
        """The version that a step becomes if nobody else writes in between; the first step is 0."""
        return Version(self.base + number + 1)

    @property
    def last_exact_version(self) -> Version:
        """The version that the last step becomes under the same condition."""
        return self.exact_version(len(self.steps) - 1)


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_U64

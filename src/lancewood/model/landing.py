"""What one transaction of a repository left of one table, until it is part of the table's history.

Its states are detached versions. Landing brings them onto the branch as ordinary versions, each at
most once, whichever process does it. Plain values; ``engine.staging`` does the landing.
"""

from __future__ import annotations

import uuid as uuids
from dataclasses import dataclass
from functools import cached_property

from lancewood.errors import InvalidInputError
from lancewood.model.ids import MAX_U64, Version, is_detached


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

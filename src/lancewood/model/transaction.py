"""A transaction: what one commit did, on which version, under which identity.

A list of operations becomes consecutive versions; ``steps`` splits it into one transaction each.
"""

from __future__ import annotations

import uuid as uuids
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from lancewood.errors import InvalidInputError
from lancewood.model.ids import Version, is_detached
from lancewood.model.operations import Operation, operation_name

MESSAGE_PROPERTY = "__lance_commit_message"
RESERVED = "lancewood."
"""The prefix of properties that Lancewood itself sets."""
MARKS_PROPERTY = "lancewood.marks"
"""Marks a version in which every row recorded as changed really got other values, whatever its
operation records."""
MOVED_PROPERTY = "lancewood.moved"
"""Marks an Update that only moved data files; set when it is encoded."""
EXACT_PROPERTY = "lancewood.exact"
"""The reason why a staged step can follow only the version that it was built on."""
STAGED_PROPERTY = "lancewood.staged"
"""Marks a version made by a transaction of a repository: the identity of all its steps."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """One operation, or a list of them that becomes consecutive versions."""

    read_version: Version
    uuid: str
    operations: tuple[Operation, ...]
    properties: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def new(
        cls,
        read_version: Version,
        *operations: Operation,
        message: str | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> Transaction:
        """A transaction with a fresh identity."""
        if not operations:
            raise InvalidInputError("a transaction needs at least one operation, none was given")
        return cls(
            read_version, str(uuids.uuid4()), operations, commit_properties(message, properties)
        )

    @property
    def operation(self) -> Operation:
        """The only operation; raises InvalidInputError for a list."""
        if len(self.operations) != 1:
            names = ", ".join(operation_name(each) for each in self.operations)
            raise InvalidInputError(f"this transaction is a list of operations: {names}")
        return self.operations[0]

    @property
    def message(self) -> str | None:
        """The commit message that its author gave."""
        return self.properties.get(MESSAGE_PROPERTY)

    @property
    def user_properties(self) -> dict[str, str]:
        """The properties without the commit message."""
        return {key: value for key, value in self.properties.items() if key != MESSAGE_PROPERTY}

    def steps(self) -> tuple[Transaction, ...]:
        """One transaction per version to be written.

        The first keeps the uuid, the others get uuids derived from it, so that a crash in the
        middle of a list can be recognised afterwards.
        """
        if len(self.operations) == 1:
            return (self,)
        return tuple(
            replace(self, uuid=step_uuid(self.uuid, number), operations=(operation,))
            for number, operation in enumerate(self.operations)
        )

    def rebased(self, read_version: Version) -> Transaction:
        """This transaction, built on another version."""
        return replace(self, read_version=read_version)


def step_uuid(uuid: str, number: int) -> str:
    """The identity of one step of a transaction; the first one has that of the whole."""
    return uuid if number == 0 else str(uuids.uuid5(uuids.UUID(uuid), str(number)))


def built_on(transaction: Transaction) -> Version | None:
    """The version of the history on which the transaction that left a detached version began; None
    where that is unknown, or was no version.

    A stage counts its steps from there, under the numbers that they have if nobody else writes.
    """
    read, stage = transaction.read_version, transaction.properties.get(STAGED_PROPERTY)
    if stage is None:
        return None if is_detached(read) else read or None
    try:
        steps = (at for at in range(read + 1) if step_uuid(stage, at) == transaction.uuid)
        begun = next(steps, None)
    except ValueError:
        return None
    return None if begun is None or begun == read else Version(read - begun)


def commit_properties(message: str | None, properties: Mapping[str, str] | None) -> dict[str, str]:
    """A commit's message and properties as one map; raises InvalidInputError for invalid values.

    Keys that begin with ``lancewood.`` are reserved for Lancewood.
    """
    if properties is not None and not isinstance(properties, Mapping):
        raise InvalidInputError(f"properties takes a map of texts, got {properties!r}")
    facts = dict(properties or {})
    if message is not None:
        facts[MESSAGE_PROPERTY] = message
    for key, value in facts.items():
        check_text("a property's key", key)
        if key.startswith(RESERVED):
            raise InvalidInputError(
                f"property {key!r} cannot be set: keys that begin with {RESERVED!r} say "
                "how a version is to be read; choose another name"
            )
        check_text("the message" if key == MESSAGE_PROPERTY else f"property {key!r}", value)
    return facts


def check_text(what: str, value: object) -> None:
    """Raise InvalidInputError unless the value is a string that can be encoded."""
    if not isinstance(value, str):
        raise InvalidInputError(f"{what} must be a text, got {value!r}")
    try:
        value.encode()
    except UnicodeEncodeError as cause:
        raise InvalidInputError(f"{what} is not valid text: {value!r}") from cause

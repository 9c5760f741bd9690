"""A planned read, as Java is told of it; ``PlannedRead.java`` has the same.

Everything that tasks need of a table is inside of ``work`` and the messages, pickled, storage
options included. Java looks into neither.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from lancewood.spark.columnar import protocol

SOURCE = "io.lancewood.spark.PlannedSource"
"""The class that makes a frame of a planned read."""
_SEPARATOR = "\n"


class ColumnReference(NamedTuple):
    """What a condition calls a column, or a field below one."""

    sql: str
    is_comparable: bool
    """Whether values are compared with constants as Spark does; else they are null or not."""


@dataclass(frozen=True)
class PythonCommand:
    """The Python of the workers. Without an executable it is the one that Spark takes itself."""

    executable: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    includes: Sequence[str] = ()
    """Names of files that were shipped to be imported."""

    def encode(self) -> bytes:
        return (
            protocol.text(self.executable)
            + protocol.texts(list(self.environment))
            + protocol.texts(list(self.environment.values()))
            + protocol.texts(self.includes)
        )


@dataclass(frozen=True, kw_only=True)
class PlannedRead:
    """One version of a table, cut into tasks."""

    name: str
    schema: str
    """The type of its rows, as Spark's JSON."""
    work: bytes = field(repr=False)
    messages: Sequence[bytes] = field(repr=False)
    rows: int | None
    """The rows of all messages before any filter; None if unknown."""
    is_counted: bool
    """Whether ``rows`` is exactly the number of rows that come out."""
    pruned: int
    """The fragments that no message has, because none of their rows meets the condition."""
    slots: int
    worthwhile: int
    """Bytes that make a task worth starting."""
    most_condition: int
    """Characters that Spark's conditions may have."""
    widths: Mapping[str, float]
    """Estimated bytes of each column in a row."""
    needed: Sequence[str]
    """The columns that are read whatever Spark selects."""
    references: Mapping[tuple[str, ...], ColumnReference]
    """The columns and fields that conditions may name."""

    def encode(self, python: PythonCommand) -> bytes:
        named = {_SEPARATOR.join(each): found for each, found in self.references.items()}
        references = (
            protocol.text(path) + protocol.text(found.sql) + protocol.flag(found.is_comparable)
            for path, found in named.items()
        )
        return b"".join(
            (
                protocol.text(self.name),
                protocol.text(self.schema),
                protocol.some_bytes(self.work),
                protocol.many(self.messages),
                protocol.long(-1 if self.rows is None else self.rows),
                protocol.flag(self.is_counted and self.rows is not None),
                protocol.long(self.pruned),
                protocol.integer(self.slots),
                protocol.long(self.worthwhile),
                protocol.integer(self.most_condition),
                python.encode(),
                protocol.numbers(self.widths),
                protocol.texts(self.needed),
                protocol.integer(len(named)),
                *references,
            )
        )

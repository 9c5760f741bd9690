"""The source of a merge: read once, kept in memory, and fitted to a version of the table.

Whatever is wrong with it is told here, before anything is written: columns that do not fit, keys
that are missing or occur twice, a condition that cannot be computed. Does not look into the table.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Literal, TypeAlias

import pyarrow as pa
import pyarrow.types as pt

from lancewood.data.align import Alignment, align_schema
from lancewood.data.writer import ValueCheck
from lancewood.engine.base import as_reader, check_choice
from lancewood.engine.rows import nameless
from lancewood.engine.schema import Parameters, row_schema
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import InvalidInputError
from lancewood.format.schema import to_arrow_schema
from lancewood.jobs.merge_into.condition import MatchCondition, parse_condition
from lancewood.jobs.merge_into.keys import Key, KeyIndex, Positions, check_distinct, resolve_key
from lancewood.jobs.rows.updating import Rewriting
from lancewood.model.schema import Field, Schema

Matched: TypeAlias = Literal["update", "ignore", "delete"]
NotMatched: TypeAlias = Literal["insert", "ignore"]
NotMatchedBySource: TypeAlias = Literal["keep", "delete"]
NewValues: TypeAlias = Callable[[int, int], pa.RecordBatch]
"""Gives values for rows ``start`` to ``stop`` of those that change."""

_PORTION_BYTES = 32 << 20
_MOST_PORTION_ROWS = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What a merge does with rows of the table and of the source."""

    on: str | Sequence[str] | None = None
    matched: Matched = "update"
    not_matched: NotMatched = "insert"
    not_matched_by_source: NotMatchedBySource = "keep"
    matched_where: str | None = None
    parameters: Parameters = None
    rewrite: Rewriting = "auto"

    def __post_init__(self) -> None:
        check_choice("matched", self.matched, Matched)
        check_choice("not_matched", self.not_matched, NotMatched)
        check_choice("not_matched_by_source", self.not_matched_by_source, NotMatchedBySource)
        check_choice("rewrite", self.rewrite, Rewriting)
        if self.matched_where is None and self.parameters is not None:
            raise InvalidInputError("parameters are given, but no matched_where that uses them")
        if self.matched_where is not None and self.matched == "ignore":
            raise InvalidInputError("matched_where is given, but matched rows are ignored")
        only_updates = (self.matched, self.not_matched, self.not_matched_by_source) == (
            "update",
            "ignore",
            "keep",
        )
        if self.rewrite == "columns" and not only_updates:
            raise InvalidInputError(
                "rewrite='columns' changes rows where they are, so it can neither insert nor "
                "delete: it goes with matched='update', not_matched='ignore' and "
                "not_matched_by_source='keep'"
            )


class SourceRows(ABC):
    """The rows of a source as rows of one version of the table, wherever they are kept."""

    table: Schema
    """The schema that the rows were fitted to."""
    columns: Schema
    """The columns of ``table`` that the source has."""
    key: Key

    @property
    @abstractmethod
    def portion_rows(self) -> int:
        """Number of rows of the source that are a few megabytes."""

    @abstractmethod
    def at(self, positions: Positions, columns: Sequence[str] | None = None) -> pa.RecordBatch:
        """The rows at these positions, in that order; all of their columns or some."""

    @property
    def changed(self) -> Schema:
        """The columns in which a matched row can change: those of the key cannot."""
        key = self.key.whole_columns
        return Schema(tuple(each for each in self.columns.fields if each.name not in key))

    def values_at(self, positions: Positions, columns: Sequence[str] | None = None) -> NewValues:
        """The rows at these positions, for one who asks for them in portions."""
        return lambda start, stop: self.at(positions[start:stop], columns)

    def whole_rows(self, positions: Positions) -> Iterator[pa.RecordBatch]:
        """New rows of the table, in portions; null in columns that the source does not have."""
        arrow = to_arrow_schema(self.table).remove_metadata()
        for start in range(0, len(positions), self.portion_rows):
            part = self.at(positions[start : start + self.portion_rows])
            arrays = [
                part.column(each.name)
                if each.name in part.schema.names
                else pa.nulls(part.num_rows, each.type)
                for each in arrow
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=arrow)


@dataclass(frozen=True)
class FittedSource(SourceRows):
    """The source of a merge in memory."""

    table: Schema
    columns: Schema
    rows: pa.Table
    key: Key
    condition: MatchCondition | None

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the fields alone: the rest is worked out again elsewhere."""
        return {each.name: self.__dict__[each.name] for each in fields(self)}

    def bare(self) -> FittedSource:
        """This source without rows, for tasks that bring their own."""
        return replace(self, rows=pa.Table.from_batches([], self.rows.schema))

    @cached_property
    def index(self) -> KeyIndex:
        return KeyIndex(self.key.values(self.rows))

    @cached_property
    def portion_rows(self) -> int:
        return portion_rows(self.rows.nbytes / max(self.rows.num_rows, 1))

    def at(self, positions: Positions, columns: Sequence[str] | None = None) -> pa.RecordBatch:
        return rows_at(self.rows if columns is None else self.rows.select(columns), positions)


def portion_rows(width: float) -> int:
    """Number of rows of this width, in bytes, that are a few megabytes."""
    return max(1, min(_MOST_PORTION_ROWS, int(_PORTION_BYTES / max(width, 1))))


def rows_at(rows: pa.Table, positions: Positions) -> pa.RecordBatch:
    """The rows at these positions, in that order; so few that they fit one batch."""
    if not rows.num_columns:
        return nameless(len(positions))
    taken = rows.take(pa.array(positions))
    arrays = [
        each.chunk(0) if each.num_chunks == 1 else each.combine_chunks() for each in taken.columns
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=taken.schema)


def read_source(snapshot: Snapshot, data: Any, choices: Choices) -> pa.Table:
    """All rows that a caller hands over, as they are; nothing is read if the columns do not fit."""
    reader = as_reader(data, snapshot.arrow_schema)
    fit_schema(snapshot, reader.schema, choices)
    batches = []
    for each in reader:
        if not each.schema.equals(reader.schema):
            raise InvalidInputError("a batch has another schema than the stream it is part of")
        batches.append(each)
    return pa.Table.from_batches(batches, reader.schema)


def fit_schema(snapshot: Snapshot, data: pa.Schema, choices: Choices) -> tuple[Alignment, Key]:
    """How rows of this schema become rows of the table, and the key that tells them apart."""
    return fit_columns(snapshot.schema, data, choices)


def fit_columns(table: Schema, data: pa.Schema, choices: Choices) -> tuple[Alignment, Key]:
    """How rows of this schema get the columns of ``table``, and the key that tells them apart."""
    key = resolve_key(table, choices.on)
    for path in key.paths:
        _check_has_key(data, path)
    if choices.not_matched == "ignore":
        given = set(data.names)
        table = replace(
            table,
            fields=tuple(
                each if each.name in given else replace(each, nullable=True)
                for each in table.fields
            ),
        )
    alignment = align_schema(table, data)
    if choices.matched == "update":
        for field in alignment.schema.fields:
            _check_whole_struct(field, data.field(field.name).type, field.name)
    return alignment, key


def fit_condition(
    snapshot: Snapshot, alignment: Alignment, choices: Choices
) -> MatchCondition | None:
    """The condition on a pair of rows, checked against both sides."""
    if choices.matched_where is None:
        return None
    return parse_condition(
        choices.matched_where, alignment.arrow, row_schema(snapshot.schema), choices.parameters
    )


def fit_rows(snapshot: Snapshot, data: pa.Table, choices: Choices) -> FittedSource:
    """The source as rows of this version. Raises InvalidInputError for whatever does not fit."""
    alignment, key = fit_schema(snapshot, data.schema, choices)
    condition = fit_condition(snapshot, alignment, choices)
    check_values = ValueCheck(alignment.schema, snapshot.manifest.file_version)
    batches = []
    for batch in data.to_batches():
        batches.append(alignment.cast(batch))
        check_values(batches[-1])
    rows = pa.Table.from_batches(batches, alignment.arrow).combine_chunks()
    fitted = FittedSource(snapshot.schema, alignment.schema, rows, key, condition)
    check_distinct(key, fitted.index, key.values(rows))
    return fitted


def _check_has_key(data: pa.Schema, path: Sequence[str]) -> None:
    name = ".".join(path)
    level: Any = data
    for part in path:
        if part not in (each.name for each in level):
            raise InvalidInputError(
                f"the source has no column {name!r}, which is part of the key; its columns are "
                f"{', '.join(map(repr, data.names)) or 'none'}",
                column=name,
            )
        found = next(each for each in level if each.name == part).type
        level = found if pt.is_struct(found) else ()


def _check_whole_struct(field: Field, kind: pa.DataType, path: str) -> None:
    """Raise InvalidInputError for a struct that an update would half forget."""
    if field.logical_type != "struct" or not pt.is_struct(kind):
        return
    for child in field.children:
        below = f"{path}.{child.name}"
        index = kind.get_field_index(child.name)
        if index < 0:
            raise InvalidInputError(
                f"the source has column {path!r} without its field {child.name!r}: a struct is "
                "updated as a whole; add the field, or leave the column out",
                column=below,
            )
        _check_whole_struct(child, kind.field(index).type, below)

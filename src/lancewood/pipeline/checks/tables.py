"""The tables that checks refer to, as the run leaves them and as they were before it; which of
their columns to show, and values as short text.

While a run is planned, tables have columns but no rows yet; later they are what the run's branch
holds. Checks are built the same way from either, so whatever can be planned can be run. Executors
read the rows, and only the columns and rows that are needed. The functions on values run there, on
Arrow values: a large value is shown by its size, and cells that are kept are cut to ``MOST_BYTES``.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancewood.errors import UnsupportedError
from lancewood.files.text_forms import is_bytes
from lancewood.pipeline.context import RunContext
from lancewood.pipeline.definition.model import Mode, Pipeline, Spot
from lancewood.pipeline.definition.names import near, wrong
from lancewood.pipeline.loading.quarantine import SCHEMA as QUARANTINE_SCHEMA
from lancewood.spark.reading.read import read_snapshot
from lancewood.spark.types import spark_schema
from lancewood.table import Parameters, Table, check_where, scanned_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class CheckedTable:
    """A table as a check sees it."""

    name: str
    schema: pa.Schema
    table: Table | None = None
    """The table; None: there are no rows, or none yet."""

    def count(self) -> int:
        """The number of rows, from the manifest."""
        return 0 if self.table is None else self.table.count_rows()

    def rows(
        self,
        spark: SparkSession,
        columns: Sequence[str],
        where: str | None = None,
        parameters: Parameters = None,
    ) -> DataFrame:
        """Some columns of the rows for which a condition in the engine's dialect holds.

        Raises InvalidInputError for a wrong condition, UnsupportedError for a type that Spark does
        not have.
        """
        if self.table is not None:
            return read_snapshot(spark, self.table._snapshot, columns, where, parameters)
        if where is not None:
            check_where(self.schema, where, parameters)
        return spark.createDataFrame([], spark_schema(scanned_schema(self.schema, columns)))


Find = Callable[[str], CheckedTable | None]


@dataclass(frozen=True)
class CheckedTables:
    """All tables that a check may refer to."""

    find_now: Find
    find_before: Find
    names: Callable[[], Iterable[str]]

    def now(self, table: str, spot: Spot) -> CheckedTable:
        """The table as the run leaves it; raises InvalidInputError, starting with the spot."""
        found = self.find_now(table)
        if found is None:
            raise wrong(
                spot,
                f"there is no table {table!r} in the repository, and no target makes it: "
                f"{near(table, self.names())}",
            )
        return found

    def before(self, table: str, spot: Spot) -> CheckedTable | None:
        """The table as it was before the run; None if it did not exist."""
        self.now(table, spot)
        return self.find_before(table)


def planned_relations(context: RunContext, planned: Mapping[str, pa.Schema]) -> CheckedTables:
    """The tables to expect, from columns alone; ``planned`` are those that the run creates or
    changes."""
    future = _own_tables(context) | dict(planned)

    def before(table: str) -> CheckedTable | None:
        return CheckedTable(table, context.open(table).schema) if context.has(table) else None

    def now(table: str) -> CheckedTable | None:
        was = before(table)
        if table in planned or (was is None and table in future):
            return CheckedTable(table, future[table])
        return was

    return CheckedTables(now, before, lambda: {*_names(context, None), *future})


def standing_relations(context: RunContext) -> CheckedTables:
    """The tables on the run's branch, and those that existed when the run began."""
    own = _own_tables(context)

    def now(table: str) -> CheckedTable | None:
        if context.has_now(table):
            found = context.open_now(table)
            return CheckedTable(table, found.schema, found)
        return before(table) or (CheckedTable(table, own[table]) if table in own else None)

    def before(table: str) -> CheckedTable | None:
        if not context.has(table):
            return None
        found = context.open(table)
        return CheckedTable(table, found.schema, found)

    return CheckedTables(now, before, lambda: {*_names(context, context.branch), *own})


def _own_tables(context: RunContext) -> dict[str, pa.Schema]:
    """Tables of the run that are only created once there is a row for them."""
    return {context.pipeline.quarantine.table: QUARANTINE_SCHEMA}


def _names(context: RunContext, branch: str | None) -> Iterable[str]:
    revision = branch or context.base
    return () if revision is None else context.repository.at(revision).tables


_MOST_FIXED_BYTES = 64
_MOST_COLUMNS = 32
"""The most columns kept of a failing row, besides those that the check is about."""
MOST_BYTES = 64 * 1024
"""The largest cell that is kept."""
_MOST_CHARACTERS = 80
_MOST_VALUES = 5
_MOST_DEPTH = 3
_BYTES_OF_A_CHARACTER = 4


def check_columns(relation: CheckedTable, columns: Iterable[str], spot: Spot) -> None:
    """Raise InvalidInputError for a name that no column has; ``spot`` is that of the list."""
    for index, each in enumerate(columns):
        check_column(relation, each, spot.at(index))


def check_column(relation: CheckedTable, column: str, spot: Spot) -> None:
    """Raise InvalidInputError for a name that no column has."""
    if column not in relation.schema.names:
        raise wrong(
            spot,
            f"table {relation.name!r} has no column {column!r}: "
            f"{near(column, relation.schema.names)}",
        )


def identifying_columns(relation: CheckedTable, checked: Iterable[str]) -> list[str]:
    """The checked columns and the small ones, in table order, if Spark can read them: a value that
    is only shown must not make the check fail."""
    asked = set(checked)
    wanted = {each.name for each in relation.schema if each.name in asked and is_safe(each)}
    small = [each.name for each in relation.schema if each.name not in asked and is_shown(each)]
    wanted.update(small[:_MOST_COLUMNS])
    return [each for each in relation.schema.names if each in (wanted or asked)]


def key_columns(relation: CheckedTable, checked: Iterable[str], pipeline: Pipeline) -> list[str]:
    """The checked columns and the merge keys, in table order. A table without merge keys
    contributes its first small column instead."""
    wanted = set(checked)
    keys = [
        name
        for target in pipeline.targets
        if target.table == relation.name and target.mode is Mode.MERGE
        for name in target.on
        if name in relation.schema.names
    ]
    if not keys:
        keys = [each.name for each in relation.schema if is_shown(each)][:1]
    wanted.update(keys)
    return [each for each in relation.schema.names if each in wanted]


def is_shown(field: pa.Field) -> bool:
    """Whether to show a column that nobody asked for: it is small and safe to read."""
    return is_small(field.type) and is_safe(field)


def is_safe(field: pa.Field) -> bool:
    """Whether Spark has the type of a column and, as far as we know, can hold all its values."""
    return is_readable(field) and not may_not_fit(field.type)


def is_readable(field: pa.Field) -> bool:
    """Whether Spark has the type of a column."""
    try:
        spark_schema(pa.schema([field]))
    except UnsupportedError:
        return False
    return True


def is_small(kind: pa.DataType) -> bool:
    """Whether values are numbers, times, text or structs of those: no binaries, lists or maps."""
    if isinstance(kind, pa.BaseExtensionType):
        return is_small(kind.storage_type)
    if pa.types.is_struct(kind):
        return all(is_small(each.type) for each in kind)
    if pa.types.is_dictionary(kind):
        return is_small(kind.value_type)
    if pa.types.is_fixed_size_binary(kind):
        return bool(kind.byte_width <= _MOST_FIXED_BYTES)
    return not (pa.types.is_nested(kind) or is_bytes(kind))


def may_not_fit(kind: pa.DataType) -> bool:
    """Whether values may be finer than Spark's: nanoseconds, or dates with a time of day."""
    if isinstance(kind, pa.BaseExtensionType):
        return may_not_fit(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return may_not_fit(kind.value_type)
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        return bool(kind.unit == "ns")
    if pa.types.is_nested(kind):
        return any(may_not_fit(kind.field(at).type) for at in range(kind.num_fields))
    return bool(pa.types.is_date64(kind))


def quoted(column: str) -> str:
    """A column name, quoted for the engine's dialect."""
    return '"' + column.replace('"', '""') + '"'


def cell_text(value: Any) -> str:
    """An Arrow scalar as a short text."""
    return shortened(_text(value, 0))


def shortened(text: str) -> str:
    """The text on one line, cut if it is long."""
    line = "".join(each if each.isprintable() else " " for each in text[: _MOST_CHARACTERS + 1])
    return line if len(line) <= _MOST_CHARACTERS else f"{line[: _MOST_CHARACTERS - 1]}…"


def _text(value: Any, depth: int) -> str:
    if not value.is_valid:
        return "null"
    kind = value.type
    if isinstance(value, pa.ExtensionScalar | pa.DictionaryScalar):
        return _text(value.value, depth)
    if is_bytes(kind):
        size = value.as_buffer().size
        return "1 byte" if size == 1 else f"{size:,} bytes"
    if depth >= _MOST_DEPTH and pa.types.is_nested(kind):
        return "…"
    if pa.types.is_struct(kind):
        shown = range(min(len(value), _MOST_VALUES))
        fields = [f"{kind.field(at).name}: {_text(value[at], depth + 1)}" for at in shown]
        return f"{{{_listed(fields, len(kind))}}}"
    if pa.types.is_map(kind):
        # Each entry is a struct of key and value.
        pairs = [[_text(each[at], depth + 1) for at in (0, 1)] for each in _first(value)]
        return f"{{{_listed([': '.join(each) for each in pairs], len(value))}}}"
    if pa.types.is_nested(kind):
        return f"[{_listed([_text(each, depth + 1) for each in _first(value)], len(value))}]"
    return plain_text(value.as_py())


def plain_text(value: object) -> str:
    """A plain Python value as text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dt.datetime):
        return value.isoformat(" ")
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    return str(value)


def _first(value: Any) -> Any:
    return value.values.slice(0, _MOST_VALUES)


def _listed(shown: list[str], total: int) -> str:
    more = [f"… {total:,} in all"] if total > len(shown) else []
    return ", ".join(shown + more)


def cut_cells(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Keep cells to ``MOST_BYTES``: longer text and binaries are cut, larger lists, structs and
    maps become null. Every column is nullable in the result."""
    arrays = [_cut(each) for each in batch.columns]
    fields = [
        pa.field(each.name, array.type, metadata=each.metadata)
        for each, array in zip(batch.schema, arrays, strict=True)
    ]
    return pa.record_batch(arrays, schema=pa.schema(fields))


def _cut(array: pa.Array) -> pa.Array:
    kind = array.type
    if pa.types.is_nested(kind):
        return _without_large(array)
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if not is_text and not (pa.types.is_binary(kind) or pa.types.is_large_binary(kind)):
        return array
    longest = pc.max(pc.binary_length(array)).as_py() or 0
    if longest <= MOST_BYTES:
        return array
    if is_text:
        is_long = pc.greater(pc.binary_length(array), MOST_BYTES)
        cut = pc.utf8_slice_codeunits(array, 0, MOST_BYTES // _BYTES_OF_A_CHARACTER)
        return pc.if_else(is_long, cut, array)
    return pc.binary_slice(array, 0, MOST_BYTES)


def _without_large(array: pa.Array) -> pa.Array:
    if array.nbytes <= MOST_BYTES:
        return array
    large = [array.slice(at, 1).nbytes > MOST_BYTES for at in range(len(array))]
    if not any(large):
        return array
    chosen = np.where(large, -1, np.arange(len(array)))
    return array.take(pa.array(chosen, pa.int64(), mask=chosen < 0))

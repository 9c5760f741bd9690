"""Keys of a merge as Spark joins them, and the tasks that read them with row addresses.

Both sides of a merge have the table's types. What Arrow stores as an integer becomes a bigint, and
everything else its bytes, so that two codes are equal where the keys are, and collations, time
zones and rounding in Spark do not matter. A null stays null. Only the columns of the key are read.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as pt

from lancewood.data.wanted import WantedColumns
from lancewood.engine.rows import ScanPlan, ScanRequest
from lancewood.engine.schema import project
from lancewood.engine.snapshot import Snapshot
from lancewood.jobs.merge_into.key_hashes import whole_keys
from lancewood.jobs.merge_into.keys import Key
from lancewood.model.schema import ROW_ADDRESS
from lancewood.spark.merge_into.staged_source import StagedSource
from lancewood.spark.merge_into.task_rows import SOURCE, TARGET
from lancewood.spark.reading.task import TablePortion
from lancewood.spark.tasks import messages_of

NUMBER, BYTES = "bigint", "binary"
_ARROW = {NUMBER: pa.int64(), BYTES: pa.binary()}
ADDRESSES = f"{SOURCE} bigint"
_MOST_ROWS = 65_536


def code_names(key: Key) -> list[str]:
    """The names of the columns of a coded key."""
    return [f"k{number}" for number in range(len(key.types))]


def code_types(key: Key) -> list[str]:
    """The Spark types of the columns of a coded key."""
    return [NUMBER if _is_number(each) else BYTES for each in key.types]


def encode_key(key: Key, rows: pa.RecordBatch | pa.Table) -> list[pa.Array]:
    """The coded columns of the key from rows that hold them."""
    return [
        _number(each) if kind == NUMBER else _bytes(each)
        for each, kind in zip(key.values(rows), code_types(key), strict=True)
    ]


def coded_schema(key: Key, address: str) -> pa.Schema:
    """The schema of coded keys with the address of each row."""
    columns = [
        (name, _ARROW[kind]) for name, kind in zip(code_names(key), code_types(key), strict=True)
    ]
    return pa.schema([*columns, (address, pa.int64())])


def coded_ddl(key: Key, address: str) -> str:
    """The schema of coded keys with the address of each row, as DDL of Spark."""
    pairs = zip(code_names(key), code_types(key), strict=True)
    return ", ".join([*(f"{name} {kind}" for name, kind in pairs), f"{address} bigint"])


def _is_number(kind: pa.DataType) -> bool:
    return bool(pt.is_boolean(kind) or pt.is_integer(kind) or pt.is_temporal(kind))


def _number(column: pa.Array) -> pa.Array:
    kind = column.type
    if pt.is_uint64(kind):
        return column.view(pa.int64())
    if pt.is_temporal(kind):
        column = column.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    return column.cast(pa.int64())


def _bytes(column: pa.Array) -> pa.Array:
    if pt.is_decimal(column.type):
        column = column.view(pa.binary(column.type.byte_width))
    return column.cast(pa.large_binary()).cast(pa.binary())


@dataclass(frozen=True)
class TableKeys:
    """What all tasks that read keys of the table share; a message holds fragments."""

    snapshot: Snapshot
    """The version, without fragments."""
    key: Key
    keeps_nulls: bool
    """Whether rows that can match nothing are needed too."""

    def read(self, message: bytes) -> Iterator[pa.RecordBatch]:
        """The keys of live rows."""
        fragments = TablePortion.decode(message).decoded(self.snapshot.manifest.name)
        if not self.keeps_nulls:
            wanted = WantedColumns(project(self.snapshot.schema, self.key.names).stored)
            fragments = [each for each in fragments if not wanted.missing(each)]
        request = ScanRequest(columns=self.key.names, with_row_address=True, fragments=fragments)
        schema = coded_schema(self.key, TARGET)
        for batch in ScanPlan(self.snapshot, request).batches(1):
            addresses = batch.column(ROW_ADDRESS).view(pa.int64())
            yield _coded(self.key, batch, addresses, schema, keeps_nulls=self.keeps_nulls)


def read_table_keys(keys: TableKeys, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For mapInArrow over a spread frame."""
    for _, message in messages_of(batches):
        yield from keys.read(message)


def source_message(numbers: Sequence[int]) -> bytes:
    """The message for a task that reads some of the staged files."""
    return pickle.dumps(list(numbers))


def read_source_keys(
    source: StagedSource, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """For mapInArrow over a spread frame: the keys of the source without nulls in them."""
    key = source.key
    columns = list(dict.fromkeys(path[0] for path in key.paths))
    schema = coded_schema(key, SOURCE)
    for number in staged_numbers(batches):
        addresses = source.staged.addresses(number)
        at = 0
        for rows in source.batches(number, columns):
            here = pa.array(addresses[at : at + rows.num_rows])
            at += rows.num_rows
            yield _coded(key, rows, here, schema, keeps_nulls=False)


def list_source(
    source: StagedSource, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """For mapInArrow over a spread frame: the addresses of all source rows that do not delete."""
    for number in staged_numbers(batches):
        addresses = source.staged.addresses(number)
        for start in range(0, len(addresses), _MOST_ROWS):
            part = addresses[start : start + _MOST_ROWS]
            if source.deleted is not None:
                part = part[~source.deletes(part)]
            yield pa.record_batch({SOURCE: pa.array(part, pa.int64())})


def staged_numbers(batches: Iterator[pa.RecordBatch]) -> Iterator[int]:
    """The numbers of the staged files that a task reads."""
    for _, message in messages_of(batches):
        yield from pickle.loads(message)


def _coded(
    key: Key, rows: pa.RecordBatch, addresses: pa.Array, schema: pa.Schema, *, keeps_nulls: bool
) -> pa.RecordBatch:
    coded = pa.RecordBatch.from_arrays([*encode_key(key, rows), addresses], schema=schema)
    if keeps_nulls or not any(each.null_count for each in coded.columns):
        return coded
    return pa.RecordBatch.from_arrays(whole_keys(coded.columns), schema=schema)

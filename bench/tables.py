"""Tables of awkward sizes, made quickly: many fragments, many versions, many rows."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import lancewood as lw
from bench.contenders import ten_rows
from lancewood.format.layout import NamingScheme, manifest_key, transaction_key, transaction_name
from lancewood.format.manifest import VersionStamp, decode_manifest_file, splice
from lancewood.format.transaction import encode_transaction
from lancewood.model.ids import Version
from lancewood.model.transaction import Append, ManifestPatch, Transaction, UpdateConfig

_EPOCH = np.datetime64("2024-01-01T00:00:00", "us")


def make_small(table: Path) -> None:
    """One fragment of ten rows."""
    lw.create(
        table, ten_rows(), layout=lw.Layout(stable_row_ids=False), access=lw.Access(fsync=False)
    )


def make_fragments(table: Path, count: int, *, stable_row_ids: bool) -> None:
    """``count`` fragments of ten rows that all name one data file, in the second version."""
    schema = ten_rows().schema
    empty = lw.create(
        table,
        schema,
        layout=lw.Layout(stable_row_ids=stable_row_ids),
        access=lw.Access(fsync=False),
    )
    (fragment,) = empty.write_fragments(ten_rows())
    made = empty.commit(empty.transaction(Append((fragment,) * count)))
    if len(made.fragments) != count:
        raise RuntimeError(f"asked for {count} fragments, made {len(made.fragments)}")


def newest_manifest(table: Path) -> Path:
    """The manifest of the newest version: V2 names sort it first."""
    return min((table / "_versions").glob("*.manifest"))


def make_versions(table: Path, count: int) -> None:
    """``count`` versions of a table of ten rows; from the second on nothing changes any more."""
    make_small(table)
    first = newest_manifest(table)
    manifest = decode_manifest_file(first.read_bytes(), name=str(first))
    nothing = Transaction.new(Version(1), UpdateConfig())
    encoded, name = encode_transaction(nothing), transaction_name(Version(1), nothing.uuid)
    (table / transaction_key(name)).write_bytes(encoded)
    patch = ManifestPatch(flags=(manifest.reader_flags, manifest.writer_flags))
    now = time.time_ns()
    for number in range(2, count + 1):
        stamp = VersionStamp(Version(number), now + number, name, encoded, "bench", "1")
        _, data = splice(manifest, patch, stamp)
        (table / manifest_key(Version(number), NamingScheme.V2)).write_bytes(data)


def make_narrow(
    table: Path, rows: int, fragments: int = 10, *, stable_row_ids: bool = False
) -> None:
    """Rows of a number, a measurement, a text and a moment, spread evenly over the fragments."""
    share = rows // fragments
    batches = (narrow_batch(number * share, share) for number in range(fragments))
    made = lw.create(
        table,
        pa.RecordBatchReader.from_batches(narrow_batch(0, 1).schema, batches),
        layout=lw.Layout(stable_row_ids=stable_row_ids, max_rows_per_file=share),
        access=lw.Access(fsync=False),
    )
    if len(made.fragments) != fragments or made.count_rows() != rows:
        raise RuntimeError(f"asked for {rows} rows in {fragments} fragments, made {made.stats()}")


def make_wide(table: Path, rows: int, fragments: int = 8) -> None:
    """Rows of a number, a score, a label, a vector of 768 floats and 20 KB of noise."""
    share = rows // fragments
    step = min(share, _WIDE_STEP)
    batches = (wide_batch(first, step) for first in range(0, rows, step))
    made = lw.create(
        table,
        pa.RecordBatchReader.from_batches(wide_batch(0, 1).schema, batches),
        layout=lw.Layout(stable_row_ids=False, max_rows_per_file=share),
        access=lw.Access(fsync=False),
    )
    if len(made.fragments) != fragments or made.count_rows() != rows:
        raise RuntimeError(f"asked for {rows} rows in {fragments} fragments, made {made.stats()}")


_WIDE_STEP = 1_000
_FLOATS = 768
_NOISE = 20 * 1024


def wide_batch(first: int, rows: int) -> pa.RecordBatch:
    """Wide rows from an id on: the same ones for the same numbers."""
    generator = np.random.default_rng(first)
    ids = np.arange(first, first + rows, dtype=np.int64)
    vectors = pa.FixedSizeListArray.from_arrays(
        pa.array(generator.random(rows * _FLOATS, dtype=np.float32)), _FLOATS
    )
    ends = pa.py_buffer(np.arange(rows + 1, dtype=np.int32) * _NOISE)
    noise = pa.py_buffer(generator.bytes(rows * _NOISE))
    payload = pa.BinaryArray.from_buffers(pa.binary(), rows, [None, ends, noise])
    return pa.record_batch(
        {
            "id": ids,
            "score": generator.random(rows),
            "label": pa.array([f"label {each % 97}" for each in ids.tolist()]),
            "vector": vectors,
            "payload": payload,
        }
    )


def narrow_batch(first: int, rows: int) -> pa.RecordBatch:
    """Narrow rows from an id on: the same ones for the same numbers."""
    ids = np.arange(first, first + rows, dtype=np.int64)
    values = np.random.default_rng(first).random(rows)
    names = pc.binary_join_element_wise("item", pa.array(ids).cast(pa.string()), "-")
    moments = _EPOCH + ids * np.timedelta64(1_000, "us")
    return pa.record_batch({"id": ids, "value": values, "name": names, "moment": pa.array(moments)})

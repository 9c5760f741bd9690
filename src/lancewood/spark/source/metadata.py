"""A table about a table as a DataFrame: planned on the driver, its rows made by tasks.

The driver lists names and cuts the undecoded bytes of fragments into slices; it decodes none and
opens no other version. Both doors use the same plan.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

import pyarrow as pa

from lancewood.engine.revisions import At
from lancewood.engine.snapshot import Snapshot
from lancewood.engine.versions import list_versions
from lancewood.errors import FormatError
from lancewood.external.base import ManifestStore
from lancewood.jobs.packing import chunks
from lancewood.model.fragment import Fragment
from lancewood.model.ids import Version
from lancewood.model.index import Index
from lancewood.proto import table_pb2
from lancewood.spark.reading.message import Portion
from lancewood.spark.source.metadata_rows import (
    Row,
    file_rows,
    fragment_rows,
    index_rows,
    ref_rows,
    transaction_rows,
    version_rows,
)
from lancewood.spark.source.metadata_tables import METADATA_SCHEMAS, MetadataKind, check_kind
from lancewood.spark.tasks import messages_of, spread
from lancewood.spark.types import Reading
from lancewood.table.door import open as open_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

VERSIONS_PER_TASK = 256
FRAGMENTS_PER_TASK = 10_000
_SLOW_ROWS, _QUICK_ROWS = 32, 4_096
"""Rows of a batch: a version is a file to be read, and nobody may want the next one."""


@dataclass(frozen=True)
class MetadataWork:
    """What all tasks share. Pickles; ``snapshot`` has no fragments."""

    snapshot: Snapshot
    kind: MetadataKind
    reading: Reading

    def __call__(self, message: bytes) -> Iterator[pa.RecordBatch]:
        """The rows of one task, as Spark takes them. Raises FormatError."""
        schema = METADATA_SCHEMAS[self.kind]
        size = _SLOW_ROWS if self.kind in ("versions", "transactions") else _QUICK_ROWS
        rows = self._rows(message)
        while listed := list(islice(rows, size)):
            try:
                batch = pa.RecordBatch.from_pylist(listed, schema=schema)
            except (OverflowError, pa.ArrowInvalid) as cause:
                raise FormatError(
                    f"{self.snapshot.manifest.name}: the table {self.kind!r} would hold a number "
                    f"that is none of 64 bits: {cause}"
                ) from cause
            yield self.reading.convert(batch)

    def _rows(self, message: bytes) -> Iterator[Row]:
        if self.kind == "versions":
            return version_rows(self.snapshot, _versions(message))
        if self.kind == "transactions":
            return transaction_rows(self.snapshot, _versions(message))
        if self.kind == "fragments":
            return fragment_rows(self.snapshot, self._fragments(message))
        if self.kind == "files":
            return file_rows(self.snapshot, self._fragments(message))
        if self.kind == "indices":
            section = table_pb2.IndexSection.FromString(message)
            return index_rows(self.snapshot, map(Index, section.indices))
        return ref_rows(self.snapshot)

    def _fragments(self, message: bytes) -> list[Fragment]:
        return Portion.decode(message).decoded(self.snapshot.manifest.name)


@dataclass(frozen=True)
class MetadataPlan:
    """The tasks of a metadata table."""

    work: MetadataWork
    messages: list[bytes]


def plan_metadata(snapshot: Snapshot, kind: str) -> MetadataPlan:
    """The tasks that make the rows of a metadata table of one version."""
    table = check_kind(kind)
    work = MetadataWork(snapshot.bare(), table, Reading(METADATA_SCHEMAS[table]))
    return MetadataPlan(work, list(_messages(snapshot, table)))


def metadata(
    spark: SparkSession,
    uri: str | os.PathLike[str],
    table: MetadataKind,
    *,
    branch: str | None = None,
    version: int | None = None,
    tag: str | None = None,
    as_of: datetime | None = None,
    at: At = None,
    storage_options: Mapping[str, str] | None = None,
    base_storage_options: Mapping[str, Mapping[str, str]] | None = None,
    manifest_store: str | ManifestStore | None = None,
) -> DataFrame:
    """A table about a table: "versions", "transactions", "fragments", "files", "refs", "indices".

    Their columns are in ``metadata_tables``. The version is said as for ``lancewood.open``, found
    once, and kept by all actions of the DataFrame; refs have no versions, and are read anew.
    """
    opened = open_table(
        uri,
        branch=branch,
        version=version,
        tag=tag,
        as_of=as_of,
        at=at,
        storage_options=storage_options,
        base_storage_options=base_storage_options,
        manifest_store=manifest_store,
    )
    plan = plan_metadata(opened._snapshot, table)
    frame = spread(spark, plan.messages)
    return frame.mapInArrow(partial(metadata_tasks, plan.work), plan.work.reading.spark)


def metadata_tasks(
    work: MetadataWork, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """For mapInArrow over a spread frame: the rows of its tasks."""
    for _, message in messages_of(batches):
        yield from work(message)


def _messages(snapshot: Snapshot, kind: MetadataKind) -> Iterator[bytes]:
    head = snapshot.manifest
    if kind in ("versions", "transactions"):
        listed = list_versions(snapshot.place.store).versions
        known = [each for each in listed if each <= head.version]
        yield from (json.dumps(each).encode() for each in chunks(known, VERSIONS_PER_TASK))
    elif kind in ("fragments", "files"):
        raw = head.message.fragments
        for at in range(0, len(raw), FRAGMENTS_PER_TASK):
            yield Portion(raw[at : at + FRAGMENTS_PER_TASK]).encode()
    elif kind == "indices":
        if head.indices:
            yield head.index_section or b""
    else:
        yield b""


def _versions(message: bytes) -> list[Version]:
    return [Version(each) for each in json.loads(message)]

"""The rows or cells of a version, with the versions that wrote them, as Arrow batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from lancewood.engine.base import as_list
from lancewood.engine.rows import Ids, Ints, ScanPlan, plan_scan
from lancewood.engine.schema import unknown_column
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import InvalidInputError, UnsupportedError
from lancewood.expr import Predicate
from lancewood.files.text_forms import as_json_texts
from lancewood.jobs.blame.history import History
from lancewood.jobs.blame.lines import Following, Line, Origins
from lancewood.jobs.blame.tracing import Rows
from lancewood.jobs.merge_into.keys import key_of, primary_key
from lancewood.model.ids import Version
from lancewood.model.refs import MAIN
from lancewood.model.schema import CREATED_AT, LAST_UPDATED_AT, ROW_ADDRESS, ROW_ID

INSERTED, CHANGED = "_inserted", "_changed"
COLUMN, VALUE, WRITTEN = "_column", "_value", "_written"
_HIDDEN = (ROW_ID, ROW_ADDRESS, CREATED_AT, LAST_UPDATED_AT)
_MOST_ROWS = 65_536
_MOST_CELLS = 1 << 20
_WRITER = (
    pa.field("version", pa.uint64()),
    pa.field("branch", pa.string()),
    pa.field("time", pa.timestamp("us", "UTC")),
    pa.field("operation", pa.string()),
    pa.field("message", pa.string()),
)


@dataclass(frozen=True, eq=False)
class BlameRows:
    """The rows of a version that are asked for. Raises InvalidInputError for columns and conditions
    that are wrong, and UnsupportedError for a table without stable row ids."""

    snapshot: Snapshot
    columns: tuple[str, ...]
    """The columns whose values are followed."""
    shown: tuple[str, ...]
    """The columns by which a row is recognised."""
    is_by_cell: bool
    where: str | None
    limit: int | None
    line: Line
    """The history of the version, and what else is known of it."""
    predicate: Predicate | None = None
    """A condition in the place of ``where``."""

    @classmethod
    def asked(
        cls,
        snapshot: Snapshot,
        *,
        where: str | None = None,
        columns: Sequence[str] | None = None,
        show: Sequence[str] | None = None,
        cells: bool = False,
        limit: int | None = None,
        line: Line | None = None,
    ) -> BlameRows:
        """What a caller asks for, checked."""
        head, names = snapshot.manifest, snapshot.schema.names
        if not head.has_stable_row_ids:
            raise UnsupportedError(
                f"{snapshot.location.uri} has no stable row ids, so that its rows cannot be "
                "followed from version to version; write its rows into a table that has them "
                "(lancewood.create makes such tables), or compare two versions by a key with "
                "diff(on=)"
            )
        followed = names if columns is None else as_list("columns", columns)
        if columns is not None and not followed:
            raise InvalidInputError("columns names none: leave it out for all of them")
        beside = [] if show is None else as_list("show", show)
        for each in (*followed, *beside):
            if each not in snapshot.schema.by_name:
                raise unknown_column(snapshot.schema, each, names)
        key = key_of(snapshot.schema, primary_key(snapshot.schema))
        known = [path[0] for path in key.paths] if key is not None else []
        asked = followed if columns is not None and not cells else []
        found = cls(
            snapshot,
            tuple(dict.fromkeys(followed)),
            tuple(dict.fromkeys([*known, *beside, *asked])),
            cells,
            where,
            limit,
            line or Line(History(snapshot)),
        )
        _ = found._scan
        return found

    @cached_property
    def _scan(self) -> ScanPlan:
        values = (*self.shown, *self.columns) if self.is_by_cell else self.shown
        return plan_scan(
            self.snapshot,
            columns=[*dict.fromkeys(values), *_HIDDEN],
            where=self.where,
            predicate=self.predicate,
            limit=self.limit,
        )

    @cached_property
    def schema(self) -> pa.Schema:
        """What comes out."""
        known, about = self._scan.schema, (*_WRITER, *self.line.fields)
        written = pa.struct([*about, pa.field("exact", pa.bool_())])
        first = [pa.field(ROW_ID, pa.uint64()), *(known.field(each) for each in self.shown)]
        if self.is_by_cell:
            said = pa.field(COLUMN, pa.string()), pa.field(VALUE, pa.string())
            return pa.schema([*first, *said, pa.field(WRITTEN, written)])
        inserted = pa.field(INSERTED, pa.struct(about))
        return pa.schema([*first, inserted, pa.field(CHANGED, written)])

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, or their cells, within a bounded memory."""
        following = Following(self.line, cells=self.is_by_cell)
        make = self._cells if self.is_by_cell else self._rows
        for batch in _portions(self._scan.batches(), self._portion):
            found = following.origins(_rows(batch), self.columns)
            yield make(batch, found, _Writers(following.lines))

    def count(self) -> int:
        """How many rows, or cells, there are."""
        return self._scan.count() * (len(self.columns) if self.is_by_cell else 1)

    @property
    def _portion(self) -> int:
        if not self.is_by_cell:
            return _MOST_ROWS
        return max(1, min(_MOST_ROWS, _MOST_CELLS // len(self.columns)))

    def _rows(self, batch: pa.RecordBatch, found: Origins, writers: _Writers) -> pa.RecordBatch:
        inserted = writers.columns(found.created, found.created_on)
        fields = list(self.schema.field(INSERTED).type)
        return pa.RecordBatch.from_arrays(
            [
                *(batch.column(each) for each in (ROW_ID, *self.shown)),
                pa.StructArray.from_arrays(inserted, fields=fields),
                self._written(found, writers),
            ],
            schema=self.schema,
        )

    def _cells(self, batch: pa.RecordBatch, found: Origins, writers: _Writers) -> pa.RecordBatch:
        count, width = batch.num_rows, len(self.columns)
        rows = pa.array(np.repeat(np.arange(count), width))
        values = [as_json_texts(batch.column(each)) for each in self.columns]
        return pa.RecordBatch.from_arrays(
            [
                *(batch.column(each).take(rows) for each in (ROW_ID, *self.shown)),
                pa.array(list(self.columns) * count, pa.string()),
                pa.array([each for row in zip(*values, strict=True) for each in row], pa.string()),
                self._written(found, writers),
            ],
            schema=self.schema,
        )

    def _written(self, found: Origins, writers: _Writers) -> pa.Array:
        columns = writers.columns(found.versions.reshape(-1), found.on.reshape(-1))
        kind = self.schema.field(WRITTEN if self.is_by_cell else CHANGED).type
        exact = pa.array(found.is_exact.reshape(-1))
        return pa.StructArray.from_arrays([*columns, exact], fields=list(kind))


@dataclass(frozen=True)
class _Writers:
    """Versions of lines as columns that say what is known of them."""

    lines: Sequence[Line]

    def columns(self, versions: Ids, on: Ints) -> list[pa.Array]:
        known = pa.array(versions).dictionary_encode()
        numbers, count = known.dictionary.to_pylist(), max(1, len(known.dictionary))
        pairs = pa.array(on * count + known.indices.to_numpy()).dictionary_encode()
        facts = [
            self._facts(self.lines[line], Version(numbers[at]))
            for line, at in (divmod(each, count) for each in pairs.dictionary.to_pylist())
        ]
        return [
            pa.array([each[number] for each in facts], kind.type).take(pairs.indices)
            for number, kind in enumerate((*_WRITER, *self.lines[0].fields))
        ]

    def _facts(self, line: Line, version: Version) -> tuple[Any, ...]:
        writer = line.history.writer(version)
        said = line.said(writer)
        branch = writer.branch or MAIN
        return writer.version, branch, writer.time, writer.operation, writer.message, *said


def _rows(batch: pa.RecordBatch) -> Rows:
    ids, addresses, created, updated = (
        batch.column(each).to_numpy(zero_copy_only=False).astype(np.uint64) for each in _HIDDEN
    )
    fragments = (addresses >> np.uint64(32)).astype(np.int64)
    offsets = (addresses & np.uint64(0xFFFFFFFF)).astype(np.int64)
    return Rows(np.arange(len(ids)), ids, fragments, offsets, created, updated)


def _portions(batches: Iterable[pa.RecordBatch], most: int) -> Iterator[pa.RecordBatch]:
    """Rows in batches of ``most``, of which the last may have fewer."""
    kept, count = list[pa.RecordBatch](), 0
    for batch in batches:
        rest = batch
        while rest.num_rows:
            part = rest.slice(0, most - count)
            kept.append(part)
            count, rest = count + part.num_rows, rest.slice(part.num_rows)
            if count == most:
                yield pa.concat_batches(kept)
                kept, count = [], 0
    if kept:
        yield pa.concat_batches(kept)

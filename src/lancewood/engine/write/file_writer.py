"""Writing rows into new data files, which nothing names yet, with the columns of a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from lancewood.data.align import Alignment, align_schema
from lancewood.data.file_root import FileRoot
from lancewood.data.writer import write_fragments
from lancewood.engine.base import FileLimits
from lancewood.errors import InvalidInputError
from lancewood.expr import Predicate
from lancewood.model.fragment import Fragment
from lancewood.model.schema import Schema


@dataclass(frozen=True)
class FileWriter:
    """Writes rows into new files, which nothing names yet. Small, and pickles."""

    schema: Schema
    """The table's, with the ids of its fields."""
    alignment: Alignment
    file_roots: tuple[FileRoot, ...] = field(repr=False)
    file_version: str
    limits: FileLimits
    condition: Predicate | None = None
    """What every row has to meet."""

    @classmethod
    def of(
        cls,
        schema: Schema,
        rows: pa.Schema,
        file_roots: Sequence[FileRoot],
        file_version: str,
        limits: FileLimits,
        condition: Predicate | None = None,
    ) -> FileWriter:
        """A writer for rows with columns ``rows``; raises InvalidInputError if they do not fit."""
        alignment = align_schema(schema, rows)
        return cls(schema, alignment, tuple(file_roots), file_version, limits, condition)

    def write(self, rows: pa.RecordBatchReader) -> tuple[Fragment, ...]:
        """New fragments without ids; on any error there is no file.

        Raises InvalidInputError for values that do not fit, and for a row that does not meet the
        condition.
        """
        return tuple(
            write_fragments(
                rows if self.condition is None else self._checked(rows),
                self.alignment.schema,
                alignment=self.alignment,
                file_roots=self.file_roots,
                file_version=self.file_version,
                max_rows=self.limits.max_rows,
                max_bytes=self.limits.max_bytes,
            )
        )

    def check(self, rows: pa.RecordBatch) -> None:
        """Raise InvalidInputError if one of the rows, in the table's types, does not meet the
        condition."""
        condition = self.condition
        if condition is None:
            return
        for name in condition.columns:
            if name not in rows.schema.names:
                nulls = pa.nulls(rows.num_rows, condition.schema.field(name).type)
                rows = rows.append_column(name, nulls)
        at = pc.index(condition.mask(rows), False).as_py()
        if at >= 0:
            row = {name: rows.column(name)[at].as_py() for name in condition.columns}
            raise InvalidInputError(
                f"a new row does not meet replace_where {condition.sql!r}, it has {row!r}: it "
                "would be added beside the rows that are replaced; filter the rows, or widen the "
                "condition",
                row=row,
            )

    def _checked(self, rows: pa.RecordBatchReader) -> pa.RecordBatchReader:
        def batches() -> Iterator[pa.RecordBatch]:
            for each in rows:
                self.check(self.alignment.cast(each))
                yield each

        return pa.RecordBatchReader.from_batches(rows.schema, batches())

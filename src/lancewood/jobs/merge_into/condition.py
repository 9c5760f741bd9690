"""The condition on a matched update: SQL over both sides, as ``source.x`` and ``target.x``.

Checked against both schemas before anything is read. Knows pairs of rows, not how they were found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancewood.engine.schema import Parameters, Path
from lancewood.errors import InvalidInputError
from lancewood.expr import Predicate, parse_predicate

SOURCE = "source"
TARGET = "target"


@dataclass(frozen=True, slots=True)
class MatchCondition:
    """A condition on a row of the source and the row of the table that has its key."""

    predicate: Predicate

    @property
    def source_columns(self) -> tuple[str, ...]:
        """The columns of the source that the condition reads."""
        return tuple(dict.fromkeys(path[1] for path in self._paths(SOURCE)))

    @property
    def target_columns(self) -> tuple[str, ...]:
        """The columns of the table that it reads, dotted where it reads a field of a struct."""
        return tuple(
            ".".join(path[1:]) if not any("." in part for part in path) else path[1]
            for path in self._paths(TARGET)
        )

    def mask(self, source: pa.RecordBatch, target: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        """Which of the pairs meet it; where it is null they do not."""
        sides = pa.RecordBatch.from_arrays(
            [_as_struct(source), _as_struct(target)], names=[SOURCE, TARGET]
        )
        found: npt.NDArray[np.bool_] = self.predicate.mask(sides).to_numpy(zero_copy_only=False)
        return found

    def _paths(self, side: str) -> Sequence[Path]:
        return [each for each in self.predicate.paths if each[0] == side]


def parse_condition(
    sql: str, source: pa.Schema, target: pa.Schema, parameters: Parameters
) -> MatchCondition:
    """The condition that SQL text means; raises InvalidInputError for what it cannot mean."""
    if not isinstance(sql, str):
        raise InvalidInputError(f"matched_where takes SQL text, got {sql!r}")
    sides = pa.schema([(SOURCE, pa.struct(list(source))), (TARGET, pa.struct(list(target)))])
    try:
        predicate = parse_predicate(sql, sides, parameters)
    except InvalidInputError as cause:
        unknown = cause.facts.get("name")
        found = cause.message
        if cause.facts.get("names") == [SOURCE, TARGET]:
            found = f"write source.{unknown} or target.{unknown}, not {unknown}"
        raise InvalidInputError(
            f"matched_where speaks of columns as source.x and target.x: {found}", **cause.facts
        ) from cause
    if any(len(each) == 1 for each in predicate.paths):
        raise InvalidInputError(
            f"matched_where compares a whole row in {sql!r}; name columns, as source.x and "
            "target.x",
            sql=sql,
        )
    return MatchCondition(predicate)


def _as_struct(rows: pa.RecordBatch) -> pa.StructArray:
    if not rows.num_columns:
        return pa.StructArray.from_buffers(pa.struct([]), rows.num_rows, [None])
    return pa.StructArray.from_arrays(rows.columns, fields=list(rows.schema))

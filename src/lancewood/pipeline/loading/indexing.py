"""The indices of a target: checked with the plan, then built or extended after its load.

Executors build them, on the run's branch; they are published with the rows. What a table has too
few rows for waits for a later run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from lancewood.errors import InvalidInputError
from lancewood.pipeline.context import RunContext
from lancewood.pipeline.definition.model import Target, TargetIndex
from lancewood.pipeline.definition.refusal import wrong
from lancewood.pipeline.frames.refusals import refused_at
from lancewood.pipeline.report.facts import Listener
from lancewood.table import IndexInfo, Runner, Table, check_index

if TYPE_CHECKING:
    from collections.abc import Sequence

_BY_TYPE = (None, "lookup", "search")


def check_indices(context: RunContext, target: Target, after: pa.Schema) -> None:
    """Check the indices of a target against the columns that its table will have, and against
    indices of the same names that are there.

    Raises InvalidInputError, starting with the spot in the file.
    """
    known = _known_indices(context, target) if target.indices else []
    on_vectors = {each.column: each.name for each in known if each.metric is not None}
    for each in target.indices:
        with refused_at(each.spot, context.pipeline):
            is_on_vectors = check_index(after, each.column, each.kind, **each.settings)
        for info in known:
            if info.name == each.name:
                _check_same(each, info)
        if is_on_vectors and on_vectors.setdefault(each.column, each.name) != each.name:
            raise wrong(
                each.spot.at("column"),
                f"the vectors of {each.column!r} have the index {on_vectors[each.column]!r}, and a "
                "search would only use one of two",
            )


def _known_indices(context: RunContext, target: Target) -> Sequence[IndexInfo]:
    """Those that a table has and keeps: rows that are all replaced have none."""
    targets = (target, *context.pipeline.targets)
    is_anew = any(each.replaces_all for each in targets if each.table == target.table)
    if is_anew or not context.has(target.table):
        return []
    return context.open(target.table).indices.list()


def _check_same(asked: TargetIndex, found: IndexInfo) -> None:
    """Raise InvalidInputError if an index is there and another one than the file says."""
    said = [("column", asked.column, found.column)]
    if asked.kind not in _BY_TYPE:
        said.append(("kind", asked.kind, found.kind))
    if asked.metric is not None:
        said.append(("metric", asked.metric.lower(), found.metric))
    for key, wanted, known in said:
        if wanted != known:
            raise wrong(
                asked.spot.at(key),
                f"the table has an index {asked.name!r} with the {key} {known!r}, not {wanted!r}: "
                "drop that one, or give this one another name",
            )


@dataclass
class Indexing:
    """What became of the indices of a target."""

    created: list[str] = field(default_factory=list)
    extended: list[str] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)

    def run(self, target: Target, table: Table, runner: Runner, listener: Listener) -> Table:
        """Extend the indices of a target that are there and create the others; the table then."""
        for each in target.indices:
            if any(known.name == each.name for known in table.indices):
                after = table.indices.extend(each.name, runner=runner)
                self.extended += [each.name] if after.version != table.version else []
                table = after
                continue
            try:
                table = table.indices.create(each.column, each.kind, **each.settings, runner=runner)
                self.created.append(each.name)
            except InvalidInputError as error:
                if "rows_needed" not in error.facts:
                    raise
                self.waiting.append(each.name)
                listener.noted(f"index {each.name} of {target.table} waits: {error.message}")
        return table

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
    """Indices that a table has and keeps: rows that are all replaced have none."""
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
    """What becomes of the indices of a target."""

    context: RunContext
    target: Target
    listener: Listener
    created: list[str] = field(default_factory=list)
    extended: list[str] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)

    def run(self, table: Table, runner: Runner) -> Table:
        """Extend the indices that are there and create the others; the table then."""
        beside = self._missing(table) and self.context.published_indices(self.target.table)
        for each in self.target.indices:
            if any(known.name == each.name for known in table.indices):
                after = table.indices.extend(each.name, runner=runner)
                self.extended += [each.name] if after.version != table.version else []
                table = after
            elif each.name in beside:
                self._wait(each.name, "it was made beside the repository, and comes with this run")
            else:
                table = self._create(table, each, runner)
        return table

    def _missing(self, table: Table) -> list[str]:
        known = {each.name for each in table.indices}
        return [each.name for each in self.target.indices if each.name not in known]

    def _create(self, table: Table, index: TargetIndex, runner: Runner) -> Table:
        try:
            after = table.indices.create(index.column, index.kind, **index.settings, runner=runner)
        except InvalidInputError as error:
            if "rows_needed" not in error.facts:
                raise
            self._wait(index.name, error.message)
            return table
        self.created.append(index.name)
        return after

    def _wait(self, name: str, why: str) -> None:
        self.waiting.append(name)
        self.listener.noted(f"index {name} of {self.target.table} waits: {why}")

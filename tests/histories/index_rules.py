"""Rules for indices: create, extend, optimize and drop, by both implementations."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from tests.histories import by_pylance
from tests.histories.answers import kinds_for, settings
from tests.histories.checks import can_optimize, index_name
from tests.histories.history import REPLACEMENTS, SCHEMA_CHANGES, History, seeds, steps_back, who
from tests.histories.model import Column, State

import lancewood as lw


class IndexRules(History):
    """An index changes no rows; what it answers is asked after every step of a history."""

    @precondition(lambda self: bool(self.newest.rows) and not self.has_been("index", within=1))
    @rule(seed=seeds, by=who, back=steps_back)
    def create_index(self, seed: int, by: str, back: int) -> None:
        base = self._base_of_index(by, back)
        options = _options(self.states[base.version])
        if not options:
            return
        column, kind = Random(seed).choice(options)
        name = index_name(column, kind)
        with self.step():
            if by == "pylance":
                by_pylance.create_index(self.uri, column.name, kind, name)
                self.nothing("index")
                return
            self._change_indices(
                base,
                lambda table: table.indices.create(
                    column.name, kind, name=name, replace=True, **settings(kind)
                ),
            )

    @precondition(lambda self: bool(self.indices()) and not self.has_been("index", within=1))
    @rule(seed=seeds, back=steps_back, verb=st.sampled_from(["extend", "extend", "optimize"]))
    def cover(self, seed: int, back: int, verb: str) -> None:
        """Of one index or of all; afterwards all rows are covered that the version had."""
        base = self._base_of_index("lancewood", back)
        name = Random(seed).choice([*self.indices(base), None])
        is_newest = base.version == self.version
        with self.step():
            self._change_indices(base, lambda table: getattr(table.indices, verb)(name))
            for each in lw.open(self.uri, access=lw.Access(fsync=False)).indices.list():
                if is_newest and name in (None, each.name):
                    assert each.rows_uncovered == 0, f"{verb} of {each.name} left rows uncovered"
                    assert verb == "extend" or each.segments == 1, f"{each.name} is in pieces"

    @precondition(lambda self: can_optimize(self.uri) and not self.has_been("index", within=2))
    @rule()
    def optimize_indices(self) -> None:
        with self.step():
            by_pylance.optimize_indices(self.uri)
            self.nothing("index")

    @precondition(lambda self: len(self.indices()) > 2)
    @rule(seed=seeds, by=who, back=steps_back)
    def drop_index(self, seed: int, by: str, back: int) -> None:
        base = self._base_of_index(by, back)
        if not self.indices(base):
            return
        name = Random(seed).choice(self.indices(base))
        with self.step():
            if by == "pylance":
                by_pylance.drop_index(self.uri, name)
                self.nothing("index")
            elif name in self.indices():
                self._change_indices(base, lambda table: table.indices.drop(name))
            assert name not in self.indices()

    def indices(self, table: lw.Table | None = None) -> list[str]:
        """The names of the indices of a version, or of the newest."""
        found = lw.open(self.uri, access=lw.Access(fsync=False)) if table is None else table
        return sorted({each.name for each in found.indices})

    def _base_of_index(self, by: str, back: int) -> lw.Table:
        """An older version only if it has rows, and the columns and indices are what they were."""
        old = self.base(by, back)
        changed = SCHEMA_CHANGES | REPLACEMENTS | {"index"}
        is_like_now = self.states[old.version].rows and self.since(old).isdisjoint(changed)
        return old if is_like_now else self.base(by, 0)

    def _change_indices(self, base: lw.Table, act: Callable[[lw.Table], lw.Table]) -> None:
        after = act(base)
        is_new = after.version > self.version
        self.settle("index", lambda version: [self.newest], after if is_new else None)


def _options(state: State) -> list[tuple[Column, str]]:
    """Columns, each with a kind of index that it can have: one on vectors learns from some."""
    return [
        (column, kind)
        for column in state.columns
        for kind in kinds_for(column.type)
        if kind != "IVF_FLAT"
        or any(column.shown(row.values.get(column.number)) for row in state.rows.values())
    ]

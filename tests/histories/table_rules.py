"""Rules for the table as a whole: create, overwrite, compact, restore, clean up, compare."""

from __future__ import annotations

from datetime import timedelta
from random import Random

import lance
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule
from tests.histories import by_pylance, drawing
from tests.histories.history import History, seeds, steps_back, who
from tests.histories.model import Effect, State

import lancewood as lw


class TableRules(History):
    """What leaves rows as they are, or replaces them all."""

    @initialize(
        seed=seeds,
        by=who,
        is_stable=st.booleans(),
        key_is_told=st.booleans(),
        file_version=st.sampled_from(["2.2", "2.1", "2.0"]),
        count=st.integers(0, 14),
        per_file=st.integers(3, 8),
    )
    def create(
        self,
        seed: int,
        by: str,
        is_stable: bool,
        key_is_told: bool,
        file_version: str,
        count: int,
        per_file: int,
    ) -> None:
        self.is_stable, self.file_version = is_stable, file_version
        self.key_is_told = key_is_told
        state = State(drawing.first_columns(self.numbers, key_is_told=self.key_is_told))
        rows = self.make_rows(state, self.fresh_keys(count), Random(seed))
        data = state.arrow(rows.values(), state.schema.names)
        self.states[0] = state
        with self.step():
            if by == "lancewood":
                lw.create(
                    self.uri,
                    data,
                    layout=lw.Layout(
                        stable_row_ids=is_stable,
                        file_version=file_version,
                        max_rows_per_file=per_file,
                    ),
                    access=lw.Access(fsync=False),
                )
            else:
                lance.write_dataset(
                    data,
                    self.uri,
                    enable_stable_row_ids=is_stable,
                    data_storage_version=file_version,
                    max_rows_per_file=per_file,
                )
            self.settle("create", lambda v: [Effect(inserted=rows).on(state, state, v)])
        del self.states[0]

    @precondition(lambda self: self.version > 6 and not self.has_been("overwrite", within=6))
    @rule(seed=seeds, by=who, back=steps_back, count=st.integers(1, 9))
    def overwrite(self, seed: int, by: str, back: int, count: int) -> None:
        state = State(drawing.first_columns(self.numbers, key_is_told=self.key_is_told))
        rows = self.make_rows(state, self.fresh_keys(count), Random(seed))
        data = state.arrow(rows.values(), state.schema.names)
        with self.step():
            after = None
            if by == "pylance":
                by_pylance.overwrite(self.uri, data, 4)
            else:
                after = self.attempt(
                    self.base(by, back),
                    lambda table: table.overwrite(data, layout=lw.Layout(max_rows_per_file=4)),
                )
                if after is None:
                    self.nothing("overwrite")
                    return
            self.settle("overwrite", lambda v: [Effect(inserted=rows).on(state, state, v)], after)

    @precondition(lambda self: not self.has_been("compact", within=1))
    @rule(by=who, back=steps_back, rows=st.sampled_from([5, 12, 100]))
    def compact(self, by: str, back: int, rows: int) -> None:
        with self.step():
            if by == "pylance":
                by_pylance.compact(self.uri, rows)
            else:
                self.attempt(self.base(by, back), lambda table: table.compact(target_rows=rows))
            self.nothing("compact")

    @rule(seed=seeds, by=who, back=steps_back)
    def restore(self, seed: int, by: str, back: int) -> None:
        version = Random(seed).choice(sorted(self.states))
        with self.step():
            if by == "pylance":
                by_pylance.restore(self.uri, version)
            else:
                self.base(by, back).restore(version)
            self.settle("restore", lambda v: [self.states[version]])

    @precondition(lambda self: len(self.states) > 8)
    @rule(by=who, keep=st.integers(1, 3))
    def cleanup(self, by: str, keep: int) -> None:
        with self.step():
            if by == "pylance":
                by_pylance.cleanup(self.uri)
                keep = 1
            else:
                self.base(by, 0).cleanup(keep_versions=keep, in_flight=timedelta(0))
            left = {
                each.version for each in lw.open(self.uri, access=lw.Access(fsync=False)).versions()
            }
            assert left == set(sorted(self.states)[-keep:])
            self.states = {version: self.states[version] for version in left}
            self.handles = {self.version: self.handles[self.version]}
            self.nothing("cleanup")

    @precondition(lambda self: self.is_stable and len(self.states) > 1)
    @rule(seed=seeds)
    def changes(self, seed: int) -> None:
        since, until = sorted(Random(seed).sample(sorted(self.states), 2))
        self.look_back(since, until)

    @precondition(lambda self: len(self.states) > 1)
    @rule(seed=seeds)
    def diff(self, seed: int) -> None:
        self.compare(*Random(seed).sample(sorted(self.states), 2))

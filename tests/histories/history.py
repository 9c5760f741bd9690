"""One table from its creation on: what each version must hold, and how a step is settled.

A change by Lancewood may be called on the handle of an older version: its outcome must then be that
of the change on the newest version, or on the older one with what happened since on top of it, or
a conflict where one is due. The rules are elsewhere.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import lance
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine
from tests.histories import by_pylance, drawing
from tests.histories.checks import agree, check_changes, check_diff, check_indices, observe
from tests.histories.model import Effect, State

import lancewood as lw
from lancewood.jobs.counts import RowCounts

Outcomes = Callable[[int], Iterable[State | None]]
"""The states that a step may lead to, told the number of the version that it made."""

seeds = st.integers(0, 2**20)
who = st.sampled_from(["lancewood", "lancewood", "pylance"])
steps_back = st.sampled_from([0, 0, 0, 1, 2, 3])
"""On which handle a change of ours is called: the newest, or an older one."""

ROW_CHANGES = frozenset({"append", "delete", "update", "merge", "replace", "compact"})
SCHEMA_CHANGES = frozenset({"add", "drop", "rename", "cast"})
REPLACEMENTS = frozenset({"overwrite", "restore"})
_MOST_HANDLES = 5


class History(RuleBasedStateMachine):
    """The table and its model."""

    is_stable: bool
    file_version: str
    key_is_told: bool
    """Whether the schema says what the key is."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.mkdtemp(prefix="lancewood-histories-")
        self.uri = f"{self.directory}/t.lance"
        self.numbers = drawing.fresh_numbers()
        self.states: dict[int, State] = {}
        self.kinds: dict[int, str] = {}
        self.handles: dict[int, lw.Table] = {}
        self._next_key = 0
        self._next_id = 0
        self._is_whole = False

    @property
    def version(self) -> int:
        return max(self.states)

    @property
    def newest(self) -> State:
        return self.states[self.version]

    def has_been(self, kind: str, within: int) -> bool:
        """Whether one of the last versions was made by a change of this kind."""
        recent = range(self.version - within + 1, self.version + 1)
        return any(self.kinds.get(each) == kind for each in recent)

    def base(self, by: str, back: int) -> lw.Table:
        """The handle that a change is called on; pylance opens the newest version."""
        known = sorted(self.handles, reverse=True)
        return self.handles[known[min(back, len(known) - 1) if by == "lancewood" else 0]]

    def base_of_rows(self, by: str, back: int) -> lw.Table:
        """The same for a change of rows, which pylance may make on an older version too, as long
        as the columns are what they were: it appends nulls to a column that was cast since."""
        old = self.base("lancewood", back)
        if by == "lancewood" or self.since(old).isdisjoint(SCHEMA_CHANGES | REPLACEMENTS):
            return old
        return self.base(by, back)

    def since(self, base: lw.Table) -> set[str]:
        """The kinds of changes that were made after a version."""
        return {kind for version, kind in self.kinds.items() if version > base.version}

    def fresh_keys(self, count: int) -> list[int]:
        first, self._next_key = self._next_key, self._next_key + count
        return list(range(first, self._next_key))

    def make_rows(
        self, state: State, keys: Iterable[int], random: Random
    ) -> dict[int, dict[int, Any]]:
        """New rows by key."""
        null_structs = self.file_version != "2.0"
        return {key: drawing.row(state, key, random, null_structs=null_structs) for key in keys}

    @contextmanager
    def step(self) -> Iterator[None]:
        """After a step that failed, the end of the history does not look at the table."""
        self._is_whole = False
        yield
        self._is_whole = True

    def settle(self, kind: str, outcomes: Outcomes, handle: lw.Table | None = None) -> None:
        """The newest version must be one of the outcomes; ``handle`` is what a step returned."""
        observed = observe(self.uri)
        failures = []
        for state in outcomes(observed.version):
            try:
                if state is not None:
                    found = agree(
                        observed, state, first_new_id=self._next_id if self.is_stable else None
                    )
                    break
            except AssertionError as failure:
                failures.append(failure)
        else:
            raise failures[0] if failures else AssertionError(f"{kind} led to no possible state")
        before, newest = self.version, self.newest
        for version in range(before + 1, observed.version):
            self.states[version], self.kinds[version] = newest, "reserve"
        self.states[observed.version] = found
        if observed.version > before:
            self.kinds[observed.version] = kind
            self.handles[observed.version] = handle or lw.open(
                self.uri, access=lw.Access(fsync=False)
            )
            for old in sorted(self.handles)[:-_MOST_HANDLES]:
                del self.handles[old]
        assert self.handles[observed.version].version == observed.version
        self._next_id = max(
            self._next_id, *(1 + (row.row_id or 0) for row in found.rows.values()), 0
        )
        check_indices(self.uri, found)

    def nothing(self, kind: str) -> None:
        """The step left everything as it was."""
        self.settle(kind, lambda version: [self.newest])

    def attempt(
        self, base: lw.Table, act: Callable[[lw.Table], lw.Table], *also: str
    ) -> lw.Table | None:
        """What a change returns; None if it failed, as it may for what happened since ``base``.

        ``also`` are kinds of changes that are a reason for a conflict, beside those that concern
        the whole table.
        """
        since = self.since(base)
        try:
            return act(base)
        except lw.ConflictError:
            if since.isdisjoint(SCHEMA_CHANGES | REPLACEMENTS | set(also)):
                raise
        except lw.InvalidInputError:
            if since.isdisjoint(SCHEMA_CHANGES | REPLACEMENTS):
                raise
        return None

    def change_rows(
        self,
        kind: str,
        base: lw.Table,
        find: Callable[[State], Effect | None],
        act: Callable[[lw.Table], lw.Table],
    ) -> None:
        """A change of ours, whose effect is found in the newest version, or in that of ``base``."""
        after = self.attempt(base, act)
        if after is None:
            self.nothing(kind)
            return
        seen, newest = self.states[base.version], self.newest
        is_new = after.version > self.version

        def outcomes(version: int) -> Iterator[State | None]:
            told = []
            for state in (newest, seen):
                effect = find(state)
                if effect is not None and effect.is_nothing != is_new:
                    told.append(counts_of(effect))
                    if after.counts == told[-1]:
                        yield effect.on(state, newest, version)
            if after.counts not in told:
                raise AssertionError(f"{kind} counted {after.counts}, possible are {told}")

        self.settle(kind, outcomes, after if is_new else None)

    def change_rows_by_pylance(
        self,
        kind: str,
        base: lw.Table,
        find: Callable[[State], Effect | None],
        act: Callable[[Any], by_pylance.Counts],
    ) -> None:
        """The same by pylance, which may give up if the version of ``base`` is an old one."""
        seen, newest = self.states[base.version], self.newest
        try:
            told = act(lance.dataset(self.uri, version=base.version))
        except OSError as failure:
            if base.version == self.version or "conflict" not in str(failure).lower():
                raise
            self.nothing(kind)
            return

        def outcomes(version: int) -> Iterator[State | None]:
            for state in (newest, seen):
                effect = find(state)
                if effect is not None:
                    counts = counts_of(effect)
                    if told == (counts.inserted, counts.updated, counts.deleted):
                        yield effect.on(state, newest, version)

        self.settle(kind, outcomes)

    def look_back(self, since: int, until: int) -> None:
        """What is told to have changed between two versions."""
        with self.step(), self.told_unless_gone():
            check_changes(
                lw.open(self.uri, access=lw.Access(fsync=False)), since, until, self.states
            )

    def compare(self, one: int, other: int) -> None:
        """Which rows differ between two versions, whichever is the earlier."""
        with self.step(), self.told_unless_gone():
            table = lw.open(self.uri, access=lw.Access(fsync=False))
            check_diff(table, one, other, self.states[one], self.states[other])

    @contextmanager
    def told_unless_gone(self) -> Iterator[None]:
        """Versions that were cleaned up tell neither rows nor what became of columns."""
        try:
            yield
        except (lw.NotFoundError, lw.UnsupportedError):
            if min(self.states) == 1:
                raise

    def teardown(self) -> None:
        """What was once a version is what it was, and changes are told from each to the last."""
        try:
            if self._is_whole:
                report = lw.open(self.uri).verify()
                assert report.ok, report.problems
                for version, state in self.states.items():
                    observed = observe(self.uri, version)
                    agree(observed, state, first_new_id=0 if self.is_stable else None)
                    if self.is_stable:
                        self.look_back(version, self.version)
                    self.compare(version, self.version)
                    self.compare(self.version, version)
        finally:
            shutil.rmtree(self.directory, ignore_errors=True)


def counts_of(effect: Effect) -> RowCounts:
    """What a change with this effect has to tell."""
    return RowCounts(
        inserted=len(effect.inserted),
        updated=len(effect.updated),
        deleted=len(effect.deleted),
        unchanged=effect.unchanged,
    )

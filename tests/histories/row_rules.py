"""Rules that change rows: append, delete, update, merge."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from tests.histories import by_pylance, drawing
from tests.histories.checks import indexed_numbers
from tests.histories.drawing import Assignment
from tests.histories.history import History, seeds, steps_back, who
from tests.histories.model import KEY, Effect, State

import lancewood as lw

_MOST_ROWS = 60


class RowRules(History):
    """A change is found in a version as an effect, and called by its name and SQL text."""

    @precondition(lambda self: len(self.newest.rows) < _MOST_ROWS)
    @rule(
        seed=seeds,
        by=who,
        back=steps_back,
        count=st.integers(1, 9),
        per_file=st.integers(2, 9),
    )
    def append(self, seed: int, by: str, back: int, count: int, per_file: int) -> None:
        random = Random(seed)
        base = self.base_of_rows(by, back)
        seen = self.states[base.version]
        names = self._names_of_source(seen, random, for_insert=True)
        rows = self.make_rows(seen, self.fresh_keys(count), random)
        data = seen.arrow(rows.values(), names)
        effect = Effect(inserted={key: _only(row, seen, names) for key, row in rows.items()})
        with self.step():
            if by == "pylance":
                self.change_rows_by_pylance(
                    "append",
                    base,
                    lambda state: effect,
                    lambda dataset: by_pylance.append(dataset, data, per_file),
                )
                return
            after = self.attempt(
                base, lambda table: table.append(data, layout=lw.Layout(max_rows_per_file=per_file))
            )
            if after is None:
                self.nothing("append")
                return
            self.settle("append", lambda v: [effect.on(seen, self.newest, v)], after)

    @rule(seed=seeds, by=who, back=steps_back)
    def delete(self, seed: int, by: str, back: int) -> None:
        base = self.base_of_rows(by, back)
        where = drawing.where(self.states[base.version], Random(seed))

        def find(state: State) -> Effect | None:
            keys = where.keys(state)
            return None if keys is None else Effect(deleted=keys)

        with self.step():
            if by == "lancewood":
                self.change_rows("delete", base, find, lambda table: table.delete(where.sql))
                return
            self.change_rows_by_pylance(
                "delete", base, find, lambda dataset: by_pylance.delete(dataset, where.sql)
            )

    @rule(
        seed=seeds,
        by=who,
        back=steps_back,
        rewrite=st.sampled_from(["auto", "rows", "columns"]),
    )
    def update(self, seed: int, by: str, back: int, rewrite: Any) -> None:
        random = Random(seed)
        base = self.base_of_rows(by, back)
        seen = self.states[base.version]
        where = drawing.where(seen, random)
        chosen = drawing.assignments(seen, random, sql_only=by == "pylance")
        if not chosen:
            return

        def find(state: State) -> Effect | None:
            keys = where.keys(state)
            if keys is None or not all(each.fits(state) for each in chosen):
                return None
            return Effect(updated={key: _assigned(state, key, chosen) for key in keys})

        with self.step():
            if by == "lancewood":
                given = {each.target: each.given for each in chosen}
                self.change_rows(
                    "update",
                    base,
                    find,
                    lambda table: table.update(given, where.sql, rewrite=rewrite),
                )
                return
            self.change_rows_by_pylance(
                "update", base, find, lambda dataset: by_pylance.update(dataset, chosen, where.sql)
            )

    @rule(seed=seeds, by=who, back=steps_back, fresh=st.integers(0, 4))
    def upsert(self, seed: int, by: str, back: int, fresh: int) -> None:
        self._merge(seed, by, back, "update", "insert", "keep", fresh)

    @rule(
        seed=seeds,
        by=who,
        back=steps_back,
        matched=st.sampled_from(["update", "ignore", "delete"]),
        not_matched=st.sampled_from(["insert", "ignore"]),
        not_matched_by_source=st.sampled_from(["keep", "keep", "delete"]),
        fresh=st.integers(0, 4),
    )
    def merge(
        self,
        seed: int,
        by: str,
        back: int,
        matched: str,
        not_matched: str,
        not_matched_by_source: str,
        fresh: int,
    ) -> None:
        if (matched, not_matched, not_matched_by_source) == ("ignore", "ignore", "keep"):
            return
        if by == "pylance" and matched == not_matched_by_source == "delete":
            return  # pylance 14.0.2 fails with an internal error of its planner
        self._merge(seed, by, back, matched, not_matched, not_matched_by_source, fresh)

    def _merge(
        self,
        seed: int,
        by: str,
        back: int,
        matched: str,
        not_matched: str,
        not_matched_by_source: str,
        fresh: int,
    ) -> None:
        random = Random(seed)
        if by == "pylance" and not self._notices_keys:
            back = 0
        base = self.base_of_rows(by, back)
        seen = self.states[base.version]
        keys = set(random.sample(sorted(seen.rows), min(len(seen.rows), random.randrange(6))))
        news = sorted(self.newest.rows.keys() - seen.rows.keys())
        keys.update(each for each in news if random.random() < 0.4)
        keys.update(self.fresh_keys(fresh if len(self.newest.rows) < _MOST_ROWS else 0))
        if not keys:
            return
        shuffled = random.sample(sorted(keys), len(keys))
        rows = self.make_rows(seen, shuffled, random)
        names: list[str] = seen.schema.names
        if by == "lancewood" and matched != "delete":
            names = self._names_of_source(seen, random, for_insert=not_matched == "insert")
        data = seen.arrow(rows.values(), names)
        choices = {
            "matched": matched,
            "not_matched": not_matched,
            "not_matched_by_source": not_matched_by_source,
        }

        def find(state: State) -> Effect | None:
            if any(state.column(name) is None for name in names):
                return None
            given = {key: _renumbered(row, seen, state, names) for key, row in rows.items()}
            return _merged(state, given, choices)

        def act(table: lw.Table) -> lw.Table:
            return table.merge(data, on=None if self.key_is_told else KEY, **choices)  # type: ignore[arg-type]

        with self.step():
            if by == "lancewood":
                self.change_rows("merge", base, find, act)
                return
            self.change_rows_by_pylance(
                "merge", base, find, lambda dataset: by_pylance.merge(dataset, data, KEY, choices)
            )

    @property
    def _notices_keys(self) -> bool:
        """Whether pylance 14.0.2 notices that others insert a key that it inserts: it has to be
        told that the column is one, and leaves no word of its own keys if they are indexed."""
        key = self.newest.column(KEY)
        assert key is not None
        return self.key_is_told and key.number not in indexed_numbers(self.uri)

    def _names_of_source(self, state: State, random: Random, *, for_insert: bool) -> list[str]:
        """All columns, or some of them, the key among them."""
        names: list[str] = state.schema.names
        if random.random() < 0.6:
            return names
        has_null_structs = self.file_version != "2.0"
        needed = {
            each.name
            for each in state.columns
            if for_insert and (not each.nullable or (each.children and not has_null_structs))
        }
        return [
            each.name
            for each in state.columns
            if each.name == KEY or each.name in needed or random.random() < 0.6
        ]


def _only(row: dict[int, Any], state: State, names: Sequence[str]) -> dict[int, Any]:
    return {each.number: row[each.number] for each in state.columns if each.name in names}


def _renumbered(
    row: dict[int, Any], seen: State, state: State, names: Sequence[str]
) -> dict[int, Any]:
    """A row that was made for one version, by the numbers that its columns have in another."""
    there = {each.name: each for each in state.columns}
    return {
        there[each.name].number: there[each.name].hidden(each.shown(row[each.number]))
        for each in seen.columns
        if each.name in names
    }


def _assigned(state: State, key: int, chosen: Sequence[Assignment]) -> dict[int, Any]:
    old = state.rows[key].values
    return dict(each.applied(state, old) for each in chosen)


def _merged(state: State, rows: dict[int, dict[int, Any]], choices: dict[str, str]) -> Effect:
    matched = {key: row for key, row in rows.items() if key in state.rows}
    fresh = {key: row for key, row in rows.items() if key not in state.rows}
    deleted = set(matched) if choices["matched"] == "delete" else set()
    if choices["not_matched_by_source"] == "delete":
        deleted |= state.rows.keys() - rows.keys()
    return Effect(
        deleted=frozenset(deleted),
        updated=matched if choices["matched"] == "update" else {},
        inserted=fresh if choices["not_matched"] == "insert" else {},
        unchanged=len(matched) if choices["matched"] == "ignore" else 0,
    )

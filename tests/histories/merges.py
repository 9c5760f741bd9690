"""Random histories of three branches of a table, written by both implementations and merged in
every direction, beside a model of plain dicts.

What a step other than a merge did to the rows is read with pylance; what a merge must make of them
the model says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import count
from random import Random
from typing import Any, Literal

import pyarrow as pa
import pytest
from tests.counted import counts_of
from tests.histories.three_way import STRATEGIES, Graph, Row, State, Strategy, Union, has_changed
from tests.pylance import judged, lance

import lancewood as lw
from lancewood.jobs.counts import Merged

MAIN = "main"
KEY = "k"
_PRIMARY = {"lance-schema:unenforced-primary-key": "true"}
_VERBS = {
    "append": 3,
    "update": 8,
    "delete": 4,
    "upsert": 2,
    "again": 2,
    "compact": 2,
    "restore": 1,
    "reset": 1,
    "merge": 12,
}
_COLUMN_VERBS = {**_VERBS, "restore": 0, "add": 3, "rename": 1, "cast": 1}
_RENAMED = {"name": "b"}
"""What a column is called at first."""


class MergedHistory:
    """One table with its branches, and what each of them must hold."""

    def __init__(
        self,
        uri: str,
        random: Random,
        *,
        has_key: bool,
        by_pylance: bool,
        changes_columns: bool = False,
    ) -> None:
        self.uri, self.random, self.by_pylance = uri, random, by_pylance
        self.key = KEY if has_key else None
        self.done: Counter[str] = Counter()
        self._verbs = _COLUMN_VERBS if changes_columns else _VERBS
        self.graph, self.steps = Graph(), list[str]()
        self.heads: dict[str, int] = {}
        self.parents: dict[str, str] = {}
        self.lives: dict[str, list[tuple[int, int]]] = {}
        """For each branch: its versions since it began, and their commits."""
        self.lines: dict[str, str] = {}
        self._keys = count()
        version = random.choice(["2.0", "2.1", "2.2"])
        table = lw.create(
            uri,
            self._table([self._row() for _ in range(12)]),
            layout=lw.Layout(max_rows_per_file=5, file_version=version),
            access=lw.Access(fsync=False),
        )
        self._settle(MAIN, table.version)
        for name, parent in (("one", MAIN), ("two", random.choice([MAIN, "one"]))):
            made = self.ours(parent).branches.create(name)
            self.parents[name] = parent
            self._begin(name, made.version)

    def run(self, merges: int) -> None:
        """Go on until so many merges were asked for; raises AssertionError with all steps."""
        try:
            while self.done["merge"] < merges:
                self.step()
            for branch in self.heads:
                self.check_upkeep(branch)
        except BaseException as failure:
            failure.add_note("\n".join(self.steps))
            raise

    def work(self, branch: str, steps: int) -> None:
        """Change rows of a branch, so many times."""
        for _ in range(steps):
            getattr(self, self.random.choice(["append", "update", "update", "delete", "compact"]))(
                branch
            )

    def step(self) -> None:
        branch = self.random.choice([*self.heads])
        verb = self.random.choices([*self._verbs], [*self._verbs.values()])[0]
        if verb == "merge":
            other = self.random.choice([each for each in self.heads if each != branch])
            self.merge(branch, other, self.random.choice(STRATEGIES))
        elif verb == "reset":
            if branch != MAIN:
                self.steps.append(f"reset {branch}")
                made = self.ours(MAIN).branches.reset(branch, force=True)
                self._begin(branch, made.version)
        else:
            getattr(self, verb)(branch)
        self.done[verb] += 1

    # Steps of one branch

    def append(self, branch: str) -> None:
        data = self._table([self._row() for _ in range(self.random.randrange(1, 5))], branch)
        if self._is_theirs(branch, f"append {data.to_pylist()}"):
            lance.write_dataset(data, self.theirs(branch), mode="append", max_rows_per_file=2)
        else:
            self.ours(branch).append(data, layout=lw.Layout(max_rows_per_file=3))
        self._settle(branch)

    def update(self, branch: str) -> None:
        where = self._where(branch)
        if where is None:
            return
        names = [each for each in self.ours(branch).schema.names if each != KEY]
        name = self.random.choice(names)
        change = {name: self._sql(name)}
        whole = self.random.random() < 0.5
        rewrite: Literal["rows", "columns"] = "rows" if whole else "columns"
        if self._is_theirs(branch, f"update {change} where {where}, {rewrite}"):
            self.theirs(branch).update(change, where=where)
        else:
            self.ours(branch).update(change, where, rewrite=rewrite)
        self._settle(branch)

    def delete(self, branch: str) -> None:
        where = self._where(branch, most=3)
        if where is None:
            return
        if self._is_theirs(branch, f"delete where {where}"):
            self.theirs(branch).delete(where)
        else:
            self.ours(branch).delete(where)
        self._settle(branch)

    def upsert(self, branch: str) -> None:
        """Some rows get other values, others are new; keys that another branch has among them."""
        known = {
            row[KEY] for each in self.heads.values() for row in self.graph.states[each].values()
        }
        keys = self.random.sample(sorted(known - {None}), min(len(known - {None}), 2))
        data = self._table([{**self._row(), KEY: each} for each in keys] + [self._row()], branch)
        if self._is_theirs(branch, f"upsert {data.to_pylist()}"):
            builder = self.theirs(branch).merge_insert(KEY)
            builder.when_matched_update_all().when_not_matched_insert_all().execute(data)
        else:
            self.ours(branch).merge(data, on=KEY)
        self._settle(branch)

    def again(self, branch: str) -> None:
        """Some rows are deleted and inserted with other values, as loaders do."""
        where = self._where(branch, most=3)
        if where is None:
            return
        found = judged(self._root(branch)).to_table(filter=where).to_pylist()
        data = self._table([{**self._row(), KEY: row[KEY]} for row in found], branch)
        self.steps.append(f"{branch}: rows of {where} again, {data.to_pylist()}")
        self.ours(branch).delete(where)
        self._settle(branch)
        self.ours(branch).append(data)
        self._settle(branch)

    def compact(self, branch: str) -> None:
        if self._is_theirs(branch, "compact"):
            self.theirs(branch).optimize.compact_files(target_rows_per_fragment=100)
        else:
            self.ours(branch).compact(target_rows=self.random.choice([6, 100]))
        self._settle(branch)

    def restore(self, branch: str) -> None:
        """An earlier version, and what it held of other branches."""
        version, commit = self.random.choice(self.lives[branch])
        self.steps.append(f"{branch}: restore {version}")
        before = self.heads[branch]
        made = self.ours(branch).checkout(version=version).restore()
        if made.version == self.lives[branch][-1][0]:
            return
        own = {each for _, each in self.lives[branch]}
        self._note(branch, made.version, self.graph.holds[commit] | own | {before})

    def add(self, branch: str) -> None:
        """A column that another branch may add as well."""
        name = self.random.choice(["c", "d"])
        if name in self.ours(branch).schema.names:
            return
        sql = "CAST(a + 1 AS BIGINT)" if self.random.random() < 0.5 else None
        if self._is_theirs(branch, f"add {name} {sql}"):
            self.theirs(branch).add_columns({name: sql} if sql else pa.field(name, pa.int64()))
        else:
            self.ours(branch).add_columns({name: sql} if sql else pa.field(name, pa.int64()))
        self._settle(branch)

    def rename(self, branch: str) -> None:
        if "b" in self.ours(branch).schema.names and not self.done["renamed"]:
            self.steps.append(f"{branch}: rename b")
            self.ours(branch).rename_column("b", "name")
            self.done["renamed"] += 1
            self._settle(branch)

    def cast(self, branch: str) -> None:
        if not self.done["retyped"]:
            self.steps.append(f"{branch}: cast n")
            self.ours(branch).cast_column("n", pa.int32())
            self.done["retyped"] += 1
            self._settle(branch)

    # Merges

    def merge(self, ours: str, theirs: str, strategy: Strategy) -> None:
        """Merge a branch into another one, and compare with every answer that would be right."""
        self.steps.append(f"merge {theirs} into {ours}, {strategy.name}")
        mine, other = self.heads[ours], self.heads[theirs]
        before, listed = self.ours(ours), self._listed(theirs)
        asked: Mapping[str, Any] = {"resolve": strategy.resolve, "detect": strategy.detect}
        if other in self.graph.holds[mine]:
            after = before.branches.merge(theirs, **asked)
            assert after.version == before.version
            assert not counts_of(after, Merged).is_new
            return
        right = self.graph.unions(mine, other, strategy, self.key)
        bases = self.graph.bases(mine, other)
        self.steps[-1] += f", {len(bases)} bases" if len(bases) > 1 else ""
        self.done["criss-cross"] += len(bases) > 1
        shown = before.branches.conflicts(theirs, **asked).to_arrow().to_pylist()
        self._check_conflicts(shown, right)
        if shown:
            self._check_refused(before, theirs, asked, len(shown))
            return
        planned = counts_of(before.branches.merge(theirs, **asked, dry_run=True), Merged)
        assert self.ours(ours).version == before.version
        counts = counts_of(before.branches.merge(theirs, **asked), Merged)
        assert _counted(planned) == _counted(counts)
        if not counts.is_new:
            assert self.ours(ours).version == before.version
            assert [self.graph.states[each] for each in bases] == [self.graph.states[other]]
            return
        self._check_merged(ours, [each for each in right if not each.conflicts], counts)
        assert self._listed(theirs) == listed
        held = self.graph.holds[mine] | self.graph.holds[other]
        self._note(ours, self.ours(ours).version, held)
        self.done["merged"] += 1

    def _check_conflicts(self, shown: list[Any], right: list[Union]) -> None:
        found = {
            row["_rowid"]: (row["_kind"], frozenset(_RENAMED.get(n, n) for n in row["_columns"]))
            for row in shown
        }
        assert len(found) == len(shown)
        expected = [
            {number: (each.kind, each.columns) for number, each in union.conflicts.items()}
            for union in right
        ]
        assert found in expected, f"conflicts are {found}, not {expected}"

    def _check_refused(
        self, before: lw.Table, theirs: str, asked: Mapping[str, Any], conflicts: int
    ) -> None:
        self.done["in conflict"] += 1
        with pytest.raises(lw.MergeConflictError) as refused:
            before.branches.merge(theirs, **asked)
        assert refused.value.facts["conflicts"] == conflicts
        assert before.latest().version == before.version

    def _check_merged(self, branch: str, right: list[Union], counts: Merged) -> None:
        before, found = self.graph.states[self.heads[branch]], self.read(branch)
        wrong = [_differences(each.in_our_terms(found), each.rows) for each in right]
        assert "" in wrong, "\nor\n".join(wrong)
        assert counts.inserted == len(found.keys() - before.keys())
        assert counts.deleted == len(before.keys() - found.keys())
        changed = sum(
            has_changed(row, found[number]) for number, row in before.items() if number in found
        )
        assert counts.updated + counts.rewritten >= changed
        self._check_with_pylance(branch, found)
        report = self.ours(branch).verify()
        assert report.ok, report.problems

    def _check_with_pylance(self, branch: str, rows: State) -> None:
        dataset = judged(self._root(branch))
        found = dataset.to_table(filter="n >= 3", columns=["n"], with_row_id=True)
        chosen = {number for number, row in rows.items() if row["n"] is not None and row["n"] >= 3}
        assert {*found.column("_rowid").to_pylist()} == chosen
        some = self.random.sample(sorted(rows), min(4, len(rows)))
        taken = map(_as_at_first, dataset._take_rows(some).to_pylist())
        assert [*taken] == [rows[each] for each in some]

    def check_upkeep(self, branch: str) -> None:
        """pylance compacts the branch, and what it finds by an index is what it has."""
        rows = self.read(branch)
        if not rows:
            return
        dataset = judged(self._root(branch))
        dataset.create_scalar_index("n", "BTREE")
        dataset.optimize.compact_files(target_rows_per_fragment=100)
        self._check_with_pylance(branch, rows)
        assert self.read(branch) == rows
        assert self.ours(branch).verify().ok

    # The table

    def ours(self, branch: str) -> lw.Table:
        return lw.open(
            self.uri, branch=None if branch == MAIN else branch, access=lw.Access(fsync=False)
        )

    def theirs(self, branch: str) -> Any:
        dataset = lance.dataset(self.uri)
        return dataset if branch == MAIN else dataset.checkout_version((branch, None))

    def read(self, branch: str) -> State:
        """The rows of a branch by their ids, as pylance finds them."""
        rows = judged(self._root(branch)).to_table(with_row_id=True).to_pylist()
        found = {row.pop("_rowid"): _as_at_first(row) for row in rows}
        assert len(found) == len(rows), "row ids are there twice"
        if self.key is not None:
            keys = [row[self.key] for row in rows if row[self.key] is not None]
            assert len({*keys}) == len(keys), f"keys are there twice: {sorted(keys)}"
        return found

    def _root(self, branch: str) -> str:
        return self.uri if branch == MAIN else f"{self.uri}/tree/{branch}"

    def _listed(self, branch: str) -> list[int]:
        return [each.version for each in self.ours(branch).versions()]

    def _is_theirs(self, branch: str, what: str) -> bool:
        """Whether pylance makes a step."""
        found = self.by_pylance and self.random.random() < 0.4
        self.steps.append(f"{branch}: {what}{' by pylance' if found else ''}")
        return found

    def _settle(self, branch: str, version: int | None = None) -> None:
        """Note what a step made of a branch."""
        version = self.ours(branch).version if version is None else version
        held = self.graph.holds[self.heads[branch]] if branch in self.heads else frozenset[int]()
        if branch not in self.lives or version > self.lives[branch][-1][0]:
            self._note(branch, version, held)

    def _begin(self, branch: str, version: int) -> None:
        """Note that a branch is its parent's newest version."""
        self.lives.pop(branch, None)
        self.lines[branch] = f"{branch} since {len(self.graph.states)}"
        self._note(branch, version, self.graph.holds[self.heads[self.parents[branch]]])

    def _note(self, branch: str, version: int, held: frozenset[int]) -> None:
        line = self.lines.setdefault(branch, branch)
        self.heads[branch] = self.graph.add(line, self.read(branch), held)
        self.lives.setdefault(branch, []).append((version, self.heads[branch]))

    # What is drawn

    def _row(self) -> Row:
        return {KEY: next(self._keys), **{name: self._value(name) for name in "abncd"}}

    def _table(self, rows: list[Row], branch: str | None = None) -> pa.Table:
        """Rows as a branch takes them."""
        marked = pa.field(KEY, pa.int64(), False, _PRIMARY if self.key else None)
        kinds = {"a": pa.int64(), "b": pa.string(), "n": pa.int64()}
        schema = pa.schema([marked, *(pa.field(*each) for each in kinds.items())])
        if branch is not None:
            schema = self.ours(branch).schema
        names = {each: _RENAMED.get(each, each) for each in schema.names}
        chosen = [{name: row[first] for name, first in names.items()} for row in rows]
        return pa.Table.from_pylist(chosen, schema=schema)

    def _value(self, name: str) -> Any:
        number = self.random.choice([0, 1, 2, 3, 4, 5, None])
        return str(number) if name in ("b", "name") and number is not None else number

    def _sql(self, name: str) -> str:
        if name == "n" and self.random.random() < 0.5:
            return "n + 1"
        value = self._value(name)
        return "NULL" if value is None else repr(value)

    def _where(self, branch: str, most: int = 6) -> str | None:
        keys = sorted(row[KEY] for row in self.graph.states[self.heads[branch]].values())
        if len(keys) <= most:
            return None
        chosen = self.random.sample(keys, self.random.randrange(1, most + 1))
        return f"{KEY} IN ({', '.join(map(str, chosen))})"


def _as_at_first(row: Row) -> Row:
    return {_RENAMED.get(name, name): value for name, value in row.items()}


def _counted(counts: Merged) -> tuple[int, ...]:
    return (
        counts.is_new,
        counts.inserted,
        counts.updated,
        counts.deleted,
        counts.joined,
        counts.resolved,
    )


def _differences(found: State, right: State) -> str:
    return "\n".join(
        f"row {number} is {right.get(number)}, not {found.get(number)}"
        for number in sorted({*found, *right})
        if found.get(number) != right.get(number)
    )

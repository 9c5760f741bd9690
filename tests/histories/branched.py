"""Random histories of a table with indices and branches: what is written, indexed, published and
merged on any of them, and asked on all.

What a branch holds is read with pylance, without an index.
"""

from __future__ import annotations

from collections import Counter
from itertools import count
from random import Random
from typing import Any, Literal
from unittest.mock import patch

import pyarrow as pa
from tests.histories.answers import WORD, check_answers, kinds_for, settings
from tests.histories.drawing import TAGS, VECTOR
from tests.pylance import judged, lance

import lancewood as lw
from lancewood.jobs.index import building

MAIN = "main"
PARENTS = {"one": MAIN, "two": "one"}
TYPES = {"k": pa.int64(), "a": pa.int32(), "s": pa.string(), "tags": TAGS, "v": VECTOR}
_VALUES: dict[str, list[Any]] = {
    "a": [None, -1, 0, 3, 7],
    "s": [None, "", "x", f"{WORD} x", "ü"],
    "tags": [None, [], ["red"], ["blue", None]],
    "v": [None, [0.0, 0.5], [2.0, 0.5], [3.0, 0.5]],
}
_SQL = {"a": ["a + 1", "5", "NULL"], "s": [f"'{WORD}'", "'y'", "NULL"]}
_VERBS = {
    "append": 3,
    "update": 6,
    "delete": 2,
    "compact": 2,
    "restore": 1,
    "create": 5,
    "extend": 4,
    "optimize": 2,
    "drop": 1,
    "publish": 3,
    "merge": 2,
    "reset": 1,
}


class IndexedBranches:
    """One table with its branches."""

    def __init__(
        self, uri: str, random: Random, *, is_stable: bool, pylance_takes_part: bool
    ) -> None:
        self.uri, self.random = uri, random
        self.done: Counter[str] = Counter()
        self.steps = list[str]()
        self._keys = count()
        self._pylance_takes_part = pylance_takes_part
        lw.create(
            uri,
            self._rows(14),
            layout=lw.Layout(stable_row_ids=is_stable, max_rows_per_file=5),
            access=lw.Access(fsync=False),
        )
        for name, parent in PARENTS.items():
            self.ours(parent).branches.create(name)

    def run(self, steps: int) -> None:
        """Raises AssertionError with all steps."""
        try:
            with patch.object(building, "LEAST_BYTES", 0):  # a task for every few fragments
                for _ in range(steps):
                    self.step()
            for branch in (MAIN, *PARENTS):
                self.check(branch)
                report = self.ours(branch).verify()
                assert report.ok, report.problems
        except BaseException as failure:
            failure.add_note("\n".join(self.steps))
            raise

    def step(self) -> None:
        branch = self.random.choice([MAIN, *PARENTS])
        verb = self.random.choices([*_VERBS], [*_VERBS.values()])[0]
        self.steps.append(f"{verb} on {branch}")
        before = self.ours(branch).version
        getattr(self, verb)(branch)
        self.done[verb] += self.ours(branch).version > before
        self.check(branch)

    def check(self, branch: str) -> None:
        """What all indices of a branch answer, both ways, is what its rows say."""
        table, dataset = self.ours(branch), self.theirs(branch)
        assert table.version == dataset.version
        values = dataset.to_table().to_pydict()
        for index in table.indices.list():
            assert index.column is not None
            known = dict(zip(values["k"], values[index.column], strict=True))
            check_answers(table, dataset, index.column, index.kind, known)

    # Rows

    def append(self, branch: str) -> None:
        data = self._rows(self.random.randrange(1, 6))
        if self._is_theirs():
            lance.write_dataset(data, self.theirs(branch), mode="append", max_rows_per_file=2)
        else:
            self.ours(branch).append(data, layout=lw.Layout(max_rows_per_file=3))

    def update(self, branch: str) -> None:
        name = self.random.choice([*_SQL])
        change, where = {name: self.random.choice(_SQL[name])}, self._where(branch)
        self.steps[-1] += f", {change} where {where}"
        if self._is_theirs():
            self.theirs(branch).update(change, where=where)
            return
        rewrite: Literal["rows", "columns"] = self.random.choice(["rows", "columns"])
        self.steps[-1] += f", {rewrite}"
        self.ours(branch).update(change, where, rewrite=rewrite)

    def delete(self, branch: str) -> None:
        where = self._where(branch)
        self.steps[-1] += f", {where}"
        if self._is_theirs():
            self.theirs(branch).delete(where)
        else:
            self.ours(branch).delete(where)

    def compact(self, branch: str) -> None:
        rows = self.random.choice([6, 100])
        is_inherited = any(each.base_id is not None for each in self.ours(branch).indices)
        # pylance 14.0.2 writes what it remaps of an inherited segment into the branch, and names it
        # as one of the parent's
        if not is_inherited and self._is_theirs():
            self.theirs(branch).optimize.compact_files(target_rows_per_fragment=rows)
        else:
            self.ours(branch).compact(target_rows=rows)

    def restore(self, branch: str) -> None:
        table = self.ours(branch)
        version = self.random.choice([each.version for each in table.versions()])
        self.steps[-1] += f", {version}"
        table.restore(version)

    # Indices

    def create(self, branch: str) -> None:
        column = self.random.choice([*TYPES])
        kind = self.random.choice(kinds_for(TYPES[column]))
        name = f"{column}_{kind.lower()}"
        self.steps[-1] += f", {name}"
        if not self.ours(branch).count_rows(f"{column} IS NOT NULL"):
            return
        if not self._is_theirs():
            indices = self.ours(branch).indices
            indices.create(column, kind, name=name, replace=True, **settings(kind))
        elif kind == "IVF_FLAT":
            self.theirs(branch).create_index(
                column, kind, name=name, replace=True, num_partitions=1
            )
        else:
            self.theirs(branch).create_scalar_index(column, kind, name=name, replace=True)

    def extend(self, branch: str) -> None:
        for each in self.ours(branch).indices.extend().indices.list():
            assert each.rows_uncovered == 0, each.name

    def optimize(self, branch: str) -> None:
        for each in self.ours(branch).indices.optimize().indices.list():
            assert (each.rows_uncovered, each.segments) == (0, 1), each.name

    def drop(self, branch: str) -> None:
        names = sorted({each.name for each in self.ours(branch).indices})
        if names:
            self.ours(branch).indices.drop(self.random.choice(names))

    # Branches

    def publish(self, branch: str) -> None:
        """Refused where the parent has gone another way; afterwards it is at its parent again."""
        if branch == MAIN:
            return
        try:
            self.ours(PARENTS[branch]).branches.publish(branch)
            self.steps[-1] += ", done"
            self.done["published"] += 1
        except lw.ConflictError as refusal:
            self.steps[-1] += f", refused: {refusal}"
        self.check(PARENTS[branch])
        self.reset(branch)

    def merge(self, branch: str) -> None:
        other = self.random.choice([each for each in (MAIN, *PARENTS) if each != branch])
        self.steps[-1] += f", {other}"
        table = self.ours(branch)
        if table.has_stable_row_ids:
            table.branches.merge(other, resolve="ours")
            self.done["merged"] += 1

    def reset(self, branch: str) -> None:
        if branch != MAIN:
            self.ours(PARENTS[branch]).branches.reset(branch, force=True)

    # The table

    def ours(self, branch: str) -> lw.Table:
        return lw.open(
            self.uri, branch=None if branch == MAIN else branch, access=lw.Access(fsync=False)
        )

    def theirs(self, branch: str) -> Any:
        dataset = judged(self.uri)
        return dataset if branch == MAIN else dataset.checkout_version((branch, None))

    def _is_theirs(self) -> bool:
        is_theirs = self._pylance_takes_part and self.random.random() < 0.4
        self.steps[-1] += " by pylance" if is_theirs else ""
        return is_theirs

    def _rows(self, rows: int) -> pa.Table:
        columns = {
            name: [next(self._keys) if name == "k" else self._value(name) for _ in range(rows)]
            for name in TYPES
        }
        return pa.table({name: pa.array(columns[name], kind) for name, kind in TYPES.items()})

    def _value(self, name: str) -> Any:
        return self.random.choice(_VALUES[name])

    def _where(self, branch: str) -> str:
        """A condition that some rows meet, for which an index may be asked."""
        keys = self.theirs(branch).to_table(columns=["k"]).column("k").to_pylist() or [0]
        some = self.random.sample(sorted(keys), min(len(keys), 3))
        return self.random.choice(
            [f"k IN ({', '.join(map(str, some))})", "a = 3", "s = 'x'", f"k < {some[0]} AND a > 0"]
        )

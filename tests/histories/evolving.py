"""Random histories of columns on three branches: added, dropped, renamed, cast, reordered, at the
top, in structs and in lists, by both implementations, beside rows that all branches write; merged
in every direction, published, and written from handles that are behind.

A cell is changed on one branch only, so that what rows become is plain, and what columns become is
the question.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count, permutations
from random import Random
from typing import Any

import pyarrow as pa
from tests.histories.column_lives import (
    KEY,
    Brought,
    Node,
    Number,
    Shape,
    State,
    are_twins,
    as_kind,
    bring,
    losses,
    read_cells,
)
from tests.histories.three_way import Graph
from tests.pylance import judged, lance

import lancewood as lw
from lancewood.format.schema import encode_schema
from lancewood.model.schema import Schema
from lancewood.model.transaction import Project

MAIN = "main"
BRANCHES = (MAIN, "one", "two")
INT = pa.int64()
_PRIMARY = {"lance-schema:unenforced-primary-key": "true"}
_CASTS = {
    "int64": [pa.int32(), pa.float64(), pa.string()],
    "int32": [INT, pa.float64(), pa.string()],
    "double": [pa.string()],
    "string": [pa.large_string()],
    "large_string": [pa.string()],
}
_VERBS = {
    "append": 5,
    "append_from_an_old_handle": 3,
    "update": 4,
    "update_from_an_old_handle": 2,
    "upsert": 3,
    "delete": 1,
    "insert_again": 2,
    "compact": 1,
    "add": 3,
    "drop": 3,
    "rename": 6,
    "cast": 5,
    "swap": 1,
    "reorder": 1,
    "annotate": 1,
    "restore": 2,
    "merge": 12,
    "publish": 2,
    "reset": 1,
}
_OF_A_TABLE_ALONE = {
    "append_from_an_old_handle",
    "update_from_an_old_handle",
    "restore",
    "publish",
    "reset",
}
_VERBS_IN_A_REPOSITORY = {
    **{verb: weight for verb, weight in _VERBS.items() if verb not in _OF_A_TABLE_ALONE},
    "revert": 4,
    "pick": 4,
}
_MOST_COLUMNS = 7
SHAPES: tuple[tuple[Shape, ...], ...] = ((), ("struct",), ("list",), ("value", "struct", "list"))
"""What columns a history has beside a plain one."""


class EvolvingBranches:
    """One table with its branches, and what each of them must hold."""

    verbs: Mapping[str, int] = _VERBS

    def __init__(
        self,
        uri: str,
        random: Random,
        *,
        by_pylance: bool,
        has_key: bool = False,
        shapes: Sequence[Shape] = ("value", "struct", "list"),
    ) -> None:
        self.uri, self.random, self.by_pylance, self.shapes = uri, random, by_pylance, shapes
        self.has_key = has_key
        self.done: Counter[str] = Counter()
        self.steps = list[str]()
        self._hashes: dict[str, str] = {}
        self.revisions: dict[int, str] = {}
        self.graph, self.states = Graph(), list[State]()
        self.heads: dict[str, int] = {}
        self.lives: dict[str, list[tuple[lw.Table, int]]] = {}
        """For each branch: its versions since it began as handles, and their commits."""
        self.lines = {each: each for each in BRANCHES}
        self._numbers, self._rows = (
            count(1),
            {each: count(at, 3) for at, each in enumerate(BRANCHES)},
        )
        state = State({}, {})
        for shape in (*shapes, "value"):
            state = self._with_column(state, shape)
        self._create(self._with_new_rows(state, MAIN, 3))

    def _create(self, state: State) -> None:
        # structs that are null are not in files of 2.0, nor fields of them that pylance casts there
        version = self.random.choice(["2.1", "2.2"] if self.shapes else ["2.0", "2.1", "2.2"])
        data = self._data(state, _arrow(state, has_key=self.has_key), state.rows)
        lw.create(
            self.uri,
            data,
            layout=lw.Layout(max_rows_per_file=2, file_version=version),
            access=lw.Access(fsync=False),
        )
        self._note(MAIN, state)
        for name in BRANCHES[1:]:
            self.ours(MAIN).branches.create(name)
            self._note(name, state, self.graph.holds[self.heads[MAIN]])

    def run(self, steps: int) -> None:
        """Raises AssertionError with all steps."""
        try:
            for _ in range(steps):
                self.step()
        except BaseException as failure:
            failure.add_note("\n".join(self.steps))
            raise

    def step(self) -> None:
        branch = self.random.choice(BRANCHES)
        self.take(self.random.choices([*self.verbs], [*self.verbs.values()])[0], branch)

    def take(self, verb: str, branch: str) -> None:
        """One step on a branch."""
        self.steps.append(f"{verb} on {branch}")
        before = len(self.states)
        getattr(self, verb)(branch)
        self.done[verb] += len(self.states) > before

    # Rows

    def append(self, branch: str) -> None:
        after = self._with_new_rows(self.state(branch), branch, self.random.randrange(1, 3))
        new = {key: row for key, row in after.rows.items() if key not in self.state(branch).rows}
        data = self._data(after, self.ours(branch).schema, new)
        self.steps[-1] += f", {data.to_pylist()}"
        if self._is_theirs():
            lance.write_dataset(data, self.theirs(branch), mode="append")
        else:
            self.write(branch, lambda table: table.append(data))
        self._settle(branch, after)

    def update(self, branch: str) -> None:
        change = self._update(branch, self.state(branch))
        if change is not None:
            self.write(branch, change[0])
            self._settle(branch, change[1])

    def upsert(self, branch: str) -> None:
        """Some rows are given other cells of all columns that are this branch's in them."""
        before = self.state(branch)
        keys = self.random.sample([*before.rows], min(len(before.rows), 2))
        rows = {}
        for key in keys:
            cells = self._cells(before)
            own = {each for each in cells if key in self._own(branch, before, before.top(each))}
            rows[key] = {**before.rows[key], **{each: cells[each] for each in own}}
        after = before.with_rows(rows)
        schema = self.ours(branch).schema
        data = self._data(after, schema, {each: after.rows[each] for each in keys})
        self.steps[-1] += f", {data.to_pylist()}"
        if self._is_theirs():
            builder = self.theirs(branch).merge_insert(KEY)
            builder.when_matched_update_all().when_not_matched_insert_all().execute(data)
        else:
            self.write(branch, lambda table: table.merge(data, on=KEY))
        self._settle(branch, after)

    def delete(self, branch: str) -> None:
        keys = self._own(branch, self.state(branch))[:1]
        if len(self.state(branch).rows) < 5 or not keys:
            return
        where = f"{KEY} = {keys[0]}"
        self.steps[-1] += f", {where}"
        if self._is_theirs():
            self.theirs(branch).delete(where)
        else:
            self.write(branch, lambda table: table.delete(where))
        left = {key: row for key, row in self.state(branch).rows.items() if key not in keys}
        self._settle(branch, replace(self.state(branch), rows=left))

    def insert_again(self, branch: str) -> None:
        """A row is deleted and inserted again with other cells, which is one row by its key."""
        before = self.state(branch)
        if not self.has_key or not before.rows:
            return
        key = self.random.choice([*before.rows])
        cells = self._cells(before)
        own = {each for each in cells if key in self._own(branch, before, before.top(each))}
        row = {**before.rows[key], **{each: cells[each] for each in own}}
        left = {each: cells for each, cells in before.rows.items() if each != key}
        after = replace(before, rows={**left, key: row})
        data = self._data(after, self.ours(branch).schema, {key: row})
        self.steps[-1] += f", {data.to_pylist()}"
        self.write(branch, lambda table: table.delete(f"{KEY} = {key}"))
        self._settle(branch, replace(before, rows=left))
        self.write(branch, lambda table: table.append(data))
        self._settle(branch, after)

    def compact(self, branch: str) -> None:
        if self._is_theirs():
            self.theirs(branch).optimize.compact_files(target_rows_per_fragment=100)
        else:
            self.write(branch, lambda table: table.compact(target_rows=100))
        self._settle(branch, self.state(branch))

    def append_from_an_old_handle(self, branch: str) -> None:
        table, commit = self.random.choice(self.lives[branch][-4:])
        old = self.states[commit]
        after = self._with_new_rows(old, branch, 1)
        new = {key: row for key, row in after.rows.items() if key not in old.rows}
        data = self._data(after, table.schema, new)
        self._from_behind(branch, old, after, table, lambda table: table.append(data))

    def update_from_an_old_handle(self, branch: str) -> None:
        table, commit = self.random.choice(self.lives[branch][-4:])
        change = self._update(branch, self.states[commit])
        if change is not None:
            self._from_behind(branch, self.states[commit], change[1], table, change[0])

    def _from_behind(
        self, branch: str, old: State, after: State, table: lw.Table, step: Callable[..., Any]
    ) -> None:
        self.steps[-1] += f", version {table.version}"
        right = bring(old, self.state(branch), after)
        try:
            step(table)
        except lw.LancewoodError as refusal:
            self.steps[-1] += f", refused: {refusal}"
            self.done["refused from behind"] += 1
            self._settle(branch, self.state(branch))
            return
        self._settle(branch, self._checked(branch, right, self.state(branch), after))

    def _update(
        self, branch: str, state: State
    ) -> tuple[Callable[[lw.Table], lw.Table], State] | None:
        """Give a cell, or one of a struct, another value."""
        able = [
            each
            for each in state.leaves()
            if (parent := state.nodes[each].parent) is None or state.nodes[parent].shape == "struct"
        ]
        if not able:
            return None
        leaf, value = self.random.choice(able), self._value()
        keys = self._own(branch, state, state.top(leaf))[:1]
        if not keys:
            return None
        node = state.nodes[leaf]
        sql = repr(as_kind(node.kind, value))
        if node.parent is not None and state.row(keys[0])[state.nodes[node.parent].name] is None:
            return None
        change, where = {state.path(leaf): sql}, f"{KEY} = {keys[0]}"
        how: Any = self.random.choice(["rows", "columns"])
        self.steps[-1] += f", {change} where {where}, {how}"
        after = state.with_rows({keys[0]: {**state.rows[keys[0]], leaf: value}})
        return lambda table: table.update(change, where, rewrite=how), after

    # Columns

    def add(self, branch: str) -> None:
        before = self.state(branch)
        if len(before.below(None)) >= _MOST_COLUMNS:
            return
        after = self._with_column(before, self.random.choice(["value", *self.shapes]))
        number = next(each for each in after.below(None) if each not in before.nodes)
        leaves = [number, *after.below(number)]
        rows = {
            key: {**cells, **{n: c for n, c in self._cells(after).items() if n in leaves}}
            for key, cells in before.rows.items()
        }
        after = after.with_rows(rows)
        only = State({each: after.nodes[each] for each in leaves}, after.rows)
        data = self._data(only, _arrow(only), after.rows)
        self.steps[-1] += f", {data.to_pylist()}"
        self.write(branch, lambda table: table.add_columns(data, on=KEY))
        self._settle(branch, after)

    def drop(self, branch: str) -> None:
        state = self.state(branch)
        able = [
            each
            for each, node in state.nodes.items()
            if (node.parent is None and len(state.below(None)) > 2)
            or (node.parent is not None and len(state.below(node.parent)) > 2)
        ]
        if not able:
            return
        number = self.random.choice(able)
        path, parent = state.path(number), state.nodes[number].parent
        self.steps[-1] += f", {path}"
        # pylance 14.0.2 drops a whole list for a field in it
        is_listed = parent is not None and state.nodes[parent].shape == "list"
        if not is_listed and self._is_theirs():
            self.theirs(branch).drop_columns([path])
        else:
            self.write(branch, lambda table: table.drop_columns([path]))
        self._settle(branch, state.without(number))

    def rename(self, branch: str) -> None:
        state = self.state(branch)
        number = self.random.choice([*state.nodes])
        self._rename(branch, number, f"r{next(self._numbers)}", by_pylance=self._is_theirs())

    def swap(self, branch: str) -> None:
        """Two fields of a struct have each other's name."""
        state = self.state(branch)
        structs = [each for each, node in state.nodes.items() if node.shape == "struct"]
        for struct in self.random.sample(structs, len(structs)):
            self._swap(branch, state.below(struct))
            return

    def swap_columns(self, branch: str) -> None:
        """Two columns have each other's name."""
        self._swap(branch, self.state(branch).below(None))

    def _swap(self, branch: str, numbers: Sequence[Number]) -> None:
        if len(numbers) < 2:
            return
        nodes = self.state(branch).nodes
        one, other, *_ = self.random.sample(numbers, 2)
        self._rename(branch, one, f"r{next(self._numbers)}")
        self._rename(branch, other, nodes[one].name)
        self._rename(branch, one, nodes[other].name)

    def _rename(self, branch: str, number: Number, name: str, *, by_pylance: bool = False) -> None:
        state = self.state(branch)
        path = state.path(number)
        self.steps[-1] += f", {path} to {name}"
        if by_pylance:
            self.theirs(branch).alter_columns({"path": path, "name": name})
        else:
            self.write(branch, lambda table: table.rename_column(path, name))
        self._settle(branch, state.with_node(number, replace(state.nodes[number], name=name)))

    def cast(self, branch: str) -> None:
        state = self.state(branch)
        number = self.random.choice(state.leaves())
        node = state.nodes[number]
        kind = self.random.choice(_CASTS[str(node.kind)])
        path = state.path(number)
        self.steps[-1] += f", {path} to {kind}"
        is_listed = node.parent is not None and state.nodes[node.parent].shape == "list"
        if not is_listed and kind == pa.int32() and self._is_theirs():
            self.theirs(branch).alter_columns({"path": path, "data_type": kind})
        else:
            self.write(branch, lambda table: table.cast_column(path, kind))
        cast = replace(node, kind=kind, casts=next(self._numbers))
        self._settle(branch, state.with_node(number, cast))

    def reorder(self, branch: str) -> None:
        def project(table: lw.Table) -> lw.Table:
            first, *others = table._snapshot.schema.fields
            moved = Schema((*others, first), table._snapshot.schema.metadata)
            fields = tuple(encode_schema(moved))
            return table.commit(table.transaction(Project(fields, preserves_nullability=True)))

        self.write(branch, project)
        self._settle(branch, self.state(branch))

    def annotate(self, branch: str) -> None:
        """Metadata that no other branch gives."""
        state = self.state(branch)
        path = state.path(self.random.choice([*state.nodes]))
        self.steps[-1] += f", {path}"
        self.write(branch, lambda table: table.set_field_metadata({path: {branch: "noted"}}))
        self._settle(branch, state)

    # Branches

    def restore(self, branch: str) -> None:
        """An earlier version, and what it held of other branches."""
        table, commit = self.random.choice(self.lives[branch][-8:])
        self.steps[-1] += f", {table.version}"
        own = {each for _, each in self.lives[branch]}
        if table.version != self.ours(branch).version:
            table.restore()
            held = self.graph.holds[commit] | own | {self.heads[branch]}
            self._settle(branch, self.states[commit], held)

    def merge(self, branch: str) -> None:
        other = self.random.choice([each for each in BRANCHES if each != branch])
        commit = self._commit_of(other)
        self.steps[-1] += f", {other}"
        is_crossed = len(self.graph.bases(self.heads[branch], commit)) > 1

        def may_be_refused(refusal: lw.LancewoodError) -> bool:
            """What was restored may have the row ids of others, bases that differ in columns are
            not put together, and where a branch began anew the way of a column may be lost."""
            is_plain = type(refusal) in (lw.IncompatibleConflictError, lw.UnsupportedError)
            if is_crossed:
                return is_plain or "both sides changed the columns" in str(refusal)
            return is_plain and self.done["restore"] + self.done["reset"] > 0

        step = partial(self._merge, branch, other, commit)
        self._bring(branch, commit, "merged", step, may_be_refused)

    def _commit_of(self, branch: str) -> int:
        """The commit of a branch that is merged."""
        return self.heads[branch]

    def _merge(self, branch: str, other: str, commit: int) -> None:
        self.ours(branch).branches.merge(other, resolve=self._rule())

    def _rule(self) -> str | None:
        """What decides rows that both sides changed, if something does."""
        rule = self.random.choice([None, None, "ours", "theirs"])
        self.steps[-1] += f", {rule}"
        return rule

    def publish(self, branch: str) -> None:
        """Refused where the target has gone another way; afterwards the branch is there, too."""
        if branch == MAIN:
            return
        self._bring(
            MAIN,
            self.heads[branch],
            "published",
            lambda: self.ours(MAIN).branches.publish(branch),
            lambda refusal: isinstance(refusal, lw.ConflictError),
        )
        self.reset(branch)

    def reset(self, branch: str) -> None:
        if branch != MAIN:
            self.ours(MAIN).branches.reset(branch, force=True)
            self.lives.pop(branch)
            self.lines[branch] = f"{branch} since {len(self.states)}"
            self._note(branch, self.state(MAIN), self.graph.holds[self.heads[MAIN]])

    def _bring(
        self,
        ours: str,
        theirs: int,
        kind: str,
        step: Callable[[], Any],
        may_be_refused: Callable[[lw.LancewoodError], bool],
    ) -> None:
        """Bring what a branch holds to another one, or be refused for a reason."""
        mine, other = self.heads[ours], theirs
        if other in self.graph.holds[mine]:
            return
        sides = self.states[mine], self.states[other]
        base = self.base(mine, other)
        if base is not None and are_twins(base, *sides):
            return
        right = Brought(sides[0], doubts=["bases that do not go together"])
        if base is not None:
            right = bring(base, *sides)
        self.steps[-1] += f", {len(self.graph.bases(mine, other))} bases"
        try:
            step()
        except lw.LancewoodError as refusal:
            self.steps[-1] += f", refused: {refusal}"
            self.done[f"refused, not {kind}"] += 1
            if not may_be_refused(refusal) and not right.refusals and not right.doubts:
                raise
            self._settle(ours, self.state(ours))
            return
        assert not right.refusals, f"{kind} although {right.refusals}"
        held = self.graph.holds[mine] | self.graph.holds[other]
        self._settle(ours, self._checked(ours, right, *sides), held)
        self.done[kind] += 1
        self.done[f"{kind} without a doubt"] += not right.doubts
        self.done["criss-cross"] += len(self.graph.bases(mine, other)) > 1

    def base(self, one: int, other: int) -> State | None:
        """What two commits come from; of several bases what they become. None if that is open."""
        first, *others = self.graph.bases(one, other)
        if not others:
            return self.states[first]
        low = self.base(first, others[0]) if len(others) == 1 else None
        if low is None:
            return None
        found = bring(low, self.states[first], self.states[others[0]])
        return None if found.refusals or found.doubts else found.state

    # The table

    def state(self, branch: str) -> State:
        return self.states[self.heads[branch]]

    def ours(self, branch: str) -> lw.Table:
        return lw.open(
            self.uri, branch=None if branch == MAIN else branch, access=lw.Access(fsync=False)
        )

    def theirs(self, branch: str) -> Any:
        dataset = lance.dataset(self.uri)
        return dataset if branch == MAIN else dataset.checkout_version((branch, None))

    def write(self, branch: str, step: Callable[[lw.Table], Any]) -> None:
        step(self.ours(branch))

    def _checked(self, branch: str, right: Brought, ours: State, theirs: State) -> State:
        """The state of a branch to which two sides were brought.

        Where both renamed columns, a name may be that of another column on each side: what is there
        must be sound as one of them means it.
        """
        if not right.doubts:
            return right.state
        table, failures = self.read(branch), list[Exception]()
        numbers = right.state.numbers(), ours.numbers(), theirs.numbers()
        for first, second, third in permutations(numbers):
            try:
                return self._sound(table, {**third, **second, **first}, ours, theirs)
            except (KeyError, AssertionError) as failure:
                failures.append(failure)
        raise failures[0]

    def _sound(
        self, table: pa.Table, known: Mapping[Any, Number], ours: State, theirs: State
    ) -> State:
        """What a table holds, in which nothing of two sides is lost."""

        def node(number: Number, field: pa.Field) -> Node:
            sides = [side.nodes[number] for side in (ours, theirs) if number in side.nodes]
            if pa.types.is_nested(field.type):
                return replace(sides[0], name=field.name)
            alike = [each for each in sides if each.kind == field.type]
            assert alike, f"{field} is none of {sides}"
            return replace(alike[0], name=field.name)

        names: dict[Number, Node] = {}
        for top in table.schema:
            if top.name == KEY:
                continue
            number = known[None, top.name]
            fields = [(number, top)]
            fields += [(known[number, each.name], each) for each in _inside(top.type)]
            for own, each in fields:
                assert own not in names, f"{each.name} is {names[own].name}, too"
                names[own] = node(own, each)
        found = State(names, {})
        found = found.with_rows(_rows(table, found))
        lost = [*losses(ours, theirs, found)]
        assert not lost, "\n".join(lost)
        return found

    def read(self, branch: str) -> pa.Table:
        table = self.ours(branch)
        theirs = judged(table.uri, version=table.version).to_table()
        ours = table.scan().to_arrow()
        assert ours.schema.equals(theirs.schema)
        assert ours.to_pylist() == theirs.to_pylist()
        return ours

    def _has_moved(self, branch: str) -> bool:
        return self.ours(branch).version > self.lives[branch][-1][0].version

    def _settle(self, branch: str, state: State, held: frozenset[int] | None = None) -> None:
        """Note what a step made of a branch, which must be what is there."""
        before = self.graph.holds[self.heads[branch]]
        self.check(branch, state)
        if self._has_moved(branch):
            self._note(branch, state, before if held is None else held)

    def check(self, branch: str, state: State) -> None:
        found = self.read(branch)
        names = {top.name for top in found.schema} - {KEY}
        tops = {state.nodes[each].name: each for each in state.below(None)}
        assert names == tops.keys(), f"columns are {sorted(tops)}, not {sorted(names)}"
        for name, number in tops.items():
            kind = found.schema.field(name).type
            fields = {each.name: each.type for each in _inside(kind)} or {"": kind}
            expected = {
                state.nodes[each].name if each != number else "": state.nodes[each].kind
                for each in state.below(number) or [number]
            }
            assert fields == expected, f"{name} is {expected}, not {fields}"
        rows = _rows(found, state)
        wrong = [
            f"row {key} is {state.rows.get(key)}, not {rows.get(key)}"
            for key in sorted({*rows, *state.rows})
            if rows.get(key) != state.rows.get(key)
        ]
        assert not wrong, f"of columns {state.nodes}\n" + "\n".join(wrong)

    def _note(self, branch: str, state: State, held: frozenset[int] = frozenset()) -> None:
        self.heads[branch] = self.graph.add(self.lines[branch], {}, held)
        self.states.append(state)
        self.lives.setdefault(branch, []).append((self.ours(branch), self.heads[branch]))

    def _is_theirs(self) -> bool:
        """Whether pylance makes a step."""
        found = self.by_pylance and self.random.random() < 0.4
        self.steps[-1] += " by pylance" if found else ""
        return found

    # What is drawn

    def _with_column(self, state: State, shape: Shape) -> State:
        number = next(self._numbers)
        state = state.with_node(
            number, Node(f"c{number}", INT if shape == "value" else None, shape)
        )
        for _ in range(0 if shape == "value" else 4):
            inner = next(self._numbers)
            state = state.with_node(inner, Node(f"f{inner}", INT, parent=number))
        return state

    def _with_new_rows(self, state: State, branch: str, rows: int) -> State:
        """On main at first rows for all branches."""
        owners = BRANCHES if not self.heads else (branch,)
        keys = [next(self._rows[each]) for _ in range(rows) for each in owners]
        return state.with_rows({each: self._cells(state) for each in keys})

    def _cells(self, state: State) -> dict[Number, Any]:
        cells: dict[Number, Any] = {}
        for number in state.leaves():
            parent = state.nodes[number].parent
            if parent is not None and state.nodes[parent].shape == "list":
                cells[number] = self._value(), self._value()
            else:
                cells[number] = self._value()
        return cells

    def _value(self) -> int:
        return self.random.randrange(1, 1000)

    def _own(self, branch: str, state: State, column: Number = 0) -> list[int]:
        """Rows of which this branch may change a column, or delete all, in any order."""
        at = BRANCHES.index(branch)
        keys = sorted(each for each in state.rows if (each + column) % 3 == at)
        return self.random.sample(keys, len(keys))

    def _data(self, state: State, schema: pa.Schema, rows: Mapping[int, Any]) -> pa.Table:
        return pa.Table.from_pylist([state.row(each) for each in rows], schema=schema)


class EvolvingRepository(EvolvingBranches):
    """The same in a repository: one commit for each step, some of which are reverted, or repeated
    on another branch."""

    verbs = _VERBS_IN_A_REPOSITORY

    def _create(self, state: State) -> None:
        self.repo = lw.Repository.init(self.uri)
        self.commits: dict[str, list[tuple[str, int, int]]] = {each: [] for each in BRANCHES}
        """By branch: commits of one step, with the states that they made, and those before."""
        data = self._data(state, _arrow(state, has_key=self.has_key), state.rows)
        with self.repo.transaction(MAIN, "begin") as changes:
            changes.create_table("t", data, layout=lw.Layout(max_rows_per_file=2))
        self._note(MAIN, state)
        for name in BRANCHES[1:]:
            self.repo.branches.create(name)
            self._note(name, state, self.graph.holds[self.heads[MAIN]])

    def revert(self, branch: str) -> None:
        if self.commits[branch]:
            revision, made, before = self.random.choice(self.commits[branch])
            self.steps[-1] += f", {revision[:8]}"
            self._repeat(branch, made, before, lambda: self.repo.revert(revision, branch=branch))

    def pick(self, branch: str) -> None:
        other = self.random.choice([each for each in BRANCHES if each != branch])
        if self.commits[other]:
            revision, made, before = self.random.choice(self.commits[other])
            self.steps[-1] += f", {revision[:8]} of {other}"
            self._repeat(
                branch, before, made, lambda: self.repo.cherry_pick(revision, branch=branch)
            )

    def _repeat(self, branch: str, base: int, theirs: int, step: Callable[[], Any]) -> None:
        """Bring the difference of two states to a branch, or be refused for a reason."""
        ours, other = self.state(branch), self.states[theirs]
        if are_twins(self.states[base], ours, other):
            return
        right, verb = bring(self.states[base], ours, other), self.steps[-1].split()[0]
        try:
            step()
        except lw.MergeConflictError as refusal:
            self.steps[-1] += f", refused: {refusal}"
            self.done[f"refused {verb}"] += 1
            if not right.refusals and not right.doubts:
                raise
            self._settle(branch, ours)
            return
        assert not right.refusals, f"{verb} although {right.refusals}"
        self._settle(
            branch, self._with_new_lives(branch, self._checked(branch, right, ours, other))
        )

    def _with_new_lives(self, branch: str, after: State) -> State:
        """The state with a new life for each column that was dropped on the branch and is back, and
        what else is new marked as picked."""
        before = {
            number for _, commit in self.lives[branch] for number in self.states[commit].nodes
        }
        for number in before & {*after.nodes} - {*self.state(branch).nodes}:
            node = replace(after.nodes[number], life=next(self._numbers))
            after = after.with_node(number, node)
        for number in {*after.nodes} - {*self.state(branch).nodes}:
            after = after.with_node(number, replace(after.nodes[number], is_picked=True))
        return after

    def ours(self, branch: str) -> lw.Table:
        return self.repo.at(branch).table("t")

    def write(self, branch: str, step: Callable[[lw.Table], Any]) -> None:
        before = self.heads[branch]
        with self.repo.transaction(branch, self.steps[-1]) as changes:
            step(changes.table("t"))
        if self._has_moved(branch):
            self.commits[branch].append((self._head(branch), len(self.states), before))

    def _commit_of(self, branch: str) -> int:
        """The newest one or an earlier one, so that branches are merged crosswise."""
        return self.random.choice(self.lives[branch][-3:])[1]

    def _merge(self, branch: str, other: str, commit: int) -> None:
        self.repo.merge(self.revisions[commit], branch=branch, resolve=self._rule())

    def _head(self, branch: str) -> str:
        return str(self.repo.at(branch).commit.hash)

    def _has_moved(self, branch: str) -> bool:
        return self._head(branch) != self._hashes.get(branch)

    def _note(self, branch: str, state: State, held: frozenset[int] = frozenset()) -> None:
        super()._note(branch, state, held)
        self._hashes[branch] = self.revisions[self.heads[branch]] = self._head(branch)


def swapping(uri: str, seed: int) -> EvolvingBranches:
    """The history of a seed in which columns often have each other's name."""
    history = evolving(uri, seed)
    history.verbs = {**history.verbs, "swap_columns": 6}
    return history


def evolving(uri: str, seed: int) -> EvolvingBranches:
    """The history of a seed: of a table alone or in a repository, by pylance as well or not, with
    a primary key or without."""
    at, shapes = seed // len(SHAPES), SHAPES[seed % len(SHAPES)]
    kind = EvolvingRepository if at % 3 == 1 else EvolvingBranches
    has_key = at % 2 == 1
    return kind(uri, Random(seed), by_pylance=at % 3 == 2, has_key=has_key, shapes=shapes)


def _arrow(state: State, *, has_key: bool = False) -> pa.Schema:
    fields = [pa.field(KEY, INT, not has_key, _PRIMARY if has_key else None)]
    for number in state.below(None):
        node = state.nodes[number]
        inner = pa.struct([(state.nodes[n].name, state.nodes[n].kind) for n in state.below(number)])
        kinds = {"value": node.kind, "struct": inner, "list": pa.list_(inner)}
        fields.append(pa.field(node.name, kinds[node.shape]))
    return pa.schema(fields)


def _inside(kind: pa.DataType) -> list[pa.Field]:
    if pa.types.is_list(kind):
        kind = kind.value_type
    return [kind.field(at) for at in range(kind.num_fields)] if pa.types.is_struct(kind) else []


def _rows(found: pa.Table, state: State) -> dict[int, dict[Number, Any]]:
    names = state.numbers()
    rows = {row[KEY]: read_cells(row, names) for row in found.to_pylist()}
    assert len(rows) == found.num_rows, f"keys are there twice: {sorted(found[KEY].to_pylist())}"
    return rows

"""Random histories of a repository beside a toy model: commits, merges, resets, reverts and picks
on some branches, with pylance as the reader of the tables and stock git as that of the history.

The model knows each table of each commit as a set of numbers. What a verb does must be what the
model says, or the verb is refused and nothing has changed.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from tests.breadth import daily
from tests.interop import git_judge

from lancewood.errors import ConflictError, InvalidInputError
from lancewood.git.history import merge_bases
from lancewood.git.values import Hash
from lancewood.repo.inspect.status import State
from lancewood.repo.repository import Repository

Tables = dict[str, frozenset[int]]
BRANCHES = ("exp", "dev")
NAMES = ("photos", "labels", "extra")


def rows(*values: int) -> pa.Table:
    return pa.table({"id": pa.array(values, pa.int64())})


@dataclass
class Histories:
    """A repository, and what each of its commits should hold."""

    repo: Repository
    chance: random.Random
    known: dict[Hash, Tables] = field(default_factory=dict)
    number: int = 100
    done: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def tip(self, branch: str) -> Hash:
        return self.repo.branches.list()[branch]

    def state(self, branch: str) -> Tables:
        return self.known[self.tip(branch)]

    @property
    def branches(self) -> list[str]:
        return [*self.repo.branches]

    def step(self) -> None:
        often = (self.write, self.write, self.write, self.merge, self.merge, self.pick)
        seldom = (self.reset, self.revert, self.outside, self.create, self.remove, self.fork)
        verb = self.chance.choice((*often, *often, *seldom))
        before = self.repo.branches.list()
        try:
            verb()
            self.done.append(verb.__name__)
        except (ConflictError, InvalidInputError) as refused:
            self.refused.append(f"{verb.__name__}: {refused}")
            assert self.repo.branches.list() == before, "refused, and something has changed"
        self.check()

    def write(self) -> None:
        branch = self.chance.choice(self.branches)
        state = dict(self.state(branch))
        with self.repo.transaction(branch, "write") as changes:
            for name in self.chance.sample(sorted(state), k=min(len(state), 2)):
                table = changes.table(name)
                if state[name] and self.chance.random() < 0.3:
                    gone = self.chance.choice(sorted(state[name]))
                    table.delete(f"id = {gone}")
                    state[name] -= {gone}
                else:
                    self.number += 1
                    table.append(rows(self.number))
                    state[name] |= {self.number}
        self.note(changes.result.hash, state)

    def create(self) -> None:
        branch = self.chance.choice(self.branches)
        name = next((each for each in NAMES if each not in self.state(branch)), None)
        if name is None or (self.repo.path / "tables" / f"{name}.lance").exists():
            return
        self.number += 1
        state = self.state(branch)
        with self.repo.transaction(branch, "create") as changes:
            changes.create_table(name, rows(self.number))
        self.note(changes.result.hash, {**state, name: frozenset({self.number})})

    def fork(self) -> None:
        if len(self.branches) < 5:
            self.number += 1
            self.repo.branches.create(f"b{self.number}", at=self.chance.choice(self.branches))

    def remove(self) -> None:
        branch = self.chance.choice(self.branches)
        state = self.state(branch)
        if len(state) < 2 or self.chance.random() < 0.7:
            return
        name = self.chance.choice(sorted(state))
        done = self.repo.remove(name, branch=branch)
        self.note(done.hash, {key: each for key, each in state.items() if key != name})

    def outside(self) -> None:
        """pylance appends to main, and that is committed."""
        state = dict(self.state("main"))
        if not state:
            return
        name = self.chance.choice(sorted(state))
        self.number += 1
        lance.write_dataset(rows(self.number), self.uri(name), mode="append")
        done = self.repo.commit("from outside", branch="main")
        self.note(done.hash, {**state, name: state[name] | {self.number}})

    def merge(self) -> None:
        into, name = self.chance.sample(self.branches, k=2)
        ours, theirs = self.tip(into), self.tip(name)
        base = self.repo.merge_base(ours, theirs)
        assert base is not None
        done = self.repo.merge(name, branch=into)
        if base == theirs:
            assert not done.is_new
            return
        self.note(done.hash, merged(self.base(ours, theirs), self.known[ours], self.known[theirs]))

    def base(self, one: Hash, other: Hash) -> Tables:
        """What two commits come from; several are put together first."""
        first, *others = merge_bases(self.repo._context.git.objects, one, other)
        found = self.known[first]
        for each in others:
            found = merged(self.base(first, each), found, self.known[each])
        return found

    def reset(self) -> None:
        branch = self.chance.choice(self.branches)
        target = self.chance.choice([each.hash for each in self.repo.log(branch, limit=4)])
        done = self.repo.reset(target, branch=branch)
        assert done.hash == target

    def revert(self) -> None:
        branch = self.chance.choice(self.branches)
        commit = self.chance.choice([*self.repo.log(branch, limit=3)])
        if not commit.parents:
            return
        state = self.state(branch)
        before, after = self.known[commit.parents[0]], self.known[commit.hash]
        done = self.repo.revert(commit.hash, branch=branch)
        self.note(done.hash, exchanged(state, after, before))

    def pick(self) -> None:
        branch, other = self.chance.sample(self.branches, k=2)
        commit = self.chance.choice([*self.repo.log(other, limit=3)])
        if not commit.parents:
            return
        state = self.state(branch)
        before, after = self.known[commit.parents[0]], self.known[commit.hash]
        done = self.repo.cherry_pick(commit.hash, branch=branch)
        self.note(done.hash, exchanged(state, before, after))

    def note(self, commit: Hash | None, tables: Tables) -> None:
        assert commit is not None
        if commit in self.known:
            assert self.known[commit] == tables
        self.known[commit] = tables

    def uri(self, name: str) -> str:
        return str(self.repo.path / "tables" / f"{name}.lance")

    def check(self) -> None:
        for branch in self.branches:
            state = self.state(branch)
            view = self.repo.at(branch)
            found = {each: sorted(view.table(each).to_arrow()["id"].to_pylist()) for each in view}
            assert found == {name: sorted(each) for name, each in state.items()}, self.done
        self.repo.switch("main")
        for each in self.repo.status().tables:
            assert each.state is State.CLEAN, (each, self.done)
            opened = lance.dataset(self.uri(each.name))
            assert sorted(opened.to_table()["id"].to_pylist()) == sorted(
                self.state("main")[each.name]
            )


def merged(base: Tables, ours: Tables, theirs: Tables) -> Tables:
    """Three sets of rows for each table."""
    found = {}
    for name in {*ours, *theirs}:
        then, here, there = base.get(name), ours.get(name), theirs.get(name)
        if there == then:
            one = here
        elif here == then:
            one = there
        else:
            assert here is not None
            assert there is not None
            known = then or frozenset()
            one = (here | (there - known)) - (known - there)
        if one is not None:
            found[name] = one
    return found


def exchanged(now: Tables, expected: Tables, wanted: Tables) -> Tables:
    """The rows in which two states differ, changed in what there is; a table that only one of them
    has must be what there is."""
    found = dict(now)
    for name in {*expected, *wanted}:
        then, after, here = expected.get(name), wanted.get(name), now.get(name)
        if then == after or here == after:
            continue
        if then is not None and after is not None and here is not None:
            found[name] = (here | (after - then)) - (then - after)
            continue
        assert here == then
        if after is None:
            found.pop(name, None)
        else:
            found[name] = after
    return found


def run(path: Path, seed: int, steps: int) -> Histories:
    repo = Repository.init(path)
    with repo.transaction("main", "begin") as changes:
        for name in NAMES[:2]:
            changes.create_table(name, rows(1, 2, 3))
    histories = Histories(repo, random.Random(seed))
    histories.note(changes.result.hash, {name: frozenset({1, 2, 3}) for name in NAMES[:2]})
    for name in BRANCHES:
        repo.branches.create(name)
    for _ in range(steps):
        histories.step()
    git_judge.check(path)
    return histories


@pytest.mark.parametrize("seed", range(daily(3, of=6)))
def test_a_random_history_holds_what_the_model_says(tmp_path: Path, seed: int) -> None:
    histories = run(tmp_path / "r", seed, 40)
    assert len(histories.done) > len(histories.refused), histories.refused

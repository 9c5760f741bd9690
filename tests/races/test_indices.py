"""Changes of indices beside another writer, in the orders of what they share: each is serial.

Afterwards what pylance finds through an index is what it finds without, and what we find; and no
segment is left that no version names.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from functools import cache
from itertools import count, permutations
from pathlib import Path
from typing import Any

import pytest
from tests.breadth import daily
from tests.faults.hurting import through
from tests.index_scene import ONE, Seen, indexed, rows, small_tasks, unreferenced
from tests.metadata import SHARED

import lancewood as lw
from lancewood.store.base import Store
from lancewood.store.disk import DiskStore
from lancewood.testing.schedule import explore

pytestmark = [pytest.mark.usefixtures("no_waiting"), pytest.mark.sliced(18)]
Act = Callable[[lw.Table], lw.Table]
ORDERS = daily(3, of=20)
"""How many orders of a pair are tried."""

BUILDERS: dict[str, Act] = {
    "create": lambda t: t.indices.create("a", "BTREE", name="new", runner=ONE),
    "create anew": lambda t: t.indices.create("a", name="on_a", replace=True, runner=ONE),
    "create on texts": lambda t: t.indices.create("s", "INVERTED", name="words", runner=ONE),
    "extend": lambda t: t.indices.extend("on_a", runner=ONE),
    "optimize": lambda t: t.indices.optimize("on_a", runner=ONE),
    "drop": lambda t: t.indices.drop("on_a"),
}
OTHERS: dict[str, Act] = {
    "append": lambda t: t.append(rows(20, 22)),
    "delete": lambda t: t.delete("k IN (1, 9)", runner=ONE),
    "update rows": lambda t: t.update({"a": 9}, "k IN (1, 9)", rewrite="rows", runner=ONE),
    "update columns": lambda t: t.update({"a": 9}, "k IN (1, 9)", rewrite="columns", runner=ONE),
    "compact": lambda t: t.compact(runner=ONE),
    "drop the column": lambda t: t.drop_columns(["a"]),
    "rename the column": lambda t: t.rename_column("a", "b"),
    "restore": lambda t: t.restore(1),
    "overwrite": lambda t: t.overwrite(rows(30, 36)),
    **BUILDERS,
}
REFUSALS = (lw.ConflictError, lw.AlreadyExistsError, lw.InvalidInputError, lw.NotFoundError)
"""What the later of two may be told: that it was overtaken, that the name is taken, that the column
or the index is gone."""

Result = tuple[list[dict[str, Any]], set[str], set[int]]
"""The rows, the names of the indices, and who got through."""


@pytest.fixture(autouse=True, scope="module")
def _small_tasks() -> Iterator[None]:
    with small_tasks():
        yield


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Callable[[bool], str]:
    """Tables with and without stable row ids, each made once."""

    def made(stable: bool) -> str:
        return indexed(str(tmp_path_factory.mktemp("races") / "t.lance"), stable=stable).uri

    return cache(made)


def writer(act: Act, version: int) -> Callable[[Store], object]:
    return lambda store: act(through(store.uri, store, version)).version


def result_of(uri: str, landed: set[int]) -> Result:
    """What is there; both find it right, and nothing else is left."""
    table = lw.open(uri)
    names = {name for name, *_ in Seen.at(uri).indices}
    covered = [(each.name, number) for each in table.indices for number in each.fragments]
    assert len({*covered}) == len(covered), "a fragment is covered twice"
    assert not unreferenced(uri)
    found = sorted(table.to_arrow().to_pylist(), key=lambda row: row["k"])
    return found, names, landed


@pytest.mark.parametrize("stable", [True, False])
@pytest.mark.parametrize("one", BUILDERS)
@pytest.mark.parametrize("other", OTHERS)
def test_a_change_of_indices_beside_another_writer_has_a_serial_result(
    templates: Callable[[bool], str], tmp_path: Path, one: str, other: str, stable: bool
) -> None:
    template = templates(stable)
    version = lw.open(template).version
    writers = [writer(BUILDERS[one], version), writer(OTHERS[other], version)]
    numbers = count()

    def fresh() -> Store:
        uri = tmp_path / f"{next(numbers)}.lance"
        shutil.copytree(template, uri)
        return DiskStore(uri, fsync=False)

    serial = []
    for order in permutations(range(2)):
        store, landed = fresh(), set[int]()
        for each in order:
            try:
                writers[each](store)
                landed.add(each)
            except REFUSALS:
                pass
        serial.append(result_of(store.uri, landed))
    for outcome in explore(fresh, writers, ORDERS, seed=14, verbs=SHARED):
        for told in outcome.results:
            assert isinstance(told, (int, *REFUSALS)), outcome
        landed = {n for n, each in enumerate(outcome.results) if isinstance(each, int)}
        assert landed, outcome
        assert result_of(outcome.store.uri, landed) in serial, outcome
        shutil.rmtree(outcome.store.uri)

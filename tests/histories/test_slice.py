"""A few histories, the same every time, and proof that a wrong table would be found.

``python -m tests.histories`` runs for longer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from pyroaring import BitMap
from tests.breadth import daily
from tests.counted import counts_of
from tests.histories.checks import check_indices, index_name
from tests.histories.machine import Histories, run_histories

import lancewood as lw
from lancewood.jobs.counts import RowCounts
from lancewood.model.transaction import CreateIndex

_SEEDS = (1, 2, 3)
_COUNT = daily(2, of=8)
_STEPS = 25


@pytest.mark.parametrize("seed", _SEEDS)
def test_every_history_is_what_plain_dicts_say(seed: int) -> None:
    run_histories(seed, _COUNT, _STEPS, shrinks=False)


def started(*, by: str = "lancewood") -> Histories:
    """A machine with a table of ten rows, some of which were updated."""
    machine = Histories()
    machine.create(
        seed=1, by=by, is_stable=True, key_is_told=False, file_version="2.2", count=10, per_file=4
    )
    machine.update(seed=5, by=by, back=0, rewrite="rows")
    return machine


def lose_a_row(machine: Histories) -> None:
    lw.open(machine.uri).delete(f"k = {min(machine.newest.rows)}")


def change_a_value(machine: Histories) -> None:
    lw.open(machine.uri).update({"s": "'wrong'"}, f"k = {min(machine.newest.rows)}")


def double_a_row(machine: Histories) -> None:
    table = lw.open(machine.uri)
    table.append(table.head(1))


def replace_a_row(machine: Histories) -> None:
    """The same values under another id."""
    table = lw.open(machine.uri)
    first = table.head(1)
    table.delete(f"k = {first.column('k')[0]}").append(first)


@pytest.mark.parametrize("harm", [lose_a_row, change_a_value, double_a_row, replace_a_row])
def test_a_table_that_is_not_what_the_model_says_is_found(
    harm: Callable[[Histories], None],
) -> None:
    machine = started()
    try:
        harm(machine)
        with pytest.raises(AssertionError, match=r"row|keys"):
            machine.compact(by="lancewood", back=0, rows=100)
    finally:
        machine.teardown()


def test_counts_that_are_wrong_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    delete = lw.Table.delete

    def boasting(table: lw.Table, where: str, **arguments: Any) -> lw.Table:
        after = delete(table, where, **arguments)
        return lw.Table(
            after._snapshot, RowCounts(deleted=counts_of(after, lw.RowCounts).deleted + 1)
        )

    monkeypatch.setattr(lw.Table, "delete", boasting)
    machine = started()
    try:
        with pytest.raises(AssertionError, match="counted"):
            machine.delete(seed=3, by="lancewood", back=0)
    finally:
        machine.teardown()


def test_changes_that_are_left_out_are_found() -> None:
    machine = started()
    try:
        newest = machine.newest
        key, row = next(iter(newest.rows.items()))
        assert row.row_id is not None
        elsewhere = replace(row, row_id=row.row_id + 1000)
        machine.states[machine.version] = replace(newest, rows={**newest.rows, key: elsewhere})
        with pytest.raises(AssertionError, match="inserted"):
            machine.look_back(1, machine.version)
    finally:
        machine.teardown()


def test_an_index_that_claims_too_much_is_found() -> None:
    """It says that it covers rows which were changed since it was built."""
    machine = started()
    try:
        state = machine.newest
        column = state.column("s")
        assert column is not None
        table = lw.open(machine.uri).indices.create(
            "s", "BITMAP", name=index_name(column, "BITMAP")
        )
        table = table.update({"s": "'other'"}, rewrite="columns")
        rows = {
            key: replace(row, values={**row.values, column.number: "other"})
            for key, row in state.rows.items()
        }
        check_indices(machine.uri, replace(state, rows=rows))
        (old,) = table.indices
        wrong = old.covering(BitMap(each.id for each in table.fragments))
        table.commit(table.transaction(CreateIndex((wrong,), (old,))))
        with pytest.raises(AssertionError, match=r"BITMAP s: .* by the index"):
            check_indices(machine.uri, replace(state, rows=rows))
    finally:
        machine.teardown()


def test_a_seed_gives_the_same_histories_again() -> None:
    def steps() -> list[str]:
        seen: list[str] = []

        class Noted(Histories):
            def settle(self, kind: str, *arguments: Any) -> None:
                super().settle(kind, *arguments)
                seen.append(f"{kind} {self.version} {sorted(self.newest.rows)}")

        run_histories(7, 3, 8, shrinks=False, machine=Noted)
        return seen

    assert steps() == steps()

"""Every cell of the conflict matrix (facts 7.4), executed.

Theirs lands after the version that ours was built on; then ours is committed. Where it lands, what
pylance reads afterwards is the same, ids and lineage included, as if ours had been built after
theirs, and its indices answer what stands in the rows. Where it does not, nothing has changed.

The other way round, pylance is the one that comes late.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import lance
import pyarrow as pa
import pytest
from tests.breadth import EVERY_CASE
from tests.interop.matrix.ours import OURS
from tests.interop.matrix.tables import BASE, check_answers, full_rows, seen, unordered, values
from tests.interop.matrix.theirs import THEIRS
from tests.interop.matrix.world import World

import lancewood as lw

pytestmark = pytest.mark.sliced(23)

CODES = {
    "Ap": "Append",
    "De": "Delete",
    "DF": "Delete.fragment",
    "Up": "Update",
    "UF": "Update.fragment",
    "Us": "Update.upsert",
    "UC": "Update.columns",
    "Ov": "Overwrite",
    "OC": "Overwrite.config",
    "Ix": "CreateIndex",
    "ID": "CreateIndex.drop",
    "Rw": "Rewrite",
    "Mg": "Merge",
    "Pj": "Project",
    "Pt": "Project.tighten",
    "Rs": "Restore",
    "Rv": "ReserveFragments",
    "Cf": "UpdateConfig",
    "CT": "UpdateConfig.table",
    "CF": "UpdateConfig.field",
    "CS": "UpdateConfig.schema",
    "Rp": "DataReplacement",
    "Ba": "UpdateBases",
}

MATRIX = """
                       Ap De DF Up UF Us UC Ov OC Ix ID Rw Mg Pj Pt Rs Rv Cf CT CF CS Rp Ba
append                 .  .  .  .  .  R  .  .  .  .  .  .  R  .  R  .  .  .  .  .  .  .  .
delete elsewhere       .  .  .  .  .  .  .  .  .  .  .  .  R  .  .  .  .  .  .  .  .  .  .
delete in fragment 0   .  B  R  B  R  B  B  .  .  .  .  R  R  .  .  .  .  .  .  .  .  .  .
delete row 2           .  R  R  R  R  R  R  .  .  .  .  R  R  .  .  .  .  .  .  .  .  .  .
delete fragment 0      .  R  R  R  R  R  R  .  .  .  .  R  R  .  .  .  .  .  .  .  .  I  .
update elsewhere       .  .  .  .  .  R  .  .  .  .  .  .  R  .  R  .  .  .  .  .  .  .  .
update in fragment 0   .  B  R  B  R  R  B  .  .  .  .  R  R  .  R  .  .  .  .  .  .  R  .
update row 2           .  R  R  R  R  R  R  .  .  .  .  R  R  .  R  .  .  .  .  .  .  R  .
update fragment 0      .  R  R  R  R  R  R  .  .  .  .  R  R  .  R  .  .  .  .  .  .  I  .
upsert of key 200      .  .  .  .  .  R  .  .  .  .  .  .  R  .  R  .  .  .  .  .  .  .  .
upsert of key 300      .  .  .  .  .  .  .  .  .  .  .  .  R  .  R  .  .  .  .  .  .  .  .
column a elsewhere     .  .  .  .  .  .  .  .  .  .  .  .  R  .  R  .  .  .  .  .  .  .  .
column a               .  R  R  R  R  R  R  .  .  .  .  R  R  .  R  .  .  .  .  .  .  R  .
column c               .  R  R  R  R  R  R  .  .  .  .  R  R  .  R  .  .  .  .  .  .  .  .
overwrite              I  I  I  I  I  I  I  R  R  I  I  I  I  I  I  .  I  .  .  I  I  I  .
overwrite, config      I  I  I  I  I  I  I  R  I  I  I  I  I  I  I  .  I  I  .  I  I  I  .
index on k             .  .  .  .  .  .  .  .  .  .  .  R  .  .  .  .  .  .  .  .  .  .  .
index late             .  .  .  .  .  .  .  .  .  R  .  R  .  .  .  .  .  .  .  .  .  .  .
drop index b           .  .  .  .  .  .  .  .  .  .  R  .  .  .  .  .  .  .  .  .  .  .  .
compact elsewhere      .  .  .  .  .  .  .  .  .  R  R  .  R  .  .  .  .  .  .  .  .  .  .
compact                .  R  R  R  R  R  R  .  .  R  R  R  R  .  .  .  .  .  .  .  .  R  .
add column             .  R  R  R  R  R  R  .  .  .  .  R  R  R  R  .  .  .  .  R  R  R  .
add column, careless   R  R  R  R  R  R  R  .  .  .  .  R  R  R  R  .  .  .  .  R  R  R  .
cast c                 R  R  R  R  R  R  R  .  .  R  .  R  R  R  R  .  .  .  .  R  R  R  .
drop a                 .  .  .  .  .  R  R  .  .  .  .  .  I  R  R  .  .  .  .  .  .  I  .
drop c                 .  .  .  R  R  R  .  .  .  R  .  .  I  R  R  .  .  .  .  I  .  .  .
drop d                 .  .  .  .  .  R  .  .  .  .  .  .  I  R  R  .  .  .  .  .  .  .  .
rename d               .  .  .  .  .  .  .  .  .  .  .  .  I  R  R  .  .  .  .  .  .  .  .
tighten c              R  .  .  R  R  R  R  .  .  .  .  .  I  R  R  .  .  .  .  .  .  R  .
restore                I  I  I  I  I  I  I  .  .  I  I  I  I  I  I  .  I  .  .  I  I  I  .
reserve                .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .
config                 .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .
same config            .  .  .  .  .  .  .  .  I  .  .  .  .  .  .  .  .  I  .  .  .  .  .
metadata               .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .
same metadata          .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  I  .  .  .  .
metadata of b          .  .  .  .  .  .  .  I  I  .  .  .  R  R  R  I  .  .  .  .  .  .  .
metadata of c          .  .  .  .  .  .  .  I  I  .  .  .  R  R  R  I  .  .  .  I  .  .  .
schema metadata        .  .  .  .  .  .  .  I  I  .  .  .  R  .  .  I  .  .  .  .  I  .  .
replace a elsewhere    .  .  .  .  .  .  .  .  .  .  .  .  R  .  R  .  .  .  .  .  .  .  .
replace a              .  R  R  R  R  R  R  .  .  .  .  R  R  .  R  .  .  .  .  .  .  R  .
replace c              .  R  R  R  R  R  R  .  .  R  .  R  R  .  R  .  .  .  .  .  .  .  .
replace d              .  R  R  R  R  R  R  .  .  .  .  R  R  .  R  .  .  .  .  .  .  .  .
bases                  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .
same bases             .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  .  I
overlay elsewhere      .  .  .  .  .  .  .  .  .  .  .  .  R  .  R  .  .  .  .  .  .  .  .
overlay                .  .  .  R  R  R  R  .  .  .  .  R  R  .  R  .  .  .  .  .  .  .  .
wal                    I  I  I  .  .  .  .  I  I  I  I  .  I  I  I  I  .  .  .  .  .  I  .
clone                  I  I  I  I  I  I  I  I  I  I  I  I  I  I  I  I  I  I  I  I  I  I  I
unknown                I  I  I  I  I  I  I  I  I  I  I  I  I  I  I  I  I  I  I  I  I  I  I
missing                I  I  I  I  I  I  I  I  I  I  I  I  I  I  I  I  I  I  I  I  I  I  I
"""
"""Ours from left to right, theirs downwards.

    .  lands                       R  run it again on the newer version
    B  lands, built on theirs      I  incompatible

Where pylance, as facts 7.4 records it, would land instead:

    cast c, drop c   an index on a column that is gone makes pylance refuse the table
    compact          an index that was rewritten has another name, and dropping it would do nothing
    metadata of b    a schema change would take their metadata away
    drop c           there is no field any more whose metadata could be set
    drop a, c, d     an update of a column that is gone would be told as done, and do nothing
    clone            the branch was made anew or reset, and has other rows under the same numbers
"""


def _read_matrix() -> dict[tuple[str, str], str]:
    header, *lines = MATRIX.strip().splitlines()
    ours = [CODES[each] for each in header.split()]
    cells = {}
    for line in lines:
        theirs, codes = line.split("  ", 1)
        for mine, code in zip(ours, codes.split(), strict=True):
            cells[mine, theirs] = code
    return cells


CELLS = _read_matrix()
Worlds: TypeAlias = Callable[[bool], World]


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Worlds:
    """The tables with and without stable row ids, made when first asked for."""
    made: dict[bool, World] = {}

    def world(stable: bool) -> World:
        if stable not in made:
            made[stable] = World(tmp_path_factory.mktemp("world"), stable)
        return made[stable]

    return world


def test_the_matrix_has_every_pair() -> None:
    assert set(CELLS) == set(itertools.product(OURS, THEIRS))


ROWS = ("Append", "Delete", "Update", "Rewrite", "DataReplacement", "CreateIndex")
NOT_ROWS = ("config", "metadata", "bases", "overlay", "wal", "clone", "unknown", "missing")


def _cases() -> Iterator[tuple[bool, str, str]]:
    """Every pair where ids are stable; without, those that deal with rows, a third every day."""
    for (row, mine), (column, theirs) in itertools.product(enumerate(OURS), enumerate(THEIRS)):
        yield True, mine, theirs
        of_the_day = EVERY_CASE or (row + column) % 3 == 0
        if of_the_day and mine.startswith(ROWS) and not theirs.endswith(NOT_ROWS):
            yield False, mine, theirs


@pytest.mark.parametrize(
    ("stable", "mine", "theirs"),
    [
        pytest.param(*case, id=f"{case[1]} after {case[2]}, {'ids' if case[0] else 'addresses'}")
        for case in _cases()
    ],
)
def test_ours_after_theirs(worlds: Worlds, stable: bool, mine: str, theirs: str) -> None:
    world, verdict = worlds(stable), CELLS[mine, theirs]
    landed_first = world.after_theirs(theirs)
    table = world.another(landed_first)
    if verdict in "RI":
        wanted = lw.RetryableConflictError if verdict == "R" else lw.IncompatibleConflictError
        before = sorted((table / "_versions").iterdir())
        with pytest.raises(wanted):
            world.commit_late(mine, table)
        assert sorted((table / "_versions").iterdir()) == before
        return
    done = world.commit_late(mine, table)
    state = seen(table)
    check_answers(table, state)
    read: Any = lance.dataset(table).read_transaction(done.version)
    assert read.read_version == (done.version - 1 if verdict == "B" else BASE)
    if mine == "CreateIndex":
        assert state["rows"] == seen(landed_first)["rows"]
    elif (mine, theirs) == ("Update.columns", "drop a"):
        assert values(state) == values(seen(landed_first))
    else:
        in_turn = world.another(landed_first)
        world.commit_in_turn(mine, in_turn)
        assert state == seen(in_turn)


def append(dataset: Any) -> None:
    lance.write_dataset(_fitting(dataset, full_rows(110, 111)), dataset, mode="append")


def delete(dataset: Any) -> None:
    dataset.delete("k in (2, 4, 20)")


def update(dataset: Any) -> None:
    dataset.update({"c": "c + 5000"}, where="k in (2, 4, 20)")


def merge_insert(dataset: Any) -> None:
    merge = dataset.merge_insert("k").when_matched_update_all().when_not_matched_insert_all()
    merge.execute(_fitting(dataset, full_rows(2, 20, 200)))


def compact(dataset: Any) -> None:
    dataset.optimize.compact_files(target_rows_per_fragment=10)


def add_columns(dataset: Any) -> None:
    dataset.add_columns({"e": "nullif(k, -1)"})


def _fitting(dataset: Any, data: pa.Table) -> pa.Table:
    return data.select([each for each in data.column_names if each in dataset.schema.names])


PYLANCE = {
    "app": append,
    "del": delete,
    "upd": update,
    "mrg": merge_insert,
    "cmp": compact,
    "add": add_columns,
}
LATE = """
                     app del upd mrg cmp add
Append               .   .   .   .   .   R
Delete               .   .   .   .   R   R
Delete.fragment      .   .   .   .   R   R
Update               .   .   .   .   R   R
Update.fragment      .   .   .   .   R   R
Update.upsert        .   .   .   .   R   R
Update.columns       .   .   .   .   R   R
Overwrite            I   I   I   I   I   I
Overwrite.config     I   I   I   I   I   I
CreateIndex          .   .   .   .   R   .
CreateIndex.drop     .   .   .   .   .   .
Rewrite              .   .   .   .   R   R
Merge                .   .   .   .   R   R
Project              .   .   .   .   .   I
Project.tighten      R   .   .   .   .   I
Restore              I   I   I   I   I   I
ReserveFragments     .   .   .   .   .   .
UpdateConfig         .   .   .   .   .   .
UpdateConfig.table   .   .   .   .   .   .
UpdateConfig.field   .   .   .   .   .   R
UpdateConfig.schema  .   .   .   .   .   R
DataReplacement      .   .   .   .   R   R
UpdateBases          .   .   .   .   .   .
"""
"""Ours downwards, what pylance does afterwards with a dataset that it opened before."""
CONFLICTS = {"R": "^Retryable commit conflict", "I": "^Incompatible transaction"}


def _read_late() -> Iterator[tuple[str, str, str]]:
    header, *lines = LATE.strip().splitlines()
    for line in lines:
        mine, *codes = line.split()
        for late, code in zip(header.split(), codes, strict=True):
            yield mine, late, code


@pytest.mark.parametrize(("mine", "late", "verdict"), [*_read_late()])
@pytest.mark.parametrize("stable", [True, False], ids=["ids", "addresses"])
def test_pylance_after_ours(
    worlds: Worlds, stable: bool, mine: str, late: str, verdict: str
) -> None:
    """It lands as it would have in turn, or it says that it does not."""
    world = worlds(stable)
    table = world.another(world.base)
    world.commit_late(mine, table)
    in_turn = world.another(table)
    old: Any = lance.dataset(table, version=BASE)
    if verdict != ".":
        with pytest.raises(OSError, match=CONFLICTS[verdict]):
            PYLANCE[late](old)
        assert unordered(seen(table), stable) == unordered(seen(in_turn), stable)
        return
    PYLANCE[late](old)
    state = seen(table)
    check_answers(table, state)
    PYLANCE[late](lance.dataset(in_turn))
    assert unordered(state, stable) == unordered(seen(in_turn), stable)

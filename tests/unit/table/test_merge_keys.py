"""Primary keys after a merge: whatever is decided, no two rows get the same one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pytest
from tests.breadth import EVERY_CASE
from tests.merging import (
    FIRST,
    PRIMARY,
    Scene,
    Step,
    append,
    both,
    delete,
    in_place,
    nothing,
    rows_of,
    update,
)

import lancewood as lw

KEY: dict[str, Any] = {"key": True, "nullable": False}
MOVED, SWAPPED = update("k = 1", k="5"), update("k < 3", k="3 - k")
INSERTED = append((1, 7, "new"), **KEY)
Chosen: TypeAlias = Callable[[Sequence[str]], Any]
"""What is decided, by the names of the conflicts."""


def each(**decision: Any) -> Chosen:
    return lambda names: [{"_conflict": name, **decision} for name in names]


def always(resolve: Any) -> Chosen:
    return lambda names: resolve


def keyed(tmp_path: Path, here: Step, there: Step) -> Scene:
    scene = Scene(tmp_path, rows_of(FIRST, **KEY))
    here(scene.on())
    there(scene.on("exp"))
    return scene


def merged(scene: Scene, chosen: Chosen) -> list[int] | None:
    """The keys after the merge; None if it is refused."""
    conflicts = scene.on().branches.conflicts("exp").names()
    before = scene.on().version
    try:
        table = scene.merge(resolve=chosen(conflicts))
    except lw.MergeConflictError:
        assert scene.on().version == before
        return None
    return sorted(table.to_arrow().column("k").to_pylist())


TWICE: dict[str, tuple[Step, Step, Chosen, int]] = {
    "base, another row was inserted": (
        *(delete("k = 1"), both(MOVED, INSERTED)),
        *(always("base"), 1),
    ),
    "base, another row was inserted here": (
        *(both(MOVED, INSERTED), delete("k = 1")),
        *(always("base"), 1),
    ),
    "base, both sides inserted it": (
        *(both(MOVED, INSERTED), both(update("k = 1", k="6"), INSERTED)),
        *(always("base"), 1),
    ),
    "a decision for base": (
        *(delete("k = 1"), both(MOVED, INSERTED)),
        *(each(take="base"), 1),
    ),
    "base, another row was moved": (MOVED, SWAPPED, always("base"), 1),
    "base, another row was moved in place": (
        *(in_place("k = 1", k="5"), in_place("k < 3", k="3 - k")),
        *(always("base"), 1),
    ),
    "base for each column": (MOVED, SWAPPED, always(lw.Resolve(columns={"*": "base"})), 1),
    "a rule that computes": (MOVED, SWAPPED, always({"k": "base.k + 2"}), 3),
    "a decision for a key that a row has": (MOVED, SWAPPED, each(k=3), 3),
    "a decision for a key that a changed row has": (
        *(both(MOVED, update("k = 3", a="9")), both(SWAPPED, update("k = 3", b="'w'"))),
        *(each(k=3), 3),
    ),
    "a decision for a key that was inserted here": (
        *(both(update("k = 1", a="5"), append((4, 40, "n"), **KEY)), update("k = 1", a="6")),
        *(each(take="ours", k=4), 4),
    ),
    "a decision for a key that was inserted there": (
        *(update("k = 1", a="5"), both(update("k = 1", a="6"), append((4, 40, "n"), **KEY))),
        *(each(take="ours", k=4), 4),
    ),
    "one decision for two rows": (
        *(update("k < 3", a="5"), update("k < 3", a="6")),
        *(each(take="ours", k=8), 8),
    ),
    "whole rows of a side that did not move it": (
        *(both(update("k = 1", k="5", a="8"), INSERTED), update("k = 1", a="9")),
        *(always(lw.Resolve(rows="theirs", whole_rows=True)), 1),
    ),
}


@pytest.mark.parametrize("line", TWICE)
def test_what_is_decided_does_not_give_two_rows_one_primary_key(line: str, tmp_path: Path) -> None:
    here, there, chosen, key = TWICE[line]
    scene = keyed(tmp_path, here, there)
    names = scene.on().branches.conflicts("exp").names()
    for is_dry in (True, False):
        facts = scene.refused(resolve=chosen(names), dry_run=is_dry)
        assert (facts["kinds"], facts["keys"]) == ({"key": 1}, [{"k": key}])


FREE: dict[str, tuple[Step, Step, Chosen, list[int]]] = {
    "base for all rows that were moved": (
        *(
            both(MOVED, update("k = 2", k="1")),
            both(update("k = 1", k="6"), update("k = 2", k="7")),
        ),
        *(always("base"), [1, 2, 3]),
    ),
    "the key of a row that was deleted here": (
        *(both(delete("k = 3"), MOVED), SWAPPED),
        *(each(k=3), [1, 3]),
    ),
    "the key of a row that was deleted there": (
        *(MOVED, both(delete("k = 3"), SWAPPED)),
        *(each(k=3), [1, 3]),
    ),
    "the key of a row that was deleted there, and rewritten here": (
        *(both(MOVED, update("k = 3", a="30")), both(delete("k = 3"), SWAPPED)),
        *(each(k=3), [1, 3]),
    ),
    "the key of a row that was moved there": (
        *(MOVED, both(SWAPPED, update("k = 3", k="8"))),
        *(each(k=3), [1, 3, 8]),
    ),
    "the key of a row that was moved on both sides": (
        *(both(MOVED, update("k = 3", k="8")), both(SWAPPED, update("k = 3", k="8"))),
        *(each(k=3), [1, 3, 8]),
    ),
    "a key of its own": (MOVED, SWAPPED, each(k=9), [1, 3, 9]),
}


@pytest.mark.parametrize("line", FREE)
def test_a_key_that_no_row_has_any_more_can_be_given(line: str, tmp_path: Path) -> None:
    here, there, chosen, expected = FREE[line]
    assert merged(keyed(tmp_path, here, there), chosen) == expected


@pytest.mark.parametrize(("given", "expected"), [(8, None), (3, [2, 3, 8])])
def test_keys_that_one_side_wrote_in_place_beside_other_columns_count(
    given: int, expected: list[int] | None, tmp_path: Path
) -> None:
    scene = Scene(tmp_path, rows_of(FIRST, **KEY), max_rows_per_file=1)
    both(MOVED, in_place("k = 3", a="9"))(scene.on())
    both(update("k = 1", k="6"), in_place("k = 3", k="8"))(scene.on("exp"))
    assert merged(scene, each(k=given)) == expected


def test_parts_of_a_key_that_are_put_together_do_not_make_that_of_another_row(
    tmp_path: Path,
) -> None:
    schema = pa.schema([pa.field(name, pa.int64(), False, PRIMARY) for name in ("k", "a")])
    rows = pa.table({"k": [1, 2], "a": [1, 2]}, schema)
    scene = Scene(tmp_path, rows)
    scene.on().update({"k": "2"}, "k = 1")
    scene.on("exp").update({"a": "2"}, "k = 1")
    assert scene.refused()["keys"] == [{"k": 2, "a": 2}]
    scene.on("exp").update({"a": "3"}, "k = 1")
    scene.merge()
    assert scene.rows() == [(2, 2), (2, 3)]


def test_two_rows_that_one_side_gave_one_key_stay_as_they_are(tmp_path: Path) -> None:
    """Nobody enforces a primary key: what a side has twice is no matter of the merge."""
    twice = update("k < 3", k="5")
    scene = keyed(tmp_path, twice, both(update("k = 1", k="6"), update("k = 2", k="7")))
    assert merged(scene, always("ours")) == [3, 5, 5]


STEPS: Mapping[str, Step] = {
    "nothing": nothing,
    "1 to 5": MOVED,
    "2 to 5": update("k = 2", k="5"),
    "1 and 2 swapped": SWAPPED,
    "rotated": update("k > 0", k="CASE WHEN k = 3 THEN 1 ELSE k + 1 END"),
    "1 deleted": delete("k = 1"),
    "1 deleted, inserted": both(delete("k = 1"), append((1, 100, "x"), **KEY)),
    "1 deleted, 2 to 1": both(delete("k = 1"), update("k = 2", k="1")),
    "1 to 5, inserted": both(MOVED, INSERTED),
    "5 inserted": append((5, 50, "m"), **KEY),
    "1 changed": update("k = 1", a="99"),
    "1 to 5, changed, inserted": both(update("k = 1", k="5", a="98"), INSERTED),
}
DECIDED: Mapping[str, Chosen] = {
    "base": always("base"),
    "ours": always("ours"),
    "theirs": always("theirs"),
    "deletes lose": always(lw.Resolve(deletes="lose", rows="ours")),
    "base by columns": always(lw.Resolve(columns={"*": "base"}, deletes="lose")),
    "whole rows": always(lw.Resolve(winner="true", whole_rows=True, rows="theirs")),
    "whole rows of ours": always(lw.Resolve(winner="false", whole_rows=True, rows="ours")),
    "each base": each(take="base"),
    "each theirs": each(take="theirs"),
    "each 3": each(k=3),
    "each ours, 3": each(take="ours", k=3),
}
PAIRS = [*product(STEPS, STEPS)]


@pytest.mark.parametrize("decided", DECIDED)
def test_no_two_rows_have_one_key_after_any_small_history(decided: str, tmp_path: Path) -> None:
    """Every pair of steps has a turn; on a usual day with one of the decisions."""
    number = [*DECIDED].index(decided)
    for at, (here, there) in enumerate(PAIRS):
        if not EVERY_CASE and at % len(DECIDED) != number:
            continue
        scene = keyed(tmp_path / str(at), STEPS[here], STEPS[there])
        found = merged(scene, DECIDED[decided])
        assert found is None or len({*found}) == len(found), (here, there, found)

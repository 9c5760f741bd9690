"""Rules of merges about columns and keys, each taken back alone: random histories miss it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.histories.evolving import evolving
from tests.histories.moving_keys import RULES_OF_SIDES, MovingKeys

import lancewood as lw
from lancewood.engine.schema import merged_columns
from lancewood.jobs.merge import merged_columns as column_checks
from lancewood.jobs.merge import row_merge as plan
from lancewood.jobs.merge import same_key_rows as keyed
from lancewood.jobs.merge.merge_bases import Bases
from lancewood.jobs.merge.merged_columns import comparing
from lancewood.jobs.merge.touched_rows import ThreeWayComparison
from lancewood.model.ids import FieldId
from lancewood.model.schema import Field
from lancewood.rules.lineage import (
    Evidence,
    Lineage,
    as_in,
    by_names,
    merged_in,
    related,
    unheld,
)
from lancewood.rules.merged_schema import _SchemaMerge

Patch = pytest.MonkeyPatch
_STEPS = 40
_HISTORIES = 3
"""Number of histories, from the first one that is known to miss it."""
_AGAIN = 8
"""Number of times that a history in a repository is tried: which of several bases is the first goes
by the hashes of commits, which have times in them."""


def replace_everywhere(patch: Patch, original: Any, other: Any) -> None:
    """Put a function in the place of another one in all modules that import it."""
    name = str(original.__name__)
    for module in [each for at, each in sys.modules.items() if at.startswith("lancewood")]:
        if getattr(module, name, None) is original:
            patch.setattr(module, name, other)


def lists_keep_their_names(patch: Patch) -> None:
    """A list is read under the names that its fields had in the earlier schema."""

    def earlier(wanted: Field, lineage: Lineage, fields: Any, absent: Any = unheld) -> Any:
        older = fields.get(lineage.get(wanted.id))
        if older is not None and wanted.logical_type.startswith("list"):
            return replace(older, name=wanted.name)
        return as_in(wanted, lineage, fields, absent)

    replace_everywhere(patch, as_in, earlier)


def _fields_by(patch: Patch, key: Callable[[Field], object]) -> None:
    """Fields of structs are the same if they have the same ``key``."""

    def earlier(
        wanted: Field, lineage: Lineage, fields: Mapping[FieldId, Field], absent: Any = unheld
    ) -> Any:
        older = fields.get(lineage.get(wanted.id, FieldId(-1)))
        if older is None or wanted.logical_type != "struct":
            return as_in(wanted, lineage, fields, absent)
        by_key = {key(child): child for child in older.children}
        children = [
            replace(by_key[key(child)], name=child.name) if key(child) in by_key else absent(child)
            for child in wanted.children
        ]
        return replace(wanted, id=older.id, children=tuple(children))

    replace_everywhere(patch, as_in, earlier)


def fields_of_structs_go_by_id(patch: Patch) -> None:
    """A field of a struct that was cast is another one, since a cast gives it another id."""
    _fields_by(patch, lambda field: field.id)


def fields_of_structs_go_by_name(patch: Patch) -> None:
    """A field of a struct that was renamed is another one."""
    _fields_by(patch, lambda field: field.name)


def versions_between_are_not_asked(patch: Patch) -> None:
    """A column that was renamed and cast was dropped, and another one added."""

    def by_ends(earlier: Any, later: Any, evidence: Evidence) -> Any:
        return related(earlier, later, Evidence(evidence.is_renamed, dict))

    replace_everywhere(patch, related, by_ends)


def merges_do_not_say_which_columns_they_brought(patch: Patch) -> None:
    """A column that a merge renamed is another one in what was merged."""
    replace_everywhere(patch, merged_in, lambda properties, merged, after: by_names(merged, after))


def rows_that_theirs_kept_are_not_converted(patch: Patch) -> None:
    """Rows of ours are left under the old id of a column where no file of theirs held it."""
    patch.setattr(
        plan, "ThreeWayComparison", lambda *arguments: ThreeWayComparison(*arguments[:-1])
    )


def keys_that_come_out_are_not_compared(patch: Patch) -> None:
    """What is decided may give two rows one key."""
    patch.setattr(plan.RowMerge, "shared_keys", lambda self, met, found: None)


def losers_of_a_key_take_back_theirs(patch: Patch) -> None:
    """A row that does not get its key has its earlier one again, whoever has that by now."""
    keys_that_come_out_are_not_compared(patch)
    patch.setattr(keyed, "_addresses", lambda rows: [])


def merged_columns_are_not_followed(patch: Patch) -> None:
    """A column that came by a merge and was renamed afterwards is another one."""
    replace_everywhere(patch, merged_columns, lambda held, holder: {})


def dropped_fields_are_not_compared(patch: Patch) -> None:
    """A field inside of a column that one side dropped goes, whatever the other did to it."""
    is_kept, keeps_inside = _SchemaMerge._is_kept, _SchemaMerge._keeps_inside

    def quiet(decide: Any) -> Any:
        def decided(self: Any, three: Any, path: Any, *arguments: Any) -> Any:
            known = len(self.lost)
            found = decide(self, three, path, *arguments)
            if path:
                del self.lost[known:]
            return found

        return decided

    patch.setattr(_SchemaMerge, "_is_kept", quiet(is_kept))
    patch.setattr(_SchemaMerge, "_keeps_inside", quiet(keeps_inside))


def bases_are_one(patch: Patch) -> None:
    """Of several bases the first alone is asked which columns there were."""
    patch.setattr(plan, "names_in_bases", lambda bases: frozenset())
    patch.setattr(plan, "with_columns_first", lambda bases, ours, theirs: bases)
    patch.setattr(Bases, "is_crossed_once", property(lambda self: False))


def rows_inserted_again_are_not_compared(patch: Patch) -> None:
    """Cells of a dropped column are compared in rows of one id, and not by the primary key."""
    patch.setattr(column_checks, "plan_diff", comparing)


def keys_of_others_are_not_looked_for(patch: Patch) -> None:
    """A row that a rule brings back may have the key that another row got meanwhile."""
    keys_that_come_out_are_not_compared(patch)
    patch.setattr(keyed, "_with_key_taken", lambda met, columns, got: met)


def evolve(uri: str, seed: int) -> None:
    evolving(uri, seed).run(_STEPS)


def move_keys(uri: str, seed: int) -> None:
    MovingKeys(uri, Random(seed)).run(_STEPS)


def move_keys_of_sides(uri: str, seed: int) -> None:
    """No rule gives a row the key that the base has."""
    MovingKeys(uri, Random(seed), RULES_OF_SIDES).run(_STEPS)


TAKEN_BACK: dict[Callable[[Patch], None], tuple[Callable[[str, int], None], int]] = {
    lists_keep_their_names: (evolve, 2),
    fields_of_structs_go_by_id: (evolve, 1),
    fields_of_structs_go_by_name: (evolve, 1),
    versions_between_are_not_asked: (evolve, 0),
    merged_columns_are_not_followed: (evolve, 179),
    dropped_fields_are_not_compared: (evolve, 5),
    bases_are_one: (evolve, 256),
    merges_do_not_say_which_columns_they_brought: (evolve, 564),
    rows_that_theirs_kept_are_not_converted: (evolve, 72),
    rows_inserted_again_are_not_compared: (evolve, 37),
    keys_of_others_are_not_looked_for: (move_keys_of_sides, 45),
    losers_of_a_key_take_back_theirs: (move_keys_of_sides, 8),
    keys_that_come_out_are_not_compared: (move_keys, 44),
}
"""Who notices, and from which seed on."""


@pytest.mark.sliced(3)
@pytest.mark.parametrize("take_back", TAKEN_BACK)
def test_a_rule_that_is_taken_back_is_missed(
    take_back: Callable[[Patch], None], tmp_path: Path, monkeypatch: Patch
) -> None:
    run, first = TAKEN_BACK[take_back]
    seeds = [first] * _AGAIN if take_back is bases_are_one else range(first, first + _HISTORIES)

    def misses(at: int, seed: int) -> bool:
        try:
            run(str(tmp_path / str(at)), seed)
        except (AssertionError, lw.LancewoodError):
            return True
        return False

    take_back(monkeypatch)
    assert any(misses(at, seed) for at, seed in enumerate(seeds))

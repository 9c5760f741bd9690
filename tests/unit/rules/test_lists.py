from __future__ import annotations

import pytest
from tests.metadata import data_file
from tests.unit.rules.manifests import FIELDS, fragment, index, start, with_deleted

from lancewood.errors import InvalidInputError
from lancewood.model.fragment import DataFile, Fragment
from lancewood.model.ids import BaseId, FieldId, FragmentId, Version
from lancewood.model.transaction import (
    Append,
    CreateIndex,
    DataReplacement,
    Delete,
    MapUpdate,
    Merge,
    Operation,
    Overwrite,
    Replacement,
    ReserveFragments,
    Restore,
    Rewrite,
    RewriteGroup,
    Update,
    UpdateConfig,
)
from lancewood.rules.overlaps import check_list, dependence

ZERO, ONE = FragmentId(0), FragmentId(1)
F0 = fragment("f", 3).numbered(ZERO)
F1 = fragment("g", 3).numbered(ONE)
ON_ZERO: list[Operation] = [
    Delete((with_deleted(F0, 1),), ()),
    Delete((), (ZERO,)),
    Update((), (with_deleted(F0, 1),), ()),
    Rewrite((RewriteGroup((F0,), (F1,)),)),
    DataReplacement((Replacement(ZERO, data_file("h", 0)),)),
    Merge((F0, F1), FIELDS),
]


@pytest.mark.parametrize("second", ON_ZERO, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("first", ON_ZERO, ids=lambda each: type(each).__name__)
def test_two_operations_on_one_fragment_do_not_go_into_one_list(
    first: Operation, second: Operation
) -> None:
    check_list([first])
    with pytest.raises(InvalidInputError, match="both change fragment 0"):
        check_list([first, Append((F0,)), second])


def test_operations_on_other_fragments_do() -> None:
    check_list([ON_ZERO[0], Delete((with_deleted(F1, 1),), ())])
    check_list([Append((F0,)), Append((F0,)), ReserveFragments(1), ON_ZERO[0]])
    check_list([ON_ZERO[0], UpdateConfig(config=MapUpdate({"a": "1"})), Overwrite((F0,), FIELDS)])
    check_list([])


BASE = start(F0, F1)
"""Version 1, which has fragments 0 and 1."""
F2 = fragment("h", 3).numbered(FragmentId(2))
ELSEWHERE = Fragment.make([DataFile.make("e", [FieldId(0)], [0], (2, 2), 1, BaseId(3))], 3)


def test_steps_that_name_only_what_the_base_has_could_have_been_built_on_it() -> None:
    assert dependence(BASE, [Append((F0,)), Delete((with_deleted(F1, 1),), ())]) is None
    assert dependence(BASE, [ReserveFragments(2), Append((F0,)), Restore(Version(1))]) is None
    assert dependence(BASE, [Overwrite((F0,), FIELDS), Append((F0,))]) is None
    assert dependence(BASE, []) is None


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (Delete((with_deleted(F2, 1),), ()), "Delete rests on fragment 2"),
        (Delete((), (FragmentId(2),)), "Delete rests on fragment 2"),
        (Update((), (with_deleted(F2, 1),), (F0,)), "Update rests on fragment 2"),
        (Rewrite((RewriteGroup((F0,), (F2,)),)), "Rewrite rests on fragment 2"),
        (DataReplacement((Replacement(FragmentId(2), data_file("h", 0)),)), "rests on fragment 2"),
        (Merge((F0, F1, F2), FIELDS), "Merge rests on fragment 2"),
        (CreateIndex((index("i", [0], [0, 2], "BTree"),), ()), "CreateIndex rests on fragment 2"),
        (Restore(Version(2)), "goes back to version 2"),
        (Append((ELSEWHERE,)), "base path 3"),
        (Update((), (), (ELSEWHERE,)), "base path 3"),
        (Overwrite((ELSEWHERE,), FIELDS), "base path 3"),
    ],
)
def test_a_step_that_names_what_an_earlier_one_made_depends_on_it(
    step: Operation, why: str
) -> None:
    found = dependence(BASE, [Append((F0,)), step])
    assert found is not None
    assert why in found


@pytest.mark.parametrize("second", ON_ZERO, ids=lambda each: type(each).__name__)
def test_two_steps_on_one_fragment_depend_on_each_other(second: Operation) -> None:
    found = dependence(BASE, [ON_ZERO[0], second])
    assert found is not None
    assert "both change fragment 0" in found

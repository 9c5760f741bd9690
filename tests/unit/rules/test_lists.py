from __future__ import annotations

import pytest
from tests.unit.rules.manifests import FIELDS, file, fragment, with_deleted

from lancewood.errors import InvalidInputError
from lancewood.model.ids import FragmentId
from lancewood.model.operations import (
    Append,
    DataReplacement,
    Delete,
    MapUpdate,
    Merge,
    Operation,
    Overwrite,
    Replacement,
    ReserveFragments,
    Rewrite,
    RewriteGroup,
    Update,
    UpdateConfig,
)
from lancewood.rules.lists import check_list

ZERO, ONE = FragmentId(0), FragmentId(1)
F0 = fragment("f", 3).numbered(ZERO)
F1 = fragment("g", 3).numbered(ONE)
ON_ZERO: list[Operation] = [
    Delete((with_deleted(F0, 1),), ()),
    Delete((), (ZERO,)),
    Update((), (with_deleted(F0, 1),), ()),
    Rewrite((RewriteGroup((F0,), (F1,)),)),
    DataReplacement((Replacement(ZERO, file("h", 0)),)),
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

"""All tables that refuse are told at once; a store that fails is told as what it is."""

from __future__ import annotations

import pytest

from lancewood.errors import IncompatibleConflictError, NotFoundError, StorageError
from lancewood.repo.outcome import Refusals


def test_all_that_refuse_are_named_in_order() -> None:
    refusals = Refusals()
    refusals.check("it cannot be done")
    refusals.add("photos", NotFoundError("table 'photos': its version is gone"))
    refusals.add("labels", "it was changed")
    with pytest.raises(IncompatibleConflictError) as refused:
        refusals.check("it cannot be done")
    assert refused.value.message == (
        "it cannot be done, and nothing has changed. table 'labels': it was changed; "
        "table 'photos': its version is gone"
    )
    assert refused.value.facts["tables"] == {
        "labels": "it was changed",
        "photos": "its version is gone",
    }


def test_what_holds_for_several_is_said_once() -> None:
    refusals = Refusals()
    for name, why in {"c": "gone", "b": "changed", "a": "gone"}.items():
        refusals.add(name, why)
    with pytest.raises(IncompatibleConflictError) as refused:
        refusals.check("no")
    assert refused.value.message == (
        "no, and nothing has changed. tables 'a', 'c': gone; table 'b': changed"
    )
    assert refused.value.facts["tables"] == {"a": "gone", "b": "changed", "c": "gone"}


def test_a_store_that_fails_is_no_refusal() -> None:
    with pytest.raises(StorageError, match="no answer"):
        Refusals().add("photos", StorageError("no answer"))
